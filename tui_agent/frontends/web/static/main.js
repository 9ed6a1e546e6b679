// Connects the event stream and the controls of the page.

import { $, el, button, copy, flash, plural } from "./dom.js";
import { PlanPanel } from "./plan.js";
import { RunSteps } from "./run_steps.js";
import { Dock, approval, conflict, isField, plan, question, summary } from "./requests.js";
import { RENDERED, render } from "./rendering.js";
import { Transcript, planView } from "./transcript.js";
import { Viewport } from "./viewport.js";
import { follow, post, typing } from "./wire.js";
import { chooseModel, chooseSession } from "./choices.js";
import { Composer } from "./composer.js";
import { closeHelp, showHelp } from "./help.js";

const THEMES = ["dark", "light"];
const PHASES = { connecting: "Connecting", loading: "Loading the model", reading: "Reading", thinking: "Thinking", writing: "Writing" };
const ROLES = { dispatcher: "Classifying the request", planning: "Planning", replanning: "Replanning", judging: "Checking the outcome", diagnosing: "Diagnosing the failure", mending: "Repairing the plan document", summary: "Writing the summary", title: "Naming the session", explorer: "Exploring" };

const state = { busy: false, startedAt: 0, activity: "", purpose: "", model: "", workspace: "", isClosed: false };
const transcript = new Transcript($("items"));
const viewport = new Viewport(transcript, report);
const isWide = matchMedia("(min-width: 62rem)");
const runSteps = new RunSteps();
const planPanel = new PlanPanel(report, showPlan, runSteps);
const dock = new Dock($("dock"), report, refreshStatus, stop);
const queue = new Map();
/** Commands that only change what the page shows. */
const PAGE_COMMANDS = {
  plan: () => showPlan(true),
  theme: (theme) => setTheme(theme),
  top: () => viewport.toTop(),
  end: () => viewport.followEnd(),
  model: () => chooseModel(report),
  sessions: () => chooseSession(report),
  resume: () => chooseSession(report),
  web: () => $("new-link").click(),
  help: () => showHelp(typed),
  commands: () => showHelp(typed),
};
const composer = new Composer(report, PAGE_COMMANDS, () => viewport.followEnd(), (text, isDiff) => { transcript.commandReply(text, isDiff); viewport.followEnd(); });
const typed = { commands: [], keys: {}, key_texts: {} };  // what the help shows; see `typing`

let message = "";
let messageTimer = 0;

/** Show a message, such as an error, for some seconds. */
function report(text) {
  message = text;
  clearTimeout(messageTimer);
  messageTimer = setTimeout(() => { message = ""; refreshStatus(); }, 5000);
  refreshStatus();
}

const reportError = (error) => report(error.message);

function refreshStatus() {
  const seconds = Math.floor((Date.now() - state.startedAt) / 1000);
  const elapsed = seconds > 2 && seconds < 86400 ? ` · ${seconds} s` : "";
  const line = message || (dock.size ? "Waiting for you" : state.busy ? `${state.activity || "Working"}${elapsed}` : "");
  const activity = $("activity");
  if (activity.textContent !== line) activity.textContent = line;
  activity.className = message ? "message" : dock.size ? "pending" : state.busy ? "busy" : "";
  $("stop").hidden = !state.busy;
  document.title = `${dock.size ? "● " : state.busy ? "… " : ""}${$("title").textContent} · tui-agent`;
}
setInterval(() => { refreshStatus(); runSteps.tick(); }, 1000);

function setActivity(text) {
  state.activity = text;
  refreshStatus();
}

function showWorkspace() {
  $("workspace").textContent = state.workspace.replace(/^.*\/(?=[^/]+$)/, "");
  $("workspace").title = state.workspace;
  $("model-name").textContent = [state.model || "Model", state.effort && `effort ${state.effort}`].filter(Boolean).join(" · ");
}

function showModes(data) {
  for (const [id, mode] of [["mode", data.mode], ["approvals", data.approval_mode]]) {
    if (![...$(id).options].some(({ value }) => value === mode)) $(id).append(el("option", { value: mode, text: mode }));
    $(id).value = mode;
  }
}

function showQueue() {
  $("queue").replaceChildren(...[...queue].map(([id, text]) => el("li", {}, el("span", { text }),
    button("Withdraw", () => post("/withdraw", { id }).catch(reportError), { class: "quiet small" }))));
}

