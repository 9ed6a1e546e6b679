from __future__ import annotations

import json

import pytest

from tui_agent.protocols.file_blocks import commands_in
from tui_agent.protocols.file_reply import FileReply, read_file_reply
from tui_agent.protocols.python_source import merge_definitions, parse_module
from tui_agent.protocols.removals import is_omission

PAGE = (
    "<!doctype html>\n<html>\n<head>\n  <title>Shop</title>\n</head>\n<body>\n  <h1>Shop</h1>\n"
    "  <button>Store</button>\n</body>\n</html>\n"
)
CONFIG = '{\n  "name": "demo",\n  "port": 8080,\n  "debug": false\n}\n'
NESTED = '{\n  "name": "demo",\n  "server": {\n    "host": "a",\n    "port": 8080\n  },\n  "tags": ["x", "y"]\n}\n'
SCRIPT = "function total(items) {\n  return items.length;\n}\n\nfunction mean(items) {\n  return total(items);\n}\n"
STYLE = "body {\n  margin: 0;\n}\n\n.btn, .link {\n  color: red;\n}\n"
YAML = "name: demo\nserver:\n  port: 8080  # http\n  host: a\n"
TOML = '[project]\nname = "demo"\nversion = "1.0"\n\n[tool.x]\nlevel = 2\n'
README = "# Demo\n\nA demo.\n\n## Install\n\n```sh\npip install demo\n```\n\n## License\n\nMIT\n"
NOTES = "Milk\nBread\nButter\nApples\nCheese\nTea\n"
GO = "package main\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n\nfunc Mul(a, b int) int {\n\treturn a * b\n}\n"
CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"


def reply(name: str, body: str, request: str, old: str, language: str = "") -> FileReply:
    fence = "````" if "```" in body else "```"
    return read_file_reply(f"{name}\n{fence}{language}\n{body}\n{fence}\n", {name: old}, request)


# --- 7: parts of files ---


@pytest.mark.parametrize(
    ("name", "old", "body", "request_"),
    [
        ("index.html", PAGE, "<button>Save</button>", "Call the button in index.html Save."),
        ("index.html", PAGE, "<body>\n<button>Save</button>\n</body>", "Replace Store by Save in index.html."),
        ("index.html", PAGE, PAGE.replace("  <h1>Shop</h1>\n", "  <!-- rest of the page -->\n"), "Rename Store."),
        ("app.js", SCRIPT, "function mean(items) {\n  return 0;\n}", "Fix mean in app.js."),
        ("app.js", SCRIPT, "// ... existing code ...\n" + SCRIPT, "Fix mean in app.js."),
        ("app.js", SCRIPT, "function mean(items) {\n  return 0;\n}", "Simplify mean in app.js."),
        ("app.js", SCRIPT, "function mean(items) {\n  return 0;\n}", "Rewrite mean in app.js: 0 if it is empty."),
        ("calc.go", GO, "func Add(a, b int) int {\n\treturn a + b\n}", "Fix Add in calc.go."),
        ("style.css", STYLE, ".btn, .link {\n  color: blue;\n}", "Make .btn blue in style.css."),
        ("style.css", STYLE, "/* ... */\n.btn, .link {\n  color: blue;\n}", "Make .btn blue."),
        ("pyproject.toml", TOML, 'version = "2.0"\nreadme = "README.md"', "Bump the version to 2.0 in pyproject.toml."),
        ("config.json", CONFIG, "[9090]", "Set the port to 9090."),
        ("config.json", CONFIG, '{"port": 9090}', "Remove debug from config.json, and set port to 9090."),
        ("notes.txt", NOTES, "... rest unchanged\nCoffee", "Add Coffee to notes.txt"),
        ("notes.txt", NOTES, "Milk\nBread\n… rest unchanged", "Add Coffee to notes.txt"),
    ],
)
def test_a_part_that_has_no_place_does_not_become_the_file(name: str, old: str, body: str, request_: str) -> None:
    found = reply(name, body, request_, old)
    assert found.files == {} and found.shown == 1
    (problem,) = found.problems
    assert problem.startswith(f"{name}: show the whole file, ")


