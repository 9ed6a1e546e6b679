"""A Markdown document with the sections that a part of it shows (E4)."""

from __future__ import annotations

import ast
import difflib
from typing import Any

import msgspec

from tui_agent.protocols.data_files import UnreadableData, parse_data
from tui_agent.protocols.json_parts import is_inner, load_json, load_partial_object, missing_keys, shrinks, with_values
from tui_agent.protocols.python_source import Definition, dump_tree, merge_definitions, parse_module
from tui_agent.protocols.removals import AllowedRemovals, omission_lines
from tui_agent.protocols.source_lines import share_gone, source_lines, with_ends_of, with_plain_ends
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "parts")

LEFT = "\0\n"
"""The line that a reply's mark for left out lines is turned into."""
_RENAMED = 0.6
"""How alike two headings are at least for the one to be the other, corrected."""


class DocumentSection(msgspec.Struct, frozen=True):
    """A heading and what follows it, up to the next one."""

    title: str
    """The heading's line, without blanks around it; empty before the first one."""
    text: str
    """All of its lines."""

    @property
    def body(self) -> str:
        """The lines under the heading."""
        return self.text.partition("\n")[2] if self.title else self.text


def document_sections(text: str) -> list[DocumentSection]:
    """A document by its headings, those in code left aside."""
    found: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in source_lines(text):
        mark = _RE.fence.match(line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and mark.group(1).startswith(fence) and not line.strip(" \t\r\n`~"):
            fence = ""
        if not fence and _RE.heading.match(line):
            found.append((line.strip(), []))
        found[-1][1].append(line)
    return [DocumentSection(title, "".join(lines)) for title, lines in found if title or "".join(lines).strip()]


def lost_headings(old: str, new: str, allowed: AllowedRemovals) -> list[str]:
    """Headings that a new version of a document lacks, none in their place, without the request letting them go."""
    was, now = [one.title for one in document_sections(old)], [one.title for one in document_sections(new)]
    fresh = [title for title in now if title not in was]
    missing = [title for title in was if title and title not in now]
    return [
        title
        for title in allowed.held(missing, fresh)
        if not difflib.get_close_matches(title, fresh, n=1, cutoff=_RENAMED)
    ]


def with_sections(old: str, part: str) -> str | None:
    """The document with those sections replaced or added that a part shows; None where the part is none, or where it
    can't be told what of a section stays."""
    was, now = document_sections(old), document_sections(part)
    titles = [one.title for one in was if one.title]
    shown = [one.title for one in now]
    if not titles or not now or len(set(titles)) < len(titles) or len(set(shown)) < len(shown):
        return None
    if not now[0].title and not now[0].text.replace(LEFT, "").strip():
        now = now[1:]
    if not now or not now[0].title:
        return None
    found = {one.title: one.text for one in was}
    order = [one.title for one in was]
    for at, one in enumerate(now):
        text = _section(found.get(one.title), one, last=one is now[-1])
        if text is None:
            return None
        if one.title not in found:
            order.insert(_place(order, now[at - 1].title, one.title) if at else len(order), one.title)
        found[one.title] = text
    kept = {one.title: one.text for one in was}
    return _joined([(found[title], kept.get(title)) for title in order])


def _place(order: list[str], before: str, title: str) -> int:
    """Where a new section goes: behind the one that the part shows before it, and what is under that."""
    at = order.index(before) + 1
    level = min(_level(before), _level(title))
    while at < len(order) and _level(order[at]) > level:
        at += 1
    return at


def _level(title: str) -> int:
    return len(title) - len(title.lstrip("#"))


def _joined(rows: list[tuple[str, str | None]]) -> str:
    """The sections, each with what it was: those that stay keep the blank lines behind them, others get one."""
    text = ""
    for now, was in rows:
        if was is None and text:
            text = text.rstrip() + "\n\n"
        end = "\n\n" if was is None else was[len(was.rstrip()) :]
        text += now.rstrip() + end if now != was else now
    return text.rstrip() + "\n"


def is_document_part(old: str, part: str) -> bool:
    """Whether a document shows some sections only: it begins below the title, or has nothing under the title."""
    was, now = document_sections(old), document_sections(part)
    if not was or not now or not now[0].title:
        return False
    if was[0].title and now[0].title == was[0].title:
        return bool(was[0].body.strip()) and not now[0].body.strip() and len(now) > 1
    return now[0].title.startswith("##") and now[0].title != was[0].title


def _section(old: str | None, new: DocumentSection, *, last: bool) -> str | None:
    """A section's new text, where the part shows `new`; None where it can't be told what stays."""
    above, mark, below = new.body.partition(LEFT)
    head = new.text[: len(new.text) - len(new.body)]
    if old is None:
        return head + above if last and not below.strip() else None if mark else new.text
    rest = old[len(old.partition("\n")[0]) + 1 :]
    if not new.body.strip():
        return old
    if not mark:
        return new.text
    if LEFT in below or (above.strip() and below.strip()):
        return None
    there = {line.strip() for line in source_lines(rest)}
    if not above.strip():
        more = below.strip("\n")
        known = all(line.strip() in there for line in source_lines(more))
        return old if known else f"{old.rstrip()}\n\n{more}\n"
    return old if all(line.strip() in there for line in source_lines(above)) else None


_GONE = 0.4
"""Of the lines of a file: a version that lacks more of them, and is shorter, may be a part of it."""
_SHORTER = 0.6
"""Of the number of its lines: with more of them it is a new version."""
_NESTED = 5_000
"""Opening brackets in a file of settings that is read."""
_SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".env", ".properties", ".conf")
_PAGES = (".html", ".htm", ".xhtml", ".svg", ".xml", ".vue", ".svelte")


