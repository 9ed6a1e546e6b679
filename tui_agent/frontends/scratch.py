"""The scratch workspace of the demonstration: a small real project with a bug and tests that show it (X1)."""

from __future__ import annotations

from pathlib import Path

DEMO_TASK = "The word counter counts some words wrongly. Find the bug, fix it and run the tests."
"""What `--demo` asks when the user gives no task; the shipped scenarios know it."""

_README = """\
# wordcount

Counts the words of a text.

    $ echo "The cat saw the dog." | python3 -m wordcount
    the  2
    cat  1
    dog  1

Tests: `python3 -m unittest`
"""

_PACKAGE = """\
\"\"\"Counts the words of a text.\"\"\"

from wordcount.counting import top, words

__all__ = ["top", "words"]
"""

_MAIN = """\
import sys

from wordcount import top

for word, count in top(sys.stdin.read(), 3):
    print(f"{word}  {count}")
"""

_COUNTING = """\
\"\"\"Words and how often they occur.\"\"\"

from collections import Counter

PUNCTUATION = ".,;:!?()\\"'"


def words(text):
    \"\"\"The words of `text` in order, in lower case and without the punctuation around them.\"\"\"
    return [word.strip(PUNCTUATION) for word in text.split()]


def top(text, limit):
    \"\"\"The most frequent words with their counts; equal counts in alphabetical order.\"\"\"
    counts = Counter(words(text))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
"""

_TESTS = """\
import unittest

from wordcount import top, words


class WordsTest(unittest.TestCase):
    def test_words_keep_their_order(self):
        self.assertEqual(words("one two, three"), ["one", "two", "three"])

    def test_case_does_not_matter(self):
        self.assertEqual(words("The cat. THE dog!"), ["the", "cat", "the", "dog"])

    def test_punctuation_alone_is_no_word(self):
        self.assertEqual(words("wait ... what?"), ["wait", "what"])


class TopTest(unittest.TestCase):
    def test_frequent_words_come_first(self):
        self.assertEqual(top("The cat saw the dog.", 2), [("the", 2), ("cat", 1)])

    def test_the_limit_holds(self):
        self.assertEqual(len(top("a b c d", 3)), 3)


if __name__ == "__main__":
    unittest.main()
"""

FILES = {
    "README.md": _README,
    "wordcount/__init__.py": _PACKAGE,
    "wordcount/__main__.py": _MAIN,
    "wordcount/counting.py": _COUNTING,
    "tests/__init__.py": "",
    "tests/test_wordcount.py": _TESTS,
}
"""Path → text of every file of the project; standard library only."""


def create_scratch_workspace(folder: Path) -> Path:
    """Write the project into `folder`, which is made if need be, and return it resolved.

    Raises FileExistsError when one of the project's files is there already: nothing is overwritten.
    """
    workspace = folder.resolve()
    for name, text in FILES.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return workspace
