// Apply the saved color scheme before the first paint, and ask for the session while the other scripts are loaded.
"use strict";
try {
  const theme = localStorage.getItem("tui-agent-look");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: use the system's */ }
window.askedEarly = new Map(["history", "typing"].map((path) => [path, fetch(path)]));  // taken by wire.js
for (const asked of window.askedEarly.values()) asked.catch(() => {});  // it is asked for again
