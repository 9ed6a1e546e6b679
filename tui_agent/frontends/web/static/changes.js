// What differs between two texts of the plan, line by line: what comes, and what goes.

import { el, button, plural } from "./dom.js";

const MOST = 2000;  // lines that are compared with each other
const HEAD = /^(---\r?\n)([\s\S]*?)(\r?\n---\r?\n)/;
const COUNTS = /^(?:updatedAt|createdAt|version):.*$/gm;
const ALIKE = /^\s*$|^---$|^(?:- \[ \] )?\[(?:No |User will|Criteria will|Goal to be).*\]$/;  // says nothing to a reader

const AT_ONCE = 300;  // of them that are shown before more are asked for

export function changes(before, after) {
  const all = compared(lines(before), lines(after));
  const list = el("ul", { class: "changes", tabindex: "0", "aria-label": "What changes" });
  const rest = button("", () => more(), { class: "small" });
  const more = () => {
    const shown = list.childElementCount;
    const upto = shown + AT_ONCE >= all.length - 50 ? all.length : shown + AT_ONCE;
    for (const [sign, text] of all.slice(shown, upto)) {
      list.append(el("li", { class: sign === "+" ? "plus" : "minus" }, el("span", { class: "sign", text: sign === "+" ? "+" : "−" }), el("span", { text })));
    }
    rest.textContent = `Show ${plural(all.length - upto, "more line")} that ${all.length - upto === 1 ? "changes" : "change"}`;
    rest.hidden = upto === all.length;
  };
  if (all.length) more();
  else { list.append(el("li", { class: "empty", text: "No visible changes." })); rest.hidden = true; }
  return el("div", {}, list, rest);
}

function lines(text) { return text.replace(HEAD, (_, begin, facts, end) => begin + facts.replace(COUNTS, "") + end).split(/\r?\n/).filter((line) => !ALIKE.test(line)); }

function compared(old, now) {
  let from = 0;
  while (from < old.length && from < now.length && old[from] === now[from]) from += 1;
  let end = 0;
  while (end < old.length - from && end < now.length - from && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const left = old.slice(from, old.length - end);
  const right = now.slice(from, now.length - end);
  if (left.length * right.length > MOST * MOST) return [...left.map((one) => ["-", one]), ...right.map((one) => ["+", one])];
  const width = right.length + 1;
  const common = new Uint16Array((left.length + 1) * width);
  for (let a = left.length - 1; a >= 0; a -= 1) {
    for (let b = right.length - 1; b >= 0; b -= 1) {
      common[a * width + b] = left[a] === right[b] ? common[(a + 1) * width + b + 1] + 1 : Math.max(common[(a + 1) * width + b], common[a * width + b + 1]);
    }
  }
  const found = [];
  let a = 0;
  let b = 0;
  while (a < left.length || b < right.length) {
    if (a < left.length && b < right.length && left[a] === right[b]) { a += 1; b += 1; }
    else if (a < left.length && (b >= right.length || common[(a + 1) * width + b] >= common[a * width + b + 1])) found.push(["-", left[a++]]);
    else found.push(["+", right[b++]]);
  }
  return found;
}
