"""Programs that run a command they are given: which command that is (A1), and what flows into it."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile
from typing import Any

from tui_agent.common.domain import FrozenValue
from tui_agent.shell.syntax import Pipeline, Redirect, SimpleCommand, Word
from tui_agent.shell.targets import names, target_table

_SPLIT = re.compile(r"(?:-[0-9a-zA-Z]*S|--split-string=)(.+)", re.DOTALL)
_BRACES = re.compile(r"(?<!\$)\{([^{}]*,[^{}]*)\}")
_NO_BRACES = re.compile("$^|")
_COMPOSE = ("-f", "--file", "-p", "--project-name", "--profile", "--env-file", "--project-directory")
_UNREAD = Word(source="what it reads", text=None)
NARROWING = re.compile(r"-(i?name|i?path|i?regex|[acm](time|min)|newer\w*|size|empty|i?lname|perm|user|inum)")


class WrappedCommand(FrozenValue, frozen=True, kw_only=True):
    """What a wrapper runs and with what."""

    words: tuple[Word, ...] = ()
    """The command, as words."""
    texts: tuple[str | None, ...] = ()
    """Commands as shell text; None for one that is only known when it runs."""
    assignments: tuple[tuple[str, Word], ...] = ()
    """Variables that it sets."""
    folder: Word | None = None
    """Where it goes first."""


def wrapped_command(program: str, arguments: Sequence[Word]) -> WrappedCommand | None:
    """What a wrapper of the table runs; None if these arguments make it run nothing."""
    entry = target_table()["wrappers"][program]
    rest = list(arguments)
    if "subs" in entry:
        behind = _behind(program, rest, entry["subs"].split())
        if behind is None:
            return None
        rest = behind
    texts = [word.text for word in rest]
    if "after" in entry:
        places = [place for place, text in enumerate(texts) if text in entry["after"].split()]
        if not places:
            return None
        tail = rest[places[0] + 1 :]
        if len(tail) == 1 and " " in (tail[0].text or ""):
            return WrappedCommand(texts=(tail[0].text,))
        return WrappedCommand(words=(*tail, _UNREAD) if program.startswith("fd") and tail else tuple(tail))
    found_texts = _texts(rest, entry)
    if entry.get("only_text"):
        return WrappedCommand(texts=tuple(found_texts)) if found_texts else None
    inner = _unwrapped(entry, rest)
    if entry.get("shell") and inner.words:
        known = all(word.text is not None for word in inner.words)
        found_texts.append(" ".join(word.text or "" for word in inner.words) if known else None)
        inner = WrappedCommand(assignments=inner.assignments)
    return WrappedCommand(
        words=inner.words, texts=(*inner.texts, *found_texts), assignments=inner.assignments, folder=inner.folder
    )


def operands(program: str, texts: Sequence[str]) -> list[str]:
    """What is no option and no value of a general option: the subcommand comes first (`git -C sub push`)."""
    found: list[str] = []
    waiting = list(texts)
    takes = target_table()["subcommands"].get(program, {}).get("takes", "").split()
    while waiting:
        text = waiting.pop(0)
        if (text in takes and not found) or (found == ["compose"] and text in _COMPOSE):
            del waiting[:1]
        elif not text.startswith("-"):
            found.append(text)
    return found


def _behind(program: str, words: list[Word], subs: list[str]) -> list[Word] | None:
    """What follows the subcommand that runs something."""
    texts = [word.text or word.source for word in words]
    found = operands(program, texts)
    if found[:1] in (["compose"], ["container"]):
        found = found[1:]
    if not found or found[0] not in subs:
        return None
    return words[texts.index(found[0]) + 1 :]


def _texts(words: list[Word], entry: dict[str, Any]) -> list[str | None]:
    """Values of the options that take shell text."""
    options = entry.get("text", "").split()
    found: list[str | None] = []
    for place, word in enumerate(words):
        text = word.text or word.source
        if not text.startswith("-") and not (entry.get("only_text") or entry.get("anywhere")):
            break
        letters = re.fullmatch(r"-[a-zA-Z]*([a-zA-Z])", text)
        if text in options or (letters and f"-{letters[1]}" in options):
            found += [following.text for following in words[place + 1 : place + 2]]
        elif (name := text.partition("=")[0]) in options and "=" in text:
            found.append(text[len(name) + 1 :] if word.text else None)
    return found


def _unwrapped(entry: dict[str, Any], arguments: list[Word]) -> WrappedCommand:
    rest = list(arguments)
    assignments: list[tuple[str, Word]] = []
    texts: list[str | None] = []
    folder = front = None
    long, moves = entry.get("long", "").split(), entry.get("moves", "").split()
    while rest:
        word = rest[0].text or ""
        if word == "--":
            rest.pop(0)
            break
        if entry.get("assignments") and re.match(r"\w+=", word or rest[0].source):
            name, _, value = (word or rest[0].source).partition("=")
            assignments.append((name, Word(source=value, text=value)))
        elif len(word) > 1 and word.startswith("-"):
            takes = word in long or (
                not word.startswith("--") and len(word) == 2 and word[1] in entry.get("values", "")
            )
            value_of = rest[1] if takes and len(rest) > 1 else None
            if word in moves and len(rest) > 1:
                folder, takes = rest[1], True
            elif word.startswith(tuple(f"{option}=" for option in moves if option.startswith("--"))):
                folder = Word(source=word.partition("=")[2], text=word.partition("=")[2])
            if word == "--entrypoint":
                front = value_of
            if entry.get("assignments") and word in ("-S", "--split-string") and len(rest) > 1:
                texts.append(rest[1].text)
                takes = True
            elif entry.get("assignments") and (glued := _SPLIT.match(word)):
                texts.append(glued[1])
            if takes and len(rest) > 1:
                rest.pop(0)
        else:
            break
        rest.pop(0)
    rest = rest[entry.get("skip", 0) :]
    return WrappedCommand(
        words=tuple([front, *rest] if front else rest),
        texts=tuple(texts),
        assignments=tuple(assignments),
        folder=folder,
    )


def git_texts(arguments: Sequence[Word]) -> list[str | None]:
    """Shell text in the arguments of git: aliases with `!`, `bisect run`, `submodule foreach`, `rebase --exec`."""
    texts = [word.text or word.source for word in arguments]
    words = operands("git", texts)
    found: list[str | None] = [text.partition("!")[2] for text in texts if re.match(r"alias\.[\w-]+=!", text)]
    if words[:1] == ["config"]:
        found += [text[1:] for text in texts if text.startswith("!")]
    for sub, verb in (("bisect", "run"), ("submodule", "foreach")):
        if words[:2] == [sub, verb]:
            rest = [*dropwhile(lambda text: text.startswith("-"), texts[texts.index(verb) + 1 :])]
            found.append(" ".join(rest) if len(rest) == 1 or sub == "submodule" else shlex.join(rest))
    if words[:1] == ["rebase"]:
        found += [texts[place + 1] for place, text in enumerate(texts[:-1]) if text in ("-x", "--exec")]
        found += [text.partition("=")[2] for text in texts if text.startswith("--exec=")]
    return found


def fill_placeholders(words: Sequence[Word], arguments: Sequence[Word], before: Sequence[SimpleCommand]) -> list[Word]:
    """The command of `xargs` with what it reads, at its end or in place of `{}`."""
    texts = [word.text or "" for word in arguments]
    marks = [texts[place + 1] for place, text in enumerate(texts[:-1]) if text in ("-I", "-i", "--replace")]
    marks += [text[2:] for text in texts if text.startswith("-I") and text[2:]]
    mark = marks[0] if marks else "{}"
    if not any(mark in (word.text or "") for word in words):
        return [*words, *sourced_file(before)]
    if words[0].text == mark:
        return [Word(source=mark, text=None)]
    lines = [line.strip() for line in (printed_text(before) or "").splitlines() if line.strip()]
    if words[0].text in names("shells"):
        lines = ["\n".join(lines)] if lines else []  # each is a command
    whole = (_marked(word, mark, lines, before) for word in words)
    return [word for part in whole for word in part]


def _marked(word: Word, mark: str, lines: list[str], before: Sequence[SimpleCommand]) -> list[Word]:
    """A word of the command of `xargs -I`, with each line that it reads in place of the mark."""
    if mark not in (word.text or ""):
        return [word]
    if lines:
        texts = [(word.text or "").replace(mark, line) for line in lines]
        return [Word(source=text, text=text, pattern=text.startswith("~")) for text in texts]
    return sourced_file(before) if word.text == mark else [word]


def braced(words: Sequence[Word]) -> list[Word]:
    """Words with `{a,b}` as the words that they become."""
    found: list[Word] = []
    for word in words:
        if word.text is None or not word.pattern or word.source != word.text or not _BRACES.search(word.text):
            found.append(word)
            continue
        texts = [word.text]
        for _ in range(4):
            texts = [
                part[: hit.start()] + choice + part[hit.end() :]
                for part in texts[:64]
                for hit in [_BRACES.search(part) or _NO_BRACES.match(part)]
                if hit
                for choice in (hit[1].split(",") if hit.lastindex else [""])
            ]
        found += [Word(source=text, text=text, pattern=word.pattern) for text in texts if text]
    return found


def is_downloaded(pipeline: Pipeline) -> set[str]:
    """Files of the working folder that the pipeline fills from the network or out of a decoder."""
    found: set[str] = set()
    network = is_remote(pipeline.fed)
    for command in pipeline.commands:
        texts = [word.text or "" for word in command.words]
        program = texts[0].rsplit("/", 1)[-1] if texts else ""
        network |= program in names("decoders")
        if program in names("network"):
            network = True
            addresses = [text for text in texts[1:] if not text.startswith("-")]
            into = [
                texts[place + 1]
                for place, text in enumerate(texts[:-1])
                if re.fullmatch(r"-[a-zA-Z]*[oO]|--output(-document)?|--out", text)
            ]
            into += [text.partition("=")[2] for text in texts if text.startswith("--output")]
            if program in ("wget", "aria2c") or any(re.fullmatch(r"-[a-zA-Z]*O|--remote-name", t) for t in texts):
                into += [address.rsplit("/", 1)[-1] for address in addresses if "/" in address]
            if program in ("scp", "rsync") and addresses:
                into += [addresses[-1], addresses[0].rsplit("/", 1)[-1]]
            found |= set(into)
        if network:
            found |= {r.target.text or "" for r in command.redirects if r.target and ">" in r.operator}
            found |= set(texts[1:]) if program == "tee" else set()
    return {posixpath.normpath(name) for name in found if name and not name.startswith(("-", "/dev/"))}


def sourced_file(before: Sequence[SimpleCommand]) -> list[Word]:
    """What `xargs` adds to its command: the words that a lone `echo` prints, the folders that a `find` or `ls`
    walks when they are no part of where we stand, else one word that nobody knows."""
    if (literal := printed_text(before)) is not None:
        return [Word(source=text, text=text, pattern=text.startswith("~")) for text in literal.split()]
    words = before[0].words if before else ()
    lists = bool(words) and words[0].text in ("find", "ls")
    if not lists or any(NARROWING.fullmatch(word.text or "") for word in words):
        return [_UNREAD]
    wide = [word for word in words[1:] if word.source.startswith(("/", "~", '"$', "$", ".."))]
    return [
        Word(source=f"{word.source}/*", text=None if word.text is None else f"{word.text}/*", pattern=True)
        for word in wide
    ] or [_UNREAD]


def printed_text(before: Sequence[SimpleCommand]) -> str | None:
    """What a lone `echo`, `printf` or `cat <<X` would print, if it is literal."""
    if not before:
        return None
    words = before[-1].words
    texts = [word.text for word in words]
    if len(before) != 1 or None in texts:
        return None
    if texts in ([], ["cat"]):  # nothing: a group with a here-document
        return given_script((), before[-1].redirects) or None
    said = [text for text in texts[1:] if text and text not in ("-e", "-n", "--")]
    if texts[0] == "printf" and said:
        head = said[0].replace("\\n", "\n")
        parts = re.split(r"%[sb]", head)
        if len(parts) == len(said):
            return "".join(one for pair in zip(parts, [*said[1:], ""], strict=True) for one in pair)
        return " ".join([head, *said[1:]]).strip()
    return " ".join(said) if texts[0] == "echo" else None


def given_script(before: Sequence[SimpleCommand], redirects: Sequence[Redirect]) -> str:
    """What is literally on a command's input, by a pipe or a here-document."""
    bodies = [redirect.body for redirect in redirects if "<<" in redirect.operator]
    return "\n".join(bodies) if bodies else (printed_text(before) or "")


def is_remote(before: Sequence[SimpleCommand]) -> bool:
    """Whether what flows on comes from the network or out of a decoder."""
    known = names("network") | names("decoders")
    return any(word.text in known for command in before for word in command.words[:3])
