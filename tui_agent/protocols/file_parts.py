"""A file that is there, and what a reply shows of it: put together where that is plain, else handed back (E4).

Nothing may vanish from a file because a small model left it out. What a request takes away may.
"""

from __future__ import annotations

import ast
import re
import tomllib
from typing import Any

import msgspec

from tui_agent.protocols import document_parts, json_parts
from tui_agent.protocols.leave import Leave, marks
from tui_agent.protocols.python_source import Defining, dumped, merged, parsed
from tui_agent.protocols.source_lines import lines_of, share_gone, with_ends_of, with_plain_ends

_GONE = 0.4
"""Of the lines of a file: a version that lacks more of them, and is shorter, may be a part of it."""
_SHORTER = 0.6
"""Of the number of its lines: with more of them it is a new version."""
_NESTED = 5_000
"""Opening brackets in a file of settings that is read."""
_SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".env", ".properties", ".conf")
_PAGES = (".html", ".htm", ".xhtml", ".svg", ".xml", ".vue", ".svelte")
_SKELETON = re.compile(r"<(!doctype|html|head|body|svg|template|script|style)\b", re.IGNORECASE)
_SELECTOR = re.compile(r"^([^\s@{}/][^{}\n;]*)(?:\{|,$)", re.MULTILINE)
_DEFINES = re.compile(
    r"^(?:(?:export|default|async|pub(?:\([a-z]+\))?|public|private|static|abstract|final|unsafe) )*"
    r"(?:function\*?|class|interface|type|struct|enum|trait|func(?: \([^)\n]*\))?|fn|def|module) +([\w$.?!]+)",
    re.MULTILINE,
)
_KEYED = re.compile(r"(?:-[ \t]+)?(?:export[ \t]+)?[\"']?([\w.$/-]+(?: [\w.-]+)*)[\"']?[ \t]*[:=](?!=)[ \t]*")
_COMMENT = re.compile(r"(?<![ \t])[ \t]+#[^\"']*$")


class Placed(msgspec.Struct, frozen=True):
    """What becomes of a file."""

    text: str = ""
    """Its new content; empty where there is a problem."""
    problem: str = ""
    """Why it can't be told, for the model."""
    doubt: str = ""
    """What may be wrong with the content, for the model; it may be meant so."""


def placed(name: str, old: str, body: str, leave: Leave, *, closed: bool = True) -> Placed:
    """The file `name`, which is `old`, after a reply that shows `body` for it. `closed`: the block has an end."""
    was, shown = with_plain_ends(old), with_plain_ends(body)
    if not was.strip():
        return Placed(with_ends_of(old, shown))
    lower = name.lower()
    if lower.endswith((".py", ".pyi")):
        found = _python(name, was, shown, leave, closed=closed)
    elif not closed and _is_cut(was, shown):
        found = _whole(name)
    elif lower.endswith(".json"):
        found = _json(name, was, shown, leave)
    elif lower.endswith((".md", ".markdown")):
        found = _document(name, was, shown, leave)
    elif found_mark := _first_mark(shown, was):
        found = (
            _settings(name, was, shown, leave) if lower.endswith(_SETTINGS) else _left_out(name, found_mark)
        )
    elif lower.endswith(_SETTINGS):
        found = _settings(name, was, shown, leave)
    else:
        found = _other(name, was, shown, leave)
    return found if found.problem else msgspec.structs.replace(found, text=with_ends_of(old, found.text))


def _whole(name: str, lost: list[str] | None = None) -> Placed:
    missing = f" Missing: {', '.join(f'“{one}”' for one in lost[:4])}." if lost else ""
    return Placed(problem=f"{name}: show the whole file, with everything that stays.{missing}")


def _left_out(name: str, mark: str) -> Placed:
    return Placed(problem=f"{name}: show the whole file, every line of it, and not “{mark[:60]}”.")


def _first_mark(text: str, old: str, *, headings: bool = False) -> str:
    found = marks(text, old, headings=headings)
    return lines_of(text)[found[0]].strip() if found else ""


def _is_cut(old: str, body: str) -> bool:
    """Whether a block without an end stops before the end of the file."""
    was, now = _said(old), _said(body)
    last = was[-1]
    return len(now) < len(was) and now[-1:] != [last] and now.count(last) < was.count(last)


def _said(text: str) -> list[str]:
    return [line.strip() for line in lines_of(text) if line.strip()]


