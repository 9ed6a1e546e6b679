// A card for each tool call: title, state, and collapsed arguments and output.

import { el, icon, formatDuration } from "./dom.js";
import { diff } from "./diff.js";

const TOOLS = {  // icon and verb
  read_file: ["read", "Read"], list_files: ["read", "List"], write_file: ["edit", "Write"], edit_file: ["edit", "Edit"],
  run_terminal_command: ["run", "Run"], search_workspace: ["search", "Search"], run_subagent: ["agent", "Sub-agent"],
  ask_user: ["question", "Ask"], update_plan: ["plan", "Plan"], initialize_plan: ["plan", "Plan"],
};
const SCOPES = { once: "approved", session: "approved for this session", always: "always approved" };
const VERDICTS = { reject: "rejected", reply: "withdrawn", withdrawn: "withdrawn" };
const MAX_OUTPUT = 12000;
const STOPPED_BY_USER = /^interrupted by the user/i;  // written for the model; the sign says it
const ESCAPES = /\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b[@-_]?/g;  // colors and cursor movements, for a terminal

/** Text that a command printed, without what only a terminal can show. */
export const plainOutput = (text) => text.replace(ESCAPES, "");

export class ToolCard {
  constructor(call) {
    this.input = call.input;
    this.hasDiff = false;
    this.text = "";  // the end of the output so far
    this.sign = el("span", { class: "state running", role: "img", "aria-label": "running" });
    this.note = el("span", { class: "note" });
    this.body = el("div", { class: "tool-body" });
    this.calls = el("div", { class: "subagent-calls" });
    const [symbol, verb] = TOOLS[call.name] ?? [call.reads_only ? "search" : "run", ""];
    const summary = el("summary", {}, icon(symbol), verb ? el("span", { class: "verb", text: verb }) : null,
      el("span", { class: "tool-title", text: call.title || call.name }), this.note, this.sign);
    this.node = el("details", { class: "tool" }, summary, this.body, this.calls);
    if (call.name === "run_terminal_command") this.body.append(el("pre", { class: "command", text: `$ ${call.input.command ?? ""}` }));
  }

  addOutput(text) {
    this.output ??= this.body.appendChild(el("pre", { class: "output", tabindex: "0" }));
    this.text = (this.text + text).slice(-MAX_OUTPUT);
    this.output.textContent = plainOutput(this.text);
    this.output.scrollTop = this.output.scrollHeight;
  }

  addDiff(change) {
    this.body.append(diff(change));
    this.hasDiff = true;
    this.node.open = true;
  }

  addDiagnostics(diagnostics) {
    this.addErrors(diagnostics.map(({ line, message = "" }) => (line ? `${line}: ${message}` : message)).join("\n"));
  }

  addErrors(text) {
    this.body.append(el("pre", { class: "errors", text }));
  }

  /** Add the card of a sub-agent's call. */
  addCall(card) {
    this.calls.append(card.node);
  }

  showAnswer({ by, verdict, scope }) {
    if (by === "user") this.note.textContent = verdict === "approve" ? SCOPES[scope] : VERDICTS[verdict];
  }

  finish({ result, text, ms }) {
    const state = result.success ? "done" : ["refused", "interrupted"].includes(result.code) ? result.code : "failed";
    this.sign.className = `state ${state}`;
    this.sign.setAttribute("aria-label", state === "interrupted" ? "stopped" : state);
    this.sign.replaceChildren(icon(state === "done" ? "done" : "failed"));
    this.node.classList.add(state);
    if (ms > 900) this.note.append(`${this.note.textContent ? " · " : ""}${formatDuration(ms)}`);
    if (result.error && !STOPPED_BY_USER.test(result.error)) this.addErrors(result.error);
    else if (!this.hasDiff && !this.output && text) this.body.append(el("pre", { class: "output", tabindex: "0", text: plainOutput(text.slice(0, MAX_OUTPUT)) }));
    if (state === "failed") this.node.open = true;
    if (!this.body.childNodes.length) this.body.append(el("pre", { class: "output", text: JSON.stringify(this.input, null, 2).slice(0, MAX_OUTPUT) }));
  }

  /** Mark a call that was still running when the run ended. */
  interrupt() {
    if (this.sign.classList.contains("running")) this.sign.className = "state interrupted";
  }
}
