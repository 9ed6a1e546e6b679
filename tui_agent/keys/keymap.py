"""All actions with their keys, from `actions.json` and the user's `keys` setting (U5, A9).

Bindings, footer, help, palette, dialogs and `docs/keys.md` are made from this table. If tmux, VS Code or browsers use a
built-in key themselves, the action has another one, and every action is also a command or in the palette.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from tui_agent.common.suggestions import did_you_mean
from tui_agent.keys.key_names import NAME_SIMILARITY, PLAIN_KEYS, KeyProblem, is_typed, key_label, read_key


class KeyAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action with its built-in keys."""

    description: str
    name: str = ""
    """Name in the `keys` setting; empty if the keys are fixed characters."""
    old_name: str = ""
    """Earlier name, still read in the `keys` setting."""
    keys: tuple[str, ...] = ()
    """Built-in keys, as Textual names them."""
    help_text: str = ""
    """Text in the help, which merges adjacent actions with the same text; empty: `description`."""
    is_decision: bool = False
    """It decides something or can't be undone: navigation keys can't be assigned to it (A9)."""
    allows_characters: bool | None = None
    """Whether a character may be its key; None: as in its context."""

    # Only for actions of the session:
    group: str = ""
    """Heading in the help."""
    footer: str = ""
    """Label in the footer; empty: not shown."""
    footer_when: Literal["", "idle", "busy", "plan"] = ""
    """When the footer shows it; empty: always."""
    scope: Literal["app", "composer"] = "app"
    """Where it works: everywhere unless a dialog is open, or in the composer."""
    action: str = ""
    """Textual action to run; empty: the command with the same name."""
    priority: bool = True
    alternatives: tuple[str, ...] = ()
    """Characters that can be typed instead, for the help."""


class FixedKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of a context that can't be changed."""

    keys: str
    """Keys as shown to the user."""
    description: str
    reason: str
    reserved: tuple[str, ...] = ()
    """Keys that can't be assigned in the context, as Textual names them."""


