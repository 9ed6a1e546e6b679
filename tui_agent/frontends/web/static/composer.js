// Where one types: Enter sends, a `!` runs a command, what was sent before comes back with the arrow.

import { $, flash } from "./dom.js";
import { post } from "./wire.js";

const KEPT = "tui-agent-draft";

export class Composer {
  constructor(say, busy) {
    this.field = $("say");
    this.say = say;
    this.busy = busy;
    this.sent = [];
    this.at = 0;
    this.composing = false;
    if (!this.field.value) this.field.value = kept();  // what was typed before the scripts were there is newer
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
    try { sessionStorage.setItem(KEPT, this.field.value); } catch { /* not kept */ }
  }

  key(event) {
    if (event.isComposing || this.composing) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.send();
    } else if (event.key === "ArrowUp" && !this.field.value && this.sent.length) {
      event.preventDefault();
      this.put(this.sent[this.sent.length - 1]);
    } else if (event.key === "Escape" && this.busy()) {
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
      this.put([text, this.field.value].filter(Boolean).join("\n"));  // before what was typed since
      this.say(error.message);
    }
  }

  /** The first press asks, the second one does it. */
  async clear(where, sure = false) {
    if (!sure && !where.dataset.said) {
      flash(where, "Clear?");
      return;
    }
    try { await post("/clear"); } catch (error) { this.say(error.message); }
  }
}

function kept() {
  try { return sessionStorage.getItem(KEPT) ?? ""; } catch { return ""; }
}
