"""What a request says must stay, how many tests it wants, which value it means: checked by the program itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, SequenceResponder, call, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common import paths
from tui_agent.engine.checks.name_checks import answer_gaps
from tui_agent.engine.checks.request_reading import read_request
from tui_agent.engine.checks.request_scope import asks_for_tests_only, protected_files, wanted_tests
from tui_agent.engine.checks.static_checks import find_problems, unnamed_values, wrong_sections
from tui_agent.events import CompletionRefused
from tui_agent.protocols.file_reply import read_file_reply

FILES = ("README.md", "tasks.txt", "main.py", "todo/items.py", "test_stock.py", "conf/dev.json", "conf/prod.json")
FENCE = "```"


@pytest.mark.parametrize(
    ("request_text", "left"),
    [
        ("Give main.py an option --open. Do not change tasks.txt.", {"tasks.txt"}),
        ("The test is right, so do not change test_stock.py.", {"test_stock.py"}),
        ("Fix main.py but don't edit the tests", {"test_stock.py"}),
        ("make the tests pass without touching the tests", {"test_stock.py"}),
        ("dont change test_stock.py pls, fix main.py", {"test_stock.py"}),
        ("Update test_stock.py; don't touch items.py or main.py", {"todo/items.py", "main.py"}),
        ("Do not change anything in README.md", {"README.md"}),
        ("main.py is right and must not be modified", {"main.py"}),
        ("main.py must not change.", {"main.py"}),
        ("Leave `main.py` and README.md alone.", {"main.py", "README.md"}),
        ("Add tests, the existing tests must stay as they are", {"test_stock.py"}),
        ("Correct row_of in main.py and leave all the other files as they are.", {*FILES} - {"main.py"}),
        ("In conf/prod.json change a; conf/dev.json and the other files must not be changed.", {*FILES} - {FILES[6]}),
        ("Change only main.py.", {*FILES} - {"main.py"}),
        ("Rename load in main.py everywhere, leave the other files alone", set()),
        ("Do not change the function total in main.py", set()),
        ("Don't change main.py's interface", set()),
        ("Do not change the port in conf/dev.json", set()),
        ("Do not write to tasks.txt", set()),
        ("Fix main.py so that it does not change tasks.txt", set()),
        ("main.py must not change tasks.txt when it runs", set()),
        ("The tests do not change tasks.txt", set()),
        ("Don't change main.py unless it is needed", set()),
        ("Leave everything else as it is.", set()),
    ],
)
def test_protected_files(request_text: str, left: set[str]) -> None:
    assert protected_files(request_text, FILES) == left


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Write tests for f in a new file test_f.py, at least three, and run them.", (3, False)),
        ("Write tests for f in test_f.py, at least three test methods, and run them.", (3, True)),
        ("I need five test cases for f", (5, True)),
        ("Add 2 tests to test_x.py", (2, False)),
        ("The two tests fail. Fix calc.py", (0, False)),
        ("one of the three tests in test_x.py fails; fix it", (0, False)),
        ("Add a test that three tests pass", (0, False)),
        ("Add tests: values of at least three digits", (0, False)),
    ],
)
def test_number_of_wanted_tests(text: str, wanted: tuple[int, bool]) -> None:
    assert wanted_tests(text) == wanted


def test_too_few_tests_are_a_problem() -> None:
    request = read_request("Write tests for f of f.py in a new file test_f.py, at least two test methods.")
    before = {"f.py": "def f():\n    return 1\n"}
    head = "import unittest\n\nfrom f import f\n\n\nclass T(unittest.TestCase):\n"
    one = head + "    def test_f(self):\n        self.assertEqual(f(), 1)\n        self.assertTrue(f())\n"
    two = one + "\n    def test_type(self):\n        self.assertIsInstance(f(), int)\n"
    assert "at least 2 are wanted" in find_problems(request, before, {"test_f.py": one})[0].text
    assert find_problems(request, before, {"test_f.py": two}) == []
    plain = read_request("Write tests for f of f.py in a new file test_f.py, at least two.")
    assert find_problems(plain, before, {"test_f.py": one}) == []


def test_content_requested_for_a_new_file_must_exist() -> None:
    text = "new file grades.py pls, with grade(points): 'A' from 90 on, everything below is 'F'"
    found = find_problems(read_request(text), {"a.py": "x = 1\n"}, {"grades.py": "GRADES = {90: 'A'}\n"})
    assert [(one.text, one.soft) for one in found] == [("grade is nowhere", False)]


def test_a_section_named_tests_is_not_a_test() -> None:
    text = "Add a section '## Tests' to README.md that shows how to run the tests with `python3 -m unittest`."
    assert not asks_for_tests_only(text)
    assert asks_for_tests_only("Add a test to test_x.py")


INI = "[web]\nport = 80\n[admin]\nport = 81\n"


@pytest.mark.parametrize(
    ("text", "web", "admin"),
    [
        ("set the port in a.ini to 90", True, True),
        ("set the web port in a.ini to 90", True, False),
        ("in a.ini, change the port of admin to 90", False, True),
        ("Set [web] port to 90, leave admin alone", True, False),
        ("set port to 90 for web and admin", True, True),
    ],
)
def test_values_of_other_sections_must_stay(text: str, web: bool, admin: bool) -> None:
    for old, right in (("80", web), ("81", admin)):
        found = wrong_sections(text, {"a.ini": INI}, {"a.ini": INI.replace(old, "90")})
        assert (found == []) is right


def test_unnamed_values_must_stay_if_everything_else_must() -> None:
    old = json.dumps({"name": "demo", "maxUsers": 3, "tags": ["a", "b"]})
    text = "Set max users in c.json to 5. Leave everything else as it is."

    def said(**new: object) -> list[str]:
        return unnamed_values(text, {"c.json": old}, {"c.json": json.dumps({**json.loads(old), **new})})

    assert said(maxUsers=5) == []
    assert said(maxUsers=5, tags=["b", "a"]) == []
    assert said(maxUsers=5, name="x") == ['c.json: name was "demo", and is not to change']
    assert unnamed_values("Set max users to 5", {"c.json": old}, {"c.json": "{}"}) == []


def test_each_function_with_a_reported_bug_must_change() -> None:
    lamp = (
        "class Lamp:\n    def toggle(self):\n        self.on = True\n\n    def brighter(self):\n"
        "        self.level += 10\n\n    def darker(self):\n        self.level -= 10\n"
    )
    request = read_request(
        "The class Lamp in lamp.py has two bugs: toggle switches the lamp on but never off again, and brighter goes "
        "above the maximum of 100. Fix both."
    )
    toggled = lamp.replace("self.on = True", "self.on = not self.on")
    good = toggled.replace("self.level += 10", "self.level = min(100, self.level + 10)")
    over = good.replace("self.level -= 10", "self.level = max(0, self.level - 10)")
    assert [one.text for one in find_problems(request, {"lamp.py": lamp}, {"lamp.py": toggled})] == [
        "brighter is still as it was"
    ]
    assert find_problems(request, {"lamp.py": lamp}, {"lamp.py": good}) == []
    found = find_problems(request, {"lamp.py": lamp}, {"lamp.py": over})
    assert [(one.text, one.soft) for one in found] == [("darker works, and must stay as it is", True)]


CODE = {
    "store/fees.py": "def parcel_fee(weight):\n    return 4\n",
    "store/orders.py": "from store.fees import parcel_fee\n\n\ndef order_sum(weight):\n    return parcel_fee(weight)\n",
}
BOTH = "Which function computes the fee, and in which file is it? Change nothing."


@pytest.mark.parametrize(
    ("question", "answer", "count"),
    [
        (BOTH, "It is `parcel_fee` in `store/fees.py`.", 0),
        (BOTH, "It is parcel_fee in the module store.fees.", 0),
        (BOTH, "It is `parcel_fee` in `store/orders.py`.", 1),
        (BOTH, "The function is in store/fees.py.", 1),
        (BOTH, "It is computed from the weight.", 2),
        ("Where is the fee rounded?", "It is rounded to two places.", 1),
        ("What does this project do?", "It sells things.", 0),
        ("Which functions are there?", "None that matters.", 0),
    ],
)
def test_gaps_of_an_answer(question: str, answer: str, count: int) -> None:
    assert len(answer_gaps(question, answer, CODE)) == count


def test_a_fence_around_all_files_is_removed() -> None:
    files = (
        f"<agent_files>\nThe files of my project:\n\na.py\n{FENCE}\nx = 2\n{FENCE}\n\nb.py\n{FENCE}\ny = 1\n{FENCE}\n"
    )
    reply = f"<agent_form>\n{FENCE}\n{files}</agent_files>\n</agent_form>\n"
    assert read_file_reply(reply, {"a.py": "x = 1\n", "b.py": "y = 1\n"}, "Set x to 2.").files == {"a.py": "x = 2\n"}


@pytest.mark.parametrize("before", ["", "Here they are:\n\n"])
@pytest.mark.parametrize("after", ["</agent_files>", "</agent_files>\n\nThe files of my project:", ""])
def test_fences_of_repeated_files_are_kept(before: str, after: str) -> None:
    reply = f"{before}<agent_files>\nThe files of my project:\n\na.py\n{FENCE}\nx = 2\n{FENCE}\n{after}"
    assert read_file_reply(reply, {"a.py": "x = 1\n"}, "Set x to 2.").files == {"a.py": "x = 2\n"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "notes.txt").write_text("keep me\n")
    return folder


ASK = "Fix add in calc.py. Do not change notes.txt."


def strategy(name: str) -> None:
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    models = {"models": {"mock-model": {"options": {"strategy": name}}}}
    paths.models_file().write_text(json.dumps(models))


async def test_the_files_strategy_does_not_write_protected_files(workspace: Path) -> None:
    strategy("files")
    good = f"calc.py\n{FENCE}python\ndef add(a, b):\n    return a + b\n{FENCE}\n\nnotes.txt\n{FENCE}\ngone\n{FENCE}\n"
    async with MockServer(SequenceResponder(good), strict=True) as server:
        flags = {"mode": "direct", "approval_mode": "auto"}
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send(ASK)
            ended = await watch.ended()
    assert ended.outcome == "done" and len(server.requests) == 1
    assert (workspace / "notes.txt").read_text() == "keep me\n"
    assert "a + b" in (workspace / "calc.py").read_text()


async def test_a_run_that_changes_a_protected_file_is_not_done(workspace: Path) -> None:
    strategy("native")
    edit = call("edit_file", path="calc.py", old_string="a - b", new_string="a + b")
    both: Any = step("", edit, call("edit_file", path="notes.txt", old_string="keep me", new_string="gone"))
    async with MockServer(SequenceResponder(both, "Done.", "Done.", "Done."), strict=True) as server:
        flags = {"mode": "direct", "approval_mode": "auto"}
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send(ASK)
            ended = await watch.ended()
    assert ended.outcome == "failed" and "notes.txt" in ended.text
    assert any(one.why == "notes.txt must stay as it is" for one in watch.of(CompletionRefused))
