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
  /** `setOpen(isOpen)` opens or closes the panel; `runSteps` are the steps of the run. */
  constructor(report, setOpen, runSteps) {
    this.runSteps = runSteps;
    this.isRunning = false;
    this.states = null;  // of the work, in words; see `Feed`
    this.report = report;
    this.setOpen = setOpen;
    this.text = "";  // of the saved document
    this.proposal = null;
    this.editor = null;
    this.draft = null;
    $("edit-plan").addEventListener("click", () => this.openEditor(false));
  }

  /** Set the session, and restore its draft. */
  setSession(id) {
    this.draft = new Draft(`plan:${id}`);
    const draft = this.editor ? null : this.draft.value;
    if (draft) this.edit({ ...draft, note: "This is what you typed before the page was reloaded." });
  }

  update(change) {
    if (change.pending) this.proposal = change;
    else {
      this.text = change.text;
      this.states = change.states ?? null;
      this.proposal = null;
      this.editor?.documentChanged(change.sha256, renderDocument(change.text));
    }
    this.show();
  }

  setRunning(isRunning) {
    this.isRunning = isRunning;
    this.show();
  }

  /** Show how the work stands, in the words of the screen. */
  showState() {
    const chip = $("plan-text").querySelector(".chip");
    const state = this.states?.[!this.isRunning ? "idle" : this.runSteps.isRunning ? "steps" : "run"];
    if (!chip || !state) return;
    const [symbol, role, words] = state;
    chip.className = `chip ${role}`;
    chip.textContent = `${symbol} ${words}`;
  }

  proposalSettled() {
    this.proposal = null;
    this.show();
  }

  /** Handle a notice, which may say why the document was not written. */
  notice({ code, text }) {
    if (code?.startsWith(NOTICE_PREFIX)) this.editor?.refused(text);
  }

  /** Report a conflict, which the user must resolve. */
  conflict() {
    if (!this.editor?.isSaving) return;
    this.editor.showNote("Your edit conflicts with another one. Answer the question shown; your text stays here until then.");
    if (matchMedia("(max-width: 61.99rem)").matches) this.setOpen(false);
  }

  show() {
    $("plan-proposal").replaceChildren(...(this.proposal ? [this.proposalView(this.proposal)] : []));
    $("show-plan").classList.toggle("pending", Boolean(this.proposal));
    $("show-plan").title = this.proposal ? "Plan: proposal pending" : "Plan";
    const body = $("plan-text");
    body.replaceChildren(...(this.text && !this.editor ? [renderDocument(this.text)] : []));
    $("edit-plan").hidden = !this.text || Boolean(this.editor);
    this.showState();
    const isEmpty = !this.proposal && !this.editor && !$("plan-run").firstChild && !body.textContent.trim();
    if (isEmpty) body.append(el("p", { class: "empty", text: "No plan yet. It grows with the work: goal, acceptance criteria, decisions and log." }));
  }

  proposalView(proposal) {
    const settle = async (accept) => {
      const buttons = box.querySelectorAll("button");
      for (const each of buttons) each.disabled = true;
      try {
        const { status } = await post("/plan", { accept, seen: proposal.sha256 });
        if (status === "settled") this.report("The proposal has changed or was decided elsewhere.");
      } catch (error) { this.report(error.message); }
      for (const each of buttons) each.disabled = false;
    };
    const box = el("section", { class: "proposal", "aria-label": "A proposal for the plan" }, el("p", { text: "The agent proposes these changes to the plan:" }));
    const discardButton = button("Discard", () => settle(false));
    if (!proposal.content) {
      if (proposal.error) box.append(el("p", { class: "warning", role: "status", text: `The changes could not be loaded: ${proposal.error}` }),
        button("Try again", () => { proposal.error = ""; this.show(); }, { class: "small" }));
      else {
        this.load(proposal);
        box.append(el("p", { class: "empty", role: "status", text: "Loading the changes…" }));
      }
      box.append(el("div", { class: "choices" }, discardButton));
      return box;
    }
    const { text, changes: lines, cut } = proposal.content;
    const unseen = plural(cut, "character");
    const result = el("details", { on: { toggle: () => { if (!result.children[1]) result.append(renderDocument(text)); } } }, el("summary", { text: "Plan with these changes" }));
    box.append(changes(lines), result);
    if (cut) box.append(el("p", { class: "warning", text: `Too long to show in full: ${unseen} of the plan and the proposal are not compared here.` }));
    const acceptButton = cut ? confirmButton("Accept", `Accept ${unseen} unseen?`, () => settle(true)) : button("Accept", () => settle(true), { class: "primary" });
    box.append(el("div", { class: "choices" }, acceptButton, discardButton));
    return box;
  }

  async load(proposal) {
    if (proposal.isLoading) return;
    proposal.isLoading = true;
    try { proposal.content = await post("/plan/proposal", { seen: proposal.sha256 }); } catch (error) { proposal.error = error.message; }
    proposal.isLoading = false;
    if (this.proposal === proposal) this.show();
  }

  /** Open the editor; with `exact`, secrets are shown. */
  async openEditor(exact) {
    try {
      const { hides_secrets: hidesSecrets, ...opened } = await post("/plan/text", { exact });
      if (this.editor) return;  // it was opened in the meantime
      if (hidesSecrets) this.askToShowSecrets();
      else { this.edit({ ...opened, exact }); this.editor.area.focus(); }
    } catch (error) { this.report(error.message); }
  }

  askToShowSecrets() {
    const showButton = button("Show and edit", () => this.openEditor(true), { class: "primary" });
    const closeButton = button("Not now", () => { $("plan-editor").replaceChildren(); $("edit-plan").focus(); });
    $("plan-editor").replaceChildren(el("div", { class: "proposal" }, el("p", { text: "Something in plan_doc.md looks like a secret and is hidden here. The editor shows it." }),
      el("div", { class: "choices" }, showButton, closeButton)));
    showButton.focus();
  }

  edit({ text, base, typed, note = "", exact = false }) {
    this.editor = new DocumentEditor({ text, base, typed, note, draft: exact ? null : this.draft, onClose: (merged) => {
      this.editor = null;
      const unsent = merged ? [unsentText("It was merged with changes made elsewhere.", merged, () => $("edit-plan").focus())] : [];
      $("plan-editor").replaceChildren(...unsent);
      document.body.classList.remove("editing-plan");
      this.show();
      $("edit-plan").focus();
    } });
    $("plan-editor").replaceChildren(this.editor.node);
    document.body.classList.add("editing-plan");
    this.setOpen(true);
    this.show();
  }
}

