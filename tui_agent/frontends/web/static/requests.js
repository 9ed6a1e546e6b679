// Requests to the user, shown above the composer one at a time until they are settled here or elsewhere.

import { $, el, button, icon, cutCount } from "./dom.js";
import { PlanEditor, SummaryEditor, onCtrlEnter } from "./editors.js";
import { Draft, unsentText, confirmButton, typed } from "./fields.js";
import { EditView } from "./hunks.js";
import { alternativeRank } from "./transcript.js";
import { post } from "./wire.js";

const SETTLE_MS = 400;  // milliseconds in which a click is ignored, since it was meant for what was there before
const ELSEWHERE = "This was decided elsewhere.";

export class Dock {
  constructor(place, say, changed) {
    this.left = el("div", { class: "leftovers" });
    this.place = el("div");
    place.replaceChildren(this.left, this.place);
    this.say = say;
    this.changed = changed;
    this.open = new Map();
    this.shown = "";
  }

  get size() { return this.open.size; }

  ask(id, make) {
    this.open.set(id, { make, card: null, draft: new Draft(id), sent: false });
    this.show();
  }

  /** Remove a settled or withdrawn request. Text that was typed but not sent stays to be copied. */
  settle(id, why = ELSEWHERE) {
    const one = this.open.get(id);
    if (!one) return;
    this.open.delete(id);
    if (!one.sent) this.keep(id, one, why);
    this.show();
  }

  clear() {
    for (const id of [...this.open.keys()]) this.settle(id, "The session ended.");
  }

  keep(id, one, why) {
    if (!one.card && one.draft.some) this.make(id, one);
    const text = one.card ? typed(one.card) : "";
    if (!text) { one.draft.drop(); return; }
    const held = one.card.contains(document.activeElement);
    const left = unsentText(why, text, () => one.draft.drop());
    this.left.append(left);
    if (held) left.querySelector("textarea").focus();
  }

  make(id, one) {
    const { node, editor = false } = one.make((body) => this.answer(id, body), one.draft);
    one.card = el("section", { class: `request${editor ? " editor" : ""}`, role: "group", tabindex: "-1", "aria-label": "A decision is needed" }, node);
  }

  voided(id, reason) {
    const card = this.open.get(id)?.card;
    if (!card) return;
    card.dataset.void = "yes";
    card.prepend(el("p", { class: "warning", text: `This can no longer be approved: ${reason}` }));
    for (const one of card.querySelectorAll("button.approve")) one.disabled = true;
  }

  show() {
    const [id, first] = this.open.entries().next().value ?? ["", null];
    if (id !== this.shown) {
      const held = this.place.contains(document.activeElement);
      this.shown = id;
      if (first) {
        if (!first.card) this.make(id, first);
        first.card.dataset.since = String(performance.now());
        this.place.replaceChildren(first.card);
      } else this.place.replaceChildren();
      if (held && matchMedia("(hover: hover)").matches) $("say").focus();  // so that keys meant for the previous request decide nothing
    }
    this.place.querySelector(".waiting")?.remove();
    if (this.open.size > 1) this.place.firstChild?.append(el("p", { class: "waiting", text: `${this.open.size - 1} more to decide` }));
    this.changed();
  }

  async answer(id, body) {
    const one = this.open.get(id);
    if (!one || one.sent || performance.now() - Number(one.card.dataset.since) < SETTLE_MS) return;
    one.sent = true;
    const from = one.card.contains(document.activeElement) ? document.activeElement : null;
    const ready = [...one.card.querySelectorAll("button, textarea, input, select")].filter((each) => !each.disabled);
    for (const each of ready) each.disabled = true;  // what is typed now would not be told any more
    if (from?.disabled) one.card.focus();  // what is disabled loses the focus to nowhere
    try {
      const said = await post("/answer", { id, ...body });
      if (said.status === "settled") { this.say(ELSEWHERE); this.keep(id, one, ELSEWHERE); }
      else one.draft.drop();
      this.settle(id);
    } catch (error) {
      one.sent = false;
      for (const each of ready) each.disabled = Boolean(one.card.dataset.void) && each.classList.contains("approve");
      if (!this.open.has(id)) this.keep(id, one, ELSEWHERE);
      else if (document.activeElement === one.card) from.focus();
      this.say(error.message);
    }
  }
}

