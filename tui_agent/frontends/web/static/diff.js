// The diff of a file with line numbers; a long one is expanded in steps.

import { el, button, plural } from "./dom.js";

const ROWS_PER_STEP = 300;

/**
 * Elements for a diff. With `parts` its hunks can be selected and edited. At least `least` rows of a long one are shown.
 */
export function diff(change, parts = null, least = 0) {
  const words = { create: "New file", modify: "Change", delete: "Delete" };
  const head = el("div", { class: "diff-head" },
    el("span", { class: "diff-kind", text: words[change.kind] ?? change.kind }), el("code", { text: change.path }),
    el("span", { class: "count added", text: `+${change.added}` }), el("span", { class: "count removed", text: `−${change.removed}` }));
  const body = el("div", { class: "diff-lines", tabindex: "0", role: "region", "aria-label": `Diff of ${change.path}` });
  const rows = lines(change, parts);
  more(body, rows, 0, least);
  return el("div", { class: "diff" }, head, change.note ? el("p", { class: "diff-note", text: change.note }) : null, rows.length ? body : null);
}

function more(body, rows, from, least = 0) {
  const list = body.querySelector(".rows") ?? body.appendChild(el("div", { class: "rows" }));
  const next = Math.max(from + ROWS_PER_STEP, least);
  const end = next >= rows.length - 50 ? rows.length : next;
  list.append(...rows.slice(from, end).map((one) => one()));
  if (end < rows.length) {
    const rest = button(`Show ${plural(rows.length - end, "more line")}`, () => { rest.remove(); more(body, rows, end); }, { class: "more" });
    list.append(rest);
  }
}

/** The rows, each as a function that creates it. */
function lines(change, parts) {
  const rows = [];
  let mine = [];  // the rows of the current hunk
  let at = 0;
  const row = (kind, before, after, sign, text, group = mine, place = at) => () => addToGroup(group, el("div", { class: `row ${kind}${parts && !parts.taken.has(place) ? " out" : ""}` },
    el("span", { class: "no", "aria-hidden": "true", text: before }), el("span", { class: "no", "aria-hidden": "true", text: after }),
    el("span", { class: "sign", text: sign }), el("span", { class: "line", text })));
  change.hunks.forEach((hunk, place) => {
    mine = [];
    at = place;
    if (parts) rows.push(hunkHeader(hunk, place, parts, mine));
    else if (place || hunk.old_start > 1) rows.push(row("gap", "", "", "", `⋯ line ${hunk.new_start || hunk.old_start}`));
    let before = hunk.old_start;
    let after = hunk.new_start;
    for (const line of hunk.lines) {
      const text = line.slice(1).replace(/\r?\n$/, "");
      if (line[0] === "+") rows.push(row("plus", "", after++, "+", text));
      else if (line[0] === "-") rows.push(row("minus", before++, "", "−", text));
      else if (line[0] === "\\") rows.push(row("gap", "", "", "", text));
      else rows.push(row("same", before++, after++, "", text));
    }
  });
  return rows;
}

function addToGroup(group, row) {
  group.push(row);
  return row;
}

/** The header of a hunk that can be skipped or edited; `rows` are its rows that are shown. */
function hunkHeader(hunk, place, parts, rows) {
  return () => {
    const last = hunk.old_start + Math.max(hunk.old_count, 1) - 1;
    const about = [parts.many ? `part ${place + 1} of ${parts.count}` : "", hunk.old_count ? `lines ${hunk.old_start}–${last}` : ""].filter(Boolean).join(" · ");
    const out = el("span", { class: "left-out", text: "skipped" });
    const mine = parts.edits.has(place) ? el("span", { class: "yours", text: "your text" }) : null;
    const tick = parts.many ? el("input", { type: "checkbox", checked: parts.taken.has(place), on: { change: () => { parts.take(place, tick.checked); show(); } } }) : null;
    const change = button("Edit", () => parts.change(place), { class: "small", "data-place": place, "aria-label": parts.many ? `Edit the text of ${parts.named(place)}` : "Edit the text" });
    const show = () => {
      out.hidden = tick === null || tick.checked;
      change.hidden = !out.hidden;
      for (const one of rows) one.classList.toggle("out", !out.hidden);
    };
    show();
    return el("div", { class: "row hunk" }, el("span", { class: "stays" },
      el(tick ? "label" : "span", { class: "about" }, tick, el("span", { text: about || "all of it" })), mine, out, change));
  };
}
