from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tui_agent.engine.checks.examples import Example, examples_in
from tui_agent.engine.checks.project_checks import python_program
from tui_agent.engine.checks.properties import UNTRIED, properties_in, property_program, sampling_program

FILES = {
    "fb.py": (
        "def fizz(n):\n    return n\n\n\ndef is_even(n):\n    return n\n\n\ndef add(a, b):\n    return a - b\n\n\n"
        "def shout(text):\n    return text\n\n\ndef count_words(text):\n    return 2\n\n\ndef version():\n    return '1'\n"
    ),
    "shop/lists.py": (
        "def first(items):\n    return items[0]\n\n\ndef mean(values):\n    return sum(values) / len(values)\n\n\n"
        "def divide(a, b):\n    return a / b\n\n\ndef to_int(text):\n    return int(text)\n\n\n"
        "def area(a, b):\n    return a * b\n\n\ndef to_roman(n):\n    return ''\n"
    ),
    "cart.py": "class Cart:\n    def __init__(self, owner=''):\n        pass\n\n    def total(self):\n        return 0\n",
    "test_fb.py": "def shout(text):\n    pass\n",
}


def told(request: str, before: dict[str, str] | None = None) -> list[str]:
    return [one.expected for one in examples_in(request, FILES, before)]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            "Add a function fizz(n) to fb.py: fizz(3) returns 'Fizz', fizz(5) returns 'Buzz' and fizz(1) returns 1.",
            ["fizz(3) must return 'Fizz'", "fizz(5) must return 'Buzz'", "fizz(1) must return 1"],
        ),
        (
            "is_even(4) is True, is_even(3) is False. Add it to fb.py.",
            ["is_even(4) must return True", "is_even(3) must return False"],
        ),
        ("Create a file fb.py with a function shout(s): shout('a') becomes 'A'.", ["shout('a') must return 'A'"]),
        ("Implement fizz and shout. `shout(\"\")` yields `''`.", ["shout(\"\") must return ''"]),
        (
            "Add a class Cart to cart.py with a method total: Cart().total() returns 0.",
            ["Cart().total() must return 0"],
        ),
        (
            "Add a function to_int: to_int('7') gives 7, to_int('x') raises ValueError.",
            ["to_int('7') must return 7", "to_int('x') must raise ValueError"],
        ),
        ("Fix add so that add(2, 3) is 5 and add(0, 0) is 0.", ["add(2, 3) must return 5", "add(0, 0) must return 0"]),
        ("Make sure that add(2, 3) gives 5.", ["add(2, 3) must return 5"]),
        ("Add an option unit to area: area(2, 3, unit='m') gives '6 m'.", ["area(2, 3, unit='m') must return '6 m'"]),
        ("add(2,3) → 5; add(1, -1) → 0", ["add(2,3) must return 5", "add(1, -1) must return 0"]),
        (
            "Write add:\n- add(1, 2) -> 3\n- add(2, 2) -> 4\n- `add(0, 0)` => `0`\n",
            ["add(1, 2) must return 3", "add(2, 2) must return 4", "add(0, 0) must return 0"],
        ),
        ('>>> add(2, 3)\n5\n>>> shout("a")\n\'A\'', ["add(2, 3) must return 5", "shout(\"a\") must return 'A'"]),
    ],
)  # fmt: skip
def test_statements_about_new_functions_are_wishes(request_: str, expected: list[str]) -> None:
    assert told(request_) == expected


