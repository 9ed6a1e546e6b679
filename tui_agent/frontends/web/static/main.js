// Connects the event stream and the controls of the page.

import { $, el, button, copy, flash, plural } from "./dom.js";
import { PlanPanel } from "./plan.js";
import { Dock, approval, conflict, plan, question, summary } from "./requests.js";
import { Transcript, planView } from "./transcript.js";
import { follow, post } from "./wire.js";
import { Composer } from "./composer.js";

const MODES = ["agent", "direct", "chat", "plan", "explore", "review", "deep-explore"];
const APPROVALS = [["ask", "ask first"], ["auto-edit", "edits allowed"], ["auto", "all but risky"], ["read-only", "read-only"]];
const PHASES = { connecting: "Connecting", loading: "Loading the model", reading: "Reading", thinking: "Thinking", writing: "Writing" };
const ROLES = { dispatcher: "Classifying the request", planning: "Planning", replanning: "Replanning", judging: "Checking the outcome", diagnosing: "Diagnosing the failure", mending: "Repairing the plan document", summary: "Writing the summary", title: "Naming the session", explorer: "Exploring" };

const state = { busy: false, since: 0, doing: "", purpose: "", model: "", workspace: "", said: 0, shut: false };
const transcript = new Transcript();
const isWide = matchMedia("(min-width: 62rem)");
const plans = new PlanPanel(say, showPlan);
const dock = new Dock($("dock"), say, refreshStatus);
const queue = new Map();
const steps = new Map();  // node of a step → number
const plansAsked = new Set();  // plans that needed approval
const composer = new Composer(say, () => state.busy);

let hint = "";
let hintTimer = 0;
function say(words) {
  hint = words;
  clearTimeout(hintTimer);
  hintTimer = setTimeout(() => { hint = ""; refreshStatus(); }, 5000);
  refreshStatus();
}

function refreshStatus() {
  const seconds = Math.floor((Date.now() - state.since) / 1000);
  const line = hint || (dock.size ? "Waiting for you" : state.busy ? `${state.doing || "Working"}${seconds > 2 && seconds < 86400 ? ` · ${seconds} s` : ""}` : "");
  const activity = $("activity");
  if (activity.textContent !== line) activity.textContent = line;
  activity.className = hint ? "said" : dock.size ? "asks" : state.busy ? "busy" : "";
  $("stop").hidden = !state.busy;
  document.title = `${dock.size ? "● " : state.busy ? "… " : ""}${$("title").textContent} · tui-agent`;
}
setInterval(refreshStatus, 1000);

function setActivity(words) {
  state.doing = words;
  refreshStatus();
}

function showWorkspace() {
  $("place").textContent = [state.workspace.replace(/^.*\/(?=[^/]+$)/, ""), state.model].filter(Boolean).join(" · ");
  $("place").title = state.workspace;
}

function showModes(data) {
  $("mode").value = data.mode;
  $("approvals").value = data.approval_mode;
}

function showQueue() {
  $("queue").replaceChildren(...[...queue].map(([id, text]) => el("li", {}, el("span", { text }),
    button("Withdraw", () => post("/withdraw", { id }).catch((error) => say(error.message)), { class: "quiet small" }))));
}

