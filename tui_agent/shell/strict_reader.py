"""A second, much stricter reader of shell text, for commands that run unasked (A1).

It knows simple commands, pipelines, lists, groups, `if`, `for`, loops over `read`, `[[`, plain variables and
substitutions. Text that it accepts means the same in bash; whatever else it meets, it rejects the whole text.
"""

from __future__ import annotations

import re

from tui_agent.shell.grammar import MAX_LENGTH
from tui_agent.shell.script import (
    Assignment,
    Choice,
    Command,
    For,
    Group,
    If,
    ListOperator,
    Part,
    Quoted,
    ReadLoop,
    Redirects,
    Script,
    ScriptPipeline,
    ScriptStep,
    ScriptWord,
    Simple,
    Substitution,
    Test,
    Text,
    Variable,
)

MAX_BRACES = 100
"""Words that a range in braces may stand for."""
MAX_NESTING = 8
"""Levels of groups, bodies and substitutions."""


class NotPlain(ValueError):
    """Text that the strict reader does not know."""


def parse_strict(text: str) -> Script | None:
    """Parse `text`; None if it holds anything that the strict reader does not know."""
    # Not printable are control characters, bidi and zero-width characters.
    if len(text) > MAX_LENGTH or not text.replace("\n", "").isprintable():
        return None
    reader = _Reader(text)
    try:
        script = reader.script(())
        return script if reader.position == len(text) and script else None
    except (NotPlain, RecursionError):
        return None


_BLANKS = re.compile(r"(?: |\\\n)+")
_LINES = re.compile(r"(?: |\\\n|\n|\#[^\n]*)+")
_COMMENT = re.compile(r"\#[^\n]*")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_UNQUOTED = re.compile(r"""[^\s|;&<>$`(){}\#'"\\]+|(?<=[^\s|;&()])\#""")
_BRACES = re.compile(r"\{([\w./+@%:-]*(?:,[\w./+@%:-]*)+)\}", re.ASCII)
_RANGE = re.compile(r"\{(\d{1,4})\.\.(\d{1,4})\}")
_LITERAL_BRACES = re.compile(r"\{[\w@:+-]*\}", re.ASCII)
_PARAMETER = re.compile(
    r"""\$(?: (?P<simple>[A-Za-z_]\w*|\?)
      | \{ (?P<name>[A-Za-z_]\w*) (?: (?P<operator>:-|-|\#\#?|%%?) (?P<argument>[\w ./*@:+,=-]*) )? \} )""",
    re.VERBOSE | re.ASCII,
)
_ARITHMETIC = re.compile(r"\$\(\(([0-9 +*/%-]{1,60})\)\)")
_DOUBLE_QUOTED = re.compile(r"""(?:[^"$`\\\n]|\\[$`"\\]|\\\n|\\(?![$`"\\\n]))+""")
_REDIRECT = re.compile(
    r"""(?P<both>&>) [ ]* /dev/null (?=[\s|;&)]|$)
      | (?P<null>[12]?>) [ ]* /dev/null (?=[\s|;&)]|$)
      | (?P<joined>2>&1 | 1?>&2) (?=[\s|;&)]|$)
      | (?P<text><<<) [ ]*
      | (?P<file><) (?![<>&(]) [ ]*""",
    re.VERBOSE,
)
_RESERVED = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "function",
        "select",
        "time",
        "coproc",
        "{",
        "}",
        "[[",
        "]]",
        "!",
    ]
)
_KEYWORD = re.compile(r"[a-z]+(?=[\s;&|()<>]|$)|[{!](?=\s|$)|\}(?=[\s;&|)]|$)|\[\[(?=\s)|\]\](?=[\s;&|)]|$)")


