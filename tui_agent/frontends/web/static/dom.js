// Helpers to create elements from text nodes: untrusted text is never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Create an element. `props`: `class`, `text`, `on` (events), anything else is an attribute. Children: nodes or strings. */
export function el(tag, props = {}, ...children) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") one.className = value;
    else if (name === "text") one.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) one.addEventListener(event, act);
    else one.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) one.append(child);
  return one;
}

/** An SVG symbol of page.html. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function button(label, act, props = {}, ...more) {
  return el("button", { type: "button", on: { click: act }, ...props }, label, ...more);
}

export const $ = (id) => document.getElementById(id);

export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** The number of characters that the server cut from a text, as formatted text; "" for none. */
export function cutCount(text) { return /\n… ([\d,]+) more characters$/.exec(text ?? "")?.[1] ?? ""; }

/** 1.2 s, 48 s, 3 min 5 s */
export function formatDuration(ms) {
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export async function copy(text, where) {
  try {
    await navigator.clipboard.writeText(text);
    flash(where, "Copied");
  } catch {
    flash(where, "Not allowed");
  }
}

/** Show a message on a button for a moment. */
export function flash(where, words) {
  if (where.dataset.said) return;
  where.dataset.said = words;
  const before = [...where.childNodes];
  where.replaceChildren(words);
  setTimeout(() => { where.replaceChildren(...before); delete where.dataset.said; }, 1400);
}
