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

const state = { busy: false, startedAt: 0, activity: "", purpose: "", model: "", workspace: "", closed: false };
const transcript = new Transcript();
const isWide = matchMedia("(min-width: 62rem)");
const planPanel = new PlanPanel(report, showPlan);
const dock = new Dock($("dock"), report, refreshStatus);
const queue = new Map();
const steps = new Map();  // node of a step → number
const plansForApproval = new Set();
const composer = new Composer(report, () => state.busy);

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
setInterval(refreshStatus, 1000);

function setActivity(text) {
  state.activity = text;
  refreshStatus();
}

function showWorkspace() {
  $("workspace").textContent = [state.workspace.replace(/^.*\/(?=[^/]+$)/, ""), state.model].filter(Boolean).join(" · ");
  $("workspace").title = state.workspace;
}

function showModes(data) {
  $("mode").value = data.mode;
  $("approvals").value = data.approval_mode;
}

function showQueue() {
  $("queue").replaceChildren(...[...queue].map(([id, text]) => el("li", {}, el("span", { text }),
    button("Withdraw", () => post("/withdraw", { id }).catch(reportError), { class: "quiet small" }))));
}

const handlers = {
  "session.opened": ({ data }) => {
    dock.clear();
    state.model = data.model;
    state.workspace = data.workspace;
    showWorkspace();
    showModes(data);
    planPanel.setSession(data.id);
    if (data.resumed) transcript.divider("Session resumed");
    if (!data.trusted) report("This folder is not trusted yet.");
  },
  "session.titled": ({ data }) => { $("title").textContent = data.title || "tui-agent"; refreshStatus(); },
  "session.closed": () => { state.busy = false; dock.clear(); showConnection("The session was closed and saved; tui-agent --continue resumes it."); state.closed = true; },
  "mode.changed": ({ data }) => showModes(data),
  "trust.changed": ({ data }) => report(data.trusted ? "This folder is trusted now." : "This folder is not trusted any longer."),
  "model.changed": ({ data }) => { state.model = data.model; showWorkspace(); },
  "history.cut": () => transcript.divider("The older part of this session is not shown here"),
  "notice": ({ data }) => { transcript.notice(data.level, data.text); planPanel.notice(data); },
  "user.said": ({ data }) => {
    queue.delete(data.id);
    showQueue();
    transcript.userMessage(data.text, data.steering);
  },
  "message.queued": ({ data }) => { queue.set(data.id, data.text); showQueue(); },
  "message.changed": ({ data }) => { if (queue.has(data.id)) queue.set(data.id, data.text); showQueue(); },
  "message.withdrawn": ({ data }) => { queue.delete(data.id); showQueue(); },
  "shell.ran": ({ data }) => transcript.shellCommand(data),
  "context.attached": ({ data }) => transcript.notice("info", `Attached: ${data.items.map((item) => item.display).join(", ")}`),
  "context.measured": ({ data }) => {
    const share = data.used && data.limit ? Math.round((100 * data.used) / data.limit) : null;
    $("context-window").textContent = share === null ? "" : `${share}% of the model's window`;
  },
  "context.compacted": ({ data }) => { if (data.before) transcript.divider(`Earlier messages were summarized for the model: ${data.before.toLocaleString("en")} → ${data.after.toLocaleString("en")} tokens`); },
  "run.started": ({ at }) => { state.busy = true; state.startedAt = Date.parse(at); setActivity("Working"); },
  "run.ended": ({ data }) => { state.busy = false; transcript.endRun(data); setActivity(""); },
  "reply.started": ({ node, data }) => { state.purpose = data.purpose || data.role; transcript.startReply(node, data.role); setActivity(ROLES[state.purpose] ?? "Connecting"); },
  "reply.phase": ({ data }) => setActivity(ROLES[state.purpose] ?? [PHASES[data.phase], data.total ? `${data.done.toLocaleString("en")} of ${data.total.toLocaleString("en")} tokens` : data.detail].filter(Boolean).join(" ")),
  "text": ({ node, content }) => transcript.reply(node).addText(content),
  "reply.thought": ({ node, data }) => transcript.reply(node).addReasoning(data.text),
  "reply.ended": ({ node, data }) => { state.purpose = ""; transcript.endReply(node, data); },
  "retry.waiting": ({ data }) => setActivity(`${data.why} · retrying (${data.attempt} of ${data.of})`),
  "tool": ({ node, ...call }) => { transcript.startTool(node, call); setActivity(call.title || call.name); },
  "tool.output": ({ node, data }) => transcript.card(node)?.addOutput(data.text),
  "tool.finished": ({ node, data }) => { transcript.card(node)?.finish(data); setActivity("Working"); },
  "file.changed": ({ node, data }) => transcript.fileChange(node, data.diff),
  "file.diagnosed": ({ node, data }) => { if (data.found.length) transcript.card(node)?.addDiagnostics(data.found); },
  "command.changed": ({ data }) => transcript.notice("info", `This command changed files; undo can't revert that: ${[...data.created, ...data.changed, ...data.deleted].slice(0, 5).join(", ")}`),
  "approval.asked": ({ data }) => dock.add(data.id, approval(data, report)),
  "approval.answered": ({ node, data }) => { dock.settle(data.id, closedReason(data.answer.verdict)); transcript.card(node)?.showAnswer(data.answer); },
  "approval.voided": ({ data }) => dock.invalidate(data.id, data.reason),
  "question.asked": ({ data }) => dock.add(data.id, question(data)),
  "question.answered": ({ data }) => { dock.settle(data.id, closedReason(data.answer.verdict)); if (data.answer.verdict === "reply") transcript.notice("info", `You answered: ${data.answer.text}`); },
  "plan.proposed": ({ data }) => {
    if (data.asks) {
      plansForApproval.add(data.id);
      dock.add(data.id, plan(data, planView(data.plan), report));
    } else if (!data.fallback) transcript.plan(data);
  },
  "plan.reviewed": ({ data }) => {
    dock.settle(data.id, closedReason(data.answer.verdict));
    if (plansForApproval.delete(data.id) && data.answer.verdict === "approve" && data.alternative === null) transcript.plan({ plan: data.plan });
  },
  "step.started": ({ node, data }) => { steps.set(node, data.step.number); transcript.updateStep(data.step.number, "running"); },
  "step.finished": ({ node, data }) => transcript.updateStep(steps.get(node), data.outcome, data.text),
  "summary.offered": ({ data }) => dock.add(data.id, summary(data, report)),
  "summary.settled": ({ data }) => { dock.settle(data.id, closedReason(data.outcome)); if (data.outcome === "accepted" || data.outcome === "edited") transcript.notice("info", `Added to the plan: ${data.summary.action}`); },
  "plan_doc.changed": ({ data }) => planPanel.update(data),
  "plan_doc.conflict": ({ data }) => { dock.add(data.id, conflict(data)); planPanel.conflict(); },
  "plan_doc.settled": ({ data }) => { dock.settle(data.id); if (data.id === "proposal") planPanel.proposalSettled(); },
  "undo.done": ({ data }) => transcript.notice("info", `${{ undo: "Undone", redo: "Redone", rewind: "Rewound" }[data.kind]}: ${plural(data.items.length, "file")}`),
  "conversation.rewound": ({ data }) => {
    if (data.cleared) {
      transcript.clear();
      transcript.divider("Cleared: the model no longer sees earlier messages");
    } else transcript.divider(data.run ? "The model no longer sees the last part of the conversation" : "The conversation is restored");
  },
};

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

follow(handlers, (connection) => {
  if (state.closed) return;
  showConnection({ open: "", lost: "Connection lost; reconnecting…", closed: "This page is closed. Open it again with a new link from tui-agent." }[connection]);
});

for (const mode of MODES) $("mode").append(el("option", { value: mode, text: mode }));
for (const [value, text] of APPROVALS) $("approvals").append(el("option", { value, text }));
$("mode").addEventListener("change", (event) => post("/modes", { mode: event.target.value }).catch(reportError));
$("approvals").addEventListener("change", (event) => post("/modes", { approval_mode: event.target.value }).catch(reportError));
$("stop").addEventListener("click", () => post("/interrupt").catch(reportError));
$("clear").addEventListener("click", () => composer.clear($("clear")));
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

$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("tui-agent-look", root.dataset.theme); } catch { flash($("theme"), "Not saved"); }
});
