// Streaming Markdown as elements and text nodes. Finished blocks are created once; only the last one is updated.

import { el, button, copy } from "./dom.js";
import { highlight } from "./highlight.js";

const FENCE = /^(\s{0,8})(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+)(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const ROW = /^\s*\|?.*\|.*$/;
const DASHES = /^\s*\|?\s*:?-{1,}:?\s*(\|\s*:?-{1,}:?\s*)*\|?\s*$/;
const SAFE = /^(https?:\/\/|mailto:)/i;
const MAX_HIGHLIGHTED = 20000;

/** A growing text: `add(piece)`, finally `set(whole)`. `node` is its element. */
export class Markdown {
  constructor() {
    this.node = el("div", { class: "prose" });
    this._reset();
  }

  _reset() {
    this.node.replaceChildren();
    this.source = "";
    this._rest = "";      // text not yet in a finished block
    this._open = null;    // the element of the last, unfinished block
    this._fence = null;   // { mark, code, node } while a fence is open
    this._frame = 0;
  }

  add(piece) {
    this.source += piece;
    this._rest += piece;
    if (!this._frame) this._frame = requestAnimationFrame(() => { this._frame = 0; this._grow(false); });
  }

  /** Set the complete text. */
  set(whole) {
    if (this._frame) cancelAnimationFrame(this._frame);
    this._frame = 0;
    if (whole !== this.source) {
      this._reset();
      this.source = this._rest = whole;
    }
    this._grow(true);
  }

  _grow(ended) {
    for (;;) {
      if (this._fence) {
        if (!this._growFence(ended)) return;
        continue;
      }
      const cut = this._block(ended);
      if (cut === null) break;
      this._close();
      const text = this._rest.slice(0, cut.end);
      this._rest = this._rest.slice(cut.next);
      if (cut.fence) this._openFence(cut.fence);
      else if (text.trim()) this.node.append(...blocks(text.split("\n")));
    }
    this._close();
    if (this._rest.trim() && !this._fence) {
      this._open = el("div", { class: "growing" }, blocks(this._rest.split("\n")));
      this.node.append(this._open);
    }
  }

  _close() {
    if (this._open) this._open.remove();
    this._open = null;
  }

  /** The end of the first finished block; null if there is none. */
  _block(ended) {
    let at = 0;
    let some = false;
    while (at < this._rest.length) {
      const stop = this._rest.indexOf("\n", at);
      if (stop < 0 && !ended) return null;
      const end = stop < 0 ? this._rest.length : stop;
      const line = this._rest.slice(at, end);
      const fence = FENCE.exec(line);
      if (fence) {
        if (some) return { end: at, next: at };
        return { end: at, next: Math.min(end + 1, this._rest.length), fence };
      }
      if (!line.trim()) {
        if (some) return { end: at, next: Math.min(end + 1, this._rest.length) };
      } else some = true;
      at = end + 1;
    }
    return ended && this._rest ? { end: this._rest.length, next: this._rest.length } : null;
  }

  _openFence([, indent, mark, language]) {
    const code = el("code");
    const tool = button("Copy", () => copy(code.textContent, tool), { class: "quiet small" });
    const head = el("div", { class: "code-head" }, el("span", { text: language || "text" }), tool);
    this._fence = { indent: indent.length, mark, code, language };
    this.node.append(el("div", { class: "code" }, head, el("pre", { tabindex: "0" }, code)));
  }

  /** Append lines to an open fence; true if it was closed. */
  _growFence(ended) {
    const fence = this._fence;
    const lines = this._rest.split("\n");
    const last = ended ? null : lines.pop();
    for (let at = 0; at < lines.length; at++) {
      const line = lines[at];
      const bare = line.trim();
      if (bare.length >= fence.mark.length && bare === fence.mark[0].repeat(bare.length)) {
        this._rest = [...lines.slice(at + 1), ...(last === null ? [] : [last])].join("\n");
        this._endFence();
        return true;
      }
      const indent = Math.min(fence.indent, line.length - line.trimStart().length);
      fence.code.append((fence.some ? "\n" : "") + line.slice(indent));
      fence.some = true;
    }
    this._rest = last ?? "";
    if (ended) this._endFence();
    return false;
  }

  _endFence() {
    const { code, language } = this._fence;
    code.normalize();
    if (code.textContent.length < MAX_HIGHLIGHTED) highlight(code, language);
    this._fence = null;
  }
}

/** Elements for lines without fences. */
function blocks(lines) {
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) { at++; continue; }
    const heading = HEADING.exec(line);
    if (heading) {
      nodes.push(el(`h${Math.min(heading[1].length + 2, 6)}`, {}, inline(heading[2])));
      at++;
    } else if (RULE.test(line)) {
      nodes.push(el("hr"));
      at++;
    } else if (QUOTE.test(line)) {
      const inside = [];
      while (at < lines.length && lines[at].trim()) inside.push((QUOTE.exec(lines[at++]) ?? [null, lines[at - 1]])[1]);
      nodes.push(el("blockquote", {}, blocks(inside)));
    } else if (ITEM.test(line)) {
      const end = until(lines, at, (one) => !one.trim());
      nodes.push(list(lines.slice(at, end)));
      at = end;
    } else if (ROW.test(line) && at + 1 < lines.length && DASHES.test(lines[at + 1]) && lines[at + 1].includes("-")) {
      const end = until(lines, at, (one) => !one.includes("|"));
      nodes.push(table(lines.slice(at, end)));
      at = end;
    } else {
      const starts = (one) => !one.trim() || HEADING.test(one) || QUOTE.test(one) || ITEM.test(one) || RULE.test(one);
      const end = Math.max(at + 1, until(lines, at + 1, starts));
      nodes.push(el("p", {}, inline(lines.slice(at, end).join("\n"))));
      at = end;
    }
  }
  return nodes;
}

