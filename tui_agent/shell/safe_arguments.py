"""What the arguments of a program mean: which paths it reads, and which it only looks at (A1, A2).

For programs on the allow-list the table allows single options; any other argument needs approval. An argument may be
known only when the command runs: it is then checked again before its program starts. The same table, with the options
that need approval (`other_options`), tells the arguments of every other command apart, as far as they are known.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from tui_agent.common.domain import FrozenValue
from tui_agent.shell.filters import awk_only_prints, jq_only_prints, sed_only_prints, yq_only_prints
from tui_agent.text.patterns import read_table


class NotSafe(Exception):
    """A command that needs approval."""


def require(condition: bool) -> None:
    """Raise NotSafe unless the condition holds."""
    if not condition:
        raise NotSafe


class Unknown(str):
    """Text of which a part, written as NUL, is known only when the command runs."""

    is_clean: bool
    """Whether it can't be the name of a file with credentials."""

    def __new__(cls, text: str, is_clean: bool) -> Unknown:
        """Arguments: the text, and `is_clean`."""
        unknown = super().__new__(cls, text)
        unknown.is_clean = is_clean
        return unknown


class Selection(NamedTuple):
    """Which of the files below a folder are read."""

    hidden: bool = True
    """Also names that begin with a dot."""
    include: tuple[str, ...] = ()
    """Patterns; only files that match one of them, if there are any, upper and lower case being the same."""
    exclude: tuple[str, ...] = ()
    """Patterns of files that are left out."""
    exclude_folders: tuple[str, ...] = ()
    """Patterns of folders that are left out."""
    all_of: tuple[str, ...] = ()
    """Patterns all of which a file matches."""
    links: Literal["passed", "read", "followed"] = "passed"
    """What happens to symbolic links: nothing, or the files that they lead to are read, or folders as well."""

    def selects(self, name: str) -> bool:
        """Return whether a file of this name is read, its folder aside."""
        lower = name.lower()
        return (
            (not self.include or any(fnmatch.fnmatchcase(lower, pattern.lower()) for pattern in self.include))
            and not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.exclude)
            and all(fnmatch.fnmatchcase(lower, pattern.lower()) for pattern in self.all_of)
        )


EVERYTHING = Selection()


class ArgumentShape(FrozenValue, frozen=True, kw_only=True):
    """What the arguments of a program mean."""

    reads: tuple[str, ...] = ()
    """Paths whose content it prints, in their order."""
    names: tuple[str, ...] = ()
    """Paths of which it shows names, sizes and the like."""
    search: Selection | None = None
    """Which files below its folders it reads, if it is recursive."""
    reads_pipe: bool = False
    """Whether it reads its standard input instead of the folder if no path is given."""
    files_only: bool = False
    """Whether it must not be given a folder."""
    exists: bool = False
    """Whether its files must exist, as it would look for others instead."""
    prefix: tuple[str, ...] = ()
    """Arguments that are added in front."""
    version_of: str = ""
    """The program, if it only prints its version."""
    needs_home: bool = False
    """Whether it needs to find settings in the user's home folder."""


@cache
def safe_table() -> dict[str, dict[str, Any]]:
    """Return the allow-list: program → its allowed arguments."""
    data = read_table(__package__, "safe_commands.json")["programs"]
    return {name: {**data[entry["like"]], **entry} if "like" in entry else entry for name, entry in data.items()}


@cache
def version_table() -> dict[str, frozenset[str]]:
    """Return the arguments, alone, with which a program prints its version: program → arguments."""
    data = read_table(__package__, "safe_commands.json")["versions"]
    return {name: frozenset(options.split()) for names, options in data.items() for name in names.split()}


_VERSIONED = re.compile(r"(python|pip|pypy|gcc|g\+\+|clang|clang\+\+|ruby|perl|php|lua|node|llvm-config)-?\d[\d.]*")


def argument_shape(program: str, arguments: Sequence[str]) -> ArgumentShape:
    """Return what the arguments mean. Raises NotSafe if the program or one of them is not on the allow-list."""
    plain = program if program in version_table() else _VERSIONED.sub(r"\1", program)
    options = version_table().get(plain, frozenset())
    if options and (arguments == ["--help"] or (len(arguments) == 1 and arguments[0] in options)):
        return ArgumentShape(version_of=plain, needs_home=True)
    entry = safe_table().get(program) or safe_table().get(plain)
    if entry is None:
        raise NotSafe
    return _shape(entry, list(arguments))


