// A card for each tool call: title, state, and collapsed arguments and output.

import { el, icon, formatDuration } from "./dom.js";
import { diff } from "./diff.js";

const ICONS = {
  read_file: "read", list_files: "read", write_file: "edit", edit_file: "edit", run_terminal_command: "run",
  search_workspace: "search", run_subagent: "agent", ask_user: "asks", update_plan: "plan", initialize_plan: "plan",
};
const VERBS = {
  read_file: "Read", list_files: "List", write_file: "Write", edit_file: "Edit", run_terminal_command: "Run",
  search_workspace: "Search", run_subagent: "Sub-agent", ask_user: "Ask", update_plan: "Plan", initialize_plan: "Plan",
};
const MAX_OUTPUT = 12000;

export class ToolCard {
  constructor(node, call) {
    this.id = node;
    this.diffs = 0;
    this.sign = el("span", { class: "state running", role: "img", "aria-label": "running" });
    this.note = el("span", { class: "note" });
    this.body = el("div", { class: "tool-body" });
    this.inner = el("div", { class: "inner" });
    const title = call.title || call.name;
    const summary = el("summary", {}, icon(ICONS[call.name] ?? (call.reads_only ? "search" : "run")),
      VERBS[call.name] ? el("span", { class: "verb", text: VERBS[call.name] }) : null, el("span", { class: "tool-title", text: title }), this.note, this.sign);
    this.node = el("details", { class: "tool" }, summary, this.body, this.inner);
    this.input = call.input;
    this.name = call.name;
    if (call.name === "run_terminal_command") this.body.append(el("pre", { class: "command", text: `$ ${call.input.command ?? ""}` }));
  }

  output(text) {
    if (!this.out) this.body.append(this.out = el("pre", { class: "output", tabindex: "0" }));
    this.seen = ((this.seen ?? "") + text).slice(-MAX_OUTPUT);
    this.out.textContent = this.seen;
    this.out.scrollTop = this.out.scrollHeight;
  }

  change(one) {
    this.body.append(diff(one));
    this.diffs += 1;
    this.node.open = true;
  }

  wrong(found) {
    const lines = found.map((one) => `${one.line ?? ""}${one.line ? ": " : ""}${one.message ?? ""}`);
    this.body.append(el("pre", { class: "errors", text: lines.join("\n") }));
  }

  decided(answer) {
    if (answer.by !== "user") return;
    const words = answer.verdict === "approve" ? { once: "approved", session: "approved for this session", always: "always approved" }[answer.scope]
      : answer.verdict === "reject" ? "rejected" : "withdrawn";
    this.note.textContent = words;
  }

  add(card) {
    this.inner.append(card.node);
  }

  finish({ result, text, ms }) {
    const how = result.success ? "done" : result.code === "refused" ? "refused" : result.code === "interrupted" ? "interrupted" : "failed";
    this.sign.className = `state ${how}`;
    this.sign.setAttribute("aria-label", how);
    this.sign.replaceChildren(icon(how === "done" ? "done" : "failed"));
    this.node.classList.add(how);
    if (ms > 900) this.note.append(`${this.note.textContent ? " · " : ""}${formatDuration(ms)}`);
    if (result.error) this.body.append(el("pre", { class: "errors", text: result.error }));
    else if (!this.diffs && !this.out && text) this.body.append(el("pre", { class: "output", tabindex: "0", text: text.slice(0, MAX_OUTPUT) }));
    if (!result.success && how === "failed") this.node.open = true;
    if (!this.body.childNodes.length) this.body.append(el("pre", { class: "output", text: JSON.stringify(this.input, null, 2).slice(0, MAX_OUTPUT) }));
  }
}
