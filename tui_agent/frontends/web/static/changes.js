// The changed lines of the plan document; many are shown in steps.

import { el, button, plural } from "./dom.js";

const LINES_PER_STEP = 300;

/** A list of `lines`, each [sign, text]. */
export function changes(lines) {
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
