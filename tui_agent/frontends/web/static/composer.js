// The message field: Enter sends, `!` runs a shell command, the up arrow recalls the last message.

import { $, flash } from "./dom.js";
import { post } from "./wire.js";

const DRAFT_KEY = "tui-agent-draft";

export class Composer {
  constructor(say, isBusy) {
    this.field = $("say");
    this.say = say;
    this.isBusy = isBusy;
    this.sent = [];
    this.at = 0;
    this.composing = false;
    if (!this.field.value) this.field.value = savedDraft();  // text typed before the scripts were loaded is newer
    this.field.addEventListener("input", () => this.changed());
    this.field.addEventListener("compositionstart", () => { this.composing = true; });
    this.field.addEventListener("compositionend", () => { this.composing = false; });
    this.field.addEventListener("keydown", (event) => this.key(event));
    $("composer").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    addEventListener("resize", () => this.changed());
    this.changed();
  }

  changed() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, 220)}px`;
    $("send").disabled = !this.field.value.trim();
    try { sessionStorage.setItem(DRAFT_KEY, this.field.value); } catch { /* no storage */ }
  }

  key(event) {
    if (event.isComposing || this.composing) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.send();
    } else if (event.key === "ArrowUp" && !this.field.value && this.sent.length) {
      event.preventDefault();
      this.put(this.sent[this.sent.length - 1]);
    } else if (event.key === "Escape" && this.isBusy()) {
      post("/interrupt").catch((error) => this.say(error.message));
    }
  }

  put(text) {
    this.field.value = text;
    this.changed();
  }

  async send() {
    const text = this.field.value.trim();
    if (!text) return;
    this.put("");
    try {
      if (text === "/clear") await this.clear($("clear"), true);
      else if (text.startsWith("!")) await post("/shell", { command: text.slice(1).trim() });
      else await post("/chat", { message: text });
      this.sent.push(text);
    } catch (error) {
      this.put([text, this.field.value].filter(Boolean).join("\n"));  // in front of what was typed since
      this.say(error.message);
    }
  }

  /** The first click asks for confirmation, the second one clears. */
  async clear(clearButton, confirmed = false) {
    if (!confirmed && !clearButton.dataset.said) {
      flash(clearButton, "Clear?");
      return;
    }
    try { await post("/clear"); } catch (error) { this.say(error.message); }
  }
}

function savedDraft() {
  try { return sessionStorage.getItem(DRAFT_KEY) ?? ""; } catch { return ""; }
}
