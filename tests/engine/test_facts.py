from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui_agent.common.domain import FileChange, ToolCall, ToolResult
from tui_agent.engine.checks.examples import examples_in
from tui_agent.engine.checks.project_checks import check_results, detect_test_command, failed_check, stale_checks
from tui_agent.engine.checks.properties import called_function, properties_in
from tui_agent.engine.checks.relevant_files import find_relevant_files, room_in_window
from tui_agent.engine.checks.request_reading import is_small, list_items, read_request, request_kind
from tui_agent.engine.checks.static_checks import find_problems, lint_hints, with_fixed_imports
from tui_agent.safety.roots import Roots


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Fix the bug in calc.py.", "change"),
        ("Can you add a test for it?", "change"),
        ("The test fails. Find out why and fix it.", "change"),
        ("page(x) should return the first page.", "change"),
        ("Which function calls login? Change nothing.", "question"),
        ("Only answer, do not change any file.", "question"),
        ("Add a docstring. Do not change what it does.", "change"),
        ("Why does it fail?", "question"),
        ("How do I rename a file?", "question"),
        ("Explain how the cache works.", "question"),
        ("Run the tests", "command"),
        ("Yes, do that.", "unclear"),
        ("hello", "unclear"),
    ],
)
def test_kind_of_a_request(text: str, kind: str) -> None:
    assert request_kind(text) == kind


def test_paths_names_and_commands_of_a_request() -> None:
    found = read_request("Rename calc_sum to total in shop/a.py, then run `python3 -m unittest`. pytest -q is off.")
    assert found.paths == ("shop/a.py",) and "calc_sum" in found.names
    assert found.commands == ("python3 -m unittest",)
    assert is_small("Fix the typo in README.md.") and not is_small("- one thing\n- and another")
    assert list_items("Do this:\n1. Add a.py\n2. Remove b.py") == ["Add a.py", "Remove b.py"]
    assert list_items("- it is red\n- it is blue") == []


def test_examples_become_commands() -> None:
    files = {"pkg/m.py": "def f(a, b):\n    return a\n\n\ndef g(a):\n    return a\n"}
    (must,) = examples_in("f([1, 2], 2) in m.py should return [1], but returns [1, 2].", files)
    assert must.want == "[1]" and must.module == "pkg.m" and must.expected == "f([1, 2], 2) must return [1]"
    (wrong,) = examples_in("g(1900) returns True. Fix it.", files)
    assert wrong.wrong == "True"
    (error,) = examples_in("g([]) fails. Make it raise ValueError('no values') instead.", files)
    assert (error.error, error.message) == ("ValueError", "no values")
    assert examples_in("f(a, 1) returns the wrong page, h(1) should return 2", files) == []


def test_phrases_become_properties() -> None:
    words = "slugify(title): lower case, words joined by single hyphens, nothing but a-z, 0-9 and hyphens, no hyphen at the ends."
    assert [item.phrase for item in properties_in(words)] == [
        "lower case", "single hyphens", "no hyphen at the ends", "words joined by single hyphens",
        "nothing but a-z, 0-9 and hyphens",
    ]  # fmt: skip
    assert called_function(words, {"slug.py": "def slugify(title):\n    return title\n"}) == ("slug", "slugify")
    assert properties_in("Fix the bug in calc.py.") == []


