"""Properties of a function's result that a request states: "lower case", "no hyphen at the ends" (E5).

Only unambiguous phrases count; each is tested with inputs for which no correct function violates it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from string import Template

import msgspec

from tui_agent.protocols.python_source import module_name, python_trees, required_argument_count
from tui_agent.text.patterns import read_table

_CHARACTERS = {
    "hyphen": "-", "dash": "-", "underscore": "_", "space": " ", "dot": ".", "comma": ",", "slash": "/", "period": ".",
    "blank": " ",
}  # fmt: skip
_CHARACTER = "|".join(_CHARACTERS)
_TYPES = {
    "list": "list", "dict": "dict", "dictionary": "dict", "set": "set", "tuple": "tuple", "string": "str",
    "text": "str", "bool": "bool", "boolean": "bool",
}  # fmt: skip
_TEXTS = (
    "Hello, World!", "  A  b ", "", "one two  three", "x", "Already-Done_Now", "9 Lives & more", "-edge-",
    "tabs\tand\nlines", "MiXeD cAsE", "__init__", "Ünïcode Zürich",
)  # fmt: skip
"""Inputs for functions of one text."""
_NUMBERS = (0, 7, 59, 60, 61, 599, 3599, 3600, 3661, 36000, 86399)
"""Inputs for functions of one whole number, such as seconds."""
_PHRASES = (
    (r"\b(?:in |to |all |:\s*)?lower[- ]?case\b(?! letter)", "not isinstance(out, str) or out == out.lower()"),
    (r"\b(?:in |to |all )upper[- ]?case\b(?! letter)", "not isinstance(out, str) or out == out.upper()"),
    (r"\bignor(?:es|ing) (?:the )?(?:upper and lower )?case\b", "out == f(x.swapcase())"),
)
"""Phrases and their tests."""
_CHARACTER_PHRASES = (
    (r"\bsingle SIGNs?\b", "{twice} not in out"),
    (r"\bno SIGNs? at (?:the|either|both) (?:ends?|start and end)\b", "out == out.strip({sign})"),
    (r"\b(?:no|without(?: any)?) SIGNs? in (?:the result|it|between)\b", "{sign} not in out"),
    (r"\beach (?:one )?(?:is )?followed by an? SIGN\b", "not out or out.endswith({sign})"),
)
"""Phrases about a character and their tests."""


class Property(msgspec.Struct, frozen=True):
    """A condition on the result of a function."""

    phrase: str
    """The request's own words."""
    test: str
    """An expression of `out`, the result, and `f` and `x`, the function and its argument."""
    of_numbers: bool = False
    """It is tested with numbers, not with texts."""


def properties_in(request: str) -> list[Property]:
    """Return the properties that a request states of a result."""
    found = [
        Property(match[0].strip(), test)
        for pattern, test in _PHRASES
        if (match := re.search(pattern, request, re.IGNORECASE)) is not None
    ]
    for pattern, test in _CHARACTER_PHRASES:
        for match in re.finditer(pattern.replace("SIGN", f"({_CHARACTER})"), request, re.IGNORECASE):
            character = _CHARACTERS[match[1].lower()]
            found.append(Property(match[0], test.format(sign=repr(character), twice=repr(character * 2))))
    found += _time_formats(request) + _joined_words(request)
    only = re.search(r"\b(?:nothing but|only|other than) ((?:[a-z0-9]-[a-z0-9]|and|or|[a-z]+s?|[, ])+)", request, re.I)
    if only is not None and (allowed := _allowed_characters(only[1])):
        phrase = only[0].split(", no")[0].strip(" ,")
        found.append(Property(phrase, f"__import__('re').fullmatch({allowed!r}, out) is not None"))
    result = re.search(rf"\breturns? an? ({'|'.join(_TYPES)})\b", request, re.IGNORECASE)
    if result is not None:
        found.append(Property(result[0], f"isinstance(out, {_TYPES[result[1].lower()]})"))
    return found


def _joined_words(request: str) -> list[Property]:
    """Return the separator of words, tested with texts of only letters and spaces, where the word count is certain."""
    match = re.search(rf"\bwords (?:are )?joined (?:by|with) (?:an? |one |single )*({_CHARACTER})s?\b", request, re.I)
    if match is None or re.search(r"\b(?:camel|pascal|snake|kebab)", request, re.I):
        return []
    is_plain = "isinstance(out, str) and all(one.isalpha() for one in x.split())"
    count = f"out.strip().count({_CHARACTERS[match[1].lower()]!r}) >= len(x.split()) - 1"
    return [Property(match[0], f"not ({is_plain}) or {count}")]


