// Before the first paint: the look that was chosen here, if one was.
"use strict";
try {
  const chosen = localStorage.getItem("tui-agent-look");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.look = chosen;
} catch { /* no storage: as the system is */ }
