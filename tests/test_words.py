"""Texts for people: phrases that this project does not use, and paths in the documentation that must exist."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tui_agent.commands.arguments import command_names, command_parser
from tui_agent.settings.document import example_config

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FOR_MODELS = (
    "tui_agent/engine/prompts",
    "tui_agent/tools",
    "tui_agent/protocols",
    "tui_agent/engine/undo.py",
    "tui_agent/shell",
)
INSTEAD = {
    r"begun in one": "started in",
    r"stands? in the way": "prevents",
    r"\bdearer\b": "more expensive",
    r"\bto its ground\b": "in depth",
    r"\ba certain one\b": "a given one",
    r"\bbe content with\b": "accept",
    r"\bundo\w* passes over\b": "undo skips",
    r"\bthe other's? hands?\b|\btwo hands\b": "editing it yourself",
    r"\bmake the last undo undone\b": "redo the last undo",
    r"\bcan't be had\b": "is not available",
    r"(?<!there )\bis no (setting|folder|action|key|value)\b": "is not a …",
    r"\btoo many before this line's bracket\b": "trailing comma",
    r"\bhow well it goes\b": "statistics",
    r"\bwho is asked when\b": "what needs approval",
    r"\blay(s|ing)? (it )?open\b": "expand",
    r"\bunfold(s|ed|ing)\b|\bunfold\b(?= )": "expand, collapse",
    r"\bdemonstrations?\b": "demo",
    r"\bbeside each other\b": "side by side",
    r"\bcolours?\b": "color",
    r"\bsummarise\b|\bcatalogue\b|\blicence\b": "American spelling",
}

FOR_BOTH = (
    "tui_agent/engine/checks",
    "tui_agent/engine/context/modes.py",
    "tui_agent/engine/host",
    "tui_agent/engine/loop",
    "tui_agent/engine/workflow",
    "tui_agent/lsp/queries.py",
    "tui_agent/platform",
    "tui_agent/safety/policy.py",
)
"""Their texts are read by models, too, and change only with the benchmark."""
FOR_USERS = {
    r"\btaken back\b|\btakes? (it|one) back\b|\btakes? back\b": "reverted, revoked or withdrawn",
    r"\b(is|are) told\b": "is informed, or is reported",
    r"\b(is|are) said\b": "is reported",
    r"\bgo(es)? on(?!$)\b|\bwent on\b|\bgone on with\b": "continues",
    r"\bwithout a word\b": "silently",
    r"\blook(ed)? (at )?(it )?again\b": "recheck, reload",
    r"\bbegun\b": "started",
    r"\bby now\b": "now",
    r"\banew\b": "again",
    r"\bof no use\b|\bno usable (plan|call)\b": "not usable",
    r"\bsomebody\b|\bchanged by two\b": "name who",
    r"\bnobody (is|was) there\b": "no user is present",
    r"\bbeside it\b": "next to it",
    r"\bmend(ed)?\b": "fix, repair",
    r"\bcame of it\b|\bbecome of\b|\bnothing came\b": "outcome",
    r"\bsum(s|med)? up\b": "summarize",
    r"\bput (it )?(back|away)\b": "restore, close",
    r"\bas it was (proposed|offered|set up)\b": "reset, the configured one",
    r"\bfor want of\b": "to save",
    r"\blonger than once\b": "saved permissions",
    r"\bit is asked for\b": "it needs approval",
    r"\bbecause of (no|the default)\b": "in parentheses",
    r"\bwait\w* for (its|their) turn\b": "queued",
    r"\bchanged meanwhile\b": "has changed",
    r"\brun\w* unasked\b": "without approval",
    r"\bhas all these letters|have these letters|has these letters\b": "no match",
    r"\bthe days? of before\b|\ba session of before\b": "earlier",
    r"(?:^|[\d}]) %(?=$|[ ,.;)`|])": "95%, without a blank",
    r"\b(is|are) no (UTF-8 )?text\b": "is not text",
    r"\bfor good\b": "permanently",
    r"\bbeside the (file|document)\b": "next to",
    r"\bline ends\b": "line endings",
    r"\babilit(y|ies)\b": "capability",
    r"\bleft alone\b": "left unchanged",
    r"\bis going on\b": "in progress",
    r"\bkeeps? what was\b|\bwhat was said\b": "saves; messages",
}


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """String literals with blanks that are not docstrings, with their lines."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and " " in node.value
        ):
            yield node.lineno, node.value


def values(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from values(inner)


def script_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Texts with blanks of a script or a page of the browser, with their lines."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        code = re.sub(r"/\*.*?\*/|//.*$", "", line)
        for text in re.findall(r'"[^"]* [^"]*"|`[^`]* [^`]*`|>[^<>]* [^<>]*<', code):
            yield number, text[1:-1]


def found(text: str, where: str, phrases: dict[str, str] = INSTEAD) -> list[str]:
    return [
        f"{where}: {hit[0]!r}: better: {better}"
        for pattern, better in phrases.items()
        for hit in re.finditer(pattern, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_plain_english(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"(?<!\*)\*[^*\n]+\*(?!\*)", "", text) if page.name == "glossary.md" else text
    assert found(text, page.name, INSTEAD | FOR_USERS) == []


@pytest.mark.parametrize("name", ["", *command_names()])
def test_help_uses_plain_english(name: str) -> None:
    assert found(command_parser(name).format_help(), f"tui-agent {name} --help", INSTEAD | FOR_USERS) == []


def test_texts_on_the_screen_use_plain_english() -> None:
    hits: list[str] = []
    for path in (path for folder in ("tui_agent", "widgets") for path in (ROOT / folder).rglob("*")):
        name = str(path.relative_to(ROOT))
        if path.suffix not in (".py", ".js", ".html") or name.startswith(FOR_MODELS):
            continue
        phrases = INSTEAD if name.startswith(FOR_BOTH) else INSTEAD | FOR_USERS
        texts = strings(path) if path.suffix == ".py" else script_texts(path)
        hits += [hit for line, text in texts for hit in found(text, f"{name}:{line}", phrases)]
    for name in (
        "tui_agent/keys/actions.json",
        "tui_agent/commands/arguments.json",
        "tui_agent/models/catalog_words.json",
        "widgets/words.json",
    ):
        data = json.loads((ROOT / name).read_text("utf-8"))
        hits += [hit for text in values(data) for hit in found(text, name, INSTEAD | FOR_USERS)]
    assert hits == []


def test_settings_use_plain_english() -> None:
    assert found(example_config(), "tui-agent settings", INSTEAD | FOR_USERS) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_in_the_documentation_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:tui_agent|widgets|tests|benchmarks|docs|styles|snapshots|\.ci)/[\w./-]*)`", page.read_text("utf-8")
    )
    links = re.findall(r"\]\(([\w./-]+)\)", page.read_text("utf-8"))
    missing = [path for path in named if not (ROOT / path).exists()]
    assert missing + [link for link in links if not (page.parent / link).exists()] == []