@pytest.mark.parametrize(
    ("name", "old", "body", "request_"),
    [
        ("index.html", PAGE, PAGE.replace("Store", "Save"), "Call the button Save."),
        ("index.html", PAGE, PAGE.replace("  <h1>Shop</h1>\n", ""), "Remove the heading of index.html."),
        ("app.js", SCRIPT, SCRIPT.replace("length", "size"), "Fix total."),
        ("app.js", SCRIPT, SCRIPT.replace("mean", "average"), "Rename mean to average in app.js."),
        ("app.js", SCRIPT, SCRIPT.replace("mean", "average"), "mean in app.js should be called average."),
        ("app.js", SCRIPT, SCRIPT.partition("\n\n")[0], "Delete the function mean from app.js."),
        ("style.css", STYLE, STYLE.replace("body {", "body, html {"), "Let html have no margin too."),
        ("style.css", STYLE, "body {\n  margin: 0;\n}", "Remove .btn and .link from style.css."),
        ("config.json", CONFIG, '{\n  "name": "demo",\n  "port": 8080\n}', "Remove debug from config.json."),
        ("config.json", CONFIG, CONFIG.replace("port", "listen"), "Rename port to listen in config.json."),
        ("config.json", CONFIG, '{"port": 1}', "Rewrite config.json so that it holds the port 1."),
        ("config.json", CONFIG, '{"port": 1}', "config.json should contain only the port."),
        ("s.yaml", YAML, "name: demo\nserver:\n  port: 8080", "Delete host from s.yaml"),
        ("notes.txt", NOTES, "Gone.", "Replace the list in notes.txt by Gone."),
        ("notes.txt", NOTES, "Nothing", "Make notes.txt contain only Nothing."),
        ("notes.txt", NOTES, NOTES + "...", "Add three dots and Coffee."),
        ("README.md", README, "# Demo\n\nNeu.\n\n## Lizenz\n\nMIT", "Translate README.md to German."),
        ("README.md", README, README.replace("Install", "Instal"), "Change a letter in README.md."),
        ("README.md", README, "# Demo\n\nA demo.\n\n## License\n\nMIT", "Remove the section Install."),
        ("calc.go", GO, GO.replace("a - b", "a + b"), "Fix Add in calc.go"),
    ],
)
def test_a_new_version_of_a_file_is_taken_as_it_is(name: str, old: str, body: str, request_: str) -> None:
    if body.endswith("..."):
        body = body.removesuffix("...") + "Coffee ..."
    found = reply(name, body, request_, old)
    assert found.problems == found.doubts == ()
    assert found.files[name].strip() == body.strip()


@pytest.mark.parametrize(
    ("old", "body", "request_", "after"),
    [
        (CONFIG, '{"port": 9090}', "Set the port in config.json to 9090.", CONFIG.replace("8080", "9090")),
        (CONFIG, '{"port": 9090}', "Replace the port by 9090.", CONFIG.replace("8080", "9090")),
        (CONFIG, '"port": 9090,', "Set the port to 9090.", CONFIG.replace("8080", "9090")),
        (CONFIG, '{\n  // ...\n  "port": 9090,\n  ...\n}', "Set the port to 9090.", CONFIG.replace("8080", "9090")),
        (CONFIG, '{\n  "name": "demo",\n  "port": 9090,\n  ...\n}', "Port 9090.", CONFIG.replace("8080", "9090")),
        (CONFIG, '{"debug": true}', "Turn debug on.", CONFIG.replace("false", "true")),
        (CONFIG, '{"lang": "en"}', "Add the key lang.", CONFIG.replace("false", 'false,\n  "lang": "en"')),
        (NESTED, '{"server": {"port": 9090}}', "Set the port to 9090.", NESTED.replace("8080", "9090")),
        (NESTED, '{"port": 9090}', "Set the port to 9090.", NESTED.replace("8080", "9090")),
        (NESTED, '{"tags": ["x", "y", "z"]}', "Add z to tags", NESTED.replace('"y"', '"y", "z"')),
        ('{"a": 1, "b": 2}\n', '{"b": 3}', "Set b to 3", '{"a": 1, "b": 3}\n'),
        ('{"a": 1, "b": true}\n', '{"b": 1}', "Set b to 1", '{"a": 1, "b": 1}\n'),
    ],
)  # fmt: skip
def test_a_part_of_a_json_file_sets_its_values_and_leaves_the_rest(
    old: str, body: str, request_: str, after: str
) -> None:
    found = reply("config.json", body, request_, old, "json")
    assert found.problems == () and found.files == {"config.json": after}
    json.loads(after)


