"""The renames that a request asks for, and what is left of the old names after a change (E2)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TypeVar

import msgspec

from tui_agent.engine.checks.name_checks import Problem, is_path, resolve_module
from tui_agent.engine.checks.request_reading import RequestReading, request_prose
from tui_agent.protocols.python_source import defined_names, parse_module, python_trees
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "renames")
_NAMES = Patterns("tui_agent.engine.checks", "names")

_TO = ("to", "into", "as", "->", "=>", "→")
_OBLIGATIONS = ("should", "must", "shall", "to", "ought")


class Rename(msgspec.Struct, frozen=True):
    """A rename that a request asks for."""

    old: str
    new: str
    kind: str = ""
    owner: str = ""
    """The class, module or function it belongs to, if the request says so."""
    is_certain: bool = True
    """The wording has no other meaning."""


class _Token(msgspec.Struct, frozen=True):
    text: str
    start: int
    quoted: bool = False
    stop: bool = False
    """It is a punctuation mark."""

    @property
    def word(self) -> str:
        """The lower-case word; empty if quoted."""
        return "" if self.quoted else self.text.lower()

    @property
    def is_filler(self) -> bool:
        """Whether it is insignificant or only says the kind of a name."""
        return self.word in _RE.words("fillers") | _RE.words("kinds")


@lru_cache(maxsize=2)
def _tokenize(text: str) -> Sequence[_Token]:
    text = re.sub(r"\b([A-Za-z_]\w*)['’]s\b", r"@\1", text)
    tokens = []
    for match in _RE.token.finditer(text):
        quoted = match["code"] or match["double"] or match["single"]
        if quoted:
            tokens.append(_Token(re.sub(r"\(.*", "", quoted).strip(), match.start(), quoted=True))
        else:
            plain = match["stop"] or match["arrow"] or match["word"]
            tokens.append(_Token(plain, match.start(), quoted=bool(match["call"]), stop=bool(match["stop"])))
    return tokens


def renames(text: str, names: Collection[str]) -> list[Rename]:
    """Return the renames that a request asks for. `names`: the project's names."""
    found = [item for item in _RenameParser(request_prose(text), names).renames() if item and item.old != item.new]
    return list({(item.old, item.new): item for item in reversed(found)}.values())


