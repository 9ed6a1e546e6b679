"""What the references share: the project as text, and replies that hold whole files."""

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

PATIENCE = 900
"""Seconds to wait for a reply."""
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
    """The open response to a chat request."""
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    response: HTTPResponse = urllib.request.urlopen(request, timeout=PATIENCE)
    return response


def ask(base_url: str, messages: Messages, max_tokens: int, **more: Any) -> str:
    """The text of one reply at temperature 0."""
    body = {"model": "m", "messages": messages, "temperature": 0, "max_tokens": max_tokens, **more}
    with post(base_url, body) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def project() -> Files:
    """All files below the current folder, without git's and Python's own."""
    return {
        str(path): path.read_text()
        for path in sorted(Path().rglob("*"))
        if path.is_file() and not str(path).startswith(".git/") and "__pycache__" not in str(path)
    }


def opening(files: Mapping[str, str], prompt: str) -> Messages:
    """The first request: rules, project, task."""
    shown = "\n\n".join(f"{name}\n```\n{text}```" for name, text in files.items())
    return [
        {"role": "system", "content": WHOLE_FILES},
        {"role": "user", "content": f"The project:\n\n{shown}\n\nThe request: {prompt}"},
    ]


def blocks(text: str, known: Collection[str]) -> Files:
    """The files that a reply holds. A block without a name is the only file there is."""
    found: Files = {}
    for match in _NAMED_BLOCK.finditer(text):
        name = match[1]
        if name not in known:
            same = [other for other in known if Path(other).name == Path(name).name]
            name = same[0] if len(same) == 1 else name.removeprefix("path/to/")
        found[name] = match[2] + "\n"
    if not found and len(known) == 1 and (only := _BLOCK.search(text)):
        found[next(iter(known))] = only[1] + "\n"
    return found


def changes(found: Mapping[str, str], known: Mapping[str, str]) -> Files:
    """Those of the files that differ from the known ones in more than blank space at the ends."""
    return {name: text for name, text in found.items() if known.get(name, "").strip() != text.strip()}


def write(files: Mapping[str, str]) -> None:
    """Put the files into the current folder."""
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