@pytest.mark.parametrize(
    "request_",
    [
        "Write tests for to_roman in test_roman.py, e.g. to_roman(4) gives 'IV'.",
        "count_words('a b') returns 2. Add an argument min_length to it.",
        "shout('a') returns 'A'. Use an exclamation mark.",
        "add(2, 3) returns 5. Rename it to plus.",
        "to_int('x') raises ValueError. Write a test for it.",
        "to_int('x') raises ValueError.",
        "first([]) → IndexError. Fix it.",
        "If add(2, 3) returns 5, all is good. Fix the bug.",
        "Why does shout('a') return 'a'?",
        "shout('a') no longer returns 'A'. Fix it.",
        "shout('a') does not return 'A'. Fix it.",
        "add(2, 3) is not supposed to return 5.",
        "add(2, 3) doesn't have to return 5.",
        "Fix the bug in fb.py: fizz(3) returns 'Fizz' but fizz(5) returns 5.",
        "fizz(15) is 'Fizz', not 'FizzBuzz'. Fix it.",
        "area(2, 3) returns 6. It should raise ValueError for negative numbers.",
        "mean([1, 2]) works. Make mean raise ValueError for an empty list.",
        "to_roman(0) must raise ValueError or TypeError.",
        "fizz(3) should return 3 items. add(1, 2) should return 2 or 3.",
        "mean([1, 2]) should be about 1.5, add(1, 2) should be 3 characters long",
        "mean() should return 0 for no values",
        "shout('a.txt') should return '' if the file is missing.",
        "fizz(n) should return 3. fizz(...) should return 4.",
        "len(unknown(3)) == 4, not is_even(3), 2 * add(1, 1) == 4, add(1, 1) + 1 == 3, add(1, 2) != 3",
        "add(1, 2) should equal add(2, 1), h(1) should return 2",
        "def fizz(n=3): return 3",
    ],
)
def test_ambiguous_statements_are_ignored(request_: str) -> None:
    assert told(request_) == []


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("first([]) in shop/lists.py raises IndexError. Make it return None.", "first([]) must return None"),
        ("to_int('x') raises ValueError. Return None instead.", "to_int('x') must return None"),
        (
            "mean([]) in lists.py raises ZeroDivisionError. It should raise ValueError('no values').",
            "mean([]) must raise ValueError('no values')",
        ),
        (
            "mean([]) in stats.py fails with ZeroDivisionError. Make it raise ValueError('no values') instead.",
            "mean([]) must raise ValueError('no values')",
        ),
        (
            "mean([]) crashes. Make mean raise a ValueError with the message 'no values' for an empty list.",
            "mean([]) must raise ValueError('no values')",
        ),
        (
            "In lists.py, mean must raise ValueError('no values') for an empty list. Now mean([]) fails.",
            "mean([]) must raise ValueError('no values')",
        ),
        ("mean([]) crashes with a ZeroDivisionError; it should return 0 for an empty list.", "mean([]) must return 0"),
        ("divide(1, 0) must not raise ZeroDivisionError but return None.", "divide(1, 0) must return None"),
        ("divide(1, 0) shouldn't raise ZeroDivisionError.", "divide(1, 0) must not raise ZeroDivisionError"),
        ("mean([]) must not crash.", "mean([]) must not raise an error"),
        ("Make to_int('x') raise ValueError('bad') rather than returning None.", "to_int('x') must raise ValueError('bad')"),
        ("Change to_int so that to_int('x') returns None instead of raising ValueError.", "to_int('x') must return None"),
        ("Return None from first([]) instead of raising IndexError.", "first([]) must return None"),
        ("Raise ValueError('x') for mean([]) instead of failing.", "mean([]) must raise ValueError('x')"),
        ("Return 0 for mean([]).", "mean([]) must return 0"),
        ("Make to_int in lists.py raise ValueError('no') for to_int('x').", "to_int('x') must raise ValueError('no')"),
        ("divide(1, 0) fails. Catch that and raise ValueError('zero') instead.", "divide(1, 0) must raise ValueError('zero')"),
        ("I call first([]) and get an IndexError. It should return None.", "first([]) must return None"),
        ("first([]) should return None if the list is empty, not raise IndexError.", "first([]) must return None"),
        ("to_int('') should raise an error.", "to_int('') must raise an error"),
        ("to_int('') should raise ValueError(f'bad {x}')", "to_int('') must raise ValueError"),
    ],
)  # fmt: skip
def test_reported_errors_are_not_wanted(request_: str, expected: str) -> None:
    assert told(request_) == [expected]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            "to_int('7') should give 7, to_int('x') should raise ValueError",
            ["to_int('7') must return 7", "to_int('x') must raise ValueError"],
        ),
        (
            "area(-1, 2) should raise ValueError and area(2, 3) should return 6",
            ["area(-1, 2) must raise ValueError", "area(2, 3) must return 6"],
        ),
        ("add(2, 3) and add(3, 2) should both be 5.", ["add(3, 2) must return 5"]),
        (
            "to_roman(0) is expected to raise ValueError(\"n > 0\"), to_roman(4) is expected to be 'IV'.",
            ["to_roman(0) must raise ValueError", "to_roman(4) must return 'IV'"],
        ),
        ("to_int(' 7 ') gives 7 but to_int('') raises ValueError; it should give 0.", ["to_int('') must return 0"]),
        ("first((1, 2)) should be (1,), first([]) None.", ["first((1, 2)) must return (1,)"]),
    ],
)
def test_each_call_has_its_own_statements(request_: str, expected: list[str]) -> None:
    assert told(request_) == expected


