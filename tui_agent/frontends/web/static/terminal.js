// Tells the terminal where its screen is, and the reader when the terminal can't be.
"use strict";
const place = document.getElementById("terminal");
place.dataset.sessionWebsocketUrl = `ws://${location.host}${location.pathname}terminal`;

addEventListener("load", () => setTimeout(() => {
  if (place.querySelector("textarea")) return;
  document.getElementById("why").textContent =
    "The terminal needs WebGL, which this browser does not have or has switched off.";
  document.body.classList.add("-closed");
}));

// What it says before its socket is open is an error there, so it is given the keys only then.
new MutationObserver((_, watching) => {
  if (!document.body.classList.contains("-loaded")) return;
  watching.disconnect();
  place.querySelector("textarea").focus();
}).observe(document.body, { attributes: true, attributeFilter: ["class"] });
