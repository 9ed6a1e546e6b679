"""The window of pywebview, in a process of its own: it wants the main thread, which is the session's."""

from __future__ import annotations

import importlib
import os

from tui_agent.frontends.desktop import SIZE


def main() -> None:
    """Show the page that the environment names until the window is closed."""
    webview = importlib.import_module("webview")
    link = os.environ.pop("TUI_AGENT_LINK")
    webview.create_window("tui-agent", link, width=SIZE[0], height=SIZE[1])
    webview.start(private_mode=True)


if __name__ == "__main__":
    main()
