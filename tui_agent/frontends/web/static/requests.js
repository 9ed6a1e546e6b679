// Requests to the user, shown above the composer one at a time until they are settled here or elsewhere.

import { $, el, button, icon, cutCount, plural } from "./dom.js";
import { PlanEditor, SummaryEditor } from "./editors.js";
import { Draft, changedTexts, confirmButton, isCtrl, onCtrlEnter, unsentText } from "./fields.js";
import { EditView } from "./hunks.js";
import { SeenLines } from "./seen_lines.js";
import { alternativeRank, planConfidence } from "./transcript.js";
import { post } from "./wire.js";

const SETTLE_MS = 400;  // a click within this time is ignored, since it was meant for what was there before
const LONE_MS = 250;  // a key on a button acts if no other one is pressed within this time
const TYPING_MS = 1000;  // who typed within this time goes on typing
const MODIFIERS = ["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock", "Fn"];
const EDITING_KEYS = [" ", "Enter", "Backspace"];  // they belong to typed text, too
const UNREAD = "unread";  // typed to approve what was not read
const MAX_UNSEEN = 500;  // lines not seen from which that is possible
const SCOPES = { session: "For this session", always: "Always" };
const DECIDED_ELSEWHERE = "This was decided elsewhere.";

/** The open requests. Each is { createCard, draft, card, isSent }; only the first one is shown. */
export class Dock {
  /** `stop()` stops the run. */
  constructor(container, report, onChange, stop) {
    this.unsent = el("div", { class: "unsent-texts" });
    this.place = el("div");
    container.replaceChildren(this.unsent, this.place);
    this.report = report;
    this.onChange = onChange;
    this.stop = stop;
    this.requests = new Map();
    this.shownId = "";
    this.keys = {};  // kind of a request → action → its keys
    this.lastTypedAt = -Infinity;
    this.messageTypedAt = -Infinity;
    actOnLoneKeys(this.place);
    this.takeKeys();
  }

  get size() { return this.requests.size; }

  get shown() { return this.requests.get(this.shownId); }

  /** Keys of the request that is shown act while no field has the focus; other text goes on in the message field. */
  takeKeys() {
    addEventListener("keydown", (event) => {
      const isEnter = isCtrl(event, "enter");
      const isInCard = this.shown?.card.contains(event.target) ?? false;
      if (!isCtrl(event, "s") && !(isEnter && this.shown?.accept && isInCard && !event.target.closest("button"))) return;
      event.preventDefault();  // the browser would save the page
      if (!event.repeat && this.shown?.accept && (isInCard || !isField(event.target)) && !event.target.closest("aside, dialog")) this.shown.accept();
    });
    let held = null;  // a key of an action that acts unless another key or a click follows at once
    const release = () => {
      const key = held?.key ?? "";
      clearTimeout(held?.timer);
      held = null;
      return key;
    };
    addEventListener("pointerdown", release, true);
    addEventListener("blur", release);
    const type = (text) => {
      $("message").focus();
      $("message").setRangeText(text, $("message").selectionStart, $("message").selectionEnd, "end");
      $("message").dispatchEvent(new Event("input"));
    };
    addEventListener("keydown", (event) => {
      const typed = event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey && !event.altKey;
      const sinceTyped = performance.now() - this.lastTypedAt;
      if (typed || EDITING_KEYS.includes(event.key)) this.lastTypedAt = performance.now();
      if (held && !typed && !MODIFIERS.includes(event.key)) {
        const key = release();
        const isSpace = (event.key === " " || event.key === "Enter") && !event.ctrlKey && !event.metaKey && !event.altKey;
        if (isSpace || event.key === "Backspace") event.preventDefault();
        if (isSpace) type(`${key} `);
        return;
      }
      if (typed && isField(event.target)) this.messageTypedAt = performance.now();
      if (!typed || event.isComposing || isField(event.target) || !this.shown) return;
      const target = event.repeat || held ? null : this.buttonOf(event.key);
      const isArmed = performance.now() - Number(this.shown.card.dataset.since) >= SETTLE_MS && sinceTyped >= LONE_MS;
      event.preventDefault();
      if (target && isArmed) {
        const timer = setTimeout(() => { held = null; this.press(target); }, LONE_MS);
        held = { timer, key: event.key };
      } else if (!event.repeat) {
        type(release() + event.key);
      }
    });
  }

