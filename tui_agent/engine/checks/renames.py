"""The renames that a request asks for, as its words say it: from which name to which (E2)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from tui_agent.engine.checks.name_checks import Problem, is_path, resolve_module
from tui_agent.engine.checks.request_reading import RequestReading, request_prose
from tui_agent.protocols.python_source import defined_names, parse_module, python_trees
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "renames")
_NAMES = Patterns("tui_agent.engine.checks", "names")

_IT = ("it", "that", "this")
_TO = frozenset(("to", "into", "as", "->", "=>", "→"))


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

    @property
    def is_filler(self) -> bool:
        """Whether it only says of which kind a name is, or nothing at all."""
        return self.low in _RE.words("filling") | _RE.words("kinds")


def renames(text: str, known: Collection[str]) -> list[Rename]:
    """The renames that a request asks for, of names that are `known` to be of the project."""
    tokens = _tokens(request_prose(text))
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
            found += _call_it(tokens, at, known, request_prose(text))
        elif token.low == "give":
            found += _given(tokens, at + 1, known)
    return list({(one.old, one.new): one for one in reversed(found) if one.old != one.new}.values())


def _tokens(text: str) -> list[_Token]:
    text = re.sub(r"\b([A-Za-z_]\w*)['’]s\b", r"@\1", text)
    found = []
    for one in _RE.token.finditer(text):
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


def _pairs(tokens: Sequence[_Token], at: int, known: Collection[str]) -> list[Rename]:
    """OLD to NEW, and OLD to NEW …"""
    found: list[Rename] = []
    most, sure = 16, True
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
            place = [one.text for one in tokens[after + 1 : after + 5] if not one.is_filler]
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
        if one.low in _RE.words("places") and (named or one.low != "from"):
            placed = bool(named)
        elif one.low in _RE.words("kinds"):
            kind = kind or one.low
        elif one.text.startswith("@"):
            owner = owner or one.text[1:]
        elif one.stop or one.low in _RE.words("filling") or "/" in one.text or is_path(one.text):
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
    while at + 1 < len(tokens) and tokens[at].low in _RE.words("kinds") and not tokens[at + 1].stop:
        if tokens[at + 1].low in _RE.words("after"):
            break
        at += 1
    if at >= len(tokens) or tokens[at].stop:
        return "", at
    one = tokens[at]
    name = "" if is_path(one.text) or _NAMES.name_styles.match(one.text) else one.text.rsplit(".", 1)[-1]
    if not _is_name(name) or (one.low in _RE.words("no_name") and not one.quoted):
        return "", at
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    plain = not one.quoted and not _is_distinct(name)
    if plain and (name.endswith("ly") or not (after is None or after.stop or after.low in _RE.words("after"))):
        return "", at
    return name, at + 1


def _name_changed(tokens: Sequence[_Token], at: int, known: Collection[str]) -> list[Rename]:
    """Change the name of OLD to NEW; change the function name OLD to NEW; change OLD's name to NEW."""
    near = tokens[at : at + 5]
    where = next((n for n, one in enumerate(near) if one.low in ("name", "names")), -1)
    if where < 0 or any(not one.is_filler and one.text[:1] != "@" for one in near[:where]):
        return []
    start = at + where + 1
    if start < len(tokens) and tokens[start].low == "of":
        return _pairs(tokens, start + 1, known)
    return _pairs(tokens, at, known)


def _called(tokens: Sequence[_Token], at: int, known: Collection[str]) -> list[Rename]:
    """OLD should be called NEW."""
    before = [one.low for one in tokens[max(0, at - 4) : at]]
    if not before or before[-1] not in ("be", "been") or not {"should", "must", "shall", "to", "ought"} & {*before}:
        return []
    start = next((n + 1 for n in range(at - 1, -1, -1) if tokens[n].stop and tokens[n].text != ","), 0)
    asks = ("should", "must", "shall", "has", "have", "needs", "ought", "to")
    end = next((n for n in range(start, at) if tokens[n].low in asks), at)
    skip = 1 if at + 1 < len(tokens) and tokens[at + 1].low == "to" else 0
    new, _ = _new(tokens, at + 1 + skip)
    old = _old(tokens[start:end], known)
    return _unsure(old, new)


