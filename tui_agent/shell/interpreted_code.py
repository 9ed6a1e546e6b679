"""Rate interpreters by the code that they are given: in an argument, a script, a module, or on standard input (A1)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tui_agent.common.domain import Severity
from tui_agent.shell.targets import ReportSeverity, names, severity_table
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
            _rate_code(program, arguments[index].text if index < len(arguments) else "", call.report)
            return
        if letters and (glued := re.match(rf"-{flags}[{letters}](.+)|--(?:eval|print)=(.*)", text, re.DOTALL)):
            _rate_code(program, glued[1] or glued[2], call.report)
            return
        if text == "-m" and index < len(arguments):
            _rate_module(arguments[index].text or "", [a.text or "" for a in arguments[index + 1 :]], call.report)
            return
        if text not in ("-", "/dev/stdin") and (not text.startswith("-") or argument.text is None):
            is_output = argument.text is None and argument.source.startswith("<(")
            call.report(HIGH if is_output else MEDIUM, f"{program} runs {argument.source}", always=is_output)
            return
    is_piped = bool(call.sources)
    if call.input_text and not is_piped:
        _rate_code(program, call.input_text, call.report)
    call.report(HIGH if is_piped else MEDIUM, f"{program} runs its standard input.", always=is_piped)


def _rate_code(program: str, code: str | None, report: ReportSeverity) -> None:
    if code and _only_prints(program, code):
        return
    is_python = program.startswith(("python", "pypy"))
    is_plain = code is not None and (_is_plain_python(code) if is_python else _is_plain_script(program, code))
    risky = code is None or not is_plain or re.search(severity_table()["code"], code.replace("require(", ""))
    report(HIGH if risky else MEDIUM, f"{program} runs code from its arguments.")


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


def _is_plain_script(program: str, code: str) -> bool:
    """Return whether code of Perl only replaces text, or code of Node.js only prints what files of the project hold."""
    if program == "perl":
        return _SUBSTITUTION.fullmatch(code) is not None
    if program not in ("node", "nodejs", "bun"):
        return False
    calls = re.findall(r"([\w$]+(?:\.[\w$]+)*)\s*\(", code)
    required = re.findall(r"require\(([^)]*)\)", code)
    return (
        all(
            name in names("script_calls") or name.rpartition(".")[2] in names("script_calls") - {"require"}
            for name in calls
        )
        and all(re.fullmatch(r"""["']\./(?!.*\.\./)[\w./-]+\.json["']""", name) for name in required)
        and not re.search(r"import|constructor|`|\bprocess\.(?!version|arch|platform)|\]\s*\(|=[^=>]|while|for\b", code)
    )


def _is_plain_python(code: str) -> bool:
    """Return whether code imports only modules that neither change files nor run programs, and uses no hidden names."""
    import ast

    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in nodes:
        imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            imported = [node.module or ""]
        if any(name.split(".")[0] in names("risky_modules") for name in imported):
            return False
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in names("risky_names") or (
                name.startswith("__") and name not in ("__version__", "__file__", "__name__", "__doc__")
            ):
                return False
        if isinstance(node, ast.While):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"(/|~|\.\./)\w", node.value):
            return False
    return True


def _is_harmless(node: ast.AST) -> bool:
    import ast

    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in names("print_functions")
    if isinstance(node, ast.Attribute):
        return not node.attr.startswith("_") or node.attr in ("__version__", "__file__", "__name__")
    return not isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.While | ast.Delete | ast.Lambda | ast.Assign
    )


def _rate_module(module: str, arguments: list[str], report: ReportSeverity) -> None:
    only_reads = module == "pip" and arguments[:1] in (["list"], ["show"], ["freeze"], ["check"])
    report(NONE if module in names("check_modules") or only_reads else MEDIUM, f"Runs the module {module}.")