def _time_formats(request: str) -> list[Property]:
    """Return the formats of times, such as H:MM:SS, in which each part but the first has two digits."""
    found = []
    for match in re.finditer(r"(?<![\w:])(H{1,2}|M{1,2}):(MM|SS)(?::(SS))?(?!\w|:\w)", request):
        first = r"(?:0|[1-9]\d*)" if len(match[1]) == 1 else r"\d{2,}"
        more = r"(?::[0-5]\d)" * (2 if match[3] else 1)
        test = f"not isinstance(out, str) or __import__('re').fullmatch({first + more!r}, out) is not None"
        found.append(Property(match[0], test, of_numbers=True))
    return found


def _allowed_characters(phrase: str) -> str:
    """Return a pattern of the characters in a phrase such as `a-z, 0-9 and hyphens`, up to the first unknown word."""
    classes = []
    for word in re.split(r"[,\s]+|\band\b|\bor\b", phrase.strip(" ,.")):
        name = word.strip().lower().removesuffix("s")
        if name == "letter":
            return ""
        if re.fullmatch(r"[a-z]-[a-z]|[0-9]-[0-9]", name):
            classes.append(name)
        elif name == "digit":
            classes.append(r"\d")
        elif name in _CHARACTERS:
            classes.append(re.escape(_CHARACTERS[name]))
        elif name:
            break
    return f"[{''.join(classes)}]*" if classes else ""


def called_function(request: str, files: Mapping[str, str]) -> tuple[str, str]:
    """Return module and name of the only function of one argument that a request calls; empty strings if unclear."""
    module, function, count = _only_function(set(re.findall(r"(?<![\w.])([a-z_]\w*)\(", request)), request, files)
    return (module, function) if count == 1 else ("", "")


def named_function(request: str, files: Mapping[str, str]) -> tuple[str, str, int]:
    """Return module, name and argument count of the only function that a request names; empty strings if unclear."""
    return _only_function(set(re.findall(r"[a-z_]\w*", request)), request, files)


def _only_function(names: Collection[str], request: str, files: Mapping[str, str]) -> tuple[str, str, int]:
    found = [
        (module_name(path), node.name, required_argument_count(node))
        for path, tree in python_trees(files)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    found = [item for item in found if f"{item[0].replace('.', '/')}.py" in request] or found
    return found[0] if len(found) == 1 else ("", "", 0)


_SAMPLES = (
    ((1,), (4,), (9,), (10,), (3,), ("abc",), ("Hello World",), ([3, 1, 2],), (-1,), (0,)),
    ((2, 3), (10, 5), (-1, 1), ("a b", 2), ([1, 2, 3], 2), ("abc", "b"), (0, 0)),
    ((5, 1, 10), (0, 1, 10), (20, 1, 10), ("a-b", "-", "_")),
)
"""Sample arguments for functions of one, two and three arguments."""


UNTRIED = 126
"""Exit status of a program that could not try anything; the loop takes it as no result."""


def fill_program(name: str, **values: str) -> str:
    """Return a program of `programs.toml` with its placeholders filled in."""
    return Template(read_table(__package__, "programs.toml")[name]).substitute(values)


def import_program(module: str, names: Collection[str]) -> str:
    """Return the beginning of a program that imports `names` from a module of the project in the current folder.

    The module is searched from that folder and from each folder on its path, such as `src`. It gets no input, and its
    output is hidden. If it can't be imported, the program says why and exits with `UNTRIED`; it defines
    `_untried(why)` for this.
    """
    parts = module.split(".")
    places = [("/".join(parts[:at]), ".".join(parts[at:])) for at in range(len(parts))]
    return fill_program(
        "load",
        untried=str(UNTRIED),
        places=repr(places),
        module=module,
        names=repr(list(names)),
        taken="\n".join(f"{name} = _loaded.{name}" for name in names),
    )


def sampling_program(module: str, function: str, count: int) -> str:
    """Return a program that prints a function's results for sample arguments. `count`: its number of arguments."""
    tried = _SAMPLES[count - 1] if 1 <= count <= len(_SAMPLES) else ()
    return fill_program("sample", load=import_program(module, (function,)), function=function, tried=repr(tried))


def property_program(module: str, function: str, properties: list[Property]) -> str:
    """Return a program that tests a function and exits with a message about the first property it violates."""
    rows = (f"({item.phrase!r}, {item.of_numbers}, lambda f, x, out: {item.test})" for item in properties)
    return fill_program(
        "property",
        load=import_program(module, (function,)),
        function=function,
        inputs=repr((*_TEXTS, *_NUMBERS)),
        rows=", ".join(rows),
        first=repr(properties[0].phrase if properties else ""),
    )
