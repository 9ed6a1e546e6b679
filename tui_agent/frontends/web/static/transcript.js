// The transcript: messages, replies, tool cards, plans, notices. Scrolls to the end unless the user has scrolled up.

import { $, el, icon, plural, formatDuration } from "./dom.js";
import { Markdown } from "./markdown.js";
import { ToolCard } from "./tools.js";
import { diff } from "./diff.js";

const END_DISTANCE = 60;

export class Transcript {
  constructor() {
    this.items = $("items");
    this.scroll = $("scroll");
    this.replies = new Map();
    this.cards = new Map();
    this.steps = new Map();
    this.following = true;
    this.scroll.addEventListener("scroll", () => {
      const far = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight;
      this.following = far < END_DISTANCE;
      $("to-end").hidden = this.following;
    }, { passive: true });
    $("to-end").addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.keep()).observe(this.items);
    new ResizeObserver(() => this.keep()).observe(this.scroll);
  }

  keep() { if (this.following) this.scroll.scrollTop = this.scroll.scrollHeight; }

  toEnd() {
    this.following = true;
    this.keep();
    $("to-end").hidden = true;
  }

  add(...nodes) {
    this.items.append(...nodes);
    return nodes[0];
  }

  empty() {
    this.items.replaceChildren();
    this.replies.clear();
    this.cards.clear();
    this.steps.clear();
  }

  user(text, steering) {
    this.add(el("article", { class: "user" }, steering ? el("span", { class: "note", text: "for the running task" }) : null, el("div", { class: "bubble", text })));
    this.toEnd();
  }

  notice(level, text) {
    this.add(el("p", { class: `notice ${level}` }, text));
  }

  divider(text) {
    this.add(el("p", { class: "divider" }, el("span", { text })));
  }

  shell({ command, output, exit_code }) {
    this.add(el("div", { class: "shell" }, el("pre", { class: "command", text: `$ ${command}` }), output ? el("pre", { class: "output", tabindex: "0", text: output }) : null,
      exit_code ? el("p", { class: "note", text: `exit code ${exit_code}` }) : null));
  }

  // --- replies ---

  begin(node, role) { this.replies.set(node, { role, view: null, thought: null }); }

  reply(node) {
    let one = this.replies.get(node);
    if (!one) this.replies.set(node, one = { role: "", view: null, thought: null });
    return one;
  }

  text(node, content) {
    const one = this.reply(node);
    if (one.role) return;
    this.place(one);
    if (!one.view) { one.view = new Markdown(); one.node.append(one.view.node); }
    one.view.add(content);
    this.fold(one);
  }

  thought(node, content) {
    const one = this.reply(node);
    if (one.role) return;
    this.place(one);
    if (!one.thought) {
      one.thinks = el("summary", { text: "Thinking…" });
      one.thought = el("div", { class: "thought-text" });
      one.fold = el("details", { class: "thought" }, one.thinks, one.thought);
      one.node.append(one.fold);
    }
    one.thought.append(content);
  }

  place(one) { if (!one.node) one.node = this.add(el("article", { class: "reply" })); }

  fold(one, ms = 0) {
    if (one.thinks && (one.thinks.textContent === "Thinking…" || ms)) one.thinks.textContent = ms ? `Thought for ${formatDuration(ms)}` : "Thought";
  }

  ended(node, data) {
    const one = this.reply(node);
    this.replies.delete(node);
    if (one.role || data.role) return;
    if (data.thought && !one.thought) this.addWholeThought(one, data.thought);
    this.fold(one, data.thought_ms);
    if (data.text.trim() || one.view) {
      this.place(one);
      if (!one.view) { one.view = new Markdown(); one.node.append(one.view.node); }
      one.view.set(data.text);
    }
    if (data.fault) this.add(el("div", { class: "notice error" }, el("span", { text: data.fault.message }), data.fault.advice ? el("span", { class: "advice", text: data.fault.advice }) : null));
  }

  addWholeThought(one, text) {
    this.place(one);
    one.thinks = el("summary", { text: "Thought" });
    one.thought = el("div", { class: "thought-text", text });
    one.node.prepend(el("details", { class: "thought" }, one.thinks, one.thought));
  }

  // --- tools ---

  tool(node, told) {
    const card = new ToolCard(node, told);
    this.cards.set(node, card);
    const above = told.agent ? this.cards.get(told.agent) : null;
    if (above) above.add(card);
    else this.add(card.node);
    return card;
  }

  card(node) { return this.cards.get(node); }

  changed(node, one) {
    const card = this.cards.get(node);
    if (card) card.change(one);
    else this.add(el("div", { class: "tool loose" }, diff(one)));
  }

  // --- plans ---

  proposed(asked) {
    const view = planView(asked.plan, this.steps, true);
    this.add(el("article", { class: "plan-card" }, el("div", { class: "card-head" }, icon("plan"), el("b", { text: asked.recovery ? "Recovery plan" : "Plan" }),
      el("span", { class: "note", text: plural(asked.plan.steps.length, "step") })), view));
  }

  step(number, state, text = "") {
    const row = this.steps.get(number);
    if (!row) return;
    row.className = `step ${state}`;
    row.querySelector(".state").replaceChildren(...(state === "done" ? [icon("done")] : state === "failed" ? [icon("failed")] : []));
    row.querySelector(".state").className = `state ${state}`;
    row.title = text;
  }

  finish({ outcome, text, tool_calls, ms }) {
    const words = { done: "Done", failed: "Failed", interrupted: "Stopped", limit: "Stopped at a limit", refused: "Refused", unreachable: "The model can't be reached" };
    const facts = [words[outcome] ?? outcome, tool_calls ? plural(tool_calls, "tool call") : "", formatDuration(ms)].filter(Boolean).join(" · ");
    if (outcome !== "done" && outcome !== "interrupted" && text) this.add(el("p", { class: "notice error", text }));
    this.add(el("p", { class: `end ${outcome}`, text: facts }));
    for (const card of this.cards.values()) if (card.sign.classList.contains("running")) card.sign.className = "state interrupted";
  }
}

