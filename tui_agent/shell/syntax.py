"""Parse shell text into simple commands: their words, assignments and redirections, wherever in the text they are."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeAlias

from msgspec.structs import replace

from tui_agent.common.domain import FrozenValue
from tui_agent.shell.grammar import syntax_tree, unparsable_reason

if TYPE_CHECKING:
    from tree_sitter import Node

_ANSI_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}

SourceOf: TypeAlias = "Callable[[Node], str]"
"""Returns the source text of a node."""


def literal_text(node: Node, source_of: SourceOf) -> tuple[str | None, bool]:
    """Return the text that a program gets (None if something is expanded), and whether `$'…'` is part of it."""
    source = source_of(node)
    match node.type:
        case "word" | "number" | "extglob_pattern" | "variable_name" | "test_operator":
            # With a child it is an arithmetic expansion in disguise, such as `$((1))#`.
            return (None, False) if node.child_count else (re.sub(r"\\(?:\n|(.))", r"\1", source), False)
        case "raw_string":
            return source[1:-1], False
        case "string":
            if any(child.is_named and child.type != "string_content" for child in node.children) or "`" in source:
                return None, False
            return re.sub(r'\\(?:\n|([$`"\\]))', lambda match: match[1] or "", source[1:-1]), False
        case "ansi_c_string":
            return _ANSI_ESCAPE.sub(_ansi_character, source[2:-1]), True
        case "translated_string":
            return literal_text(node.children[-1], source_of)
        case "concatenation":
            parts = [literal_text(child, source_of) for child in node.children]
            texts = [text for text, _ in parts if text is not None]
            return ("".join(texts) if len(texts) == len(parts) else None), any(is_ansi for _, is_ansi in parts)
        case _:
            return (None, False) if node.is_named else (source, False)


def _ansi_character(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _ANSI_LETTERS.get(code, code)


def is_pattern(node: Node, source_of: SourceOf) -> bool:
    """Return whether the shell would expand file names, braces or `~` in an unquoted part of the node."""
    if node.type == "concatenation":
        return any(is_pattern(child, source_of) for child in node.children)
    if node.type not in ("word", "extglob_pattern"):
        return False
    unescaped = re.sub(r"\\.", "", source_of(node))
    return unescaped.startswith("~") or any(character in unescaped for character in "*?[{")


MAX_COMMANDS = 50
MAX_DEPTH = 10
"""Nesting of substitutions, loops and groups beyond which text is not parsed."""

_NESTING = re.compile(
    r".*_substitution|subshell|compound_statement|do_group|(if|case)_statement|function_definition|(arithmetic_)?expansion"
)
_STATEMENTS = re.compile(
    r"list|pipeline|command|redirected_statement|(declaration|unset)_command|variable_assignments?"
)
_OPERATORS = frozenset(("&&", "||", ";", "&", "|", "|&", "\n", ";;"))


class Word(FrozenValue, frozen=True, kw_only=True):
    """One word of a command."""

    source: str
    """As it is written."""
    text: str | None
    """What the program gets; None if the shell expands something in it (file names aside)."""
    is_pattern: bool = False
    """Whether it contains an unquoted `*`, `?`, `[` or brace, or begins with `~`."""

    @classmethod
    def literal(cls, text: str, *, is_pattern: bool = False) -> Self:
        """A word without quotes."""
        return cls(source=text, text=text, is_pattern=is_pattern)

    @property
    def display_text(self) -> str:
        """The text, or the source where the text is empty or unknown."""
        return self.text or self.source


class Redirect(FrozenValue, frozen=True, kw_only=True):
    """A redirection."""

    operator: str
    """With its file descriptor."""
    target: Word | None
    body: str = ""
    """Text of a here-document or here-string."""


class SimpleCommand(FrozenValue, frozen=True, kw_only=True):
    """A simple command. It has no words if it only assigns, or stands for the redirections of a group."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()


class Pipeline(FrozenValue, frozen=True, kw_only=True):
    """Commands joined by pipes."""

    commands: tuple[SimpleCommand, ...]
    operator: str = ""
    """The operator in front of it: `&&`, `||`, `;`, or nothing."""
    sources: tuple[SimpleCommand, ...] = ()
    """Commands that are piped into the group or loop that contains it."""