const handlers = {
  "session.opened": ({ data }) => {
    dock.clear();
    state.model = data.model;
    state.workspace = data.workspace;
    showWorkspace();
    showModes(data);
    plans.session(data.id);
    if (data.resumed) transcript.divider("Session resumed");
    if (!data.trusted) say("This folder is not trusted yet.");
  },
  "session.titled": ({ data }) => { $("title").textContent = data.title || "tui-agent"; refreshStatus(); },
  "session.closed": () => { state.busy = false; dock.clear(); showConnection("The session was closed and saved; tui-agent --continue resumes it."); state.shut = true; },
  "mode.changed": ({ data }) => showModes(data),
  "model.changed": ({ data }) => { state.model = data.model; showWorkspace(); },
  "history.cut": () => transcript.divider("The older part of this session is not shown here"),
  "notice": ({ data }) => { transcript.notice(data.level, data.text); plans.told(data); },
  "user.said": ({ data }) => {
    queue.delete(data.id);
    showQueue();
    state.said += 1;
    transcript.user(data.text, data.steering);
  },
  "message.queued": ({ data }) => { queue.set(data.id, data.text); showQueue(); },
  "message.changed": ({ data }) => { if (queue.has(data.id)) queue.set(data.id, data.text); showQueue(); },
  "message.withdrawn": ({ data }) => { queue.delete(data.id); showQueue(); },
  "shell.ran": ({ data }) => transcript.shell(data),
  "context.attached": ({ data }) => transcript.notice("info", `Attached: ${data.items.map((one) => one.display).join(", ")}`),
  "context.measured": ({ data }) => {
    const share = data.used && data.limit ? Math.round((100 * data.used) / data.limit) : null;
    $("window").textContent = share === null ? "" : `${share}% of the model's window`;
  },
  "context.compacted": ({ data }) => { if (data.before) transcript.divider(`Earlier messages were summarized for the model: ${data.before.toLocaleString("en")} → ${data.after.toLocaleString("en")} tokens`); },
  "run.started": ({ at }) => { state.busy = true; state.since = Date.parse(at); setActivity("Working"); },
  "run.ended": ({ data }) => { state.busy = false; transcript.finish(data); setActivity(""); },
  "reply.started": ({ node, data }) => { state.purpose = data.purpose || data.role; transcript.begin(node, data.role); setActivity(ROLES[state.purpose] ?? "Connecting"); },
  "reply.phase": ({ data }) => setActivity(ROLES[state.purpose] ?? [PHASES[data.phase], data.total ? `${data.done.toLocaleString("en")} of ${data.total.toLocaleString("en")} tokens` : data.detail].filter(Boolean).join(" ")),
  "text": ({ node, content }) => transcript.text(node, content),
  "reply.thought": ({ node, data }) => transcript.thought(node, data.text),
  "reply.ended": ({ node, data }) => { state.purpose = ""; transcript.ended(node, data); },
  "retry.waiting": ({ data }) => setActivity(`${data.why} · retrying (${data.attempt} of ${data.of})`),
  "tool": (told) => { transcript.tool(told.node, told); setActivity(told.title || told.name); },
  "tool.output": ({ node, data }) => transcript.card(node)?.output(data.text),
  "tool.finished": ({ node, data }) => { transcript.card(node)?.finish(data); setActivity("Working"); },
  "file.changed": ({ node, data }) => transcript.changed(node, data.diff),
  "file.diagnosed": ({ node, data }) => { if (data.found.length) transcript.card(node)?.wrong(data.found); },
  "command.changed": ({ data }) => transcript.notice("info", `This command changed files; undo can't revert that: ${[...data.created, ...data.changed, ...data.deleted].slice(0, 5).join(", ")}`),
  "approval.asked": ({ data }) => dock.ask(data.id, approval(data, say)),
  "approval.answered": ({ node, data }) => { dock.settle(data.id, closedReason(data.answer.verdict)); transcript.card(node)?.decided(data.answer); },
  "approval.voided": ({ data }) => dock.voided(data.id, data.reason),
  "question.asked": ({ data }) => dock.ask(data.id, question(data)),
  "question.answered": ({ data }) => { dock.settle(data.id, closedReason(data.answer.verdict)); if (data.answer.verdict === "reply") transcript.notice("info", `You answered: ${data.answer.text}`); },
  "plan.proposed": ({ data }) => {
    if (data.asks) {
      plansAsked.add(data.id);
      dock.ask(data.id, plan(data, planView(data.plan), say));
    } else if (!data.fallback) transcript.proposed(data);
  },
  "plan.reviewed": ({ data }) => {
    dock.settle(data.id, closedReason(data.answer.verdict));
    if (plansAsked.delete(data.id) && data.answer.verdict === "approve" && data.alternative === null) transcript.proposed({ plan: data.plan });
  },
  "step.started": ({ node, data }) => { steps.set(node, data.step.number); transcript.step(data.step.number, "running"); },
  "step.finished": ({ node, data }) => transcript.step(steps.get(node), data.outcome, data.text),
  "summary.offered": ({ data }) => dock.ask(data.id, summary(data, say)),
  "summary.settled": ({ data }) => { dock.settle(data.id, closedReason(data.outcome)); if (data.outcome === "accepted" || data.outcome === "edited") transcript.notice("info", `Added to the plan: ${data.summary.action}`); },
  "plan_doc.changed": ({ data }) => plans.changed(data),
  "plan_doc.conflict": ({ data }) => { dock.ask(data.id, conflict(data)); plans.conflict(); },
  "plan_doc.settled": ({ data }) => { dock.settle(data.id); if (data.id === "proposal") plans.settled(); },
  "undo.done": ({ data }) => transcript.notice("info", `${{ undo: "Undone", redo: "Redone", rewind: "Rewound" }[data.kind]}: ${plural(data.items.length, "file")}`),
  "conversation.rewound": ({ data }) => {
    if (data.cleared) {
      transcript.empty();
      transcript.divider("Cleared: the model no longer sees earlier messages");
    } else transcript.divider(data.run ? "The model no longer sees the last part of the conversation" : "The conversation is restored");
  },
};