def _shape(entry: dict[str, Any], arguments: list[str]) -> ArgumentShape:
    match entry["operands"]:
        case "echo":
            return ArgumentShape()
        case "printf":
            require(bool(arguments) and not arguments[0].startswith("-"))
            return ArgumentShape()
        case "find":
            parsed = _ArgumentParser(entry, arguments)
            return ArgumentShape(names=(*parsed.operands, *parsed.paths))
        case "exactly":
            require(" ".join(arguments) in entry["forms"] or _names_follow(entry.get("then", ()), arguments))
            return ArgumentShape(needs_home=True)
    parsed = _ArgumentParser(entry, arguments)
    operands = parsed.operands
    match entry["operands"]:
        case "pattern":
            return _search_shape(entry, parsed)
        case "script":
            scripts = parsed.scripts or operands[:1]
            require(bool(scripts) and all(_prints_only(entry["language"], script) for script in scripts))
            files = operands if parsed.scripts or entry["language"] == "yq" else operands[1:]
            return ArgumentShape(reads=(*parsed.paths, *files))
        case "paths" | "files" as kind:
            require(entry.get("least", 0) <= len(operands) <= entry.get("most", 100_000))
            require(not (entry.get("local") and any(":" in path for path in (*operands, *parsed.paths))))
            paths = (*parsed.paths, *operands)
            # `@FILE` stands for the arguments in a file.
            require(not (entry.get("argument_files") and any(path.startswith(("@", "\0")) for path in paths)))
            search = _search(entry, parsed)
            return ArgumentShape(
                reads=() if entry.get("names_only") else paths,
                names=paths if entry.get("names_only") else (),
                search=search,
                files_only=kind == "files" and search is None,
                exists=bool(entry.get("exists")),
                prefix=tuple(entry.get("first", ())),
            )
        case kind:
            allowed = {
                "text": True,
                "none": not operands,
                "format": all(text.startswith("+") for text in operands),
                "numbers": all(_NUMBER.fullmatch(text) and len(text) <= 6 for text in operands),
            }
            require(allowed[kind])
            return ArgumentShape(reads=tuple(parsed.paths), prefix=tuple(entry.get("first", ())))


_PACKAGE = re.compile(r"@?[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?(?:\[[\w,]+\])?", re.ASCII)


def _names_follow(forms: Sequence[str], arguments: list[str]) -> bool:
    """Return whether the arguments are one of the forms, and after it names of packages or fields."""
    return any(
        arguments[: len(form.split())] == form.split()
        and all(_PACKAGE.fullmatch(name) for name in arguments[len(form.split()) :])
        for form in forms
    )


_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _search_shape(entry: dict[str, Any], parsed: _ArgumentParser) -> ArgumentShape:
    operands = parsed.operands
    if not parsed.options & set(entry["pattern_options"].split()):
        require(bool(operands))
        operands = operands[1:]
    prefix, paths = tuple(entry.get("first", ())), (*parsed.paths, *operands)
    if parsed.options & set(entry.get("names_with", "").split()):
        return ArgumentShape(names=paths, prefix=prefix)
    return ArgumentShape(
        reads=paths,
        search=_search(entry, parsed),
        reads_pipe=entry["walks"] == "always",
        prefix=prefix,
        exists=bool(entry.get("exists")),
    )


def _file_patterns(value: str) -> list[str]:
    """Return patterns one of which the names match of all files that a glob of ripgrep matches."""
    name = value.rpartition("/")[2] if "{" not in value.rpartition("/")[0] else value
    before, _, after = name.partition("{")
    choices, _, end = after.partition("}")
    return [f"{before}{choice}{end}" for choice in choices.split(",")]


_PLAIN_PATTERN = re.compile(r"[\w.*-]+", re.ASCII)
"""A pattern that means the same to grep, ripgrep and `fnmatch`."""


def _search(entry: dict[str, Any], parsed: _ArgumentParser) -> Selection | None:
    """Return which files below its folders a program reads; None if it is not recursive.

    Where that is hard to tell, it is assumed to read more.
    """
    walks = entry.get("walks", "").split()
    always = "always" in walks
    if not (always or parsed.options & set(walks)) or parsed.options & set(entry.get("names_with", "").split()):
        return None
    if entry["operands"] != "pattern":
        return Selection(links="followed")
    given = {name: list(parsed.values.get(name, ())) for name in ("include", "exclude", "exclude-dir")}
    globs = [value for name in entry.get("globs", "").split() for value in parsed.values.get(name, ())]
    for value in globs:
        given["include"] += _file_patterns(value) if not value.startswith("!") else []  # they bring in hidden files
    include, exclude, folders = (
        tuple(values) if all(map(_PLAIN_PATTERN.fullmatch, values)) else () for values in given.values()
    )
    return Selection(
        hidden=not always or bool(given["include"] or parsed.options & set(entry["hidden_with"].split())),
        include=include,
        exclude=() if given["include"] else exclude,  # of contradictory patterns the last one counts
        exclude_folders=folders,
    )


