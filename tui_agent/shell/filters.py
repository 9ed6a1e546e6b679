"""Decide whether a program in the language of awk, sed or jq only prints: it must not write, run or read anything else.

Each reader knows a part of its language, and rejects whatever it does not know.
"""

from __future__ import annotations

import re

_AWK_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\\\n|\#[^\n]*)
      | (?P<end>[\n;{}])
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<operator>\+\+|--|&&|\|\||[=!<>+*%^/-]=|!~|[!~?:=<>+*%^,$()\[\]-])
    """,
    re.VERBOSE | re.ASCII,
)
_AWK_REGEX = re.compile(r"/(?:[^/\\\n]|\\.)+/")
_AWK_FORBIDDEN = frozenset(
    (
        *("system", "getline", "close", "fflush", "ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB", "ARGV", "ARGC", "ARGIND"),
        *("function", "func", "extension", "include", "while", "do"),
    )
)
_AWK_SUSPICIOUS = re.compile(r"system\s*\(|getline|ENVIRON|PROCINFO|\|\s*\"|\|&")
_AWK_CONTROL = frozenset(("if", "for", "switch"))
"""Words whose closing parenthesis begins a statement."""
_AWK_BEFORE_REGEX = frozenset(
    (
        *("", "\n", "(", ",", "{", "}", ";", "!", "~", "&&", "||", "!~", "?", ":", "=", "==", "!=", "[", "<", ">"),
        *("<=", ">=", "+", "-", "*", "/", "%", "^", "+=", "-=", "*=", "/=", "%=", "^=", "$", "if )"),
        *("print", "printf", "return", "else", "in", "case", "exit"),
    )
)
"""Tokens after which a slash begins a regular expression."""
_AWK_BEFORE_DIVISION = re.compile(
    r'[)\]"\d.]|/…/|(?!(?:BEGIN|END|delete|next|nextfile|break|continue|default|length)$)[A-Za-z_]'
)
"""How a token begins after which a slash divides; after any other the awks disagree, or reject it."""


def awk_only_prints(program: str) -> bool:
    """Return whether an awk program reads nothing but its input files, runs nothing, only prints, and ends."""
    if _AWK_SUSPICIOUS.search(program) or re.search(r"for\s*\([^;)]*;\s*;", program):
        return False
    position, depth, prints, previous = 0, 0, False, ""
    opened: list[bool] = []
    while position < len(program):
        if program[position] == "/" and previous in _AWK_BEFORE_REGEX:
            match = _AWK_REGEX.match(program, position)
            # Awks disagree whether a slash in brackets ends the expression.
            if match is None or _has_open_bracket(match[0]):
                return False
            position, previous = match.end(), "/…/"
            continue
        match = _AWK_TOKEN.match(program, position)
        if program[position] == "/":
            if not _AWK_BEFORE_DIVISION.match(previous):
                return False
            if match is None:
                position, previous = position + 1, "/"
                continue
        if match is None:
            return False
        position = match.end()
        if match["space"]:
            continue
        token = match[0]
        if match["name"] in _AWK_FORBIDDEN:
            return False
        if match["end"]:
            prints, depth = prints and token == "\n", 0  # a line end after a comma continues `print`
        prints |= token in ("print", "printf")
        depth += (token == "(") - (token == ")")
        if token == "(":
            opened.append(previous in _AWK_CONTROL)
        elif token == ")" and opened and opened.pop():
            token = "if )"
        # After `print`, outside of parentheses, `>` names a file.
        if token.startswith(">") and prints and depth <= 0:
            return False
        previous = token
    return True


def _has_open_bracket(expression: str) -> bool:
    unescaped = re.sub(r"\\.|\[:\w+:\]", "c", expression)
    return "[" in re.sub(r"\[\^?\]?+[^\]]*\]", "", unescaped)


_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)+/I?)"
_SED_RANGE = re.compile(rf"\s*(?:{_SED_ADDRESS}\s*(?:,\s*(?:{_SED_ADDRESS}|[+~]\d+))?)?\s*!?\s*")
_SED_COMMAND = re.compile(r"[pdqQ=nNgGhHxlDP](?=\s*(?:[;\n}]|$))")
_SED_SUBSTITUTE = re.compile(r"([sy])([^\w\s\\;{}])")
_SED_FLAGS = re.compile(r"(?:[gpiI]|\d+)*(?=\s*(?:[;\n}]|$))")


def sed_only_prints(script: str) -> bool:
    """Return whether a sed script reads and writes no other files, and runs nothing."""
    position, depth = 0, 0
    used: set[str] = set()
    while position < len(script):
        position = _match_end(re.compile(r"[\s;]*"), script, position)
        if position == len(script):
            break
        address = position
        position = _match_end(_SED_RANGE, script, position)
        if _has_open_bracket(script[address:position]):
            return False  # a slash in brackets does not end an expression
        if script[position : position + 1] in ("{", "}"):
            depth += 1 if script[position] == "{" else -1
            position += 1
            continue
        used.add(script[position : position + 1])
        end = _match_end(_SED_COMMAND, script, position)
        if end == position:
            end = _substitution_end(script, position)
        if end == position:
            return False
        position = end
    # `D` begins anew with what is left, which these can make longer.
    return depth == 0 and not ("D" in used and used & set("gGhHx"))


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _substitution_end(script: str, position: int) -> int:
    """Return the end of an `s` or `y` command; the position itself if it is none, or does more than replace."""
    start = _SED_SUBSTITUTE.match(script, position)
    if start is None:
        return position
    delimiter = re.escape(start[2])
    part = rf"((?:[^{delimiter}\\]|\\.|\\\n)*){delimiter}"
    parts = re.compile(part + part).match(script, start.end())
    if parts is None or _has_open_bracket(parts[1]):
        return position
    flags = _SED_FLAGS.match(script, parts.end())
    return flags.end() if flags else position


_JQ_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_JQ_FORBIDDEN = re.compile(
    r"(?<![.\w])(?:env|import|include|input_filename|getpath_file|modulemeta|get_search_list|halt_error|debug|stderr"
    r"|repeat|until|while|infinite|recurse_down|def|limit)\b"
    r"|\$ENV|\$__|@include"
)


def jq_only_prints(program: str) -> bool:
    """Return whether a jq filter reads neither the environment nor other files, and comes to an end."""
    # A string in an interpolated expression is not told from what surrounds it.
    code = program if "\\(" in program else _JQ_STRING.sub('""', program)
    return not _JQ_FORBIDDEN.search(code)


_YQ_PATH = re.compile(r"""[\w.\[\]|"'*, ?:/-]+""")


def yq_only_prints(program: str) -> bool:
    """Return whether a yq filter is a plain path: the several programs of this name have operators that read files."""
    return bool(_YQ_PATH.fullmatch(program)) and not re.search(r"(?<![.\w])(?:env|strenv|load\w*|envsubst)\b", program)