class KeyContext(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dialog, list or panel with its own keys."""

    name: str
    title: str
    """Heading in the help."""
    actions: tuple[KeyAction, ...] = ()
    fixed: tuple[FixedKey, ...] = ()
    has_text_input: bool = False
    """It has a text field: characters and editing keys can't be assigned."""
    inherits: str = ""
    """Context whose keys apply as well, unless this one overrides them."""
    app_actions: tuple[str, ...] | None = ("cancel", "help", "redraw", "suspend")
    """Actions of the session whose keys take precedence; None: all with the scope `app`."""


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A slash command."""

    name: str
    description: str
    group: str = ""
    """Subject, one of `SUBJECTS`."""
    arguments: dict[str, str] = {}
    """Possible arguments → description; empty for placeholders."""


SUBJECTS: Final = (
    "Model and mode",
    "Plan and progress",
    "While it works",
    "Undo",
    "Session",
    "Permissions",
    "Writing",
    "Editing text",
    "Copy and share",
    "View",
    "Settings and help",
)
"""Subjects of commands and actions, in the order of the palette."""
_SUBJECT_OF_GROUP: Final = {"Quit": "Session", "Commands": "Writing"}
"""Heading of actions without a command in the help → their subject, if that differs."""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: tuple[KeyAction, ...]
    commands: tuple[Command, ...]
    contexts: tuple[KeyContext, ...]
    editing: frozenset[str]


_TABLE: Final = msgspec.json.decode(Path(__file__).with_name("actions.json").read_bytes(), type=_Table)
COMMANDS: Final = _TABLE.commands
SESSION: Final = KeyContext("session", "Session", _TABLE.session)
"""Actions of the session and the composer, in the order of help and footer."""
CONTEXTS: Final = {context.name: context for context in _TABLE.contexts}
"""Dialogs, lists and panels, in the order of the help."""
SESSION_ACTIONS: Final = {action.name: action for action in SESSION.actions if action.name}
CONTEXT_ACTIONS: Final = {
    f"{context.name}.{action.name}": (context, action) for context in CONTEXTS.values() for action in context.actions
}
"""Actions of the contexts by their name in the `keys` setting."""
_ALL_ACTIONS: Final[dict[str, tuple[KeyContext, KeyAction]]] = {
    **{name: (SESSION, action) for name, action in SESSION_ACTIONS.items()},
    **CONTEXT_ACTIONS,
}
_OLD_NAMES: Final = {
    name.removesuffix(action.name) + action.old_name: name
    for name, (_, action) in _ALL_ACTIONS.items()
    if action.old_name
}

EXIT_KEYS: Final = ("escape", "ctrl+c")
"""Keys that close or interrupt in every context, and can't be assigned."""
NAVIGATION_KEYS: Final = PLAIN_KEYS | {"shift+tab", "space", "pageup", "pagedown"}
"""Keys that can't be assigned to decisions (A9)."""
EDITING_KEYS: Final = _TABLE.editing
"""Keys that edit or select in a text field."""
_NEVER_GLOBAL = PLAIN_KEYS | {"ctrl+s", "ctrl+d", "ctrl+a"}
"""Keys of lists and text fields, which can't be assigned to actions with the scope `app`."""
_FOOTER_LAST = ("help", "quit", "approvals", "plan", "details", "progress", "search")
"""Labels that come last in the footer, in this order, and are dropped first on narrow screens."""


class Keymap:
    """The effective keys: the built-in ones, and the user's."""

    def __init__(self, user_keys: Mapping[str, Sequence[str]] | None = None) -> None:
        """`user_keys` maps names of actions, such as `details` or `approval.reject`, to keys; an empty list unbinds.

        Invalid entries are ignored and reported in `problems`.
        """
        self.problems: list[KeyProblem] = []
        self.keys: dict[str, tuple[str, ...]] = {}
        self._bound: dict[str, dict[str, str]] = {name: {} for name in (SESSION.name, *CONTEXTS)}
        """Context → key → full name of its action."""
        self._written: dict[str, str] = {}
        """Current → earlier name of an action, if the user wrote that."""
        given = self._with_current_names(user_keys or {})
        for in_context in (False, True):  # the session's keys come first
            valid: dict[str, tuple[str, ...]] = {}
            for name, keys in given.items():
                if ("." in name) is not in_context:
                    continue
                if name not in _ALL_ACTIONS:
                    self._report(name, _unknown_action_message(name))
                elif (valid_keys := self._assign_user_keys(name, keys)) or not keys:  # else the built-in keys stay
                    valid[name] = valid_keys
            for name in CONTEXT_ACTIONS if in_context else SESSION_ACTIONS:
                self.keys[name] = valid[name] if name in valid else self._assign_built_in_keys(name)
            for name in valid:
                self._report_overridden(name)

    def _with_current_names(self, user_keys: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """Return the user's keys with the current names of the actions, in the same order."""
        given: dict[str, Sequence[str]] = {}
        for name, keys in user_keys.items():
            current = _OLD_NAMES.get(name, name)
            if current != name and current in user_keys:
                self._report(name, f"is the earlier name of `{current}`, which is set as well; that one is used")
                continue
            if current != name:
                self._written[current] = name
            given[current] = keys
        return given

    def _report(self, name: str, message: str) -> None:
        """Add a problem, with the name that the user wrote."""
        self.problems.append(KeyProblem(self._written.get(name, name), message))

    def _assign_user_keys(self, name: str, user_keys: Sequence[str]) -> tuple[str, ...]:
        """Bind the user's valid keys for an action, and report the others."""
        context, action = _ALL_ACTIONS[name]
        bound, keys = self._bound[context.name], []
        for user_key in user_keys:
            key, problem = read_key(user_key)
            problem = problem or assignment_problem(context, action, key)
            if not problem and (other := self._overriding_app_action(context, key)):
                problem = f"`{key_label(key)}` is the key of `{other}`, which works there too; that one is used"
            if not problem and (other := bound.get(key, name)) != name:
                problem = f"`{key_label(key)}` is the key of `{other}`; that one is used"
            if problem:
                self._report(name, problem)
            elif key not in keys:
                bound[key] = name
                keys.append(key)
        return tuple(keys)

    def _overriding_app_action(self, context: KeyContext, key: str) -> str:
        """Return the action of the session that gets a key before the context, or ""."""
        name = self._bound[SESSION.name].get(key, "")
        if context is SESSION or not name or SESSION_ACTIONS[name].scope != "app":
            return ""
        return name if context.app_actions is None or name in context.app_actions else ""

    def _assign_built_in_keys(self, name: str) -> tuple[str, ...]:
        """Bind the built-in keys that no other action has, and report an action that lost all of them."""
        context, action = _ALL_ACTIONS[name]
        bound, keys = self._bound[context.name], []
        lost: dict[str, str] = {}
        for key in action.keys:
            if other := self._overriding_app_action(context, key) or bound.get(key, ""):
                lost[other] = key
            else:
                keys.append(key)
        bound.update(dict.fromkeys(keys, name))
        for other, key in lost.items() if not keys else ():
            message = f"`{key_label(key)}` was the key of `{name}`, which now has none; assign another one"
            self._report(other, f"{message}, or set `{name}: none`")
        return tuple(keys)

    def _report_overridden(self, name: str) -> None:
        """Report keys that a context which inherits them uses for another action."""
        context, action = _ALL_ACTIONS[name]
        for other in CONTEXTS.values():
            for key in self.keys[name] if other.inherits == context.name else ():
                bound = self._bound[other.name].get(key, name)
                if bound.rpartition(".")[2] != action.name:
                    self._report(
                        name, f"`{key_label(key)}` is the key of `{bound}` in that list and can't be reassigned there"
                    )

    def action_for(self, context: str, key: str) -> str:
        """Return the name of the action that a key runs in a context, or ""."""
        return self._bound[context].get(key, "").rpartition(".")[2]

    def first_label(self, name: str) -> str:
        """Return the first key of an action as shown to the user, or ""."""
        return next((key_label(key) for key in self.keys.get(name, ())), "")

    def label(self, name: str) -> str:
        """Return all keys of an action as shown to the user."""
        return "  ".join(key_label(key) for key in self.keys[name])

    def describe(self, key: str) -> str:
        """Return what a key does in the session, and the names of its actions elsewhere; "" if it has none."""
        texts = [
            f"{action.description} ({name})" if action.group != "Commands" else name
            for name, action in SESSION_ACTIONS.items()
            if key in self.keys[name]
        ]
        in_contexts = [name for name in CONTEXT_ACTIONS if key in self.keys[name]]
        return "; ".join([*texts, *([", ".join(in_contexts)] if in_contexts else [])])

    def footer(self, *, busy: bool, plan: bool, composing: bool = True) -> list[tuple[str, str]]:
        """Return (key, label) pairs for the current state, the most useful first.

        `composing` is false while the composer's keys, such as Enter, have another meaning.
        """
        states = {"", "busy" if busy else "idle", *(("plan",) if plan else ())}
        actions = [action for action in SESSION.actions if action.footer and action.footer_when in states]
        if not composing:
            actions = [
                action for action in actions if action.scope != "composer" and action.name not in ("", "interrupt")
            ]
        pairs = [(self.first_label(action.name or "send"), action.footer) for action in actions]
        bound = [pair for pair in pairs if pair[0]]
        return sorted(bound, key=lambda pair: _FOOTER_LAST.index(pair[1]) if pair[1] in _FOOTER_LAST else -1)

    def groups(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield the help's headings for the session, with rows of keys and descriptions."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for action in SESSION.actions:
            keys = self.label(action.name) if action.name else ""
            if label := "  ".join(filter(None, (keys, *action.alternatives))):
                groups.setdefault(action.group, []).append((label, action.description))
        yield from groups.items()

    def context_groups(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield the same for dialogs, lists and panels; adjacent actions with the same text share a row."""
        for context in CONTEXTS.values():
            rows: list[tuple[str, str]] = []
            for action in context.actions:
                label, text = self.label(f"{context.name}.{action.name}"), action.help_text or action.description
                if label and rows and rows[-1][1] == text:
                    rows[-1] = (f"{rows[-1][0]}  {label}", text)
                elif label:
                    rows.append((label, text))
            yield context.title, [*rows, *((fixed.keys, fixed.description) for fixed in context.fixed)]


def assignment_problem(context: KeyContext, action: KeyAction, key: str) -> str:
    """Return why a key can't be assigned to an action, or ""."""
    label = key_label(key)
    allows_characters = (
        not (context.has_text_input or context is SESSION)
        if action.allows_characters is None
        else action.allows_characters
    )
    if not allows_characters and is_typed(key):
        return f"`{label}` types a character there; choose one with ctrl or alt, or a function key"
    if context is SESSION:
        is_reserved = action.scope == "app" and key in _NEVER_GLOBAL
        return f"`{label}` belongs to lists and fields; choose another key" if is_reserved else ""
    if key in EXIT_KEYS:
        return f"`{label}` goes back everywhere; choose another key"
    if any(key in fixed.reserved for fixed in context.fixed):
        return f"`{label}` is fixed there; choose another key"
    if action.is_decision and key in NAVIGATION_KEYS:
        return f"`{label}` is for navigation and never decides; choose another key"
    built_in = {built_in_key for other in context.actions for built_in_key in other.keys}
    if context.has_text_input and key in EDITING_KEYS - built_in:
        return f"`{label}` edits text there; choose another key"
    return ""


def _unknown_action_message(name: str) -> str:
    normalized = name.lower().replace("-", "_") if "." in name else name.lower().replace("_", "-")
    in_context = [action for action in CONTEXT_ACTIONS if action.startswith(f"{name.partition('.')[0]}.")]
    known = in_context or (CONTEXT_ACTIONS if "." in name else SESSION_ACTIONS)
    suggestion = did_you_mean(normalized, known, NAME_SIMILARITY)
    return f"is not an action{suggestion or '; the palette and `docs/keys.md` list them all'}"


BUILT_IN: Final = Keymap()
_current = [BUILT_IN]
"""The keymap of this process, in a list so that `use` can replace it."""


def current() -> Keymap:
    """Return the keymap of this process."""
    return _current[0]


def use(keymap: Keymap) -> None:
    """Replace the keymap of this process."""
    _current[0] = keymap


def subject_of(name: str) -> str:
    """Return the subject of a command or of an action of the session."""
    command = next((command for command in COMMANDS if command.name == name), None)
    if command is not None:
        return command.group
    group = SESSION_ACTIONS[name].group
    return _SUBJECT_OF_GROUP.get(group, group)


def commands_by_subject() -> dict[str, list[Command]]:
    """Return the commands by subject, both in the order of the palette."""
    groups: dict[str, list[Command]] = {subject: [] for subject in SUBJECTS}
    for command in COMMANDS:
        groups[command.group].append(command)
    return {subject: commands for subject, commands in groups.items() if commands}


def key_of(name: str) -> str:
    """Return the key of an action for a hint, or its command if it has no key."""
    return current().first_label(name) or f"/{name}"