class FileMerge(msgspec.Struct, frozen=True):
    """What becomes of a file."""

    text: str = ""
    """Its new content; empty where there is a problem."""
    problem: str = ""
    """Why it can't be told, for the model."""
    doubt: str = ""
    """What may be wrong with the content, for the model; it may be meant so."""


def merge_shown(name: str, old: str, body: str, allowed: AllowedRemovals, *, closed: bool = True) -> FileMerge:
    """The file `name`, which is `old`, after a reply that shows `body` for it. `closed`: the block has an end."""
    was, shown = with_plain_ends(old), with_plain_ends(body)
    if not was.strip():
        return FileMerge(with_ends_of(old, shown))
    lower = name.lower()
    if lower.endswith((".py", ".pyi")):
        found = _python(name, was, shown, allowed, closed=closed)
    elif not closed and _is_cut(was, shown):
        found = _whole(name)
    elif lower.endswith(".json"):
        found = _json(name, was, shown, allowed)
    elif lower.endswith((".md", ".markdown")):
        found = _document(name, was, shown, allowed)
    elif found_mark := _first_mark(shown, was):
        found = _settings(name, was, shown, allowed) if lower.endswith(_SETTINGS) else _left_out(name, found_mark)
    elif lower.endswith(_SETTINGS):
        found = _settings(name, was, shown, allowed)
    else:
        found = _other(name, was, shown, allowed)
    return found if found.problem else msgspec.structs.replace(found, text=with_ends_of(old, found.text))


def _whole(name: str, lost: list[str] | None = None) -> FileMerge:
    missing = f" Missing: {', '.join(f'“{one}”' for one in lost[:4])}." if lost else ""
    return FileMerge(problem=f"{name}: show the whole file, with everything that stays.{missing}")


def _left_out(name: str, mark: str) -> FileMerge:
    return FileMerge(problem=f"{name}: show the whole file, every line of it, and not “{mark[:60]}”.")


def _first_mark(text: str, old: str) -> str:
    found = omission_lines(text, old)
    return source_lines(text)[found[0]].strip() if found else ""


def _without(text: str, left_out: list[int]) -> str:
    return "".join(line for at, line in enumerate(source_lines(text)) if at not in left_out)


def _is_cut(old: str, body: str) -> bool:
    """Whether a block without an end stops before the end of the file."""
    was, now = _said(old), _said(body)
    last = was[-1]
    return len(now) < len(was) and now[-1:] != [last] and now.count(last) < was.count(last)


def _said(text: str) -> list[str]:
    return [line.strip() for line in source_lines(text) if line.strip()]


def _with_doubt(name: str, old: str, text: str, allowed: AllowedRemovals) -> FileMerge:
    """The new content, with a doubt where most of the old one is gone and the request takes nothing away."""
    shorter = len(_said(text)) < _SHORTER * len(_said(old))
    if shorter and not allowed.less and share_gone(old, text) > _GONE:
        return FileMerge(text, doubt=_whole(name).problem)
    return FileMerge(text)


# --- Python ---


