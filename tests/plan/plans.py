"""Arbitrary plans and arbitrary texts that look like plans."""

from __future__ import annotations

from datetime import datetime

from hypothesis import strategies as st

from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan, PlanStatus

PIECES = [
    "a", "word", " ", "  ", "\t", "\n", "\n\n", ",", ", ", "## Goal", "## Execution Log", "# Plan: x", "### 2025-01-01 10:00 - y",
    "---", "```", "```py", "~~~", "- [ ] z", "- [x] ", "* ", "**Result:** ✓", "**Tools:**", "**Rationale:** r", "*(note)*", ")*", "*(",
    "\\", "\\\n", "&#10;", "&#38;", "&", "<!-- -->", "[No decisions yet]", "[tbd]", "🎉", "👩‍💻", "שלום", "مرحبا", "\u202e", "\r", "\r\n",
    "\x00", "\x1b[31m", "\u2028", "\ufeff", "\x85", "\ud800", "none", "(", ")", "(a, b)", "2025-01-01", ":", "**Status:** failed",
]  # fmt: skip

text = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.text(max_size=30),
    st.lists(st.sampled_from(["line", "", "  x", "```", "## Goal", "text, more", "> q", "- b", "---"]), max_size=8).map(
        "\n".join
    ),
)
whens = st.none() | st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)).map(
    lambda when: when.replace(second=0, microsecond=0, fold=0)
)
items = st.lists(text, max_size=3).map(tuple)
criteria = st.builds(Criterion, description=text, completed=st.booleans(), notes=text)
decisions = st.builds(Decision, title=text, rationale=text, alternatives=items, when=whens)
entries = st.builds(LogEntry, action=text, details=text, result=text, tools=items, when=whens)
plans = st.builds(
    Plan,
    status=st.sampled_from(list(PlanStatus)),
    goal=text,
    acceptance_criteria=st.lists(criteria, max_size=4).map(tuple),
    decisions_made=st.lists(decisions, max_size=3).map(tuple),
    decisions_rejected=st.lists(decisions, max_size=2).map(tuple),
    execution_log=st.lists(entries, max_size=4).map(tuple),
    created_at=st.integers(0, 2**53),
    updated_at=st.integers(0, 2**53),
    version=st.integers(0, 2**31),
)
LINES = [
    "", "---", "status: blocked", "version: 3", "createdAt: 5", "# Plan: T", "# Notes", "## Goal", "## Acceptance Criteria",
    "## Decisions Made", "## Decisions Rejected", "## Execution Log", "## Mine", "**Status:** failed", "- [x] done", "- [ ] open *(n)*", "- [ ]  wide ", "* [X]\ttab",
    "- plain", "  - nested", "free words", "> a quote", "### A title", "### 2025-01-01 10:00 - Did it", "**Result:** ✓ fine",
    "**Result:** over\\", "**Tools:** a, b", "**Tools:**", "- item", "**Rationale:** why", "**Alternative:** c", "```", "~~~", "```py", "[No decisions yet]",
    "[User will provide goal]", "- [ ] [Criteria will be added once goal is defined]", "**Decided:** 2025-02-03 04:05", "{a: b}", "   ",
]  # fmt: skip
documents = st.lists(st.sampled_from(LINES), max_size=25).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
)
