// Exchanges the ticket in the link for the token, which no script ever sees, and takes it out of the address.
"use strict";
(async () => {
  const say = document.getElementById("say");
  const ticket = location.hash.slice(1);
  history.replaceState(null, "", "/");
  if (!ticket) {
    say.textContent = "Open this page with the link that tui-agent shows in the terminal.";
    return;
  }
  try {
    const answer = await fetch("/enter", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ticket }),
    });
    if (answer.ok) {
      location.replace("/");
      return;
    }
    const { error } = await answer.json();
    say.textContent = `Not let in: ${error}. Ask tui-agent for a new link.`;
  } catch {
    say.textContent = "tui-agent does not answer any more.";
  }
})();