/** Edits the text of the document. `base` is the hash of the text before editing, `typed` a draft. */
class DocumentEditor {
  constructor({ text, base, typed, note, draft, onClose }) {
    this.base = base;
    this.draft = draft;
    this.onClose = onClose;
    this.isSaving = false;
    this.hasChanged = false;  // the document has changed since
    this.area = el("textarea", { class: "document-text", "aria-label": "Text of plan_doc.md", spellcheck: "true", wrap: "soft", text });
    this.initial = this.area.value;
    if (typed !== undefined) this.area.value = typed;
    this.note = el("p", { class: "document-note", role: "status", hidden: true });
    this.current = el("details", { hidden: true }, el("summary", { text: "Current plan" }));
    this.saveButton = button("Save", () => this.save(), { class: "primary" });
    this.discardButton = confirmButton("Cancel", "Discard your edits?", () => this.close(), { hidden: true });
    this.cancelButton = button("Cancel", () => this.close());
    this.node = el("div", { class: "document-editor" }, this.note, this.area,
      el("div", { class: "choices foot" }, this.saveButton, this.discardButton, this.cancelButton, el("span", { class: "hint wide-only", text: "Ctrl+S saves" })), this.current);
    this.area.addEventListener("input", () => this.update());
    this.area.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && (event.key === "s" || event.key === "Enter")) { event.preventDefault(); this.save(); }
    });
    if (note) this.showNote(note);
    this.update();
  }

  get isEdited() { return this.area.value !== this.initial; }

  update() {
    const { isEdited } = this;
    this.saveButton.disabled = !isEdited || this.isSaving;
    this.discardButton.hidden = !isEdited;
    this.cancelButton.hidden = isEdited;
    window.onbeforeunload = isEdited && !this.draft ? (event) => event.preventDefault() : null;  // no draft is stored
    this.draft?.save(isEdited ? { text: this.initial, base: this.base, typed: this.area.value } : null);
  }

  showNote(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  documentChanged(sha256, view) {
    if (sha256 === this.base || this.isSaving) return;
    this.hasChanged = true;
    this.showNote("The plan has changed elsewhere. Your text is merged with it when you save; you decide about conflicts.");
    this.current.replaceChildren(this.current.firstChild, view);
    this.current.hidden = false;
  }

  /** Show why it was not written; the notice may arrive before or after the response. */
  refused(reason) {
    if (this.isSaving || this.wasRefused) this.reason = reason;
    if (this.wasRefused) this.showNote(`${NOT_SAVED} ${reason}`);
  }

  async save() {
    if (this.isSaving || !this.isEdited) return;
    this.reason = "";
    this.wasRefused = false;
    this.setSaving(true);
    try {
      const { status } = await post("/plan/edit", { text: this.area.value, base: this.base });
      if (status !== "settled") {
        this.close(status === "merged" || this.hasChanged ? this.area.value : "");
        return;
      }
      this.showNote(`${NOT_SAVED} ${this.reason}`);
      this.wasRefused = true;
    } catch (error) {
      this.showNote(`${NOT_SAVED} ${error.message}`);
    }
    this.setSaving(false);
  }

  setSaving(isSaving) {
    this.isSaving = this.area.readOnly = isSaving;
    this.saveButton.textContent = isSaving ? "Saving…" : "Save";
    this.update();
  }

  /** `merged`: the text that was merged with changes made elsewhere. */
  close(merged = "") {
    this.draft?.save(null);
    window.onbeforeunload = null;
    this.onClose(merged);
  }
}

/** Elements for the sections of a plan document that have content. */
function renderDocument(text) {
  const status = /^status:\s*(\w+)/m.exec(text)?.[1] ?? "";
  const node = el("div", { class: "plan-document" });
  for (const section of text.replace(/^---\n[\s\S]*?\n---\n/, "").split(/^(?=##\s)/m)) {
    const [, title, rest] = /^##\s+(.*)$([\s\S]*)/m.exec(section) ?? [];
    const content = (rest ?? "").split("\n").filter((line) => !/^#\s/.test(line)).join("\n").trim();
    if (!content || PLACEHOLDER.test(content.replace(/^- \[ \]\s*/, ""))) continue;
    const view = new Markdown(3);
    view.setText(content);
    const isLog = title === "Execution Log";
    node.append(el(isLog ? "details" : "section", { class: isLog ? "log" : null }, el(isLog ? "summary" : "h3", { text: title }), view.node));
  }
  if (node.childNodes.length && status) node.prepend(el("span", { class: `chip ${status}`, text: status.replace(/_/g, " ") }));
  return node;
}
