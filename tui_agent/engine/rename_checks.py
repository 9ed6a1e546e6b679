"""Whether a rename that a request asks for went everywhere: the new name is there, the old one is not (E2, E4).

What counts is an identifier that stands for the renamed thing. A local variable, a parameter or a method of another
class of the same name is not one; a text or a comment that speaks of it is a soft finding.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence

from tui_agent.engine.name_checks import Finding, file_of, prose, words
from tui_agent.engine.rename_words import Rename, renames
from tui_agent.engine.request_reading import Reading
from tui_agent.protocols.python_source import definitions, parsed

_KEPT = re.compile(
    r"\b(?:alias|deprecat|backwards?[- ]compat|compatib|old name|previous name|former name|both names"
    r"|keep(?:ing)? (?:the )?(?:old|existing|former))",
    re.IGNORECASE,
)
"""What a request says that wants the old name to stay as well."""
_WEAK = words("parameter argument field attribute property option flag key column entry setting")
"""Kinds of things that are no definitions."""
_COMMON = frozenset(name for kind in (str, bytes, list, dict, set, tuple, int, float) for name in dir(kind)) | {
    "read", "write", "close", "open", "run", "start", "stop", "get", "put", "send"
}  # fmt: skip
"""Attributes that many things have."""
_CODE_FILE = re.compile(r"\.(?:[mc]?js|[jt]sx?|go|rs|rb|java|kt|c|h|cpp|hpp|cc|cs|php|swift|lua|scala|dart)$")
LARGEST = 200_000
"""Characters of a file that is no Python that are looked at."""
_HISTORY = re.compile(r"(?:^|/)(?:change|history|news|release)", re.IGNORECASE)
_PROSE_FILE = re.compile(r"\.(?:md|rst|txt)$", re.IGNORECASE)
_OTHER_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`", re.DOTALL
)


def known_names(files: Mapping[str, str]) -> set[str]:
    """The identifiers of files that something could be called by: all words of code, but not those of prose files."""
    return {
        word
        for name, text in files.items()
        if not _PROSE_FILE.search(name)
        for word in re.findall(r"[A-Za-z_]\w*", text)
    }


def wanted_renames(text: str, files: Mapping[str, str]) -> list[Rename]:
    """The renames that a request asks for of things that are defined in the files; else of other names in them."""
    defined = {part for name, one in files.items() if name.endswith(".py") for part in _parts(one)}
    classed = {word for name, one in files.items() if _CODE_FILE.search(name) for word in _defined(one)}
    strong = renames(text, defined | classed)
    taken = {one.new for one in strong}
    weak = [one for one in renames(text, known_names(files)) if one.new not in taken]
    return strong + weak


def unfinished(request: Reading, before: Mapping[str, str], after: Mapping[str, str]) -> list[Finding]:
    """What is left of the old names after the renames that the request asks for."""
    if _KEPT.search(prose(request.text)):
        return []
    wanted = wanted_renames(request.text, before)
    news = {one.new for one in wanted}
    found: list[Finding] = []
    for one in wanted:
        if one.old not in news:
            found += _Traces(one, request.paths, before, after).findings()
    return list(dict.fromkeys(found))


def _parts(text: str) -> Iterator[str]:
    for name in definitions(text):
        yield from name.split(".")


def _tops(text: str) -> set[str]:
    return {name for name in definitions(text) if "." not in name}


_DEFINES = (
    r"(?:\b(?:function\*?|def|class|func(?:\s*\([^()\n]*\))?|fn|const|let|var|struct|enum|interface|type|trait)\s+{}\b"
    r"|\b(?!(?:if|while|return|else|new|for|switch|match|and|or|not|in|case|when|until)\b)[A-Za-z_][\w<>\[\]]*\s+{}\s*\([^;{{}}()]{{0,200}}\)\s*\{{)"
)


def _defined(text: str) -> set[str]:
    found = re.findall(
        r"\b(?:function\*?|def|class|func|fn|const|let|var|struct|type)\s+([A-Za-z_]\w*)", text
    )
    return {*found}


class _Traces:
    """What one rename left behind in the files."""

    def __init__(
        self, one: Rename, paths: Sequence[str], before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        self._one, self._old, self._new = one, one.old, one.new
        self._before, self._after = before, after
        self._paths = paths

    def findings(self) -> list[Finding]:
        one = self._one
        if self._is_word_away():
            return [(f"{self._new} is nowhere", False)] if one.sure else []
        if one.kind in ("parameter", "argument"):
            return self._parameter()
        if one.kind in _WEAK or one.kind in ("module", "file"):
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
        return [one.split(".")[0] for one in definitions(text) if one.endswith(f".{self._old}")]

    # --- functions, classes and constants of a module ---

    def _top(self, names: list[str]) -> list[Finding]:
        there = any(
            self._new in text
            and self._new in _tops(text)
            and self._new not in _tops(self._before.get(name, ""))
            for name, text in self._after.items()
            if name.endswith(".py")
        )
        left = [name for name in names if self._old in _tops(self._after[name])]
        if left == names or (left and len(names) == 1):
            if not there and not self._one.sure:
                return []
            return [(f"{left[0]}: {self._old} is to be called {self._new} now, everywhere", False)]
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
                tree = parsed(self._before[name]) if "import" in self._before[name] else None
                for node in ast.walk(tree) if tree and name not in carriers else ():
                    if isinstance(node, ast.ImportFrom) and self._passes_on(node, name, carriers):
                        carriers.add(name)
        return carriers

    def _passes_on(self, node: ast.ImportFrom, name: str, carriers: set[str]) -> bool:
        source = file_of("." * node.level + (node.module or ""), name, self._before)
        if source not in carriers:
            return False
        now = self._after[name]
        bound = re.search(rf"(?:\bas\s+{self._old}\b|^{self._old}\s*=|^def {self._old}\b)", now, re.MULTILINE)
        return bound is None and any(each.name in (self._old, "*") and not each.asname for each in node.names)

    def _attributes(self, name: str, carriers: set[str]) -> list[Finding]:
        """Uses as an attribute of the imported module."""
        tree = (
            parsed(self._after[name])
            if name.endswith(".py") and f".{self._old}" in self._after[name]
            else None
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
                    return [(text, owner.split(".")[0] in bound)]
        return []

    def _aliases(self, tree: ast.Module, name: str, carriers: set[str]) -> set[str]:
        """What the carriers are called in a file."""
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    if file_of(one.name, name, self._after) in carriers:
                        found.add(one.asname or one.name)
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                for one in node.names:
                    full = f"{module}{one.name}" if module.endswith(".") else f"{module}.{one.name}"
                    if file_of(full, name, self._after) in carriers:
                        found.add(one.asname or one.name)
        return found

    def _mentions(self, modules: Collection[str]) -> list[Finding]:
        """Comments, texts and prose that show the old name as code."""
        owners = "|".join(map(re.escape, sorted(modules))) or "-"
        shown = re.compile(
            rf"(?<![\w.]){self._old}\((?!s\))|`{self._old}`|(?<!\w)(?:{owners})\.{self._old}(?!\w)"
        )
        found = []
        for name, text in self._after.items():
            if self._old not in text or _HISTORY.search(name):
                continue
            if name.endswith(".py"):
                hit = any(shown.search(each) for each in _texts(text))
            else:
                hit = _PROSE_FILE.search(name) is not None and shown.search(text) is not None
            if hit:
                found.append((f"{name} still speaks of {self._old}, which is called {self._new} now", True))
        return found

    # --- methods ---

    def _method(self, name: str) -> list[Finding]:
        found: list[Finding] = []
        now = definitions(self._after[name])
        classes = self._classes(self._before[name])
        for owner in [self._one.owner] if self._one.owner in classes else classes:
            if owner not in now:
                continue
            new, old = f"{owner}.{self._new}" in now, f"{owner}.{self._old}" in now
            if old and (new or (self._one.sure and len(classes) == 1)):
                found.append((f"{name}: {owner}.{self._old} is to be called {self._new} now", False))
            elif new and not old:
                found += self._method_uses(name, owner)
        return found

    def _method_uses(self, name: str, owner: str) -> list[Finding]:
        if any(self._old in _members(text) for file, text in self._after.items() if file.endswith(".py")):
            return []
        found: list[Finding] = []
        for file, text in self._after.items():
            tree = parsed(text) if file.endswith(".py") else None
            for node in ast.walk(tree) if tree else ():
                if not isinstance(node, ast.Attribute) or node.attr != self._old:
                    continue
                hard = _dotted(node.value) == owner or (file == name and _is_self(tree, owner, node))
                if hard or (owner in text and self._old not in _COMMON):
                    line = f"{file} line {node.lineno}: .{self._old} of {owner} is called .{self._new} now"
                    found.append((line, not hard))
                    break
        return found

    # --- parameters ---

    def _parameter(self) -> list[Finding]:
        """A parameter: the functions that had it have the new one, and calls give it by its new name."""
        had: list[tuple[str, str]] = []
        for name in self._named(self._pythons()):
            for function, given in definitions(self._before[name]).items():
                fits = self._one.owner in ("", *function.split("."))
                if given and self._old in given and fits:
                    had.append((name, function))
        still = [
            (name, function)
            for name, function in had
            if self._old in (definitions(self._after[name]).get(function) or ())
        ]
        if had and len(still) == len(had):
            name, function = still[0]
            sure = self._one.sure
            return [(f"{name}: {function}() still has the parameter {self._old}", False)] if sure else []
        free = {function.rsplit(".", 1)[-1] for _, function in had} - {
            function.rsplit(".", 1)[-1]
            for name in self._after
            if name.endswith(".py")
            for function, given in definitions(self._after[name]).items()
            if given and self._old in given
        }
        return [each for name in self._after for each in self._keywords(name, free)]

    def _keywords(self, name: str, functions: Collection[str]) -> list[Finding]:
        tree = parsed(self._after[name]) if name.endswith(".py") else None
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Call) and any(one.arg == self._old for one in node.keywords):
                called = _dotted(node.func).rsplit(".", 1)[-1]
                if called in functions:
                    line = f"{name} line {node.lineno}: {called}({self._old}=…) has to be {called}({self._new}=…)"
                    return [(line, "." in _dotted(node.func))]
        return []

    # --- other languages ---

    def _elsewhere(self) -> list[Finding]:
        """Definitions and uses in files that are no Python: only where the old name plainly was defined in one."""
        defines = re.compile(_DEFINES.format(self._old, self._old))
        made = re.compile(_DEFINES.format(self._new, self._new))
        sources = {name: _code(text) for name, text in self._after.items() if _CODE_FILE.search(name)}
        homes = [
            name for name in sources if name in self._before and defines.search(_code(self._before[name]))
        ]
        homes = self._named(homes)
        there = any(made.search(text) for text in sources.values())
        if len(homes) != 1 or not there:
            return []
        home = homes[0]
        if defines.search(sources[home]):
            return [(f"{home}: {self._old} is to be called {self._new} now, everywhere", False)]
        stem = re.escape(home.rsplit("/", 1)[-1].rpartition(".")[0])
        taken = re.compile(rf"^.*\b(?:import|require|use|include|from)\b.*\b{stem}\b", re.MULTILINE)
        found: list[Finding] = []
        for name, text in sources.items():
            imports = "\n".join(one.group(0) for one in taken.finditer(self._after[name]))
            mine = name == home or re.search(rf"\b{self._old}\b", imports)
            if mine and not defines.search(text):
                uses = re.search(rf"(?<![\w.$]){self._old}\s*\(", text) or (name != home and mine)
                if uses:
                    found.append((f"{name}: {self._old} is called {self._new} now", False))
            elif re.search(rf"\b{stem}\.{self._old}\b", text) and imports:
                found.append((f"{name}: {self._old} is called {self._new} now", False))
        return found or self._mentions(())


def _code(text: str) -> str:
    """A source file without its comments and texts."""
    return _OTHER_CODE.sub(" ", text[:LARGEST])


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
    tree = parsed(text)
    found = {one.rsplit(".", 1)[-1] for one in definitions(text) if "." in one}
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


def _is_self(tree: ast.Module | None, owner: str, node: ast.Attribute) -> bool:
    """Whether an attribute is one of `self` in a class that has no bases."""
    for one in tree.body if tree else ():
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