def test_a_part_of_a_json_file_of_which_it_cannot_be_told_where_it_goes_is_handed_back() -> None:
    twice = '{"a": {"port": 1}, "b": {"port": 2}, "c": 0}'
    assert reply("c.json", '{"port": 3}', "Set the port of b to 3.", twice).files == {"c.json": twice.replace("2", "3")}
    assert reply("c.json", '{"timeout": 3}', "Add timeout to b.", twice).files == {}
    cut = reply("c.json", '{"tags": ["x",\n...\n]}', "Add z to tags.", NESTED)
    assert cut.files == {}


@pytest.mark.parametrize(
    ("name", "old", "body", "after"),
    [
        ("s.yaml", YAML, "server:\n  port: 9090", YAML.replace("8080", "9090")),
        ("s.yml", YAML, "# ...\nport: 9090", YAML.replace("8080", "9090")),
        ("x.toml", TOML, "[project]\nversion = '2.0'", TOML.replace('"1.0"', "'2.0'")),
        ("x.ini", "[a]\nb = 1\nc = 2\n", "b = 5", "[a]\nb = 5\nc = 2\n"),
        ("x.env", "A=1\nB=2\n", "B=3", "A=1\nB=3\n"),
        ("x.yaml", "a: 1\nb: 2\n", "c: 3", "a: 1\nb: 2\nc: 3\n"),
    ],
)
def test_a_part_of_a_file_of_settings_sets_what_it_shows(name: str, old: str, body: str, after: str) -> None:
    assert reply(name, body, f"Set it in {name}", old).files == {name: after}


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("## Usage\n\n```sh\ndemo\n```", README + "\n## Usage\n\n```sh\ndemo\n```\n"),
        ("## License\n\nApache", README.replace("MIT", "Apache")),
        ("# Demo\n\n## Usage\n\nStart it.", README + "\n## Usage\n\nStart it.\n"),
        ("# Demo\n\n...\n\n## Usage\n\nStart it.", README + "\n## Usage\n\nStart it.\n"),
        ("<!-- existing content -->\n\n## Usage\n\nStart it.", README + "\n## Usage\n\nStart it.\n"),
        ("## Install\n\nCopy it.\n\n## Usage\n\nStart it.", README.replace(
            "```sh\npip install demo\n```\n\n", "Copy it.\n\n## Usage\n\nStart it.\n\n")),
    ],
)  # fmt: skip
def test_sections_of_a_document_go_to_their_places(body: str, after: str) -> None:
    assert reply("README.md", body, "Add to README.md what is missing.", README).files == {"README.md": after}


def test_a_much_shorter_text_and_a_lost_section_are_doubts() -> None:
    short = reply("notes.txt", "Coffee", "Add Coffee to notes.txt.", NOTES)
    assert short.files == {"notes.txt": "Coffee\n"} and len(short.doubts) == 1
    lost = reply("README.md", README.partition("## License")[0], "Say more in README.md.", README)
    assert "License" in lost.doubts[0]


def test_the_whole_file_outweighs_its_parts_in_one_reply() -> None:
    whole, part = PAGE.replace("Store", "Save"), "<button>Save</button>\n"
    for shown in ((whole, part), (part, whole)):
        text = "\n".join(f"index.html\n```html\n{one}```" for one in shown)
        found = read_file_reply(text, {"index.html": PAGE}, "Call the button Save.")
        assert found.files == {"index.html": whole} and found.problems == ()


def test_a_block_without_an_end_that_stops_early_is_a_part() -> None:
    for name, old in (("app.js", SCRIPT), ("index.html", PAGE), ("notes.txt", NOTES)):
        cut = "\n".join(old.splitlines()[:-2])
        found = read_file_reply(f"{name}\n```\n{cut}", {name: old}, f"Improve {name}")
        assert found.files == {} and found.problems
        whole = read_file_reply(f"{name}\n```\n{old}new", {name: old}, f"Improve {name}")
        assert whole.files and not whole.problems
    long = "def f(x):\n    y = x\n    y += 1\n    return y\n"
    assert read_file_reply("a.py\n```\ndef f(x):\n    y = -x", {"a.py": long}, "Fix a.py").problems
    assert read_file_reply("a.py\n```\ndef f(x):\n    return x + 1", {"a.py": long}, "Fix a.py").files


