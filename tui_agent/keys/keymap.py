"""Every action with its keys, from `actions.json`, and what the user's own `keys:` make of them (U5, A9).

Bindings, footer, help, palette, dialogs and `docs/keys.md` all read this table. No built-in key is one that tmux, VS
Code or a browser keeps for itself unless there is another, and each action has a command or the palette besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from tui_agent.keys.key_names import PLAIN, KeyProblem, closest, is_typed, key_label, read_key


class KeyAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action with its built-in keys."""

    does: str
    name: str = ""
    """What `keys:` calls it; empty where it can't have another key because it is typed."""
    keys: tuple[str, ...] = ()
    """As Textual names them."""
    row: str = ""
    """The help's words for it and its neighbors with the same words, in one row; empty for a row of its own."""
    decides: bool = False
    """It decides or does something for good: no key that moves or goes on may be its key (A9)."""
    typed: bool | None = None
    """Whether a character may be its key; None as in its context."""

    # Only for actions of the session:
    group: str = ""
    """Heading in the help."""
    footer: str = ""
    """A word for the footer; empty leaves it out."""
    when: Literal["", "idle", "busy", "plan"] = ""
    """When the footer shows it; empty is always."""
    scope: Literal["app", "composer"] = "app"
    """Where it works: wherever no dialog is open, or in the composer."""
    action: str = ""
    """Textual's action; empty for the command of the same name."""
    priority: bool = True
    also: tuple[str, ...] = ()
    """What can be typed instead, for the help."""


class FixedKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of a context that can't be changed."""

    keys: str
    """As the user reads them."""
    does: str
    why: str
    keep: tuple[str, ...] = ()
    """Those that no action of the context may take, as Textual names them."""


