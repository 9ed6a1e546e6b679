// The line-by-line differences between two versions of the plan document.

import { el, button, plural } from "./dom.js";

const MAX_COMPARED = 2000;  // lines diffLines by longest common subsequence
const FRONT_MATTER = /^(---\r?\n)([\s\S]*?)(\r?\n---\r?\n)/;
const VOLATILE_FIELDS = /^(?:updatedAt|createdAt|version):.*$/gm;
const IGNORED_LINE = /^\s*$|^---$|^(?:- \[ \] )?\[(?:No |User will|Criteria will|Goal to be).*\]$/;  // blank lines and placeholders

const LINES_PER_STEP = 300;  // changed lines shown per step

export function changes(before, after) {
  const all = diffLines(lines(before), lines(after));
  const list = el("ul", { class: "changes", tabindex: "0", "aria-label": "What changes" });
  const rest = button("", () => more(), { class: "small" });
  const more = () => {
    const shown = list.childElementCount;
    const limit = shown + LINES_PER_STEP >= all.length - 50 ? all.length : shown + LINES_PER_STEP;
    for (const [sign, text] of all.slice(shown, limit)) {
      list.append(el("li", { class: sign === "+" ? "plus" : "minus" }, el("span", { class: "sign", text: sign === "+" ? "+" : "−" }), el("span", { text })));
    }
    rest.textContent = `Show ${plural(all.length - limit, "more line")} that ${all.length - limit === 1 ? "changes" : "change"}`;
    rest.hidden = limit === all.length;
  };
  if (all.length) more();
  else { list.append(el("li", { class: "empty", text: "No visible changes." })); rest.hidden = true; }
  return el("div", {}, list, rest);
}

function lines(text) { return text.replace(FRONT_MATTER, (_, begin, facts, end) => begin + facts.replace(VOLATILE_FIELDS, "") + end).split(/\r?\n/).filter((line) => !IGNORED_LINE.test(line)); }

function diffLines(old, now) {
  let from = 0;
  while (from < old.length && from < now.length && old[from] === now[from]) from += 1;
  let end = 0;
  while (end < old.length - from && end < now.length - from && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const left = old.slice(from, old.length - end);
  const right = now.slice(from, now.length - end);
  if (left.length * right.length > MAX_COMPARED * MAX_COMPARED) return [...left.map((one) => ["-", one]), ...right.map((one) => ["+", one])];
  const width = right.length + 1;
  const common = new Uint16Array((left.length + 1) * width);
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
    else if (a < left.length && (b >= right.length || common[(a + 1) * width + b] >= common[a * width + b + 1])) result.push(["-", left[a++]]);
    else result.push(["+", right[b++]]);
  }
  return result;
}
