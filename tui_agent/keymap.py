"""Every key of session and composer in one table, and what the user's own `keys:` make of it (U5, R20.2).

Footer, help, palette, documents and bindings are made from it. No built-in key is one that tmux, VS Code or a browser
keeps for itself unless there is another, and each action has a command or the palette besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from tui_agent.key_names import NAMES, PLAIN, Trouble, near, read_key, shown

if TYPE_CHECKING:
    from tui_agent.place_keys import PlaceKeys

__all__ = [
    "KEYS",
    "NAMED",
    "NAMES",
    "Key",
    "Keymap",
    "Trouble",
    "current",
    "key_of",
    "read_key",
    "shown",
    "use",
]

Scope: TypeAlias = Literal["app", "composer", ""]


class Key(NamedTuple):
    """An action with its built-in keys."""

    keys: tuple[str, ...]
    """As Textual names them."""
    does: str
    group: str
    footer: str = ""
    """A word for the footer; empty leaves it out."""
    when: str = ""
    """`idle`, `busy`, or `plan` while there is one: when the footer shows it; empty is always."""
    action: str = ""
    """The app's action; empty when the key belongs to the composer or a dialog."""
    priority: bool = True
    name: str = ""
    """What `keys:` calls it; empty where it can't have another key: it is typed, or a dialog's own."""
    scope: Scope = "app"
    """Where it works: wherever no dialog is open, or in the composer."""
    also: tuple[str, ...] = ()
    """What can be typed instead, for the help."""


WRITING, WORKING, LOOKING, LEAVING = "Writing", "While it works", "Looking", "Leaving"
COMMANDS = "Commands"
"""Group of the commands that have no key unless the user gives them one."""
_C: Final = "composer"


def _do(name: str) -> str:
    return f"do('{name}')"


KEYS: Final = (
    Key(("enter",), "send", WRITING, "send", "idle", name="send", scope=_C),
    Key(
        ("ctrl+j", "alt+enter", "shift+enter"), "new line", WRITING, "newline", "idle",
        name="newline", scope=_C, also=("\\ enter",),
    ),
    Key(("up",), "older messages; in an empty composer: take the last one back from the queue", WRITING,
        name="older", scope=_C),
    Key(("down",), "newer messages", WRITING, name="newer", scope=_C),
    Key(("ctrl+l",), "put a paste in the place of its chip", WRITING, name="lay-open", scope=_C),
    Key(("ctrl+t",), "the draft in your own editor", WRITING, name="editor", scope=_C),
    Key(("ctrl+z",), "undo typing", WRITING, name="undo-typing", scope=_C),
    Key(("ctrl+v",), "put in what was cut here", WRITING, name="paste", scope=_C),
    Key((), "commands, in an empty composer", WRITING, also=("/",)),
    Key((), "a file or folder for the message; :L10-L50 for lines", WRITING, also=("@",)),
    Key((), "at the beginning: run a command of your own", WRITING, also=("!",)),
    Key(("escape",), "stop at once; what was said so far is kept", WORKING, "stop", "busy", "interrupt", False,
        name="interrupt"),
    Key((), "queue a message for afterwards", WORKING, "queue", "busy", also=("enter",)),
    Key(("ctrl+g",), "guide the run that goes on", WORKING, "guide now", "busy", name="guide", scope=_C),
    Key(("shift+tab",), "next approval mode", WORKING, "approvals", "", _do("approvals"), name="approvals"),
    Key(("alt+m",), "next mode: how messages are worked on", WORKING, action=_do("mode"), name="mode"),
    Key(("ctrl+p", "f2"), "everything that can be done, by name", LOOKING, action=_do("palette"),
        name="palette"),
    Key(("pageup",), "scroll up", LOOKING, action=_do("page-up"), name="page-up"),
    Key(("pagedown",), "scroll down", LOOKING, action=_do("page-down"), name="page-down"),
    Key(("ctrl+home",), "to the beginning", LOOKING, action=_do("top"), name="top"),
    Key(("ctrl+end",), "to the end, and follow", LOOKING, action=_do("end"), name="end"),
    Key(("ctrl+o",), "show or hide thinking and output", LOOKING, "details", "", _do("details"), name="details"),
    Key(("ctrl+f",), "search the session", LOOKING, "search", "idle", _do("search"), name="search"),
    Key(("ctrl+y",), "copy the last reply; again: its code blocks", LOOKING, action=_do("copy"), name="copy"),
    Key(("f3",), "plan: go there and back", LOOKING, "plan", "plan", _do("plan"), name="plan"),
    Key(("f4",), "progress: go there and back", LOOKING, "progress", "", _do("progress"), name="progress"),
    Key(("f7",), "all that the chosen or the last call printed", LOOKING, action=_do("output"), name="output"),
    Key(("f8",), "models", LOOKING, action=_do("model"), name="model"),
    Key(("f9",), "what the context window holds", LOOKING, action=_do("context"), name="context"),
    Key(("f6",), "settings", LOOKING, action=_do("settings"), name="settings"),
    Key(("f1",), "this help; ? in an empty composer", LOOKING, "help", "", "help", name="help", also=("?",)),
    Key(("ctrl+c",), "copy a selection, stop, set the draft aside, quit", LEAVING, "quit", "idle", "cancel",
        name="cancel"),
    Key(("ctrl+d",), "quit, in an empty composer", LEAVING, name="leave", scope=_C),
    *(
        Key((), "", COMMANDS, action=_do(name), name=name)
        for name in (
            "tree", "compact", "undo", "redo", "rewind", "diff", "checkpoints", "sessions", "resume", "rename",
            "fork", "grants", "export", "stop", "theme", "quit", "queue", "keys", "commands", "clear", "stats", "web",
        )
    ),
)  # fmt: skip
"""In the order of the help; the footer shows those with a word as long as there is room."""