/** The card for an action that needs leave. */
export function approval(asked, say) {
  return (answer, draft) => {
    const { action } = asked;
    const edit = action.kind === "edit" ? new EditView(asked, draft, () => chosen(), say) : null;
    const what = edit?.node ?? el("div", { class: "what" }, shown(action));
    const hidden = asked.hides ? button("Show hidden secrets", async () => {
      const { action: exact } = await post("/reveal", { id: asked.id });
      if (edit) await edit.reveal(exact);
      else what.replaceChildren(...shown(exact));
      hidden.remove();
    }, { class: "quiet small" }) : null;
    const scopes = new Set((asked.grants ?? []).map((one) => one.scope));
    const once = button(action.kind === "trust" ? "Trust it" : "Approve", () => answer({ verdict: "approve", ...edit?.data() }), { class: "primary approve" });
    const standing = [scopes.has("session") ? button("For this session", () => answer({ verdict: "approve", scope: "session" }), { class: "approve" }) : null,
      scopes.has("always") ? button("Always", () => answer({ verdict: "approve", scope: "always" }), { class: "approve" }) : null];
    const choices = el("div", { class: "choices" }, once, standing,
      action.kind === "trust" ? button("Read-only", () => answer({ verdict: "reject" }))
        : reason("Reject", "Why not? The model reads your reason.", (text) => answer({ verdict: "reject", text }), draft));
    const grants = (asked.grants ?? []).filter((one) => one.scope === "session").map((one) => one.pattern).join(", ");
    const grant = grants ? el("p", { class: "grant" }, "“For this session” allows ", el("code", { text: grants })) : null;
    const hint = edit?.many ? el("p", { class: "hint", text: "Uncheck parts to skip them, or edit their text." }) : null;
    const node = el("div", {}, heading(title(action), asked.why), hint, what, hidden, marks(action), choices, grant);
    const chosen = () => {
      once.textContent = edit.words;
      once.disabled = !edit.ready || node.closest("[data-void]") !== null;
      for (const one of [...standing, grant]) if (one) one.hidden = !edit.whole || edit.open !== null;
      for (const one of [hint, hidden]) if (one) one.hidden = edit.open !== null;
    };
    if (edit) { chosen(); edit.restore(); }
    return { node };
  };
}

function title(action) {
  if (action.kind === "edit") return { create: "Create a file?", modify: "Edit this file?", delete: "Delete this file?" }[action.diff.kind];
  if (action.kind === "run") return "Run this command?";
  if (action.kind === "read") return "Read this?";
  return "Trust this folder?";
}

function shown(action) {
  if (action.kind === "run") return [el("pre", { class: "command", text: action.command }), el("p", { class: "where" }, "in ", el("code", { text: action.cwd }))];
  if (action.kind === "read") return [el("pre", { class: "command", text: action.display })];
  const found = action.found?.length ? el("ul", {}, action.found.map((one) => el("li", { text: one }))) : null;
  return [el("pre", { class: "command", text: action.folder }),
    el("p", { text: "If you trust it, its rules and settings are read and its tools may be started. Otherwise the session is read-only." }), found];
}

function marks(action) {
  const said = [...(action.reasons ?? [])];
  if (action.outside) said.push("outside the workspace");
  if (action.protected) said.push("a protected file");
  if (action.sensitive) said.push("a sensitive file");
  if (action.credentials) said.push("this file is known to contain secrets");
  if (action.env_changes?.length) said.push(`with changed variables: ${action.env_changes.join(", ")}`);
  const severe = action.severity === "critical" || action.severity === "high";
  if (!said.length && !severe) return null;
  return el("p", { class: severe ? "warning" : "hint" }, severe ? el("b", { text: `${action.severity}: ` }) : null, said.join(" · "));
}

function heading(words, why) {
  return el("div", { class: "ask-head" }, icon("asks"), el("h2", { text: words }), why ? el("span", { class: "why", text: why }) : null);
}

/** A button that opens a field for a reason. */
function reason(label, hint, done, draft) {
  const field = words(hint, draft);
  const form = el("form", { class: "reason", hidden: !field.value, on: { submit: (event) => { event.preventDefault(); done(field.value.trim()); } } },
    field, el("button", { type: "submit", class: "danger" }, label));
  const first = button(label, () => { first.hidden = true; form.hidden = false; field.focus(); }, { class: "danger", hidden: Boolean(field.value) });
  field.addEventListener("keydown", (event) => { if (event.key === "Escape") { form.hidden = true; first.hidden = false; first.focus(); } });
  return [first, form];
}

/** A text field whose content survives a reload. */
function words(hint, draft) {
  const field = el("input", { type: "text", placeholder: hint, "aria-label": hint });
  field.value = draft.words.value ?? "";  // sets the cursor to the end
  field.addEventListener("input", () => draft.words.keep(field.value || null));
  return field;
}

export function question(asked) {
  return (answer, draft) => {
    const reply = (text) => answer({ verdict: "reply", text });
    const field = words("Your answer", draft);
    const form = el("form", { class: "reason", on: { submit: (event) => { event.preventDefault(); if (field.value.trim()) reply(field.value.trim()); } } },
      field, el("button", { type: "submit", class: "primary" }, "Answer"));
    return { node: el("div", {}, heading(asked.question, ""),
      el("div", { class: "choices column" }, (asked.options ?? []).map((one) => button(one, () => reply(one)))), form) };
  };
}