/** The reason shown for a request that was not answered in this page. */
function closedReason(how) {
  if (how === "withdrawn") return "The request was withdrawn.";
  if (how === "pending") return "Postponed: it is offered again at the next start.";
  return "This was decided elsewhere.";
}

// Ignore Enter auto-repeat, so that a key held down decides nothing, except in multi-line fields.
addEventListener("keydown", (event) => {
  if (!event.repeat || event.key !== "Enter") return;
  const types = event.target.matches?.("textarea.lines, textarea.doc") ? !event.ctrlKey && !event.metaKey : event.target === $("say") && event.shiftKey;
  if (types) return;
  event.preventDefault();
  event.stopPropagation();
}, true);

function showConnection(words) {
  $("away").textContent = words;
  $("away").hidden = !words;
}

follow(
  (name, data) => { handlers[name]?.(data); },
  (word) => {
    if (state.shut) return;
    showConnection({ open: "", lost: "Connection lost; reconnecting…", shut: "This page is closed. Open it again with a new link from tui-agent." }[word]);
  },
);

for (const one of MODES) $("mode").append(el("option", { value: one, text: one }));
for (const [value, words] of APPROVALS) $("approvals").append(el("option", { value, text: words }));
$("mode").addEventListener("change", (event) => post("/modes", { mode: event.target.value }).catch((error) => say(error.message)));
$("approvals").addEventListener("change", (event) => post("/modes", { approval_mode: event.target.value }).catch((error) => say(error.message)));
$("stop").addEventListener("click", () => post("/interrupt").catch((error) => say(error.message)));
$("clear").addEventListener("click", () => composer.clear($("clear")));
$("new-link").addEventListener("click", async () => {
  try {
    const { link } = await post("/link");
    await copy(link, $("new-link"));
    say("Copied a link for another browser on this machine. It works once, within ten minutes.");
  } catch (error) { say(error.message); }
});

function showPlan(open) {
  document.body.classList.toggle("with-plan", open);
  $("see-plan").setAttribute("aria-expanded", String(open));
}
$("see-plan").addEventListener("click", () => showPlan(!document.body.classList.contains("with-plan")));
$("hide-plan").addEventListener("click", () => showPlan(false));
isWide.addEventListener("change", () => showPlan(isWide.matches || plans.editor !== null));
showPlan(isWide.matches || plans.editor !== null);
plans.show();

$("look").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.look ? root.dataset.look === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.look = dark ? "light" : "dark";
  try { localStorage.setItem("tui-agent-look", root.dataset.look); } catch { flash($("look"), "Not saved"); }
});
