// Buttons that undo and redo the file changes of a run.

import { button } from "./dom.js";
import { post } from "./wire.js";

/** Run → { hasChanges, undoneAt, isUndone, node }, of all that was shown: parts of the history come in any order. */
const runs = new Map();

function entry(run) {
  if (!runs.has(run)) runs.set(run, { hasChanges: false, undoneAt: 0, isUndone: false, node: null });
  return runs.get(run);
}

/** A run changed a file. */
export function noteChange(run) {
  if (!run) return;
  entry(run).hasChanges = true;
  update(run);
}

/** Runs were undone or redone by the record with the number `seq`. */
export function noteUndo(affected, kind, seq) {
  for (const run of affected ?? []) {
    const known = entry(run);
    if (seq <= known.undoneAt) continue;
    known.undoneAt = seq;
    known.isUndone = kind !== "redo";
  }
  for (const run of runs.keys()) update(run);
}

/** The number of the record that undid something last; only that can be redone. */
const lastUndone = () => Math.max(...[...runs.values()].map(({ isUndone, undoneAt }) => (isUndone ? undoneAt : 0)));

/** The button of a run that has ended; `onReply(text)` gets what could not be done. */
export function undoButton(run, onReply) {
  const known = entry(run);
  known.node = button("", async () => {
    known.node.disabled = true;
    try {
      const { text } = await post("/chat", { message: known.isUndone ? "/redo" : `/undo ${run}` });
      if (text) onReply(text);
    } catch (error) { onReply(error.message); }
    known.node.disabled = false;
  }, { class: "quiet small undo" });
  update(run);
  return known.node;
}

function update(run) {
  const { node, hasChanges, isUndone, undoneAt } = entry(run);
  if (!node) return;
  node.hidden = !hasChanges || (isUndone && undoneAt < lastUndone());
  node.textContent = isUndone ? "Redo" : "Undo";
  node.title = isUndone ? "Redo what was undone" : "Undo the file changes of this run";
}
