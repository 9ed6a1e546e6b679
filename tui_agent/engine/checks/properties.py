"""What a request says of the results of a function in words that can be tried: "lower case", "no hyphen at the ends".

Only phrases count that mean one thing, and each is tried on inputs for which a right function can't break it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from string import Template

import msgspec

from tui_agent.common.tables import read_table
from tui_agent.protocols.python_source import module_name, python_trees, required_argument_count

_SIGNS = {
    "hyphen": "-", "dash": "-", "underscore": "_", "space": " ", "dot": ".", "comma": ",", "slash": "/", "period": ".",
    "blank": " ",
}  # fmt: skip
_SIGN = "|".join(_SIGNS)
_KINDS = {
    "list": "list", "dict": "dict", "dictionary": "dict", "set": "set", "tuple": "tuple", "string": "str",
    "text": "str", "bool": "bool", "boolean": "bool",
}  # fmt: skip
_INPUTS = (
    "Hello, World!", "  A  b ", "", "one two  three", "x", "Already-Done_Now", "9 Lives & more", "-edge-",
    "tabs\tand\nlines", "MiXeD cAsE", "__init__", "Ünïcode Zürich",
)  # fmt: skip
"""Texts on which a function of one text is tried."""
_NUMBERS = (0, 7, 59, 60, 61, 599, 3599, 3600, 3661, 36000, 86399)
"""The same for a function of one whole number, such as seconds."""


class Property(msgspec.Struct, frozen=True):
    """A condition on what a function returns."""

    words: str
    """The request's own words."""
    test: str
    """An expression of `out`, the result, and `f` and `x`, the function and its argument."""
    of_numbers: bool = False
    """It is tried on whole numbers, not on texts."""


def properties_in(request: str) -> list[Property]:
    """The conditions that a request states of the text, list, … that a function returns."""
    found = [
        Property(match.group(0).strip(), test)
        for pattern, test in _PLAIN
        if (match := re.search(pattern, request, re.IGNORECASE)) is not None
    ]
    for pattern, test in _OF_SIGNS:
        for match in re.finditer(pattern.replace("SIGN", f"({_SIGN})"), request, re.IGNORECASE):
            sign = _SIGNS[match.group(1).lower()]
            found.append(Property(match.group(0), test.format(sign=repr(sign), twice=repr(sign * 2))))
    found += _times(request) + _joined(request)
    only = re.search(r"\b(?:nothing but|only|other than) ((?:[a-z0-9]-[a-z0-9]|and|or|[a-z]+s?|[, ])+)", request, re.I)
    if only is not None and (allowed := _allowed(only.group(1))):
        found.append(
            Property(
                only.group(0).split(", no")[0].strip(" ,"), f"__import__('re').fullmatch({allowed!r}, out) is not None"
            )
        )
    kind = re.search(rf"\breturns? an? ({'|'.join(_KINDS)})\b", request, re.IGNORECASE)
    if kind is not None:
        found.append(Property(kind.group(0), f"isinstance(out, {_KINDS[kind.group(1).lower()]})"))
    return found


def _joined(request: str) -> list[Property]:
    """What stands between words, of which a text with nothing but letters and spaces has as many as anybody counts."""
    match = re.search(rf"\bwords (?:are )?joined (?:by|with) (?:an? |one |single )*({_SIGN})s?\b", request, re.I)
    if match is None or re.search(r"\b(?:camel|pascal|snake|kebab)", request, re.I):
        return []
    sign = _SIGNS[match.group(1).lower()]
    plain = "isinstance(out, str) and all(one.isalpha() for one in x.split())"
    return [Property(match.group(0), f"not ({plain}) or out.strip().count({sign!r}) >= len(x.split()) - 1")]


def _times(request: str) -> list[Property]:
    """The form of a time, such as H:MM:SS, in which each part but the first has two digits."""
    found = []
    for match in re.finditer(r"(?<![\w:])(H{1,2}|M{1,2}):(MM|SS)(?::(SS))?(?!\w|:\w)", request):
        first = r"(?:0|[1-9]\d*)" if len(match.group(1)) == 1 else r"\d{2,}"
        more = r"(?::[0-5]\d)" * sum(one is not None for one in match.groups()[1:])
        test = f"not isinstance(out, str) or __import__('re').fullmatch({first + more!r}, out) is not None"
        found.append(Property(match.group(0), test, of_numbers=True))
    return found


