"""Keys in the order in which they were pressed."""

from __future__ import annotations

from textual import events
from textual.widget import Widget


async def press_bound(widget: Widget, event: events.Key) -> bool:
    """Do at once what a key is bound to in this widget, and say whether it was; then nobody else gets the key.

    By itself the key would first go up to the app, and letters that were typed after it would be faster: of `helo`,
    Backspace and `lo` in one read the wrong letters stay.
    """
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return True
    return False