class _RenameParser:
    """Finds renames in the tokens of a request."""

    def __init__(self, prose: str, names: Collection[str]) -> None:
        self._prose = prose
        self._tokens = _tokenize(prose)
        self._names = names

    def renames(self) -> list[Rename | None]:
        found: list[Rename | None] = []
        for at, token in enumerate(self._tokens):
            before_pronoun = self._word(at + 1) in ("it", "that", "this")
            match token.word:
                case "rename" if before_pronoun:
                    found.append(self._call_it(at))
                case "rename" | "renaming":
                    found += self._pairs(at + 1)
                case "called" | "named" | "renamed":
                    found.append(self._should_be_called(at))
                case "call" | "name" if not before_pronoun:
                    found.append(self._call_instead(at))
                case "call" | "name" if not _RE.creation.search(self._prose[: token.start]):
                    found.append(self._call_it(at))
                case "give":
                    found.append(self._give_name(at + 1))
                case "change" | "alter" | "update" | "modify" | "switch" | "adjust" | "correct" | "fix":
                    found += self._change_name(at + 1)
        return found

    def _word(self, at: int) -> str:
        return self._tokens[at].word if at < len(self._tokens) else ""

    def _find(self, words: Collection[str], start: int, end: int) -> int:
        """Return the position of the first token that is one of the words; -1 if there is none."""
        return next((at for at in range(start, min(end, len(self._tokens))) if self._word(at) in words), -1)

    def _rename(self, tokens: Iterable[_Token], new: str, *, is_certain: bool = False) -> Rename | None:
        """Return the rename of the only project name among the tokens, if there is one."""
        kind = owner = ""
        candidates: list[_Token] = []
        in_place = False
        for token in tokens:
            if token.word in _RE.words("prepositions") and (candidates or token.word != "from"):
                in_place = bool(candidates)
            elif token.word in _RE.words("kinds"):
                kind = kind or token.word
            elif token.text.startswith("@"):
                owner = owner or token.text[1:]
            elif token.stop or token.word in _RE.words("fillers") or "/" in token.text or is_path(token.text):
                continue
            elif not in_place:
                candidates.append(token)
            elif not owner and self._is_project_name(token.text):
                owner = token.text
        known = [token for token in candidates if token.text.rsplit(".", 1)[-1] in self._names]
        if len(known) > 1:
            known = [token for token in known if token.quoted or _is_distinct(token.text)]
        if not new or len(known) > 1 or (candidates and not known):
            return None
        if not known:  # "change calc's name to gross"
            return Rename(owner, new, kind, "", is_certain) if owner in self._names else None
        qualifier, _, old = known[0].text.rpartition(".")
        return Rename(old, new, kind.rstrip("s"), owner or qualifier.rsplit(".", 1)[-1], is_certain)

    def _is_project_name(self, text: str) -> bool:
        return _is_name(text) and text in self._names

    def _new_name(self, at: int) -> tuple[str, int]:
        """Return the new name at a position, after articles and kinds, and the position after it."""
        tokens = self._tokens
        while self._word(at) in ("the", "be", "a", "an", "new", "simply", "just", "is"):
            at += 1
        while self._word(at) in _RE.words("kinds") and at + 1 < len(tokens) and not tokens[at + 1].stop:
            if self._word(at + 1) in _RE.words("followers"):
                break
            at += 1
        if at >= len(tokens) or tokens[at].stop:
            return "", at
        token = tokens[at]
        is_name = not is_path(token.text) and not _NAMES.name_styles.match(token.text)
        name = token.text.rsplit(".", 1)[-1] if is_name else ""
        if not _is_name(name) or token.word in _RE.words("not_names"):
            return "", at
        is_last = at + 1 == len(tokens) or tokens[at + 1].stop or self._word(at + 1) in _RE.words("followers")
        if not token.quoted and not _is_distinct(name) and (name.endswith("ly") or not is_last):
            return "", at
        return name, at + 1

    def _pairs(self, at: int) -> list[Rename]:
        """OLD to NEW, and OLD to NEW …"""
        found: list[Rename] = []
        while True:
            end = self._find(_TO, at, at + (8 if found else 16))
            if end < 0 or any(token.stop and token.text != "," for token in self._tokens[at:end]):
                return found
            new, after = self._new_name(end + 1)
            rename = self._rename(self._tokens[at:end], new, is_certain=not found)
            if rename is None:
                return found
            if not rename.owner and self._word(after) in ("in", "of"):
                place = next((token.text for token in self._tokens[after + 1 : after + 5] if not token.is_filler), "")
                if self._is_project_name(place):
                    rename = msgspec.structs.replace(rename, owner=place)
            found.append(rename)
            at = after
            while self._word(at) in (",", "and", "also", "then"):
                at += 1
            if at == after:
                return found

    def _change_name(self, at: int) -> list[Rename]:
        """Change the name of OLD to NEW; change the function name OLD to NEW; change OLD's name to NEW."""
        name = self._find(("name", "names"), at, at + 5)
        if name < 0 or any(not token.is_filler and token.text[:1] != "@" for token in self._tokens[at:name]):
            return []
        return self._pairs(name + 2 if self._word(name + 1) == "of" else at)

    def _should_be_called(self, at: int) -> Rename | None:
        """OLD should be called NEW."""
        tokens = self._tokens
        before = [token.word for token in tokens[max(0, at - 4) : at]]
        if not before or before[-1] not in ("be", "been") or not {*_OBLIGATIONS} & {*before}:
            return None
        start = next((n + 1 for n in range(at - 1, -1, -1) if tokens[n].stop and tokens[n].text != ","), 0)
        end = self._find((*_OBLIGATIONS, "has", "have", "needs"), start, at)
        new, _ = self._new_name(at + 1 + (self._word(at + 1) == "to"))
        return self._rename(tokens[start : end if end >= 0 else at], new)

    def _call_it(self, at: int) -> Rename | None:
        """OLD is … Call it NEW."""
        new, _ = self._new_name(at + 2 + (self._word(at + 2) in _TO))
        mentioned = {token.text.rpartition(".")[2] for token in self._tokens[:at] if not token.is_filler}
        known = mentioned & set(self._names)
        return Rename(known.pop(), new, is_certain=False) if new and len(known) == 1 else None

    def _call_instead(self, at: int) -> Rename | None:
        """Call OLD NEW instead."""
        end = self._find(("instead", "rather"), at + 1, at + 7)
        if end < at + 3:
            return None
        new = self._tokens[end - 1].text
        is_name = _is_name(new) and new not in _RE.words("not_names")
        return self._rename(self._tokens[at + 1 : end - 1], new if is_name else "")

    def _give_name(self, at: int) -> Rename | None:
        """Give OLD the name NEW."""
        end = self._find(("name",), at, at + 12)
        if end < 0 or any(token.stop for token in self._tokens[at:end]):
            return None
        adjectives = ("better", "clearer", "new", "longer", "shorter", "proper", "descriptive", "more")
        new, _ = self._new_name(end + 1)
        return self._rename((token for token in self._tokens[at:end] if token.word not in adjectives), new)


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*", text) is not None