def _with_doubt(name: str, old: str, text: str, leave: Leave) -> Placed:
    """The new content, with a doubt where most of the old one is gone and the request takes nothing away."""
    shorter = len(_said(text)) < _SHORTER * len(_said(old))
    if shorter and not leave.less and share_gone(old, text) > _GONE:
        return Placed(text, doubt=_whole(name).problem)
    return Placed(text)


# --- Python ---


def _python(name: str, old: str, body: str, leave: Leave, *, closed: bool) -> Placed:
    was, now = parsed(old), parsed(body)
    if not closed and now is not None and _ends_early(old, body, was, now):
        return _whole(name)
    found = _python_marks(body, old, now)
    if not found:
        text = merged(old, body, leave.going)
        lost = was is not None and text == body and _loses_doing(was, now)
        return _with_doubt(name, old, text, leave) if lost else Placed(text)
    lines = lines_of(body)
    mark = lines[found[0]].strip()
    if any(_within_function(lines, at) for at in found):
        return _left_out(name, mark)
    bare = "".join(line for at, line in enumerate(lines) if at not in found)
    tree = parsed(bare) or now
    if was is None or tree is None or not any(isinstance(node, Defining) for node in tree.body):
        return _left_out(name, mark)
    there = {dumped(node) for node in was.body}
    quiet = Defining | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.If
    if any(not isinstance(node, quiet) and dumped(node) not in there for node in tree.body):
        return _left_out(name, mark)
    return Placed(merged(old, bare if parsed(bare) else body, leave.going, partial=True))


def _python_marks(body: str, old: str, tree: ast.Module | None) -> list[int]:
    """Numbers of the lines that stand for others; three dots are one only beside other statements."""
    found = marks(body, old)
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
    if was is None or not isinstance(last, Defining) or isinstance(last.body[-1], ast.Return | ast.Raise):
        return False
    mine = [node for node in was.body if isinstance(node, Defining) and node.name == last.name]
    if not mine:
        return False
    had = lines_of(old)[mine[-1].lineno - 1 : mine[-1].end_lineno]
    has = lines_of(body)[last.lineno - 1 : last.end_lineno]
    return len(has) < len(had) and had[-1].strip() not in {line.strip() for line in has}


def _loses_doing(was: ast.Module, now: ast.Module | None) -> bool:
    """Whether a program without definitions has far fewer statements than before."""
    if now is None or any(isinstance(node, Defining) for node in (*was.body, *now.body)):
        return False
    return len(was.body) >= 4 and len(now.body) < len(was.body) / 2


# --- JSON, and files of keys and values ---


def _json(name: str, old: str, body: str, leave: Leave) -> Placed:
    was = json_parts.loaded(old)
    found = marks(body, old)
    bare = "".join(line for at, line in enumerate(lines_of(body)) if at not in found)
    part = body if isinstance(json_parts.loaded(body), dict) else json_parts.loosely(bare)
    new = json_parts.loaded(part or body)
    if not isinstance(was, dict) or not isinstance(new, dict):
        if found or (isinstance(was, dict | list) and not isinstance(new, type(was)) and new is not ...):
            return _whole(name)
        return _with_doubt(name, old, body, leave)
    if found and json_parts.shrinks(was, new):
        return _left_out(name, lines_of(body)[found[0]].strip())
    missing = json_parts.gone(was, new)
    if not found and (not missing or leave.anew):
        return Placed(part)
    held = missing
    if not json_parts.is_inner(was, new):
        held = leave.held(missing, new.keys() - was.keys())
        if not held and not found:
            return Placed(part)
    text = json_parts.with_values(old, part, leave) if len(held) == len(missing) else ""
    return Placed(text) if text else _whole(name, held)


def _settings(name: str, old: str, body: str, leave: Leave) -> Placed:
    found = marks(body, old)
    bare = "".join(line for at, line in enumerate(lines_of(body)) if at not in found)
    was, now = _keys(name, old), _keys(name, bare)
    if now is None:
        return _left_out(name, lines_of(body)[found[0]].strip()) if found else Placed(body)
    missing = [key for key in was or () if key not in now]
    last = {key.rpartition("\0")[2]: key for key in missing}
    fresh = [key.rpartition("\0")[2] for key in now if key not in (was or ())]
    held = leave.held(last, fresh)
    if not found and (not held or leave.anew):
        return _with_doubt(name, old, body, leave)
    text = _with_settings(old, bare) if len(held) == len(last) else ""
    after = _keys(name, text) if text else None
    if after is None or any(key not in after for key in was or ()):
        return _whole(name, held)
    return Placed(text)