  /**
   * Do what Esc does on the screen while a request is shown: leave the field, then what the request says, such as
   * stopping the run. In the composer it stops the run. Returns false if no request is shown.
   */
  escape(target) {
    if (!this.shown) return false;
    const { card, onEscape, hasOwnFields } = this.shown;
    const leave = [...card.querySelectorAll("[data-escape]")].find((each) => each.checkVisibility());
    if (leave) leave.click();
    else if (card.contains(target) && isField(target) && hasOwnFields) card.focus();
    else if (onEscape && target !== $("message")) onEscape();
    else this.stop();
    return true;
  }

  /** The control that a key is for, even if it can't be used now. */
  buttonOf(key) {
    const { keys: kind } = this.shown.card.dataset;
    const action = Object.entries(this.keys[kind] ?? {}).find(([, keys]) => keys.includes(key))?.[0];
    return action ? [...this.shown.card.querySelectorAll(`[data-action="${action}"]`)].find((each) => each.checkVisibility()) ?? null : null;
  }

  /** Use a control; approving what is not in view yet scrolls to it. */
  press(target) {
    if (!target.isConnected) return;
    if (!target.disabled) { target.focus(); target.click(); return; }
    const unseen = this.shown?.unseenLine?.();
    if (unseen) unseen.scrollIntoView({ block: "start" });
  }

  /** Set the keys of requests; those that are open already get them. */
  setKeys(keys) {
    this.keys = keys;
    for (const { card } of this.requests.values()) if (card) this.labelKeys(card);
  }

  /** Show the keys of a card on its controls. */
  labelKeys(card) {
    for (const each of card.querySelectorAll("[data-action]")) {
      const key = this.keys[card.dataset.keys]?.[each.dataset.action]?.[0];
      if (key) { each.dataset.key = key; each.setAttribute("aria-keyshortcuts", key); }
    }
  }

  /** Add a request; `createCard(answer, draft)` returns its content and whether it is an editor. */
  add(id, createCard) {
    this.requests.set(id, { createCard, card: null, draft: new Draft(id), isSent: false });
    this.show();
  }

  /** Remove a settled or withdrawn request. Text that was typed but not sent stays to be copied. */
  settle(id, reason = DECIDED_ELSEWHERE) {
    const request = this.requests.get(id);
    if (!request) return;
    this.requests.delete(id);
    if (!request.isSent) this.keepUnsentText(id, request, reason);
    this.show();
  }

  clear() {
    for (const id of [...this.requests.keys()]) this.settle(id, "The session ended.");
  }

  keepUnsentText(id, request, reason) {
    if (!request.card && request.draft.exists) this.createCard(id, request);
    const text = request.card ? changedTexts(request.card) : "";
    if (!text) { request.draft.discard(); return; }
    const hadFocus = request.card.contains(document.activeElement);
    const node = unsentText(reason, text, () => request.draft.discard());
    this.unsent.append(node);
    if (hadFocus) node.querySelector("textarea").focus();
  }

  createCard(id, request) {
    const { node, isEditor = false, isCritical = false, keys = "", unseenLine = null, accept = null, onEscape = null, escape = "Esc stops the run", hasOwnFields = true } = request.createCard((body) => this.answer(id, body), request.draft);
    Object.assign(request, { unseenLine, accept, onEscape, hasOwnFields });
    node.querySelector(".request-head").append(el("span", { class: "escape", text: escape }));
    request.card = el("section", { class: `request${isEditor ? " editor" : ""}${isCritical ? " critical" : ""}`, role: "group", tabindex: "-1", "aria-label": "A decision is needed", "data-keys": keys }, node);
    this.labelKeys(request.card);
  }

