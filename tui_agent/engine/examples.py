"""What a request itself says can be tried: a call in it with the value that it must give, or the error (E5)."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping

import msgspec

from tui_agent.engine.project_checks import python
from tui_agent.protocols.python_source import parsed

_CALL = re.compile(r"(?<![\w.`])`?([A-Za-z_]\w*\((?:[^()]|\([^()]*\))*\))`?")
_WITHIN = r"(?:[^.\n]|\.(?=\w)){0,60}?"
"""Up to the verb: within the sentence, a dot in a file's name allowed."""
_MUST = re.compile(
    rf"{_WITHIN}(?:(?:should|must|has to|needs to|ought to|shall) (?:return|be|give|yield|equal)|==|->|→|=>)"
    r"\s*(.+)"
)
_RAISES = re.compile(
    rf"{_WITHIN}(?:should |must |has to |needs to )?raises?\s+(\w+(?:Error|Exception|Interrupt))(\(.*?\))?"
)
_RAISES_ANYWHERE = re.compile(r"\braises? (?:an? )?(\w+(?:Error|Exception))(\(.*?\))?")
_IS = re.compile(rf"{_WITHIN}(?:returns|gives|yields|is|prints)\s+(.+)")
LIMIT = 5
"""Examples that are tried."""


class Example(msgspec.Struct, frozen=True):
    """A call and what has to come of it."""

    call: str
    module: str
    function: str
    want: str = ""
    """The value as Python writes it."""
    wrong: str = ""
    """The value that it gives now and must not give."""
    error: str = ""
    """The class of the error that it has to raise."""
    message: str | None = None

    @property
    def command(self) -> str:
        """A command that succeeds where the example holds, and prints what came instead."""
        return f"{python()} -B -c {_quoted(self._script())}"

    @property
    def expected(self) -> str:
        """What has to come of it, for people and models."""
        if self.error:
            given = f"({self.message!r})" if self.message is not None else ""
            return f"{self.call} must raise {self.error}{given}"
        return (
            f"{self.call} must return {self.want}"
            if self.want
            else f"{self.call} must not return {self.wrong}"
        )

    def _script(self) -> str:
        head = f"from {self.module} import {self.function}"
        if self.error:
            same = "pass" if self.message is None else f"assert str(error) == {self.message!r}, repr(error)"
            return (
                f"{head}\ntry:\n    got = {self.call}\nexcept {self.error} as error:\n    {same}\n"
                "else:\n    raise SystemExit('it returned ' + repr(got))"
            )
        test = f"got == {self.want}" if self.want else f"got != {self.wrong}"
        return f"{head}\ngot = {self.call}\nassert {test}, 'it returned ' + repr(got)"


def _quoted(script: str) -> str:
    """A script as one word of a shell, in double quotes where nothing in it means anything there."""
    return shlex.quote(script) if re.search(r'["$`\\!]', script) else f'"{script}"'


def examples_in(request: str, files: Mapping[str, str]) -> list[Example]:
    """The examples in a request of functions that the Python files define (path → content)."""
    modules: dict[str, str] = {}
    for name, text in files.items():
        tree = parsed(text) if name.endswith(".py") else None
        for node in tree.body if tree else ():
            if isinstance(node, ast.FunctionDef):
                modules[node.name] = name[:-3].replace("/", ".").removesuffix(".__init__")
    found = []
    for one in _CALL.finditer(request):
        function = _called(one.group(1))
        if function in modules:
            example = _read(one.group(1), function, modules[function], request[one.end() :], request)
            if example is not None:
                found.append(example)
    return found[:LIMIT]


def _called(text: str) -> str:
    """The function of a call whose arguments are literals; empty for all else, and for a call without arguments."""
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        assert call.args or call.keywords
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            ast.literal_eval(given)
    except (SyntaxError, ValueError, AssertionError, RecursionError):
        return ""
    return call.func.id


def _read(call: str, function: str, module: str, rest: str, request: str) -> Example | None:
    example = Example(call=call, module=module, function=function)
    must = _MUST.match(rest)
    if must is not None:
        value = _literal(must.group(1))
        return msgspec.structs.replace(example, want=value) if value else None
    raises = _RAISES.match(rest) or _RAISES_ANYWHERE.search(request)
    if raises is not None:
        message = _message(raises.group(2) or "")
        return msgspec.structs.replace(example, error=raises.group(1), message=message)
    wrong = _IS.match(rest)
    value = _literal(wrong.group(1)) if wrong is not None else ""
    return msgspec.structs.replace(example, wrong=value) if value else None


def _literal(text: str) -> str:
    """The longest literal with which a text begins, as Python writes it; empty where there is none."""
    text = text[:300].strip().lstrip("`")
    for end in range(len(text), 0, -1):
        part = text[:end].rstrip()
        if part.endswith(","):
            continue
        try:
            return repr(ast.literal_eval(part))
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
    return ""


def _message(given: str) -> str | None:
    try:
        value = ast.literal_eval(given.strip("()")) if given else None
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None
