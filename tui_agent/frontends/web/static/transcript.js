// The transcript: messages, replies, tool cards, plans, notices.

import { el, icon, plural, formatDuration } from "./dom.js";
import { Markdown } from "./markdown.js";
import { ToolCard, plainOutput } from "./tools.js";
import { diff } from "./diff.js";
import { undoButton } from "./run_actions.js";

const LOW_CONFIDENCE = 0.6;  // a lower confidence is marked (W5)
const OUTCOMES = { done: "Done", failed: "Failed", interrupted: "Stopped", limit: "Stopped at a limit", refused: "Refused", unreachable: "The model can't be reached" };

/** What was said and done, as elements in `items`. Each element has the number of the record that it began with. */
export class Transcript {
  constructor(items) {
    this.items = items;
    this.seq = 0;  // number of the record that is shown
    this.replies = new Map();  // node of a running reply → ReplyView
    this.cards = new Map();  // node of a tool call of the running task → ToolCard
    this.steps = new Map();  // number of a step → its row in the latest plan
    this.stepNumbers = new Map();  // node of a step → its number
    this.plansForApproval = new Set();
  }

  add(node) {
    node.seq = this.seq;
    this.items.append(node);
    return node;
  }

  clear() {
    this.items.replaceChildren();
    this.replies.clear();
    this.cards.clear();
    this.steps.clear();
  }

  userMessage(text, steering) {
    this.add(el("article", { class: "user" }, steering ? el("span", { class: "note", text: "for the running task" }) : null, el("div", { class: "bubble", text })));
  }

  notice(level, text) {
    this.add(el("p", { class: `notice ${level}` }, text));
  }

  /** What a command says; it is not part of the session. */
  commandReply(text, isDiff = false) {
    const lines = isDiff ? text.split("\n").map((line) => el("span", { class: { "+": "plus", "-": "minus", "@": "hunk-head", " ": "" }[line[0]] ?? "file", text: `${line}\n` })) : [text];
    this.add(el("pre", { class: `command-reply${isDiff ? " diff-reply" : ""}`, tabindex: "0" }, lines));
  }

  divider(text) {
    this.add(el("p", { class: "divider" }, el("span", { text })));
  }

  shellCommand({ command, output, exit_code }) {
    this.add(el("div", { class: "shell" }, el("pre", { class: "command", text: `$ ${command}` }), output ? el("pre", { class: "output", tabindex: "0", text: plainOutput(output) }) : null,
      exit_code ? el("p", { class: "note", text: `exit code ${exit_code}` }) : null));
  }

  // --- replies ---

  startReply(node, role) { this.replies.set(node, new ReplyView(this, role)); }

  reply(node) {
    if (!this.replies.has(node)) this.startReply(node, "");
    return this.replies.get(node);
  }

  endReply(node, data) {
    const reply = this.reply(node);
    this.replies.delete(node);
    if (reply.role || data.role) return;
    reply.end(data);
    const { fault } = data;
    if (fault) this.add(el("div", { class: "notice error" }, el("span", { text: fault.message }), fault.advice ? el("span", { class: "advice", text: fault.advice }) : null));
  }

  // --- tools ---

  startTool(node, call) {
    const card = new ToolCard(call);
    this.cards.set(node, card);
    const parent = this.cards.get(call.agent);
    if (parent) parent.addCall(card);
    else this.add(card.node);
  }

  card(node) { return this.cards.get(node); }

  fileChange(node, change) {
    const card = this.cards.get(node);
    if (card) card.addDiff(change);
    else this.add(el("div", { class: "tool" }, diff(change)));
  }

  // --- plans ---

  plan({ plan, recovery }) {
    this.steps.clear();
    this.add(el("article", { class: "plan-card" }, el("div", { class: "card-head" }, icon("plan"), el("b", { text: recovery ? "Recovery plan" : "Plan" }),
      el("span", { class: "note", text: plural(plan.steps.length, "step") }), planConfidence(plan)), planView(plan, { rows: this.steps, showAlternatives: true })));
  }

  updateStep(number, state, text = "") {
    const row = this.steps.get(number);
    if (!row) return;
    row.className = `step ${state}`;
    row.title = text;
    const sign = row.querySelector(".state");
    sign.replaceChildren(...(state === "done" || state === "failed" ? [icon(state)] : []));
    sign.className = `state ${state}`;
  }

