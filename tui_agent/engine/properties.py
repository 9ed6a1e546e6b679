"""What a request says of the results of a function in words that can be tried: "lower case", "no hyphen at the ends".

Only phrases count that mean one thing, and each is tried on inputs for which a right function can't break it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping

import msgspec

from tui_agent.protocols.python_source import parsed

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
    for match in re.finditer(rf"\bsingle ({_SIGN})s?\b", request, re.IGNORECASE):
        sign = _SIGNS[match.group(1).lower()]
        found.append(Property(match.group(0), f"{sign * 2!r} not in out"))
    for match in re.finditer(
        rf"\bno ({_SIGN})s? at (?:the|either|both) (?:ends?|start and end)\b", request, re.I
    ):
        sign = _SIGNS[match.group(1).lower()]
        found.append(Property(match.group(0), f"out == out.strip({sign!r})"))
    for match in re.finditer(
        rf"\b(?:no|without(?: any)?) ({_SIGN})s? in (?:the result|it|between)\b", request, re.I
    ):
        found.append(Property(match.group(0), f"{_SIGNS[match.group(1).lower()]!r} not in out"))
    for match in re.finditer(rf"\beach (?:one )?(?:is )?followed by an? ({_SIGN})\b", request, re.I):
        sign = _SIGNS[match.group(1).lower()]
        found.append(Property(match.group(0), f"not out or out.endswith({sign!r})"))
    found += _times(request) + _joined(request)
    only = re.search(
        r"\b(?:nothing but|only|other than) ((?:[a-z0-9]-[a-z0-9]|and|or|[a-z]+s?|[, ])+)", request, re.I
    )
    if only is not None and (allowed := _allowed(only.group(1))):
        found.append(
            Property(
                only.group(0).split(", no")[0].strip(" ,"),
                f"__import__('re').fullmatch({allowed!r}, out) is not None",
            )
        )
    kind = re.search(rf"\breturns? an? ({'|'.join(_KINDS)})\b", request, re.IGNORECASE)
    if kind is not None:
        found.append(Property(kind.group(0), f"isinstance(out, {_KINDS[kind.group(1).lower()]})"))
    return found


def _joined(request: str) -> list[Property]:
    """What stands between words, of which a text with nothing but letters and spaces has as many as anybody counts."""
    match = re.search(
        rf"\bwords (?:are )?joined (?:by|with) (?:an? |one |single )*({_SIGN})s?\b", request, re.I
    )
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


_PLAIN = (
    (
        r"\b(?:in |to |all |:\s*)?lower[- ]?case\b(?! letter)",
        "not isinstance(out, str) or out == out.lower()",
    ),
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
    found = []
    for path, text in files.items():
        tree = parsed(text) if path.endswith(".py") else None
        for node in tree.body if tree else ():
            if isinstance(node, ast.FunctionDef) and node.name in named:
                needed = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
                found.append((path[:-3].replace("/", ".").removesuffix(".__init__"), node.name, needed))
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


def loading(module: str, names: Collection[str]) -> str:
    """The beginning of a program that takes `names` from a module of the project in the current folder.

    The module is looked for from that folder, then from each folder that it lies in, as projects with a `src` have it.
    What it prints meanwhile is not shown, and there is nothing to read. Where it can't be imported, because it lacks
    something or runs at once and ends, the program says so and ends with `UNTRIED`. The program has `_untried(why)`.
    """
    parts = module.split(".")
    places = [("/".join(parts[:at]), ".".join(parts[at:])) for at in range(len(parts))]
    taken = "\n".join(f"{name} = _loaded.{name}" for name in names)
    return f"""\
import contextlib, importlib, io, itertools, math, os, sys
def _untried(why):
    print('not tried:', why)
    raise SystemExit({UNTRIED})
sys.stdin, _loaded, _why = io.StringIO(), None, ''
for _folder, _name in {places!r}:
    sys.path.insert(0, os.path.join(os.getcwd(), _folder))
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _loaded = importlib.import_module(_name)
        break
    except ImportError as error:
        _why = _why or repr(error)
    except BaseException as error:
        _untried('{module} can not be imported: ' + repr(error))
if _loaded is None or not str(_loaded.__file__).startswith(os.getcwd() + os.sep):
    _untried('{module} can not be imported: ' + _why)
if not all(hasattr(_loaded, one) for one in {list(names)!r}):
    _untried('{module} lacks a name')
{taken}
"""


def sampling(module: str, function: str, count: int) -> str:
    """A program that prints what a function gives for some arguments."""
    tried = _SAMPLES[count - 1] if 1 <= count <= len(_SAMPLES) else ()
    return f"""\
{loading(module, (function,))}
_shown = 0
for _given in {tried!r}:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _out = {function}(*_given)
    except (Exception, SystemExit):
        continue
    if _out is not None and _shown < 6:
        _shown += 1
        print(f"{function}({{', '.join(map(repr, _given))}}) == {{_out!r}}")
"""


def script(module: str, function: str, wanted: list[Property]) -> str:
    """A program that tries a function and ends with a line that says what breaks a condition."""
    rows = ", ".join(f"({one.words!r}, {one.of_numbers}, lambda f, x, out: {one.test})" for one in wanted)
    return f"""\
{loading(module, (function,))}
_try = {function}
_returned, _error = False, ""
for x in {(*_INPUTS, *_NUMBERS)!r}:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            out = _try(x)
    except (NameError, AttributeError) as error:
        if not isinstance(getattr(error, "obj", None), type(x)):
            _error = _error or f"{function}({{x!r}}) raises {{type(error).__name__}}: {{error}}"
        continue
    except (Exception, SystemExit):
        continue
    _returned = True
    for words, numbers, holds in ({rows},):
        if numbers is not isinstance(x, int):
            continue
        try:
            good = holds(_try, x, out)
        except (Exception, SystemExit):
            continue
        if not good:
            raise SystemExit(f"{function}({{x!r}}) returns {{out!r}}, but the request says: {{words}}")
if _error and not _returned:
    raise SystemExit(f"{{_error}}, but the request says: " + {wanted[0].words if wanted else ""!r})
"""