def _python(name: str, old: str, body: str, allowed: AllowedRemovals, *, closed: bool) -> FileMerge:
    was, now = parse_module(old), parse_module(body)
    if not closed and now is not None and _ends_early(old, body, was, now):
        return _whole(name)
    found = _python_marks(body, old, now)
    if not found:
        text = merge_definitions(old, body, allowed.going)
        loses = was is not None and text == body and _loses_doing(was, now)
        return _with_doubt(name, old, text, allowed) if loses else FileMerge(text)
    lines = source_lines(body)
    mark = lines[found[0]].strip()
    if any(_within_function(lines, at) for at in found):
        return _left_out(name, mark)
    bare = _without(body, found)
    tree = parse_module(bare) or now
    if was is None or tree is None or not any(isinstance(node, Definition) for node in tree.body):
        return _left_out(name, mark)
    there = {dump_tree(node) for node in was.body}
    quiet = Definition | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.If
    if any(not isinstance(node, quiet) and dump_tree(node) not in there for node in tree.body):
        return _left_out(name, mark)
    return FileMerge(merge_definitions(old, bare if parse_module(bare) else body, allowed.going, partial=True))


def _python_marks(body: str, old: str, tree: ast.Module | None) -> list[int]:
    """Numbers of the lines that stand for others; three dots are one only beside other statements."""
    found = omission_lines(body, old)
    if tree is None or not found:
        return found
    quoted: set[int] = set()
    for node in ast.walk(tree):
        inner = getattr(node, "body", None)
        if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], ast.Expr):
            quoted |= {inner[0].lineno - 1} if not isinstance(node, ast.Module) else set()
        if isinstance(node, ast.Constant | ast.JoinedStr) and (node.end_lineno or 0) > node.lineno:
            quoted |= set(range(node.lineno - 1, node.end_lineno or 0))
    return [at for at in found if at not in quoted]


def _within_function(lines: list[str], at: int) -> bool:
    """Whether a line stands in a function, by the margin: else it is in a class, or at the top."""
    margin = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[:at]):
        bare = line.strip()
        if not bare or bare.startswith("#") or len(line) - len(line.lstrip()) >= margin:
            continue
        if not bare.startswith("class "):
            return True
        margin = len(line) - len(line.lstrip())
    return False


def _ends_early(old: str, body: str, was: ast.Module | None, now: ast.Module) -> bool:
    """Whether the last definition of a block without an end is the beginning of the one that the file has."""
    last = now.body[-1] if now.body else None
    if was is None or not isinstance(last, Definition) or isinstance(last.body[-1], ast.Return | ast.Raise):
        return False
    mine = [node for node in was.body if isinstance(node, Definition) and node.name == last.name]
    if not mine:
        return False
    had = source_lines(old)[mine[-1].lineno - 1 : mine[-1].end_lineno]
    has = source_lines(body)[last.lineno - 1 : last.end_lineno]
    return len(has) < len(had) and had[-1].strip() not in {line.strip() for line in has}


def _loses_doing(was: ast.Module, now: ast.Module | None) -> bool:
    """Whether a program without definitions has far fewer statements than before."""
    if now is None or any(isinstance(node, Definition) for node in (*was.body, *now.body)):
        return False
    return len(was.body) >= 4 and len(now.body) < len(was.body) / 2


# --- JSON, and files of keys and values ---


def _json(name: str, old: str, body: str, allowed: AllowedRemovals) -> FileMerge:
    was = load_json(old)
    found = omission_lines(body, old)
    bare = _without(body, found)
    part = body if isinstance(load_json(body), dict) else load_partial_object(bare)
    new = load_json(part or body)
    if not isinstance(was, dict) or not isinstance(new, dict):
        if found or (isinstance(was, dict | list) and not isinstance(new, type(was)) and new is not ...):
            return _whole(name)
        return _with_doubt(name, old, body, allowed)
    if found and shrinks(was, new):
        return _left_out(name, source_lines(body)[found[0]].strip())
    missing = missing_keys(was, new)
    if not found and (not missing or allowed.anew):
        return FileMerge(part)
    held = missing
    if not is_inner(was, new):
        held = allowed.held(missing, new.keys() - was.keys())
        if not held and not found:
            return FileMerge(part)
    text = with_values(old, part, allowed) if len(held) == len(missing) else ""
    return FileMerge(text) if text else _whole(name, held)


def _settings(name: str, old: str, body: str, allowed: AllowedRemovals) -> FileMerge:
    found = omission_lines(body, old)
    bare = _without(body, found)
    was, now = _keys(name, old), _keys(name, bare)
    if now is None:
        return _left_out(name, source_lines(body)[found[0]].strip()) if found else FileMerge(body)
    missing = [key for key in was or () if key not in now]
    last = {key.rpartition("\0")[2]: key for key in missing}
    fresh = [key.rpartition("\0")[2] for key in now if key not in (was or ())]
    held = allowed.held(last, fresh)
    if not found and (not held or allowed.anew):
        return _with_doubt(name, old, body, allowed)
    text = _with_settings(old, bare) if len(held) == len(last) else ""
    after = _keys(name, text) if text else None
    if after is None or any(key not in after for key in was or ()):
        return _whole(name, held)
    return FileMerge(text)


