"""Rate interpreters by the code that they are given: in an argument, a script, a module, or on standard input (A1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui_agent.common.domain import Severity
from tui_agent.shell.targets import NamedPath, PathScope, names, severity_table
from tui_agent.shell.wrapped_commands import Invocation

if TYPE_CHECKING:
    import ast

NONE, MEDIUM, HIGH = Severity.NONE, Severity.MEDIUM, Severity.HIGH

_JS_PRINT = re.compile(r"""(console\.log\()?(["'][^"'`]*["']|[\w\s+*/.,%-])*\)?;?""")
_PERL_PRINT = re.compile(r"""(print|puts|p|say|echo)\b(?!.*\bqx)[^;`(|{]*;?""")


def rate_interpreter(call: Invocation) -> None:
    """Rate an interpreter that runs code in its arguments, a script, a module, or its standard input."""
    program, arguments = call.program, call.arguments
    letters = severity_table()["interpreters"][program]
    flags = severity_table()["interpreter_flags"].get(program, "")
    values = severity_table()["interpreter_values"].get(program, "").split()
    for index, argument in enumerate(arguments, 1):
        text = argument.text or ""
        if index > 1 and arguments[index - 2].text in values:
            continue
        if letters and re.fullmatch(rf"-{flags or '[a-zA-Z]*'}[{letters}]|--eval|--print|-[cC]ommand", text):
            _rate_code(call, arguments[index].text if index < len(arguments) else "")
            return
        if letters and (glued := re.match(rf"-{flags}[{letters}](.+)|--(?:eval|print)=(.*)", text, re.DOTALL)):
            _rate_code(call, glued[1] or glued[2])
            return
        if text == "-m" and index < len(arguments):
            _rate_module(call, arguments[index].text or "", [a.text or "" for a in arguments[index + 1 :]])
            return
        if text == "-mtimeit":
            _rate_module(call, "timeit", [a.text or "" for a in arguments[index:]])
            return
        if text not in ("-", "/dev/stdin") and (not text.startswith("-") or argument.text is None):
            is_output = argument.text is None and argument.source.startswith("<(")
            call.report(HIGH if is_output else MEDIUM, f"{program} runs {argument.source}", always=is_output)
            return
    is_piped = bool(call.sources)
    if call.input_text and not is_piped:
        _rate_code(call, call.input_text)
    call.report(HIGH if is_piped else MEDIUM, f"{program} runs its standard input.", always=is_piped)


def _rate_code(call: Invocation, code: str | None) -> None:
    """Rate code in the arguments, and note the files that it names."""
    program, scope = call.program, call.scope
    if code and _only_prints(program, code):
        return
    is_known = code is not None and is_ordinary_code(program, code, scope)
    for path in re.findall(r"""["']((?:[\w@.-]+/)*[\w@-]*\.[\w.-]+)["']""", code or ""):
        if "/" in path or not path.endswith(".key"):  # else rather a name in a table
            scope.named.append(NamedPath(scope.absolute(path), program))
    call.report(MEDIUM if is_known else HIGH, f"{program} runs code from its arguments.")


def _only_prints(program: str, code: str) -> bool:
    """Return whether the code does nothing but print what is written in it."""
    if program.startswith(("python", "pypy")):
        import ast

        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        return all(_is_harmless(node) for node in ast.walk(tree))
    if program in ("node", "nodejs", "bun"):
        return _JS_PRINT.fullmatch(code.strip()) is not None
    return program in ("perl", "ruby", "php") and _PERL_PRINT.fullmatch(code.strip()) is not None


_SUBSTITUTION = re.compile(
    r"(s([/|#!,])(?:(?!\2|\(\?\??\{|@\{)[^\\]|\\.)*\2(?:(?!\2|@\{)[^\\]|\\.)*\2[gimsx]*;?\s*)+", re.DOTALL
)
_LOCAL_ADDRESS = re.compile(r"\w+://([^/@\s]*@)?(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]|testserver|test)([:/?]|$)")
_ADDRESS = re.compile(r"\w+://[^\s\"'`]*")
_MAX_CODE = 20_000
"""Characters of code that are looked at; longer code counts as unknown."""


def is_ordinary_code(program: str, code: str, scope: PathScope) -> bool:
    """Return whether code only computes, prints, and reads or writes files of the workspace.

    It may use the project's own code, as a test does. `scope`: where relative paths start.
    """
    if len(code) > _MAX_CODE or not all(map(_LOCAL_ADDRESS.match, _ADDRESS.findall(code))):
        return False
    language = severity_table()["languages"].get(program, "ruby")
    if language == "python":
        return _is_ordinary_python(code, scope)
    if program == "perl" and _SUBSTITUTION.fullmatch(code):
        return True
    texts = re.findall(r"""'([^'\n]*)'|"([^"\n]*)"|`([^`\n]*)`""", code)
    if any(_leads_out(text, scope) for match in texts for text in match if text):
        return False
    risky = severity_table()["risky_code"]
    if re.search(r"(writeFile|appendFile)\w*\(\s*[^'\"\s]", code) and "readFile" not in code:
        return False
    return re.search(risky[language], code) is None