  /** Disable the approval of a request that has become invalid. */
  invalidate(id, reason) {
    const card = this.requests.get(id)?.card;
    if (!card) return;
    card.dataset.invalid = "yes";
    card.prepend(el("div", { class: "choices" }, el("p", { class: "warning", text: `This can no longer be approved: ${reason}` }),
      button("Check again and continue", () => this.answer(id, { verdict: "withdrawn" }), { "data-action": "again" })));
    this.labelKeys(card);
    for (const each of card.querySelectorAll("button.approve")) each.disabled = true;
  }

  show() {
    const [id, first] = this.requests.entries().next().value ?? ["", null];
    if (id !== this.shownId) {
      const hadFocus = this.place.contains(document.activeElement);
      const isTyping = performance.now() - this.messageTypedAt < TYPING_MS;
      this.shownId = id;
      if (first) {
        if (!first.card) this.createCard(id, first);
        first.card.dataset.since = String(performance.now());
        this.place.replaceChildren(first.card);
      } else this.place.replaceChildren();
      if (!matchMedia("(hover: hover)").matches) return this.showCount();
      const isIdle = document.activeElement === $("message") && !$("message").value && !isTyping;
      if (first && (hadFocus || isIdle)) first.card.focus({ preventScroll: true });
      else if (hadFocus) $("message").focus();
    }
    this.showCount();
  }

  showCount() {
    this.place.querySelector(".waiting")?.remove();
    if (this.size > 1) this.place.firstChild?.append(el("p", { class: "waiting", text: `${this.size - 1} more to decide` }));
    this.onChange();
  }

  async answer(id, body) {
    const request = this.requests.get(id);
    if (!request || request.isSent || performance.now() - Number(request.card.dataset.since) < SETTLE_MS) return;
    request.isSent = true;
    const { card } = request;
    const focused = card.contains(document.activeElement) ? document.activeElement : null;
    const controls = [...card.querySelectorAll("button, textarea, input, select")].filter((each) => !each.disabled);
    for (const each of controls) each.disabled = true;  // text typed from now on would not be sent
    if (focused?.disabled) card.focus();  // a disabled element loses the focus to the page
    try {
      const { status } = await post("/answer", { id, ...body });
      if (status === "settled") { this.report(DECIDED_ELSEWHERE); this.keepUnsentText(id, request, DECIDED_ELSEWHERE); }
      else request.draft.discard();
      this.settle(id);
    } catch (error) {
      request.isSent = false;
      for (const each of controls) each.disabled = Boolean(card.dataset.invalid) && each.classList.contains("approve");
      if (!this.requests.has(id)) this.keepUnsentText(id, request, DECIDED_ELSEWHERE);
      else if (document.activeElement === card) focused.focus();
      this.report(error.message);
    }
  }
}

/** Whether keys pressed in an element are text or choose a value. */
export const isField = (element) => element.matches?.("textarea, select, input:not([type=checkbox]), [contenteditable]") ?? false;

