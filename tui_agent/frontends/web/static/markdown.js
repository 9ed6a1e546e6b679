// Streaming Markdown as elements and text nodes. Finished blocks are created once; only the last one is updated.

import { el, button, copy } from "./dom.js";
import { highlight } from "./highlight.js";

const FENCE = /^(\s{0,8})(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+)(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const ROW = /^\s*\|?.*\|.*$/;
const DELIMITER_ROW = /^\s*\|?\s*:?-{1,}:?\s*(\|\s*:?-{1,}:?\s*)*\|?\s*$/;
const SAFE_TARGET = /^(https?:\/\/|mailto:)/i;
const MAX_HIGHLIGHTED = 20000;

/** A growing text: `add(piece)`, finally `setText(text)`. `node` is its element. */
export class Markdown {
  /** `parentLevel` is the level of the heading above the text. */
  constructor(parentLevel = 2) {
    this.node = el("div", { class: "prose" });
    this.parentLevel = parentLevel;
    this._reset();
  }

  _reset() {
    this.node.replaceChildren();
    this.source = "";
    this._levels = { parent: this.parentLevel, last: this.parentLevel };
    this._rest = "";      // text not yet in a finished block
    this._open = null;    // the element of the last, unfinished block
    this._fence = null;   // { indent, mark, code, language } while a fence is open
    this._frame = 0;
  }

  add(piece) {
    this.source += piece;
    this._rest += piece;
    if (!this._frame) this._frame = requestAnimationFrame(() => { this._frame = 0; this._grow(false); });
  }

  /** Set the complete text. */
  setText(text) {
    if (this._frame) cancelAnimationFrame(this._frame);
    this._frame = 0;
    if (text !== this.source) {
      this._reset();
      this.source = this._rest = text;
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
      else if (text.trim()) this.node.append(...blocks(text.split("\n"), this._levels));
    }
    this._close();
    if (this._rest.trim() && !this._fence) {
      this._open = el("div", { class: "growing" }, blocks(this._rest.split("\n"), { ...this._levels }));
      this.node.append(this._open);
    }
  }

  _close() {
    if (this._open) this._open.remove();
    this._open = null;
  }

  /** The end of the first finished block; null if there is none. */
  _block(ended) {
    let start = 0;
    let hasContent = false;
    while (start < this._rest.length) {
      const lineEnd = this._rest.indexOf("\n", start);
      if (lineEnd < 0 && !ended) return null;
      const end = lineEnd < 0 ? this._rest.length : lineEnd;
      const next = Math.min(end + 1, this._rest.length);
      const line = this._rest.slice(start, end);
      const fence = FENCE.exec(line);
      if (fence) return hasContent ? { end: start, next: start } : { end: start, next, fence };
      if (line.trim()) hasContent = true;
      else if (hasContent) return { end: start, next };
      start = end + 1;
    }
    return ended && this._rest ? { end: this._rest.length, next: this._rest.length } : null;
  }

  _openFence([, indent, mark, language]) {
    const code = el("code");
    const copyButton = button("Copy", () => copy(code.textContent, copyButton), { class: "quiet small" });
    const head = el("div", { class: "code-head" }, el("span", { text: language || "text" }), copyButton);
    this._fence = { indent: indent.length, mark, code, language };
    this.node.append(el("div", { class: "code" }, head, el("pre", { tabindex: "0" }, code)));
  }

  /** Append lines to an open fence; true if it was closed. */
  _growFence(ended) {
    const fence = this._fence;
    const lines = this._rest.split("\n");
    const last = ended ? null : lines.pop();
    for (const [index, line] of lines.entries()) {
      const content = line.trim();
      if (content.length >= fence.mark.length && content === fence.mark[0].repeat(content.length)) {
        this._rest = [...lines.slice(index + 1), ...(last === null ? [] : [last])].join("\n");
        this._endFence();
        return true;
      }
      const indent = Math.min(fence.indent, line.length - line.trimStart().length);
      fence.code.append((fence.hasLines ? "\n" : "") + line.slice(indent));
      fence.hasLines = true;
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

/** Elements for lines without fences. `levels` has the levels of the heading above the text and of the last one in it. */
function blocks(lines, levels) {
  const nodes = [];
  let index = 0;
  while (index < lines.length) {
    const line = lines[index];
    if (!line.trim()) { index++; continue; }
    const heading = HEADING.exec(line);
    if (heading) {
      const size = heading[1].length;
      levels.last = Math.min(levels.parent + size, levels.last + 1, 6);  // no level is left out, whatever the model does
      nodes.push(el(`h${levels.last}`, { class: `heading-${size}` }, inline(heading[2])));
      index++;
    } else if (RULE.test(line)) {
      nodes.push(el("hr"));
      index++;
    } else if (QUOTE.test(line)) {
      const quoted = [];
      while (index < lines.length && lines[index].trim()) quoted.push((QUOTE.exec(lines[index++]) ?? [null, lines[index - 1]])[1]);
      nodes.push(el("blockquote", {}, blocks(quoted, levels)));
    } else if (ITEM.test(line)) {
      const end = findIndexFrom(lines, index, (each) => !each.trim());
      nodes.push(list(lines.slice(index, end), levels));
      index = end;
    } else if (ROW.test(line) && index + 1 < lines.length && DELIMITER_ROW.test(lines[index + 1]) && lines[index + 1].includes("-")) {
      const end = findIndexFrom(lines, index, (each) => !each.includes("|"));
      nodes.push(table(lines.slice(index, end)));
      index = end;
    } else {
      const isBoundary = (each) => !each.trim() || [HEADING, QUOTE, ITEM, RULE].some((pattern) => pattern.test(each));
      const end = Math.max(index + 1, findIndexFrom(lines, index + 1, isBoundary));
      nodes.push(el("p", {}, inline(lines.slice(index, end).join("\n"))));
      index = end;
    }
  }
  return nodes;
}

function findIndexFrom(lines, start, predicate) {
  const offset = lines.slice(start).findIndex(predicate);
  return offset < 0 ? lines.length : start + offset;
}

function list(lines, levels) {
  const [, indent, mark] = ITEM.exec(lines[0]);
  const ordered = /\d/.test(mark);
  const nodes = el(ordered ? "ol" : "ul", { start: ordered && parseInt(mark, 10) !== 1 ? parseInt(mark, 10) : null });
  let item = null;
  let nested = [];
  const flush = () => {
    if (item && nested.length) item.append(...blocks(dedent(nested), levels));
    nested = [];
  };
  for (const line of lines) {
    const match = ITEM.exec(line);
    if (match && match[1].length <= indent.length + 1) {
      flush();
      const task = /^\[([ xX])\]\s+(.*)$/.exec(match[4]);
      item = el("li", { class: task ? "task" : null });
      if (task) item.append(el("span", { class: task[1] === " " ? "box" : "box ticked", role: "img", "aria-label": task[1] === " " ? "open" : "done" }), " ");
      item.append(...inline(task ? task[2] : match[4]));
      nodes.append(item);
    } else nested.push(line);
  }
  flush();
  return nodes;
}

function dedent(lines) {
  const indent = Math.min(...lines.map((line) => line.length - line.trimStart().length));
  return lines.map((line) => line.slice(indent));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
  const alignments = cells(lines[1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : "start"));
  const row = (line, tag) => el("tr", {}, cells(line).map((cell, index) => el(tag, { class: `align-${alignments[index] ?? "start"}` }, inline(cell))));
  return el("div", { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Table" }, el("table", {},
    el("thead", {}, row(lines[0], "th")), el("tbody", {}, lines.slice(2).map((line) => row(line, "td")))));
}

const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|!?\[([^\]\n]{0,500})\]\(\s*<?([^\s<>()]{1,2000}(?:\([^\s<>()]{0,200}\)[^\s<>()]{0,200})?)>?(?:\s+"[^"\n]{0,300}")?\s*\)|(\*\*|__)(?=\S)([\s\S]{1,2000}?\S)\5|(?<![\w*])([*_])(?=[^\s*_])([^\n]{0,1000}?[^\s*_])\7(?![\w*])|~~(?=\S)([^\n]{1,1000}?\S)~~|(https?:\/\/[^\s<>"'`\])]{1,2000})|\\([!-/:-@[-`{-~])/g;

/** Nodes for inline Markdown. */
export function inline(text, depth = 0) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) nodes.push(document.createTextNode(text.slice(end, match.index)));
    end = match.index + match[0].length;
    const [all, , code, label, target, , strong, , emphasis, deleted, url, escaped] = match;
    const nested = (content) => (depth < 4 ? inline(content, depth + 1) : [document.createTextNode(content)]);
    if (code !== undefined) nodes.push(el("code", { text: code.replace(/\n/g, " ").replace(/^ (.*\S.*) $/, "$1") }));
    else if (target !== undefined) nodes.push(...link(all, label, target, nested));
    else if (strong !== undefined) nodes.push(el("strong", {}, nested(strong)));
    else if (emphasis !== undefined) nodes.push(el("em", {}, nested(emphasis)));
    else if (deleted !== undefined) nodes.push(el("del", {}, nested(deleted)));
    else if (url !== undefined) {
      const [, address, punctuation] = /^(.*?)([.,;:!?]*)$/.exec(url);
      nodes.push(anchor(address, [address]), punctuation);
    } else if (escaped !== undefined) nodes.push(document.createTextNode(escaped));
  }
  if (end < text.length) nodes.push(document.createTextNode(text.slice(end)));
  return nodes;
}

/** Links to web and mail addresses, with their target shown; images are never loaded. */
function link(all, label, target, nested) {
  if (!SAFE_TARGET.test(target)) return [document.createTextNode(all)];
  const isImage = all.startsWith("!");
  const text = label && label !== target && !isImage ? nested(label) : [isImage && label ? label : target];
  const host = label && label !== target ? [" ", el("span", { class: "link-host", text: `(${hostOf(target)})` })] : [];
  return [anchor(target, text), ...host];
}

function hostOf(target) {
  try { return new URL(target).host || target; } catch { return target; }
}

function anchor(target, content) {
  return el("a", { href: target, rel: "noopener noreferrer nofollow", target: "_blank", title: target }, content);
}