PYTHON_MARKS = ["# ... existing code ...", "# rest of the code", "...", "# … rest unchanged", "# ..."]


@pytest.mark.parametrize("mark", PYTHON_MARKS)
def test_a_mark_between_definitions_is_dropped(mark: str) -> None:
    after = CALC.replace("a - b", "a + b")
    for part in (f"def add(a, b):\n    return a + b\n\n\n{mark}\n", f"{mark}\n\n\ndef add(a, b):\n    return a + b\n"):
        assert reply("calc.py", part, "Fix add in calc.py.", CALC).files == {"calc.py": after}
    added = reply("calc.py", f"{mark}\n\ndef sub(a, b):\n    return a - b", "Add sub.", CALC)
    assert added.files == {"calc.py": CALC + "\n\ndef sub(a, b):\n    return a - b\n"}


@pytest.mark.parametrize("mark", PYTHON_MARKS)
def test_a_mark_for_lines_of_a_function_or_a_script_is_handed_back(mark: str) -> None:
    inner = f"def add(a, b):\n    {mark}\n    return a + b\n"
    script = f"import sys\n{mark}\nprint(sys.argv[2])\n"
    for part, old in ((inner, CALC), (script, "import sys\nx = 1\nprint(sys.argv[1])\n")):
        found = reply("calc.py", part, "Fix calc.py.", old)
        assert found.files == {} and len(found.problems) == 1


def test_stubs_and_plain_comments_are_no_marks() -> None:
    old = "from typing import Protocol\n\n\nclass A(Protocol):\n    def one(self) -> int: ...\n"
    part = old + "\n    def two(self) -> int:\n        ...\n"
    assert reply("a.py", part.rstrip(), "Add two.", old).files == {"a.py": part}
    for line in ("# the rest of the list", "# Other tests", "x = ...", "...foo,", "# Existing users only", "rest"):
        assert not is_omission(line)


# --- 8: the path that the request names ---


@pytest.mark.parametrize(
    ("request_", "named", "known", "wanted"),
    [
        ("Create docs/README.md with a title.", "docs/README.md", {"README.md": "# Root\n"}, "docs/README.md"),
        ("Create docs/README.md with a title.", "README.md", {"README.md": "# Root\n"}, "docs/README.md"),
        ("Create a file api/utils.py with f.", "api/utils.py", {"app/utils.py": CALC}, "api/utils.py"),
        ("Create a file api/utils.py with f.", "utils.py", {"app/utils.py": CALC}, "api/utils.py"),
        ("Create a new file utils.py.", "utils.py", {"app/utils.py": CALC}, "utils.py"),
        ("Move utils.py to lib/utils.py.", "lib/utils.py", {"utils.py": CALC}, "lib/utils.py"),
        ("Fix f in utils.py.", "utils.py", {"app/utils.py": CALC}, "app/utils.py"),
        ("Fix f in app/utils.py.", "utils.py", {"app/utils.py": CALC, "utils.py": CALC}, "app/utils.py"),
        ("Fix f in app/utils.py.", "path/to/utils.py", {"app/utils.py": CALC}, "app/utils.py"),
        ("Fix f in a/utils.py.", "b/utils.py", {"a/utils.py": CALC, "b/utils.py": CALC}, "b/utils.py"),
        ("Fix f in shop/app/utils.py.", "app/utils.py", {"app/utils.py": CALC}, "app/utils.py"),
        ("Fix f in app/utils.py.", "shop/app/utils.py", {"app/utils.py": CALC}, "app/utils.py"),
        ("Fix readme.md.", "README.md", {"README.md": "# Root\n"}, "README.md"),
        ("Add a package with api/utils.", "api/utils.py", {"app/utils.py": CALC}, "api/utils.py"),
        ("Fix add.", "src/utils.py", {"utils.py": CALC}, "utils.py"),
    ],
)  # fmt: skip
def test_a_path_that_is_named_is_never_another_file(
    request_: str, named: str, known: dict[str, str], wanted: str
) -> None:
    body = "# Title\n" if named.endswith(".md") else "def add(x):\n    return x\n"
    if "f" in request_.split() and wanted not in known:
        body = "def f(x):\n    return x\n"
    if "api/utils." in request_:
        body = "def f(x):\n    return x\n"
    assert set(read_file_reply(f"{named}\n```\n{body}```", known, request_).files) == {wanted}