/** An action that needs approval. */
export function approval(request, report) {
  return (answer, draft) => {
    const { action } = request;
    const grants = request.grants ?? [];
    const edit = action.kind === "edit" ? new EditView(request, draft, () => update(), report) : null;
    const body = edit?.node ?? el("div", { class: "request-body" }, describe(action));
    const revealButton = request.hides_secrets ? button("Show hidden secrets", async () => {
      const { action: exact } = await post("/reveal", { id: request.id });
      if (edit) await edit.reveal(exact);
      else { body.replaceChildren(...describe(exact).filter(Boolean)); watchLines(); }
      revealButton.remove();
    }, { class: "quiet small", "data-action": "secrets" }) : null;
    const isCritical = action.severity === "critical";
    const sight = edit ? null : new SeenLines(() => update());
    const watchLines = () => { sight.reset(); sight.add(body.querySelectorAll(".seen-line")); };
    const unseen = () => edit?.unseen ?? sight.unseen.size;
    const approveButton = (label, data, kind = "", scope = "once") => button(label, () => answer({ verdict: "approve", ...data() }), { class: `${kind} approve`, "data-action": `approve_${scope}` });
    const isRisky = Boolean(action.risks?.length);
    const label = { trust: isRisky ? "Trust it all the same" : "Trust it" }[action.kind] ?? "Approve";
    const once = approveButton(label, () => edit?.data() ?? {}, isRisky ? "" : "primary");
    const word = isCritical ? request.harm?.word ?? "run it" : UNREAD;
    const wordForm = confirmForm(word, () => answer({ verdict: "approve", ...(isCritical ? { word } : edit?.data() ?? {}) }));
    const notSeen = el("p", { class: "warning", role: "status" });
    const standing = isCritical ? [] : Object.entries(SCOPES).filter(([scope]) => grants.some((grant) => grant.scope === scope))
      .map(([scope, label]) => approveButton(label, () => ({ scope }), "", scope));
    const reject = action.kind === "trust" ? button("Read-only", () => answer({ verdict: "reject" }), { class: isRisky ? "primary" : "", "data-action": "reject" })
      : rejectWithReason("Why not? The model reads your reason.", answer, draft);
    const order = isCritical ? [reject, wordForm.node] : isRisky ? [reject, once] : [once, standing, reject, wordForm.node];
    const choices = el("div", { class: "choices" }, order.flat());
    const rules = standing.length ? Object.entries(request.rules ?? {}).map(([scope, text]) => [SCOPES[scope], text]) : [];
    const allows = rules.length ? el("div", { class: "grant" }, rules.map(([name, text]) => el("p", {}, `“${name}” allows `, el("code", { text })))) : null;
    const hint = edit?.hasParts ? el("p", { class: "hint", text: "Uncheck parts to skip them, or edit their text." }) : null;
    const node = el("div", { class: edit ? "edit-request" : null }, heading(title(action), request.why),
      isCritical ? el("div", { class: "harm" }, (request.harm_texts ?? []).map((text) => el("p", { text }))) : null,
      hint, body, revealButton, remarks(action, request.warning), notSeen, choices, allows);
    const update = () => {
      const count = edit && !edit.isReady ? 0 : unseen();
      const isReady = (edit?.isReady ?? true) && node.closest("[data-invalid]") === null;
      for (const each of [once, ...standing]) each.disabled = count > 0 || !isReady;
      wordForm.allow(isReady && (isCritical ? !count : count > MAX_UNSEEN));
      notSeen.hidden = !count;
      notSeen.textContent = count ? `${plural(count, edit ? "changed line" : "line")} not in view yet: scroll to read ${count === 1 ? "it" : "them"}.` : "";
      if (!edit) return;
      once.textContent = edit.approveLabel;
      for (const each of [...standing, allows]) if (each) each.hidden = !edit.isUnchanged || edit.isOpen;
      for (const each of [hint, revealButton]) if (each) each.hidden = edit.isOpen;
    };
    if (!edit) watchLines();
    update();
    edit?.restore();
    const unseenLine = () => [...(edit?.sight ?? sight).unseen.keys()].find((each) => each.isConnected);
    return { node, isCritical, keys: "approval", unseenLine };
  };
}

function title(action) {
  if (action.kind === "edit") return { create: "Create a file?", modify: "Edit this file?", delete: "Delete this file?" }[action.diff.kind];
  if (action.severity === "critical") return "Run a critical command?";
  return { run: "Run this command?", read: "Read this?" }[action.kind] ?? "Trust this folder?";
}