def _is_distinct(text: str) -> bool:
    """Whether a name can't be an English word."""
    return re.search(r"_|\d|[a-z][A-Z]|\.", text) is not None


# --- leftovers ----------------------------------------------------------------------------------

_COMMON_ATTRIBUTES = frozenset(
    name for kind in (str, bytes, list, dict, set, tuple, int, float) for name in dir(kind)
) | {"read", "write", "close", "open", "run", "start", "stop", "get", "put", "send"}
MAX_SOURCE = 200_000
"""Characters read of a source file in another language."""


def wanted_renames(text: str, files: Mapping[str, str]) -> list[Rename]:
    """Return the renames that a request asks for: of names defined in the files, then of other names in them."""
    defined = {name for path, source in files.items() for name in _defined_names(path, source)}
    mentioned = {
        word
        for path, source in files.items()
        if not _RE.prose_file.search(path)
        for word in re.findall(r"[A-Za-z_]\w*", source)
    }
    of_definitions = renames(text, defined)
    new_names = {item.new for item in of_definitions}
    return of_definitions + [item for item in renames(text, mentioned) if item.new not in new_names]


def _defined_names(path: str, source: str) -> Iterator[str]:
    if path.endswith(".py"):
        for name in defined_names(source):
            yield from name.split(".")
    elif _RE.code_file.search(path):
        yield from re.findall(r"\b(?:function\*?|def|class|func|fn|const|let|var|struct|type)\s+([A-Za-z_]\w*)", source)


def unfinished_renames(
    request: RequestReading, wanted: Sequence[Rename], before: Mapping[str, str], after: Mapping[str, str]
) -> list[Problem]:
    """Return what is left of the old names after the renames that the request wants."""
    if _RE.keeps_old_name.search(request_prose(request.text)):
        return []
    new_names = {rename.new for rename in wanted}
    problems: list[Problem] = []
    for rename in wanted:
        if rename.old not in new_names:
            problems += _RenameTraces(rename, request.paths, before, after).find_leftovers()
    return list(dict.fromkeys(problems))


def _top_level(text: str) -> set[str]:
    return {name for name in defined_names(text) if "." not in name}


def _definition(name: str) -> re.Pattern[str]:
    """Return a pattern of the definition of a name in other languages than Python."""
    return re.compile(
        rf"(?:\b(?:function\*?|def|class|func(?:\s*\([^()\n]*\))?|fn|const|let|var|struct|enum|interface|type|trait)"
        rf"\s+{name}\b|\b(?!(?:if|while|return|else|new|for|switch|match|and|or|not|in|case|when|until)\b)"
        rf"[A-Za-z_][\w<>\[\]]*\s+{name}\s*\([^;{{}}()]{{0,200}}\)\s*\{{)"
    )