/** Name of an event → what it changes apart from the transcript. */
const handlers = {
  "session.opened": ({ data }) => {
    dock.clear();
    state.isClosed = false;  // a resumed session was closed before
    state.busy = false;
    state.model = data.model;
    state.workspace = data.workspace;
    showConnection("");
    showWorkspace();
    showModes(data);
    planPanel.setSession(data.id);
    if (!data.trusted) report("This folder is not trusted yet.");
  },
  "session.titled": ({ data }) => { $("title").textContent = data.title || "tui-agent"; refreshStatus(); },
  "session.closed": () => {
    state.busy = false;
    state.isClosed = true;
    dock.clear();
    showConnection("The session was closed and saved; tui-agent --continue resumes it.");
  },
  "mode.changed": ({ data }) => showModes(data),
  "trust.changed": ({ data }) => report(data.trusted ? "This folder is trusted now." : "This folder is not trusted any longer."),
  "model.changed": ({ data }) => { state.model = data.model; state.effort = data.effort; showWorkspace(); },
  "effort.changed": ({ data }) => { state.effort = data.effective; showWorkspace(); },
  "notice": ({ data }) => planPanel.notice(data),
  "user.said": ({ data }) => { queue.delete(data.id); showQueue(); },
  "message.queued": ({ data }) => { queue.set(data.id, data.text); showQueue(); },
  "message.changed": ({ data }) => { if (queue.has(data.id)) queue.set(data.id, data.text); showQueue(); },
  "message.withdrawn": ({ data }) => { queue.delete(data.id); showQueue(); },
  "context.measured": ({ data }) => {
    const share = data.used && data.limit ? Math.round((100 * data.used) / data.limit) : null;
    $("context-window").textContent = share === null ? "" : `${share}% of the model's window`;
  },
  "run.started": ({ at }) => { state.busy = true; state.startedAt = Date.parse(at); setActivity("Working"); runSteps.clear(); planPanel.setRunning(true); },
  "run.ended": () => { state.busy = false; setActivity(""); runSteps.end(); planPanel.setRunning(false); viewport.trim(); },
  "step.started": ({ node, at, data }) => { runSteps.start(node, at, data.step); planPanel.showState(); },
  "step.finished": ({ node, data }) => runSteps.finish(node, data),
  "reply.started": ({ data }) => { state.purpose = data.purpose || data.role; setActivity(ROLES[state.purpose] ?? "Connecting"); },
  "reply.phase": ({ data }) => setActivity(ROLES[state.purpose] ?? [PHASES[data.phase], data.total ? `${data.done.toLocaleString("en")} of ${data.total.toLocaleString("en")} tokens` : data.detail].filter(Boolean).join(" ")),
  "reply.ended": () => { state.purpose = ""; viewport.trim(); },
  "retry.waiting": ({ data }) => setActivity(`${data.why} · retrying (${data.attempt} of ${data.of})`),
  "tool": (call) => setActivity(call.title || call.name),
  "tool.finished": () => setActivity("Working"),
  "approval.asked": ({ data }) => dock.add(data.id, approval(data, report)),
  "approval.answered": ({ data }) => dock.settle(data.id, closedReason(data.answer.verdict)),
  "approval.voided": ({ data }) => dock.invalidate(data.id, data.reason),
  "question.asked": ({ data }) => dock.add(data.id, question(data)),
  "question.answered": ({ data }) => dock.settle(data.id, closedReason(data.answer.verdict)),
  "plan.proposed": ({ data }) => {
    if (data.asks) dock.add(data.id, plan(data, planView(data.plan), report, stop));
    else if (!data.fallback) runSteps.setPlan(data.plan);
  },
  "plan.reviewed": ({ data }) => {
    dock.settle(data.id, closedReason(data.answer.verdict));
    if (data.answer.verdict === "approve" && data.alternative === null) runSteps.setPlan(data.plan);
  },
  "summary.offered": ({ data }) => dock.add(data.id, summary(data, report)),
  "summary.settled": ({ data }) => dock.settle(data.id, closedReason(data.outcome)),
  "plan_doc.changed": ({ data }) => planPanel.update(data),
  "plan_doc.conflict": ({ data }) => { dock.add(data.id, conflict(data)); planPanel.conflict(); },
  "plan_doc.settled": ({ data }) => { dock.settle(data.id); if (data.id === "proposal") planPanel.proposalSettled(); },
  "conversation.rewound": ({ data }) => { if (data.cleared) viewport.clear(); },
};

function receive(name, event) {
  render(transcript, name, event);
  handlers[name]?.(event);
}

/** Show the newest part of the session, and what still matters of the rest. */
function start({ state: earlier, events, before, cut }) {
  if (cut && !before) receive("history.cut", {});
  for (const [name, event] of earlier) receive(name, { ...event, isState: true });
  for (const [name, event] of events) receive(name, event);
  viewport.setOlder(before);
  viewport.followEnd();
  viewport.fillLater();
}

/** The reason shown for a request that was not answered in this page. */
function closedReason(outcome) {
  if (outcome === "withdrawn") return "The request was withdrawn.";
  if (outcome === "pending") return "Postponed: it is offered again at the next start.";
  return "This was decided elsewhere.";
}

