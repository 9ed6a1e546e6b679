// Sets the address of the terminal's socket and the title of the tab, and reports when there is no WebGL.
"use strict";
const terminal = document.getElementById("terminal");
terminal.dataset.sessionWebsocketUrl = `ws://${location.host}${location.pathname}terminal`;

// The emulator does not expose its socket. Text messages on it are for the page, binary ones for the emulator.
const NativeWebSocket = window.WebSocket;
window.WebSocket = class extends NativeWebSocket {
  constructor(...args) {
    super(...args);
    this.addEventListener("message", ({ data }) => {
      if (typeof data !== "string") return;
      const [kind, text] = JSON.parse(data);
      if (kind === "title") document.title = text || "tui-agent";
    });
    this.addEventListener("close", () => { document.title = "tui-agent"; });
  }
};

addEventListener("load", () => setTimeout(() => {
  if (terminal.querySelector("textarea")) return;
  document.getElementById("reason").textContent =
    "The terminal needs WebGL, which this browser does not have or has switched off.";
  document.body.classList.add("-closed");
}));

// Focus the emulator once its socket is open: input before that would raise an error.
new MutationObserver((_, observer) => {
  if (!document.body.classList.contains("-loaded")) return;
  observer.disconnect();
  terminal.querySelector("textarea").focus();
}).observe(document.body, { attributes: true, attributeFilter: ["class"] });
