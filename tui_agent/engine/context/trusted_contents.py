"""What the program reads and follows in a trusted folder, for the user's decision to trust it (A8).

Each entry comes from the code that reads it. Only names are checked; nothing is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tui_agent.common import paths
from tui_agent.engine.context.project import AGENTS_FILE, TrustedFolder, above_in_repository, agent_file_paths
from tui_agent.platform.git import git_data
from tui_agent.safety import trust
from tui_agent.settings import Settings

MAX_ENTRIES = 20_000
"""Entries of the folder that are searched for nested rules and code."""


def trusted_contents(folder: Path, settings: Settings) -> tuple[str, ...]:
    """Return what a session in `folder` would read and follow, as `name: purpose`. Does file IO."""
    return (
        *_rules(folder),
        *_settings(folder),
        *_git(folder, settings),
        *_tests(folder),
        *_language_servers(folder, settings),
    )


def _rules(folder: Path) -> Iterator[str]:
    """The rules that `read_agent_files` and `NestedRules` read."""
    from tui_agent.lsp.languages import code_files

    trusted = TrustedFolder(folder, above=tuple(filter(trust.is_trusted, above_in_repository(folder))))
    for path in agent_file_paths(trusted):
        if path.is_file() and path != paths.agents_file():
            yield f"{trusted.display(path)}: rules that the model follows"
    below = [
        os.path.relpath(entry.path, folder)
        for entry in code_files(folder, frozenset({Path(AGENTS_FILE).suffix}), MAX_ENTRIES)
        if entry.name == AGENTS_FILE and Path(entry.path).parent != folder
    ]
    if below:
        more = f" and {len(below) - 1} more" if len(below) > 1 else ""
        yield f"{below[0]}{more}: rules for the files there"


def _settings(folder: Path) -> Iterator[str]:
    """The file that `tighten` reads."""
    if (file := paths.workspace_settings_file(folder)).is_file():
        yield f"{file.name}: settings, which can only be stricter than yours"


def _git(folder: Path, settings: Settings) -> Iterator[str]:
    """The repository that `Git` works in."""
    data = git_data(folder)
    if data is None:
        return
    name = data.name if data.parent == folder else str(data)
    branch = "; a branch is created for the session's changes" if settings.git_branch else ""
    yield f"{name}: the model gets branch and changed files, in review mode the history{branch}"


def _tests(folder: Path) -> Iterator[str]:
    """The files that `detect_test_command` reads."""
    from tui_agent.engine.checks.project_checks import test_command_files  # an idle session does without

    if files := test_command_files(folder):
        more = f" and {len(files) - 2} more" if len(files) > 2 else ""
        yield f"{', '.join(files[:2])}{more}: how the project's tests are run, to check changes"


def _language_servers(folder: Path, settings: Settings) -> Iterator[str]:
    """The servers that `CodeIntelligence` starts."""
    if not settings.language_servers_on:
        return
    from tui_agent.lsp.languages import code_files, commands, language_of_file, languages

    known = languages(settings.language_servers)
    suffixes = frozenset(suffix for language in known for suffix in language.suffixes)
    found = {
        language.name: language
        for entry in code_files(folder, suffixes, MAX_ENTRIES)
        if (language := language_of_file(Path(entry.path), known)) is not None
    }
    for language in found.values():
        if servers := commands(language, (folder,)):
            program = servers[0].argv[0]
            yield f"{language.title} files: {program} may be started, which can load settings and code from here"
