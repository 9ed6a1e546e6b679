"""Keys of the session as Textual's bindings, and the effective keys of dialogs, lists and panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType

from tui_agent.keys import keymap
from tui_agent.keys.key_names import PUNCTUATION_NAMES, key_label, pressed_key, read_key
from widgets.styled_text import Line, Span, TextStyles, line, width_of

ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}
ARROW_KEYS = {arrow: key for key, arrow in ARROWS.items()}
KEY_META = "key"
"""Name of the meta data of a style that holds the key that a click on the text presses."""
UNBOUND = "unbound"
"""Key name that stands for no key, as Textual's keymap can't unbind a key otherwise."""


def _joined(keys: Iterable[str]) -> str:
    """Return the keys of a binding in Textual's notation."""
    return ",".join(keys) or UNBOUND


def bindings(scope: str) -> list[Binding]:
    """Return the bindings of scope `app` or `composer` with built-in keys, with ids for `App.set_keymap`."""
    return [
        Binding(
            _joined(spec.keys),
            spec.action or f"command('{spec.name}')",
            spec.description,
            show=False,
            priority=spec.priority and scope == "app",
            id=spec.name,
        )
        for spec in keymap.SESSION_ACTIONS.values()
        if spec.scope == scope
    ]


def context_bindings(context: str, actions: Mapping[str, str]) -> list[BindingType]:
    """Return priority bindings for a context; `actions` maps action names to Textual actions."""
    return [
        Binding(_joined(spec.keys), actions[spec.name], show=False, priority=True, id=f"{context}.{spec.name}")
        for spec in keymap.CONTEXTS[context].actions
        if spec.name in actions
    ]


def textual_keymap(effective: keymap.Keymap) -> dict[str, str]:
    """Return the keys that differ from the built-in ones, for `App.set_keymap`."""
    built_in = keymap.BUILT_IN.keys
    return {name: _joined(keys) for name, keys in effective.keys.items() if keys != built_in[name]}


class Keys:
    """The keys of one context of `tui_agent/keys/actions.json`."""

    def __init__(self, context: str) -> None:
        self.context = context

    def action_for(self, event: events.Key) -> str:
        """Return the action of a key event; empty if it has none here."""
        return self.action_for_key(event.key, event.character)

    def action_for_key(self, key: str, character: str | None = None) -> str:
        """Return the action of a key by name and typed character."""
        return keymap.current().action_for(self.context, pressed_key(key, character))

    def decides(self, event: events.Key) -> bool:
        """Return whether the action of a key decides something."""
        action = self.action_for(event)
        return any(spec.name == action and spec.is_decision for spec in keymap.CONTEXTS[self.context].actions)

    def keys_for(self, action: str) -> tuple[str, ...]:
        """Return the keys of an action as Textual names."""
        return keymap.current().keys[f"{self.context}.{action}"]

    def label(self, action: str) -> str:
        """Return the label of the first key of an action; empty if unbound."""
        return keymap.current().first_label(f"{self.context}.{action}")

    def arrow_labels(self, *actions: str, separator: str = " ") -> str:
        """Return the first key of each action, arrows as symbols."""
        first_keys = [key for action in actions for key in self.keys_for(action)[:1]]
        return separator.join(ARROWS.get(key, key_label(key)) for key in first_keys)

    def labels(self, *actions: str, separator: str = " ") -> str:
        """Return the labels of several actions; unbound ones are omitted."""
        return separator.join(filter(None, map(self.label, actions)))

    def hints(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Turn (action, description) pairs into (key, description) pairs; unbound actions are omitted."""
        return [(key, description) for action, description in pairs if (key := self.label(action))]


def held_label(event: events.Key | None) -> str:
    """Return the label of a held key; empty if there is none."""
    return "" if event is None else key_label(pressed_key(event.key, event.character))


@lru_cache(maxsize=256)
def clickable(style: Style, label: str) -> Style:
    """Return `style` such that a click on its text presses the first key of `label`; see `clicked_key`."""
    first = label.split(" ")[0]
    key = ARROW_KEYS.get(first) or read_key(first)[0]
    return style + Style.from_meta({KEY_META: key}) if key else style


def clicked_key(event: events.MouseEvent) -> events.Key | None:
    """Return the key that a click presses, as an event of the same time; None if there is none below the pointer."""
    key = str(event.style.meta.get(KEY_META, ""))
    if not key:
        return None
    characters = {name: character for character, name in PUNCTUATION_NAMES.items()}
    pressed = events.Key(key, characters.get(key, key if len(key) == 1 else None))
    pressed.time = event.time
    return pressed


def key_span(label: str, text: str, key_style: Style, text_style: Style, gap: str = "") -> list[Span]:
    """Return a key, after `gap`, and what it does; a click on them presses the key."""
    return [(gap + label, clickable(key_style, label)), (f" {text}", clickable(text_style, label))]


def key_spans(pairs: Iterable[tuple[str, str]], styles: TextStyles) -> list[Span]:
    """Paint keys and descriptions on one line."""
    spans: list[Span] = []
    for key, description in pairs:
        spans += key_span(key, description, styles.accent, styles.muted, "   " if spans else "")
    return spans


def key_lines(
    pairs: Iterable[tuple[str, str]],
    width: int,
    styles: TextStyles,
    *,
    gap: int = 2,
    style: Style | None = None,
    held: str = "",
) -> list[Line]:
    """Paint keys and descriptions, wrapped to `width`; pairs without a key are skipped.

    `held` is the label of the key that acts in a moment: it is marked.
    """
    rows: list[list[Span]] = [[]]
    for key, description in pairs:
        key_style, text_style = style or styles.accent, styles.muted
        if held and held in key.split():
            key_style = text_style = styles.held
        spans = key_span(key, description, key_style, text_style)
        if key and rows[-1] and width_of([*rows[-1], *spans]) + gap > width:
            rows.append([])
        if key:
            rows[-1] += [(" " * gap, clickable(styles.text, key)), *spans] if rows[-1] else spans
    return [line(*spans) for spans in rows]