class _RenameTraces:
    """The traces of one rename in the files."""

    def __init__(
        self, rename: Rename, paths: Sequence[str], before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        self._rename, self._old, self._new = rename, rename.old, rename.new
        self._paths = paths
        self._before, self._after = before, after
        self._python_before = {path: text for path, text in before.items() if path.endswith(".py")}
        self._python_after = {path: text for path, text in after.items() if path.endswith(".py")}

    def find_leftovers(self) -> list[Problem]:
        rename = self._rename
        if self._is_new_name_missing():
            return [Problem(f"{self._new} is nowhere")] if rename.is_certain else []
        if rename.kind in ("parameter", "argument"):
            return self._parameter_leftovers()
        if rename.kind in _RE.words("weak_kinds") or rename.kind in ("module", "file"):
            return []
        top_level = self._mentioned(path for path, text in self._python_before.items() if self._old in _top_level(text))
        methods = self._mentioned(path for path, text in self._python_before.items() if self._classes(text))
        is_method = rename.kind == "method" or any(
            rename.owner in self._classes(self._before[path]) for path in methods
        )
        if top_level and not (is_method and methods):
            return self._top_level_leftovers(top_level)
        if methods:
            return [problem for path in methods for problem in self._method_leftovers(path)]
        return self._other_leftovers()

    def _is_new_name_missing(self) -> bool:
        """Whether no file contains the new name although one contained the old name."""
        new, old = (re.compile(rf"(?<!\w){name}(?!\w)") for name in (self._new, self._old))
        return not any(map(new.search, self._after.values())) and any(map(old.search, self._before.values()))

    def _mentioned(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that the request mentions; all if it mentions none."""
        paths = list(paths)
        bases = [path.rsplit("/", 1)[-1] for path in self._paths]
        mentioned = [path for path in paths if path in self._paths or path.rsplit("/", 1)[-1] in bases] or paths
        return [path for path in mentioned if path.endswith(f"{self._rename.owner}.py")] or mentioned

    def _classes(self, text: str) -> list[str]:
        """Return the classes that have a method of the old name."""
        return [name.split(".")[0] for name in defined_names(text) if name.endswith(f".{self._old}")]

    def _first_uses(self, uses: Callable[[str, ast.Module], Iterator[Problem]]) -> list[Problem]:
        """Return the first use of the old name in each Python file."""
        files = {path: text for path, text in self._python_after.items() if self._old in text}
        problems = (next(uses(path, tree), None) for path, tree in python_trees(files))
        return [problem for problem in problems if problem is not None]

    # --- functions, classes and constants of a module ---

    def _top_level_leftovers(self, paths: list[str]) -> list[Problem]:
        is_defined = any(
            self._new in _top_level(text) and self._new not in _top_level(self._before.get(path, ""))
            for path, text in self._python_after.items()
            if self._new in text
        )
        remaining = [path for path in paths if self._old in _top_level(self._after[path])]
        if remaining == paths or (remaining and len(paths) == 1):
            if not is_defined and not self._rename.is_certain:
                return []
            return [Problem(f"{remaining[0]}: {self._old} is to be called {self._new} now, everywhere")]
        if not is_defined:
            return []
        exporters = self._exporters({*paths} - {*remaining})
        uses = self._first_uses(partial(self._module_uses, exporters))
        return uses or self._mentions({path.rsplit("/", 1)[-1][:-3] for path in exporters})

    def _exporters(self, exporters: set[str]) -> set[str]:
        """Add the files that imported the old name from these files and no longer define it."""
        for _ in range(3):
            for path, text in self._python_before.items():
                tree = parse_module(text) if path not in exporters and "import" in text else None
                if any(self._reexports(node, path, exporters) for node in _find_nodes(tree, ast.ImportFrom)):
                    exporters.add(path)
        return exporters

    def _reexports(self, node: ast.ImportFrom, path: str, exporters: Collection[str]) -> bool:
        if resolve_module("." * node.level + (node.module or ""), path, self._before) not in exporters:
            return False
        definition = rf"(?:\bas\s+{self._old}\b|^{self._old}\s*=|^def {self._old}\b)"
        if re.search(definition, self._after[path], re.MULTILINE):
            return False
        return any(item.name in (self._old, "*") and not item.asname for item in node.names)

    def _module_uses(self, exporters: Collection[str], path: str, tree: ast.Module) -> Iterator[Problem]:
        """Yield the uses of the old name as an attribute of an imported module."""
        modules = self._module_aliases(tree, path, exporters)
        assigned = {node.id for node in _find_nodes(tree, ast.Name) if isinstance(node.ctx, ast.Store)}
        assigned |= {node.arg for node in _find_nodes(tree, ast.arg)}
        for node in _find_nodes(tree, ast.Attribute):
            owner = _dotted(node.value) if node.attr == self._old else ""
            if owner in modules:
                text = f"{path} line {node.lineno}: {owner}.{self._old} is called {owner}.{self._new} now"
                yield Problem(text, soft=owner.split(".")[0] in assigned)

    def _module_aliases(self, tree: ast.Module, path: str, exporters: Collection[str]) -> set[str]:
        """Return the names of the exporting modules in a file."""
        imports = [(item.name, item) for node in _find_nodes(tree, ast.Import) for item in node.names]
        for node in _find_nodes(tree, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            imports += [(f"{module}{'' if module.endswith('.') else '.'}{item.name}", item) for item in node.names]
        return {
            item.asname or item.name
            for module, item in imports
            if resolve_module(module, path, self._after) in exporters
        }

    def _mentions(self, modules: Collection[str]) -> list[Problem]:
        """Return the comments, strings and documents that mention the old name as code."""
        owners = "|".join(map(re.escape, sorted(modules))) or "-"
        old = self._old
        mention = re.compile(rf"(?<![\w.]){old}\((?!s\))|`{old}`|(?<!\w)(?:{owners})\.{old}(?!\w)")
        problems = []
        for path, text in self._after.items():
            if old not in text or _RE.history_file.search(path):
                continue
            if path.endswith(".py"):
                texts = _comments_and_strings(text)
            else:
                texts = [text] if _RE.prose_file.search(path) else []
            if any(map(mention.search, texts)):
                problems.append(Problem(f"{path} still speaks of {old}, which is called {self._new} now", soft=True))
        return problems

    # --- methods ---

    def _method_leftovers(self, path: str) -> list[Problem]:
        problems: list[Problem] = []
        now = defined_names(self._after[path])
        classes = self._classes(self._before[path])
        for owner in [self._rename.owner] if self._rename.owner in classes else classes:
            has_new, has_old = f"{owner}.{self._new}" in now, f"{owner}.{self._old}" in now
            if owner not in now or not (has_new or has_old):
                continue
            if has_old and (has_new or (self._rename.is_certain and len(classes) == 1)):
                problems.append(Problem(f"{path}: {owner}.{self._old} is to be called {self._new} now"))
            elif not has_old and not any(self._old in _members(text) for text in self._python_after.values()):
                problems += self._first_uses(partial(self._method_uses, owner, path))
        return problems

    def _method_uses(self, owner: str, home: str, path: str, tree: ast.Module) -> Iterator[Problem]:
        for node in _find_nodes(tree, ast.Attribute):
            if node.attr == self._old:
                is_certain = _dotted(node.value) == owner or (path == home and _is_self(tree, owner, node))
                if is_certain or (owner in self._after[path] and self._old not in _COMMON_ATTRIBUTES):
                    text = f"{path} line {node.lineno}: .{self._old} of {owner} is called .{self._new} now"
                    yield Problem(text, soft=not is_certain)

    # --- parameters ---

    def _parameter_leftovers(self) -> list[Problem]:
        """Return a function that still has the parameter, or calls that use its old name as a keyword."""
        mentioned = {path: self._before[path] for path in self._mentioned(self._python_before)}
        owner = self._rename.owner
        before = [(path, name) for path, name in self._with_parameter(mentioned) if owner in ("", *name.split("."))]
        after = self._with_parameter(self._python_after)
        if before and set(before) <= set(after):
            path, name = before[0]
            text = f"{path}: {name}() still has the parameter {self._old}"
            return [Problem(text)] if self._rename.is_certain else []
        functions = {name.rsplit(".", 1)[-1] for _, name in before} - {name.rsplit(".", 1)[-1] for _, name in after}
        return self._first_uses(partial(self._keyword_uses, functions))

    def _with_parameter(self, files: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return path and name of each function that has a parameter of the old name."""
        return [
            (path, name)
            for path, text in files.items()
            for name, parameters in defined_names(text).items()
            if parameters and self._old in parameters
        ]

    def _keyword_uses(self, functions: Collection[str], path: str, tree: ast.Module) -> Iterator[Problem]:
        for node in _find_nodes(tree, ast.Call):
            called = _dotted(node.func)
            name = called.rsplit(".", 1)[-1]
            if name in functions and any(keyword.arg == self._old for keyword in node.keywords):
                text = f"{path} line {node.lineno}: {name}({self._old}=…) has to be {name}({self._new}=…)"
                yield Problem(text, soft="." in called)

    # --- other languages ---

    def _other_leftovers(self) -> list[Problem]:
        """Return definitions and uses in other languages, if exactly one file clearly defined the old name."""
        old, new = _definition(self._old), _definition(self._new)
        sources = {path: _strip_comments(text) for path, text in self._after.items() if _RE.code_file.search(path)}
        homes = self._mentioned(
            path for path in sources if path in self._before and old.search(_strip_comments(self._before[path]))
        )
        if len(homes) != 1 or not any(map(new.search, sources.values())):
            return []
        home = homes[0]
        if old.search(sources[home]):
            return [Problem(f"{home}: {self._old} is to be called {self._new} now, everywhere")]
        module = re.escape(home.rsplit("/", 1)[-1].rpartition(".")[0])
        import_line = re.compile(rf"^.*\b(?:import|require|use|include|from)\b.*\b{module}\b", re.MULTILINE)
        problems: list[Problem] = []
        for path, text in sources.items():
            imports = "\n".join(match[0] for match in import_line.finditer(self._after[path]))
            is_imported = re.search(rf"\b{self._old}\b", imports) is not None
            if (path == home or is_imported) and not old.search(text):
                is_called = re.search(rf"(?<![\w.$]){self._old}\s*\(", text) is not None
                is_left = is_called or (is_imported and path != home)
            else:
                is_left = bool(imports) and re.search(rf"\b{module}\.{self._old}\b", text) is not None
            if is_left:
                problems.append(Problem(f"{path}: {self._old} is called {self._new} now"))
        return problems or self._mentions(())


def _strip_comments(text: str) -> str:
    """Remove comments and strings from a source file."""
    return _RE.comments_and_strings.sub(" ", text[:MAX_SOURCE])


_Node = TypeVar("_Node", bound=ast.AST)


def _find_nodes(tree: ast.AST | None, kind: type[_Node]) -> Iterator[_Node]:
    return (node for node in ast.walk(tree) if isinstance(node, kind)) if tree else iter(())


def _dotted(node: ast.expr) -> str:
    """Return a chain of attributes of a variable; empty for other expressions."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _members(text: str) -> set[str]:
    """Return the names that the classes of a file define, and those assigned as attributes."""
    tree = parse_module(text)
    fields = (item for node in _find_nodes(tree, ast.ClassDef) for item in node.body if isinstance(item, ast.AnnAssign))
    members = {name.rsplit(".", 1)[-1] for name in defined_names(text) if "." in name}
    members |= {item.target.id for item in fields if isinstance(item.target, ast.Name)}
    return members | {node.attr for node in _find_nodes(tree, ast.Attribute) if isinstance(node.ctx, ast.Store)}


def _is_self(tree: ast.Module, owner: str, node: ast.Attribute) -> bool:
    """Whether an attribute belongs to `self` in a class without bases."""
    for item in tree.body:
        if isinstance(item, ast.ClassDef) and item.name == owner and not item.bases:
            is_inside = item.lineno <= node.lineno <= (item.end_lineno or item.lineno)
            return is_inside and _dotted(node.value) in ("self", "cls")
    return False


def _comments_and_strings(text: str) -> list[str]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return []
    return [token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]