class KeyContext(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dialog, list or panel in which keys mean something of their own."""

    name: str
    title: str
    """Heading in the help."""
    actions: tuple[KeyAction, ...] = ()
    fixed: tuple[FixedKey, ...] = ()
    field: bool = False
    """Text is typed there: characters and editing keys are not for actions."""
    inherits: str = ""
    """The context whose keys work there too, where this one has none of its own for them."""
    app: tuple[str, ...] | None = ("cancel", "help")
    """Actions of the session whose keys work there first; None for all that work everywhere."""


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command behind `/`."""

    name: str
    does: str
    takes: dict[str, str] = {}
    """Words that may follow the name → what it does then; empty for a placeholder."""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: tuple[KeyAction, ...]
    commands: tuple[Command, ...]
    contexts: tuple[KeyContext, ...]
    editing: frozenset[str]


_TABLE: Final = msgspec.json.decode(Path(__file__).with_name("actions.json").read_bytes(), type=_Table)
COMMANDS: Final = _TABLE.commands
SESSION: Final = KeyContext("session", "Session", _TABLE.session)
"""What works in the session and in the composer, in the order of the help and of the footer."""
CONTEXTS: Final = {one.name: one for one in _TABLE.contexts}
"""Dialogs, lists and panels, in the order of the help."""
NAMED: Final = {one.name: one for one in SESSION.actions if one.name}
ACTIONS: Final = {
    f"{context.name}.{one.name}": (context, one) for context in CONTEXTS.values() for one in context.actions
}
"""Actions of the contexts, as `keys:` names them."""
_ALL: Final[dict[str, tuple[KeyContext, KeyAction]]] = {name: (SESSION, one) for name, one in NAMED.items()} | ACTIONS

EXIT_KEYS: Final = ("escape", "ctrl+c")
"""Keys that lead out of every context, or stop: nothing else may be done by them."""
MOVING: Final = PLAIN | {"shift+tab", "space", "pageup", "pagedown"}
"""Keys that move, scroll or go on: none of them decides anything unless it is built in (A9)."""
EDITING: Final = _TABLE.editing
"""Keys that edit or select in a text field."""
_NEVER_GLOBAL = PLAIN | {"ctrl+s", "ctrl+d", "ctrl+a"}
"""Keys of lists and fields, which an action that works everywhere would take from them."""
_FOOTER_LAST = ("help", "plan", "details", "progress", "search", "quit")
"""Words that come last in the footer, in this order: where there is little room they are left out."""


class Keymap:
    """The effective keys: the built-in ones, with the user's own in place of some."""

    def __init__(self, chosen: Mapping[str, Sequence[str]] | None = None) -> None:
        """`chosen` maps names of actions, such as `details` or `approval.reject`, to keys; an empty list unbinds.
        Wrong entries are left out and reported in `problems`."""
        self.problems: list[KeyProblem] = []
        self.keys: dict[str, tuple[str, ...]] = {}
        self._bound: dict[str, dict[str, str]] = {name: {} for name in (SESSION.name, *CONTEXTS)}
        """Context → key → full name of its action."""
        for dotted in (False, True):  # the session's keys come first
            own: dict[str, tuple[str, ...]] = {}
            for name, words in (chosen or {}).items():
                if ("." in name) is not dotted:
                    continue
                if name not in _ALL:
                    self._report(name, _unknown(name))
                elif (keys := self._choose(name, words)) or not words:  # else all are wrong: the built-in keys stay
                    own[name] = keys
            for name in ACTIONS if dotted else NAMED:
                self.keys[name] = own[name] if name in own else self._built_in(name)
            for name in own:
                self._report_hidden(name)

    def _report(self, name: str, message: str) -> None:
        self.problems.append(KeyProblem(name, message))

    def _choose(self, name: str, words: Sequence[str]) -> tuple[str, ...]:
        """The user's keys for an action, as far as they are possible."""
        context, action = _ALL[name]
        bound, found = self._bound[context.name], []
        for word in words:
            key, why = read_key(word)
            why = why or refused(context, action, key)
            if not why and (other := self._global(context, key)):
                why = f"`{key_label(key)}` is the key of `{other}`, which works there too; that one is used"
            if not why and (other := bound.get(key, name)) != name:
                why = f"`{key_label(key)}` is the key of `{other}`; that one is used"
            if why:
                self._report(name, why)
            elif key not in found:
                bound[key] = name
                found.append(key)
        return tuple(found)

    def _global(self, context: KeyContext, key: str) -> str:
        """The action of the session that gets a key before the context does."""
        name = self._bound[SESSION.name].get(key, "")
        if context is SESSION or not name or NAMED[name].scope != "app":
            return ""
        return name if context.app is None or name in context.app else ""

    def _built_in(self, name: str) -> tuple[str, ...]:
        """The built-in keys that no other action took."""
        context, action = _ALL[name]
        bound, left = self._bound[context.name], []
        lost: dict[str, str] = {}
        for key in action.keys:
            if other := self._global(context, key) or bound.get(key, ""):
                lost[other] = key
            else:
                left.append(key)
        bound.update(dict.fromkeys(left, name))
        for other, key in lost.items() if not left else ():
            message = f"`{key_label(key)}` was the key of `{name}`, which now has none; assign another one"
            self._report(other, f"{message}, or set `{name}: none`")
        return tuple(left)

    def _report_hidden(self, name: str) -> None:
        """A key of every panel that means something else in one of them."""
        for other in CONTEXTS.values():
            for key in self.keys[name] if other.inherits == _ALL[name][0].name else ():
                own = self._bound[other.name].get(key, name)
                if own.rpartition(".")[2] != _ALL[name][1].name:
                    self._report(
                        name, f"`{key_label(key)}` is the key of `{own}` in that list and can't be reassigned there"
                    )

    def action(self, context: str, key: str) -> str:
        """Name of the action that a key has in a context; empty for none."""
        return self._bound[context].get(key, "").rpartition(".")[2]

    def first(self, name: str) -> str:
        """The first key of an action as the user reads it; empty for none."""
        return next((key_label(key) for key in self.keys.get(name, ())), "")

    def label(self, name: str) -> str:
        """All keys of an action as the user reads them."""
        return "  ".join(key_label(key) for key in self.keys[name])

    def describe(self, key: str) -> str:
        """What a key does in the session, in words, and the names of what it does elsewhere; empty for nothing."""
        said = [
            f"{one.does} ({one.name})" if one.group != "Commands" else one.name
            for one in NAMED.values()
            if key in self.keys[one.name]
        ]
        within = [name for name in ACTIONS if key in self.keys[name]]
        return "; ".join([*said, *([", ".join(within)] if within else [])])

    def footer(self, *, busy: bool, plan: bool) -> list[tuple[str, str]]:
        """Keys and words for the moment, the most useful first."""
        now = {"", "busy" if busy else "idle", *(("plan",) if plan else ())}
        rows = [one for one in SESSION.actions if one.footer and one.when in now]
        pairs = [(self.first(one.name or "send"), one.footer) for one in rows]
        shown = [pair for pair in pairs if pair[0]]
        return sorted(shown, key=lambda pair: _FOOTER_LAST.index(pair[1]) if pair[1] in _FOOTER_LAST else -1)

    def groups(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """For the help: headings of the session's actions with their rows of keys and words."""
        found: dict[str, list[tuple[str, str]]] = {}
        for one in SESSION.actions:
            if label := "  ".join(filter(None, (self.label(one.name) if one.name else "", *one.also))):
                found.setdefault(one.group, []).append((label, one.does))
        yield from found.items()

    def context_groups(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """The same for dialogs, lists and panels; neighbors with the same words share a row."""
        for context in CONTEXTS.values():
            rows: list[tuple[str, str]] = []
            for one in context.actions:
                label, words = self.label(f"{context.name}.{one.name}"), one.row or one.does
                if label and rows and rows[-1][1] == words:
                    rows[-1] = (f"{rows[-1][0]}  {label}", words)
                elif label:
                    rows.append((label, words))
            yield context.title, [*rows, *((fixed.keys, fixed.does) for fixed in context.fixed)]


def refused(context: KeyContext, action: KeyAction, key: str) -> str:
    """Why a key can't be the action's; empty when it can."""
    label = key_label(key)
    characters = not (context.field or context is SESSION) if action.typed is None else action.typed
    if not characters and is_typed(key):
        return f"`{label}` types a character there; choose one with ctrl or alt, or a function key"
    if context is SESSION:
        fixed = action.scope == "app" and key in _NEVER_GLOBAL
        return f"`{label}` belongs to lists and fields; choose another key" if fixed else ""
    if key in EXIT_KEYS:
        return f"`{label}` goes back everywhere; choose another key"
    if any(key in one.keep for one in context.fixed):
        return f"`{label}` is fixed there; choose another key"
    if action.decides and key in MOVING:
        return f"`{label}` is for navigation and never decides; choose another key"
    built_in = {one for other in context.actions for one in other.keys}
    if context.field and key in EDITING - built_in:
        return f"`{label}` edits text there; choose another key"
    return ""


def _unknown(name: str) -> str:
    word = name.lower().replace("-", "_") if "." in name else name.lower().replace("_", "-")
    nearby = [one for one in ACTIONS if one.startswith(f"{name.partition('.')[0]}.")]
    if close := closest(word, nearby or (ACTIONS if "." in name else NAMED)):
        return f"is not an action; did you mean `{close}`?"
    return "is not an action; the palette and `docs/keys.md` list them all"


BUILT_IN: Final = Keymap()
_screen = [BUILT_IN]
"""The keymap of the screen: one process has one."""


def current() -> Keymap:
    """The keymap of the screen."""
    return _screen[0]


def use(keymap: Keymap) -> None:
    """Make it the keymap of the screen."""
    _screen[0] = keymap


def key_of(name: str) -> str:
    """For hints on the screen: the key of an action, or its command where it has none."""
    return current().first(name) or f"/{name}"