def test_a_file_that_is_shown_unchanged_under_its_old_name_is_moved() -> None:
    found = read_file_reply(f"utils.py\n```\n{CALC}```", {"utils.py": CALC}, "Move utils.py to lib/utils.py")
    assert found.files == {"lib/utils.py": CALC}


# --- 9: blocks without a name ---


@pytest.mark.parametrize(
    "sample",
    [
        'The response is:\n```json\n{"status": "ok"}\n```',
        'It answers with\n```json\n{"status": "ok"}\n```',
        "Example usage:\n```python\nfrom tools import pal\n\nprint(pal('x'))\n```",
        "You can use it like this:\n```python\nimport tools\ntools.pal('x')\n```",
        "You can call the function of tools.py so:\n```python\nfrom tools import pal\n\nx = pal('x')\n```",
        "Output:\n```\nTrue\n```",
        "It prints\n```text\nTrue\n```",
        "```console\n$ python3 tools.py\nTrue\n```",
        "```html\n<p>True</p>\n```",
    ],
)
def test_what_shows_a_use_or_an_output_is_no_file(sample: str) -> None:
    known = {"tools.py": "def shout(t):\n    return t\n", "config.json": CONFIG, "index.html": PAGE}
    body = "def shout(t):\n    return t\n\n\ndef pal(t):\n    return t == t[::-1]\n"
    found = read_file_reply(f"tools.py\n```python\n{body}```\n\n{sample}\n", known, "Add pal to tools.py.")
    assert found.files == {"tools.py": body} and found.problems == ()


@pytest.mark.parametrize(
    ("above", "language", "body", "known", "request_", "wanted"),
    [
        ("Here it is:", "json", '{"port": 9090}', {"config.json": CONFIG}, "Set the port to 9090.", "config.json"),
        ("The result:", "json", CONFIG.replace("8080", "1"), {"config.json": CONFIG}, "Port 1.", "config.json"),
        ("Here:", "css", "h1 { color: red; }", {"a.css": "p { margin: 0; }\n"}, "Add h1 to a.css.", ""),
        ("Here is an example of it:", "python", "def f():\n    return 1", {"a.py": CALC}, "Add f to a.py.", "a.py"),
        ("You can use this:", "python", "def slug(t):\n    return t", {"b.md": "x"}, "Create slug.py.", "slug.py"),
        ("", "markdown", "## Usage\n\nStart it.", {"README.md": "# A\n"}, "Add Usage to README.md", "README.md"),
        ("", "python", "def f():\n    return 1", {"a.py": CALC}, "Add a function f.", "a.py"),
        ("", "json", '{"status": "ok"}', {"config.json": CONFIG}, "What does the server say?", ""),
    ],
)  # fmt: skip
def test_one_block_without_a_name_goes_to_the_file_that_it_fits(
    above: str, language: str, body: str, known: dict[str, str], request_: str, wanted: str
) -> None:
    found = read_file_reply(f"{above}\n\n```{language}\n{body}\n```", known, request_)
    assert set(found.files) == ({wanted} if wanted else set())


def test_new_definitions_go_to_the_one_file_that_they_can_be_meant_for() -> None:
    shown = "Here is an example:\n```python\ndef pal(t):\n    return 1\n```\nUsage:\n```python\nprint(pal(1))\n```"
    two = "```python\ndef pal(t):\n    return 1\n```\n```python\ndef other(t):\n    return 2\n```"
    for text, count in ((shown, 3), (two, 4)):
        after = read_file_reply(text, {"calc.py": CALC, "b.md": "x"}, "Add pal to calc.py.").files["calc.py"]
        assert after.count("def ") == count and "print" not in after


# --- 10: statements ---

GREET = "name = input()\nprint(f'Hello {name}')\n"