def _call_it(tokens: Sequence[_Token], at: int, known: Collection[str], text: str) -> list[Rename]:
    """Call OLD NEW instead; OLD is … Call it NEW."""
    behind = tokens[at + 1 : at + 7]
    if not behind:
        return []
    if behind[0].low in _IT:
        if _RE.making.search(text[: tokens[at].at]):
            return []
        skip = 1 if len(behind) > 1 and behind[1].low in _TO else 0
        new, _ = _new(tokens, at + 2 + skip)
        named = {one.text.rpartition(".")[2] for one in tokens[:at] if not one.is_filler}
        fit = named & set(known)
        return [Rename(fit.pop(), new, sure=False)] if new and len(fit) == 1 else []
    end = next((n for n, one in enumerate(behind) if one.low in ("instead", "rather")), -1)
    if end < 2:
        return []
    new = behind[end - 1].text
    old = _old(behind[: end - 1], known)
    return _unsure(old, new if _is_name(new) and new not in _RE.words("no_name") else "")


def _given(tokens: Sequence[_Token], at: int, known: Collection[str]) -> list[Rename]:
    """Give OLD the name NEW."""
    end = next((n for n in range(at, min(at + 12, len(tokens))) if tokens[n].low == "name"), -1)
    if end < 0 or any(one.stop for one in tokens[at:end]):
        return []
    adjectives = ("better", "clearer", "new", "longer", "shorter", "proper", "descriptive", "more")
    new, _ = _new(tokens, end + 1)
    old = _old([one for one in tokens[at:end] if one.low not in adjectives], known)
    return _unsure(old, new)


def _unsure(old: tuple[str, str, str] | None, new: str) -> list[Rename]:
    """A rename that the words may also say of something else; nothing where one of the two names is missing."""
    return [Rename(old[0], new, old[1], old[2], False)] if new and old else []


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*", text) is not None


def _is_distinct(text: str) -> bool:
    """Whether a word can't be one of a sentence."""
    return re.search(r"_|\d|[a-z][A-Z]|\.", text) is not None


_COMMON = frozenset(name for kind in (str, bytes, list, dict, set, tuple, int, float) for name in dir(kind)) | {
    "read", "write", "close", "open", "run", "start", "stop", "get", "put", "send"
}  # fmt: skip
"""Attributes that many things have."""
LARGEST = 200_000
"""Characters of a file that is no Python that are looked at."""


def known_names(files: Mapping[str, str]) -> set[str]:
    """The identifiers of files that something could be called by: all words of code, but not those of prose files."""
    return {
        word
        for name, text in files.items()
        if not _RE.prose_file.search(name)
        for word in re.findall(r"[A-Za-z_]\w*", text)
    }


def wanted_renames(text: str, files: Mapping[str, str]) -> list[Rename]:
    """The renames that a request asks for of things that are defined in the files; else of other names in them."""
    defined = {part for name, one in files.items() if name.endswith(".py") for part in _parts(one)}
    classed = {word for name, one in files.items() if _RE.code_file.search(name) for word in _defined(one)}
    strong = renames(text, defined | classed)
    taken = {one.new for one in strong}
    weak = [one for one in renames(text, known_names(files)) if one.new not in taken]
    return strong + weak


def unfinished_renames(request: RequestReading, before: Mapping[str, str], after: Mapping[str, str]) -> list[Problem]:
    """What is left of the old names after the renames that the request asks for."""
    if _RE.kept.search(request_prose(request.text)):
        return []
    wanted = wanted_renames(request.text, before)
    news = {one.new for one in wanted}
    found: list[Problem] = []
    for one in wanted:
        if one.old not in news:
            found += _RenameTraces(one, request.paths, before, after).findings()
    return list(dict.fromkeys(found))


def _parts(text: str) -> Iterator[str]:
    for name in defined_names(text):
        yield from name.split(".")


