// Editors of requests: the summary of a run, and the steps of a plan.

import { el, button, icon, cutCount } from "./dom.js";
import { field } from "./fields.js";
import { prerequisites } from "./transcript.js";

/**
 * What the editors share: comparing the values with the proposal, saving them as a draft, and resetting them.
 * A subclass has `node`, `values()` and `fill(values)`.
 */
class Editor {
  constructor(proposal, draft, onChange) {
    this.proposal = proposal;
    this.draft = draft;
    this.onChange = onChange;
  }

  /** Show the draft, or `initial`, the values of the proposal. */
  start(initial) {
    this.initial = initial;
    this.fill(this.draft.value ?? initial);
    this.node.addEventListener("input", () => this.changed());
  }

  get isEdited() { return JSON.stringify(this.values()) !== JSON.stringify(this.initial); }

  changed() {
    this.draft.save(this.isEdited ? this.values() : null);
    this.onChange();
  }

  reset() {
    this.fill(this.initial);
    this.changed();
  }
}

/** The first error of `fields`; "" if there is none. */
function lengthErrors(fields, owner = "") {
  for (const each of fields) {
    const error = each.lengthError(owner);
    if (error) return error;
  }
  return "";
}

const setValues = (fields, values) => { for (const [name, each] of Object.entries(fields)) each.setValue(values[name]); };
const valuesOf = (fields) => Object.fromEntries(Object.entries(fields).map(([name, each]) => [name, each.value]));
const isBlank = (fields) => Object.values(fields).every((each) => !each.value.trim());

export class SummaryEditor extends Editor {
  constructor(proposal, draft, onChange) {
    super(proposal, draft, onChange);
    this.texts = {
      action: field("Action", proposal.action, { hint: "What was done" }),
      details: field("Details", proposal.details, { multiline: true, hint: "How, and what to remember" }),
      result: field("Result", proposal.result, { hint: "Outcome" }),
    };
    this.ticks = proposal.criteria.map(() => el("input", { type: "checkbox" }));
    this.notes = [...proposal.decisions_made, ...proposal.decisions_rejected];
    this.decisions = [];
    this.list = el("ul", { class: "decisions" });
    const { action, details, result } = this.texts;
    const cut = cutCount(proposal.details);
    const fixed = [["Goal", proposal.goal], ["Status", proposal.status], ["Tools", proposal.tools.join(", ")]];
    this.node = el("div", { class: "fields" }, action.node, details.node,
      cut ? el("p", { class: "hint", text: `${cut} characters of the details are hidden. Leave the placeholder to keep them.` }) : null,
      result.node, this.criteria(),
      el("div", { class: "field" }, el("span", { class: "name", text: "Decisions" }), el("div", {}, this.list,
        button("Add a decision", () => { this.addDecision().fields.title.area.focus(); this.changed(); }, { class: "quiet small" }))),
      fixed.filter(([, text]) => text)
        .map(([name, text]) => el("div", { class: "field fixed" }, el("span", { class: "name", text: name }), el("span", { text }))));
    this.start({
      action: proposal.action, details: proposal.details, result: proposal.result,
      ticks: proposal.criteria.map((criterion) => criterion.completed),
      decisions: this.notes.map(({ title, rationale }, origin) => ({ origin, rejected: origin >= proposal.decisions_made.length, title, rationale })),
    });
  }

  criteria() {
    if (!this.ticks.length) return null;
    const rows = this.proposal.criteria.map(({ description, notes, added }, index) => el("li", {}, el("label", { class: "criterion" }, this.ticks[index],
      el("span", {}, description, notes ? el("span", { class: "note", text: ` · ${notes}` }) : null, added ? el("span", { class: "chip", text: "new" }) : null))));
    return el("div", { class: "field" }, el("span", { class: "name", text: "Criteria" }), el("ul", { class: "criteria" }, rows));
  }

  /** Add the row of a decision; without `origin` it is a new one. */
  addDecision({ origin = null, rejected = false, title = "", rationale = "" } = {}) {
    const note = this.notes[origin] ?? { title: "", rationale: "" };
    const kind = el("select", {}, el("option", { value: "made", text: "Decided" }), el("option", { value: "rejected", text: "Rejected" }));
    kind.value = rejected ? "rejected" : "made";
    const fields = {
      title: field("Decision", note.title, { hint: "What", hidden: true }),
      rationale: field("Reason", note.rationale, { hint: "Why", hidden: true }),
    };
    setValues(fields, { title, rationale });
    const removeButton = button(icon("close"), () => this.removeDecision(row), { class: "quiet icon-only", title: "Remove" });
    const row = { origin, kind, fields, removeButton };
    row.node = el("li", {}, kind, el("div", { class: "stack" }, fields.title.node, fields.rationale.node), removeButton);
    this.decisions.push(row);
    this.list.append(row.node);
    this.numberDecisions();
    return row;
  }

