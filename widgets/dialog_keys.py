"""Keys of the session as Textual's bindings, and the effective keys of dialogs, lists and panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType

from tui_agent.keys import keymap
from tui_agent.keys.key_names import key_label, pressed_key
from widgets.styled_text import Line, Span, TextStyles, line, width_of

ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}


UNBOUND = "unbound"
"""Stands for no key: Textual's keymap has no other way to unbind."""


def bindings(scope: str) -> list[Binding]:
    """The actions of `app` or `composer` with their built-in keys; `App.set_keymap` finds them by their names."""
    return [
        Binding(
            ",".join(one.keys) or UNBOUND,
            one.action or f"command('{one.name}')",
            one.description,
            show=False,
            priority=one.priority and scope == "app",
            id=one.name,
        )
        for one in keymap.SESSION_ACTIONS.values()
        if one.scope == scope
    ]


def context_bindings(context: str, actions: Mapping[str, str]) -> list[BindingType]:
    """Actions of a context as bindings that come before its fields: name of each → what Textual does for it."""
    return [
        Binding(",".join(keys) or UNBOUND, does, show=False, priority=True, id=f"{context}.{name}")
        for name, does in actions.items()
        for keys in [keymap.CONTEXT_ACTIONS[f"{context}.{name}"][1].keys]
    ]


def textual_keymap(effective: keymap.Keymap) -> dict[str, str]:
    """The user's own keys, for `App.set_keymap`."""
    built_in = {**keymap.SESSION_ACTIONS, **{name: one for name, (_context, one) in keymap.CONTEXT_ACTIONS.items()}}
    return {
        name: ",".join(effective.keys[name]) or UNBOUND
        for name, one in built_in.items()
        if effective.keys[name] != one.keys
    }


class Keys:
    """The keys of one context of `tui_agent/keys/actions.json`."""

    def __init__(self, context: str) -> None:
        self.context = context

    def does(self, event: events.Key) -> str:
        """The action of a pressed key; empty when it means nothing here."""
        return self.named(event.key, event.character)

    def named(self, key: str, character: str | None = None) -> str:
        """The same, of a key by its name and the character that it types."""
        return keymap.current().action_for(self.context, pressed_key(key, character))

    def all_of(self, action: str) -> tuple[str, ...]:
        """The keys of an action, as Textual names them."""
        return keymap.current().keys[f"{self.context}.{action}"]

    def of(self, action: str) -> str:
        """Its first key as the user reads it; empty where it has none."""
        return keymap.current().first_label(f"{self.context}.{action}")

    def arrows(self, *actions: str) -> str:
        """The first keys of several, arrows as arrows."""
        firsts = [self.all_of(action)[:1] for action in actions]
        return " ".join(ARROWS.get(key, key_label(key)) for keys in firsts for key in keys)

    def both(self, *actions: str) -> str:
        """The first keys of several, one behind the other."""
        return " ".join(key for action in actions if (key := self.of(action)))

    def pairs(self, wanted: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Keys with words, from actions with words; without those that have no key."""
        return [(key, word) for action, word in wanted if (key := self.of(action))]


def key_spans(pairs: Iterable[tuple[str, str]], styles: TextStyles) -> list[Span]:
    """Keys with what they do, one behind the other."""
    spans: list[Span] = []
    for key, does in pairs:
        spans += [(f"   {key}" if spans else key, styles.accent), (f" {does}", styles.muted)]
    return spans


def key_lines(
    pairs: Iterable[tuple[str, str]], width: int, styles: TextStyles, *, gap: int = 2, style: Style | None = None
) -> list[Line]:
    """Keys with what they do, in as many lines as they need; nothing of an action without a key."""
    rows: list[list[Span]] = [[]]
    for key, does in pairs:
        spans: list[Span] = [(key, style or styles.accent), (f" {does}", styles.muted)]
        if key and rows[-1] and width_of([*rows[-1], *spans]) + gap > width:
            rows.append([])
        if key:
            rows[-1] += [(" " * gap, styles.text), *spans] if rows[-1] else spans
    return [line(*spans) for spans in rows]
