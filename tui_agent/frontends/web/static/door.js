// Exchanges the ticket in the link for the token, which no script ever sees, and takes it out of the address. The page is
// at an address of its own, so that browsers tell the token nobody else; who comes without a ticket is led there again.
"use strict";
(async () => {
  const say = document.getElementById("say");
  const ticket = location.hash.slice(1);
  const key = "tui-agent-in";
  history.replaceState(null, "", "/");

  async function goOn() {
    let path = null;
    try { path = localStorage.getItem(key); } catch { /* this browser keeps nothing */ }
    if (!/^\/in-[\w-]{16}\/$/.test(path ?? "")) return false;
    const answer = await fetch(path, { method: "HEAD" });
    if (answer.headers.get("x-tui-agent") !== "page") return false;
    location.replace(path);
    return true;
  }

  try {
    if (!ticket) {
      if (!await goOn()) say.textContent = "Open this page with the link that tui-agent shows in the terminal.";
      return;
    }
    const answer = await fetch("/enter", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ticket }),
    });
    const { error, path } = await answer.json();
    if (answer.ok) {
      try { localStorage.setItem(key, path); } catch { /* the address itself still leads there */ }
      location.replace(path);
    } else if (!await goOn()) say.textContent = `Access denied: ${error}. Ask tui-agent for a new link.`;
  } catch {
    say.textContent = "tui-agent no longer responds.";
  }
})();