// Ignore Enter auto-repeat, so that a key held down decides nothing, except in multi-line fields.
addEventListener("keydown", (event) => {
  if (!event.repeat || event.key !== "Enter") return;
  const isMultiline = event.target.matches?.("textarea.multiline, textarea.document-text");
  if (isMultiline ? !event.ctrlKey && !event.metaKey : event.target === $("message") && event.shiftKey) return;
  event.preventDefault();
  event.stopPropagation();
}, true);

function showConnection(text) {
  $("connection").textContent = text;
  $("connection").hidden = !text;
}

follow(new Set([...RENDERED, ...Object.keys(handlers)]), start, receive, (connection) => {
  if (!state.isClosed || connection === "closed") showConnection({ open: "", lost: "Connection lost; reconnecting…", closed: "This page is closed. Open it again with a new link from tui-agent." }[connection]);
});

/** Stop the run, and say so: it may have been a key. */
async function stop() {
  if (!state.busy && !dock.size) return;
  try {
    await post("/interrupt");
    report("Stopped. What was done so far is kept.");
  } catch (error) { reportError(error); }
}

/** Esc closes what is open before it stops anything; see `Dock.escape` for requests. */
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || event.repeat) return;
  const { target } = event;
  if (target.closest?.("dialog, aside") || document.querySelector("dialog[open]")) return;
  if (!isWide.matches && document.body.classList.contains("with-plan")) { showPlan(false); return; }
  if (isField(target) && target !== $("message") && !$("dock").contains(target)) return;
  if (dock.escape(target)) return;
  if (target === $("message")) stop();
  else $("message").focus();
});

addEventListener("keydown", (event) => {
  const isHelp = event.key === "F1" || (event.key === "?" && !isField(event.target));
  if (!isHelp || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  if (!closeHelp() && !document.querySelector("dialog[open]")) showHelp(typed);
}, true);

typing().then((answer) => {
  const commands = answer.commands.filter(({ name, runs_here: runsHere }) => runsHere || name in PAGE_COMMANDS);
  for (const command of commands) {
    const values = Object.entries(command.arguments);
    if (!command.runs_here) command.arguments = Object.fromEntries(command.name === "theme" ? values.filter(([value]) => THEMES.includes(value)) : []);
  }
  composer.completion.commands = commands;
  Object.assign(typed, answer, { commands });
  listModes("mode");
  listModes("approvals");
  dock.setKeys(answer.keys);
  composer.setDraft(answer.draft);
}).catch(() => {});  // shown again as lost by the stream

/** List the values of a command, each with its explanation, as on the screen, where browsers can show it. */
function listModes(id) {
  const list = $(id);
  const { value: current } = list;
  const modes = typed.commands.find(({ name }) => name === id)?.arguments ?? {};
  for (const option of [...list.options]) option.remove();  // its button stays
  for (const [mode, title] of Object.entries(modes)) {
    const isShown = CSS.supports("appearance", "base-select") && title;
    list.append(el("option", { value: mode, title }, mode, isShown ? el("small", { text: title }) : null));
  }
  list.value = current;  // empty if the session has not told it yet
}
$("mode").addEventListener("change", (event) => post("/modes", { mode: event.target.value }).catch(reportError));
$("approvals").addEventListener("change", (event) => post("/modes", { approval_mode: event.target.value }).catch(reportError));
$("stop").addEventListener("click", stop);
$("clear").addEventListener("click", () => composer.clear($("clear")));
$("model").addEventListener("click", () => chooseModel(report).catch(reportError));
$("sessions").addEventListener("click", () => chooseSession(report).catch(reportError));
$("new-link").addEventListener("click", async () => {
  try {
    const { link } = await post("/link");
    await copy(link, $("new-link"));
    report("Copied a link for another browser on this machine. It works once, within ten minutes.");
  } catch (error) { reportError(error); }
});

function showPlan(isOpen) {
  document.body.classList.toggle("with-plan", isOpen);
  $("show-plan").setAttribute("aria-expanded", String(isOpen));
}
$("show-plan").addEventListener("click", () => showPlan(!document.body.classList.contains("with-plan")));
$("hide-plan").addEventListener("click", () => showPlan(false));
isWide.addEventListener("change", () => showPlan(isWide.matches || planPanel.editor !== null));
showPlan(isWide.matches || planPanel.editor !== null);
planPanel.show();

/** Show the page `light` or `dark`; "" for the other one. */
function setTheme(theme) {
  const root = document.documentElement;
  if (theme && !THEMES.includes(theme)) throw new Error(`/theme takes ${THEMES.join(" or ")} here`);
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = theme || (dark ? "light" : "dark");
  try { localStorage.setItem("tui-agent-theme", root.dataset.theme); } catch { flash($("theme"), "Not saved"); }
}
$("theme").addEventListener("click", () => setTheme(""));