function describe(action) {
  if (action.kind === "run") return [visibleLines(action.command), el("p", { class: "cwd" }, "in ", el("code", { text: action.cwd }))];
  if (action.kind === "read") return [visibleLines(action.display)];
  const risks = (action.risks ?? []).map((text) => el("p", { class: "warning seen-line", text }));
  const findings = action.found?.length
    ? [el("p", { text: "If you trust it, this is read and followed, from now on and whenever it changes:" }), el("ul", {}, action.found.map((text) => el("li", { class: "seen-line", text })))]
    : [el("p", { text: "Nothing in it is read and followed yet. AGENTS.md, settings, git and language servers would be." })];
  const covered = risks.length ? "Folders below it are asked about on their own." : "This covers the folders below it.";
  return [visibleLines(action.folder), ...risks, ...findings,
    el("p", { class: "hint", text: `${covered} Otherwise the session is read-only.` })];
}

/** A text, each line of which must have been in sight. */
function visibleLines(text) {
  return el("pre", { class: "command" }, text.split("\n").map((line) => el("div", { class: "seen-line", text: line || " " })));
}

/** A form that approves once the word was typed. A paste does not count. */
function confirmForm(word, onSubmit) {
  const field = el("input", { type: "text", class: "confirm-word", autocomplete: "off", spellcheck: "false", "aria-label": `Type ${word} to approve`,
    placeholder: `Type ${word} to approve`, on: { paste: (event) => event.preventDefault(), drop: (event) => event.preventDefault() }, "data-action": word === UNREAD ? null : "approve_once" });
  const submit = el("button", { type: "submit", class: "danger", disabled: true }, word === UNREAD ? "Approve without reading" : "Run it");
  let isAllowed = false;
  const update = () => { submit.disabled = !isAllowed || field.value !== word; };
  field.addEventListener("input", update);
  const node = el("form", { class: "reason confirm", on: { submit: (event) => { event.preventDefault(); if (!submit.disabled) onSubmit(); } } }, field, submit);
  const allow = (allowed) => { isAllowed = allowed; node.hidden = !allowed; update(); };
  return { node, allow };
}

/** Let a key act on a button only if it stands alone: Space and Enter in typed text press nothing. */
function actOnLoneKeys(place) {
  let typedAt = -Infinity;
  let pressedAlone = false;
  let timer = 0;
  const isTyped = (event) => (event.key.length === 1 || event.key === "Enter") && !event.ctrlKey && !event.metaKey && !event.altKey;
  addEventListener("keydown", (event) => {
    if (!isTyped(event)) return;
    pressedAlone = performance.now() - typedAt >= LONE_MS && !event.repeat;
    typedAt = performance.now();
    clearTimeout(timer);
  }, true);
  place.addEventListener("click", (event) => {
    const target = event.target.closest("button[type=button]");
    if (!target || event.detail > 0 || !event.isTrusted) return;  // a pointer, or the second time
    event.preventDefault();
    event.stopPropagation();
    if (pressedAlone || performance.now() - typedAt > 1000) timer = setTimeout(() => { if (target.isConnected && !target.disabled) target.click(); }, LONE_MS);
  }, true);
}

/** Return what is unusual about an action; `warning` is about a file, beyond what the reason for asking says. */
function remarks(action, warning) {
  const texts = [...(action.reasons ?? [])];
  if (warning) texts.push(warning);
  if (action.env_changes?.length) texts.push(`with changed variables: ${action.env_changes.join(", ")}`);
  const isSevere = action.severity === "critical" || action.severity === "high";
  if (!texts.length && !isSevere) return null;
  return el("p", { class: isSevere ? "warning" : "hint" }, isSevere ? el("b", { text: `${action.severity}: ` }) : null, texts.join(" · "));
}

function heading(text, why = "", chip = null) {
  return el("div", { class: "request-head" }, icon("question"), el("h2", { text }), why ? el("span", { class: "why", text: why }) : null, chip);
}