def _prints_only(language: str, script: str) -> bool:
    if isinstance(script, Unknown):
        return False
    rules = {"awk": awk_only_prints, "sed": sed_only_prints, "jq": jq_only_prints, "yq": yq_only_prints}
    return rules[language](script)


Role = Literal["operand", "pattern", "path", "output", "text", "unknown"]
"""What an argument is: `pattern` is what is looked for, or a script; `path`, `output` and `text` are other values of
options."""


class _ArgumentParser:
    """Splits arguments into operands, paths and scripts given to options, and the names of the options.

    `is_strict`: an option that the entry does not allow raises NotSafe; else it is `unknown`.
    """

    def __init__(self, entry: dict[str, Any], arguments: Sequence[str], *, is_strict: bool = True) -> None:
        self._entry = entry
        self._words = list(arguments)
        self._position = 0
        self.operands: list[str] = []
        self.paths: list[str] = []
        self.scripts: list[str] = []
        self.options: set[str] = set()
        self.values: dict[str, list[str]] = {}
        self.found: list[tuple[Role, str]] = []
        """All arguments in their order; options that are known only with a value of their own."""
        while self._position < len(self._words):
            word = self._words[self._position]
            self._position += 1
            if word == "--" and entry["operands"] != "find":
                self._add_operands()
                break
            if self._position == 1 and entry.get("bundle") and re.fullmatch(r"[a-zA-Z]+", word):
                word = f"-{word}"  # `tar tzf FILE`
            if self._is_operand(word):
                self._add_operand(word)
                if entry.get("options_first"):
                    self._add_operands()
                continue
            position = self._position
            try:
                require(not isinstance(word, Unknown) or "=" in word)
                self._option(word)
            except NotSafe:
                if is_strict:
                    raise
                self._position = position
                self.found.append(("unknown", word))
        require(not is_strict or set(entry.get("needs", "")) <= self.options)

    def _is_operand(self, word: str) -> bool:
        if self._entry["operands"] == "find":
            return not word.startswith(("-", "(", "!", ",")) and not self.options
        return not word.startswith("-") or word == "-"

    def _add_operand(self, word: str) -> None:
        self.operands.append(word)
        self.found.append(("operand", word))

    def _add_operands(self) -> None:
        for word in self._words[self._position :]:
            self._add_operand(word)
        self._position = len(self._words)

    def _option(self, word: str) -> None:
        if self._entry["operands"] == "find":
            self._find_option(word)
        elif word.startswith("--"):
            self._long(word[2:])
        else:
            self._short(word[1:])

    def _kind(self, option: str) -> Role:
        return "pattern" if option in self._entry.get("pattern_options", "").split() else "text"

    def _value(self, role: Role, value: str | None = None) -> str:
        """Note the value of an option, by default the next argument."""
        if value is None:
            require(self._position < len(self._words))
            value = self._words[self._position]
            self._position += 1
        self.found.append((role, value))
        if role == "path":
            self.paths.append(value)
        return value

    def _long(self, text: str) -> None:
        name, equals, value = text.partition("=")
        allowed = self._entry.get("long", "").split()
        given = value if equals else None
        self.options.add(name)
        if name in allowed:
            require(not equals)
        elif f"{name}=" in allowed:
            self.values.setdefault(name, []).append(self._value(self._kind(name), given))
        elif f"{name}=p" in allowed:
            self._value("path", given)
        elif f"{name}=o" in allowed:
            self._value("output", given)
        elif f"{name}=2" in allowed:
            require(not equals)
            self._value("text")
            self._value("text")
        elif f"{name}=s" in allowed:
            self.scripts.append(self._value("pattern", given))
        else:
            require(f"{name}?" in allowed)

    def _short(self, letters: str) -> None:
        entry = self._entry
        if letters in entry.get("words", "").split():  # long options with a single dash
            return
        name, equals, value = letters.partition("=")
        if name in entry.get("word_values", "").split():
            self._value("text", value if equals else None)
            return
        if entry.get("number") and letters[0].isdigit():
            # `head -5c FILE`: what follows the digits is a unit, not an option with a value.
            require(letters.isdigit())
            return
        for index, letter in enumerate(letters, 1):
            self.options.add(letter)
            attached = letters[index:] or None
            if letter in entry.get("apart", ""):
                # The next word is its value, and the letters after it are options of their own.
                require(not attached or attached.isdigit())
            if letter in entry.get("path_values", ""):
                self._value("path", attached)
                return
            if letter in entry.get("outputs", ""):
                self._value("output", attached)
                return
            if letter in entry.get("scripts", ""):
                self.scripts.append(self._value("pattern", attached))
                return
            if letter in entry.get("values", "") + entry.get("apart", ""):
                self.values.setdefault(letter, []).append(self._value(self._kind(letter), attached))
                return
            if letter in entry.get("optional", ""):
                return
            require(letter in entry.get("short", ""))

    def _find_option(self, word: str) -> None:
        alone, text, path = (self._entry[kind].split() for kind in ("alone", "text", "path"))
        if word != "-P":
            self.options.add(word)
        if word in text or word in path:
            self._value("text" if word in text else "path")
        else:
            require(word in alone)


