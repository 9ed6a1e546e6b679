from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles.hostile import LONG_TEXTS, hostile_texts
from tests.doubles.planted import ALL_SECRETS_TEXT, BY_VARIABLE, find_leaks
from tests.scenes import load, names
from tests.storage.samples import OPENED, SHELL, story_records, write_journal
from tui_agent import events as e
from tui_agent.common.domain import Answer, Fault, RunAction, ToolResult
from tui_agent.events import to_data
from tui_agent.export.html import html_pieces
from tui_agent.export.markdown import code_span, escaped_text, fenced_code, markdown_pieces
from tui_agent.export.prose import code_spans, prose_blocks
from tui_agent.export.sections import ExportDocument, ExportSection, ProsePart
from tui_agent.export.session import export_session, read_document
from tui_agent.text import SecretMask, clean, reveal

VOID = frozenset(("meta", "br", "hr"))
TAGS = frozenset(
    (
        "html",
        "ul",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "h1",
        "h2",
        "h3",
        "p",
        "b",
        "code",
        "span",
        "dl",
        "dt",
        "dd",
        "main",
        "section",
        "details",
        "summary",
        "pre",
        "nav",
        "ol",
        "li",
        "a",
        "blockquote",
        "em",
        "table",
        "tr",
        "th",
        "td",
    )
)
ATTACKS = (
    "<script>alert(1)</script>",
    "</pre></details></section><script>alert(1)</script>",
    "</style><style>@import url(http://evil.example/x.css)</style>",
    '"><img src=http://evil.example/x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<svg/onload=alert(1)>",
    "![x](http://evil.example/x.png)",
    "[x](javascript:alert(1))",
    "[x]: http://evil.example\n\n![x]",
    "<!-- <b> -->",
    "&lt;script&gt;&#x3c;img&#62;",
    "<![CDATA[x]]><?php ?>",
    "<http://evil.example>",
    "\u202egnp.exe \x1b]52;c;aGk=\x07\x9b2J \x00 \ud800",
    "```\n# not a heading\n````\n<img src=x>\n",
    "~~~ `\n<img src=x>",
    "a ` b\n`<img src=x onerror=alert(1)>` `",
    "| `a | <img src=x> |\n|---|---|\n",
    "\\`<img src=x>\\`",
    "    <img src=x>\n# Heading\nHeading\n---\n## You · 9\n> # quoted\n- # listed\n1. ===\n</details>",
)
CORPUS = (*ATTACKS, *hostile_texts(20, 5), *LONG_TEXTS)


