"""Words of small jobs, and replies to them, as a real small model and real users write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tui_agent.engine.checks.examples import examples_in
from tui_agent.engine.checks.properties import properties_in, property_program
from tui_agent.engine.checks.request_reading import read_request, removable_names
from tui_agent.engine.checks.static_checks import find_problems, lint_hints
from tui_agent.protocols.file_reply import named_paths, read_file_reply

FENCE = "```"


def files_of(reply: str, known: dict[str, str], request: str) -> dict[str, str]:
    return dict(read_file_reply(reply, known, request, removable_names(request)).files)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("python3 -m unittest fails in this project. Fix it.", ("python3 -m unittest",)),
        ("python3 -m pytest crashes", ("python3 -m pytest",)),
        ("Run python3 -m unittest test_a afterwards", ("python3 -m unittest test_a",)),
        ("Fix it and run python3 -m pytest tests/test_a.py.", ("python3 -m pytest tests/test_a.py",)),
        ("Check with python3 -m pytest -q", ("python3 -m pytest -q",)),
    ],
)
def test_a_command_ends_where_the_sentence_continues(text: str, commands: tuple[str, ...]) -> None:
    assert read_request(text).commands == commands


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("add *.log and the build folder to .gitignore", [".gitignore"]),
        ("settings.ini needs a section [cache] with dir = .cache and ttl = 300", ["settings.ini"]),
        ("Change .github/workflows/ci.yml and .env.example", [".github/workflows/ci.yml", ".env.example"]),
        ("Ignore .pyc and .tmp files", []),
        ("Put it into .flake8, not .editorconfig", [".flake8", ".editorconfig"]),
    ],
)
def test_values_and_suffixes_are_not_paths(text: str, paths: list[str]) -> None:
    assert named_paths(text) == paths


def test_a_fence_within_a_readme_is_part_of_it() -> None:
    readme = "# tiny\n\nA logger.\n\n## License\n\nMIT\n"
    new = f"# tiny\n\nA logger.\n\n## Installation\n\n{FENCE}sh\npip install tiny\n{FENCE}\n\n## License\n\nMIT\n"
    request = "README.md needs a section called Installation, put it before License."
    assert files_of(f"{FENCE}\n{new}{FENCE}\n", {"README.md": readme}, request) == {"README.md": new}
    plain = f"a.py\n{FENCE}\n# a\nx = 2\n{FENCE}\nand\nb.py\n{FENCE}python\ny = 2\n{FENCE}\n"
    assert files_of(plain, {"a.py": "# a\nx = 1\n", "b.py": "y = 1\n"}, "Set x and y to 2.") == {
        "a.py": "# a\nx = 2\n",
        "b.py": "y = 2\n",
    }


def test_a_block_with_several_files_is_split() -> None:
    reply = f"{FENCE}python\n# app/a.py\nx = 2\n\n# app/b.py\ny = 2\n{FENCE}\n"
    known = {"app/a.py": "x = 1\n", "app/b.py": "y = 1\n"}
    assert files_of(reply, known, "Set x and y to 2.") == {"app/a.py": "x = 2\n", "app/b.py": "y = 2\n"}


POINT = """import math


class Point:
    def __init__(self, x, y=0):
        self.x = x
        self.y = y

    def distance(self, other):
        return math.hypot(self.x - other.x, self.y - other.y)
