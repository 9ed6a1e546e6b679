// Editors of requests: the summary of a run, and the steps of a plan.

import { el, button, icon, cutCount } from "./dom.js";
import { field } from "./fields.js";
import { needs } from "./transcript.js";

/** The fields of a summary; only changes are sent. */
export class SummaryEditor {
  constructor(offered, draft, changed) {
    this.offered = offered;
    this.draft = draft;
    this.changed = changed;
    this.action = field("Action", offered.action, { hint: "What was done" });
    this.details = field("Details", offered.details ?? "", { lines: true, hint: "How, and what to remember" });
    this.result = field("Result", offered.result ?? "", { hint: "Outcome" });
    this.ticks = (offered.criteria ?? []).map((one) => el("input", { type: "checkbox", checked: one.completed }));
    this.decisions = [];
    this.list = el("ul", { class: "decisions" });
    for (const [rejected, notes] of [[false, offered.decisions_made], [true, offered.decisions_rejected]]) {
      for (const note of notes ?? []) this.decide({ rejected, title: note.title, rationale: note.rationale, origin: this.decisions.length }, note);
    }
    this.start = this.decisions.length;
    this.node = el("div", { class: "fields" }, this.action.node, this.details.node,
      cutCount(offered.details) ? el("p", { class: "hint", text: `${cutCount(offered.details)} characters of the details are hidden. Leave the placeholder to keep them.` }) : null, this.result.node, this.criteria(),
      el("div", { class: "field" }, el("span", { class: "name", text: "Decisions" }), el("div", {}, this.list,
        button("Add a decision", () => { this.decide({}).title.field.focus(); this.touched(); }, { class: "quiet small" }))),
      ...[["Goal", offered.goal], ["Status", offered.status], ["Tools", (offered.tools ?? []).join(", ")]].filter(([, text]) => text)
        .map(([name, text]) => el("div", { class: "field fixed" }, el("span", { class: "name", text: name }), el("span", { text }))));
    this.node.addEventListener("input", () => this.touched());
    if (draft.value) this.restore(draft.value);
  }

  criteria() {
    if (!this.ticks.length) return null;
    const rows = this.offered.criteria.map((one, at) => el("li", {}, el("label", { class: "tick" }, this.ticks[at],
      el("span", {}, one.description, one.notes ? el("span", { class: "note", text: ` · ${one.notes}` }) : null, one.added ? el("span", { class: "chip", text: "new" }) : null))));
    return el("div", { class: "field" }, el("span", { class: "name", text: "Criteria" }), el("ul", { class: "ticks" }, rows));
  }

  /** Add the row of a decision; `note` is the proposed one. */
  decide(now, note = null) {
    const kind = el("select", {}, el("option", { value: "", text: "Decided" }), el("option", { value: "no", text: "Rejected" }));
    const row = {
      origin: now.origin ?? null, kind,
      title: field("Decision", note?.title ?? "", { hint: "What", hidden: true }),
      rationale: field("Reason", note?.rationale ?? "", { hint: "Why", hidden: true }),
    };
    row.was = note ? now.rejected : null;
    kind.value = now.rejected ? "no" : "";
    if (now.title !== undefined) row.title.put(now.title);
    if (now.rationale !== undefined) row.rationale.put(now.rationale);
    row.node = el("li", {}, kind, el("div", { class: "words" }, row.title.node, row.rationale.node),
      row.out = button(icon("close"), () => {
        this.decisions = this.decisions.filter((one) => one !== row);
        const next = row.node.nextElementSibling ?? row.node.previousElementSibling;
        row.node.remove();
        this.number();
        (next?.querySelector("button") ?? this.list.nextElementSibling).focus();
        this.touched();
      }, { class: "quiet bare", title: "Remove" }));
    this.decisions.push(row);
    this.list.append(row.node);
    this.number();
    return row;
  }

  number() {
    this.decisions.forEach((row, at) => {
      const name = `ecision ${at + 1}`;
      row.kind.setAttribute("aria-label", `Kind of d${name}`);
      row.out.setAttribute("aria-label", `Remove d${name}`);
      row.title.name(`D${name}`);
      row.rationale.name(`Reason for d${name}`);
    });
  }

  get rows() { return this.decisions.filter((one) => one.origin !== null || one.title.value.trim() || one.rationale.value.trim()); }

  /** The changes for the server; null if there are none. */
  edit() {
    const edit = {};
    for (const name of ["action", "details", "result"]) if (this[name].changed) edit[name] = this[name].value;
    if (this.ticks.some((one) => one.checked !== one.defaultChecked)) edit.ticks = this.ticks.map((one) => one.checked);
    const rows = this.rows;
    if (rows.length !== this.start || rows.some((one) => one.origin === null || one.title.changed || one.rationale.changed || rejected(one) !== one.was)) {
      edit.decisions = rows.map((one) => ({
        origin: one.origin, rejected: rejected(one),
        ...(one.origin === null || one.title.changed ? { title: one.title.value } : {}), ...(one.rationale.changed ? { rationale: one.rationale.value } : {}),
      }));
    }
    return Object.keys(edit).length ? edit : null;
  }

