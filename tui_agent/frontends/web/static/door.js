// Exchanges the ticket in the link for the token, a cookie that scripts can't read, and removes it from the address. The
// page has a path of its own, so that browsers send the token to no other server; without a ticket, go there again.
"use strict";
(async () => {
  const status = document.getElementById("status");
  const ticket = location.hash.slice(1);
  const STORAGE_KEY = "tui-agent-in";
  history.replaceState(null, "", "/");

  async function openSavedPath() {
    let path = null;
    try { path = localStorage.getItem(STORAGE_KEY); } catch { /* no storage */ }
    if (!/^\/in-[\w-]{16}\/$/.test(path ?? "")) return false;
    const response = await fetch(path, { method: "HEAD" });
    if (response.headers.get("x-tui-agent") !== "page") return false;
    location.replace(path);
    return true;
  }

  try {
    if (!ticket) {
      if (!await openSavedPath()) status.textContent = "Open this page with the link that tui-agent shows in the terminal.";
      return;
    }
    const response = await fetch("/enter", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ticket }),
    });
    const { error, path } = await response.json();
    if (response.ok) {
      try { localStorage.setItem(STORAGE_KEY, path); } catch { /* no storage: the address still works */ }
      location.replace(path);
    } else if (!await openSavedPath()) status.textContent = `Access denied: ${error}. Ask tui-agent for a new link.`;
  } catch {
    status.textContent = "tui-agent no longer responds.";
  }
})();
