// The event stream, which reconnects and continues where it was, and POST requests to the server.

/**
 * Show the newest part of the session and then follow it. `onHistory` gets the answer of `history`, `onEvent(name, event)`
 * each later event in order; `names` are those of all events. `onState(state)` is called when the connection changes.
 */
export function follow(names, onHistory, onEvent, onState) {
  let source = null;
  let lastId = 0;
  let session = "";
  let isClosed = false;
  let retryDelay = 500;

  async function start() {
    try {
      const newest = await history();
      lastId = newest.last;
      session = newest.session;
      onHistory(newest);
      open();
    } catch { await retry(start); }
  }

  function open() {
    source = new EventSource(`events?after=${lastId}&session=${encodeURIComponent(session)}`);
    source.addEventListener("session.replaced", () => { isClosed = true; source.close(); location.reload(); });
    source.onopen = () => { retryDelay = 500; onState("open"); };
    source.onerror = () => {
      if (isClosed) return;
      onState("lost");
      if (source.readyState === EventSource.CLOSED) retry(open);
    };
    for (const name of names) source.addEventListener(name, (event) => {
      const id = Number(event.lastEventId);
      if (id) lastId = Math.max(lastId, id);
      let data;
      try { data = JSON.parse(event.data); } catch { return; }
      onEvent(name, data);
    });
  }

  async function retry(connect) {
    source?.close();
    onState("lost");
    await new Promise((resolve) => setTimeout(resolve, retryDelay));
    retryDelay = Math.min(retryDelay * 2, 15000);
    if (isClosed) return;
    try {  // after a restart, the token is no longer valid
      const response = await fetch("./", { method: "HEAD" });
      if (response.headers.get("x-tui-agent") === "door") { isClosed = true; onState("closed"); return; }
    } catch { /* still unreachable */ }
    connect();
  }

  start();
}

/**
 * A part of the session: the newest, or the one before the record with the number `before`. Returns `state` (only of the
 * newest: events before the part that still matter), `events` as [name, event], `before` (0: nothing is older), `last`, and
 * the id of the `session`.
 */
export async function history(before = 0) {
  const response = await get(before ? `history?before=${before}` : "history");
  if (!response.ok) throw new Error("the earlier messages can't be read");
  return { ...(await response.json()), session: response.headers.get("x-tui-agent-session") };
}

/** The response to a GET; the first one of a path may have been asked for by early.js. */
function get(path) {
  const asked = window.askedEarly?.get(path);
  window.askedEarly?.delete(path);
  return asked ?? fetch(path);
}

/** What typing needs: `commands` with name, description and arguments, `keys` of requests, and the `draft` of the composer. */
export async function typing() {
  const response = await get("typing");
  return response.ok ? response.json() : { commands: [], keys: {}, draft: "" };
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