  removeDecision(row) {
    this.decisions = this.decisions.filter((each) => each !== row);
    const neighbor = row.node.nextElementSibling ?? row.node.previousElementSibling;
    row.node.remove();
    this.numberDecisions();
    (neighbor?.querySelector("button") ?? this.list.nextElementSibling).focus();
    this.changed();
  }

  numberDecisions() {
    this.decisions.forEach(({ kind, fields, removeButton }, index) => {
      kind.setAttribute("aria-label", `Kind of decision ${index + 1}`);
      removeButton.setAttribute("aria-label", `Remove decision ${index + 1}`);
      fields.title.setLabel(`Decision ${index + 1}`);
      fields.rationale.setLabel(`Reason for decision ${index + 1}`);
    });
  }

  get filledDecisions() { return this.decisions.filter(({ origin, fields }) => origin !== null || !isBlank(fields)); }

  /** The edited summary, as the server expects it. */
  values() {
    return {
      ...valuesOf(this.texts), ticks: this.ticks.map((tick) => tick.checked),
      decisions: this.filledDecisions.map(({ origin, kind, fields }) => ({ origin, rejected: kind.value === "rejected", ...valuesOf(fields) })),
    };
  }

  fill(values) {
    setValues(this.texts, values);
    this.ticks.forEach((tick, index) => { tick.checked = values.ticks[index]; });
    this.list.replaceChildren();
    this.decisions = [];
    for (const decision of values.decisions) this.addDecision(decision);
  }

  /** An error message, after focusing its field; "" if the summary can be accepted. */
  validate() {
    if (!this.texts.action.value.trim()) { this.texts.action.markInvalid(); return "Enter what was done."; }
    const untitled = this.filledDecisions.find(({ fields }) => !fields.title.value.trim());
    if (untitled) { untitled.fields.title.markInvalid(); return "Enter the decision, or remove it."; }
    return lengthErrors([...Object.values(this.texts), ...this.filledDecisions.flatMap(({ fields }) => Object.values(fields))]);
  }
}

/** The steps of a plan as rows that can be edited, moved, removed, restored and added. */
export class PlanEditor extends Editor {
  constructor(proposal, draft, onChange) {
    super(proposal, draft, onChange);
    this.rows = new Map();  // element → row
    this.list = el("ol", { class: "edit-steps" });
    this.announcement = el("p", { class: "visually-hidden", role: "status" });
    this.check = field("Check", proposal.check.command, { hint: "A command that verifies the result" });
    this.check.node.classList.add("check-field");
    this.node = el("div", {}, proposal.approach ? el("p", { class: "approach", text: proposal.approach }) : null, prerequisites(proposal), this.list,
      button("Add a step", () => { this.addStep().fields.description.area.focus(); this.changed(); }, { class: "quiet small" }), this.check.node, this.announcement);
    this.start({
      check: proposal.check.command,
      steps: proposal.steps.map(({ description, expected, fallback }, origin) => ({ origin, removed: false, description, expected, fallback })),
    });
  }

  get order() { return [...this.list.children].map((node) => this.rows.get(node)); }

