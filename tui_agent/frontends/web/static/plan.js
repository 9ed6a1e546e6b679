// The plan document beside the conversation, as its text says; a proposal waits above it.

import { $, el, button } from "./dom.js";
import { Markdown } from "./markdown.js";
import { post } from "./wire.js";

const NONE = /^\[(?:No |User will|Criteria will|Goal to be).*\]$/;

export class PlanPanel {
  constructor(say) {
    this.say = say;
    this.text = "";
  }

  changed(data) {
    if (data.pending) this.proposal = data;
    else { this.text = data.text; this.proposal = null; }
    this.show();
  }

  settled() {
    this.proposal = null;
    this.show();
  }

  show() {
    const place = $("plan-text");
    place.replaceChildren();
    if (this.proposal) {
      const settle = (accept) => post("/plan", { accept, seen: this.proposal.sha256 }).catch((error) => this.say(error.message));
      place.append(el("div", { class: "proposal" },
        el("p", { text: "The agent proposes this for the plan:" }), sections(this.proposal.text),
        el("div", { class: "choices" }, button("Take it", () => settle(true), { class: "primary" }), button("Drop it", () => settle(false)))));
    }
    if (this.text) place.append(sections(this.text));
    const empty = !this.proposal && !place.textContent.trim();
    if (empty) place.append(el("p", { class: "empty", text: "No plan yet. It grows with the work: a goal, what must be true at the end, and what was decided." }));
  }
}

function sections(text) {
  const lines = text.replace(/^---\n[\s\S]*?\n---\n/, "").split("\n");
  const status = /^status:\s*(\w+)/m.exec(text)?.[1] ?? "";
  const whole = el("div", { class: "plan-doc" });
  let title = "";
  let body = [];
  const flush = () => {
    const said = body.join("\n").trim();
    if (title && said && !NONE.test(said.replace(/^- \[ \]\s*/, ""))) {
      const view = new Markdown();
      view.set(said);
      const log = title === "Execution Log";
      whole.append(el(log ? "details" : "section", { class: log ? "log" : null }, el(log ? "summary" : "h3", { text: title }), view.node));
    }
    body = [];
  };
  for (const line of lines) {
    const heading = /^##\s+(.*)$/.exec(line);
    if (heading) { flush(); title = heading[1]; }
    else if (/^#\s/.test(line) || (!title && /^\*\*Status/.test(line))) continue;
    else if (title) body.push(line);
  }
  flush();
  if (whole.childNodes.length && status) whole.prepend(el("span", { class: `chip ${status}`, text: status.replace(/_/g, " ") }));
  return whole;
}
