"""What a shell word means: its text where that can be known before it runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tui_agent.common.domain import FrozenValue
from tui_agent.shell.grammar import oddity, tree

if TYPE_CHECKING:
    from tree_sitter import Node

_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}

SourceOf: TypeAlias = "Callable[[Node], str]"
"""Gives a node's text as it is written."""


def literal_text(node: Node, source_of: SourceOf) -> tuple[str | None, bool]:
    """The node's text as a program gets it (None if something is expanded), and whether `$'…'` took part in it."""
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
            return re.sub(r'\\(?:\n|([$`"\\]))', lambda found: found[1] or "", source[1:-1]), False
        case "ansi_c_string":
            return _ANSI.sub(_ansi, source[2:-1]), True
        case "translated_string":
            return literal_text(node.children[-1], source_of)
        case "concatenation":
            parts = [literal_text(child, source_of) for child in node.children]
            texts = [text for text, _ in parts if text is not None]
            return ("".join(texts) if len(texts) == len(parts) else None), any(odd for _, odd in parts)
        case _:
            return (None, False) if node.is_named else (source, False)


def _ansi(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _ANSI_LETTERS.get(code, code)


def is_pattern(node: Node, source_of: SourceOf) -> bool:
    if node.type == "concatenation":
        return any(is_pattern(child, source_of) for child in node.children)
    if node.type not in ("word", "extglob_pattern"):
        return False
    bare = re.sub(r"\\.", "", source_of(node))
    return bare.startswith("~") or any(c in bare for c in "*?[{")


COMMANDS_CAP = 50
DEPTH_CAP = 10
"""Nesting of the text (substitutions, loops, groups) beyond which it is not judged."""

_NESTING = frozenset(
    (
        "command_substitution",
        "process_substitution",
        "subshell",
        "compound_statement",
        "do_group",
        "if_statement",
        "case_statement",
        "function_definition",
        "arithmetic_expansion",
        "expansion",
    )
)
_STATEMENTS = frozenset(
    (
        "list",
        "pipeline",
        "command",
        "redirected_statement",
        "declaration_command",
        "unset_command",
        "variable_assignment",
        "variable_assignments",
    )
)
_DEFINES = "function_definition"
_JOINTS = frozenset(("&&", "||", ";", "&", "|", "|&", "\n", ";;"))


class Word(FrozenValue, frozen=True, kw_only=True):
    """One word of a command."""

    source: str
    """As it is written."""
    text: str | None
    """What the program gets; None when the shell expands something in it (names of files aside)."""
    pattern: bool = False
    """Holds unquoted `*`, `?`, `[` or braces, or begins with `~`."""


class Redirect(FrozenValue, frozen=True, kw_only=True):
    """A redirection: operator with its descriptor, and where to."""

    operator: str
    target: Word | None
    body: str = ""
    """Text of a here-document or here-string."""


class SimpleCommand(FrozenValue, frozen=True, kw_only=True):
    """A simple command. Without words when it only assigns, or stands for the redirections of a group."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()


class Pipeline(FrozenValue, frozen=True, kw_only=True):
    """Commands joined by pipes."""

    commands: tuple[SimpleCommand, ...]
    joined: str = ""
    """The operator in front of it: `&&`, `||`, `;`, or nothing."""
    fed: tuple[SimpleCommand, ...] = ()
    """Commands that are piped into the group or loop that it stands in."""


class ParsedCommand(FrozenValue, frozen=True, kw_only=True):
    """A whole command line; substitutions, bodies and branches are in `pipelines` like everything else."""

    pipelines: tuple[Pipeline, ...] = ()
    plain: bool = False
    """Nothing but simple commands joined by `|`, `&&`, `||` and `;`."""
    problem: str = ""
    """Why it could not be read in full."""
    functions: tuple[str, ...] = ()
    """Names of the functions that it defines."""

    @property
    def commands(self) -> tuple[SimpleCommand, ...]:
        """All simple commands in order."""
        return tuple(command for pipeline in self.pipelines for command in pipeline.commands)


def parse_shell(text: str) -> ParsedCommand:
    """Read a command line. Never raises; takes milliseconds at most, since long text is not read at all."""
    if odd := oddity(text):
        return ParsedCommand(problem=odd)
    data = text.encode()
    root = tree(data).root_node
    reader = _Reader(data)
    try:
        reader.block(root, 0)
    except RecursionError:
        return ParsedCommand(problem="It is nested too deeply.")
    problem = reader.problem
    if root.has_error:
        problem = "The shell grammar could not read it."
    elif sum(len(pipeline.commands) for pipeline in reader.pipelines) > COMMANDS_CAP:
        problem = f"It has more than {COMMANDS_CAP} commands."
    return ParsedCommand(
        pipelines=tuple(reader.pipelines),
        plain=reader.plain and not problem,
        problem=problem,
        functions=tuple(reader.functions),
    )


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pipelines: list[Pipeline] = []
        self.plain = True
        self.problem = ""
        self.functions: list[str] = []

    def block(self, node: Node, depth: int) -> None:
        """Whatever holds statements: a program, a body, a substitution."""
        if depth > DEPTH_CAP:
            self.plain = False
            self.problem = f"It is nested deeper than {DEPTH_CAP} levels."
            return
        joined = ""
        for child in node.children:
            if child.type in _STATEMENTS:
                self.statement(child, joined, depth)
                joined = "\n"  # unless another operator follows
            elif child.type in _JOINTS:
                joined = child.type
                self.plain &= joined == ";"
            elif child.is_named or child.type == "!":
                self.plain = False
                if child.type == "test_command":
                    self._test(child)
                if child.type == _DEFINES and (name := child.child_by_field_name("name")):
                    self.functions.append(self.source(name))
                self.block(child, depth + (child.type in _NESTING))

    def statement(self, node: Node, joined: str, depth: int) -> None:
        if node.type != "list":
            commands, fed = self._stages(node, depth)
            if commands:
                self.plain &= joined != "\n"
                self.pipelines.append(Pipeline(commands=tuple(commands), joined=joined, fed=fed))
            return
        for child in node.children:
            if child.type in _JOINTS:
                joined = child.type
                self.plain &= joined in ("&&", "||")
            elif child.type in _STATEMENTS:
                self.statement(child, joined, depth)
            else:
                self.plain = False
                self.block(child, depth + 1)

    def members(self, node: Node, depth: int) -> list[SimpleCommand]:
        """The commands of a pipeline, or the one command that the node is."""
        match node.type:
            case "pipeline":
                return self._stages(node, depth)[0]
            case "redirected_statement":
                return self._redirected(node, depth)
            case "command":
                return [self._command(node, depth)]
            case "declaration_command" | "unset_command":
                self.plain = False
                return [self._declaration(node, depth)]
            case "variable_assignment" | "variable_assignments":
                self.plain = False
                nodes = node.children if node.type == "variable_assignments" else [node]
                return [SimpleCommand(assignments=tuple(self._assignment(child, depth) for child in nodes))]
            case _:
                self.plain = False
                self.block(node, depth + 1)
                return []

    def _stages(self, node: Node, depth: int) -> tuple[list[SimpleCommand], tuple[SimpleCommand, ...]]:
        """The simple commands of a pipeline, and those of its groups and loops, which print for what comes behind."""
        found: list[SimpleCommand] = []
        grouped: list[SimpleCommand] = []
        for child in node.children if node.type == "pipeline" else [node]:
            self.plain &= child.type != "|&"
            if child.type not in _JOINTS:
                known = len(self.pipelines)
                stage = self.members(child, depth)
                simple = any(one.words for one in stage)
                inside = [] if simple else [one for each in self.pipelines[known:] for one in each.commands]
                found += stage
                self._feed(known, (*grouped, *found))
                grouped += inside
        return found, tuple(grouped)

    def _feed(self, known: int, before: tuple[SimpleCommand, ...]) -> None:
        """What stands in a group reads what is piped into the group."""
        for place in range(known, len(self.pipelines) if before else known):
            one = self.pipelines[place]
            self.pipelines[place] = Pipeline(commands=one.commands, joined=one.joined, fed=(*before, *one.fed))

    def _redirected(self, node: Node, depth: int) -> list[SimpleCommand]:
        body = node.child_by_field_name("body")
        found = self.members(body, depth) if body and body.type != "list" else []
        if body and body.type == "list":  # the redirection belongs to its last command
            self.plain = False
            known = len(self.pipelines)
            self.statement(body, "", depth)
            found = list(self.pipelines.pop().commands) if len(self.pipelines) > known else []
        redirects: list[Redirect] = []
        words: list[Word] = []
        downstream: list[SimpleCommand] = []
        for child in node.children:
            if child.type.endswith("_redirect"):
                self._redirect(child, depth, redirects, words, downstream)
        last = found.pop() if found else SimpleCommand()
        found.append(
            SimpleCommand(
                words=last.words + tuple(words),
                assignments=last.assignments,
                redirects=last.redirects + tuple(redirects),
            )
        )
        return found + downstream

    def _command(self, node: Node, depth: int) -> SimpleCommand:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self.plain = False
                assignments.append(self._assignment(child, depth))
            elif child.type.endswith("_redirect"):
                self._redirect(child, depth, redirects, words, [])
            else:
                words.append(self._word(child, depth))
        return SimpleCommand(words=tuple(words), assignments=tuple(assignments), redirects=tuple(redirects))

    def _declaration(self, node: Node, depth: int) -> SimpleCommand:
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child, depth))
            else:
                words.append(self._word(child, depth))
        return SimpleCommand(words=tuple(words), assignments=tuple(assignments))

    def _assignment(self, node: Node, depth: int) -> tuple[str, Word]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        return (self.source(name) if name else "", self._word(value, depth) if value else Word(source="", text=""))

    def _redirect(
        self, node: Node, depth: int, redirects: list[Redirect], words: list[Word], downstream: list[SimpleCommand]
    ) -> None:
        targets: list[Word] = []
        operator = body = ""
        for child in node.children:
            if child.type in ("file_descriptor", "variable_name") or (not child.is_named and "<" not in child.type):
                operator += self.source(child)
            elif not child.is_named:
                operator += child.type
            elif child.type == "heredoc_body":
                body = self.source(child)
                self.block(child, depth + 1)
                self._in_backticks(self.source(node.child(1)), body, depth)
                if operator == "<<-" and not child.named_child_count:
                    self._in_dollars(self.source(node.child(1)), body, depth)
            elif child.type.endswith("_redirect"):
                self._redirect(child, depth, redirects, words, downstream)
            elif child.type in _STATEMENTS:  # `cat <<X | sh`: the rest of the line hangs below the here-document
                downstream += self._rest_of_line(child, depth)
            elif child.type not in ("heredoc_start", "heredoc_end"):
                targets.append(self._word(child, depth))
        self.plain &= not node.type.startswith("here")
        if node.type == "herestring_redirect" and targets:
            body = targets[0].text if targets[0].text is not None else targets[0].source
        # `> a b`: only the first is the target, the grammar hangs the rest of the arguments there as well.
        words += targets[1:]
        redirects.append(Redirect(operator=operator, target=targets[0] if targets else None, body=body))

    def _in_expansions(self, node: Node, depth: int) -> None:
        """Backticks within `${…}` and within backticks, which the grammar takes for ordinary text."""
        if node.type == "expansion":
            self._in_backticks("", self.source(node), depth)
            return
        if node.type == "command_substitution" and self.source(node).startswith("`"):
            self._nested(self.source(node), depth)
        for child in node.children:
            self._in_expansions(child, depth)

    def _in_backticks(self, delimiter: str, body: str, depth: int) -> None:
        """What the grammar does not see in a here-document or an expansion."""
        if not delimiter.isascii() or "%" in delimiter:  # the grammar can't tell it from others, see `tree`
            self.problem = "The end of a here-document can't be told."
        if re.search(r"[\\'\"]", delimiter):
            return
        for inner in re.findall(r"(?<!\\)`([^`]*)`", body):
            self._inside(inner, depth)

    def _nested(self, shown: str, depth: int) -> None:
        """In backticks a backslash before `$` and a backtick goes away before the text is read."""
        if "\\`" in shown or "\\$" in shown:
            self._inside(re.sub(r"\\([$`\\])", r"\1", shown[1:-1]), depth)

    def _in_dollars(self, delimiter: str, body: str, depth: int) -> None:
        """`$(…)` below `<<-`, which the grammar does not see there."""
        if re.search(r"[\\'\"]", delimiter):
            return
        for found in re.finditer(r"(?<!\\)\$\(", body):
            data = b": " + body[found.start() :].encode()
            waiting = [tree(data).root_node]
            while waiting and waiting[0].type != "command_substitution":
                waiting = [*waiting[1:], *waiting[0].children]
            if waiting:
                self._inside(data[waiting[0].start_byte + 2 : waiting[0].end_byte - 1].decode(), depth)

    def _inside(self, text: str, depth: int) -> None:
        if depth > DEPTH_CAP:
            self.problem = f"It is nested deeper than {DEPTH_CAP} levels."
            return
        inside = _Reader(text.encode())
        inside.block(tree(inside.data).root_node, depth + 1)
        self.pipelines += inside.pipelines
        self.problem = self.problem or inside.problem

    def _rest_of_line(self, node: Node, depth: int) -> list[SimpleCommand]:
        if node.type == "list":
            self.statement(node, "", depth)
            return []
        if node.type == "pipeline" and node.children and node.children[-1].type == "list":
            first = node.children[-1].children[0]
            self.statement(node.children[-1], "", depth)
            return self.members(first, depth)
        return self.members(node, depth)

    def _test(self, node: Node) -> None:
        """`[ … ]` and `[[ … ]]` as a command of the literal words in it: some are evaluated."""
        waiting, words = list(node.children), [Word(source="[", text="[")]
        while waiting:
            child = waiting.pop(0)
            if child.child_count and child.type not in ("string", "concatenation"):
                waiting[:0] = child.children
            elif child.is_named and (text := literal_text(child, self.source)[0]) is not None:
                words.append(Word(source=self.source(child), text=text))
        self.pipelines.append(Pipeline(commands=(SimpleCommand(words=tuple(words)),)))

    def _word(self, node: Node, depth: int) -> Word:
        if node.type == "command_name" and node.child_count:
            node = node.children[0]
        text, quoted = literal_text(node, self.source)
        if quoted:
            self.plain = False
        if text is None:
            self.plain = False
            self.block(node, depth + 1)
            self._in_expansions(node, depth)
        return Word(source=self.source(node), text=text, pattern=is_pattern(node, self.source))

    def source(self, node: Node | None) -> str:
        """The node's text as it is written."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace") if node else ""