/** A button to reject, which opens a field for the reason. */
function rejectWithReason(hint, answer, draft) {
  const field = messageField(hint, draft);
  const form = messageForm(field, "Reject", "danger", (text) => answer({ verdict: "reject", text }));
  form.hidden = !field.value;
  const openButton = button("Reject", () => { openButton.hidden = true; form.hidden = false; field.focus(); }, { class: "danger", hidden: Boolean(field.value), "data-action": "reject" });
  form.append(button("Back", () => { form.hidden = true; openButton.hidden = false; openButton.focus(); }, { "data-escape": "" }));
  return [openButton, form];
}

/** A single-line field whose content survives a reload. */
function messageField(hint, draft) {
  const field = el("input", { type: "text", placeholder: hint, "aria-label": hint });
  field.value = draft.message.value ?? "";  // sets the cursor to the end
  field.addEventListener("input", () => draft.message.save(field.value || null));
  return field;
}

function messageForm(field, label, kind, onSubmit) {
  return el("form", { class: "reason", on: { submit: (event) => { event.preventDefault(); onSubmit(field.value.trim()); } } },
    field, el("button", { type: "submit", class: kind }, label));
}

export function question(request) {
  return (answer, draft) => {
    const reply = (text) => { if (text) answer({ verdict: "reply", text }); };
    const { otherwise } = request;  // what Esc means in a choice of the program, which may have no run to stop
    const decline = otherwise ? { escape: `Esc: ${otherwise}`, onEscape: () => answer({ verdict: "reject", text: "The user did not want to answer." }) } : {};
    return { ...decline, hasOwnFields: false, node: el("div", {}, heading(request.question),
      el("div", { class: "choices column" }, (request.options ?? []).map((option) => button(option, () => reply(option)))),
      otherwise ? null : messageForm(messageField("Your answer", draft), "Answer", "primary", reply)) };
  };
}

const READ_PARTS = "p:not(.visually-hidden), li, .field";  // of a plan or a summary

/** What of a plan or a summary has not been in sight; `note` says so. `update()` is called when that changes. */
class Reading {
  constructor(body, update) {
    this.body = body;
    this.sight = new SeenLines(update);
    this.note = el("p", { class: "warning", role: "status", hidden: true, text: "Not all of it was in view yet: scroll to read the rest." });
  }

  /** Watch what is in the body now. */
  watch() {
    const parts = [...this.body.querySelectorAll(READ_PARTS)];
    for (const each of parts) each.classList.add("seen-line");
    this.sight.add(parts);
  }

  get next() { return [...this.sight.unseen.keys()].find((each) => this.body.contains(each) && !each.closest("[hidden]")); }

  /** Disable the buttons while something was not in sight. */
  allow(buttons) {
    const isUnread = Boolean(this.next);
    this.note.hidden = !isUnread;
    for (const each of buttons) each.disabled = isUnread;
  }
}

const editedChip = () => el("span", { class: "chip edited", hidden: true, text: "edited" });

