// The dialog with the keys and commands of the page.

import { $, el, button } from "./dom.js";

const PAGE_KEYS = [
  ["enter", "send; while it works: queue a message for after the run"], ["shift+enter", "new line"], ["up", "in an empty message: the last one again"],
  ["/", "commands"], ["@", "attach a file or folder"], ["!", "at the start: run a shell command"],
  ["esc", "close what is open; in the message: stop at once; the reply so far is kept"], ["F1  ?", "this help; ? outside of text fields"],
];
/** Context of a request → its actions on the page. */
const ACTIONS = {
  approval: ["approve_once", "approve_session", "approve_always", "reject", "again", "secrets"],
  review: ["approve", "edit", "reject"],
  conflict: ["ours", "theirs", "both"],
};
const ESCAPE = ["esc", "stop the run; in a field: leave it"];
const SUMMARY = [["ctrl+s  ctrl+enter", "accept it as shown"], ["esc", "leave the field, then the summary"]];

/** Show the dialog. `commands`, `keys` and `key_texts` are as in the answer of `typing`. */
export function showHelp({ commands, keys, key_texts: texts }) {
  const requests = Object.entries(ACTIONS).filter(([name]) => texts[name]).map(([name, actions]) => group(texts[name][""],
    [...actions.map((action) => [(keys[name]?.[action] ?? []).join("  "), texts[name][action]]).filter(([key]) => key), ESCAPE]));
  const dialog = el("dialog", { class: "picker-dialog help", "aria-label": "Keys and commands" },
    el("div", { class: "picker-head" }, el("h2", { text: "Keys and commands" }), button("Close", () => dialog.close(), { class: "quiet small" })),
    el("div", { class: "picker-rows", tabindex: "0", role: "group", "aria-label": "Keys and commands" }, group("Keys", PAGE_KEYS), requests,
      texts.summary ? group(texts.summary[""], SUMMARY) : null,
      group("Commands", commands.map(({ name, description, arguments: values }) => [`/${name}`, describe(description, values)]))));
  const focused = document.activeElement;
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });  // beside it
  dialog.addEventListener("close", () => { dialog.remove(); (focused?.isConnected && focused !== document.body ? focused : $("message")).focus(); });
  document.body.append(dialog);
  dialog.showModal();
}

/** Close the dialog; returns whether it was open. */
export function closeHelp() {
  const dialog = document.querySelector("dialog.help");
  dialog?.close();
  return dialog !== null;
}

const describe = (description, values) => [description.replace(/[:;]$/, ""), ...Object.entries(values).filter(([, text]) => text).map(([value, text]) => `${value}: ${text}`)].join("\n");

function group(title, rows) {
  return el("section", {}, el("h3", { text: title }), el("dl", {}, rows.map(([key, text]) => [el("dt", { text: key }), el("dd", { text })]).flat()));
}