class ParsedCommand(FrozenValue, frozen=True, kw_only=True):
    """A whole command line; `pipelines` includes those of substitutions, bodies and branches."""

    pipelines: tuple[Pipeline, ...] = ()
    is_plain: bool = False
    """Whether it is nothing but simple commands joined by `|`, `&&`, `||` and `;`."""
    problem: str = ""
    """Why it could not be parsed completely."""
    functions: tuple[str, ...] = ()
    """Names of the functions that it defines."""

    @property
    def commands(self) -> tuple[SimpleCommand, ...]:
        """All simple commands in order."""
        return tuple(command for pipeline in self.pipelines for command in pipeline.commands)


def parse_shell(text: str) -> ParsedCommand:
    """Parse a command line. Never raises; takes milliseconds at most, since long text is not parsed at all."""
    if reason := unparsable_reason(text):
        return ParsedCommand(problem=reason)
    data = text.encode()
    root = syntax_tree(data).root_node
    parser = _Parser(data)
    try:
        parser.block(root, 0)
    except RecursionError:
        return ParsedCommand(problem="It is nested too deeply.")
    problem = parser.problem
    if root.has_error or _is_misread(root, data):
        problem = "The shell grammar could not read it."
    elif sum(len(pipeline.commands) for pipeline in parser.pipelines) > MAX_COMMANDS:
        problem = f"It has more than {MAX_COMMANDS} commands."
    return ParsedCommand(
        pipelines=tuple(parser.pipelines),
        is_plain=parser.is_plain and not problem,
        problem=problem,
        functions=tuple(parser.functions),
    )


_BEFORE_COMMENT = re.compile(rb"(?:^|[\n;&|(]|(?<!\\)(?:\\\\)*[ \t])$")
_LINE_END = re.compile(r"(?<!\\)(?:\\\\)*\n")


