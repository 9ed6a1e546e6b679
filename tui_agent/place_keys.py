"""The keys that hold within dialogs, lists and panels: the built-in ones, with what the user chose in the place of some
(R20.2). No choice makes a key that decides also one that types, scrolls or leads out there (A9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui_agent.key_names import Trouble, is_typed, near, read_any, sign
from tui_agent.place import EDITING, MOVING, OUT, Does, Place
from tui_agent.places import ACTIONS, PLACES


class PlaceKeys:
    """What each key means in each place."""

    def __init__(self, chosen: Mapping[str, Sequence[str]], app: Mapping[str, Sequence[str]]) -> None:
        """`chosen` maps `place.action` to keys, none at all takes the keys off; `app` are the keys of the whole program
        by action. What is wrong is left out and told in `troubles`."""
        self.troubles: list[Trouble] = []
        self.keys: dict[str, tuple[str, ...]] = {}
        self._means: dict[str, dict[str, str]] = {place.name: {} for place in PLACES}
        self._app = app
        mine = {}
        for name, words in chosen.items():
            if name not in ACTIONS:
                self._tell(name, unknown(name))
                continue
            keys = self._choose(name, words)
            if keys or not words:  # else nothing of it is right: it keeps the built-in keys
                mine[name] = keys
        for name, (place, action) in ACTIONS.items():
            self.keys[name] = mine[name] if name in mine else self._left_of(name, place, action)
        for name in mine:
            self._tell_hidden(name)

    def _tell(self, name: str, says: str) -> None:
        self.troubles.append(Trouble(name, says))

    def _choose(self, name: str, words: Sequence[str]) -> tuple[str, ...]:
        place, action = ACTIONS[name]
        means, found = self._means[place.name], []
        for word in words:
            key, why = read_any(word)
            why = why or refused(place, action, key)
            if not why and (other := self._above(place, key)):
                why = f"`{sign(key)}` is the key of `{other}`, which works there too; that one counts"
            if not why and means.get(key, action.name) != action.name:
                why = f"`{sign(key)}` is the key of `{place.name}.{means[key]}` already; that one counts"
            if why:
                self._tell(name, why)
            elif key not in found:
                means[key] = action.name
                found.append(key)
        return tuple(found)

    def _above(self, place: Place, key: str) -> str:
        """The action of the whole program that gets a key first."""
        live = self._app if place.app is None else place.app
        return next((name for name in live if key in self._app.get(name, ())), "")

    def _left_of(self, name: str, place: Place, action: Does) -> tuple[str, ...]:
        """The built-in keys that nobody else took."""
        means, left = self._means[place.name], []
        lost: dict[str, str] = {}
        for key in action.keys:
            if other := self._above(place, key):
                lost[other] = key
            elif key in means:
                lost[f"{place.name}.{means[key]}"] = key
            else:
                left.append(key)
        for key in left:
            means[key] = action.name
        for other, key in lost.items() if not left else ():
            says = f"`{sign(key)}` was the key of `{name}`, which has none now; give it another one"
            self._tell(other, f"{says}, or say `{name}: none`")
        return tuple(left)

    def _tell_hidden(self, name: str) -> None:
        """A key of every panel means something else in one of them."""
        place, action = ACTIONS[name]
        for other in PLACES:
            for key in self.keys[name] if other.upon == place.name else ():
                if self._means[other.name].get(key, action.name) != action.name:
                    own = f"{other.name}.{self._means[other.name][key]}"
                    self._tell(name, f"`{sign(key)}` is the key of `{own}` in that list, and stays so there")

    def of_key(self, key: str) -> list[str]:
        """The names of all that a key does, place by place."""
        return [name for name, keys in self.keys.items() if key in keys]

    def does(self, place: str, key: str) -> str:
        """What a key does in a place, by the name of the action; empty when it means nothing there."""
        return self._means[place].get(key, "")


def refused(place: Place, action: Does, key: str) -> str:
    """Why a key can't be the action's; empty when it can."""
    said = sign(key)
    if key in OUT:
        return f"`{said}` leads out of every place; take another key"
    if any(key in one.keep for one in place.fixed):
        return f"`{said}` stays what it is there; take another key"
    letters = not place.field if action.typed is None else action.typed
    if not letters and is_typed(key):
        return f"`{said}` is typed there; take one with ctrl or alt, or a function key"
    if action.decides and key in MOVING:
        return f"`{said}` moves or goes on, and never decides; take another key"
    built_in = {one for other in place.actions for one in other.keys}
    if place.field and key in EDITING - built_in:
        return f"`{said}` edits what is typed there; take another key"
    return ""


def unknown(name: str) -> str:
    """Said of a name that no action has."""
    place = name.partition(".")[0]
    there = [one for one in ACTIONS if one.startswith(f"{place}.")]
    if close := near(name.lower().replace("-", "_"), there or ACTIONS, 0.7):
        return f"is no action; did you mean `{close[0]}`?"
    return "is no action; `docs/keys.md` lists them all"