function until(lines, from, stop) {
  let at = from;
  while (at < lines.length && !stop(lines[at])) at++;
  return at;
}

function list(lines) {
  const [, indent, mark] = ITEM.exec(lines[0]);
  const ordered = /\d/.test(mark);
  const nodes = el(ordered ? "ol" : "ul", { start: ordered && parseInt(mark, 10) !== 1 ? parseInt(mark, 10) : null });
  let item = null;
  let nested = [];
  const flush = () => {
    if (item && nested.length) item.append(...blocks(dedent(nested)));
    nested = [];
  };
  for (const line of lines) {
    const match = ITEM.exec(line);
    if (match && match[1].length <= indent.length + 1) {
      flush();
      const task = /^\[([ xX])\]\s+(.*)$/.exec(match[4]);
      item = el("li", { class: task ? "task" : null });
      if (task) item.append(el("span", { class: task[1] === " " ? "box" : "box ticked", "aria-label": task[1] === " " ? "open" : "done" }), " ");
      item.append(...inline(task ? task[2] : match[4]));
      nodes.append(item);
    } else nested.push(line);
  }
  flush();
  return nodes;
}

function dedent(lines) {
  const least = Math.min(...lines.map((one) => one.length - one.trimStart().length));
  return lines.map((one) => one.slice(least));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((one) => one.trim().replace(/\\\|/g, "|"));
  const aligned = cells(lines[1]).map((one) => (one.endsWith(":") ? (one.startsWith(":") ? "center" : "end") : "start"));
  const row = (line, tag) => el("tr", {}, cells(line).map((one, at) => el(tag, { class: `to-${aligned[at] ?? "start"}` }, inline(one))));
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, row(lines[0], "th")), el("tbody", {}, lines.slice(2).map((one) => row(one, "td")))));
}

const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|!?\[([^\]\n]{0,500})\]\(\s*<?([^\s<>()]{1,2000}(?:\([^\s<>()]{0,200}\)[^\s<>()]{0,200})?)>?(?:\s+"[^"\n]{0,300}")?\s*\)|(\*\*|__)(?=\S)([\s\S]{1,2000}?\S)\5|(?<![\w*])([*_])(?=[^\s*_])([^\n]{0,1000}?[^\s*_])\7(?![\w*])|~~(?=\S)([^\n]{1,1000}?\S)~~|(https?:\/\/[^\s<>"'`\])]{1,2000})|\\([!-/:-@[-`{-~])/g;

/** Nodes for inline Markdown. */
export function inline(text, depth = 0) {
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) nodes.push(document.createTextNode(text.slice(at, match.index)));
    at = match.index + match[0].length;
    const [all, , code, label, target, , strong, , soft, gone, bare, escaped] = match;
    const within = (one) => (depth < 4 ? inline(one, depth + 1) : [document.createTextNode(one)]);
    if (code !== undefined) nodes.push(el("code", { text: code.replace(/\n/g, " ").replace(/^ (.*\S.*) $/, "$1") }));
    else if (target !== undefined) nodes.push(...link(all, label, target, within));
    else if (strong !== undefined) nodes.push(el("strong", {}, within(strong)));
    else if (soft !== undefined) nodes.push(el("em", {}, within(soft)));
    else if (gone !== undefined) nodes.push(el("del", {}, within(gone)));
    else if (bare !== undefined) {
      const tail = /[.,;:!?]+$/.exec(bare)?.[0] ?? "";
      nodes.push(anchor(bare.slice(0, bare.length - tail.length), [bare.slice(0, bare.length - tail.length)]), tail);
    } else if (escaped !== undefined) nodes.push(document.createTextNode(escaped));
  }
  if (at < text.length) nodes.push(document.createTextNode(text.slice(at)));
  return nodes;
}

/** Links to web and mail addresses, with their target shown; images are never loaded. */
function link(all, label, target, within) {
  if (!SAFE.test(target)) return [document.createTextNode(all)];
  const picture = all.startsWith("!");
  const shown = label && label !== target && !picture ? within(label) : [picture && label ? label : target];
  const host = label && label !== target ? [" ", el("span", { class: "leads", text: `(${where(target)})` })] : [];
  return [anchor(target, shown), ...host];
}

function where(target) {
  try { return new URL(target).host || target; } catch { return target; }
}

function anchor(target, shown) {
  return el("a", { href: target, rel: "noopener noreferrer nofollow", target: "_blank", title: target }, shown);
}
