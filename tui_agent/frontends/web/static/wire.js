// The stream of events, which comes back by itself and goes on where it was, and the wishes that are posted.

export const NAMES = [
  "text", "tool", "done", "history.cut",
  "session.opened", "session.closed", "session.recovered", "session.forked", "session.titled",
  "mode.changed", "model.changed", "role.changed", "notice",
  "user.said", "message.queued", "message.changed", "message.moved", "message.withdrawn", "shell.ran",
  "context.attached", "context.measured", "context.compacted",
  "run.started", "run.ended", "stage.entered", "stage.left",
  "reply.started", "reply.phase", "reply.text", "reply.thought", "reply.ended", "reply.rejected", "retry.waiting",
  "protocol.changed", "tool.output", "tool.finished",
  "approval.asked", "approval.answered", "approval.executed", "approval.voided", "grant.revoked",
  "question.asked", "question.answered", "file.changed", "file.diagnosed",
  "request.classified", "plan.proposed", "plan.reviewed", "step.started", "step.verified", "step.recovering",
  "step.finished", "completion.refused", "plan_doc.changed", "plan_doc.conflict", "plan_doc.settled",
  "summary.offered", "summary.settled",
  "undo.begun", "undo.done", "checkpoints.kept", "command.changed", "conversation.rewound",
];

/** Calls `take(name, data)` for each event in order, `state(word)` when the connection changes. */
export function follow(take, state) {
  let source = null;
  let last = 0;
  let closed = false;
  let wait = 500;

  function open() {
    source = new EventSource(`events?after=${last}`);
    source.onopen = () => { wait = 500; state("open"); };
    source.onerror = () => {
      if (closed) return;
      state("lost");
      if (source.readyState === EventSource.CLOSED) again();
    };
    for (const name of NAMES) source.addEventListener(name, (event) => {
      const id = Number(event.lastEventId);
      if (id) last = Math.max(last, id);
      let data;
      try { data = JSON.parse(event.data); } catch { return; }
      take(name, data);
    });
  }

  async function again() {
    source.close();
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 15000);
    if (closed) return;
    try {  // a token of an earlier run is known by a refusal
      const answer = await fetch("./", { method: "HEAD" });
      if (answer.headers.get("x-tui-agent") === "door") { closed = true; state("shut"); return; }
    } catch { /* still away */ }
    open();
  }

  open();
  return { end() { closed = true; source.close(); } };
}

/** Post a wish. Returns the answer's JSON; throws an Error with a sentence. */
export async function post(path, body = {}) {
  let answer;
  try {
    answer = await fetch(`.${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Accept": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("tui-agent does not respond");
  }
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok && data.status !== "settled") throw new Error(data.error || `refused (${answer.status})`);
  return data;
}
