"""What the small scripts say that `sed`, `awk` and interpreters get as an argument: do they run or write something?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui_agent.domain import Severity
from tui_agent.shell.places import Ground, Say, table, writes
from tui_agent.shell.syntax import Word

if TYPE_CHECKING:
    import ast

NONE, MEDIUM, HIGH = Severity.NONE, Severity.MEDIUM, Severity.HIGH
_PRINTING = {
    "print", "len", "str", "int", "float", "bool", "repr", "sorted", "sum", "min", "max", "abs", "round", "range",
    "list", "dict", "set", "tuple", "type", "ord", "chr", "hex", "bin", "divmod", "enumerate", "zip",
}  # fmt: skip
_SED_ADDRESS = re.compile(r"(?:\d+|\$|[,!~+{};\s])+")
_SED_PLAIN = re.compile(r"[=dDgGhHlnNpPxzFqQ]\s*\d*|[btT:][^;\n}]*|[rR][^\n]*|#[^\n]*|[aic](?:\\\n|[^\n])*")
_JS_SAYS = re.compile(r"""(console\.log\()?(["'][^"'`]*["']|[\w\s+*/.,%-])*\)?;?""")
_PERL_SAYS = re.compile(r"""(print|puts|p|say|echo)\b[^;`(|]*;?""")


def sed(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    """`sed`: in place, and the `w` and `e` of its script."""
    scripts = [texts[place + 1] for place, text in enumerate(texts[:-1]) if text in ("-e", "--expression")]
    scripts += [text.partition("=")[2] for text in texts if text.startswith("--expression=")]
    operands = [place for place, text in enumerate(texts) if not text.startswith("-") or text == "-"]
    if any(re.match(r"-[a-zA-Z]*i|--in-place", text) for text in texts):
        say(MEDIUM, "Changes files in place.")
        for place in operands if scripts else operands[1:]:
            named = arguments[place].source.startswith(("/", "~", '"$', "$"))
            writes(arguments[place], ground, say) if named else ground.spot(arguments[place])
    if not scripts and not any(re.match(r"-[nErsuz]*f|--file", text) for text in texts):
        scripts = [texts[place] for place in operands[:1]]
    for script in scripts:
        files, runs, read = _sed_script(script)
        if runs:
            say(HIGH, "sed runs another program.")
        for name in files:
            writes(Word(source=name, text=name), ground, say)
        if not read:
            say(MEDIUM, "The sed script could not be read.")


def _sed_script(script: str) -> tuple[list[str], bool, bool]:
    """Files it writes, whether it runs something, whether it was read to its end."""
    files: list[str] = []
    runs, at = False, 0
    while at < len(script):
        letter = script[at]
        if found := _SED_ADDRESS.match(script, at) or _SED_PLAIN.match(script, at):
            at = found.end()
        elif letter in "/\\":
            at += letter == "\\"
            end = _past(script, at, 1)
            if end is None:
                return files, runs, False
            at = end + len(re.match(r"[IM]*", script[end:])[0])  # type: ignore[index]  # an empty match is a match
        elif letter in "sy":
            end = _past(script, at + 1, 2)
            if end is None:
                return files, runs, False
            flags = re.compile(r"[gpiImM\d]*(e?)[gpiImM\d]*(?:w\s*([^\n]+))?").match(script, end)
            assert flags
            runs |= bool(flags[1]) and letter == "s"
            files += [flags[2].strip()] if flags[2] else []
            at = flags.end()
        elif letter in "wWe":
            end = script.find("\n", at) if "\n" in script[at:] else len(script)
            runs |= letter == "e"
            files += [script[at + 1 : end].strip()] if letter != "e" else []
            at = end
        else:
            return files, runs, False
    return files, runs, True


def _past(script: str, at: int, parts: int) -> int | None:
    """Behind the delimiter that ends the last of the parts; the first delimiter is at `at`."""
    if at >= len(script):
        return None
    delimiter, inside = script[at], False
    place = at + 1
    while place < len(script) and parts:
        letter = script[place]
        if letter == "\\":
            place += 1
        elif inside:
            inside = letter != "]"
        elif letter == delimiter:
            parts -= 1
        elif letter == "[" and "]" in script[place + 2 :]:
            inside = True
            place += script[place + 1 : place + 2] in ("]", "^")
        place += 1
    return None if parts else place


def awk(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    """`awk`: pipes, `system()` and files of its program; what stands in its strings and patterns is data."""
    for text in texts:
        said = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        said = re.sub(r"(^|[~(,!&|;{}\n])(\s*)/(?:[^/\\\n]|\\.)*/", r"\1\2", said)
        if re.search(
            r"system\s*\(|(?<!\|)\|(?!\|)\s*(getline|\"|&|\w|\()|/inet/|@load",
            said + text * ("/inet/" in text),
        ):
            say(HIGH, "awk runs another program.")
        elif re.search(r"print[^;}]*>", said) or text in ("-i", "inplace"):
            say(MEDIUM, "awk writes a file.")
            for name in re.findall(r'>\s*"([^"]+)"', text):
                writes(Word(source=name, text=name), ground, say)
    if any(argument.text is None for argument in arguments[:1]):
        say(MEDIUM, "The awk program is only known when it runs.")


def interpreter(program: str, arguments: Sequence[Word], say: Say, fed: bool, given: str) -> None:
    """An interpreter with code in its arguments, a script, a module, or `given` on its input."""
    letters = table()["interpreters"][program]
    for place, argument in enumerate(arguments):
        text = argument.text or ""
        if letters and re.fullmatch(rf"-[a-zA-Z]*[{letters}]|--eval|--print|-[cC]ommand", text):
            _code(program, arguments[place + 1].text if place + 1 < len(arguments) else "", say)
            return
        if text == "-m" and place + 1 < len(arguments):
            _module(arguments[place + 1].text or "", [a.text or "" for a in arguments[place + 2 :]], say)
            return
        if text not in ("-", "/dev/stdin") and (not text.startswith("-") or argument.text is None):
            foreign = argument.text is None and argument.source.startswith("<(")
            say(HIGH if foreign else MEDIUM, f"{program} runs {argument.source}", always=foreign)
            return
    if given and not fed:
        _code(program, given, say)
    say(HIGH if fed else MEDIUM, f"{program} runs what it is given on its input.", always=fed)


def _code(program: str, code: str | None, say: Say) -> None:
    if code and _only_says(program, code):
        return
    risky = code is None or re.search(table()["code"], code)
    say(HIGH if risky else MEDIUM, f"{program} runs code from its arguments.")


def _only_says(program: str, code: str) -> bool:
    """Whether the code does nothing but print what it holds itself."""
    if program.startswith(("python", "pypy")):
        import ast

        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        return all(_harmless(node) for node in ast.walk(tree))
    if program in ("node", "nodejs", "bun"):
        return _JS_SAYS.fullmatch(code.strip()) is not None
    return program in ("perl", "ruby", "php") and _PERL_SAYS.fullmatch(code.strip()) is not None


def _harmless(node: ast.AST) -> bool:
    import ast

    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _PRINTING
    if isinstance(node, ast.Attribute):
        return not node.attr.startswith("_") or node.attr in ("__version__", "__file__", "__name__")
    return not isinstance(
        node,
        ast.FunctionDef
        | ast.AsyncFunctionDef
        | ast.ClassDef
        | ast.While
        | ast.Delete
        | ast.Lambda
        | ast.Assign,
    )


def _module(module: str, rest: list[str], say: Say) -> None:
    checks = "pytest unittest mypy ruff flake8 pylint black isort doctest compileall json.tool tokenize ast dis pydoc"
    reads = module == "pip" and rest[:1] in (["list"], ["show"], ["freeze"], ["check"])
    say(NONE if module in checks.split() or reads else MEDIUM, f"Runs the module {module}.")