class _Reader:
    """Reads one text from its start. Raises NotPlain."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._depth = 0

    # --- scanning ---

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.position)
        if match:
            self.position = match.end()
        return match

    def _skip(self, literal: str) -> bool:
        found = self.text.startswith(literal, self.position)
        self.position += len(literal) * found
        return found

    def _expect(self, literal: str) -> None:
        if not self._skip(literal):
            raise NotPlain(f"{literal} is missing")

    def _keyword(self) -> str:
        """Return the reserved word at the position, without taking it."""
        match = _KEYWORD.match(self.text, self.position)
        return match[0] if match and match[0] in _RESERVED else ""

    def _expect_keyword(self, keyword: str) -> None:
        if self._keyword() != keyword:
            raise NotPlain(f"{keyword} is missing")
        self.position += len(keyword)

    # --- lists ---

    def script(self, ends: tuple[str, ...]) -> Script:
        """Read until one of the reserved words `ends`, or `)`, or the end of the text."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise NotPlain("nested too deeply")
        steps: list[ScriptStep] = []
        operator: ListOperator = ""
        while True:
            self._take(_LINES)
            at_end = self.position == len(self.text) or self.text[self.position] == ")"
            if at_end or self._keyword() in ends:
                if operator in ("&&", "||"):
                    raise NotPlain("nothing after the operator")
                break
            steps.append(ScriptStep(operator, self._pipeline()))
            self._take(_BLANKS)
            if self._skip("&&"):
                operator = "&&"
            elif self._skip("||"):
                operator = "||"
            elif self.text[self.position : self.position + 1] == "\n" or self._take(_COMMENT):
                operator = ";"
            elif self._skip(";"):
                operator = ";"
                if self.text.startswith(";", self.position):
                    raise NotPlain(";;")
            else:
                self._depth -= 1
                return tuple(steps)
        self._depth -= 1
        return tuple(steps)

    def _pipeline(self) -> ScriptPipeline:
        is_negated = self._keyword() == "!"
        if is_negated:
            self._expect_keyword("!")
            self._take(_BLANKS)
        commands = [self._command()]
        while True:
            self._take(_BLANKS)
            if self.text.startswith("||", self.position):
                break
            if self._skip("|&"):
                commands[-1] = _with_stderr(commands[-1])
            elif not self._skip("|"):
                break
            self._take(_LINES)
            commands.append(self._command())
        return ScriptPipeline(tuple(commands), is_negated)

    # --- commands ---

    def _command(self) -> Command:
        match self._keyword():
            case "{":
                self.position += 1
                script = self._body(("}",))
                self._expect_keyword("}")
                return Group(script, False, self._redirects())
            case "if":
                return self._if()
            case "for":
                return self._for()
            case "while":
                return self._while()
            case "[[":
                return self._test()
            case "":
                pass
            case _:
                raise NotPlain("a reserved word")
        if self._skip("("):
            if self.text.startswith("(", self.position):
                raise NotPlain("arithmetic")
            script = self._body(())
            self._expect(")")
            return Group(script, True, self._redirects())
        if (match := self._take(_ASSIGNMENT)) is not None:
            value = self._word(assigned=True)
            self._take(_BLANKS)
            if self.position < len(self.text) and self.text[self.position] not in ";&|\n)#":
                raise NotPlain("a variable for one command")
            return Assignment(match[1], value)
        return self._simple()

    def _body(self, ends: tuple[str, ...]) -> Script:
        script = self.script(ends)
        if not script:
            raise NotPlain("an empty body")
        return script

    def _simple(self) -> Simple:
        words: list[ScriptWord] = []
        redirects = Redirects()
        while True:
            self._take(_BLANKS)
            changed = self._redirect(redirects)
            if changed is not None:
                redirects = changed
            elif self.position < len(self.text) and self.text[self.position] not in "|&;\n)#":
                words.append(self._word())
            else:
                break
            if not words:
                raise NotPlain("a redirection comes first")
        if not words:
            raise NotPlain("no program")
        return Simple(tuple(words), redirects)

    def _redirects(self) -> Redirects:
        redirects = Redirects()
        while True:
            self._take(_BLANKS)
            changed = self._redirect(redirects)
            if changed is None:
                break
            redirects = changed
        if self.position < len(self.text) and self.text[self.position] not in "|&;\n)#":
            raise NotPlain("text after a group")
        return redirects

    def _redirect(self, redirects: Redirects) -> Redirects | None:
        match = self._take(_REDIRECT)
        if match is None:
            return None
        if match["both"]:
            return redirects._replace(stdout="null", stderr="null")
        if match["null"]:
            return redirects._replace(stderr="null") if match["null"] == "2>" else redirects._replace(stdout="null")
        if match["joined"]:
            if match["joined"] == "2>&1":
                return redirects._replace(stderr=redirects.stdout)
            return redirects._replace(stdout=redirects.stderr)
        if redirects.file or redirects.text:
            raise NotPlain("two inputs")
        word = self._word()
        return redirects._replace(file=word) if match["file"] else redirects._replace(text=word)

    def _if(self) -> If:
        self._expect_keyword("if")
        branches: list[tuple[Script | None, Script]] = []
        while True:
            condition = self._body(("then",))
            self._expect_keyword("then")
            branches.append((condition, self._body(("elif", "else", "fi"))))
            if self._keyword() != "elif":
                break
            self._expect_keyword("elif")
        if self._keyword() == "else":
            self._expect_keyword("else")
            branches.append((None, self._body(("fi",))))
        self._expect_keyword("fi")
        return If(tuple(branches), self._redirects())

    def _for(self) -> For:
        self._expect_keyword("for")
        self._take(_BLANKS)
        name = self._take(_NAME)
        self._take(_BLANKS)
        self._expect_keyword("in")
        words: list[ScriptWord] = []
        while self._take(_BLANKS) and self.position < len(self.text) and self.text[self.position] not in ";\n":
            words.append(self._word())
        if not name or not words:
            raise NotPlain("a loop over arguments")
        body = self._do()
        return For(name[0], tuple(words), body, self._redirects())

    def _do(self) -> Script:
        self._take(_BLANKS)
        if not self._skip(";") and self.text[self.position : self.position + 1] != "\n":
            raise NotPlain("do is missing")
        self._take(_LINES)
        self._expect_keyword("do")
        body = self._body(("done",))
        self._expect_keyword("done")
        return body

    def _while(self) -> ReadLoop:
        self._expect_keyword("while")
        self._take(_BLANKS)
        separators = None
        if self._skip("IFS="):
            separators = "" if self.text[self.position : self.position + 1] == " " else self._word().literal
            if separators is None or not re.fullmatch(r"[,:;| \t]?|\\t", separators):
                raise NotPlain("unusual separators")
        command = self._simple()
        words = [word.literal for word in command.words]
        if words[:1] != ["read"] or command.redirects != Redirects():
            raise NotPlain("a loop that does not read")
        is_raw, end, names = False, "\n", words[1:]
        while names and names[0] and names[0].startswith("-"):
            option = names.pop(0)
            if option == "-r":
                is_raw = True
            elif option == "-d" and names and names[0] == "":
                end = "\0"
                names.pop(0)
            else:
                raise NotPlain("an option of read")
        if not names or not all(name and _NAME.fullmatch(name) for name in names):
            raise NotPlain("names of read")
        body = self._do()
        return ReadLoop(tuple(map(str, names)), separators, is_raw, end, body, self._redirects())

    def _test(self) -> Test:
        self._expect_keyword("[[")
        tokens: list[ScriptWord | str] = []
        while True:
            self._take(_BLANKS)
            if self._keyword() == "]]":
                self._expect_keyword("]]")
                return Test(tuple(tokens), self._redirects())
            for operator in ("&&", "||", "(", ")", "! "):
                if self._skip(operator):
                    tokens.append(operator.strip())
                    break
            else:
                tokens.append(self._word())

    # --- words ---

    def _word(self, *, assigned: bool = False) -> ScriptWord:
        start = self.position
        parts: list[Part] = []
        while self.position < len(self.text) and self.text[self.position] not in " \n|;&<>()":
            part = self._part(is_first=self.position == start, assigned=assigned)
            if part is not None:
                parts.append(part)
        source = self.text[start : self.position]
        if not source and not assigned:
            raise NotPlain("a word is missing")
        if self.text[self.position : self.position + 1] in ("<", ">") and (source.isdigit() or source[:1] == "{"):
            raise NotPlain("another descriptor")
        if self.text[self.position : self.position + 1] == "(":
            raise NotPlain("a function, or a pattern of bash")
        return ScriptWord(tuple(parts), source)

    def _part(self, *, is_first: bool, assigned: bool) -> Part | None:
        if self._skip("\\\n"):
            return None
        match self.text[self.position]:
            case "'":
                end = self.text.find("'", self.position + 1)
                if end < 0:
                    raise NotPlain("an open quote")
                text = self.text[self.position + 1 : end]
                if "\n" in text:
                    raise NotPlain("a line end in quotes")
                self.position = end + 1
                return Text(text, True)
            case '"':
                return self._double_quoted()
            case "\\":
                character = self.text[self.position + 1 : self.position + 2]
                if not character:
                    raise NotPlain("a backslash at the end")
                self.position += 2
                return Text(character, True)
            case "$":
                return self._expansion(quoted=False)
            case "{":
                return self._braces(assigned)
            case "}":
                if is_first:
                    raise NotPlain("a brace")
                self.position += 1
                return Text("}", False)
        match_ = self._take(_UNQUOTED)
        if match_ is None:
            raise NotPlain("an unusual character")
        if (match_[0].startswith("~") and is_first) or re.search(r"[=:]~", match_[0]):
            raise NotPlain("a home folder")
        return Text(match_[0], assigned)  # an assigned value is no pattern

    def _double_quoted(self) -> Part:
        self.position += 1
        parts: list[Part] = []
        while not self._skip('"'):
            if (match := self._take(_DOUBLE_QUOTED)) is not None:
                text = re.sub(r'\\([$`"\\])|\\\n', lambda found: found[1] or "", match[0])
                parts.append(Text(text, True))
            elif self.text[self.position : self.position + 1] == "$":
                parts.append(self._expansion(quoted=True))
            else:
                raise NotPlain("an open quote, or a backtick")
        return Quoted(tuple(parts))

    def _expansion(self, *, quoted: bool) -> Part:
        if match := self._take(_ARITHMETIC):
            return Text(_calculate(match[1]), quoted)
        if match := self._take(_PARAMETER):
            following = self.text[self.position : self.position + 1]
            if match["simple"] and following == "[" and not quoted:
                raise NotPlain("an array or a pattern")
            argument = match["argument"] or ""
            if match["operator"] and not match["operator"].endswith("-") and not quoted and " " in argument:
                raise NotPlain("an unusual pattern")
            return Variable(match["simple"] or match["name"], match["operator"] or "", argument, quoted)
        if self.text.startswith("$((", self.position) or not self._skip("$("):
            if quoted and re.match(r"\$(?=[ \"/.,:;|)\]]|$)", self.text[self.position :]):
                self.position += 1
                return Text("$", True)
            raise NotPlain("an expansion")
        script = self._body(())
        self._expect(")")
        return Substitution(script, quoted)

    def _braces(self, assigned: bool) -> Part:
        if not assigned and (match := self._take(_BRACES)):
            return Choice(tuple(match[1].split(",")))
        if not assigned and (match := self._take(_RANGE)):
            first, last = int(match[1]), int(match[2])
            if ((match[1] + match[2]).startswith("0") and len(match[1]) > 1) or abs(first - last) >= MAX_BRACES:
                raise NotPlain("a range")
            return Choice(tuple(map(str, range(first, last + 1) if first <= last else range(first, last - 1, -1))))
        match = self._take(_LITERAL_BRACES)
        if match is None:
            raise NotPlain("braces")
        return Text(match[0], True)


def _calculate(source: str) -> str:
    """Calculate with whole numbers, as the shell does."""
    import ast

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int() as number) if number < 10**9:
                return number
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return value(left) + value(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return value(left) - value(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return value(left) * value(right)
        raise NotPlain("arithmetic")

    try:
        return str(value(ast.parse(source.strip(), mode="eval").body))
    except SyntaxError:
        raise NotPlain("arithmetic") from None


def _with_stderr(command: Command) -> Command:
    """Return the command in front of `|&`."""
    if not isinstance(command, Simple | Group):
        raise NotPlain("|&")
    return command._replace(redirects=command.redirects._replace(stderr=command.redirects.stdout))
