// Form fields: they grow with their text, know whether they were changed, and survive a reload.

import { el, button, copy } from "./dom.js";

const DRAFT_PREFIX = "tui-agent-edit:";
const LINE_MAX = 4000;  // characters of a single-line field, as counted by the server
const TEXT_MAX = 64000;
const AUTO_GROWS = CSS.supports("field-sizing", "content");

/** A draft in the tab's session storage, until it is used or discarded. */
export class Draft {
  constructor(id) { this.key = DRAFT_PREFIX + id; }

  /** The draft of the answer or reason next to it. */
  get words() { return new Draft(`${this.key.slice(DRAFT_PREFIX.length)}:words`); }

  get some() { return this.value !== null || this.words.value !== null; }

  drop() {
    this.keep(null);
    this.words.keep(null);
  }

  get value() {
    try { return JSON.parse(sessionStorage.getItem(this.key)); } catch { return null; }
  }

  keep(value) {
    try {
      if (value === null) sessionStorage.removeItem(this.key);
      else sessionStorage.setItem(this.key, JSON.stringify(value));
    } catch { /* no storage */ }
  }
}

let count = 0;

/**
 * A field with its label. `lines`: Enter inserts a line break; otherwise it moves to the next field.
 * Returns { node, label, field, start, value, changed, put(text), wrong(), long() }.
 */
export function field(name, start, { lines = false, hint = "", hidden = false } = {}) {
  const id = `field-${count += 1}`;
  const area = el("textarea", { id, rows: "1", placeholder: hint, spellcheck: "true", class: lines ? "lines" : null, text: start });
  const label = el("label", { for: id, class: hidden ? "unseen" : null, text: name });
  const first = area.value;
  const grow = () => {
    if (AUTO_GROWS) return;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight + 2}px`;
  };
  if (!AUTO_GROWS) new ResizeObserver(grow).observe(area);
  area.addEventListener("input", () => { area.removeAttribute("aria-invalid"); grow(); });
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || lines || event.isComposing || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    focusNext(area);
  });
  area.first = first;
  area.dataset.typed = name;
  return {
    node: el("div", { class: "field" }, label, area), label, field: area, start: first,
    get value() { return area.value; },
    get changed() { return area.value !== first; },
    name(words) { label.textContent = area.dataset.typed = words; },
    put(text) { area.value = text; grow(); },
    wrong() { area.setAttribute("aria-invalid", "true"); area.focus(); },
    /** Why the text is too long, after focusing the field; "" if it is not. `of` names what it belongs to. */
    long(of = "") {
      const limit = lines ? TEXT_MAX : LINE_MAX;
      const count = area.value.length > limit && area.value !== first ? [...area.value].length : 0;
      if (count <= limit) return "";
      this.wrong();
      return `“${area.dataset.typed}${of && ` of ${of}`}” has ${count.toLocaleString("en")} characters; shorten it to ${limit.toLocaleString("en")} at most.`;
    },
  };
}

function focusNext(area) {
  const all = [...area.closest(".request").querySelectorAll("textarea, input, select")].filter((one) => one.offsetParent && !one.closest(".reason"));
  all[all.indexOf(area) + 1]?.focus();
}

/** The changed texts of all fields of a card, to be copied. */
export function typed(card) {
  const said = [];
  for (const one of card.querySelectorAll("textarea, input[type=text]")) {
    const text = one.value;
    if (text.trim() && text !== (one.first ?? "")) said.push(one.dataset.typed ? `${one.dataset.typed}: ${text}` : text);
  }
  return said.join("\n\n");
}

/** A button that asks for confirmation on the first click and acts on the second one. */
export function confirmButton(label, again, act, props = {}) {
  let since = 0;
  let timer = 0;
  const disarm = () => { since = 0; clearTimeout(timer); one.textContent = label; one.classList.remove("armed"); };
  const one = button(label, (event) => {
    if (event.detail > 1) return;  // a double click counts once
    if (!since) {
      since = performance.now();
      timer = setTimeout(disarm, 5000);
      one.textContent = again;
      one.classList.add("armed");
    } else if (performance.now() - since > 400) {
      disarm();
      act();
    }
  }, props);
  one.addEventListener("blur", disarm);
  return one;
}

/** Text that was not sent, to be copied until it is dismissed. */
export function unsentText(why, text, away) {
  const area = el("textarea", { readonly: true, rows: String(Math.min(8, text.split("\n").length + 1)), "aria-label": "What you typed", text });
  const copier = button("Copy", () => copy(text, copier), { class: "small" });
  const one = el("section", { class: "leftover", role: "group", "aria-label": "Unsent text" },
    el("div", { class: "leftover-head" }, el("p", { role: "status", text: `${why} Your text was not sent:` }), copier,
      button("Dismiss", () => { one.remove(); away(); }, { class: "small quiet" })), area);
  return one;
}