@pytest.mark.parametrize(
    ("request_", "want", "wrong"),
    [
        ("add(2, 3) returns -1 instead of 5.", "5", "-1"),
        ("add(2, 3): expected 5, got -1.", "5", ""),
        ("Expected add(2, 3) to be 5 but got -1.", "5", ""),
        ("add(2, 3) should be not -1 but 5.", "5", ""),
        ("add(2, 3) should return 5, not -1.", "5", ""),
        ("add(2, 3) should return 5 instead of -1.", "5", "-1"),
        ("first([1]) is 1 when it should be 0.", "0", "1"),
        ("fizz(15) gives 'Fizz' but should give 'FizzBuzz'.", "'FizzBuzz'", "'Fizz'"),
        ("fizz(15) returned 'Fizz', expected 'FizzBuzz'.", "'FizzBuzz'", "'Fizz'"),
        ("mean([1, 3]) returns 2.0 but should return 2.", "2", "2.0"),
        ("add(2, 3) returns 5 at the moment; after the change it should return '5'.", "'5'", "5"),
        ("is_even(1900) returns True. Fix it.", "", "True"),
        ("add(2, 3) returns -1: the operator is wrong.", "", "-1"),
        ("The function add in fb.py has a bug: add(2, 3) returns -1.", "", "-1"),
        ("area(2, 3) returns 5, the sum, but should return the product. Fix it.", "", "5"),
        ("area(2, 3) returns 5 instead of the product.", "", "5"),
        ("add(2, 3) should not return -1.", "", "-1"),
        ("Make add(2, 3) return 5.", "5", ""),
        ("I want add(2, 3) to be 5.", "5", ""),
        ("fb.add(2, 3) should return 5. Leave the rest.", "5", ""),
        ("Cart().total() returns None instead of 0.", "0", "None"),
        ("len(fizz(3)) == 4", "4", ""),
        ("version() should return '1.2'", "'1.2'", ""),
        ("mean([]) should return an empty list", "[]", ""),
        ("area(a=1, b=-2.5) should return -2.5.", "-2.5", ""),
        ('shout("a, (b") gives \'A. (B!\' instead of "A".', "'A'", "'A. (B!'"),
        ("shout({'a': [1, None]}) should become {'A': [1, None]}.", "{'A': [1, None]}", ""),
        ("shout(‘a’) should be “A’s”.", '"A\'s"', ""),
        ("add(1, 2) should return 3 (an int).", "3", ""),
    ],
)
def test_wanted_and_wrong_values(request_: str, want: str, wrong: str) -> None:
    (found,) = examples_in(request_, FILES)
    assert (found.want, found.wrong) == (want, wrong)