def test_a_script_that_is_written_anew_is_the_whole_file() -> None:
    for part in (
        "user = input()\nprint(f'Hello {user}')\n",
        "def main():\n    name = input()\n    print(f'Hello {name}')\n\n\nif __name__ == '__main__':\n    main()\n",
        "def main():\n    user = input()\n    print(user)\n\n\nif __name__ == '__main__':\n    main()\n",
        "def main():\n    name = input()\n    print(f'Hello {name}')\n",
        "def main():\n    print(input())\n\n\nmain()\n",
    ):
        assert merge_definitions(GREET, part) == part


def test_what_a_file_does_stays_when_a_part_shows_a_definition() -> None:
    old = "import sys\n\n\ndef f(x):\n    return x\n\n\nprint(f(sys.argv[1]))\n"
    part = "def f(x):\n    return x + x\n"
    assert merge_definitions(old, part) == old.replace("return x", "return x + x")
    guarded = CALC + "\n\nif __name__ == '__main__':\n    run(add)\n"
    assert merge_definitions(guarded, "def mul(a, b):\n    return b * a\n") == guarded.replace("a * b", "b * a")
    assert merge_definitions(guarded, CALC.replace("a - b", "a + b")) == guarded.replace("a - b", "a + b")
    after = merge_definitions(guarded, "def mul(a, b):\n    return 1\n\n\nif __name__ == '__main__':\n    run(mul)\n")
    assert "run(mul)" in after and "run(add)" not in after and "def add" in after


def test_a_class_that_is_named_keeps_the_methods_that_are_not() -> None:
    old = "class A:\n    def push(self):\n        return 1\n\n    def pop(self):\n        return 2\n"
    part = "class A:\n    def pop(self):\n        return 3\n"
    assert merge_definitions(old, part, ("A", "pop")) == old.replace("return 2", "return 3")
    assert merge_definitions(old, part, ("A", "push")) == part


def test_a_trial_behind_a_definition_is_not_added() -> None:
    part = "def sub(a, b):\n    return a - b\n\n\n# Example\nx = sub(1, 2)\nprint(x)\nassert sub(1, 1) == 0\n"
    assert merge_definitions(CALC, part) == CALC + "\n\ndef sub(a, b):\n    return a - b\n"


def test_the_imports_that_a_new_version_uses_stay() -> None:
    old = "import os\nfrom json import loads\n\n\ndef f(x):\n    return loads(x)\n"
    assert (
        merge_definitions(old, "def f(x):\n    return loads(x or '0')\n")
        == "from json import loads\n\ndef f(x):\n    return loads(x or '0')\n"
    )
    assert merge_definitions(old, "def f(loads):\n    return loads\n") == "def f(loads):\n    return loads\n"


# --- 11: files that can't be parsed ---

BROKEN = "import os\n\n\ndef f(x)\n    return x\n\n\n@wraps\ndef g(x):\n    return [\n        x,\n    ]\n\n\ndef h():\n    return 1\n"


def test_a_definition_of_a_file_that_does_not_parse_replaces_that_one() -> None:
    after = merge_definitions(BROKEN, "def f(x):\n    return x\n")
    assert after == BROKEN.replace("f(x)\n", "f(x):\n") and parse_module(after) is not None
    part = "import re\n\n\n@wraps\ndef g(x):\n    return re\n\n\ndef new():\n    return 2\n"
    after = merge_definitions(BROKEN, part)
    assert "def f(x)\n" in after and "def h" in after and "return re\n\n\ndef h" in after
    assert after.count("@wraps") == 1 and "def new" in after and "import re" in after
    whole = BROKEN.replace("f(x)\n", "f(x):\n")
    assert merge_definitions(BROKEN, whole) == whole


def test_a_byte_order_mark_hides_nothing_and_stays() -> None:
    old = "\ufeff" + CALC
    part = "def add(a, b):\n    return a + b\n"
    for shown in (part, "\ufeff" + part, CALC.replace("a - b", "a + b")):
        assert merge_definitions(old, shown) == old.replace("a - b", "a + b")
    found = reply("config.json", '{"port": 9090}', "Set the port to 9090.", "\ufeff" + CONFIG)
    assert found.files == {"config.json": "\ufeff" + CONFIG.replace("8080", "9090")}


# --- 28: commands ---


