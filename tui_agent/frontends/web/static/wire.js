// The event stream, which reconnects and continues where it was, and POST requests to the server.

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

/** Calls `onEvent(name, data)` for each event in order, and `onState(state)` when the connection changes. */
export function follow(onEvent, onState) {
  let source = null;
  let last = 0;
  let closed = false;
  let retryDelay = 500;

  function open() {
    source = new EventSource(`events?after=${last}`);
    source.onopen = () => { retryDelay = 500; onState("open"); };
    source.onerror = () => {
      if (closed) return;
      onState("lost");
      if (source.readyState === EventSource.CLOSED) reconnect();
    };
    for (const name of NAMES) source.addEventListener(name, (event) => {
      const id = Number(event.lastEventId);
      if (id) last = Math.max(last, id);
      let data;
      try { data = JSON.parse(event.data); } catch { return; }
      onEvent(name, data);
    });
  }

  async function reconnect() {
    source.close();
    await new Promise((done) => setTimeout(done, retryDelay));
    retryDelay = Math.min(retryDelay * 2, 15000);
    if (closed) return;
    try {  // after a restart, the token is no longer valid
      const response = await fetch("./", { method: "HEAD" });
      if (response.headers.get("x-tui-agent") === "door") { closed = true; onState("shut"); return; }
    } catch { /* still unreachable */ }
    open();
  }

  open();
  return { end() { closed = true; source.close(); } };
}

/** Post a request. Returns the JSON of the response; throws an Error with a sentence for the user. */
export async function post(path, body = {}) {
  let response;
  try {
    response = await fetch(`.${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Accept": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("tui-agent does not respond");
  }
  const data = await response.json().catch(() => ({}));
  if (!response.ok && data.status !== "settled") throw new Error(data.error || `refused (${response.status})`);
  return data;
}