def test_statements_about_missing_functions_are_wishes() -> None:
    request = "fizz(3) is 'Fizz' and fizz(1) is 1. Fix the tests."
    assert told(request) == told(request, FILES) == []
    assert told(request, {**FILES, "fb.py": ""}) == ["fizz(3) must return 'Fizz'", "fizz(1) must return 1"]
    request = "The bug is back: area(2, 3, unit='m') returns '6 m'."
    assert told(request, FILES) == ["area(2, 3, unit='m') must return '6 m'"]
    had = {**FILES, "shop/lists.py": FILES["shop/lists.py"].replace("area(a, b)", "area(a, b, unit='')")}
    assert told(request, had) == ["area(2, 3, unit='m') must not return '6 m'"]


def test_ambiguous_functions_are_ignored() -> None:
    files = {"a.py": "def f(x):\n    return x\n", "b.py": "def f(x):\n    return x\n"}
    assert examples_in("f(1) should return 2", files) == []
    (found,) = examples_in("f(1) in b.py should return 2", files)
    assert found.module == "b"


def test_a_command_begins_with_its_title() -> None:
    (found,) = examples_in("fizz(3) should return 4", FILES)
    assert found.command.startswith(f'{python_program()} -B -c "# fizz(3) must return 4\n')


# --- trying ---


def python_runs(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)