_OF_SIGNS = (
    (r"\bsingle SIGNs?\b", "{twice} not in out"),
    (r"\bno SIGNs? at (?:the|either|both) (?:ends?|start and end)\b", "out == out.strip({sign})"),
    (r"\b(?:no|without(?: any)?) SIGNs? in (?:the result|it|between)\b", "{sign} not in out"),
    (r"\beach (?:one )?(?:is )?followed by an? SIGN\b", "not out or out.endswith({sign})"),
)
"""Conditions on one of the signs, and how each is tested."""
_PLAIN = (
    (r"\b(?:in |to |all |:\s*)?lower[- ]?case\b(?! letter)", "not isinstance(out, str) or out == out.lower()"),
    (r"\b(?:in |to |all )upper[- ]?case\b(?! letter)", "not isinstance(out, str) or out == out.upper()"),
    (r"\bignor(?:es|ing) (?:the )?(?:upper and lower )?case\b", "out == f(x.swapcase())"),
)


def _allowed(words: str) -> str:
    """A pattern of texts made of what is named, such as `a-z, 0-9 and hyphens`; empty where a word is not known."""
    classes = []
    for word in re.split(r"[,\s]+|\band\b|\bor\b", words.strip(" ,.")):
        name = word.strip().lower().removesuffix("s")
        if not name:
            continue
        if re.fullmatch(r"[a-z]-[a-z]|[0-9]-[0-9]", name):
            classes.append(name)
        elif name in ("letter", "digit") or name in _SIGNS:
            classes.append({"letter": r"^\W\d_", "digit": r"\d"}.get(name, re.escape(_SIGNS.get(name, ""))))
        else:
            break
    if not classes or any(one.startswith("^") for one in classes):
        return ""
    return f"[{''.join(classes)}]*"


def function_in(request: str, files: Mapping[str, str]) -> tuple[str, str]:
    """Module and name of the one function of one argument that a request calls; empty texts where there is none."""
    named = set(re.findall(r"(?<![\w.])([a-z_]\w*)\(", request))
    module, function, count = _only(named, request, files)
    return (module, function) if count == 1 else ("", "")


def named_function(request: str, files: Mapping[str, str]) -> tuple[str, str, int]:
    """Module, name and number of arguments of the one function that a request names; empty texts where there is
    none."""
    return _only(set(re.findall(r"[a-z_]\w*", request)), request, files)


def _only(named: set[str], request: str, files: Mapping[str, str]) -> tuple[str, str, int]:
    found = [
        (module_name(path), node.name, required_argument_count(node))
        for path, tree in python_trees(files)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in named
    ]
    asked = [one for one in found if f"{one[0].replace('.', '/')}.py" in request]
    best = asked or found
    return best[0] if len(best) == 1 else ("", "", 0)


_SAMPLES = (
    ((1,), (4,), (9,), (10,), (3,), ("abc",), ("Hello World",), ([3, 1, 2],), (-1,), (0,)),
    ((2, 3), (10, 5), (-1, 1), ("a b", 2), ([1, 2, 3], 2), ("abc", "b"), (0, 0)),
    ((5, 1, 10), (0, 1, 10), (20, 1, 10), ("a-b", "-", "_")),
)
"""Arguments that functions of one, two and three are tried with."""


UNTRIED = 126
"""Exit status of a program that could not try anything; the loop takes it as no result, neither good nor bad."""


def fill_program(name: str, **given: str) -> str:
    """A program of `programs.toml` with its places filled in."""
    return Template(read_table(__file__, "programs.toml")[name]).substitute(given)


def import_program(module: str, names: Collection[str]) -> str:
    """The beginning of a program that takes `names` from a module of the project in the current folder.

    The module is looked for from that folder, then from each folder that it lies in, as projects with a `src` have it.
    What it prints meanwhile is not shown, and there is nothing to read. Where it can't be imported, because it lacks
    something or runs at once and ends, the program says so and ends with `UNTRIED`. The program has `_untried(why)`.
    """
    parts = module.split(".")
    places = [("/".join(parts[:at]), ".".join(parts[at:])) for at in range(len(parts))]
    taken = "\n".join(f"{name} = _loaded.{name}" for name in names)
    names = list(names)
    return fill_program(
        "load", untried=str(UNTRIED), places=repr(places), module=module, names=repr(names), taken=taken
    )


def sampling_program(module: str, function: str, count: int) -> str:
    """A program that prints what a function gives for some arguments."""
    tried = _SAMPLES[count - 1] if 1 <= count <= len(_SAMPLES) else ()
    return fill_program("sample", load=import_program(module, (function,)), function=function, tried=repr(tried))


def property_program(module: str, function: str, wanted: list[Property]) -> str:
    """A program that tries a function and ends with a line that says what breaks a condition."""
    rows = ", ".join(f"({one.words!r}, {one.of_numbers}, lambda f, x, out: {one.test})" for one in wanted)
    first = wanted[0].words if wanted else ""
    return fill_program(
        "property",
        load=import_program(module, (function,)),
        function=function,
        inputs=repr((*_INPUTS, *_NUMBERS)),
        rows=rows,
        first=repr(first),
    )
