// What each event adds to a transcript, whether it comes from the stream or from the history.

import { plural } from "./dom.js";
import { noteChange, noteUndo } from "./run_actions.js";

const UNDONE = { undo: "Undone", redo: "Redone", rewind: "Rewound" };

/** Name of an event → (transcript, event) that shows it. An event that only describes the current state adds nothing. */
const RENDERERS = {
  "session.opened": (to, { data, isState }) => { if (data.resumed && !isState) to.divider("Session resumed"); },
  "history.cut": (to) => to.divider("The older part of this session is not shown here"),
  "notice": (to, { data }) => to.notice(data.level, data.text),
  "user.said": (to, { data }) => to.userMessage(data.text, data.steering),
  "shell.ran": (to, { data }) => to.shellCommand(data),
  "context.attached": (to, { data }) => to.notice("info", `Attached: ${data.items.map((item) => item.display).join(", ")}`),
  "context.compacted": (to, { data }) => { if (data.before) to.divider(`Earlier messages were summarized for the model: ${data.before.toLocaleString("en")} → ${data.after.toLocaleString("en")} tokens`); },
  "run.ended": (to, { run, data }) => to.endRun(data, run),
  "reply.started": (to, { node, data }) => to.startReply(node, data.role),
  "text": (to, { node, content }) => to.reply(node).addText(content),
  "reply.thought": (to, { node, data }) => to.reply(node).addReasoning(data.text),
  "reply.ended": (to, { node, data }) => to.endReply(node, data),
  "tool": (to, { node, ...call }) => to.startTool(node, call),
  "tool.output": (to, { node, data }) => to.card(node)?.addOutput(data.text),
  "tool.finished": (to, { node, data }) => to.card(node)?.finish(data),
  "file.changed": (to, { node, run, data }) => { noteChange(run); to.fileChange(node, data.diff); },
  "file.diagnosed": (to, { node, data }) => { if (data.found.length) to.card(node)?.addDiagnostics(data.found); },
  "command.changed": (to, { run, data }) => {
    const names = [...new Set([...data.created, ...data.changed, ...data.deleted, ...data.files.map((file) => file.display)])];
    if (data.covered && names.length) noteChange(run);
    if (names.length) to.notice("info", `This command changed files${data.covered ? "" : "; undo can't revert that"}: ${names.slice(0, 5).join(", ")}${names.length > 5 || data.more ? " …" : ""}`);
  },
  "approval.answered": (to, { node, data }) => to.card(node)?.showAnswer(data.answer),
  "question.answered": (to, { data }) => { if (data.answer.verdict === "reply") to.notice("info", `You answered: ${data.answer.text}`); },
  "plan.proposed": (to, { data }) => {
    if (data.asks) to.plansForApproval.add(data.id);
    else if (!data.fallback) to.plan(data);
  },
  "plan.reviewed": (to, { data, isState }) => {
    if ((to.plansForApproval.delete(data.id) || isState) && data.answer.verdict === "approve" && data.alternative === null) to.plan({ plan: data.plan });
  },
  "step.started": (to, { node, data }) => { to.stepNumbers.set(node, data.step.number); to.updateStep(data.step.number, "running"); },
  "step.finished": (to, { node, data }) => to.updateStep(to.stepNumbers.get(node), data.outcome, data.text),
  "summary.settled": (to, { data }) => { if (data.outcome === "accepted" || data.outcome === "edited") to.notice("info", `Added to the plan: ${data.summary.action}`);
    else if (data.outcome === "pending") to.notice("warning", "Summary postponed · offered again at the next start"); },
  "undo.done": (to, { seq, data }) => {
    noteUndo(data.runs, data.kind, seq);
    to.notice("info", `${UNDONE[data.kind]}: ${plural(data.items.length, "file")}`);
  },
  "conversation.rewound": (to, { data }) => {
    if (data.cleared) {
      to.clear();
      to.divider("Cleared: the model no longer sees earlier messages");
    } else to.divider(data.run ? "The model no longer sees the last part of the conversation" : "The conversation is restored");
  },
};

export const RENDERED = Object.keys(RENDERERS);

/** Show an event in a transcript. */
export function render(transcript, name, event) {
  transcript.seq = event.seq ?? transcript.seq;
  RENDERERS[name]?.(transcript, event);
}