def _leads_out(text: str, scope: PathScope) -> bool:
    """Return whether a text in code names a file outside the workspace, rather than an address of a web page."""
    if not re.match(r"/[\w.]|~|\.\.(/|$)", text) and "/../" not in text:
        return False
    first = text.split("/")[1] if text.startswith("/") else ""
    is_path = not first or f"/{first}" in names("system") or first in ("tmp", "private", "workspace", "srv", "data")
    return is_path and scope.is_outside(scope.absolute(text))


def _is_ordinary_python(code: str, scope: PathScope) -> bool:
    """Return whether Python code uses nothing that starts programs, deletes, hides names, or leads out."""
    import ast

    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    used = {name for node in nodes for name in _names(node)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    imported = {name for node in nodes for name in _imported(node)}
    if {name.split(".")[0] for name in imported} & names("risky_modules") or used & names("risky_names"):
        return False
    if any(name.startswith("__") and name not in names("harmless_dunders") for name in used):
        return False
    if any(_leads_out(text, scope) or re.search(severity_table()["risky_statements"], text) for text in texts):
        return False
    if used & {"open", "Path"} and ("chr" in used or _has_bare_root(nodes) or any(map(_is_split_text, nodes))):
        return False
    modules = [argument for call in calls if "import_module" in _names(call.func) for argument in call.args]
    if any(getattr(module, "value", "os") in names("risky_modules") | {"os", "shutil"} for module in modules):
        return False
    is_online = any(name.split(".")[0] in names("web_modules") and name != "urllib.parse" for name in imported)
    if is_online and not any(map(_ADDRESS.search, texts)):
        return False
    for node in nodes:
        owner = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id in ("os", "shutil") and _attribute(node) not in names("os_names"):
            return False
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant):
            return False
    return _writes_known_files(calls, texts, used)


def _has_bare_root(nodes: Sequence[ast.AST]) -> bool:
    """Return whether code uses `/` for something else than to split or join text."""
    import ast

    harmless: set[int] = set()
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in names("text_methods")
        ):
            harmless |= {id(argument) for argument in (*node.args, node.func.value)}
        elif isinstance(node, ast.Compare):
            harmless |= {id(node.left), *map(id, node.comparators)}
    return any(
        isinstance(node, ast.Constant) and node.value in ("/", "//", b"/") and id(node) not in harmless
        for node in nodes
    )


def _is_split_text(node: ast.AST) -> bool:
    """Return whether two texts are joined that could be one: that hides a name."""
    import ast

    parts = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else ()
    return bool(parts) and all(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)


def _attribute(node: ast.AST) -> str:
    return str(getattr(node, "attr", ""))


def _names(node: ast.AST) -> tuple[str, ...]:
    import ast

    if isinstance(node, ast.Name):
        return (node.id,)
    return (node.attr,) if isinstance(node, ast.Attribute) else ()


def _imported(node: ast.AST) -> list[str]:
    """Return the modules that a statement imports; with what it takes from os and shutil."""
    import ast

    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if not (alias.name in ("os", "shutil") and not alias.asname)]
    if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil"):
        return [] if all(alias.name in names("os_names") for alias in node.names) else ["subprocess"]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _writes_known_files(calls: Sequence[ast.Call], texts: Sequence[str], used: set[str]) -> bool:
    """Return whether code that writes names its files, or changes what it has read before, and empties none."""
    import ast

    modes = [
        str(getattr(argument, "value", ""))
        for call in calls
        if "open" in _names(call.func)
        for argument in [*call.args[1 - isinstance(call.func, ast.Attribute) :], *(k.value for k in call.keywords)]
    ]
    opens = any(re.fullmatch(r"[rwaxbt+]*[wax+][rwaxbt+]*", mode) for mode in modes)
    writes = used & names("writing_names")
    if not (opens or writes & {"write_text", "write_bytes"}):
        return True
    reads = bool(used & {"read", "read_text", "readlines", "load", "loads", "read_bytes", "safe_load", "splitlines"})
    is_known = any(re.fullmatch(r"[\w@.-]+(/[\w@.-]+)*\.\w+|[\w-]+/[\w/-]+", text) for text in texts)
    empties = any(
        set(_names(call.func)) & {"write_text", "write_bytes", "write"}
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and not call.args[0].value
        for call in calls
    )
    return bool(writes or "print" in used) and (reads or is_known) and not empties


def _is_harmless(node: ast.AST) -> bool:
    import ast

    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in names("print_functions")
    if isinstance(node, ast.Attribute):
        return not node.attr.startswith("_") or node.attr in ("__version__", "__file__", "__name__")
    return not isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.While | ast.Delete | ast.Lambda | ast.Assign
    )


def _rate_module(call: Invocation, module: str, arguments: list[str]) -> None:
    only_reads = module == "pip" and arguments[:1] in (["list"], ["show"], ["freeze"], ["check"])
    if module == "timeit":
        for text in arguments:
            if not text.startswith("-"):
                _rate_code(call, text)
    call.report(NONE if module in names("check_modules") or only_reads else MEDIUM, f"Runs the module {module}.")
