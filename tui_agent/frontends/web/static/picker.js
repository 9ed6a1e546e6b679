// A dialog to choose one of several rows: a model, a session.

import { $, el, button } from "./dom.js";

/**
 * Show a dialog. `rows` are { id, label, note, isCurrent, problem }; `onChoose(id)` is called with the chosen one after
 * the dialog was closed. `extra` is shown below the list.
 */
export function pick(title, rows, onChoose, { extra = null, empty = "There is none." } = {}) {
  const filter = el("input", { type: "search", placeholder: "Search", "aria-label": `Search: ${title}`, autocomplete: "off", spellcheck: "false" });
  const list = el("div", { class: "picker-rows" });
  const items = rows.map((row) => {
    const choose = () => { dialog.close(); onChoose(row.id); };
    const node = button("", choose, { class: "picker-row", "aria-current": row.isCurrent ? "true" : null, disabled: Boolean(row.problem) });
    node.append(el("span", { class: "label", text: row.label }), el("span", { class: "note", text: row.problem || (row.isCurrent ? "in use" : row.note) }));
    return { node, text: `${row.label} ${row.note}`.toLowerCase() };
  });
  const nothing = el("p", { class: "empty", text: empty });
  const visible = () => items.filter(({ node }) => !node.hidden && !node.disabled).map(({ node }) => node);
  const update = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { node, text } of items) node.hidden = !words.every((word) => text.includes(word));
    nothing.hidden = items.some(({ node }) => !node.hidden);
  };
  list.append(...items.map(({ node }) => node), nothing);
  const dialog = el("dialog", { class: "picker-dialog", "aria-label": title },
    el("div", { class: "picker-head" }, el("h2", { text: title }), button("Close", () => dialog.close(), { class: "quiet small" })), filter, list, extra);
  filter.addEventListener("input", update);
  dialog.addEventListener("keydown", (event) => {
    const nodes = visible();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const at = nodes.indexOf(document.activeElement);
      const next = event.key === "ArrowDown" ? at + 1 : at - 1;
      if (next < 0) filter.focus();
      else nodes[Math.min(next, nodes.length - 1)]?.focus();
    } else if (event.key === "Enter" && event.target === filter) {
      event.preventDefault();
      nodes[0]?.click();
    }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });  // beside it
  dialog.addEventListener("close", () => { dialog.remove(); if (matchMedia("(hover: hover)").matches) $("message").focus(); });
  document.body.append(dialog);
  update();
  dialog.showModal();
  return dialog;
}
