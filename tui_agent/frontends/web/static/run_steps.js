// The steps of the plan that the newest run carries out, at the top of the plan column.

import { $, el, formatDuration, icon } from "./dom.js";

const MIN_SECONDS = 2;  // of a running step before its time is shown

export class RunSteps {
  constructor() {
    this.list = el("ol", { class: "steps" });
    this.count = el("span", { class: "note" });
    this.clear();
  }

  /** Whether a run carries out a plan. */
  get isRunning() { return this.isInRun && this.rows.length > 0; }

  clear() {
    this.rows = [];  // { number, node, startedAt, item, sign, note, state }
    this.isInRun = true;
    this.show();
  }

  /** Show the steps that are to come: of the plan, or of the one that replaces the rest of it. */
  setPlan({ steps }) {
    this.rows = [...this.rows.filter(({ state }) => state), ...steps.map((step) => this.row(step))];
    this.show();
  }

  row({ number, description }) {
    const sign = el("span", { class: "state" });
    const note = el("span", { class: "note" });
    return { number, node: "", startedAt: 0, sign, note, state: "", item: el("li", { class: "step" }, sign, el("div", {}, description, note)) };
  }

  start(node, at, step) {
    let row = this.rows.find((each) => each.number === step.number && !each.state);
    if (!row) this.rows.push(row = this.row(step));
    Object.assign(row, { node, startedAt: Date.parse(at) });
    this.setState(row, "running");
    this.show();
  }

  finish(node, { outcome, ms }) {
    const row = this.rows.find((each) => each.node === node);
    if (!row) return;
    row.note.textContent = ms > 900 ? ` · ${formatDuration(ms)}` : "";
    this.setState(row, outcome);
    this.show();
  }

  end() {
    this.isInRun = false;
    for (const row of this.rows) if (row.state === "running") this.setState(row, "interrupted");
    this.show();
  }

  setState(row, state) {
    row.state = state;
    row.item.className = `step ${state}`;
    row.sign.className = `state ${state}`;
    row.sign.replaceChildren(...(state === "done" || state === "failed" ? [icon(state)] : []));
  }

  /** Update the time of the running step. */
  tick() {
    for (const { state, startedAt, note } of this.rows) {
      const seconds = Math.floor((Date.now() - startedAt) / 1000);
      if (state === "running" && seconds >= MIN_SECONDS) note.textContent = ` · ${formatDuration(1000 * seconds)}`;
    }
  }

  show() {
    this.list.replaceChildren(...this.rows.map(({ item }) => item));
    this.count.textContent = `${this.rows.filter(({ state }) => state === "done").length} of ${this.rows.length}`;
    $("plan-run").replaceChildren(...(this.rows.length ? [el("h3", {}, "Steps ", this.count), this.list] : []));
  }
}