  /** Why it can't be accepted, after focusing the field; "" if it can. */
  wrong() {
    if (!this.action.value.trim()) { this.action.wrong(); return "Enter what was done."; }
    const empty = this.rows.find((one) => !one.title.value.trim());
    if (empty) { empty.title.wrong(); return "Enter the decision, or remove it."; }
    return firstMessage([this.action, this.details, this.result, ...this.rows.flatMap((one) => [one.title, one.rationale])], (one) => one.long());
  }

  touched() {
    this.draft.keep(this.edit() && {
      action: this.action.value, details: this.details.value, result: this.result.value, ticks: this.ticks.map((one) => one.checked),
      decisions: this.decisions.map((one) => ({ origin: one.origin, rejected: rejected(one), title: one.title.value, rationale: one.rationale.value })),
    });
    this.changed();
  }

  restore(kept) {
    for (const name of ["action", "details", "result"]) this[name].put(kept[name]);
    this.ticks.forEach((one, at) => { one.checked = kept.ticks[at]; });
    this.fill(kept.decisions);
  }

  /** Restore the proposal. */
  reset() {
    for (const name of ["action", "details", "result"]) this[name].put(this[name].start);
    for (const one of this.ticks) one.checked = one.defaultChecked;
    const notes = [...(this.offered.decisions_made ?? []), ...(this.offered.decisions_rejected ?? [])];
    this.fill(notes.map((note, origin) => ({ origin })));
    this.touched();
  }

  fill(rows) {
    const made = this.offered.decisions_made ?? [];
    const notes = [...made, ...(this.offered.decisions_rejected ?? [])];
    this.list.replaceChildren();
    this.decisions = [];
    for (const one of rows) {
      const note = one.origin === null ? null : notes[one.origin];
      const row = this.decide({ rejected: one.origin >= made.length && one.origin !== null, ...one }, note);
      if (note) row.was = one.origin >= made.length;
    }
  }
}

/** The first message that `says` returns. */
function firstMessage(all, says) {
  for (const one of all) {
    const words = says(one);
    if (words) return words;
  }
  return "";
}

const rejected = (row) => row.kind.value === "no";

/** The steps of a plan as rows that can be edited, moved, removed, restored and added. */
export class PlanEditor {
  constructor(offered, draft, changed) {
    this.offered = offered;
    this.draft = draft;
    this.changed = changed;
    this.list = el("ol", { class: "edit-steps" });
    this.told = el("p", { class: "unseen", role: "status" });
    this.check = field("Check", offered.check?.command ?? "", { hint: "A command that verifies the result" });
    this.node = el("div", {}, offered.approach ? el("p", { class: "approach", text: offered.approach }) : null, needs(offered), this.list,
      button("Add a step", () => { this.add(null, this.list.lastElementChild).description.field.focus(); this.touched(); }, { class: "quiet small" }), this.check.node, this.told);
    this.check.node.classList.add("checks");
    this.node.addEventListener("input", () => this.touched());
    this.rows = new Map();  // element → row
    if (draft.value) this.restore(draft.value);
    else this.reset();
  }

  get order() { return [...this.list.children].map((one) => this.rows.get(one)); }

  add(origin, behind, now = {}) {
    const step = origin === null ? {} : this.offered.steps[origin];
    const row = { origin, gone: false, tool: step.tool };
    row.description = field("Step", step.description ?? "", { hint: "What to do", hidden: true });
    row.expected = field("Expected", step.expected ?? "", { hint: "Expected outcome" });
    row.fallback = field("If it fails", step.fallback ?? "", { hint: "Fallback" });
    for (const name of ["description", "expected", "fallback"]) if (now[name] !== undefined) row[name].put(now[name]);
    const tool = step.tool && step.tool !== "analyze" ? el("code", { text: step.tool }) : null;
    row.more = el("div", { class: "fields" }, row.expected.node, row.fallback.node);
    row.more.hidden = !row.expected.value && !row.fallback.value;
    const opener = button("Expected, if it fails…", () => { row.more.hidden = false; opener.hidden = true; row.expected.field.focus(); }, { class: "quiet small" });
    opener.hidden = !row.more.hidden;
    row.back = button("Restore", () => this.leave(row, false), { class: "small" });
    row.struck = el("s");
    const does = (name, words, act) => button(icon(name), act, { class: "quiet bare", "data-does": words });
    row.buttons = [does("up", "Move up", () => this.move(row, -1)), does("down", "Move down", () => this.move(row, 1)), does("close", "Remove", () => this.leave(row, true))];
    row.here = el("div", { class: "words" }, row.description.node, el("div", { class: "under" }, tool, opener), row.more);
    row.away = el("div", { class: "words away" }, row.struck, row.back);
    row.node = el("li", { class: "edit-step" }, el("span", { class: "no" }), row.here, row.away, el("div", { class: "moves" }, row.buttons));
    row.description.field.addEventListener("keydown", (event) => {
      if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      this.move(row, event.key === "ArrowUp" ? -1 : 1, event.target);
    });
    this.rows.set(row.node, row);
    if (behind) behind.after(row.node);
    else this.list.append(row.node);
    this.left(row, Boolean(now.gone));
    this.number();
    return row;
  }

