// The line-by-line differences between two versions of the plan document.

import { el, button, plural } from "./dom.js";

const MAX_COMPARED = 2000;  // lines that are compared by longest common subsequence
const LINES_PER_STEP = 300;
const FRONT_MATTER = /^(---\r?\n)([\s\S]*?)(\r?\n---\r?\n)/;
const VOLATILE_FIELDS = /^(?:updatedAt|createdAt|version):.*$/gm;
const IGNORED_LINE = /^\s*$|^---$|^(?:- \[ \] )?\[(?:No |User will|Criteria will|Goal to be).*\]$/;  // blank lines and placeholders

export function changes(before, after) {
  const lines = diffLines(comparedLines(before), comparedLines(after));
  const list = el("ul", { class: "changes", tabindex: "0", "aria-label": "What changes" });
  const moreButton = button("", () => showMore(), { class: "small" });
  const showMore = () => {
    const start = list.childElementCount;
    const end = start + LINES_PER_STEP >= lines.length - 50 ? lines.length : start + LINES_PER_STEP;
    list.append(...lines.slice(start, end).map(([sign, text]) =>
      el("li", { class: sign === "+" ? "plus" : "minus" }, el("span", { class: "sign", text: sign }), el("span", { text }))));
    const left = lines.length - end;
    moreButton.textContent = `Show ${plural(left, "more line")} that ${left === 1 ? "changes" : "change"}`;
    moreButton.hidden = !left;
  };
  showMore();
  if (!lines.length) list.append(el("li", { class: "empty", text: "No visible changes." }));
  return el("div", {}, list, moreButton);
}

function comparedLines(text) {
  return text.replace(FRONT_MATTER, (_, start, fields, end) => start + fields.replace(VOLATILE_FIELDS, "") + end)
    .split(/\r?\n/).filter((line) => !IGNORED_LINE.test(line));
}

/** The removed and added lines, as [sign, text]. */
function diffLines(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const left = before.slice(start, before.length - end);
  const right = after.slice(start, after.length - end);
  if (left.length * right.length > MAX_COMPARED * MAX_COMPARED) return [...left.map((line) => ["−", line]), ...right.map((line) => ["+", line])];
  const width = right.length + 1;
  const common = new Uint16Array((left.length + 1) * width);  // length of the longest common subsequence from (a, b) on
  for (let a = left.length - 1; a >= 0; a -= 1) {
    for (let b = right.length - 1; b >= 0; b -= 1) {
      common[a * width + b] = left[a] === right[b] ? common[(a + 1) * width + b + 1] + 1 : Math.max(common[(a + 1) * width + b], common[a * width + b + 1]);
    }
  }
  const result = [];
  let a = 0;
  let b = 0;
  while (a < left.length || b < right.length) {
    if (a < left.length && b < right.length && left[a] === right[b]) { a += 1; b += 1; }
    else if (a < left.length && (b >= right.length || common[(a + 1) * width + b] >= common[a * width + b + 1])) result.push(["−", left[a++]]);
    else result.push(["+", right[b++]]);
  }
  return result;
}
