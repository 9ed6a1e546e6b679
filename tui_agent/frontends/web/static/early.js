// Apply the saved color scheme before the first paint, and ask for the session while the other scripts are loaded.
"use strict";
try {
  const theme = localStorage.getItem("tui-agent-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: use the system's */ }
// Typing can begin before the other scripts are there. The attribute `autofocus` would warn if the focus is elsewhere by then.
document.addEventListener("readystatechange", () => {
  if (document.activeElement === document.body) document.getElementById("message").focus();
}, { once: true });
window.askedEarly = new Map(["history", "typing"].map((path) => [path, fetch(path)]));  // taken by wire.js
for (const asked of window.askedEarly.values()) asked.catch(() => {});  // it is asked for again