class Reader(HTMLParser):
    """A strict reader: notes the text and everything that could do something."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.bad: list[str] = []
        self.open: list[str] = []
        self.policy = ""
        self.lists: list[int | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.bad.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in ("src", "srcset", "style", "action", "data", "poster", "ping"):
                self.bad.append(f"{tag} {name}")
            if name == "href" and not re.fullmatch(r"#m\d+|https?://[^\s\"'<>]+", value or ""):
                self.bad.append(f"{tag} href={value}")
            if name == "http-equiv":
                self.policy = dict(attrs)["content"] or ""
        if tag in ("ol", "ul"):
            self.lists.append(int(dict(attrs).get("start") or 1) if tag == "ol" else None)
        elif tag == "li" and (number := self.lists[-1] if self.lists else None) is not None:
            self.text.append(f" {number}. ")  # which a browser shows
            self.lists[-1] = number + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"/{tag}")
        if tag in ("ol", "ul"):
            self.lists.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            if "url(" in data or "@import" in data or "expression" in data:
                self.bad.append("style")
        else:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.bad.append("comment")

    def handle_pi(self, data: str) -> None:
        self.bad.append("instruction")

    def unknown_decl(self, data: str) -> None:
        self.bad.append("declaration")


def read(page: str) -> Reader:
    page.encode()
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.bad == [] and reader.open == []
    assert reader.policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)
    return reader


def to_html(shown: ExportDocument) -> str:
    return "".join(html_pieces(shown))


def to_markdown(shown: ExportDocument) -> str:
    return "".join(markdown_pieces(shown))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def told(*texts: str) -> list[e.Event]:
    """A session in which each of the texts stands in many places."""
    events: list[e.Event] = [OPENED]
    for number, text in enumerate(texts):
        fault = Fault(kind="broken", message=text, advice=text)
        running = RunAction(command=text, cwd=text, reasons=(text,))
        events += [
            e.UserMessageAdded(id=f"m{number}", text=text),
            e.ReplyEnded(text=text, thought=text, fault=fault),
            e.ToolStarted(call=SHELL, title=text, reads_only=False),
            e.ApprovalRequested(id=f"a{number}", action=running, digest="", why=text),
            e.ApprovalAnswered(id=f"a{number}", answer=Answer(verdict="reject", text=text)),
            e.ToolFinished(
                call_id=SHELL.id, name=text, result=ToolResult(success=False, error=text), text=text * 2, ms=1
            ),
            e.QuestionAsked(id=f"q{number}", question=text, options=(text,)),
            e.QuestionAnswered(id=f"q{number}", answer=Answer(verdict="reply", text=text)),
            e.UserShellCommand(command=text, cwd=text, output=text, exit_code=None),
            e.Notice(level="error", text=text, code="x"),
            e.PlanDocChanged(text=text, by="user"),
            e.RunEnded(outcome="failed", text=text + "."),
            e.SessionTitled(title=text),
        ]
    return events


def document(tmp_path: Path, *events: e.Event, mask: SecretMask | None = None):
    nodes = {e.ReplyEnded: "r", e.ApprovalRequested: "c2", e.ApprovalAnswered: "c2"}
    records = [
        e.Record(seq=seq, at="2026-01-07T10:00:00.000+02:00", event=event, node=nodes.get(type(event), ""))
        for seq, event in enumerate(events, 1)
    ]
    write_journal(tmp_path / "events.jsonl", records)
    return read_document(tmp_path / "events.jsonl", mask or SecretMask({}), "s1")


def scene_document(scene: str, tmp_path: Path) -> ExportDocument:
    write_journal(tmp_path / "events.jsonl", load(scene))
    return read_document(tmp_path / "events.jsonl", SecretMask({}))


def structure(text: str) -> list[str]:
    """The headings and bold heads of a markdown text outside of its code, and its lines of HTML."""
    found, fence = [], ""
    for line in text.split("\n"):
        ticks = re.match(r"(`{3,})[^`]*$", line)
        if ticks and not fence:
            fence = ticks[1]
        elif fence:
            fence = "" if line == fence else fence
        elif re.match(r"\s*(?:(?:[-*+]|\d+[.)])\s+|>\s*)*#{1,6}(\s|$)", line) or line.startswith("<"):
            found.append(line)
    assert not fence
    return found


def unescaped(text: str) -> str:
    """What of a markdown text is neither in code nor escaped, and is not the HTML that we write."""
    text = re.sub(r"(?ms)^(`{3,})[^`\n]*\n.*?^\1$", "", text)
    text = re.sub(r"(?m)^(<details><summary>.*</summary>|</details>)$", "", text)
    kept, at = [], 0
    while at < len(text):
        ticks = re.compile("`+").match(text, at)
        if text[at] == "\\":
            kept.append("\0")
            at += 2
        elif ticks:
            close = re.compile(rf"(?<!`){ticks[0]}(?!`)").search(text, ticks.end())
            assert close is not None, text[at : at + 80]
            at = close.end()
        else:
            kept.append(text[at])
            at += 1
    return "".join(kept)


HEADS = re.compile(
    r"## You · \d · 2026-01-07 10:00:00|### ✗ Agent|## Plan document|</details>"
    r"|<details><summary>(Thinking( · [\d.]+ s)?|Arguments|Result|Front matter|Output · \d+ lines)</summary>"
)
LIVE = re.compile(r"<[a-zA-Z!?/]|\]\(|\]\[|\]:")


@pytest.mark.parametrize("scene", names())
def test_every_scene_can_be_exported_and_is_inert(scene: str, tmp_path: Path) -> None:
    shown = scene_document(scene, tmp_path)
    reader = read(to_html(shown))
    text = to_markdown(shown)
    assert structure(text)[0].startswith("# ")
    assert set(words(" ".join(reader.text))) - set(words(text)) <= {"Messages", "empty", *"0123456789"}


NEVER_SHOWN = re.compile(
    r"state\.saved|reply\.phase|run\.started|stage\.(entered|left)"
    r"|.*[._]?(id|digest|sha256|before|after|kind|scope|level|verdict|code|severity|agent|node|role|mode|by)"
    r"|.*\.(outcome|stop|stage|error_class|roots\[\]|approval_mode|protocol|model|message_id|call_id|reason)"
)
"""Records and fields by which things are told apart; what they mean is said in other words. Stages stand in the progress
tree only."""


def texts_in(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from texts_in(one, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one, f"{path}[]")


@pytest.mark.parametrize("scene", names())
def test_every_word_of_every_record_that_is_shown_is_in_both(scene: str, tmp_path: Path) -> None:
    shown = scene_document(scene, tmp_path)
    pages = {"html": " ".join(read(to_html(shown)).text), "markdown": to_markdown(shown).replace("\\", "")}
    held = {form: set(words(page)) for form, page in pages.items()}
    pieces: dict[str, str] = {}
    missing = []
    for record in load(scene):
        event = record.event
        if isinstance(event, e.TextDelta | e.ReasoningDelta):
            key = event.type + record.node
            pieces[key] = pieces.get(key, "") + event.text
            continue
        if isinstance(event, e.ReplyEnded):  # it takes the place of what came before
            pieces.pop(e.TextDelta.type + record.node if event.text else "", None)
            pieces.pop(e.ReasoningDelta.type + record.node if event.thought else "", None)
        for path, text in texts_in(to_data(event), event.type):
            if not NEVER_SHOWN.fullmatch(path) and not NEVER_SHOWN.fullmatch(event.type):
                missing += [(form, path, text) for form in held if set(words(reveal(clean(text)))) - held[form]]
    for path, text in pieces.items():
        missing += [(form, path, text) for form in held if set(words(reveal(clean(text)))) - held[form]]
    assert missing == []


def test_what_a_crash_cut_off_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    pieces = [
        e.ReasoningDelta(text="let me "),
        e.ReasoningDelta(text="think"),
        e.TextDelta(text="The first "),
        e.TextDelta(text="words"),
    ]
    write_journal(
        tmp_path / "events.jsonl",
        [
            e.Record(seq=seq, at="2026-01-07T10:00:00.000+02:00", event=event, node="r1")
            for seq, event in enumerate(
                [OPENED, e.ReplyStarted(model="m", iteration=1, messages=1, estimate=1), *pieces], 1
            )
        ],
    )
    text = "".join(export_session(tmp_path, "markdown", SecretMask({})))
    assert "The first words" in text and "let me think" in text


def test_all_that_was_shown_is_there(tmp_path: Path) -> None:
    write_journal(tmp_path / "events.jsonl", story_records())
    for form in ("html", "markdown"):
        page = "".join(export_session(tmp_path, form, SecretMask({})))
        text = "".join(read(page).text) if form == "html" else page
        for piece in (
            "Füge ein --json hinzu 🎉",
            "hmm",
            "I'll read it first.",
            "modify src/a.py",
            "edits ask in this mode",
            "Approved for this session",
            "+new",
            "-old",
            "@@ -1,1 +1,2 @@",
            "2 passed",
            "The stream broke.",
            "The server is busy.",
            "The window is small.",
            "The model is gone.",
            "2026-01-07 10:00:01",
        ):
            assert piece in text, (form, piece)
    assert list(document(tmp_path, OPENED).sections) == []


@pytest.mark.parametrize("attack", CORPUS, ids=range(len(CORPUS)))
def test_nothing_that_is_said_does_anything(tmp_path: Path, attack: str) -> None:
    shown = document(tmp_path, *told(attack, "harmless"))
    page = "".join(read(to_html(shown)).text)
    for word in words(reveal(clean(attack))):
        assert page.count(word) >= 3
    first, *others = structure(to_markdown(shown))
    assert first == "# harmless"
    assert [line for line in others if not HEADS.fullmatch(line)] == []
    assert not LIVE.search(unescaped(to_markdown(shown)))


@settings(max_examples=120, deadline=None)
@given(st.lists(st.text(alphabet=st.sampled_from("ab \n`~#<>[]()!|&*_-=+.1\\\"':/")), max_size=3))
def test_no_text_breaks_out(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    tmp_path = tmp_path_factory.getbasetemp()
    shown = document(tmp_path, *told(*texts, "end"))
    read(to_html(shown))
    text = to_markdown(shown)
    assert [line for line in structure(text)[1:] if not HEADS.fullmatch(line)] == []
    assert not LIVE.search(unescaped(text))


@given(st.text(alphabet="ab`~ \n#", max_size=80))
def test_fences_are_longer_than_what_they_hold(text: str) -> None:
    fence, *body, end = fenced_code(text)
    assert fence == end and "\n".join(body) == text
    assert all(len(run) < len(fence) for run in re.findall("`+", text))
    shown = code_span(text)
    ticks = re.match("`+", shown)
    assert ticks and shown.endswith(ticks[0]) and ticks[0] not in shown[len(ticks[0]) : -len(ticks[0])]


@given(st.text(alphabet="ab`~ \n#|", max_size=80))
def test_reading_prose_loses_no_word(text: str) -> None:
    read_back = " ".join(block.text + " " + block.language for block in prose_blocks(text))
    assert sorted(words(read_back)) == sorted(words(text))
    for line in text.split("\n"):
        assert "".join(span.text for span in code_spans(line)).replace("`", "") == line.replace("`", "")


def test_prose_keeps_code_lists_and_emphasis(tmp_path: Path) -> None:
    reply = "# Plan\n\n- use `a_b`\n- **now**\n\n| a | b |\n|---|---|\n\n```py\nx = '```'\n```\n1 < 2 & snake_case"
    text = to_markdown(document(tmp_path, OPENED, e.ReplyEnded(text=reply)))
    for piece in ("**Plan**", "- use `a_b`\n- **now**", "| a | b |\n|---|---|", "````py\nx = '```'\n````"):
        assert piece in text
    assert "1 \\< 2 & snake_case" in text
    page = to_html(document(tmp_path, OPENED, e.ReplyEnded(text=reply)))
    for piece in ('<p class="heading">Plan</p>', "<code>a_b</code>", "<b>now</b>", "x = &#39;```&#39;</pre>"):
        assert piece in page
    assert escaped_text("2. x\n# y\n_z_ * a_b") == "2\\. x\n\\# y\n\\_z\\_ \\* a_b"


def test_the_plan_stands_at_the_end_without_becoming_ours(tmp_path: Path) -> None:
    text = "---\nstatus: planning\n---\n\n# Plan: it\n\n## Goal\nAll\nof it\n"
    shown = document(tmp_path, OPENED, e.PlanDocChanged(text=text, by="user"))
    page = to_markdown(shown)
    assert structure(page)[1:] == ["## Plan document", "<details><summary>Front matter</summary>", "</details>"]
    assert "```yaml\nstatus: planning\n```" in page and "**Goal**\n\nAll  \nof it" in page
    assert '<p class="heading">Plan: it</p>' in to_html(shown)


def test_messages_keep_their_lines_and_are_listed(tmp_path: Path) -> None:
    events = [e.UserMessageAdded(id=f"m{number}", text=f"first {number}\nsecond") for number in range(4)]
    shown = document(tmp_path, OPENED, *events)
    assert "first 0  \nsecond" in to_markdown(shown)
    page = to_html(shown)
    assert '<li><a href="#m4">first 3 second</a></li>' in page and 'id="m4"' in page


def test_secrets_are_masked_in_both(tmp_path: Path) -> None:
    shown = document(tmp_path, *told(ALL_SECRETS_TEXT), mask=SecretMask(BY_VARIABLE))
    for text in (to_html(shown), to_markdown(shown)):
        assert find_leaks(text) == [] and "⟨secret" in text


def test_damage_and_forks_are_told(tmp_path: Path) -> None:
    write_journal(tmp_path / "events.jsonl", story_records())
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = b'{"broken\n'
    lines.append(b"torn")
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines))
    facts = dict(read_document(tmp_path / "events.jsonl", SecretMask({}), "s1").facts)
    assert facts["not readable"] == "2 places of the journal" and facts["session"] == "s1"
    events = [OPENED, e.SessionForked(parent="old", before="say <b>")]
    assert dict(document(tmp_path, *events).facts)["fork of"] == "old"
    assert "fork of old, which continued here with: “say \\<b>”." in to_markdown(document(tmp_path, *events))


def page_of(text: str) -> str:
    section = ExportSection("agent", "Agent", parts=(ProsePart(text),))
    return to_html(ExportDocument("t", (), (section,))).partition("<main>")[2]


def test_lists_are_nested_and_numbered() -> None:
    page = page_of(
        "Do:\n1. one `x`\n   goes on\n   - **a**\n     - deep\n   - b\n2. two\n\n7) seven\n* star\n-no item\n"
    )
    for piece in (
        '<p class="text">Do:</p>',
        '<ol start="1"><li>one <code>x</code>\ngoes on<ul><li><b>a</b><ul><li>deep</li></ul></li><li>b</li></ul></li>'
        "<li>two</li></ol>",
        '<ol start="7"><li>seven</li></ol><ul><li>star</li></ul>',
        '<p class="text">-no item</p>',
    ):
        assert piece in page


def test_only_web_addresses_are_links_and_they_are_shown() -> None:
    page = page_of(
        "**See [the docs](https://a.example/x_y?q=1&r=*2*)** or https://b.example/z_(1)., not [x](javascript:alert(1)) "
        "[y](data:text/html,x) file:///etc/passwd `https://code.example` [https://bank.example](http://evil.example)"
    )
    assert page.count("<a ") == 3
    docs = "https://a.example/x_y?q=1&amp;r=*2*"
    assert f'<b>See <a href="{docs}" rel="noopener noreferrer">the docs</a> ({docs})</b>' in page
    assert '<a href="https://b.example/z_(1" rel="noopener noreferrer">https://b.example/z_(1</a>)., not [x]' in page
    assert "[x](javascript:alert(1))" in page and "[y](data:text/html,x)" in page
    assert 'href="http://evil.example" rel="noopener noreferrer">https://bank.example</a> (http://evil.example)' in page


def test_tables_quotes_and_emphasis_are_set_as_such() -> None:
    page = page_of("| a | b |\n|:--|---|\n| `x` | *one* <i> |\n\n> said **so**\n> twice\nnot *this\n")
    assert "<tr><th>a</th><th>b</th></tr>" in page
    assert "<tr><td><code>x</code></td><td><em>one</em> &lt;i&gt;</td></tr>" in page
    assert '<blockquote class="text">said <b>so</b>\ntwice</blockquote>' in page
    assert '<p class="text">not *this</p>' in page


@pytest.mark.parametrize(
    "text", ["| a | b |", "| a | b |\n| c | d |", "| a |\n|---|\n| b | c |", "| `a|b` |\n|---|\n| c |"]
)
def test_what_is_no_whole_table_is_shown_as_it_is_written(text: str) -> None:
    page = page_of(text)
    assert "<table>" not in page
    assert f"<pre>\n{text}</pre>" in page