/** A plan to approve; its steps can be edited. */
export function plan(asked, view, say) {
  return (answer, draft) => {
    const approve = () => {
      const edit = editor?.edit();
      const wrong = edit ? editor.wrong() : "";
      if (wrong) say(wrong);
      else answer({ verdict: "approve", ...(edit ? { data: { plan: edit } } : {}) });
    };
    let editor = null;
    const mark = chip();
    const what = el("div", { class: "what" }, view);
    const yes = button("Approve", approve, { class: "primary" });
    const change = button("Edit steps", () => { edit(); editor.list.querySelector("textarea")?.focus(); });
    const back = confirmButton("Reset", "Discard your changes?", () => { editor.reset(); look(); change.focus(); });
    const others = el("div", { class: "choices column" }, (asked.plan.alternatives ?? []).map((one, at) => button(`Alternative: ${one.approach}`, () => answer({ verdict: "approve", data: { alternative: at } }), {}, alternativeRank(one))));
    const head = heading(asked.recovery ? "Continue with this plan?" : "Run this plan?", asked.why);
    head.append(mark);
    const node = el("div", {}, head, asked.fallback ? el("p", { class: "warning", text: "No valid plan was produced: this is the request as one step." }) : null, what, others,
      el("div", { class: "choices foot" }, yes, change, back, reason("Reject", "What should be different?", (text) => answer({ verdict: "reject", text }), draft)));
    const changed = () => {
      const touched = editor !== null && editor.edit() !== null;
      mark.hidden = !touched;
      yes.textContent = touched ? "Approve as edited" : "Approve";
    };
    const edit = () => {
      if (!editor) {
        editor = new PlanEditor(asked.plan, draft, () => changed());
        onCtrlEnter(editor.node, approve);
      }
      what.replaceChildren(editor.node);
      shows(true);
      changed();
    };
    const look = () => { what.replaceChildren(view); shows(false); };
    const shows = (edits) => {
      change.hidden = edits;
      back.hidden = !edits;
      others.hidden = edits || !others.childElementCount;
    };
    shows(false);
    if (draft.value) edit();
    return { node, editor: true };
  };
}

/** The summary of a run (W9): can be edited, then accepted or discarded. */
export function summary(asked, say) {
  return (answer, draft) => {
    const keep = () => {
      const edit = editor.edit();
      const wrong = editor.wrong();
      if (wrong) say(wrong);
      else answer({ verdict: "approve", ...(edit ? { data: { summary: edit } } : {}) });
    };
    const mark = chip();
    const yes = button("Accept", keep, { class: "primary" });
    const back = confirmButton("Reset", "Discard your changes?", () => { editor.reset(); editor.action.field.focus(); }, { class: "quiet", title: "Discard your edits" });
    const changed = () => {
      const touched = editor.edit() !== null;
      yes.textContent = touched ? "Accept as edited" : "Accept";
      mark.hidden = back.hidden = !touched;
    };
    const editor = new SummaryEditor(asked.summary, draft, () => changed());
    const head = heading("Add this to the plan?", asked.by === "program" ? "written by the program" : "saved to the plan when you accept it");
    head.append(mark);
    const node = el("div", {}, head, editor.node,
      el("div", { class: "choices foot" }, yes, confirmButton("Discard", "Discard it?", () => answer({ verdict: "reject" }), { class: "danger" }), back,
        el("span", { class: "hint wide", text: "Ctrl+Enter accepts it" })));
    changed();
    onCtrlEnter(editor.node, keep);
    return { node, editor: true };
  };
}

function chip() { return el("span", { class: "chip edited", hidden: true, text: "edited" }); }

export function conflict(asked) {
  const side = (name, text) => el("div", { class: "side" }, el("h3", { text: name }), el("pre", { class: "output", tabindex: "0", text }),
    cutCount(text) ? el("p", { class: "warning", text: `${cutCount(text)} characters are not shown.` }) : null);
  return (answer) => ({ node: el("div", {}, heading(`Conflicting edits of the plan: ${asked.where}`, ""),
    el("div", { class: "sides" }, side("Agent's text", asked.ours), side("Your text", asked.theirs)),
    el("div", { class: "choices" },
      button("Use agent's text", () => answer({ verdict: "approve", data: { take: "ours" } })),
      button("Keep your text", () => answer({ verdict: "approve", data: { take: "theirs" } })),
      button("Keep both", () => answer({ verdict: "approve", data: { take: "both" } })))) });
}