"""


def test_a_restructured_class_is_replaced_completely() -> None:
    new = (
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Point:\n    x: float\n    y: float = 0\n\n"
        "    def distance(self, other):\n        return math.hypot(self.x - other.x, self.y - other.y)\n"
    )
    request = "Turn the class Point in geometry.py into a dataclass."
    got = files_of(f"geometry.py\n{FENCE}python\n{new}{FENCE}\n", {"geometry.py": POINT}, request)["geometry.py"]
    assert "__init__" not in got and "import math" in got and "@dataclass" in got
    assert not [
        one.text
        for one in find_problems(read_request(request), {"geometry.py": POINT}, {"geometry.py": got})
        if not one.soft
    ]
    part = "class Point:\n    def length(self):\n        return math.hypot(self.x, self.y)\n"
    request = "Give Point in geometry.py a method length()."
    got = files_of(f"geometry.py\n{FENCE}python\n{part}{FENCE}\n", {"geometry.py": POINT}, request)["geometry.py"]
    assert "__init__" in got and "distance" in got and "length" in got


def test_a_requested_constant_must_exist() -> None:
    request = read_request("0.19 is written three times in tax.py. Make it a constant VAT at the top and use that.")
    before = {"tax.py": "def tax(net):\n    return net * 0.19\n"}
    wrong = find_problems(request, before, {"tax.py": "RATE = 0.19\n\n\ndef tax(net):\n    return net * RATE\n"})
    assert [(one.text, one.soft) for one in wrong] == [("VAT is nowhere", False)]
    assert find_problems(request, before, {"tax.py": "VAT = 0.19\n\n\ndef tax(net):\n    return net * VAT\n"}) == []


def test_a_file_to_be_adapted_must_change() -> None:
    before = {"users.py": "def find():\n    return 1\n", "card.py": "from users import find\n"}
    after = {"users.py": "def find():\n    return {}\n"}
    request = read_request("Change find in users.py so that it returns a dict, and adapt card.py, which uses it.")
    assert [(one.text, one.soft) for one in find_problems(request, before, after)] == [
        ("card.py has to change, too", False)
    ]
    request = read_request("Change find in users.py, and update card.py if needed.")
    assert find_problems(request, before, after) == []


def test_mapped_values_are_examples_of_the_named_function() -> None:
    files = {"bytesize.py": "def human_size(n):\n    return ''\n", "b.py": "def other(a, b):\n    return a\n"}
    text = "New file bytesize.py please, with human_size(n). 999 -> '999 B', 1000 -> '1.0 kB'. Powers of 1000."
    found = examples_in(text, files, {})
    assert [(one.call, one.want) for one in found] == [("human_size(999)", "'999 B'"), ("human_size(1000)", "'1.0 kB'")]
    assert examples_in("other(a, b) in b.py: 1 -> 2", files, files) == []
    assert examples_in("human_size currently gives 999 -> '999'", files, files) == []


def test_a_moved_definition_is_only_in_its_new_file() -> None:
    before = {"a.py": "import re\n\n\ndef x():\n    return re.I\n\n\ndef y():\n    return 1\n", "b.py": ""}
    request = read_request("Please move the function x from a.py to b.py.")
    left = {"b.py": "import re\n\n\ndef x():\n    return re.I\n"}
    assert "x still stands in a.py" in [one.text for one in find_problems(request, before, left)]
    gone = {"a.py": "def y():\n    return 1\n"}
    assert "b.py does not define x yet" in [one.text for one in find_problems(request, before, gone)]
    assert not [one for one in find_problems(request, before, {**left, **gone}) if not one.soft]


def test_only_imports_still_in_use_are_restored() -> None:
    known = {"main.py": "from helpers import cents, full\n\n\ndef badge(n):\n    return full(n), cents(n)\n"}
    new = "from helpers import cents\n\n\ndef badge(n):\n    return full(n) + '!', cents(n)\n"
    got = files_of(f"main.py\n{FENCE}python\n{new}{FENCE}\n", known, "Add an exclamation mark in badge.")
    assert got["main.py"].startswith("from helpers import cents\nfrom helpers import full\n")


def test_broken_imports() -> None:
    before = {
        "lib/__init__.py": "",
        "lib/labels.py": "def fmt(a):\n    return a\n",
        "lib/shelf.py": "from lib import labels\n\n\ndef show(a):\n    return labels.fmt(a)\n",
    }
    after = {
        "lib/labels.py": "def label(a):\n    return a\n",
        "lib/shelf.py": "from lib import label\n\n\ndef show(a):\n    return label(a)\n",
    }
    request = read_request("The function fmt in lib/labels.py should be called label. Rename it.")
    wrong = find_problems(request, before, after)
    assert [one.soft for one in wrong if "imports label from lib" in one.text] == [False]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("last_lines(lines, 3) in tail.py returns two lines instead of three. Fix it.", ("3", "3")),
        ("last_lines(items, 5) gives 4 items, not 5", ("5", "5")),
        ("last_lines(lines, 3) in tail.py returns the wrong lines. Fix it.", None),
        ("last_lines(lines, 3) returns two lines.", None),
    ],
)
def test_counted_results_are_examples(text: str, want: tuple[str, str] | None) -> None:
    files = {"tail.py": "def last_lines(lines, count):\n    return lines[-count:]\n"}
    found = examples_in(text, files, files)
    if want is None:
        assert found == []
    else:
        (one,) = found
        assert one.call.startswith("len(last_lines(['item 1',") and one.want == want[1]


@pytest.mark.parametrize(
    ("request_", "good", "bad"),
    [
        (
            "clock(seconds) returns a text H:MM:SS: the hours without leading zeros",
            "f'{n // 3600}:{n % 3600 // 60:02d}:{n % 60:02d}'",
            "f'{n // 3600:02d}:{n % 3600 // 60:02d}:{n % 60:02d}'",
        ),
        ("clock(n) gives M:SS", "f'{n // 60}:{n % 60:02d}'", "f'{n // 60}:{n % 60}'"),
        (
            "clock(n): the first letter of every word, each followed by a dot, no spaces in the result",
            "''.join(one[0] + '.' for one in n.split())",
            "'.'.join(one[0] for one in n.split())",
        ),
        ("clock(n) has no spaces in the result", "n.replace(' ', '')", "n"),
        ("clock(n): words joined by single hyphens", "'-'.join(n.split())", "n.replace(' ', '')"),
        ("clock(n), all words joined with an underscore", "'_'.join(n.split())", "'-'.join(n.split())"),
    ],
)
def test_properties_of_a_result_are_tested(tmp_path: Path, request_: str, good: str, bad: str) -> None:
    assert "but the request says" not in trial(tmp_path, request_, good)
    assert "but the request says" in trial(tmp_path, request_, bad)


def trial(folder: Path, request_: str, body: str) -> str:
    (folder / "duration.py").write_text(f"def clock(n):\n    return {body}\n", encoding="utf-8")
    program = property_program("duration", "clock", properties_in(request_))
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stderr


@pytest.mark.parametrize(
    ("body", "broken"),
    [
        ("''.join(filter(str.isalnum, n).lower())", True),
        ("''.join(re.findall('[a-z]', n))", True),
        ("n.heading.lower()", False),
        ("n.lower() if n else missing", False),
        ("None.lower() if n else ''", False),
    ],
)
def test_a_function_that_fails_for_every_argument_violates_its_properties(
    tmp_path: Path, body: str, broken: bool
) -> None:
    said = trial(tmp_path, "clock(n) has no spaces in the result", body)
    assert ("raises" in said and "but the request says" in said) is broken, said


SCORES = """class Scores:
    stock = {}
    NAMES = ["a"]

    def best(self):
        return min(self.points)

    def average(self):
        return sum(self.points[:-1]) / len(self.points)

    def put(self, name):
        self.stock[name] = 1
"""


def test_both_of_two_faults_must_be_fixed() -> None:
    request = read_request(
        "The class Scores in scores.py has two bugs: best returns the lowest score instead of the highest, and average "
        "leaves out the last score. Fix both."
    )
    one = {"scores.py": SCORES.replace("min(", "max(")}
    both = {"scores.py": one["scores.py"].replace("[:-1]", "")}
    assert [each.text for each in find_problems(request, {"scores.py": SCORES}, one)] == ["average is still as it was"]
    assert find_problems(request, {"scores.py": SCORES}, both) == []


def test_shared_attributes_are_hinted() -> None:
    assert lint_hints({"scores.py": SCORES}) == [
        "scores.py line 2: stock of the class Scores is one object that all instances share"
    ]
