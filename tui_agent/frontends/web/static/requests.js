// What somebody must decide: shown above the composer, one at a time, until it is settled here or elsewhere.

import { el, button, icon } from "./dom.js";
import { diff } from "./diff.js";
import { post } from "./wire.js";

const STILL = 350;  // milliseconds in which a click was meant for what stood there before

export class Dock {
  constructor(place, say, changed) {
    this.place = place;
    this.say = say;
    this.changed = changed;
    this.open = new Map();
    this.shown = "";
  }

  get size() { return this.open.size; }

  ask(id, make) {
    this.open.set(id, { make, card: null });
    this.show();
  }

  /** Answered here, in another browser, in the terminal, or withdrawn. */
  settle(id) {
    if (this.open.delete(id)) this.show();
  }

  clear() {
    this.open.clear();
    this.show();
  }

  voided(id, reason) {
    const card = this.open.get(id)?.card;
    if (!card) return;
    card.prepend(el("p", { class: "warning", text: `This can't be approved any more: ${reason}` }));
    for (const one of card.querySelectorAll("button.approve")) one.disabled = true;
  }

  show() {
    const [id, first] = this.open.entries().next().value ?? ["", null];
    if (id !== this.shown) {
      this.shown = id;
      if (first) {
        first.card ??= first.make((body) => this.answer(id, body));
        const card = el("section", { class: "request", role: "group", "aria-label": "A decision is needed" }, first.card);
        card.dataset.since = String(performance.now());
        this.place.replaceChildren(card);
      } else this.place.replaceChildren();
    }
    this.place.querySelector(".waiting")?.remove();
    if (this.open.size > 1) this.place.firstChild?.append(el("p", { class: "waiting", text: `${this.open.size - 1} more to decide` }));
    this.changed();
  }

  async answer(id, body) {
    const since = Number(this.place.firstChild?.dataset.since ?? 0);
    if (performance.now() - since < STILL) return;
    for (const one of this.place.querySelectorAll("button")) one.disabled = true;
    try {
      const said = await post("/answer", { id, ...body });
      if (said.status === "settled") this.say("This was decided elsewhere.");
      this.settle(id);
    } catch (error) {
      for (const one of this.place.querySelectorAll("button")) one.disabled = false;
      this.say(error.message);
    }
  }
}

/** The card for an action that needs leave. */
export function approval(asked) {
  return (answer) => {
    const { action } = asked;
    const what = el("div", { class: "what" }, shown(action));
    const hidden = asked.hides ? button("Show what is hidden", async () => {
      const { action: exact } = await post("/reveal", { id: asked.id });
      what.replaceChildren(...shown(exact));
      hidden.remove();
    }, { class: "quiet small" }) : null;
    const scopes = new Set((asked.grants ?? []).map((one) => one.scope));
    const choices = el("div", { class: "choices" },
      button(action.kind === "trust" ? "Trust it" : "Approve", () => answer({ verdict: "approve" }), { class: "primary approve" }),
      scopes.has("session") ? button("For this session", () => answer({ verdict: "approve", scope: "session" }), { class: "approve" }) : null,
      scopes.has("always") ? button("Always", () => answer({ verdict: "approve", scope: "always" }), { class: "approve" }) : null,
      action.kind === "trust" ? button("Only read", () => answer({ verdict: "reject" }))
        : reason("Reject", "Why not? The model reads it.", (text) => answer({ verdict: "reject", text })));
    const grants = (asked.grants ?? []).filter((one) => one.scope === "session").map((one) => one.pattern).join(", ");
    return el("div", {}, heading(title(action), asked.why), what, hidden, marks(action), choices,
      grants ? el("p", { class: "grant" }, "“For this session” allows ", el("code", { text: grants })) : null);
  };
}

function title(action) {
  if (action.kind === "edit") return { create: "Create a file?", modify: "Edit this file?", delete: "Delete this file?" }[action.diff.kind];
  if (action.kind === "run") return "Run this command?";
  if (action.kind === "read") return "Read this?";
  return "Trust this folder?";
}

function shown(action) {
  if (action.kind === "edit") return [diff(action.diff)];
  if (action.kind === "run") return [el("pre", { class: "command", text: action.command }), el("p", { class: "where" }, "in ", el("code", { text: action.cwd }))];
  if (action.kind === "read") return [el("pre", { class: "command", text: action.display })];
  const found = action.found?.length ? el("ul", {}, action.found.map((one) => el("li", { text: one }))) : null;
  return [el("pre", { class: "command", text: action.folder }),
    el("p", { text: "Trusted, its own rules and settings are read and its tools may be started. Otherwise the session only reads." }), found];
}

