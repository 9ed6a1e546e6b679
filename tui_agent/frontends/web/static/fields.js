// Form fields: they grow with their text, know whether they were changed, and survive a reload.

import { el, button, copy } from "./dom.js";

const DRAFT_PREFIX = "tui-agent-edit:";
const LINE_MAX = 4000;  // characters of a single-line field, as counted by the server
const TEXT_MAX = 64000;
const GROWS_NATIVELY = CSS.supports("field-sizing", "content");

/** A draft in the tab's session storage, until it is sent or discarded. */
export class Draft {
  constructor(id) {
    this.id = id;
    this.key = DRAFT_PREFIX + id;
  }

  /** The draft of the answer or reason next to it. */
  get message() { return new Draft(`${this.id}:message`); }

  get exists() { return this.value !== null || this.message.value !== null; }

  discard() {
    this.save(null);
    this.message.save(null);
  }

  get value() {
    try { return JSON.parse(sessionStorage.getItem(this.key)); } catch { return null; }
  }

  save(value) {
    try {
      if (value === null) sessionStorage.removeItem(this.key);
      else sessionStorage.setItem(this.key, JSON.stringify(value));
    } catch { /* no storage */ }
  }
}

let fieldCount = 0;

/**
 * A field with its label. `multiline`: Enter inserts a line break; otherwise it moves to the next field.
 * Returns { node, area, value, setLabel(text), setValue(text), markInvalid(), lengthError(owner) }.
 */
export function field(name, initial, { multiline = false, hint = "", hidden = false } = {}) {
  const id = `field-${fieldCount += 1}`;
  const area = el("textarea", { id, rows: "1", placeholder: hint, spellcheck: "true", class: multiline ? "multiline" : null, text: initial });
  const label = el("label", { for: id, class: hidden ? "visually-hidden" : null, text: name });
  const normalized = area.value;  // with the browser's line ends
  const grow = () => {
    if (GROWS_NATIVELY) return;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight + 2}px`;
  };
  if (!GROWS_NATIVELY) new ResizeObserver(grow).observe(area);
  area.addEventListener("input", () => { area.removeAttribute("aria-invalid"); grow(); });
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || multiline || event.isComposing || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    focusNext(area);
  });
  area.initial = normalized;
  area.dataset.label = name;
  return {
    node: el("div", { class: "field" }, label, area), area,
    get value() { return area.value === normalized ? initial : area.value; },
    setLabel(text) { label.textContent = area.dataset.label = text; },
    setValue(text) { area.value = text; grow(); },
    markInvalid() { area.setAttribute("aria-invalid", "true"); area.focus(); },
    /** An error if the text is too long, after focusing the field; else "". `owner` names what the field belongs to. */
    lengthError(owner = "") {
      const limit = multiline ? TEXT_MAX : LINE_MAX;
      const length = area.value.length > limit && area.value !== normalized ? [...area.value].length : 0;
      if (length <= limit) return "";
      this.markInvalid();
      const label = area.dataset.label + (owner && ` of ${owner}`);
      return `“${label}” has ${length.toLocaleString("en")} characters; shorten it to ${limit.toLocaleString("en")} at most.`;
    },
  };
}

function focusNext(area) {
  const fields = [...area.closest(".request").querySelectorAll("textarea, input, select")]
    .filter((each) => each.offsetParent && !each.closest(".reason"));
  fields[fields.indexOf(area) + 1]?.focus();
}

/** The changed texts of all fields of a card, to be copied. */
export function changedTexts(card) {
  return [...card.querySelectorAll("textarea, input[type=text]")]
    .filter(({ value, initial = "" }) => value.trim() && value !== initial)
    .map(({ value, dataset }) => (dataset.label ? `${dataset.label}: ${value}` : value)).join("\n\n");
}

/** A button that asks for confirmation on the first click and acts on the second one, until it loses the focus. */
export function confirmButton(label, confirmation, action, props = {}) {
  let armedAt = 0;
  const disarm = () => { armedAt = 0; node.textContent = label; node.classList.remove("armed"); };
  const node = button(label, (event) => {
    if (event.detail > 1) return;  // a double click counts once
    if (!armedAt) {
      armedAt = performance.now();
      node.textContent = confirmation;
      node.classList.add("armed");
      node.focus();  // which a click does not do in every browser
    } else if (performance.now() - armedAt > 400) {
      disarm();
      action();
    }
  }, props);
  node.addEventListener("blur", disarm);
  return node;
}

/** Whether a key event is Ctrl and a key, or ⌘ and the key on a Mac. */
export const isCtrl = (event, key) => (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === key;

/** Call `action` on Ctrl+Enter in a node. */
export function onCtrlEnter(node, action) {
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); action(); }
  });
}

/** Text that was not sent, to be copied until it is dismissed. */
export function unsentText(reason, text, onDismiss) {
  const area = el("textarea", { readonly: true, rows: String(Math.min(8, text.split("\n").length + 1)), "aria-label": "What you typed", text });
  const copyButton = button("Copy", () => copy(text, copyButton), { class: "small" });
  const node = el("section", { class: "unsent", role: "group", "aria-label": "Unsent text" },
    el("div", { class: "unsent-head" }, el("p", { role: "status", text: `${reason} Your text was not sent:` }), copyButton,
      button("Dismiss", () => { node.remove(); onDismiss(); }, { class: "small quiet" })), area);
  return node;
}