  endRun({ outcome, text, tool_calls, ms }, run) {
    const facts = [OUTCOMES[outcome] ?? outcome, tool_calls ? plural(tool_calls, "tool call") : "", ms ? formatDuration(ms) : ""].filter(Boolean).join(" · ");
    if (outcome !== "done" && outcome !== "interrupted" && text) this.add(el("p", { class: "notice error", text }));
    this.add(el("div", { class: "run-end" }, el("p", { class: `outcome ${outcome}`, text: facts }),
      run ? undoButton(run, (reply) => this.commandReply(reply)) : null));
    this.endCalls();
  }

  /** Mark calls that are still running, since nothing more is told of them. */
  endCalls() {
    for (const card of this.cards.values()) card.interrupt();
    this.cards.clear();
  }
}

/** A reply: reasoning and text. It is added to the transcript with its first content; one with a role is never shown. */
class ReplyView {
  constructor(transcript, role) {
    this.transcript = transcript;
    this.role = role;
    this.node = null;
    this.markdown = null;
    this.reasoning = null;
    this.reasoningTitle = null;
  }

  /** The element of the reply, created when it is needed. */
  article() { return this.node ??= this.transcript.add(el("article", { class: "reply" })); }

  text() {
    if (!this.markdown) {
      this.markdown = new Markdown();
      this.article().append(this.markdown.node);
    }
    return this.markdown;
  }

  addText(text) {
    if (this.role) return;
    this.text().add(text);
    if (this.reasoningTitle?.textContent === "Thinking…") this.reasoningTitle.textContent = "Thought";
  }

  addReasoning(text) {
    if (this.role) return;
    if (!this.reasoning) {
      this.reasoningTitle = el("summary", { text: "Thinking…" });
      this.reasoning = el("div", { class: "reasoning-text" });
      this.article().prepend(el("details", { class: "reasoning" }, this.reasoningTitle, this.reasoning));
    }
    this.reasoning.append(text);
  }

  end({ text, thought, thought_ms: ms }) {
    if (thought && !this.reasoning) this.addReasoning(thought);
    if (this.reasoning) this.reasoningTitle.textContent = ms ? `Thought for ${formatDuration(ms)}` : "Thought";
    if (text.trim() || this.markdown) this.text().setText(text);
  }
}

/** A read-only plan. Its rows are added to `rows` by step number. */
export function planView(plan, { rows = new Map(), showAlternatives = false } = {}) {
  const isMixed = plan.steps.some((step) => !step.critical);  // where all are essential, saying so tells nothing
  const list = el("ol", { class: "steps" }, plan.steps.map((step) => {
    const row = el("li", { class: "step" }, el("span", { class: "state" }), el("div", {}, el("span", { text: step.description }),
      step.tool && step.tool !== "analyze" ? el("code", { text: step.tool }) : null,
      step.critical && isMixed ? el("span", { class: "confidence", text: "essential" }) : null,
      step.confidence < LOW_CONFIDENCE ? el("span", { class: "confidence low", text: `unsure ${percent(step.confidence)}` }) : null,
      step.expected ? el("p", { class: "expected", text: `Expect: ${step.expected}` }) : null,
      step.fallback ? el("p", { class: "expected", text: `If it fails: ${step.fallback}` }) : null));
    rows.set(step.number, row);
    return row;
  }));
  const { command, criteria } = plan.check ?? {};
  const check = command || criteria ? el("p", { class: "check" }, "Checked by ", command ? el("code", { text: command }) : null, command && criteria ? ": " : null, criteria || null) : null;
  return el("div", {}, plan.approach ? el("p", { class: "approach", text: plan.approach }) : null, prerequisites(plan), list, check,
    showAlternatives ? labeledList("Alternative", (plan.alternatives ?? []).map((each) => [each.approach, alternativeRank(each)])) : null);
}

export function prerequisites(plan) { return labeledList("Needs", plan.prerequisites ?? []); }

function labeledList(label, items) {
  return items.length ? el("div", { class: "labeled-list" }, el("span", { class: "name", text: label }), el("ul", {}, items.map((item) => el("li", {}, item)))) : null;
}

/** The condition and confidence of an alternative. */
export function alternativeRank({ when, confidence }) {
  return el("span", { class: "rank" }, when ? el("span", { class: "condition", text: when }) : null,
    el("span", { class: `confidence${confidence < LOW_CONFIDENCE ? " low" : ""}`, text: `confidence ${percent(confidence)}` }));
}

/** How sure the model is of a whole plan. */
export function planConfidence({ confidence }) {
  return el("span", { class: `confidence${confidence < LOW_CONFIDENCE ? " low" : ""}`, text: `confidence ${percent(confidence)}` });
}

const percent = (share) => `${Math.round(100 * share)}%`;
