// Tells the terminal where its screen is, the tab its title, and the reader when the terminal can't be.
"use strict";
const place = document.getElementById("terminal");
place.dataset.sessionWebsocketUrl = `ws://${location.host}${location.pathname}terminal`;

// The terminal keeps its socket to itself; what is said there beside the bytes of the screen is for the page.
const Bare = window.WebSocket;
window.WebSocket = class extends Bare {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      if (typeof data !== "string") return;
      const [kind, text] = JSON.parse(data);
      if (kind === "title") document.title = text || "tui-agent";
    });
    this.addEventListener("close", () => { document.title = "tui-agent"; });
  }
};

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