/** A read-only plan: prerequisites, steps and check; with `withAlternatives` also its alternatives. */
export function planView(one, steps = null, withAlternatives = false) {
  if (steps) steps.clear();
  const list = el("ol", { class: "steps" }, one.steps.map((step) => {
    const row = el("li", { class: "step" }, el("span", { class: "state" }), el("div", {}, el("span", { text: step.description }),
      step.tool && step.tool !== "analyze" ? el("code", { text: step.tool }) : null,
      step.critical ? el("span", { class: "sure", text: "critical" }) : null, unsure(step),
      step.expected ? el("p", { class: "expected", text: step.expected }) : null,
      step.fallback ? el("p", { class: "expected", text: `If it fails: ${step.fallback}` }) : null));
    if (steps) steps.set(step.number, row);
    return row;
  }));
  const check = one.check?.command || one.check?.criteria ? el("p", { class: "check" }, "Checked by ",
    one.check.command ? el("code", { text: one.check.command }) : null, one.check.command && one.check.criteria ? ": " : null, one.check.criteria || null) : null;
  const others = withAlternatives && one.alternatives?.length ? el("div", { class: "needs" }, el("span", { class: "name", text: "Alternative" }),
    el("ul", {}, one.alternatives.map((way) => el("li", {}, way.approach, alternativeRank(way))))) : null;
  return el("div", {}, one.approach ? el("p", { class: "approach", text: one.approach }) : null, needs(one), list, check, others);
}

/** The prerequisites of a plan. */
export function needs(one) {
  return one.prerequisites?.length ? el("div", { class: "needs" }, el("span", { class: "name", text: "Needs" }), el("ul", {}, one.prerequisites.map((text) => el("li", { text })))) : null;
}

/** The condition and confidence of an alternative. */
export function alternativeRank(way) {
  return el("span", { class: "ranked" }, way.when ? el("span", { class: "when", text: way.when }) : null,
    el("span", { class: `sure${way.confidence < UNSURE ? " low" : ""}`, text: `${Math.round(100 * way.confidence)}% sure` }));
}

const UNSURE = 0.6;  // a lower confidence is marked (W5)

function unsure(one) { return one.confidence < UNSURE ? el("span", { class: "sure low", text: `unsure ${Math.round(100 * one.confidence)}%` }) : null; }