def ran(folder: Path, files: dict[str, str], example: Example) -> tuple[int, str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = example.command.replace(python_program(), sys.executable, 1)
    done = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def tried(folder: Path, request: str, files: dict[str, str]) -> tuple[int, str]:
    (example,) = examples_in(request, files)
    code, said = ran(folder, files, example)
    return code, said.splitlines()[-1] if said else ""


@pytest.mark.parametrize(
    ("body", "request_", "says"),
    [
        ("return a + b", "f(2, 3) should return 5", ""),
        ("return a - b", "f(2, 3) should return 5", "it returned -1"),
        ("return [][1]", "f(2, 3) should return 5", "IndexError: list index out of range"),
        ("print(a); return -1", "f(2, 3) should return 5", "it returned -1"),
        ("return a + b", "f(0.1, 0.2) should return 0.3", ""),
        ("return {'s': [a + b]}", "f(0.1, 0.2) should return {'s': [0.3]}", ""),
        ("return a * b", "f(0.1, 0.2) should return 0.3", "it returned 0.020000000000000004"),
        ("yield a\n    yield b", "f(1, 2) should give [1, 2]", ""),
        ("return map(int, (a, b))", "f(1, 2) should give [1, 2]", ""),
        ("return (a + b) / 2", "f(1, 3) returns 2.0 but should return 2", "it returned 2.0"),
        ("return (a + b) // 2", "f(1, 3) returns 2.0 but should return 2", ""),
        ("return a == b", "f(1, 2) returns True. Fix it.", ""),
        ("return a < b", "f(1, 2) returns True. Fix it.", "it returned True"),
        ("return 1", "f(1, 2) returns True. Fix it.", ""),
        ("raise ValueError('no')", "f(1, 2) should raise ValueError('no')", ""),
        ("raise KeyError('no')", "f(1, 2) should raise LookupError", ""),
        ("raise KeyError('no')", "f(1, 2) should raise KeyError('no')", ""),
        ("raise ValueError('yes')", "f(1, 2) should raise ValueError('no')", "it raised ValueError('yes')"),
        ("raise TypeError('no')", "f(1, 2) should raise ValueError('no')", "TypeError: no"),
        ("return 3", "f(1, 2) should raise ValueError", "it returned 3"),
        ("raise ValueError('no')\n    yield", "f(1, 2) should raise ValueError", ""),
        ("return a / b", "f(1, 0) must not raise ZeroDivisionError", "it raised ZeroDivisionError('division by zero')"),
        ("return a and b", "f(1, 0) must not raise ZeroDivisionError", ""),
        ("raise ValueError", "f(1, 0) must not raise ZeroDivisionError", ""),
        ("print('Sum:', a + b)", "f(1, 2) should print 'Sum: 3'", ""),
        ("print('Sum', a + b)", "f(1, 2) should print 'Sum: 3'", r"it printed 'Sum 3\n'"),
    ],
)  # fmt: skip
def test_a_failed_example_prints_the_result(tmp_path: Path, body: str, request_: str, says: str) -> None:
    code, said = tried(tmp_path, request_, {"m.py": f"def f(a, b):\n    {body}\n"})
    assert (code == 0, said) == (not says, says)


GOOD = "def f(a):\n    return a + 1\n"
LAID = [
    {"my-tools.py": GOOD},
    {"2048.py": GOOD},
    {"src/calc.py": f"from other import x\n\n\n{GOOD}", "src/other.py": "x = 1\n"},
    {"src/calc.py": f"from src.other import x\n\n\n{GOOD}", "src/other.py": "x = 1\n"},
    {"src/app/calc.py": f"from app.other import x\n\n\n{GOOD}", "src/app/other.py": "x = 1\n"},
    {"src/app/__init__.py": f"from .other import x\n\n\n{GOOD}", "src/app/other.py": "x = 1\n"},
    {"a/b/calc.py": f"import other\n\n\n{GOOD}", "a/b/other.py": "x = 1\n"},
    {"calc.py": f"print('hello')\n\n\n{GOOD}"},
    {"statistics.py": GOOD},
]


@pytest.mark.parametrize("files", LAID)
def test_modules_are_found_in_any_project_layout(tmp_path: Path, files: dict[str, str]) -> None:
    assert tried(tmp_path, "f(1) should return 2", files) == (0, "")
    assert tried(tmp_path, "f(1) should return 3", files) == (1, "it returned 2")


@pytest.mark.parametrize(
    "head",
    [
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('name')\nparser.parse_args()\n",
        "name = input('Name? ')\n",
        "import sys\nsys.exit(0)\n",
        "import a_package_that_is_not_there\n",
        "from . import other\n",
        "raise RuntimeError('no display')\n",
    ],
)
def test_a_failed_import_shows_nothing(tmp_path: Path, head: str) -> None:
    files = {"script.py": f"{head}\n\n{GOOD}"}
    (example,) = examples_in("f(1) should return 7", files)
    code, said = ran(tmp_path, files, example)
    assert code == UNTRIED and "not tried: script can not be imported" in said
    for program in (
        sampling_program("script", "f", 1),
        property_program("script", "f", properties_in("in lower case")),
    ):
        done = python_runs(program, tmp_path)
        assert done.returncode == UNTRIED and "returns" not in done.stdout


@pytest.mark.parametrize("body", ["return input()", "raise SystemExit(0)", "return g(a)"])
def test_input_exit_and_coroutines_show_nothing(tmp_path: Path, body: str) -> None:
    files = {"m.py": f"async def g(a):\n    return a\n\n\ndef f(a):\n    {body}\n"}
    assert tried(tmp_path, "f(1) should return 7", files)[0] == UNTRIED


@pytest.mark.parametrize("files", LAID)
def test_samples_and_properties_find_the_module(tmp_path: Path, files: dict[str, str]) -> None:
    (example,) = examples_in("f(1) should return 2", files)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("a + 1", "str(a).upper()"))
    shown = [
        sampling_program(example.module, "f", 1),
        property_program(example.module, "f", properties_in("in lower case")),
    ]
    said = [python_runs(one, tmp_path) for one in shown]
    assert said[0].stdout.splitlines()[0] == "f(1) == '1'"
    assert "but the request says: in lower case" in said[1].stderr


def test_methods_and_expressions_are_evaluated(tmp_path: Path) -> None:
    files = {
        "m.py": "class Cart:\n    def add(self, n):\n        return self\n\n    def total(self):\n        return 3\n"
    }
    assert tried(tmp_path, "Cart().add(-1).total() should be 3", files) == (0, "")
    assert tried(tmp_path, "`str(Cart().total())` should be '4'", files) == (1, "it returned '3'")
