"""The renames that a request asks for, as its words say it: from which name to which (E2)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from tui_agent.engine.name_checks import STYLES, is_path, prose, words

_TOKEN = re.compile(
    r"`(?P<code>[^`\n]{1,80})`|[\"“](?P<double>[\w.]+)(?:\(\))?[\"”]|(?<!\w)'(?P<single>[\w.]+)(?:\(\))?'"
    r"|(?P<arrow>->|=>|→)|(?P<word>@?[A-Za-z_](?:[\w./-]*\w)?)(?P<call>\([^()\n]{0,60}\))?|(?P<stop>[.,;:!?])"
)
_KINDS = words(
    "function functions method class constant variable module parameter argument field attribute property option flag"
    " key helper command column entry setting identifier symbol name names exception error decorator file"
)
_FILLING = words(
    "the a an this that these our my its all every only just existing old current badly poorly named called local"
    " global public private python also please"
)
_PLACES = words("in of inside within from at on")
_IT = ("it", "that", "this")
_TO = frozenset(("to", "into", "as", "->", "=>", "→"))
_AFTER = words(
    "in everywhere and so for because at on throughout instead wherever with across since which here please but while"
    " then inside within all of from as now too also where rather or both when to everything project-wide"
)
"""Words that may follow a new name; any other one makes the name before it a word of the sentence."""
_NO_NAME = words(
    "something anything a an the be match what more better it its one make fit reflect follow use avoid lower upper"
    " with by from only once twice when in on after before for if first at like again instead via every each and or"
    " not never always that this them so them correctly properly mean as to"
)
_MAKING = re.compile(
    r"\b(?:add|create|write|extract|move|split|introduce|put|implement|define|new|copy|turn)\b", re.IGNORECASE
)


class Rename(msgspec.Struct, frozen=True):
    """A name that a request wants to be another."""

    old: str
    new: str
    kind: str = ""
    owner: str = ""
    """The class, module or function that it belongs to, as far as the request says so."""
    sure: bool = True
    """The words can mean nothing else."""


class _Token(msgspec.Struct, frozen=True):
    text: str
    quoted: bool = False
    stop: bool = False
    at: int = 0

    @property
    def low(self) -> str:
        return "" if self.quoted else self.text.lower()


def renames(text: str, known: Collection[str]) -> list[Rename]:
    """The renames that a request asks for, of names that are `known` to be of the project."""
    tokens = _tokens(prose(text))
    found: list[Rename] = []
    for at, token in enumerate(tokens):
        if token.low == "rename" and at + 1 < len(tokens) and tokens[at + 1].low in _IT:
            found += _call_it(tokens, at, known, "")
        elif token.low in ("rename", "renaming"):
            found += _pairs(tokens, at + 1, known)
        elif token.low in ("change", "alter", "update", "modify", "switch", "adjust", "correct", "fix"):
            found += _name_changed(tokens, at + 1, known)
        elif token.low in ("called", "named", "renamed"):
            found += _called(tokens, at, known)
        elif token.low in ("call", "name"):
            found += _call_it(tokens, at, known, prose(text))
        elif token.low == "give":
            found += _given(tokens, at + 1, known)
    return list({(one.old, one.new): one for one in reversed(found) if one.old != one.new}.values())


def _tokens(text: str) -> list[_Token]:
    text = re.sub(r"\b([A-Za-z_]\w*)['’]s\b", r"@\1", text)
    found = []
    for one in _TOKEN.finditer(text):
        quoted = one["code"] or one["double"] or one["single"]
        if quoted:
            name = re.sub(r"\(.*", "", quoted).strip()
            found.append(_Token(name, quoted=True, at=one.start()))
        elif one["stop"]:
            found.append(_Token(one["stop"], stop=True, at=one.start()))
        else:
            name = one["arrow"] or one["word"]
            found.append(_Token(name, quoted=bool(one["call"]), at=one.start()))
    return found


def _pairs(tokens: Sequence[_Token], at: int, known: Collection[str], *, sure: bool = True) -> list[Rename]:
    """OLD to NEW, and OLD to NEW …"""
    found: list[Rename] = []
    most = 16
    while True:
        end = next((n for n in range(at, min(at + most, len(tokens))) if tokens[n].low in _TO), -1)
        if end < 0 or any(one.stop and one.text != "," for one in tokens[at:end]):
            return found
        new, after = _new(tokens, end + 1)
        old = _old(tokens[at:end], known)
        if not new or old is None:
            return found
        name, kind, owner = old
        if not owner and after + 1 < len(tokens) and tokens[after].low in ("in", "of"):
            place = [one.text for one in tokens[after + 1 : after + 5] if one.low not in _FILLING | _KINDS]
            owner = place[0] if place and _is_name(place[0]) and place[0] in known else ""
        found.append(Rename(name, new, kind, owner, sure))
        at = after
        while at < len(tokens) and tokens[at].low in (",", "and", "also", "then"):
            at += 1
        if at == after:
            return found
        most, sure = 8, False


def _old(gap: Sequence[_Token], known: Collection[str]) -> tuple[str, str, str] | None:
    """The one known name among the words before "to", its kind and what it belongs to."""
    kind = owner = ""
    named: list[_Token] = []
    placed = False
    for one in gap:
        if one.low in _PLACES and (named or one.low != "from"):
            placed = bool(named)
        elif one.low in _KINDS:
            kind = kind or one.low
        elif one.text.startswith("@"):
            owner = owner or one.text[1:]
        elif one.stop or one.low in _FILLING or "/" in one.text or is_path(one.text):
            continue
        elif placed:
            owner = owner or (one.text if _is_name(one.text) and one.text in known else "")
        else:
            named.append(one)
    fit = [one for one in named if one.text.rsplit(".", 1)[-1] in known]
    fit = fit if len(fit) <= 1 else [one for one in fit if one.quoted or _is_distinct(one.text)]
    if not fit and owner and owner in known and not named:
        return owner, kind, ""  # "change calc's name to gross"
    if len(fit) != 1:
        return None
    first, _, last = fit[0].text.rpartition(".")
    return last, kind.rstrip("s"), owner or first.rsplit(".", 1)[-1]


def _new(tokens: Sequence[_Token], at: int) -> tuple[str, int]:
    """The name that begins at a place, behind articles and kinds, and where what follows it begins."""
    while at < len(tokens) and (tokens[at].low in ("the", "be", "a", "an", "new", "simply", "just", "is")):
        at += 1
    while at + 1 < len(tokens) and tokens[at].low in _KINDS and not tokens[at + 1].stop:
        if tokens[at + 1].low in _AFTER:
            break
        at += 1
    if at >= len(tokens) or tokens[at].stop:
        return "", at
    one = tokens[at]
    name = "" if is_path(one.text) or STYLES.match(one.text) else one.text.rsplit(".", 1)[-1]
    if not _is_name(name) or (one.low in _NO_NAME and not one.quoted):
        return "", at
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    plain = not one.quoted and not _is_distinct(name)
    if plain and (name.endswith("ly") or not (after is None or after.stop or after.low in _AFTER)):
        return "", at
    return name, at + 1


def _name_changed(tokens: Sequence[_Token], at: int, known: Collection[str]) -> list[Rename]:
    """Change the name of OLD to NEW; change the function name OLD to NEW; change OLD's name to NEW."""
    near = tokens[at : at + 5]
    where = next((n for n, one in enumerate(near) if one.low in ("name", "names")), -1)
    if where < 0 or any(one.low not in _FILLING | _KINDS and one.text[:1] != "@" for one in near[:where]):
        return []
    start = at + where + 1
    if start < len(tokens) and tokens[start].low == "of":
        return _pairs(tokens, start + 1, known)
    return _pairs(tokens, at, known)


