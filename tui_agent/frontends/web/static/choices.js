// The dialogs for the model and for other sessions.

import { button, el } from "./dom.js";
import { pick } from "./picker.js";
import { post } from "./wire.js";

/** Choose the model of the session, from the next message on. `report` shows what was done or why not. */
export async function chooseModel(report) {
  const { rows, current, endpoint } = await post("/models");
  pick("Model", rows.map((row) => ({ ...row, isCurrent: row.id === current })), async (id) => {
    try {
      const { text } = await post("/chat", { message: `/model ${id}` });
      report(text || `${id} is used from the next message.`);
    } catch (error) { report(error.message); }
  }, { empty: "The server has no such model.", extra: el("p", { class: "hint", text: endpoint }) });
}

/** Open another session of this workspace, or a new one; where that is not possible, show the command that opens it. */
export async function chooseSession(report) {
  const { rows, current, can_open: canOpen } = await post("/sessions");
  const open = async (id) => {
    try {
      await post("/open", { id });
      location.reload();
    } catch (error) { report(error.message); }
  };
  const choose = async (id) => {
    if (id === current) return;
    if (canOpen) await open(id);
    else report(`${rows.find((row) => row.id === id).command} opens it in a terminal`);
  };
  const newButton = canOpen ? button("New session", () => { dialog.close(); open(""); }, { class: "primary" }) : null;
  const hint = canOpen ? null : el("p", { class: "hint", text: "This page shows the session of the screen: another one is opened there with /sessions, or with its command." });
  const dialog = pick("Sessions of this folder", rows.map((row) => ({ ...row, note: age(row.changed), isCurrent: row.id === current })), choose,
    { empty: "No such session.", extra: el("div", { class: "picker-foot" }, newButton, hint) });
}

/** How long ago a time is, such as "3 h ago". */
function age(at) {
  const minutes = Math.max(0, Math.round((Date.now() - Date.parse(at)) / 60000));
  if (minutes < 60) return minutes < 1 ? "just now" : `${minutes} min ago`;
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h ago`;
  return `${Math.round(minutes / 1440)} days ago`;
}
