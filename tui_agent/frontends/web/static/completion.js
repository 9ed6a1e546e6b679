// The list above the message field: slash commands and their arguments, and files after an `@`.

import { $, el } from "./dom.js";
import { post } from "./wire.js";

const LISTING_MS = 400;  // until files are asked for again that are still being listed

export class Completion {
  /** `run(text)` sends a command that is complete. */
  constructor(field, run) {
    this.field = field;
    this.run = run;
    this.commands = [];
    this.options = [];  // { label, note, text, start, isWhole } of each row; `isWhole`: nothing is to follow
    this.selected = 0;
    this.dismissed = "";  // the text for which the list was closed
    this.isAsking = false;
    this.heldKey = "";  // Enter or Tab, pressed while the list is not the one for the text
    this.timer = 0;
    this.list = el("ul", { id: "completion", role: "listbox", tabindex: "0", "aria-label": "Completions", hidden: true });
    $("composer").before(this.list);
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-haspopup", "listbox");
    field.setAttribute("aria-controls", "completion");
    field.addEventListener("input", () => this.update());
    field.addEventListener("click", () => this.update());
    field.addEventListener("keyup", (event) => { if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) this.update(); });
    field.addEventListener("blur", () => this.close());
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());  // the field keeps the focus
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.accept(this.options[[...this.list.children].indexOf(row)], "Enter");
    });
  }

  get isOpen() { return !this.list.hidden; }

  /** The text in front of the cursor; "" while text is selected. */
  get before() {
    const { selectionStart: start, selectionEnd: end, value } = this.field;
    return start === end ? value.slice(0, start) : "";
  }

  update() {
    clearTimeout(this.timer);
    this.heldKey = "";
    const { before } = this;
    if (before !== this.dismissed) this.dismissed = "";
    const line = before.slice(before.lastIndexOf("\n") + 1);
    if (!before || this.dismissed) this.close();
    else if (/^\/[\w-]*$/.test(before)) this.show(this.matchingCommands(before.slice(1)));
    else if (/^\/[\w-]+ [\w-]*$/.test(before)) this.show(this.matchingArguments(before));
    else if (line.includes("@") && !before.startsWith("!")) this.askForFiles(before, line);
    else this.close();
  }

  matchingCommands(typed) {
    const rank = ({ name }) => (name.startsWith(typed) ? 0 : name.includes(typed) ? 1 : 2);
    return this.commands.filter((each) => rank(each) < 2).sort((a, b) => rank(a) - rank(b)).map((command) => ({
      label: `/${command.name}`, note: command.description.replace(/[:;]$/, ""), start: 0,
      text: `/${command.name}`, isWhole: !Object.values(command.arguments).some(Boolean),
    }));
  }

  matchingArguments(before) {
    const [name, typed] = before.slice(1).split(" ");
    const values = Object.entries(this.commands.find((each) => each.name === name)?.arguments ?? {});
    return values.filter(([value, note]) => note && value.startsWith(typed) && value !== typed)
      .map(([value, note]) => ({ label: value, note, start: name.length + 2, text: value, isWhole: true }));
  }

  /** Ask for files; only the latest text is asked for while an answer is awaited. */
  async askForFiles(before, line) {
    if (this.isAsking) return;
    this.isAsking = true;
    let found = { start: -1, names: [] };
    try { found = await post("/mention", { before: line.slice(-2000) }); } catch { /* nothing is offered */ }
    this.isAsking = false;
    if (this.before !== before) { this.update(); return; }
    const key = this.heldKey;
    this.heldKey = "";
    if (document.activeElement !== this.field || this.dismissed === before) return;
    const part = line.slice(-2000);
    const start = before.length - part.length + [...part].slice(0, found.start).join("").length;  // counted in characters by the server
    this.show(found.start < 0 ? [] : found.names.map(({ name, text }) => ({ label: name, note: "", start, text, isWhole: false })), found.note);
    if (key && this.isOpen) this.accept(this.options[0], key);
    else if (key === "Enter") this.run(this.field.value);
    else if (found.listing) this.timer = setTimeout(() => this.update(), LISTING_MS);
  }

  show(options, note = "") {
    this.options = options;
    this.selected = 0;
    this.list.replaceChildren(...options.map(({ label, note: text }, index) => el("li", { id: `completion-${index}`, role: "option" },
      el("span", { class: "label", text: label }), text ? el("span", { class: "note", text }) : null)));
    this.list.title = note;
    this.list.hidden = !options.length;
    this.mark();
  }

  mark() {
    [...this.list.children].forEach((row, index) => row.setAttribute("aria-selected", String(index === this.selected)));
    if (this.isOpen) {
      this.field.setAttribute("aria-activedescendant", `completion-${this.selected}`);
      this.list.children[this.selected].scrollIntoView({ block: "nearest" });
    } else this.field.removeAttribute("aria-activedescendant");
  }

  close() {
    clearTimeout(this.timer);
    this.heldKey = "";
    if (this.isOpen) this.show([]);
  }

  /** Take a key of the open list; returns whether it did. */
  keyDown(event) {
    if (!this.isOpen || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const { length } = this.options;
      this.selected = (this.selected + (event.key === "ArrowDown" ? 1 : length - 1)) % length;
      this.mark();
    } else if (event.key === "Escape") {
      this.dismissed = this.before;
      this.close();
    } else if (event.key !== "Enter" && event.key !== "Tab") return false;
    else if (this.isAsking) this.heldKey = event.key;
    else this.accept(this.options[this.selected], event.key);
    event.preventDefault();
    return true;
  }

  /** Insert an option. Enter runs a whole command; Tab on a folder goes on with its content. */
  accept({ start, text, isWhole }, key) {
    const { field } = this;
    const rest = field.value.slice(field.selectionStart);
    const isCommand = field.value.startsWith("/") && !text.startsWith("@");
    this.close();
    if (isCommand && isWhole && key === "Enter") {
      this.run(field.value.slice(0, start) + text);
      return;
    }
    const opensFolder = key === "Tab" && /\/"?$/.test(text);
    const inserted = opensFolder ? text.replace(/"$/, "") : text + (/^\s/.test(rest) || (isCommand && isWhole) ? "" : " ");
    field.setRangeText(inserted, start, field.selectionStart, "end");
    this.dismissed = isWhole ? this.before : "";
    field.dispatchEvent(new Event("input"));
  }
}
