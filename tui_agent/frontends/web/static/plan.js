// The plan document next to the transcript, with a pending proposal above it and an editor.

import { $, el, button, plural } from "./dom.js";
import { Draft, unsentText, confirmButton } from "./fields.js";
import { changes } from "./changes.js";
import { Markdown } from "./markdown.js";
import { post } from "./wire.js";

const PLACEHOLDER = /^\[(?:No |User will|Criteria will|Goal to be).*\]$/;
const NOT_SAVED = "Not saved. Your text is still here.";
const NOTICE_PREFIX = "plan_doc.";  // prefix of the codes of notices about the document

export class PlanPanel {
  /** `shows(open)` opens or closes the panel. */
  constructor(say, shows) {
    this.say = say;
    this.shows = shows;
    this.text = "";
    this.cut = 0;  // characters that the server cut
    this.sha256 = "";
    this.editor = null;
    this.draft = null;
    $("edit-plan").addEventListener("click", () => this.open(false));
  }

  /** Set the session, and restore its draft. */
  session(id) {
    this.draft = new Draft(`plan:${id}`);
    const kept = this.editor ? null : this.draft.value;
    if (kept) this.edit({ ...kept, note: "This is what you typed before the page was reloaded." });
  }

  changed(data) {
    if (data.pending) this.proposal = data;
    else {
      this.text = data.text;
      this.cut = data.cut;
      this.sha256 = data.sha256;
      this.proposal = null;
      this.editor?.elsewhere(data.sha256, sections(data.text));
    }
    this.show();
  }

  settled() {
    this.proposal = null;
    this.show();
  }

  /** Handle a notice about the document, such as why it was not written. */
  told(notice) {
    if (notice.code?.startsWith(NOTICE_PREFIX)) this.editor?.refused(notice.text);
  }

  /** Report a conflict, which the user must resolve. */
  conflict() {
    if (!this.editor?.saving) return;
    this.editor.tell("Your edit conflicts with another one. Answer the question shown; your text stays here until then.");
    if (matchMedia("(max-width: 61.99rem)").matches) this.shows(false);
  }

  show() {
    const above = $("plan-proposal");
    above.replaceChildren(...(this.proposal ? [this.offer(this.proposal)] : []));
    $("see-plan").classList.toggle("waits", Boolean(this.proposal));
    $("see-plan").title = this.proposal ? "Plan: proposal pending" : "Plan";
    const place = $("plan-text");
    place.replaceChildren(...(this.text && !this.editor ? [sections(this.text)] : []));
    $("edit-plan").hidden = !this.text || Boolean(this.editor);
    const empty = !this.proposal && !this.editor && !place.textContent.trim();
    if (empty) place.append(el("p", { class: "empty", text: "No plan yet. It grows with the work: goal, acceptance criteria, decisions and log." }));
  }

  offer(proposal) {
    const settle = async (accept) => {
      const buttons = box.querySelectorAll("button");
      for (const one of buttons) one.disabled = true;
      try {
        const { status } = await post("/plan", { accept, seen: proposal.sha256 });
        if (status === "settled") this.say("The proposal has changed or was decided elsewhere.");
      } catch (error) { this.say(error.message); }
      for (const one of buttons) one.disabled = false;
    };
    const box = el("section", { class: "proposal", "aria-label": "A proposal for the plan" }, el("p", { text: "The agent proposes these changes to the plan:" }));
    const drop = button("Discard", () => settle(false));
    const all = proposal.all ?? (proposal.cut || this.cut ? null : { before: this.text, after: proposal.text, cut: 0 });
    if (!all && !proposal.failed) {
      this.load(proposal);
      box.append(el("p", { class: "empty", role: "status", text: "Loading the whole proposal…" }), el("div", { class: "choices" }, drop));
      return box;
    }
    const { before, after, cut } = all ?? { before: this.text, after: proposal.text, cut: proposal.cut + this.cut };
    const left = plural(cut, "character");
    const whole = el("details", { on: { toggle: () => { if (!whole.children[1]) whole.append(sections(after)); } } }, el("summary", { text: "Plan with these changes" }));
    box.append(changes(before, after), whole);
    if (proposal.failed) box.append(el("p", { class: "warning", role: "status", text: `${left} of it could not be shown: ${proposal.failed}` }),
      button("Try again", () => { proposal.failed = ""; this.show(); }, { class: "small" }));
    else if (cut) box.append(el("p", { class: "warning", text: `Too long to show in full: ${left} of the plan and the proposal are not compared here.` }));
    box.append(el("div", { class: "choices" }, cut ? confirmButton("Accept", `Accept ${left} unseen?`, () => settle(true)) : button("Accept", () => settle(true), { class: "primary" }), drop));
    return box;
  }

  /** Load a proposal that is cut in the stream. */
  async load(proposal) {
    if (proposal.loads) return;
    proposal.loads = true;
    try { proposal.all = await post("/plan/proposal", { seen: proposal.sha256 }); } catch (error) { proposal.failed = error.message; }
    proposal.loads = false;
    if (this.proposal === proposal) this.show();
  }

  async open(exact) {
    try {
      const told = await post("/plan/text", { exact });
      if (this.editor) return;  // it was opened in the meantime
      if (told.hides) this.ask();
      else { this.edit({ ...told, exact }); this.editor.field.focus(); }
    } catch (error) { this.say(error.message); }
  }