  left(row, gone) {
    row.gone = gone;
    row.here.hidden = gone;
    row.away.hidden = !gone;
    row.struck.textContent = row.description.value || "(a new step)";
    row.buttons[2].hidden = gone;
    row.node.classList.toggle("gone", gone);
  }

  leave(row, gone) {
    if (gone && row.origin === null && !row.description.value.trim()) {
      const near = this.rows.get(row.node.previousElementSibling ?? row.node.nextElementSibling);
      (near?.gone ? near.back : near?.description.field)?.focus();
      this.rows.delete(row.node);
      row.node.remove();
    } else {
      this.left(row, gone);
      (gone ? row.back : row.description.field).focus();
    }
    this.number();
    this.touched();
  }

  move(row, way, keep = document.activeElement) {
    const other = way < 0 ? row.node.previousElementSibling : row.node.nextElementSibling;
    if (!other) return;
    if (way < 0) other.before(row.node);
    else other.after(row.node);
    this.number();
    const at = keep.disabled ? row.buttons[way < 0 ? 1 : 0] : keep;
    at.focus();
    row.node.scrollIntoView({ block: "nearest" });
    this.told.textContent = `Now step ${this.order.indexOf(row) + 1} of ${this.list.childElementCount}`;
    this.touched();
  }

  number() {
    let number = 0;
    const all = this.order;
    all.forEach((row, at) => {
      const shown = row.gone ? "" : String(number += 1);
      row.node.firstChild.textContent = shown;
      row.description.name(`Step ${shown}`);
      row.buttons[0].disabled = at === 0;
      row.buttons[1].disabled = at === all.length - 1;
      for (const one of row.buttons) {
        one.title = one.dataset.does;
        one.setAttribute("aria-label", `${one.dataset.does}: ${row.description.value.slice(0, 60) || "new step"}`);
      }
    });
  }

  get kept() { return this.order.filter((row) => !row.gone && (row.origin !== null || row.description.value.trim() || row.expected.value.trim() || row.fallback.value.trim())); }

  /** The changes for the server; null if there are none. */
  edit() {
    const rows = this.kept;
    const same = rows.length === this.offered.steps.length
      && rows.every((row, at) => row.origin === at && !row.description.changed && !row.expected.changed && !row.fallback.changed);
    if (same && !this.check.changed) return null;
    const steps = rows.map((row) => {
      const one = { origin: row.origin };
      for (const name of ["description", "expected", "fallback"]) if (row[name].changed) one[name] = row[name].value;
      return one;
    });
    return { steps, ...(this.check.changed ? { check: this.check.value } : {}) };
  }

  wrong() {
    const rows = this.kept;
    if (!rows.length) return "A plan needs at least one step. Reject it instead.";
    const empty = rows.find((row) => !row.description.value.trim());
    if (empty) { empty.description.wrong(); return "Enter what to do, or remove the step."; }
    const of = (row) => `step ${row.node.firstChild.textContent}`;
    return firstMessage(rows, (row) => row.description.long() || firstMessage([row.expected, row.fallback], (one) => one.long(of(row)))) || this.check.long();
  }

  touched() {
    this.number();
    this.draft.keep(this.edit() && {
      check: this.check.value,
      rows: this.order.map((row) => ({ origin: row.origin, gone: row.gone, description: row.description.value, expected: row.expected.value, fallback: row.fallback.value })),
    });
    this.changed();
  }

  restore(kept) {
    this.check.put(kept.check);
    for (const one of kept.rows) this.add(one.origin, null, one);
  }

  /** Restore the proposal. */
  reset() {
    this.list.replaceChildren();
    this.rows.clear();
    this.check.put(this.check.start);
    this.offered.steps.forEach((_, origin) => this.add(origin, null));
    this.touched();
  }
}

/** Call `act` on Ctrl+Enter. */
export function onCtrlEnter(node, act) {
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); act(); }
  });
}
