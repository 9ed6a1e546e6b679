// A file edit before approval: selecting hunks and editing their text.

import { el, button } from "./dom.js";
import { diff } from "./diff.js";
import { confirmButton } from "./fields.js";
import { post } from "./wire.js";

/** Only what is shown can be approved: edited text is shown as a diff first. */
export class EditView {
  /** `changed` is called when the selection or text changes; `say` reports errors. */
  constructor(asked, draft, changed, say) {
    this.asked = asked;
    this.draft = draft;
    this.changed = changed;
    this.say = say;
    this.offered = asked.action.diff;
    this.count = this.offered.hunks.length;
    this.many = Boolean(asked.action.parts) && this.count > 1;
    this.typable = Boolean(asked.action.parts) && this.count > 0;
    this.taken = new Set(Array(this.count).keys());
    this.edits = new Map();  // index of a hunk → edited text
    this.fields = new Map();  // index of a hunk → its text area
    this.open = null;  // index of the hunk that is being edited
    this.waits = false;  // edited text is not shown yet
    this.exact = false;
    this.top = 0;
    this.shown = el("div");
    this.typing = el("div", { hidden: true });
    this.kept = el("div", { hidden: true });
    this.node = el("div", { class: "what" }, this.shown, this.typing, this.kept);
    this.paint(this.offered);
  }

  get whole() { return this.taken.size === this.count && !this.edits.size; }

  /** Nothing can be approved while a hunk is being edited, since its diff has not been shown. */
  get ready() { return this.open === null && !this.waits && (!this.count || this.taken.size > 0); }

  get words() {
    const count = this.taken.size < this.count ? ` ${this.taken.size} of ${this.count}` : "";
    return `Approve${count}${[...this.edits.keys()].some((place) => this.taken.has(place)) ? " with your text" : ""}`;
  }

  data() {
    if (this.whole) return {};
    const hunks = [...this.taken].sort((a, b) => a - b);
    const edits = Object.fromEntries([...this.edits].filter(([place]) => this.taken.has(place)));
    return { data: { hunks, ...(Object.keys(edits).length ? { edits } : {}) } };
  }

  take(place, yes) {
    if (yes) this.taken.add(place);
    else this.taken.delete(place);
    this.touched();
  }

  /** Show the edit with its secrets. */
  async reveal(exact) {
    this.exact = true;
    this.offered = exact.diff;
    await this.again();
  }

  touched() {
    const free = (place) => !this.fields.get(place)?.exact;  // revealed text is not stored
    const edits = Object.fromEntries([...this.edits].filter(([place]) => free(place)));
    const left = [...Array(this.count).keys()].filter((place) => !this.taken.has(place));
    const area = this.open === null ? null : this.fields.get(this.open);
    const typed = area && free(this.open) && area.value !== this.last(this.open) ? { place: this.open, text: area.value } : null;
    const some = left.length || typed || Object.keys(edits).length;
    const firsts = Object.fromEntries([...this.fields].filter(([place]) => place in edits || typed?.place === place).map(([place, one]) => [place, one.first]));
    this.draft.keep(some ? { digest: this.asked.digest, left, edits, typed, firsts } : null);
    this.changed();
  }

  /** Restore what was typed before a reload. */
  async restore() {
    const kept = this.draft.value;
    if (!kept || kept.digest !== this.asked.digest || !this.typable) return;
    for (const place of kept.left) this.taken.delete(place);
    for (const [place, first] of Object.entries(kept.firsts)) this.field(Number(place), first);
    for (const [place, text] of Object.entries(kept.edits)) this.put(Number(place), text);
    await this.again();
    if (kept.typed && this.open === null) this.type(kept.typed.place, kept.typed.text);
  }

  // --- the diff ---

  paint(change) {
    const rows = this.shown.querySelectorAll(".row").length;
    this.shown.replaceChildren(diff(change, this.typable ? this : null, rows));
  }

  /** Show the diff with all edits. Returns an error message, or "". */
  async show() {
    this.waits = true;
    this.changed();
    let why = "";
    try {
      const { diff: change } = this.edits.size ? await post("/part/typed", { id: this.asked.id, edits: Object.fromEntries(this.edits), exact: this.exact }) : { diff: this.offered };
      this.paint(change);
      const card = this.node.closest(".request");
      if (card) card.dataset.since = String(performance.now());  // ignore clicks meant for what was there before
    } catch (error) { why = error.message; }
    this.waits = false;
    this.changed();
    return why;
  }