  /** Append the row of a step; without `origin` it is a new one. */
  addStep({ origin = null, removed = false, description = "", expected = "", fallback = "" } = {}) {
    const step = this.proposal.steps[origin] ?? { tool: "", description: "", expected: "", fallback: "" };
    const fields = {
      description: field("Step", step.description, { hint: "What to do", hidden: true }),
      expected: field("Expected", step.expected, { hint: "Expected outcome" }),
      fallback: field("If it fails", step.fallback, { hint: "Fallback" }),
    };
    setValues(fields, { description, expected, fallback });
    const tool = step.tool && step.tool !== "analyze" ? el("code", { text: step.tool }) : null;
    const details = el("div", { class: "fields" }, fields.expected.node, fields.fallback.node);
    details.hidden = !expected && !fallback;
    const detailsButton = button("Expected, if it fails…", () => { details.hidden = false; detailsButton.hidden = true; fields.expected.area.focus(); }, { class: "quiet small" });
    detailsButton.hidden = !details.hidden;
    const action = (name, label, act) => button(icon(name), act, { class: "quiet icon-only", title: label });
    const row = { origin, removed, fields, title: el("s") };
    row.restoreButton = button("Restore", () => this.toggleRemoved(row, false), { class: "small" });
    row.buttons = [
      action("up", "Move up", () => this.move(row, -1)), action("down", "Move down", () => this.move(row, 1)),
      action("close", "Remove", () => this.toggleRemoved(row, true)),
    ];
    row.editView = el("div", { class: "stack" }, fields.description.node, el("div", { class: "step-details" }, tool, detailsButton), details);
    row.removedView = el("div", { class: "stack removed-step" }, row.title, row.restoreButton);
    row.node = el("li", { class: "edit-step" }, el("span", { class: "number" }), row.editView, row.removedView, el("div", { class: "step-buttons" }, row.buttons));
    fields.description.area.addEventListener("keydown", (event) => {
      if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      this.move(row, event.key === "ArrowUp" ? -1 : 1, event.target);
    });
    this.rows.set(row.node, row);
    this.list.append(row.node);
    this.showRow(row);
    this.numberSteps();
    return row;
  }

  showRow(row) {
    row.editView.hidden = row.removed;
    row.removedView.hidden = !row.removed;
    row.title.textContent = row.fields.description.value || "(a new step)";
    row.buttons[2].hidden = row.removed;
    row.node.classList.toggle("is-removed", row.removed);
  }

  toggleRemoved(row, removed) {
    if (removed && row.origin === null && !row.fields.description.value.trim()) {
      const neighbor = this.rows.get(row.node.previousElementSibling ?? row.node.nextElementSibling);
      (neighbor?.removed ? neighbor.restoreButton : neighbor?.fields.description.area)?.focus();
      this.rows.delete(row.node);
      row.node.remove();
    } else {
      row.removed = removed;
      this.showRow(row);
      (removed ? row.restoreButton : row.fields.description.area).focus();
    }
    this.changed();
  }

  move(row, direction, focused = document.activeElement) {
    const neighbor = direction < 0 ? row.node.previousElementSibling : row.node.nextElementSibling;
    if (!neighbor) return;
    if (direction < 0) neighbor.before(row.node);
    else neighbor.after(row.node);
    this.numberSteps();
    (focused.disabled ? row.buttons[direction < 0 ? 1 : 0] : focused).focus();
    row.node.scrollIntoView({ block: "nearest" });
    this.announcement.textContent = `Now step ${this.order.indexOf(row) + 1} of ${this.list.childElementCount}`;
    this.changed();
  }

  numberSteps() {
    let count = 0;
    this.order.forEach((row, index, rows) => {
      const number = row.removed ? "" : String(count += 1);
      row.node.firstChild.textContent = number;
      row.fields.description.setLabel(`Step ${number}`);
      row.buttons[0].disabled = index === 0;
      row.buttons[1].disabled = index === rows.length - 1;
      for (const each of row.buttons) each.setAttribute("aria-label", `${each.title}: ${row.fields.description.value.slice(0, 60) || "new step"}`);
    });
  }

  /** The edited plan, including removed steps. */
  values() {
    const steps = this.order.filter(({ origin, fields }) => origin !== null || !isBlank(fields))
      .map(({ origin, removed, fields }) => ({ origin, removed, ...valuesOf(fields) }));
    return { check: this.check.value, steps };
  }

  fill(values) {
    this.check.setValue(values.check);
    this.list.replaceChildren();
    this.rows.clear();
    for (const step of values.steps) this.addStep(step);
  }

  changed() {
    this.numberSteps();
    super.changed();
  }

  /** An error message, after focusing its field; "" if the plan can be approved. */
  validate() {
    const rows = this.order.filter(({ origin, removed, fields }) => !removed && (origin !== null || !isBlank(fields)));
    if (!rows.length) return "A plan needs at least one step. Reject it instead.";
    const empty = rows.find(({ fields }) => !fields.description.value.trim());
    if (empty) { empty.fields.description.markInvalid(); return "Enter what to do, or remove the step."; }
    for (const { node, fields } of rows) {
      const error = fields.description.lengthError() || lengthErrors([fields.expected, fields.fallback], `step ${node.firstChild.textContent}`);
      if (error) return error;
    }
    return this.check.lengthError();
  }
}