/** A plan to approve; its steps can be edited. */
export function plan(request, view, report, stop) {
  return (answer, draft) => {
    let editor = null;
    const chip = editedChip();
    const body = el("div", { class: "request-body" }, view);
    const approve = () => {
      const isEdited = editor?.isEdited ?? false;
      const error = isEdited ? editor.validate() : "";
      if (error) report(error);
      else if (reading.next) reading.next.scrollIntoView({ block: "start" });
      else answer({ verdict: "approve", ...(isEdited ? { data: { plan: editor.values() } } : {}) });
    };
    const approveButton = button("Approve", approve, { class: "primary", "data-action": "approve" });
    const editButton = button("Edit steps", () => { edit(); editor.list.querySelector("textarea")?.focus(); }, { "data-action": "edit" });
    const resetButton = confirmButton("Reset", "Discard your changes?", () => { editor.reset(); show(view); editButton.focus(); });
    const alternatives = el("div", { class: "choices column" }, (request.plan.alternatives ?? []).map((each, alternative) =>
      button(`Alternative: ${each.approach}`, () => answer({ verdict: "approve", data: { alternative } }), {}, alternativeRank(each))));
    const reading = new Reading(body, () => update());
    const update = () => {
      chip.hidden = !editor?.isEdited;
      approveButton.textContent = editor?.isEdited ? "Approve as edited" : "Approve";
      reading.allow([approveButton, ...alternatives.children]);
    };
    const show = (content) => {
      body.replaceChildren(content);
      reading.watch();
      update();
      editButton.hidden = content !== view;
      resetButton.hidden = content === view;
      alternatives.hidden = content !== view || !alternatives.childElementCount;
    };
    const edit = () => {
      if (!editor) {
        editor = new PlanEditor(request.plan, draft, update);
        onCtrlEnter(editor.node, approve);
      }
      show(editor.node);
    };
    const node = el("div", {}, heading(request.recovery ? "Continue with this plan?" : "Run this plan?", request.why, [planConfidence(request.plan), chip]),
      request.fallback ? el("p", { class: "warning", text: "No valid plan was produced: this is the request as one step." }) : null, body, reading.note, alternatives,
      el("div", { class: "choices foot" }, approveButton, editButton, resetButton, rejectWithReason("What should be different?", answer, draft)));
    if (draft.value) edit();
    else show(view);
    const onEscape = () => {
      if (resetButton.hidden) stop();
      else if (editor.isEdited) report("Your changes of the steps are kept. Approve, reject or reset them.");
      else { show(view); editButton.focus(); }
    };
    return { node, isEditor: true, keys: "review", unseenLine: () => reading.next, onEscape };
  };
}

/** The summary of a run (W9): can be edited, then accepted or discarded. */
export function summary(request, report) {
  return (answer, draft) => {
    const accept = () => {
      const error = editor.validate();
      if (error) report(error);
      else if (reading.next) reading.next.scrollIntoView({ block: "start" });
      else answer({ verdict: "approve", ...(editor.isEdited ? { data: { summary: editor.values() } } : {}) });
    };
    const chip = editedChip();
    const acceptButton = button("Accept", accept, { class: "primary", "data-key": "Ctrl+S", "aria-keyshortcuts": "Control+S" });
    const resetButton = confirmButton("Reset", "Discard your changes?", () => { editor.reset(); editor.texts.action.area.focus(); }, { class: "quiet", title: "Discard your edits" });
    const update = () => {
      acceptButton.textContent = editor.isEdited ? "Accept as edited" : "Accept";
      chip.hidden = resetButton.hidden = !editor.isEdited;
      reading.allow([acceptButton]);
    };
    const editor = new SummaryEditor(request.summary, draft, () => update());
    const reading = new Reading(editor.node, update);
    reading.watch();
    const node = el("div", {}, heading("Add this to the plan?", request.by === "program" ? "written by the program" : "saved to the plan when you accept it", chip), editor.node, reading.note,
      el("div", { class: "choices foot" }, acceptButton, confirmButton("Discard", "Discard it?", () => answer({ verdict: "reject" }), { class: "danger" }), resetButton,
        el("span", { class: "hint wide-only", text: "Ctrl+Enter accepts it, too" })));
    update();
    return { node, isEditor: true, accept, unseenLine: () => reading.next, escape: "Esc leaves it", onEscape: () => $("message").focus() };
  };
}

/** Conflicting edits of the plan document. */
export function conflict(request) {
  const side = (name, text) => el("div", { class: "side" }, el("h3", { text: name }), el("pre", { class: "output", tabindex: "0", text }),
    cutCount(text) ? el("p", { class: "warning", text: `${cutCount(text)} characters are not shown.` }) : null);
  const choices = { ours: "Use agent's text", theirs: "Keep your text", both: "Keep both" };
  return (answer) => ({ keys: "conflict", node: el("div", {}, heading(`Conflicting edits of the plan: ${request.where}`),
    el("div", { class: "sides" }, side("Agent's text", request.ours), side("Your text", request.theirs)),
    el("div", { class: "choices" }, Object.entries(choices).map(([take, label]) => button(label, () => answer({ verdict: "approve", data: { take } }), { "data-action": take })))) });
}