  /** Show the diff again; nothing can be approved until that succeeds. */
  async again() {
    const why = await this.show();
    if (!why) return;
    this.waits = true;
    this.changed();
    this.shown.prepend(el("div", { class: "choices" }, el("span", { class: "warning", text: `Your text can't be shown: ${why}` }),
      button("Try again", () => this.again()),
      confirmButton("Reset", "Discard your text?", () => { for (const place of [...this.edits.keys()]) this.put(place, this.fields.get(place).first); this.again(); })));
  }

  // --- typing ---

  /** The current text of a hunk. */
  last(place) { return this.edits.get(place) ?? this.fields.get(place).first; }

  put(place, text) {
    const area = this.fields.get(place);
    area.value = text;
    if (text === area.first) this.edits.delete(place);
    else this.edits.set(place, text);
  }

  field(place, first) {
    const area = el("textarea", { class: "lines part-text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": `Text of ${this.named(place)}` });
    area.first = area.value = first;
    area.exact = this.exact;
    area.dataset.typed = `${this.many ? `Part ${place + 1}` : "The text"}`;
    area.addEventListener("input", () => this.buttons?.());
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.use(); }
    });
    this.fields.set(place, area);
    this.kept.append(area);
    return area;
  }

  named(place) { return this.many ? `part ${place + 1} of ${this.count}` : "the change"; }

  async change(place) {
    if (this.open !== null || this.waits) return;
    try {
      if (!this.fields.has(place)) {
        this.waits = true;
        this.changed();
        const { text } = await post("/part/text", { id: this.asked.id, place, exact: this.exact });
        this.field(place, text);
      }
      this.type(place, this.last(place));
      this.fields.get(place).focus();
    } catch (error) { this.say(error.message); }
    this.waits = false;
    this.changed();
  }

  type(place, text) {
    const area = this.fields.get(place);
    area.value = text;
    area.rows = Math.min(24, Math.max(4, text.split("\n").length + 1));
    const hunk = this.offered.hunks[place];
    const use = button("Use this text", () => this.use(), { class: "primary" });
    const leave = button("Cancel", () => this.close(place));
    const drop = confirmButton("Cancel", "Discard your edits?", () => this.close(place));
    const first = button("Reset", () => { area.value = area.first; this.buttons(); area.focus(); }, { class: "quiet" });
    this.buttons = () => {
      const typed = area.value !== this.last(place);
      use.disabled = !typed;
      leave.hidden = typed;
      drop.hidden = !typed;
      first.hidden = area.value === area.first;
      this.touched();
    };
    const where = hunk.old_count ? `, lines ${hunk.old_start}–${hunk.old_start + hunk.old_count - 1}` : "";
    this.open = place;
    this.top = this.shown.querySelector(".diff-lines")?.scrollTop ?? 0;
    this.typing.replaceChildren(el("div", {},
      el("p", { class: "hint" }, el("b", { text: `${this.many ? `Part ${place + 1} of ${this.count}` : "The change"}${where}` }),
        " as it will be in the file. You see the result before you approve."),
      area,
      area.first.includes("⟨secret") ? el("p", { class: "hint", text: "⟨secret…⟩ is a placeholder. Leave it to keep the secret." }) : null,
      el("div", { class: "choices" }, use, leave, drop, first, el("span", { class: "hint wide", text: "Ctrl+Enter uses it" }))));
    this.shown.hidden = true;
    this.typing.hidden = false;
    this.buttons();
  }

  async use() {
    const place = this.open;
    const area = this.fields.get(place);
    if (this.waits || area.value === this.last(place)) return;
    const before = this.edits.get(place);
    this.put(place, area.value);
    area.readOnly = true;
    const why = await this.show();
    area.readOnly = false;
    if (!why) { this.close(place, true); return; }
    if (before === undefined) this.edits.delete(place);
    else this.edits.set(place, before);
    this.say(why);
    this.buttons();
  }

  /** Return to the diff; `seen`: scroll to the hunk. */
  close(place, seen = false) {
    const area = this.fields.get(place);
    area.value = this.last(place);
    this.open = null;
    this.buttons = null;
    this.kept.append(area);
    this.typing.replaceChildren();
    this.typing.hidden = true;
    this.shown.hidden = false;
    const lines = this.shown.querySelector(".diff-lines");
    const again = this.shown.querySelector(`button[data-place="${place}"]`);
    if (lines) lines.scrollTop = this.top;
    if (lines && again && seen) lines.scrollTop += again.closest(".row").getBoundingClientRect().top - lines.getBoundingClientRect().top - 1;
    again?.focus({ preventScroll: true });
    this.touched();
  }
}
