"""Shared by the references: reading the project, and replies with complete files."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Collection, Mapping
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, TypeAlias

Messages: TypeAlias = list[dict[str, str]]
Files: TypeAlias = dict[str, str]
"""Name → content."""

TIMEOUT = 900
"""Time limit of a reply in seconds."""
NOT_DONE = 5
"""Exit code of a reference that gives up."""

WHOLE_FILES = """You are an expert programmer. You get the files of a project and a request.
If the request is a question, answer it in a sentence or two, naming functions and files.
If it asks for a change, reply with the complete new content of every file that changes or is new. Before each file write its name on a line of its own, like this:

FILE hello.py
```
print("hello")
```

Write nothing else. Change only what the request needs; keep everything else exactly as it is."""  # noqa: E501 # a prompt

_NAMED_BLOCK = re.compile(
    r"(?:^|\n)[#*`\s]*(?:FILE:?\s*)?`?([\w./-]*\.\w+)[`*:]*\s*\n(?:```\n)?```\w*\n(.*?)\n```(?=\n|$)", re.S
)
_BLOCK = re.compile(r"```\w*\n(.*?)\n?```", re.S)


def post(base_url: str, body: dict[str, Any]) -> HTTPResponse:
    """Send a chat request; return the open response."""
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    response: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    return response


def ask(base_url: str, messages: Messages, max_tokens: int, **options: Any) -> str:
    """Return the text of a reply at temperature 0."""
    body = {"model": "m", "messages": messages, "temperature": 0, "max_tokens": max_tokens, **options}
    with post(base_url, body) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def read_project() -> Files:
    """Read all files below the current folder, except those of git and Python's cache."""
    return {
        str(path): path.read_text()
        for path in sorted(Path().rglob("*"))
        if path.is_file() and not str(path).startswith(".git/") and "__pycache__" not in str(path)
    }


def first_messages(files: Mapping[str, str], prompt: str) -> Messages:
    """The messages of the first request: rules, project, task."""
    listing = "\n\n".join(f"{name}\n```\n{text}```" for name, text in files.items())
    return [
        {"role": "system", "content": WHOLE_FILES},
        {"role": "user", "content": f"The project:\n\n{listing}\n\nThe request: {prompt}"},
    ]


def parse_files(text: str, known: Collection[str]) -> Files:
    """The files in a reply. A block without a name stands for the only file of the project."""
    files: Files = {}
    for match in _NAMED_BLOCK.finditer(text):
        name = match[1]
        if name not in known:
            matches = [other for other in known if Path(other).name == Path(name).name]
            name = matches[0] if len(matches) == 1 else name.removeprefix("path/to/")
        files[name] = match[2] + "\n"
    if not files and len(known) == 1 and (block := _BLOCK.search(text)):
        files[next(iter(known))] = block[1] + "\n"
    return files


def changed_files(files: Mapping[str, str], known: Mapping[str, str]) -> Files:
    """The files that differ from the known ones, apart from surrounding whitespace."""
    return {name: text for name, text in files.items() if known.get(name, "").strip() != text.strip()}


def write_files(files: Mapping[str, str]) -> None:
    """Write the files to the current folder."""
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