def _tops(text: str) -> set[str]:
    return {name for name in defined_names(text) if "." not in name}


_DEFINES = (
    r"(?:\b(?:function\*?|def|class|func(?:\s*\([^()\n]*\))?|fn|const|let|var|struct|enum|interface|type|trait)\s+{}\b"
    r"|\b(?!(?:if|while|return|else|new|for|switch|match|and|or|not|in|case|when|until)\b)[A-Za-z_][\w<>\[\]]*\s+{}\s*\([^;{{}}()]{{0,200}}\)\s*\{{)"
)


def _defined(text: str) -> set[str]:
    found = re.findall(r"\b(?:function\*?|def|class|func|fn|const|let|var|struct|type)\s+([A-Za-z_]\w*)", text)
    return {*found}


class _RenameTraces:
    """What one rename left behind in the files."""

    def __init__(self, one: Rename, paths: Sequence[str], before: Mapping[str, str], after: Mapping[str, str]) -> None:
        self._one, self._old, self._new = one, one.old, one.new
        self._before, self._after = before, after
        self._paths = paths

    def findings(self) -> list[Problem]:
        one = self._one
        if self._is_word_away():
            return [Problem(f"{self._new} is nowhere", False)] if one.sure else []
        if one.kind in ("parameter", "argument"):
            return self._parameter()
        if one.kind in _RE.words("weak") or one.kind in ("module", "file"):
            return []
        tops = self._named([name for name in self._pythons() if self._old in _tops(self._before[name])])
        methods = self._named([name for name in self._pythons() if self._classes(self._before[name])])
        of_class = one.kind == "method" or any(one.owner in self._classes(self._before[n]) for n in methods)
        if tops and not (of_class and methods):
            return self._top(tops)
        if methods:
            return [each for name in methods for each in self._method(name)]
        return self._elsewhere()

    def _is_word_away(self) -> bool:
        """Whether the new name is in no file though the old one was."""
        word = re.compile(rf"(?<!\w){self._new}(?!\w)")
        was = re.compile(rf"(?<!\w){self._old}(?!\w)")
        return not any(map(word.search, self._after.values())) and any(map(was.search, self._before.values()))

    def _pythons(self) -> list[str]:
        return [name for name in self._before if name.endswith(".py")]

    def _named(self, names: list[str]) -> list[str]:
        """Those that the request names, if it names one of them."""
        ends = [path.rsplit("/", 1)[-1] for path in self._paths]
        mine = [name for name in names if name in self._paths or name.rsplit("/", 1)[-1] in ends]
        owned = [name for name in mine or names if name.endswith(f"{self._one.owner}.py")]
        return owned or mine or names

    def _classes(self, text: str) -> list[str]:
        """Classes with a method of the old name."""
        return [one.split(".")[0] for one in defined_names(text) if one.endswith(f".{self._old}")]

    # --- functions, classes and constants of a module ---

    def _top(self, names: list[str]) -> list[Problem]:
        there = any(
            self._new in text and self._new in _tops(text) and self._new not in _tops(self._before.get(name, ""))
            for name, text in self._after.items()
            if name.endswith(".py")
        )
        left = [name for name in names if self._old in _tops(self._after[name])]
        if left == names or (left and len(names) == 1):
            if not there and not self._one.sure:
                return []
            return [Problem(f"{left[0]}: {self._old} is to be called {self._new} now, everywhere", False)]
        if not there:
            return []
        carriers = self._carriers([name for name in names if name not in left])
        found = [each for name in self._after for each in self._attributes(name, carriers)]
        return found or self._mentions({name.rsplit("/", 1)[-1][:-3] for name in carriers})

    def _carriers(self, names: list[str]) -> set[str]:
        """The files from which the old name could be had, and no longer can."""
        carriers = {*names}
        for _ in range(3):
            for name in self._pythons():
                tree = parse_module(self._before[name]) if "import" in self._before[name] else None
                for node in ast.walk(tree) if tree and name not in carriers else ():
                    if isinstance(node, ast.ImportFrom) and self._passes_on(node, name, carriers):
                        carriers.add(name)
        return carriers

    def _passes_on(self, node: ast.ImportFrom, name: str, carriers: set[str]) -> bool:
        source = resolve_module("." * node.level + (node.module or ""), name, self._before)
        if source not in carriers:
            return False
        now = self._after[name]
        bound = re.search(rf"(?:\bas\s+{self._old}\b|^{self._old}\s*=|^def {self._old}\b)", now, re.MULTILINE)
        return bound is None and any(each.name in (self._old, "*") and not each.asname for each in node.names)

    def _attributes(self, name: str, carriers: set[str]) -> list[Problem]:
        """Uses as an attribute of the imported module."""
        tree = (
            parse_module(self._after[name]) if name.endswith(".py") and f".{self._old}" in self._after[name] else None
        )
        if tree is None:
            return []
        modules = self._aliases(tree, name, carriers)
        bound = _bound(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == self._old:
                owner = _dotted(node.value)
                if owner in modules:
                    text = f"{name} line {node.lineno}: {owner}.{self._old} is called {owner}.{self._new} now"
                    return [Problem(text, owner.split(".")[0] in bound)]
        return []

    def _aliases(self, tree: ast.Module, name: str, carriers: set[str]) -> set[str]:
        """What the carriers are called in a file."""
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    if resolve_module(one.name, name, self._after) in carriers:
                        found.add(one.asname or one.name)
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                for one in node.names:
                    full = f"{module}{one.name}" if module.endswith(".") else f"{module}.{one.name}"
                    if resolve_module(full, name, self._after) in carriers:
                        found.add(one.asname or one.name)
        return found

    def _mentions(self, modules: Collection[str]) -> list[Problem]:
        """Comments, texts and prose that show the old name as code."""
        owners = "|".join(map(re.escape, sorted(modules))) or "-"
        shown = re.compile(rf"(?<![\w.]){self._old}\((?!s\))|`{self._old}`|(?<!\w)(?:{owners})\.{self._old}(?!\w)")
        found = []
        for name, text in self._after.items():
            if self._old not in text or _RE.history.search(name):
                continue
            if name.endswith(".py"):
                hit = any(shown.search(each) for each in _texts(text))
            else:
                hit = _RE.prose_file.search(name) is not None and shown.search(text) is not None
            if hit:
                found.append(Problem(f"{name} still speaks of {self._old}, which is called {self._new} now", True))
        return found

    # --- methods ---

    def _method(self, name: str) -> list[Problem]:
        found: list[Problem] = []
        now = defined_names(self._after[name])
        classes = self._classes(self._before[name])
        for owner in [self._one.owner] if self._one.owner in classes else classes:
            if owner not in now:
                continue
            new, old = f"{owner}.{self._new}" in now, f"{owner}.{self._old}" in now
            if old and (new or (self._one.sure and len(classes) == 1)):
                found.append(Problem(f"{name}: {owner}.{self._old} is to be called {self._new} now", False))
            elif new and not old:
                found += self._method_uses(name, owner)
        return found

    def _method_uses(self, name: str, owner: str) -> list[Problem]:
        if any(self._old in _members(text) for file, text in self._after.items() if file.endswith(".py")):
            return []
        found: list[Problem] = []
        for file, tree in python_trees(self._after):
            for node in ast.walk(tree):
                if not isinstance(node, ast.Attribute) or node.attr != self._old:
                    continue
                hard = _dotted(node.value) == owner or (file == name and _is_self(tree, owner, node))
                if hard or (owner in self._after[file] and self._old not in _COMMON):
                    line = f"{file} line {node.lineno}: .{self._old} of {owner} is called .{self._new} now"
                    found.append(Problem(line, not hard))
                    break
        return found

    # --- parameters ---

    def _parameter(self) -> list[Problem]:
        """A parameter: the functions that had it have the new one, and calls give it by its new name."""
        had: list[tuple[str, str]] = []
        for name in self._named(self._pythons()):
            for function, given in defined_names(self._before[name]).items():
                fits = self._one.owner in ("", *function.split("."))
                if given and self._old in given and fits:
                    had.append((name, function))
        still = [
            (name, function)
            for name, function in had
            if self._old in (defined_names(self._after[name]).get(function) or ())
        ]
        if had and len(still) == len(had):
            name, function = still[0]
            sure = self._one.sure
            return [Problem(f"{name}: {function}() still has the parameter {self._old}", False)] if sure else []
        free = {function.rsplit(".", 1)[-1] for _, function in had} - {
            function.rsplit(".", 1)[-1]
            for name in self._after
            if name.endswith(".py")
            for function, given in defined_names(self._after[name]).items()
            if given and self._old in given
        }
        return [each for name in self._after for each in self._keywords(name, free)]

    def _keywords(self, name: str, functions: Collection[str]) -> list[Problem]:
        tree = parse_module(self._after[name]) if name.endswith(".py") else None
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Call) and any(one.arg == self._old for one in node.keywords):
                called = _dotted(node.func).rsplit(".", 1)[-1]
                if called in functions:
                    line = f"{name} line {node.lineno}: {called}({self._old}=…) has to be {called}({self._new}=…)"
                    return [Problem(line, "." in _dotted(node.func))]
        return []

    # --- other languages ---

    def _elsewhere(self) -> list[Problem]:
        """Definitions and uses in files that are no Python: only where the old name plainly was defined in one."""
        defines = re.compile(_DEFINES.format(self._old, self._old))
        made = re.compile(_DEFINES.format(self._new, self._new))
        sources = {name: _code(text) for name, text in self._after.items() if _RE.code_file.search(name)}
        homes = [name for name in sources if name in self._before and defines.search(_code(self._before[name]))]
        homes = self._named(homes)
        there = any(made.search(text) for text in sources.values())
        if len(homes) != 1 or not there:
            return []
        home = homes[0]
        if defines.search(sources[home]):
            return [Problem(f"{home}: {self._old} is to be called {self._new} now, everywhere", False)]
        stem = re.escape(home.rsplit("/", 1)[-1].rpartition(".")[0])
        taken = re.compile(rf"^.*\b(?:import|require|use|include|from)\b.*\b{stem}\b", re.MULTILINE)
        found: list[Problem] = []
        for name, text in sources.items():
            imports = "\n".join(one.group(0) for one in taken.finditer(self._after[name]))
            mine = name == home or re.search(rf"\b{self._old}\b", imports)
            if mine and not defines.search(text):
                uses = re.search(rf"(?<![\w.$]){self._old}\s*\(", text) or (name != home and mine)
                if uses:
                    found.append(Problem(f"{name}: {self._old} is called {self._new} now", False))
            elif re.search(rf"\b{stem}\.{self._old}\b", text) and imports:
                found.append(Problem(f"{name}: {self._old} is called {self._new} now", False))
        return found or self._mentions(())


def _code(text: str) -> str:
    """A source file without its comments and texts."""
    return _RE.other_code.sub(" ", text[:LARGEST])


def _dotted(node: ast.expr) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _bound(tree: ast.Module) -> set[str]:
    """Names that a file assigns or has as parameters."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def _members(text: str) -> set[str]:
    """Names that classes of a file define, or that are assigned as attributes in it."""
    tree = parse_module(text)
    found = {one.rsplit(".", 1)[-1] for one in defined_names(text) if "." in one}
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            found |= {
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            }
    return found


def _is_self(tree: ast.Module, owner: str, node: ast.Attribute) -> bool:
    """Whether an attribute is one of `self` in a class that has no bases."""
    for one in tree.body:
        if isinstance(one, ast.ClassDef) and one.name == owner and not one.bases:
            inside = one.lineno <= node.lineno <= (one.end_lineno or one.lineno)
            return inside and _dotted(node.value) in ("self", "cls")
    return False


def _texts(text: str) -> list[str]:
    """Comments and texts of a Python file."""
    try:
        return [
            token.string
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type in (tokenize.COMMENT, tokenize.STRING)
        ]
    except (tokenize.TokenError, SyntaxError, ValueError):
        return []
