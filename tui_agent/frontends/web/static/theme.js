// Apply the saved color scheme before the first paint.
"use strict";
try {
  const chosen = localStorage.getItem("tui-agent-look");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.look = chosen;
} catch { /* no storage: use the system's */ }
