from __future__ import annotations

import pytest

from tui_agent.protocols.file_reply import read_file_reply, without_files
from tui_agent.protocols.python_source import merge_definitions

CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
FIXED = CALC.replace("a - b", "a + b")
KNOWN = {"calc.py": CALC, "README.md": "# Demo\n\nText.\n", "shop/prices.py": "RATE = 2\n"}


@pytest.mark.parametrize(
    "reply",
    [
        f"calc.py\n```python\n{FIXED}```\n",
        f"**calc.py**\n\n```\n{FIXED}```",
        f"### `calc.py`:\n```python\n{FIXED}```",
        f"FILE calc.py\n```\n{FIXED}```",
        f"Here is the new content of `calc.py`:\n\n~~~python\n{FIXED}~~~",
        f"```python calc.py\n{FIXED}```",
        f"```python\n# calc.py\n{FIXED}```",
        f"FILE path/of/the/file\n```\ncalc.py\n```\n```\n{FIXED}```",
        f"path/to/calc.py\n```\n{FIXED}```",
        f"Calc.py\n```\n{FIXED}```",
        f"```python\n{FIXED}```",
        f"calc.py\n```python\n{FIXED}",
        "```python\ndef add(a, b):\n    return a + b\n```\nNow run `python3 test_calc.py`:\n```\n$ python3 test_calc.py\nOK\n```",
    ],
)
def test_a_block_goes_to_the_file_that_it_is_meant_for(reply: str) -> None:
    assert read_file_reply(reply, KNOWN, "Fix add in calc.py.").files == {"calc.py": FIXED}


def test_a_new_file_gets_the_name_that_the_request_gives_it() -> None:
    body = "def slugify(title):\n    return title\n"
    for reply in (f"```python\n{body}```", f"slugify.py\n```python\n{body}```", f"```python\n# slug.py\n{body}```"):
        assert read_file_reply(reply, {"README.md": "# Tools\n"}, "Create slug.py with slugify(title).").files == {
            "slug.py": body
        }


def test_what_changes_nothing_and_what_only_shows_a_run_is_no_change() -> None:
    reply = f"calc.py\n```\n{CALC}```\nRun it:\n```sh\npython3 calc.py\n```\n```\n>>> add(1, 2)\n3\n```"
    found = read_file_reply(reply, KNOWN, "Fix calc.py")
    assert (found.files, found.shown, found.commands) == ({}, 1, ())
    assert read_file_reply("```bash\n$ rm old.txt\n```", KNOWN, "Delete old.txt").commands == ("rm old.txt",)


def test_a_section_of_a_document_is_added_and_a_fence_in_it_stays() -> None:
    reply = "README.md\n```markdown\n## Usage\n\n```sh\npython3 x.py\n```\n```"
    after = read_file_reply(reply, KNOWN, "Add a section '## Usage' to README.md").files["README.md"]
    assert after == "# Demo\n\nText.\n\n## Usage\n\n```sh\npython3 x.py\n```\n"


def test_a_part_of_a_python_file_replaces_that_part_alone() -> None:
    part = "import os\n\n\ndef mul(a, b):\n    return b * a\n\n\ndef sub(a, b):\n    return a - b\n"
    after = merge_definitions(CALC + "\n\nif __name__ == '__main__':\n    print(add(1, 2))\n", part)
    assert after.startswith("import os\n\ndef add(a, b):\n    return a - b\n")
    assert "return b * a" in after and "return a * b" not in after
    assert after.index("def sub") < after.index("if __name__")


def test_a_method_is_replaced_within_its_class() -> None:
    old = "class A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n"
    part = "class A:\n    def two(self):\n        return 22\n"
    assert merge_definitions(old, part) == old.replace("return 2\n", "return 22\n")


def test_a_definition_that_is_to_go_makes_a_block_the_whole_file() -> None:
    assert (
        merge_definitions(CALC, "def mul(a, b):\n    return a * b\n", ("add",)) == "def mul(a, b):\n    return a * b\n"
    )


def test_the_words_of_a_reply_stand_without_its_files() -> None:
    reply = f"I fixed it.\n\n<agent_files>\ncalc.py\n```\n{FIXED}```\n</agent_files>\n\nAll done."
    assert without_files(reply) == "I fixed it.\n\nAll done."
