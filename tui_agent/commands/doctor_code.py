"""Doctor's look at code intelligence: the languages of the folder, and which of them can be served (M8, T3)."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from tui_agent.commands.doctor_files import said
from tui_agent.commands.findings import Finding, Findings
from tui_agent.commands.reaching import Configured
from tui_agent.lsp.languages import Command, Language, code_files, commands, language_of, languages

MANY = 0.1
"""Share of the code files from which a language that can't be served is more than a side remark."""
NONE = "Without it the agent searches by text, and no diagnostics follow its writes."


def code(found: Configured) -> list[Finding]:
    """A line for each language of the folder, the commonest first. No server is started. Blocks."""
    look, chosen = Findings("Code intelligence"), found.loaded.settings
    if not chosen.language_servers_on:
        look.add("note", "servers", "switched off by `language_servers_on` in the settings")
        return look.found
    own = chosen.language_servers
    known = {language.name: language for language in languages(own)}
    present = _present(found.workspace, tuple(known.values()))
    if not present:
        look.add("note", "servers", f"no code of a known language in {found.workspace}")
    elif not found.trusted:
        look.add("note", "servers", "none is started before the folder is trusted")
    installs = _installs()
    for name, count in present.most_common():
        matters = count >= MANY * present.total()
        _add(look, known[name], count, matters, found.workspace, own, installs.get(name, {}))
    return look.found


def _present(workspace: Path, known: Sequence[Language]) -> Counter[str]:
    """Names of languages of the files in the folder, by their names alone, as far as it is looked through."""
    suffixes = frozenset(suffix for language in known for suffix in language.suffixes)
    by_suffix = Counter(Path(entry.name).suffix.lower() for entry in code_files(workspace, suffixes))
    present: Counter[str] = Counter()
    for suffix, count in by_suffix.items():
        language = language_of(Path(f"x{suffix}"), known)
        if language is not None:
            present[language.name] += count
    return present


def _add(
    look: Findings,
    language: Language,
    count: int,
    matters: bool,
    workspace: Path,
    own: Mapping[str, Sequence[str]],
    install: Mapping[str, Any],
) -> None:
    head = f"{count:,} file{'' if count == 1 else 's'}: "
    there = [one for one in commands(language, (workspace,)) if _serves(one, install.get("from", {}))]
    if there:
        look.add("ok", language.name, f"{head}{Path(there[0].program).name}, {there[0].program}")
        return
    setting = next((name for name in own if name.lower() in (language.name, *language.also)), "")
    if setting:
        text = f"{head}`{language.servers[0][0]}` of the settings is not on PATH"
        look.add("warn", language.name, text, f"Install it, or correct `language_servers.{setting}`.")
        return
    names = [command[0] for command in language.servers]
    missing = f"none of {', '.join(names)} is on PATH" if names[1:] else f"{names[0]} is not on PATH"
    advice = [install.get("advice", ""), NONE if matters else ""]
    look.add("warn" if matters else "note", language.name, head + missing, " ".join(filter(None, advice)))


def _serves(command: Command, since: Mapping[str, int]) -> bool:
    """False for a program that is no server in the version which is installed."""
    wanted = since.get(Path(command.program).name)
    if wanted is None:
        return True
    number = re.search(r"\d+", said(command.program, "--version"))
    return number is not None and int(number[0]) >= wanted


def _installs() -> dict[str, dict[str, Any]]:
    text = files(__package__).joinpath("server_installs.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