def _is_misread(root: Node, data: bytes) -> bool:
    """Return whether the grammar saw a comment where the shell sees none, or a word where a line ends."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        nodes += node.children
        source = data[node.start_byte : node.end_byte]
        if node.type == "comment" and not _BEFORE_COMMENT.search(data[max(node.start_byte - 20, 0) : node.start_byte]):
            return True
        if node.type == "word" and not node.child_count and _LINE_END.search(source.decode("utf-8", "replace")):
            return True
    return False


class _Parser:
    """Collects the pipelines of one text."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pipelines: list[Pipeline] = []
        self.is_plain = True
        self.problem = ""
        self.functions: list[str] = []

    def block(self, node: Node, depth: int) -> None:
        """Parse anything that contains statements: a program, a body, a substitution."""
        if depth > MAX_DEPTH:
            self.is_plain = False
            self.problem = f"It is nested deeper than {MAX_DEPTH} levels."
            return
        operator = ""
        for child in node.children:
            if _STATEMENTS.fullmatch(child.type):
                self._statement(child, operator, depth)
                operator = "\n"  # unless another operator follows
            elif child.type in _OPERATORS:
                operator = child.type
                self.is_plain &= operator == ";"
            elif child.is_named or child.type == "!":
                self.is_plain = False
                if child.type == "test_command":
                    self._test(child)
                redirects: list[Redirect] = []
                for part in child.children if child.type == "function_definition" else ():
                    if part.type.endswith("_redirect"):
                        self._redirect(part, depth, redirects, [], [])
                if redirects:
                    self.pipelines.append(Pipeline(commands=(SimpleCommand(redirects=tuple(redirects)),)))
                if child.type == "for_statement":
                    self._loop(child)
                if child.type == "function_definition" and (name := child.child_by_field_name("name")):
                    self.functions.append(self._source(name))
                self.block(child, depth + (_NESTING.fullmatch(child.type) is not None))

    def _statement(self, node: Node, operator: str, depth: int) -> None:
        if node.type != "list":
            commands, sources = self._pipeline(node, depth)
            if commands:
                self.is_plain &= operator != "\n"
                self.pipelines.append(Pipeline(commands=tuple(commands), operator=operator, sources=sources))
            return
        for child in node.children:
            if child.type in _OPERATORS:
                operator = child.type
                self.is_plain &= operator in ("&&", "||")
            elif _STATEMENTS.fullmatch(child.type):
                self._statement(child, operator, depth)
            else:
                self.is_plain = False
                self.block(child, depth + 1)

    def _commands(self, node: Node, depth: int) -> list[SimpleCommand]:
        """Return the commands of a pipeline, or the one command that the node is."""
        match node.type:
            case "pipeline":
                return self._pipeline(node, depth)[0]
            case "redirected_statement":
                return self._redirected(node, depth)
            case "command":
                return [self._command(node, depth)]
            case "declaration_command" | "unset_command":
                self.is_plain = False
                return [self._command(node, depth)]
            case "variable_assignment" | "variable_assignments":
                self.is_plain = False
                nodes = node.children if node.type == "variable_assignments" else [node]
                return [SimpleCommand(assignments=tuple(self._assignment(child, depth) for child in nodes))]
            case _:
                self.is_plain = False
                self.block(node, depth + 1)
                return []

    def _pipeline(self, node: Node, depth: int) -> tuple[list[SimpleCommand], tuple[SimpleCommand, ...]]:
        """Return the simple commands of a pipeline, and those in its groups and loops, whose output it reads."""
        commands: list[SimpleCommand] = []
        grouped: list[SimpleCommand] = []
        for child in node.children if node.type == "pipeline" else [node]:
            self.is_plain &= child.type != "|&"
            if child.type not in _OPERATORS:
                start = len(self.pipelines)
                stage = self._commands(child, depth)
                if not any(command.words for command in stage):
                    inner = [command for pipeline in self.pipelines[start:] for command in pipeline.commands]
                else:
                    inner = []
                commands += stage
                self._add_sources(start, (*grouped, *commands))
                grouped += inner
        return commands, tuple(grouped)

    def _add_sources(self, start: int, sources: tuple[SimpleCommand, ...]) -> None:
        """Note that the pipelines from `start` on, those of a group, read what is piped into the group."""
        self.pipelines[start:] = [
            replace(pipeline, sources=(*sources, *pipeline.sources)) for pipeline in self.pipelines[start:]
        ]

    def _redirected(self, node: Node, depth: int) -> list[SimpleCommand]:
        body = node.child_by_field_name("body")
        commands = self._commands(body, depth) if body and body.type != "list" else []
        if body and body.type == "list":  # the redirection belongs to its last command
            self.is_plain = False
            start = len(self.pipelines)
            self._statement(body, "", depth)
            commands = list(self.pipelines.pop().commands) if len(self.pipelines) > start else []
        redirects: list[Redirect] = []
        words: list[Word] = []
        downstream: list[SimpleCommand] = []
        for child in node.children:
            if child.type.endswith("_redirect"):
                self._redirect(child, depth, redirects, words, downstream)
        last = commands.pop() if commands else SimpleCommand()
        last = replace(last, words=(*last.words, *words), redirects=(*last.redirects, *redirects))
        return [*commands, last, *downstream]

    def _command(self, node: Node, depth: int) -> SimpleCommand:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self.is_plain = False
                assignments.append(self._assignment(child, depth))
            elif child.type.endswith("_redirect"):
                self._redirect(child, depth, redirects, words, [])
            else:
                words.append(self._word(child, depth))
        return SimpleCommand(words=tuple(words), assignments=tuple(assignments), redirects=tuple(redirects))

    def _assignment(self, node: Node, depth: int) -> tuple[str, Word]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        word = self._word(value, depth) if value else Word.literal("")
        if any(child.type == "+=" for child in node.children):  # what it is added to is not known
            word = Word(source=word.source, text=None)
        return self._source(name), word

    def _redirect(
        self, node: Node, depth: int, redirects: list[Redirect], words: list[Word], downstream: list[SimpleCommand]
    ) -> None:
        targets: list[Word] = []
        operator = body = ""
        for child in node.children:
            if child.type in ("file_descriptor", "variable_name") or (not child.is_named and "<" not in child.type):
                operator += self._source(child)
            elif not child.is_named:
                operator += child.type
            elif child.type == "heredoc_body":
                body = self._source(child)
                self.block(child, depth + 1)
                delimiter = self._source(node.child(1))
                self._backticks_in(body, depth, delimiter)
                if operator == "<<-" and not child.named_child_count and not _is_quoted(delimiter):
                    self._substitutions_in(body, depth)
            elif child.type.endswith("_redirect"):
                self._redirect(child, depth, redirects, words, downstream)
            elif _STATEMENTS.fullmatch(
                child.type
            ):  # `cat <<X | sh`: the grammar puts the rest of the line below the document
                downstream += self._rest_of_line(child, depth)
            elif child.type not in ("heredoc_start", "heredoc_end"):
                targets.append(self._word(child, depth))
        self.is_plain &= not node.type.startswith("here")
        if node.type == "herestring_redirect" and targets:
            body = targets[0].text if targets[0].text is not None else targets[0].source
        # `> a b`: only the first word is the target, but the grammar puts further arguments there as well.
        words += targets[1:]
        redirects.append(Redirect(operator=operator, target=targets[0] if targets else None, body=body))

    def _rest_of_line(self, node: Node, depth: int) -> list[SimpleCommand]:
        if node.type == "list":
            self._statement(node, "", depth)
            return []
        if node.type == "pipeline" and node.children and node.children[-1].type == "list":
            first = node.children[-1].children[0]
            self._statement(node.children[-1], "", depth)
            return self._commands(first, depth)
        return self._commands(node, depth)

    # --- substitutions that the grammar takes for ordinary text ---

    def _hidden_substitutions(self, node: Node, depth: int) -> None:
        """Parse backticks within `${…}` and within backticks."""
        source = self._source(node)
        if node.type == "expansion":
            self._backticks_in(source, depth)
            self._substitutions_in(source[2:-1], depth)
            return
        if node.type == "command_substitution" and source.startswith("`") and ("\\`" in source or "\\$" in source):
            # In backticks the shell removes a backslash before `$` and a backtick before it parses the text.
            self._nested_text(re.sub(r"\\([$`\\])", r"\1", source[1:-1]), depth)
        for child in node.children:
            self._hidden_substitutions(child, depth)

    def _backticks_in(self, text: str, depth: int, delimiter: str = "") -> None:
        """Parse the backticks in an expansion, or in a here-document with this delimiter."""
        is_cut = any(delimiter.count(quote) % 2 for quote in "\"'")  # it has several lines
        if is_cut or not delimiter.isascii() or "%" in delimiter:  # which look alike to `syntax_tree`
            self.problem = "The end of a here-document can't be told."
        if not _is_quoted(delimiter):
            for inner in re.findall(r"(?<!\\)`([^`]*)`", text):
                self._nested_text(inner, depth)

    def _substitutions_in(self, text: str, depth: int) -> None:
        """Parse each `$(…)` of a here-document that begins with `<<-`."""
        for match in re.finditer(r"(?<!\\)\$\(", text):
            data = b": " + text[match.start() :].encode()
            nodes = deque([syntax_tree(data).root_node])
            while nodes and nodes[0].type != "command_substitution":
                nodes.extend(nodes.popleft().children)
            if nodes:
                self._nested_text(data[nodes[0].start_byte + 2 : nodes[0].end_byte - 1].decode(), depth)

    def _nested_text(self, text: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.problem = f"It is nested deeper than {MAX_DEPTH} levels."
            return
        parser = _Parser(text.encode())
        parser.block(syntax_tree(parser.data).root_node, depth + 1)
        self.pipelines += parser.pipelines
        self.problem = self.problem or parser.problem

    # --- words ---

    def _loop(self, node: Node) -> None:
        """Add the values of a loop's variable as assignments."""
        name = self._source(node.child_by_field_name("variable"))
        values = [child for child in node.named_children if child.type not in ("variable_name", "do_group", "comment")]
        # what they expand is parsed with the statement
        assignments = tuple(
            (
                name,
                Word(
                    source=self._source(value),
                    text=literal_text(value, self._source)[0],
                    is_pattern=is_pattern(value, self._source),
                ),
            )
            for value in values
        )
        if assignments:
            self.pipelines.append(Pipeline(commands=(SimpleCommand(assignments=assignments),)))

    def _test(self, node: Node) -> None:
        """Add `[ … ]` or `[[ … ]]` as a command of its literal words, since the shell evaluates some of them."""
        remaining, words = list(node.children), [Word.literal("[")]
        while remaining:
            child = remaining.pop(0)
            if child.child_count and child.type not in ("string", "concatenation"):
                remaining[:0] = child.children
            elif child.is_named and (text := literal_text(child, self._source)[0]) is not None:
                words.append(Word(source=self._source(child), text=text))
        self.pipelines.append(Pipeline(commands=(SimpleCommand(words=tuple(words)),)))

    def _word(self, node: Node, depth: int) -> Word:
        if node.type == "command_name" and node.child_count:
            node = node.children[0]
        text, is_ansi = literal_text(node, self._source)
        if is_ansi:
            self.is_plain = False
        if text is None:
            self.is_plain = False
            self.block(node, depth + 1)
            self._hidden_substitutions(node, depth)
        return Word(source=self._source(node), text=text, is_pattern=is_pattern(node, self._source))

    def _source(self, node: Node | None) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace") if node else ""


def _is_quoted(delimiter: str) -> bool:
    """Return whether the delimiter of a here-document turns off expansions in it."""
    return re.search(r"[\\'\"]", delimiter) is not None
