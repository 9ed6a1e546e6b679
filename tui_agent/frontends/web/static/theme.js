// Apply the saved color scheme before the first paint.
"use strict";
try {
  const theme = localStorage.getItem("tui-agent-look");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: use the system's */ }
