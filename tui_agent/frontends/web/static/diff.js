// The diff of a file with line numbers; a long one is expanded in steps.

import { el, button, plural } from "./dom.js";

const ROWS_PER_STEP = 300;
const KINDS = { create: "New file", modify: "Change", delete: "Delete" };

/**
 * Elements for a diff. With `editView`, its changed rows are reported as they are shown, and if it is editable, its
 * hunks can be selected and edited. At least `minRows` rows are shown.
 */
export function diff(change, editView = null, minRows = 0) {
  const head = el("div", { class: "diff-head" },
    el("span", { class: "diff-kind", text: KINDS[change.kind] ?? change.kind }), el("code", { text: change.path }),
    el("span", { class: "count added", text: `+${change.added}` }), el("span", { class: "count removed", text: `−${change.removed}` }));
  const rows = rowFactories(change, editView);
  const list = el("div", { class: "rows" });
  const body = el("div", { class: "diff-lines", tabindex: "0", role: "group", "aria-label": `Diff of ${change.path}` }, list);
  showRows(list, rows, 0, minRows);
  return el("div", { class: "diff" }, head, change.note ? el("p", { class: "diff-note", text: change.note }) : null, rows.length ? body : null);
}

function showRows(list, rows, start, minRows = 0) {
  const limit = Math.max(start + ROWS_PER_STEP, minRows);
  const end = limit >= rows.length - 50 ? rows.length : limit;
  list.append(...rows.slice(start, end).map((create) => create()));
  if (end === rows.length) return;
  const moreButton = button(`Show ${plural(rows.length - end, "more line")}`, () => { moreButton.remove(); showRows(list, rows, end); }, { class: "more" });
  list.append(moreButton);
}

/** The rows, each as a function that creates it. */
function rowFactories(change, editView) {
  const rows = [];
  change.hunks.forEach((hunk, index) => {
    const created = [];  // the rows of this hunk that are shown
    const add = (kind, oldNumber, newNumber, sign, text) => rows.push(() => {
      const row = el("div", { class: `row ${kind}${editView?.isEditable && !editView.selected.has(index) ? " skipped" : ""}` },
        el("span", { class: "line-number", "aria-hidden": "true", text: oldNumber }), el("span", { class: "line-number", "aria-hidden": "true", text: newNumber }),
        el("span", { class: "sign", text: sign }), el("span", { class: "line", text }));
      created.push(row);
      if (kind === "plus" || kind === "minus") editView?.showRow(index, row);
      return row;
    });
    if (editView?.isEditable) rows.push(() => hunkHeader(hunk, index, editView, created));
    else if (index || hunk.old_start > 1) add("gap", "", "", "", `⋯ line ${hunk.new_start || hunk.old_start}`);
    const lead = editView ? hunk.lines.findIndex((line) => line[0] === "+" || line[0] === "-") - 1 : 0;
    if (lead > 0) rows.push(() => leadButton(lead, created));
    let oldNumber = hunk.old_start;
    let newNumber = hunk.new_start;
    for (const [at, line] of hunk.lines.entries()) {
      const text = line.slice(1).replace(/\r?\n$/, "");
      if (line[0] === "+") add("plus", "", newNumber++, "+", text);
      else if (line[0] === "-") add("minus", oldNumber++, "", "−", text);
      else if (line[0] === "\\") add("gap", "", "", "", text);
      else add(at < lead ? "same lead" : "same", oldNumber++, newNumber++, "", text);
    }
  });
  return rows;
}

/** A row, shown on small screens only, for the lines before the first change except for the last: it shows them. */
function leadButton(count, rows) {
  const node = el("div", { class: "row gap lead-button" }, button(`⋯ ${plural(count, "line")} before`, () => {
    for (const row of rows) row.classList.remove("lead");
    node.remove();
  }, { class: "quiet small" }));
  return node;
}

/** The header of a hunk that can be skipped or edited; `rows` are its rows that are shown. */
function hunkHeader(hunk, index, editView, rows) {
  const { hasParts, count } = editView;
  const last = hunk.old_start + Math.max(hunk.old_count, 1) - 1;
  const label = [hasParts ? `part ${index + 1} of ${count}` : "", hunk.old_count ? `lines ${hunk.old_start}–${last}` : ""].filter(Boolean).join(" · ");
  const skippedLabel = el("span", { class: "skipped-label", text: "skipped" });
  const editedLabel = editView.edits.has(index) ? el("span", { class: "edited-label", text: "your text" }) : null;
  const checkbox = hasParts ? el("input", { type: "checkbox", checked: editView.selected.has(index), on: { change: () => { editView.select(index, checkbox.checked); update(); } } }) : null;
  const editButton = button("Edit", () => editView.editHunk(index), { class: "small", "data-hunk": index, "aria-label": hasParts ? `Edit the text of ${editView.nameOf(index)}` : "Edit the text" });
  const update = () => {
    const isSelected = checkbox?.checked ?? true;
    skippedLabel.hidden = isSelected;
    editButton.hidden = !isSelected;
    for (const row of rows) row.classList.toggle("skipped", !isSelected);
  };
  update();
  return el("div", { class: "row hunk" }, el("span", { class: "hunk-head" },
    el(checkbox ? "label" : "span", { class: "hunk-label" }, checkbox, el("span", { text: label || "all of it" })), editedLabel, skippedLabel, editButton));
}
