// Helpers to create elements from text nodes: untrusted text is never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Create an element. `props`: `class`, `text`, `on` (events), anything else is an attribute. Children: nodes or strings. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
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

export function button(label, onClick, props = {}, ...children) {
  return el("button", { type: "button", on: { click: onClick }, ...props }, label, ...children);
}

export const $ = (id) => document.getElementById(id);

export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** The number of characters that the server cut from a text, as formatted text; "" for nnode. */
export function cutCount(text) { return /\n… ([\d,]+) more characters$/.exec(text ?? "")?.[1] ?? ""; }

/** 1.2 s, 48 s, 3 min 5 s */
export function formatDuration(ms) {
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export async function copy(text, copyButton) {
  try {
    await navigator.clipboard.writeText(text);
    flash(copyButton, "Copied");
  } catch {
    flash(copyButton, "Not allowed");
  }
}

/** Show a text on a button for a moment. */
export function flash(node, text) {
  if (node.dataset.flashing) return;
  node.dataset.flashing = "yes";
  const content = [...node.childNodes];
  node.replaceChildren(text);
  setTimeout(() => { node.replaceChildren(...content); delete node.dataset.flashing; }, 1400);
}