  /** Ask before showing secrets in the editor. */
  ask() {
    const close = () => { $("plan-editor").replaceChildren(); $("edit-plan").focus(); };
    const show = button("Show and edit", () => this.open(true), { class: "primary" });
    $("plan-editor").replaceChildren(el("div", { class: "proposal" }, el("p", { text: "Something in plan_doc.md looks like a secret and is hidden here. The editor shows it." }),
      el("div", { class: "choices" }, show, button("Not now", close))));
    show.focus();
  }

  edit({ text, base, typed, note = "", exact = false }) {
    this.editor = new DocEditor({ text, base, typed, note, draft: exact ? null : this.draft, done: (merged) => {
      this.editor = null;
      const left = merged && unsentText("It was merged with changes made elsewhere.", merged, () => $("edit-plan").focus());
      $("plan-editor").replaceChildren(...(left ? [left] : []));
      document.body.classList.remove("edits-plan");
      this.show();
      $("edit-plan").focus();
    } });
    $("plan-editor").replaceChildren(this.editor.node);
    document.body.classList.add("edits-plan");
    this.shows(true);
    this.show();
  }
}

/** Edits the text of the document. `base` is the hash of the text before editing. */
class DocEditor {
  constructor({ text, base, typed, note, draft, done }) {
    this.base = base;
    this.draft = draft;
    this.done = done;
    this.saving = false;
    this.other = false;  // the document has changed since
    this.field = el("textarea", { class: "doc", "aria-label": "Text of plan_doc.md", spellcheck: "true", wrap: "soft", text });
    this.start = this.field.value;
    if (typed !== undefined) this.field.value = typed;
    this.note = el("p", { class: "doc-note", role: "status", hidden: true });
    this.now = el("details", { hidden: true }, el("summary", { text: "Current plan" }));
    this.save = button("Save", () => this.write(), { class: "primary" });
    this.cancel = confirmButton("Cancel", "Discard your edits?", () => this.close(), { hidden: true });
    this.leave = button("Cancel", () => this.close());
    this.node = el("div", { class: "doc-editor" }, this.note, this.field,
      el("div", { class: "choices foot" }, this.save, this.cancel, this.leave, el("span", { class: "hint wide", text: "Ctrl+S saves" })), this.now);
    this.field.addEventListener("input", () => this.touched());
    this.field.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && (event.key === "s" || event.key === "Enter")) { event.preventDefault(); this.write(); }
    });
    if (note) this.tell(note);
    this.touched();
  }

  get dirty() { return this.field.value !== this.start; }

  touched() {
    this.save.disabled = !this.dirty || this.saving;
    this.cancel.hidden = !this.dirty;
    this.leave.hidden = this.dirty;
    window.onbeforeunload = this.dirty && !this.draft ? (event) => event.preventDefault() : null;  // no draft is stored
    this.draft?.keep(this.dirty ? { text: this.start, base: this.base, typed: this.field.value } : null);
  }

  tell(words) {
    this.note.textContent = words;
    this.note.hidden = !words;
  }

  /** The document has changed since editing started. */
  elsewhere(sha256, view) {
    if (sha256 === this.base || this.saving) return;
    this.other = true;
    this.tell("The plan has changed elsewhere. Your text is merged with it when you save; you decide about conflicts.");
    this.now.replaceChildren(this.now.firstChild, view);
    this.now.hidden = false;
  }

  /** Show why it was not written; the notice may arrive before or after the response. */
  refused(words) {
    if (this.saving || this.failed) this.why = words;
    if (this.failed) this.tell(`${NOT_SAVED} ${words}`);
  }

  async write() {
    if (this.saving || !this.dirty) return;
    this.saving = true;
    this.why = "";
    this.failed = false;
    this.field.readOnly = true;
    this.save.textContent = "Saving…";
    this.touched();
    try {
      const { status } = await post("/plan/edit", { text: this.field.value, base: this.base });
      if (status !== "settled") {
        this.close(status === "merged" || this.other ? this.field.value : "");
        return;
      }
      this.tell(`${NOT_SAVED} ${this.why}`);
      this.failed = true;
    } catch (error) {
      this.tell(`${NOT_SAVED} ${error.message}`);
    }
    this.saving = false;
    this.field.readOnly = false;
    this.save.textContent = "Save";
    this.touched();
  }

  close(merged = "") {
    this.draft?.keep(null);
    window.onbeforeunload = null;
    this.done(merged);
  }
}

function sections(text) {
  const lines = text.replace(/^---\n[\s\S]*?\n---\n/, "").split("\n");
  const status = /^status:\s*(\w+)/m.exec(text)?.[1] ?? "";
  const whole = el("div", { class: "plan-doc" });
  let title = "";
  let body = [];
  const flush = () => {
    const said = body.join("\n").trim();
    if (title && said && !PLACEHOLDER.test(said.replace(/^- \[ \]\s*/, ""))) {
      const view = new Markdown();
      view.set(said);
      const log = title === "Execution Log";
      whole.append(el(log ? "details" : "section", { class: log ? "log" : null }, el(log ? "summary" : "h3", { text: title }), view.node));
    }
    body = [];
  };
  for (const line of lines) {
    const heading = /^##\s+(.*)$/.exec(line);
    if (heading) { flush(); title = heading[1]; }
    else if (/^#\s/.test(line) || (!title && /^\*\*Status/.test(line))) continue;
    else if (title) body.push(line);
  }
  flush();
  if (whole.childNodes.length && status) whole.prepend(el("span", { class: `chip ${status}`, text: status.replace(/_/g, " ") }));
  return whole;
}
