// The message field: Enter sends, `!` runs a shell command, the up arrow recalls the last message.

import { $, flash } from "./dom.js";
import { Completion } from "./completion.js";
import { post } from "./wire.js";

const DRAFT_KEY = "tui-agent-draft";

export class Composer {
  /**
   * `commands` maps names of commands that the page itself carries out to functions; `onSend` is called when something
   * else is sent, `onReply` gets what other commands say.
   */
  constructor(report, commands, onSend, onReply) {
    this.field = $("message");
    this.report = report;
    this.commands = commands;
    this.onSend = onSend;
    this.onReply = onReply;
    this.lastMessage = "";
    this.isComposing = false;  // an input method is in use
    if (!this.field.value) this.field.value = savedDraft();  // text typed before the scripts were loaded is newer
    this.field.addEventListener("input", () => this.changed());
    this.field.addEventListener("compositionstart", () => { this.isComposing = true; });
    this.field.addEventListener("compositionend", () => { this.isComposing = false; });
    this.field.addEventListener("keydown", (event) => this.keyDown(event));
    $("composer").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    addEventListener("resize", () => this.changed());
    this.completion = new Completion(this.field, (text) => { this.setText(text); this.send(); });
    this.changed();
  }

  changed() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, 220)}px`;
    $("send").disabled = !this.field.value.trim();
    try { sessionStorage.setItem(DRAFT_KEY, this.field.value); } catch { /* no storage */ }
  }

  keyDown(event) {
    if (event.isComposing || this.isComposing || this.completion.keyDown(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.send();
    } else if (event.key === "ArrowUp" && !this.field.value && this.lastMessage) {
      event.preventDefault();
      this.setText(this.lastMessage);
    }
  }

  /** Set what is typed at the start, unless something else is. */
  setDraft(text) { if (text && !this.field.value) this.setText(text); }

  setText(text) {
    this.field.value = text;
    this.completion.close();
    this.changed();
  }

  async send() {
    const text = this.field.value.trimEnd();  // a space in front of a / or ! makes it a message
    if (!text.trim()) return;
    this.setText("");
    try {
      const [, name, argument = ""] = /^\/([a-z-]+)(?:\s+(.*))?$/s.exec(text) ?? [];
      const command = this.commands[name];
      if (command && (!argument || command.length)) {
        await command(argument);
        this.lastMessage = text;
        return;
      }
      this.onSend();
      if (text.startsWith("!")) await post("/shell", { command: text.slice(1).trim() });
      else {
        const reply = await post("/chat", { message: text });
        if (reply.draft) this.setText([reply.draft, this.field.value].filter(Boolean).join("\n"));  // in front of what was typed since
        if (reply.text) this.onReply(reply.text, reply.is_diff);
      }
      this.lastMessage = text;
    } catch (error) {
      this.setText([text, this.field.value].filter(Boolean).join("\n"));  // in front of what was typed since
      this.report(error.message);
    }
  }

  /** The first click on the button asks for confirmation, the second one clears. */
  clear(clearButton) {
    if (clearButton.dataset.flashing) post("/clear").catch((error) => this.report(error.message));
    else flash(clearButton, "Clear?");
  }
}

function savedDraft() {
  try { return sessionStorage.getItem(DRAFT_KEY) ?? ""; } catch { return ""; }
}