@pytest.mark.parametrize(
    ("language", "body", "wanted"),
    [
        ("sh", "mkdir docs\ntouch docs/a.md", ["mkdir docs", "touch docs/a.md"]),
        ("sh", "# make it\n\nmkdir docs", ["mkdir docs"]),
        ("bash", "cat > a.txt <<'EOF'\nrm -rf x\nEOF", ["cat > a.txt <<'EOF'\nrm -rf x\nEOF"]),
        ("sh", "for x in a b; do\n  rm $x\ndone", ["for x in a b; do\n  rm $x\ndone"]),
        ("sh", "cd docs\nrm a.md", ["cd docs\nrm a.md"]),
        ("sh", "mv a.py \\\n  b.py", ["mv a.py \\\n  b.py"]),
        ("sh", "echo 'a\nb'", ["echo 'a\nb'"]),
        ("sh", "X=1\necho $X", ["X=1\necho $X"]),
        ("console", "$ pytest\n3 passed\n$ rm a.txt", ["pytest", "rm a.txt"]),
        ("bash", "$ pytest\n3 passed", ["pytest"]),
        ("console", "3 passed", []),
        ("console", "> rm a.txt\nok", ["rm a.txt"]),
        ("shell-session", "$ cat > a <<EOF\n> one\n> EOF\ndone", ["cat > a <<EOF\none\nEOF"]),
        ("powershell", "PS C:\\work> del a.txt", ["del a.txt"]),
        ("sh", "  mkdir docs\n  touch a", ["mkdir docs", "touch a"]),
        ("bash", "grep x <<< y", ["grep x <<< y"]),
    ],
)
def test_commands_are_lines_a_script_or_what_stands_behind_prompts(language: str, body: str, wanted: list[str]) -> None:
    assert commands_in(body, language) == wanted
    assert list(read_file_reply(f"```{language}\n{body}\n```", {"a.py": CALC}, "Do it.").commands) == wanted


# --- 29: lines ---


@pytest.mark.parametrize("sign", ["\f", "\x1c", "\x85", "\u2028"])
def test_signs_that_end_no_line_of_python_do_not_shift_it(sign: str) -> None:
    old = f"A = 'x{sign}y'\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"
    if sign == "\f":
        old = f"A = 1\n{sign}\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"
    assert merge_definitions(old, "def f():\n    return 3\n") == old.replace("return 1", "return 3")


def test_line_ends_stay() -> None:
    crlf = CALC.replace("\n", "\r\n")
    fixed = CALC.replace("a - b", "a + b")
    for part in ("def add(a, b):\n    return a + b\n", fixed):
        assert merge_definitions(crlf, part) == fixed.replace("\n", "\r\n")
    assert merge_definitions(CALC, fixed.replace("\n", "\r\n")) == fixed
    mixed = "one\r\ntwo\nthree\r\nfour\n"
    found = reply("a.txt", "one\ntwo\nnew\nthree\nfour", "Add new to a.txt.", mixed)
    assert found.files == {"a.txt": "one\r\ntwo\nnew\nthree\r\nfour\n"}
    found = reply("config.json", '{"port": 1}', "Port 1.", CONFIG.replace("\n", "\r\n"))
    assert found.files == {"config.json": CONFIG.replace("8080", "1").replace("\n", "\r\n")}
    assert read_file_reply(f"a.py\n```\n{CALC}```", {"a.py": crlf}, "Fix a.py").files == {}


# --- 30: strange and large texts ---


def test_strange_text_is_a_text_like_any_other() -> None:
    deep = "x = " + "(" * 3000 + ")" * 3000
    chain = "x = " + "+".join(["1"] * 20_000) + "\n"
    for body in (deep, chain, "x = '\0'", "[" * 50_000, "{" * 50_000, "a: " * 5_000, "# " * 20_000, "." * 50_000):
        for name in ("a.py", "a.json", "a.yaml", "a.toml", "a.md", "a.html", "a.css", "a.js", "a.txt"):
            known = {"a.py": CALC, "a.json": CONFIG, "a.yaml": YAML, "a.toml": TOML, "a.md": README}
            known |= {"a.html": PAGE, "a.css": STYLE, "a.js": SCRIPT, "a.txt": NOTES}
            read_file_reply(f"{name}\n```\n{body}\n```", known, f"Fix {name}")
            read_file_reply(f"{name}\n```\nx\n```", {name: body}, f"Fix {name}")
    merge_definitions(chain + CALC, "def add(a, b):\n    return a + b\n")