function marks(action) {
  const said = [...(action.reasons ?? [])];
  if (action.outside) said.push("outside the workspace");
  if (action.protected) said.push("a protected file");
  if (action.sensitive) said.push("a sensitive file");
  if (action.credentials) said.push("this file is known to hold secrets");
  if (action.env_changes?.length) said.push(`with changed variables: ${action.env_changes.join(", ")}`);
  const severe = action.severity === "critical" || action.severity === "high";
  if (!said.length && !severe) return null;
  return el("p", { class: severe ? "warning" : "hint" }, severe ? el("b", { text: `${action.severity}: ` }) : null, said.join(" · "));
}

function heading(words, why) {
  return el("div", { class: "ask-head" }, icon("asks"), el("h2", { text: words }), why ? el("span", { class: "why", text: why }) : null);
}

/** A button that opens a line for words before it answers. */
function reason(label, hint, done) {
  const field = el("input", { type: "text", placeholder: hint, "aria-label": hint });
  const form = el("form", { class: "reason", hidden: true, on: { submit: (event) => { event.preventDefault(); done(field.value.trim()); } } },
    field, el("button", { type: "submit", class: "danger" }, label));
  const first = button(label, () => { first.hidden = true; form.hidden = false; field.focus(); }, { class: "danger" });
  field.addEventListener("keydown", (event) => { if (event.key === "Escape") { form.hidden = true; first.hidden = false; first.focus(); } });
  return [first, form];
}

export function question(asked) {
  return (answer) => {
    const reply = (text) => answer({ verdict: "reply", text });
    const field = el("input", { type: "text", placeholder: "Your answer", "aria-label": "Your answer" });
    const form = el("form", { class: "reason", on: { submit: (event) => { event.preventDefault(); if (field.value.trim()) reply(field.value.trim()); } } },
      field, el("button", { type: "submit", class: "primary" }, "Answer"));
    return el("div", {}, heading(asked.question, ""),
      el("div", { class: "choices column" }, (asked.options ?? []).map((one) => button(one, () => reply(one)))), form);
  };
}

export function plan(asked, view) {
  return (answer) => el("div", {}, heading("Carry out this plan?", asked.why), el("div", { class: "what" }, view),
    el("div", { class: "choices" },
      button("Carry it out", () => answer({ verdict: "approve" }), { class: "primary" }),
      (asked.plan.alternatives ?? []).map((one, at) => button(`Instead: ${one.approach}`, () => answer({ verdict: "approve", data: { alternative: at } }))),
      reason("Reject", "What should be different?", (text) => answer({ verdict: "reject", text }))));
}

export function summary(asked) {
  return (answer) => el("div", {}, heading("Keep this in the plan?", ""), el("div", { class: "what" }, summed(asked.summary)),
    el("div", { class: "choices" }, button("Keep it", () => answer({ verdict: "approve" }), { class: "primary" }),
      button("Discard", () => answer({ verdict: "reject" }), { class: "danger" })));
}

export function summed(one) {
  const row = (name, text) => (text ? [el("dt", { text: name }), el("dd", { text })] : []);
  const list = (name, many, say) => (many?.length ? [el("dt", { text: name }), el("dd", {}, el("ul", {}, many.map((each) => el("li", { text: say(each) }))))] : []);
  return el("dl", { class: "facts" }, row("What", one.action), row("How", one.details), row("Result", one.result),
    list("Criteria", one.criteria, (each) => `${each.completed ? "✓" : "○"} ${each.description}`),
    list("Decided", one.decisions_made, (each) => each.title), list("Rejected", one.decisions_rejected, (each) => each.title),
    row("Goal", one.goal), row("Status", one.status));
}

export function conflict(asked) {
  const side = (name, text) => el("div", { class: "side" }, el("h3", { text: name }), el("pre", { class: "output", tabindex: "0", text }));
  return (answer) => el("div", {}, heading(`Two edits of the plan differ: ${asked.where}`, ""),
    el("div", { class: "sides" }, side("The agent's", asked.ours), side("The file's", asked.theirs)),
    el("div", { class: "choices" },
      button("The agent's", () => answer({ verdict: "approve", data: { take: "ours" } })),
      button("The file's", () => answer({ verdict: "approve", data: { take: "theirs" } })),
      button("Both", () => answer({ verdict: "approve", data: { take: "both" } }))));
}