def _called(tokens: Sequence[_Token], at: int, known: Collection[str]) -> list[Rename]:
    """OLD should be called NEW."""
    before = [one.low for one in tokens[max(0, at - 4) : at]]
    if (
        not before
        or before[-1] not in ("be", "been")
        or not {"should", "must", "shall", "to", "ought"} & {*before}
    ):
        return []
    start = next((n + 1 for n in range(at - 1, -1, -1) if tokens[n].stop and tokens[n].text != ","), 0)
    asks = ("should", "must", "shall", "has", "have", "needs", "ought", "to")
    end = next((n for n in range(start, at) if tokens[n].low in asks), at)
    skip = 1 if at + 1 < len(tokens) and tokens[at + 1].low == "to" else 0
    new, _ = _new(tokens, at + 1 + skip)
    old = _old(tokens[start:end], known)
    return [Rename(old[0], new, old[1], old[2], False)] if new and old else []


def _call_it(tokens: Sequence[_Token], at: int, known: Collection[str], text: str) -> list[Rename]:
    """Call OLD NEW instead; OLD is … Call it NEW."""
    behind = tokens[at + 1 : at + 7]
    if not behind:
        return []
    if behind[0].low in _IT:
        if _MAKING.search(text[: tokens[at].at]):
            return []
        skip = 1 if len(behind) > 1 and behind[1].low in _TO else 0
        new, _ = _new(tokens, at + 2 + skip)
        said = [one.text.rpartition(".")[2] for one in tokens[:at] if one.low not in _KINDS | _FILLING]
        fit = {one for one in said if one in known}
        return [Rename(fit.pop(), new, sure=False)] if new and len(fit) == 1 else []
    end = next((n for n, one in enumerate(behind) if one.low in ("instead", "rather")), -1)
    if end < 2:
        return []
    new = behind[end - 1].text
    old = _old(behind[: end - 1], known)
    return (
        [Rename(old[0], new, old[1], old[2], False)] if old and _is_name(new) and new not in _NO_NAME else []
    )


def _given(tokens: Sequence[_Token], at: int, known: Collection[str]) -> list[Rename]:
    """Give OLD the name NEW."""
    end = next((n for n in range(at, min(at + 12, len(tokens))) if tokens[n].low == "name"), -1)
    if end < 0 or any(one.stop for one in tokens[at:end]):
        return []
    adjectives = ("better", "clearer", "new", "longer", "shorter", "proper", "descriptive", "more")
    new, _ = _new(tokens, end + 1)
    old = _old([one for one in tokens[at:end] if one.low not in adjectives], known)
    return [Rename(old[0], new, old[1], old[2], False)] if new and old else []


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*", text) is not None


def _is_distinct(text: str) -> bool:
    """Whether a word can't be one of a sentence."""
    return re.search(r"_|\d|[a-z][A-Z]|\.", text) is not None