# --- arguments of any command ---


def find_patterns(texts: Sequence[str]) -> tuple[str, ...]:
    """Return patterns all of which the names match that a `find` lists; none where that is hard to tell."""
    pairs = set(itertools.pairwise(texts))
    if {"-o", "-or", ","} & set(texts) or {("!", "("), ("-not", "(")} & pairs:
        return ()
    return tuple(
        pattern
        for before, option, pattern in zip(("", *texts), texts, texts[1:], strict=False)
        if option in ("-name", "-iname") and before not in ("!", "-not")
    )


def find_folders(texts: Sequence[str]) -> list[str]:
    """Return the folders that a `find` with these arguments searches, as they are written."""
    return list(itertools.takewhile(lambda text: not text.startswith(("-", "(", "!")), texts))


class Arguments(NamedTuple):
    """The arguments of a program that may need approval, as far as its options are known."""

    found: Sequence[tuple[Role, str]]
    search: Selection | None
    """Which files below its folders it reads, if it is recursive."""
    reads_pipe: bool
    """Whether a recursive search reads its standard input if no path is given."""


_LETTERS = ("short", "values", "path_values", "outputs", "scripts", "apart", "optional")
_NAMES = ("long", "walks", "hidden_with", "pattern_options")


def _joined(entry: dict[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description with further options; letters that it describes stay as they are."""
    known = "".join(entry.get(key, "") for key in _LETTERS)
    joined = dict(entry)
    for key, value in added.items():
        if key in _LETTERS:
            joined[key] = entry.get(key, "") + "".join(letter for letter in value if letter not in known)
        else:
            joined[key] = f"{entry.get(key, '')} {value}" if key in _NAMES else value
    return joined


@cache
def _described(program: str) -> dict[str, Any]:
    """Return what the tables say about the options of a program, those included that need approval."""
    others = read_table(__package__, "safe_commands.json")["other_options"]
    added: dict[str, Any] = next((others[names] for names in others if program in names.split()), {})
    return _joined({"operands": "paths", **safe_table().get(added.get("like", program), {})}, added)


_READS_PATTERNS = re.compile(r"-\w*[ef]|--(regexp|file|expression|from-file)")


def read_arguments(program: str, texts: Sequence[str], subcommand: Mapping[str, Any] | None = None) -> Arguments:
    """Return what the arguments of any program are. `subcommand`: the description of that of git."""
    entry = _described(program) if subcommand is None else _joined(dict(subcommand), _described(program))
    parsed = _ArgumentParser(entry, texts, is_strict=False)
    is_pattern = entry["operands"] in ("pattern", "script") or bool(entry.get("pattern_first"))
    if entry.get("language") == "yq" and len(parsed.operands) == 1:
        is_pattern = False  # the programs of this name disagree whether it is a filter or a file
    if parsed.scripts or parsed.options & set(entry.get("pattern_options", "").split()):
        is_pattern = False
    found: list[tuple[Role, str]] = []
    outputs_after = entry.get("outputs_after", len(texts))
    for role, text in parsed.found:
        if role == "unknown" and _READS_PATTERNS.fullmatch(text):
            is_pattern = False
        if role != "operand":
            found.append((role, text))
        elif is_pattern:
            found.append(("pattern", text))
            is_pattern = False
        else:
            found.append(("operand" if outputs_after > 0 else "output", text))
            outputs_after -= 1
    return Arguments(found, _search(entry, parsed), entry.get("walks") == "always")