def _keys(name: str, text: str) -> list[str] | None:
    """The keys of a file, those within others with their way to it; None where it can't be read."""
    if name.endswith((".yaml", ".yml", ".toml")):
        if text.count("[") + text.count("{") > _NESTED:
            return None
        try:
            value = parse_data(name, text)
        except UnreadableData:
            return None
        return _ways(value, "") if isinstance(value, dict) else [] if value is None else None
    found = [line.strip() for line in source_lines(text)]
    section, keys = "", []
    for line in found:
        if line.startswith("[") and line.endswith("]"):
            section = line
            keys.append(line)
        elif (key := _RE.keyed.match(line)) and line[:1] not in "#;":
            keys.append(f"{section}\0{key.group(1)}")
    return keys


def _ways(value: dict[Any, Any], way: str, depth: int = 0) -> list[str]:
    found = []
    for key, inner in value.items():
        here = f"{way}\0{key}" if way else str(key)
        found.append(here)
        if isinstance(inner, dict) and depth < 20:
            found += _ways(inner, here, depth + 1)
    return found


def _with_settings(old: str, part: str) -> str:
    """The file with the values of a part, each of whose keys it has once; empty where that is not so. A key that it
    lacks goes to the end, where the file has no sections."""
    lines = source_lines(old if old.endswith("\n") else old + "\n")
    there = {line.strip() for line in lines}
    keys = [found.group(1) if (found := _RE.keyed.match(line.strip())) else "" for line in lines]
    flat = not any((line[:1].isspace() and line.strip()) or line.startswith("[") for line in lines)
    for line in (one.rstrip() for one in source_lines(part)):
        bare = line.strip()
        if not bare or bare in there or bare.startswith("#"):
            continue
        found = _RE.keyed.match(bare)
        if found is None or found.end() == len(bare):
            return ""
        spots = [at for at, key in enumerate(keys) if key == found.group(1)]
        if len(spots) == 1:
            own = lines[spots[0]].rstrip("\n")
            margin = own[: len(own) - len(own.lstrip())]
            comment = _RE.comment.search(own)
            kept = comment.group(0) if comment and "#" not in bare else ""
            lines[spots[0]] = f"{margin}{bare}{kept}\n"
        elif not spots and flat and line == bare:
            lines.append(bare + "\n")
        else:
            return ""
    return "".join(lines)


# --- documents, pages, other code ---


def _document(name: str, old: str, body: str, allowed: AllowedRemovals) -> FileMerge:
    lines = source_lines(body)
    found = _outside_code(lines, omission_lines(body, old, headings=True))
    if found:
        marked = "".join(LEFT if at in found else line for at, line in enumerate(lines))
        text = with_sections(old, marked)
        return FileMerge(text) if text is not None else _left_out(name, lines[found[0]].strip())
    if allowed.otherwise and not is_document_part(old, body):
        return FileMerge(body)
    if is_document_part(old, body):
        missing = lost_headings(old, body, allowed)
        text = with_sections(old, body)
        if text is not None and (missing or not allowed.less):
            return FileMerge(text)
    missing = lost_headings(old, body, allowed)
    if missing:
        return FileMerge(body, doubt=_whole(name, missing).problem)
    return _with_doubt(name, old, body, allowed)


def _outside_code(lines: list[str], found: list[int]) -> list[int]:
    """Those of the lines that stand in no fenced code."""
    fences = [at for at, line in enumerate(lines) if line.lstrip().startswith(("```", "~~~"))]
    return [at for at in found if sum(one < at for one in fences) % 2 == 0]


def _other(name: str, old: str, body: str, allowed: AllowedRemovals) -> FileMerge:
    lower = name.lower()
    if lower.endswith(_PAGES):
        had = {one.lower() for one in _RE.skeleton.findall(old)}
        lost = sorted(had - {one.lower() for one in _RE.skeleton.findall(body)})
        if "html" in lost or "svg" in lost or "body" in lost or allowed.held(lost):
            return _whole(name, [f"<{one}>" for one in lost])
        return _with_doubt(name, old, body, allowed)
    names = _selectors if lower.endswith((".css", ".scss", ".less")) else _RE.defines.findall
    was, now = names(old), names(body)
    lost = allowed.held([one for one in dict.fromkeys(was) if one not in now], [one for one in now if one not in was])
    return _whole(name, lost) if lost else _with_doubt(name, old, body, allowed)


def _selectors(text: str) -> list[str]:
    """What the rules of a style sheet are for, each by itself."""
    return [" ".join(one.split()) for row in _RE.selector.findall(text) for one in row.split(",") if one.strip()]