NAMED: Final = {one.name: one for one in KEYS if one.name}

_FIXED = frozenset(f"{PLAIN} ctrl+s ctrl+d ctrl+a".split())
"""Keys of lists and fields, which an action that works everywhere would take from them."""


class Keymap:
    """The keys that hold: the built-in ones, with what the user chose in the place of some."""

    def __init__(self, chosen: Mapping[str, Sequence[str]] | None = None) -> None:
        """`chosen` maps names of actions to keys; none at all takes the keys off. What is wrong is left out and told
        in `troubles`. Names with a dot are those of places (`PlaceKeys`)."""
        self._within = {name: keys for name, keys in (chosen or {}).items() if "." in name}
        self.troubles: list[Trouble] = []
        self.keys: dict[str, tuple[str, ...]] = {}
        taken: dict[tuple[Scope, str], str] = {}
        mine = {}
        for name, keys in (chosen or {}).items():
            if name in self._within:
                continue
            if (action := NAMED.get(name)) is None:
                self._tell(name, _unknown(name))
                continue
            good = [key for word in keys if (key := self._read(name, action.scope, word))]
            mine[name] = tuple(key for key in dict.fromkeys(good) if self._take(taken, name, key))
            if keys and not mine[name]:
                del mine[name]  # nothing of it is right: it keeps the built-in keys
        for name, action in NAMED.items():
            self.keys[name] = mine[name] if name in mine else self._left_of(taken, action)
        if chosen:
            self.troubles += self.places.troubles

    @cached_property
    def places(self) -> PlaceKeys:
        """The keys within dialogs, lists and panels; read when one of them is there, or was changed."""
        from tui_agent.place_keys import PlaceKeys

        app = {name: keys for name, keys in self.keys.items() if NAMED[name].scope == "app"}
        return PlaceKeys(self._within, app)

    def _tell(self, name: str, says: str) -> None:
        self.troubles.append(Trouble(name, says))

    def _read(self, name: str, scope: Scope, word: str) -> str:
        key, why = read_key(word)
        if not why and scope == "app" and key in _FIXED:
            why = f"`{shown(key)}` belongs to lists and fields; take another key"
        if why:
            self._tell(name, why)
        return "" if why else key

    def _take(self, taken: dict[tuple[Scope, str], str], name: str, key: str) -> bool:
        other = self._holder(taken, NAMED[name].scope, key)
        if other:
            self._tell(name, f"`{shown(key)}` is the key of `{other}` already; that one counts")
            return False
        taken[NAMED[name].scope, key] = name
        return True

    @staticmethod
    def _holder(taken: Mapping[tuple[Scope, str], str], scope: Scope, key: str) -> str:
        """Who has a key; what works everywhere works in the composer too."""
        scopes: tuple[Scope, ...] = ("app", "composer")
        return next((taken[one, key] for one in scopes if (one, key) in taken), "")

    def _left_of(self, taken: Mapping[tuple[Scope, str], str], action: Key) -> tuple[str, ...]:
        """The built-in keys that nobody else took."""
        left = []
        for key in action.keys:
            other = self._holder(taken, action.scope, key)
            if not other:
                left.append(key)
            elif len(action.keys) == 1:
                self._tell(
                    other,
                    f"`{shown(key)}` was the key of `{action.name}`, which has none now; "
                    f"give it another one, or say `{action.name}: none`",
                )
        return tuple(left)

    def first(self, name: str) -> str:
        """The key of an action as the user reads it; empty where it has none."""
        keys = self.keys.get(name, ())
        return shown(keys[0]) if keys else ""

    def label(self, one: Key) -> str:
        """All keys of a row as the user reads them, with what can be typed instead."""
        keys = self.keys[one.name] if one.name else one.keys
        return "  ".join((*(shown(key) for key in keys), *one.also))

    def said_of(self, key: str) -> str:
        """What a key does, in words, and the names of what it does in dialogs, lists and panels; empty for one that
        does nothing of its own."""
        found = [one for one in KEYS if key in (self.keys[one.name] if one.name else one.keys)]
        said = [f"{one.does} ({one.name})" if one.does else one.name for one in found]
        return "; ".join([*said, *([", ".join(within)] if (within := self.places.of_key(key)) else [])])

    def standing_for(self) -> dict[str, str]:
        """In the composer: what each key of the user's stands for, among the keys that the composer knows. An empty
        text stands for a key that means nothing any more."""
        found: dict[str, str] = {}
        for name, action in NAMED.items():
            if action.scope == "composer" and self.keys[name] != action.keys:
                found |= {key: "" for key in action.keys if key not in self.keys[name] and key not in found}
                found |= {key: action.keys[0] for key in self.keys[name] if key not in action.keys}
        return found


def _unknown(name: str) -> str:
    if close := near(name.lower().replace("_", "-"), NAMED, 0.6):
        return f"is no action; did you mean `{close[0]}`?"
    return "is no action; the palette and `docs/keys.md` list them all"


class _Now:
    """The keymap of the screen. One process has one screen."""

    keymap = Keymap()


def current() -> Keymap:
    """The keys that hold now."""
    return _Now.keymap


def use(keymap: Keymap) -> None:
    """From now on these hold."""
    _Now.keymap = keymap


def key_of(name: str) -> str:
    """For hints on the screen: the key of an action now, or its command where it has none."""
    return _Now.keymap.first(name) or f"/{name}"
