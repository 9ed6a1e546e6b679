// The event stream, which reconnects and continues where it was, and POST requests to the server.

/** Call `handlers[name](data)` for each event in order, and `onState(state)` when the connection changes. */
export function follow(handlers, onState) {
  let source = null;
  let lastId = 0;
  let isClosed = false;
  let retryDelay = 500;

  function open() {
    source = new EventSource(`events?after=${lastId}`);
    source.onopen = () => { retryDelay = 500; onState("open"); };
    source.onerror = () => {
      if (isClosed) return;
      onState("lost");
      if (source.readyState === EventSource.CLOSED) reconnect();
    };
    for (const [name, handle] of Object.entries(handlers)) source.addEventListener(name, (event) => {
      const id = Number(event.lastEventId);
      if (id) lastId = Math.max(lastId, id);
      let data;
      try { data = JSON.parse(event.data); } catch { return; }
      handle(data);
    });
  }

  async function reconnect() {
    source.close();
    await new Promise((resolve) => setTimeout(resolve, retryDelay));
    retryDelay = Math.min(retryDelay * 2, 15000);
    if (isClosed) return;
    try {  // after a restart, the token is no longer valid
      const response = await fetch("./", { method: "HEAD" });
      if (response.headers.get("x-tui-agent") === "door") { isClosed = true; onState("closed"); return; }
    } catch { /* still unreachable */ }
    open();
}

  open();
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