def _keys(name: str, text: str) -> list[str] | None:
    """The keys of a file, those within others with their way to it; None where it can't be read."""
    if name.endswith((".yaml", ".yml", ".toml")):
        if text.count("[") + text.count("{") > _NESTED:
            return None
        try:
            value = _value(name, text)
        except Exception as error:  # a fault of the text in one of many ways, yaml's own classes among them
            known = isinstance(error, ValueError | RecursionError | TypeError | AttributeError | MemoryError)
            if not known and not type(error).__module__.startswith("yaml"):
                raise
            return None
        return _ways(value, "") if isinstance(value, dict) else [] if value is None else None
    found = [line.strip() for line in lines_of(text)]
    section, keys = "", []
    for line in found:
        if line.startswith("[") and line.endswith("]"):
            section = line
            keys.append(line)
        elif (key := _KEYED.match(line)) and line[:1] not in "#;":
            keys.append(f"{section}\0{key.group(1)}")
    return keys


def _value(name: str, text: str) -> Any:
    if name.endswith(".toml"):
        return tomllib.loads(text)
    import yaml

    return yaml.safe_load(text)


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
    lines = lines_of(old if old.endswith("\n") else old + "\n")
    there = {line.strip() for line in lines}
    keys = [found.group(1) if (found := _KEYED.match(line.strip())) else "" for line in lines]
    flat = not any((line[:1].isspace() and line.strip()) or line.startswith("[") for line in lines)
    for line in (one.rstrip() for one in lines_of(part)):
        bare = line.strip()
        if not bare or bare in there or bare.startswith("#"):
            continue
        found = _KEYED.match(bare)
        if found is None or found.end() == len(bare):
            return ""
        spots = [at for at, key in enumerate(keys) if key == found.group(1)]
        if len(spots) == 1:
            own = lines[spots[0]].rstrip("\n")
            margin = own[: len(own) - len(own.lstrip())]
            comment = _COMMENT.search(own)
            kept = comment.group(0) if comment and "#" not in bare else ""
            lines[spots[0]] = f"{margin}{bare}{kept}\n"
        elif not spots and flat and line == bare:
            lines.append(bare + "\n")
        else:
            return ""
    return "".join(lines)


# --- documents, pages, other code ---


def _document(name: str, old: str, body: str, leave: Leave) -> Placed:
    lines = lines_of(body)
    found = _outside_code(lines, marks(body, old, headings=True))
    if found:
        marked = "".join(document_parts.LEFT if at in found else line for at, line in enumerate(lines))
        text = document_parts.with_sections(old, marked)
        return Placed(text) if text is not None else _left_out(name, lines[found[0]].strip())
    if leave.otherwise and not document_parts.is_part(old, body):
        return Placed(body)
    if document_parts.is_part(old, body):
        missing = document_parts.lost(old, body, leave)
        text = document_parts.with_sections(old, body)
        if text is not None and (missing or not leave.less):
            return Placed(text)
    missing = document_parts.lost(old, body, leave)
    if missing:
        return Placed(body, doubt=_whole(name, missing).problem)
    return _with_doubt(name, old, body, leave)


def _outside_code(lines: list[str], found: list[int]) -> list[int]:
    """Those of the lines that stand in no fenced code."""
    fences = [at for at, line in enumerate(lines) if line.lstrip().startswith(("```", "~~~"))]
    return [at for at in found if sum(one < at for one in fences) % 2 == 0]


def _other(name: str, old: str, body: str, leave: Leave) -> Placed:
    lower = name.lower()
    if lower.endswith(_PAGES):
        had = {one.lower() for one in _SKELETON.findall(old)}
        lost = sorted(had - {one.lower() for one in _SKELETON.findall(body)})
        if "html" in lost or "svg" in lost or "body" in lost or leave.held(lost):
            return _whole(name, [f"<{one}>" for one in lost])
        return _with_doubt(name, old, body, leave)
    names = _selectors if lower.endswith((".css", ".scss", ".less")) else _DEFINES.findall
    was, now = names(old), names(body)
    lost = leave.held(
        [one for one in dict.fromkeys(was) if one not in now], [one for one in now if one not in was]
    )
    return _whole(name, lost) if lost else _with_doubt(name, old, body, leave)


def _selectors(text: str) -> list[str]:
    """What the rules of a style sheet are for, each by itself."""
    return [" ".join(one.split()) for row in _SELECTOR.findall(text) for one in row.split(",") if one.strip()]