def found(request: str, before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [one.text for one in find_problems(read_request(request), before, after)]


OLD = "import os\n\nRATE = 2  # per cent\n\n\ndef size(path, unit=1):\n    return os.stat(path).st_size // unit\n"


def test_breaking_changes_are_problems() -> None:
    before = {"a.py": OLD, "b.py": "from a import size\n"}
    assert found("Make size faster", before, {}) == ["nothing changed"]
    assert found("Make size faster", before, {"a.py": OLD.replace("import os", "# os\nimport os")}) == [
        "nothing changed"
    ]
    assert "has an error" in found("Make size faster", before, {"a.py": "def size(:\n"})[0]
    gone = found("Make it faster", before, {"a.py": "def other():\n    return 1\n"})
    assert "a.py: size is gone" in gone and any("does not define it" in one for one in gone)
    lost = found("Make it faster", before, {"a.py": OLD.replace("path, unit=1", "path").replace(" // unit", "")})
    assert lost == ["a.py: size() must keep its parameter unit"]
    assert found("Make it faster", before, {"a.py": OLD.replace("  # per cent", "").replace("= 2", "= 3")}) == [
        "a.py: the comment “# per cent” is gone"
    ]
    undefined = found("Use shutil", before, {"a.py": OLD.replace("os.stat", "shutil.stat")})
    assert "a.py: the name shutil is not defined" in undefined


def test_unfinished_renames_and_missing_names_are_problems() -> None:
    before = {"a.py": OLD, "b.py": "from a import size\n"}
    renamed = OLD.replace("size(", "length_of(")
    incomplete = found("Rename size in a.py to length_of everywhere", before, {"a.py": renamed})
    assert incomplete == ["b.py line 1 imports size from a, which does not define it"]
    assert found("Rename size to length_of", before, {"a.py": renamed, "b.py": "from a import length_of\n"}) == []
    assert "to_list is nowhere" in found("Add a function to_list(x) to a.py", before, {"a.py": OLD + "\n\nX = 1\n"})
    assert found("Set RATE to 3 in a.py", before, {"a.py": OLD.replace("RATE = 2", "RATE = 3")}) == []


def test_changing_a_failing_test_is_a_problem() -> None:
    before = {"a.py": OLD, "test_a.py": "def test():\n    assert 1 == 2\n"}
    passing = {"test_a.py": "def test():\n    assert 2 == 2\n"}
    wrong = find_problems(read_request("test_a.py fails. Fix a.py so that the tests pass."), before, passing)
    assert ("test_a.py must stay as it is", False) in [(one.text, one.soft) for one in wrong]
    assert found("Add a second test to test_a.py", before, passing) == []
    (soft,) = find_problems(read_request("Make size in a.py faster"), before, passing)
    assert soft.soft


def test_imports_are_fixed_automatically() -> None:
    assert with_fixed_imports("def f():\n    return os.getcwd()\n", None).startswith("import os\n")
    assert with_fixed_imports("import os\n\n\ndef f():\n    return 1\n", OLD) == "\n\ndef f():\n    return 1\n"
    assert lint_hints({"a.py": "def f(items=[]):\n    return items\n"}) == [
        "a.py line 1: the default value of f() is mutable, so all calls share it"
    ]


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"test_a.py": "import unittest\n"}, "python3 -B -m unittest test_a"),
        ({"test_a.py": "def test():\n    pass\n"}, "python3 -B -m pytest -q -p no:cacheprovider"),
        ({"tests/test_a.py": "import unittest\n"}, "python3 -B -m unittest discover -s tests"),
        ({"tests/test_a.py": "", "pyproject.toml": "[tool.pytest.ini_options]\n"}, "python3 -B -m pytest -q -p no:cacheprovider"),
        ({"package.json": json.dumps({"scripts": {"test": "jest"}})}, "npm test"),
        ({"package.json": json.dumps({"scripts": {"test": "echo no test specified"}})}, ""),
        ({"Cargo.toml": ""}, "cargo test"),
        ({"go.mod": ""}, "go test ./..."),
        ({"tox.ini": ""}, "tox"),
        ({"Makefile": "all:\n\ntest: all\n"}, "make test"),
        ({"a.py": ""}, ""),
    ],
)  # fmt: skip
def test_detecting_the_test_command(tmp_path: Path, files: dict[str, str], command: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert detect_test_command(tmp_path) == command


def ran(command: str, *, good: bool, error: str = "exit code 1") -> tuple[ToolCall, ToolResult]:
    call = ToolCall(id="x", name="run_terminal_command", arguments={"command": command})
    return call, ToolResult(success=good, error=None if good else error)


def wrote() -> tuple[ToolCall, ToolResult]:
    change = FileChange(path="/a", display="a", kind="modify", added=1, removed=1, before="x", after="y")
    return ToolCall(id="w", name="write_file", arguments={}), ToolResult(success=True, changes=(change,))


def test_which_commands_are_checks() -> None:
    done = [ran("ls", good=False), ran("grep x a", good=False), ran("pytest", good=False, error="exit code 127")]
    assert check_results(done) == {} and failed_check(done) is None
    done = [ran("python3 -m pytest", good=False), wrote()]
    assert failed_check(done) is not None and stale_checks(done) == ["python3 -m pytest"]
    done.append(ran("python3 -m pytest", good=True))
    assert failed_check(done) is None and stale_checks(done) == []
    done.append(ran("cd src && make test", good=False))
    assert failed_check(done) is not None


def test_relevant_files_fit_in_the_room(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for number in range(40):
        (tmp_path / f"other{number}.py").write_text(f"def unrelated{number}():\n    return {number}\n" * 20)
    (tmp_path / "shop" / "prices.py").write_text("def gross_price(x):\n    return x\n")
    (tmp_path / "shop" / "cart.py").write_text("from shop.prices import gross_price\n")
    (tmp_path / ".env").write_text("SECRET=1\n")
    roots = Roots([tmp_path], scratch=tmp_path / ".scratch")
    found = find_relevant_files(
        read_request("Rename gross_price in shop/prices.py everywhere"), roots, room_in_window(8_192)
    )
    assert list(found.files)[:2] == ["shop/prices.py", "shop/cart.py"] and ".env" not in found.files
    assert "shop/prices.py\n```\ndef gross_price" in found.text()
    assert sum(map(len, found.shown.values())) <= room_in_window(8_192)
