// A file edit before approval: selecting hunks and editing their text.

import { el, button } from "./dom.js";
import { diff } from "./diff.js";
import { confirmButton, isCtrl, onCtrlEnter } from "./fields.js";
import { SeenLines } from "./seen_lines.js";
import { post } from "./wire.js";

const changedLines = (hunk) => hunk.lines.filter((line) => line[0] === "+" || line[0] === "-").length;

/** Only what is shown can be approved: edited text is shown as a diff first. */
export class EditView {
  /** `onChange` is called when the selection or text changes; `report` shows errors. */
  constructor(request, draft, onChange, report) {
    this.request = request;
    this.draft = draft;
    this.onChange = onChange;
    this.report = report;
    this.proposed = request.action.diff;
    this.count = this.proposed.hunks.length;
    this.isEditable = Boolean(request.action.parts) && this.count > 0;
    this.hasParts = this.isEditable && this.count > 1;
    this.selected = new Set(Array(this.count).keys());
    this.edits = new Map();  // index of a hunk → edited text
    this.areas = new Map();  // index of a hunk → its text area
    this.openIndex = null;  // index of the hunk that is being edited
    this.isLoading = false;  // edited text is not shown yet
    this.isExact = false;  // secrets are shown
    this.scrollTop = 0;
    this.sight = new SeenLines(() => this.onChange());
    this.rows = new Map();  // index of a hunk → its changed rows that are on the page
    this.shown = this.proposed;
    this.diffPane = el("div");
    this.textPane = el("div", { hidden: true });
    this.areaStore = el("div", { hidden: true });  // the text areas that are not in use
    this.node = el("div", { class: "request-body" }, this.diffPane, this.textPane, this.areaStore);
    this.showDiff(this.proposed);
  }

  get isUnchanged() { return this.selected.size === this.count && !this.edits.size; }

  /** What scrolls the diff: its lines, or all of the view on a small screen. */
  get scroller() {
    const lines = this.diffPane.querySelector(".diff-lines");
    return lines && getComputedStyle(lines).maxHeight === "none" ? this.node : lines;
  }

  get isOpen() { return this.openIndex !== null; }

  /** Nothing can be approved while a hunk is being edited, since its diff has not been shown. */
  get isReady() { return !this.isOpen && !this.isLoading && (!this.count || this.selected.size > 0); }

  /** The number of changed lines of the selected hunks that were never in sight. */
  get unseen() {
    let count = 0;
    for (const index of this.selected) {
      const rows = this.rows.get(index) ?? [];
      count += changedLines(this.shown.hunks[index]) - rows.filter((row) => !this.sight.unseen.has(row)).length;
    }
    return count;
  }

  /** Called with each changed row as it is put on the page. */
  showRow(index, row) {
    if (!this.rows.has(index)) this.rows.set(index, []);
    this.rows.get(index).push(row);
    this.sight.add([row]);
  }

  get approveLabel() {
    const count = this.selected.size < this.count ? ` ${this.selected.size} of ${this.count}` : "";
    return `Approve${count}${[...this.edits.keys()].some((index) => this.selected.has(index)) ? " with your text" : ""}`;
  }

  /** The selection and edits, as part of an answer. */
  data() {
    if (this.isUnchanged) return {};
    const hunks = [...this.selected].sort((a, b) => a - b);
    const edits = Object.fromEntries([...this.edits].filter(([index]) => this.selected.has(index)));
    return { data: { hunks, ...(Object.keys(edits).length ? { edits } : {}) } };
  }

  select(index, isSelected) {
    if (isSelected) this.selected.add(index);
    else this.selected.delete(index);
    this.changed();
  }

  /** Show the edit with its secrets. */
  async reveal(exact) {
    this.isExact = true;
    this.proposed = exact.diff;
    await this.refresh();
  }

  changed() {
    const canStore = (index) => !this.areas.get(index)?.isExact;  // revealed text is not stored
    const edits = Object.fromEntries([...this.edits].filter(([index]) => canStore(index)));
    const skipped = [...Array(this.count).keys()].filter((index) => !this.selected.has(index));
    const area = this.areas.get(this.openIndex);
    const open = area && canStore(this.openIndex) && area.value !== this.textOf(this.openIndex) ? { index: this.openIndex, text: area.value } : null;
    const initial = Object.fromEntries([...this.areas].filter(([index]) => index in edits || open?.index === index).map(([index, each]) => [index, each.initial]));
    const isEmpty = !skipped.length && !open && !Object.keys(edits).length;
    this.draft.save(isEmpty ? null : { digest: this.request.digest, skipped, edits, open, initial });
    this.onChange();
  }

  /** Restore the draft after a reload. */
  async restore() {
    const draft = this.draft.value;
    if (!draft || draft.digest !== this.request.digest || !this.isEditable) return;
    for (const index of draft.skipped) this.selected.delete(index);
    for (const [index, initial] of Object.entries(draft.initial)) this.createArea(Number(index), initial);
    for (const [index, text] of Object.entries(draft.edits)) this.setText(Number(index), text);
    await this.refresh();
    if (draft.open && !this.isOpen) this.openArea(draft.open.index, draft.open.text);
  }

  // --- the diff ---

  showDiff(change) {
    const rowCount = this.diffPane.querySelectorAll(".row").length;
    this.sight.reset();
    this.rows.clear();
    this.shown = change;
    this.diffPane.replaceChildren(diff(change, this, rowCount));
  }

  setLoading(isLoading) {
    this.isLoading = isLoading;
    this.onChange();
  }

