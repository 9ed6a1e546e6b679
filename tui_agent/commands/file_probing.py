"""One small change that a model makes by the `files` strategy, asked for in the form of a run's first request (E4)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.domain import Message, Noun, ProgramMessage, SystemMessage, UserMessage, marked
from tui_agent.engine.material import Material
from tui_agent.engine.prompts import prompt
from tui_agent.engine.request_reading import names_to_go
from tui_agent.protocols.file_reply import read

TASKS_FILE = Path(__file__).with_name("file_tasks.json")
REPLY = 700
"""Tokens of a reply at most, as in a run."""


class FileTask(Noun, frozen=True, kw_only=True):
    """What the model is asked to change."""

    text: str
    file: str
    """The one that changes, or is new."""
    content: str
    """Its content afterwards."""


class Project(Noun, frozen=True, kw_only=True):
    """A tiny project, and what is to be changed in it. All tasks show the same files, so that a server that keeps what
    it read has the beginning of each prompt but the first."""

    files: dict[str, str]
    tasks: tuple[FileTask, ...]


@cache
def project() -> Project:
    """The project that comes with the program."""
    return msgspec.json.decode(TASKS_FILE.read_bytes(), type=Project)


def messages(task: FileTask, model_prompt: str) -> tuple[Message, ...]:
    """The request for `task`; `model_prompt` is what models.json has to tell the model."""
    files = project().files
    system = "\n\n".join(filter(None, (prompt("files_rules"), model_prompt)))
    shown = Material(files, files).text()
    return (
        SystemMessage(text=system),
        ProgramMessage(text=marked("files", f"The files of my project:\n\n{shown}")),
        UserMessage(text=task.text),
        ProgramMessage(text=marked("form", prompt("files_form"))),
    )


def judge(text: str, task: FileTask) -> tuple[str, str]:
    """Kind of failure, and detail; two empty texts where the reply does just what was asked."""
    reply = read(text, project().files, task.text, names_to_go(task.text))
    if not reply.shown:
        return "prose", text.strip()[:200]
    if set(reply.files) != {task.file}:
        named = ", ".join(reply.files) or "nothing"
        return "wrong_file", f"{named} changed instead of {task.file}"
    if plain(task.file, reply.files[task.file]) != plain(task.file, task.content):
        return "wrong_content", f"{task.file} becomes {reply.files[task.file].strip()[:200]}"
    return "", ""


def plain(name: str, content: str) -> Any:
    """A content without what does not matter: blanks at its ends, and the layout of JSON."""
    if name.endswith(".json"):
        try:
            return json.loads(content)
        except ValueError:
            return content
    return content.strip()