  /** Show the diff with all edits. Returns an error message, or "". */
  async preview() {
    this.setLoading(true);
    let failure = "";
    try {
      const body = { id: this.request.id, edits: Object.fromEntries(this.edits), exact: this.isExact };
      this.showDiff(this.edits.size ? (await post("/part/preview", body)).diff : this.proposed);
      const card = this.node.closest(".request");
      if (card) card.dataset.since = String(performance.now());  // ignore clicks meant for what was there before
    } catch (error) { failure = error.message; }
    this.setLoading(false);
    return failure;
  }

  /** Show the diff again; nothing can be approved until that succeeds. */
  async refresh() {
    const failure = await this.preview();
    if (!failure) return;
    this.setLoading(true);
    this.diffPane.prepend(el("div", { class: "choices" }, el("span", { class: "warning", text: `Your text can't be shown: ${failure}` }),
      button("Try again", () => this.refresh()),
      confirmButton("Reset", "Discard your text?", () => {
        for (const index of [...this.edits.keys()]) this.setText(index, this.areas.get(index).initial);
        this.refresh();
      })));
  }

  // --- editing ---

  /** The current text of a hunk. */
  textOf(index) { return this.edits.get(index) ?? this.areas.get(index).initial; }

  setText(index, text) {
    const area = this.areas.get(index);
    area.value = text;
    if (text === area.initial) this.edits.delete(index);
    else this.edits.set(index, text);
  }

  createArea(index, initial) {
    const area = el("textarea", { class: "multiline hunk-text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": `Text of ${this.nameOf(index)}` });
    area.initial = area.value = initial;
    area.isExact = this.isExact;
    area.dataset.label = this.hasParts ? `Part ${index + 1}` : "The text";
    area.addEventListener("input", () => this.updateButtons?.());
    onCtrlEnter(area, () => this.apply());
    area.addEventListener("keydown", (event) => { if (isCtrl(event, "s")) this.apply(); });
    this.areas.set(index, area);
    this.areaStore.append(area);
  }

  nameOf(index) { return this.hasParts ? `part ${index + 1} of ${this.count}` : "the change"; }

  async editHunk(index) {
    if (this.isOpen || this.isLoading) return;
    try {
      if (!this.areas.has(index)) {
        this.setLoading(true);
        const { text } = await post("/part/text", { id: this.request.id, index, exact: this.isExact });
        this.createArea(index, text);
      }
      this.openArea(index, this.textOf(index));
      this.areas.get(index).focus();
    } catch (error) { this.report(error.message); }
    this.setLoading(false);
  }

  openArea(index, text) {
    const area = this.areas.get(index);
    area.value = text;
    area.rows = Math.min(24, Math.max(4, text.split("\n").length + 1));
    const applyButton = button("Use this text", () => this.apply(), { class: "primary" });
    const cancelButton = button("Cancel", () => this.close(index), { "data-escape": "" });
    const discardButton = confirmButton("Cancel", "Discard your edits?", () => this.close(index), { "data-escape": "" });
    const resetButton = button("Reset", () => { area.value = area.initial; this.updateButtons(); area.focus(); }, { class: "quiet" });
    this.updateButtons = () => {
      const isEdited = area.value !== this.textOf(index);
      applyButton.disabled = !isEdited;
      cancelButton.hidden = isEdited;
      discardButton.hidden = !isEdited;
      resetButton.hidden = area.value === area.initial;
      this.changed();
    };
    const { old_start: start, old_count: count } = this.proposed.hunks[index];
    const lines = count ? `, lines ${start}–${start + count - 1}` : "";
    this.openIndex = index;
    this.scrollTop = this.scroller?.scrollTop ?? 0;
    this.textPane.replaceChildren(el("div", {},
      el("p", { class: "hint" }, el("b", { text: `${this.hasParts ? `Part ${index + 1} of ${this.count}` : "The change"}${lines}` }),
        " as it will be in the file. You see the result before you approve."),
      area,
      area.initial.includes("⟨secret") ? el("p", { class: "hint", text: "⟨secret…⟩ is a placeholder. Leave it to keep the secret." }) : null,
      el("div", { class: "choices" }, applyButton, cancelButton, discardButton, resetButton, el("span", { class: "hint wide-only", text: "Ctrl+S uses it" }))));
    this.diffPane.hidden = true;
    this.textPane.hidden = false;
    this.updateButtons();
  }

  /** Use the edited text if the server can show its diff. */
  async apply() {
    const index = this.openIndex;
    const area = this.areas.get(index);
    const previous = this.textOf(index);
    if (this.isLoading || area.value === previous) return;
    const typed = area.value;
    this.setText(index, typed);
    area.readOnly = true;
    const failure = await this.preview();
    area.readOnly = false;
    if (!failure) { this.close(index, true); return; }
    this.setText(index, previous);
    area.value = typed;
    this.report(failure);
    this.updateButtons();
  }

  /** Return to the diff; with `scrollToHunk`, scroll to the hunk. */
  close(index, scrollToHunk = false) {
    const area = this.areas.get(index);
    area.value = this.textOf(index);
    this.openIndex = null;
    this.updateButtons = null;
    this.areaStore.append(area);
    this.textPane.replaceChildren();
    this.textPane.hidden = true;
    this.diffPane.hidden = false;
    const lines = this.scroller;
    const editButton = this.diffPane.querySelector(`button[data-hunk="${index}"]`);
    if (lines) lines.scrollTop = this.scrollTop;
    if (lines && editButton && scrollToHunk) lines.scrollTop += editButton.closest(".row").getBoundingClientRect().top - lines.getBoundingClientRect().top - 1;
    editButton?.focus({ preventScroll: true });
    this.changed();
  }
}
