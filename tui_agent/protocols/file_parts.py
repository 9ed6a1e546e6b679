"""Merge what a reply shows of a file into its current content (E4)."""

from __future__ import annotations

import ast
import difflib
from typing import Any

import msgspec

from tui_agent.protocols.data_files import UnreadableData, parse_data
from tui_agent.protocols.json_parts import is_inner, load_json, load_partial_object, missing_keys, shrinks, with_values
from tui_agent.protocols.python_source import Definition, dump_tree, merge_definitions, parse_module
from tui_agent.protocols.removals import AllowedRemovals, omission_lines
from tui_agent.protocols.source_lines import adopt_ends, normalize_ends, removed_share, source_lines
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "parts")

OMISSION = "\0\n"
"""The line that replaces a reply's omission lines."""
_RENAMED_SIMILARITY = 0.6
"""Minimum similarity of two headings for one to be a correction of the other."""


class DocumentSection(msgspec.Struct, frozen=True):
    """A heading and its text, up to the next one."""

    title: str
    """The heading line, stripped; empty before the first heading."""
    text: str
    """All of its lines, including the heading."""

    @property
    def body(self) -> str:
        """The lines below the heading."""
        return self.text.partition("\n")[2] if self.title else self.text


def document_sections(text: str) -> list[DocumentSection]:
    """Split a document at its headings, ignoring those in code."""
    found: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in source_lines(text):
        fence_mark = _RE.fence.match(line)
        if fence_mark and not fence:
            fence = fence_mark.group(1)
        elif fence_mark and fence_mark.group(1).startswith(fence) and not line.strip(" \t\r\n`~"):
            fence = ""
        if not fence and _RE.heading.match(line):
            found.append((line.strip(), []))
        found[-1][1].append(line)
    return [DocumentSection(title, "".join(lines)) for title, lines in found if title or "".join(lines).strip()]


def lost_headings(old: str, new: str, allowed: AllowedRemovals) -> list[str]:
    """Return headings that a new version removes without a replacement or the request's permission."""
    old_parts, new_parts = (
        [item.title for item in document_sections(old)],
        [item.title for item in document_sections(new)],
    )
    added = [title for title in new_parts if title not in old_parts]
    missing = [title for title in old_parts if title and title not in new_parts]
    return [
        title
        for title in allowed.unpermitted(missing, added)
        if not difflib.get_close_matches(title, added, n=1, cutoff=_RENAMED_SIMILARITY)
    ]


def with_sections(old: str, part: str) -> str | None:
    """Return the document with the sections of `part` replaced or added; None if `part` has none, or if it is unclear
    what remains of a section."""
    old_parts, new_parts = document_sections(old), document_sections(part)
    titles = [item.title for item in old_parts if item.title]
    shown = [item.title for item in new_parts]
    if not titles or not new_parts or len(set(titles)) < len(titles) or len(set(shown)) < len(shown):
        return None
    if not new_parts[0].title and not new_parts[0].text.replace(OMISSION, "").strip():
        new_parts = new_parts[1:]
    if not new_parts or not new_parts[0].title:
        return None
    found = {item.title: item.text for item in old_parts}
    order = [item.title for item in old_parts]
    for index, item in enumerate(new_parts):
        text = _merge_section(found.get(item.title), item, by_name=item is new_parts[-1])
        if text is None:
            return None
        if item.title not in found:
            order.insert(
                _insertion_index(order, new_parts[index - 1].title, item.title) if index else len(order), item.title
            )
        found[item.title] = text
    originals = {item.title: item.text for item in old_parts}
    return _join_sections([(found[title], originals.get(title)) for title in order])


def _insertion_index(order: list[str], before: str, title: str) -> int:
    """Return where a new section goes: after the one that precedes it in the part, including its subsections."""
    index = order.index(before) + 1
    level = min(_level(before), _level(title))
    while index < len(order) and _level(order[index]) > level:
        index += 1
    return index


def _level(title: str) -> int:
    return len(title) - len(title.lstrip("#"))


def _join_sections(sections: list[tuple[str, str | None]]) -> str:
    """Join (new, old) sections: unchanged ones keep their trailing blank lines, others get one."""
    text = ""
    for new_parts, old_parts in sections:
        if old_parts is None and text:
            text = text.rstrip() + "\n\n"
        end = "\n\n" if old_parts is None else old_parts[len(old_parts.rstrip()) :]
        text += new_parts.rstrip() + end if new_parts != old_parts else new_parts
    return text.rstrip() + "\n"


def is_document_part(old: str, part: str) -> bool:
    """Whether a document is partial: it begins below the title, or has no text under the title."""
    old_parts, new_parts = document_sections(old), document_sections(part)
    if not old_parts or not new_parts or not new_parts[0].title:
        return False
    if old_parts[0].title and new_parts[0].title == old_parts[0].title:
        return bool(old_parts[0].body.strip()) and not new_parts[0].body.strip() and len(new_parts) > 1
    return new_parts[0].title.startswith("##") and new_parts[0].title != old_parts[0].title


def _merge_section(old: str | None, new: DocumentSection, *, by_name: bool) -> str | None:
    """Return a section's new text as shown by `new`; None if it is unclear what remains."""
    above, marker, below = new.body.partition(OMISSION)
    head = new.text[: len(new.text) - len(new.body)]
    if old is None:
        return head + above if by_name and not below.strip() else None if marker else new.text
    old_body = old[len(old.partition("\n")[0]) + 1 :]
    if not new.body.strip():
        return old
    if not marker:
        return new.text
    if OMISSION in below or (above.strip() and below.strip()):
        return None
    old_lines = {line.strip() for line in source_lines(old_body)}
    if not above.strip():
        addition = below.strip("\n")
        is_known = all(line.strip() in old_lines for line in source_lines(addition))
        return old if is_known else f"{old.rstrip()}\n\n{addition}\n"
    return old if all(line.strip() in old_lines for line in source_lines(above)) else None


_REMOVED_SHARE = 0.4
"""Share of missing lines above which a shorter version may be partial."""
_SHORT_SHARE = 0.6
"""Share of the line count above which a text is a new version."""
_MAX_BRACKETS = 5_000
"""Maximum number of opening brackets in a settings file that is parsed."""
_SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".env", ".properties", ".conf")
_MARKUP_FILES = (".html", ".htm", ".xhtml", ".svg", ".xml", ".vue", ".svelte")


class FileMerge(msgspec.Struct, frozen=True):
    """The result of merging a file."""

    text: str = ""
    """The new content; empty if there is a problem."""
    problem: str = ""
    """Why the content can't be determined, as feedback for the model."""
    doubt: str = ""
    """What may be wrong with the content, as feedback for the model; it may be intended."""


def merge_shown(name: str, old: str, body: str, allowed: AllowedRemovals, *, closed: bool = True) -> FileMerge:
    """Merge `body`, which a reply shows for the file `name` with content `old`. `closed`: the code block has an end."""
    old_text, new_text = normalize_ends(old), normalize_ends(body)
    if not old_text.strip():
        return FileMerge(adopt_ends(old, new_text))
    lower = name.lower()
    if lower.endswith((".py", ".pyi")):
        found = _merge_python(name, old_text, new_text, allowed, closed=closed)
    elif not closed and _is_truncated(old_text, new_text):
        found = _require_whole_file(name)
    elif lower.endswith(".json"):
        found = _merge_json(name, old_text, new_text, allowed)
    elif lower.endswith((".md", ".markdown")):
        found = _merge_document(name, old_text, new_text, allowed)
    elif omission := _first_omission(new_text, old_text):
        found = (
            _merge_settings(name, old_text, new_text, allowed)
            if lower.endswith(_SETTINGS)
            else _reject_omission(name, omission)
        )
    elif lower.endswith(_SETTINGS):
        found = _merge_settings(name, old_text, new_text, allowed)
    else:
        found = _merge_other(name, old_text, new_text, allowed)
    return found if found.problem else msgspec.structs.replace(found, text=adopt_ends(old, found.text))


def _require_whole_file(name: str, removed: list[str] | None = None) -> FileMerge:
    missing = f" Missing: {', '.join(f'“{item}”' for item in removed[:4])}." if removed else ""
    return FileMerge(problem=f"{name}: show the whole file, with everything that stays.{missing}")


def _reject_omission(name: str, marker: str) -> FileMerge:
    return FileMerge(problem=f"{name}: show the whole file, every line of it, and not “{marker[:60]}”.")


def _first_omission(text: str, old: str) -> str:
    found = omission_lines(text, old)
    return source_lines(text)[found[0]].strip() if found else ""


def _remove_lines(text: str, numbers: list[int]) -> str:
    return "".join(line for index, line in enumerate(source_lines(text)) if index not in numbers)


def _is_truncated(old: str, body: str) -> bool:
    """Whether a block without an end stops before the end of the file."""
    old_content, new_content = _content_lines(old), _content_lines(body)
    by_name = old_content[-1]
    return (
        len(new_content) < len(old_content)
        and new_content[-1:] != [by_name]
        and new_content.count(by_name) < old_content.count(by_name)
    )


def _content_lines(text: str) -> list[str]:
    return [line.strip() for line in source_lines(text) if line.strip()]


def _with_doubt(name: str, old: str, text: str, allowed: AllowedRemovals) -> FileMerge:
    """Return the new content, with a doubt if it lacks most of the old lines although the request removes nothing."""
    shorter = len(_content_lines(text)) < _SHORT_SHARE * len(_content_lines(old))
    if shorter and not allowed.allows_removal and removed_share(old, text) > _REMOVED_SHARE:
        return FileMerge(text, doubt=_require_whole_file(name).problem)
    return FileMerge(text)


# --- Python ---


def _merge_python(name: str, old: str, body: str, allowed: AllowedRemovals, *, closed: bool) -> FileMerge:
    old_tree, new_tree = parse_module(old), parse_module(body)
    if not closed and new_tree is not None and _ends_early(old, body, old_tree, new_tree):
        return _require_whole_file(name)
    found = _python_omissions(body, old, new_tree)
    if not found:
        text = merge_definitions(old, body, allowed.removable)
        loses = old_tree is not None and text == body and _loses_statements(old_tree, new_tree)
        return _with_doubt(name, old, text, allowed) if loses else FileMerge(text)
    lines = source_lines(body)
    marker = lines[found[0]].strip()
    if any(_is_in_function(lines, index) for index in found):
        return _reject_omission(name, marker)
    stripped = _remove_lines(body, found)
    tree = parse_module(stripped) or new_tree
    if old_tree is None or tree is None or not any(isinstance(node, Definition) for node in tree.body):
        return _reject_omission(name, marker)
    old_lines = {dump_tree(node) for node in old_tree.body}
    passive = Definition | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.If
    if any(not isinstance(node, passive) and dump_tree(node) not in old_lines for node in tree.body):
        return _reject_omission(name, marker)
    return FileMerge(
        merge_definitions(old, stripped if parse_module(stripped) else body, allowed.removable, partial=True)
    )


def _python_omissions(body: str, old: str, tree: ast.Module | None) -> list[int]:
    """Return the numbers of omission lines; three dots count only in addition to other statements."""
    found = omission_lines(body, old)
    if tree is None or not found:
        return found
    ignored: set[int] = set()
    for node in ast.walk(tree):
        inner = getattr(node, "body", None)
        if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], ast.Expr):
            ignored |= {inner[0].lineno - 1} if not isinstance(node, ast.Module) else set()
        if isinstance(node, ast.Constant | ast.JoinedStr) and (node.end_lineno or 0) > node.lineno:
            ignored |= set(range(node.lineno - 1, node.end_lineno or 0))
    return [index for index in found if index not in ignored]


def _is_in_function(lines: list[str], index: int) -> bool:
    """Whether a line is in a function, by indentation, rather than in a class or at top level."""
    indentation = len(lines[index]) - len(lines[index].lstrip())
    for line in reversed(lines[:index]):
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or len(line) - len(line.lstrip()) >= indentation:
            continue
        if not stripped.startswith("class "):
            return True
        indentation = len(line) - len(line.lstrip())
    return False


def _ends_early(old: str, body: str, old_tree: ast.Module | None, new_tree: ast.Module) -> bool:
    """Whether the last definition of a block without an end is only the beginning of the file's one."""
    by_name = new_tree.body[-1] if new_tree.body else None
    if old_tree is None or not isinstance(by_name, Definition) or isinstance(by_name.body[-1], ast.Return | ast.Raise):
        return False
    old_definitions = [node for node in old_tree.body if isinstance(node, Definition) and node.name == by_name.name]
    if not old_definitions:
        return False
    old_definition = source_lines(old)[old_definitions[-1].lineno - 1 : old_definitions[-1].end_lineno]
    new_definition = source_lines(body)[by_name.lineno - 1 : by_name.end_lineno]
    return len(new_definition) < len(old_definition) and old_definition[-1].strip() not in {
        line.strip() for line in new_definition
    }


def _loses_statements(old_tree: ast.Module, new_tree: ast.Module | None) -> bool:
    """Whether a program without definitions has far fewer statements than before."""
    if new_tree is None or any(isinstance(node, Definition) for node in (*old_tree.body, *new_tree.body)):
        return False
    return len(old_tree.body) >= 4 and len(new_tree.body) < len(old_tree.body) / 2


# --- JSON, and files of keys and values ---


def _merge_json(name: str, old: str, body: str, allowed: AllowedRemovals) -> FileMerge:
    old_value = load_json(old)
    found = omission_lines(body, old)
    stripped = _remove_lines(body, found)
    part = body if isinstance(load_json(body), dict) else load_partial_object(stripped)
    new = load_json(part or body)
    if not isinstance(old_value, dict) or not isinstance(new, dict):
        if found or (isinstance(old_value, dict | list) and not isinstance(new, type(old_value)) and new is not ...):
            return _require_whole_file(name)
        return _with_doubt(name, old, body, allowed)
    if found and shrinks(old_value, new):
        return _reject_omission(name, source_lines(body)[found[0]].strip())
    missing = missing_keys(old_value, new)
    if not found and (not missing or allowed.allows_rewrite):
        return FileMerge(part)
    unpermitted = missing
    if not is_inner(old_value, new):
        unpermitted = allowed.unpermitted(missing, new.keys() - old_value.keys())
        if not unpermitted and not found:
            return FileMerge(part)
    text = with_values(old, part, allowed) if len(unpermitted) == len(missing) else ""
    return FileMerge(text) if text else _require_whole_file(name, unpermitted)


def _merge_settings(name: str, old: str, body: str, allowed: AllowedRemovals) -> FileMerge:
    found = omission_lines(body, old)
    stripped = _remove_lines(body, found)
    old_keys, new_keys = _settings_keys(name, old), _settings_keys(name, stripped)
    if new_keys is None:
        return _reject_omission(name, source_lines(body)[found[0]].strip()) if found else FileMerge(body)
    missing = [key for key in old_keys or () if key not in new_keys]
    by_name = {key.rpartition("\0")[2]: key for key in missing}
    added = [key.rpartition("\0")[2] for key in new_keys if key not in (old_keys or ())]
    unpermitted = allowed.unpermitted(by_name, added)
    if not found and (not unpermitted or allowed.allows_rewrite):
        return _with_doubt(name, old, body, allowed)
    text = _replace_settings(old, stripped) if len(unpermitted) == len(by_name) else ""
    after = _settings_keys(name, text) if text else None
    if after is None or any(key not in after for key in old_keys or ()):
        return _require_whole_file(name, unpermitted)
    return FileMerge(text)


def _settings_keys(name: str, text: str) -> list[str] | None:
    """Return the keys of a settings file, nested ones with their path; None if it can't be parsed."""
    if name.endswith((".yaml", ".yml", ".toml")):
        if text.count("[") + text.count("{") > _MAX_BRACKETS:
            return None
        try:
            value = parse_data(name, text)
        except UnreadableData:
            return None
        return _key_paths(value, "") if isinstance(value, dict) else [] if value is None else None
    found = [line.strip() for line in source_lines(text)]
    section, keys = "", []
    for line in found:
        if line.startswith("[") and line.endswith("]"):
            section = line
            keys.append(line)
        elif (key := _RE.keyed.match(line)) and line[:1] not in "#;":
            keys.append(f"{section}\0{key.group(1)}")
    return keys


def _key_paths(value: dict[Any, Any], prefix: str, depth: int = 0) -> list[str]:
    found = []
    for key, body in value.items():
        path = f"{prefix}\0{key}" if prefix else str(key)
        found.append(path)
        if isinstance(body, dict) and depth < 20:
            found += _key_paths(body, path, depth + 1)
    return found


def _replace_settings(old: str, part: str) -> str:
    """Return the file with the values of a part, each of whose keys it has exactly once, else an empty text. New keys
    are appended if the file has no sections."""
    lines = source_lines(old if old.endswith("\n") else old + "\n")
    old_lines = {line.strip() for line in lines}
    keys = [found.group(1) if (found := _RE.keyed.match(line.strip())) else "" for line in lines]
    is_flat = not any((line[:1].isspace() and line.strip()) or line.startswith("[") for line in lines)
    for line in (item.rstrip() for item in source_lines(part)):
        stripped = line.strip()
        if not stripped or stripped in old_lines or stripped.startswith("#"):
            continue
        found = _RE.keyed.match(stripped)
        if found is None or found.end() == len(stripped):
            return ""
        matches = [index for index, key in enumerate(keys) if key == found.group(1)]
        if len(matches) == 1:
            current = lines[matches[0]].rstrip("\n")
            indentation = current[: len(current) - len(current.lstrip())]
            comment = _RE.comment.search(current)
            suffix = comment.group(0) if comment and "#" not in stripped else ""
            lines[matches[0]] = f"{indentation}{stripped}{suffix}\n"
        elif not matches and is_flat and line == stripped:
            lines.append(stripped + "\n")
        else:
            return ""
    return "".join(lines)


# --- documents, pages, other code ---


def _merge_document(name: str, old: str, body: str, allowed: AllowedRemovals) -> FileMerge:
    lines = source_lines(body)
    found = _outside_code(lines, omission_lines(body, old, headings=True))
    if found:
        marked = "".join(OMISSION if index in found else line for index, line in enumerate(lines))
        text = with_sections(old, marked)
        return FileMerge(text) if text is not None else _reject_omission(name, lines[found[0]].strip())
    if allowed.allows_restructuring and not is_document_part(old, body):
        return FileMerge(body)
    if is_document_part(old, body):
        missing = lost_headings(old, body, allowed)
        text = with_sections(old, body)
        if text is not None and (missing or not allowed.allows_removal):
            return FileMerge(text)
    missing = lost_headings(old, body, allowed)
    if missing:
        return FileMerge(body, doubt=_require_whole_file(name, missing).problem)
    return _with_doubt(name, old, body, allowed)


def _outside_code(lines: list[str], found: list[int]) -> list[int]:
    """Return the lines that are not in fenced code."""
    fences = [index for index, line in enumerate(lines) if line.lstrip().startswith(("```", "~~~"))]
    return [index for index in found if sum(item < index for item in fences) % 2 == 0]


def _merge_other(name: str, old: str, body: str, allowed: AllowedRemovals) -> FileMerge:
    lower = name.lower()
    if lower.endswith(_MARKUP_FILES):
        old_definition = {item.lower() for item in _RE.skeleton.findall(old)}
        removed = sorted(old_definition - {item.lower() for item in _RE.skeleton.findall(body)})
        if "html" in removed or "svg" in removed or "body" in removed or allowed.unpermitted(removed):
            return _require_whole_file(name, [f"<{item}>" for item in removed])
        return _with_doubt(name, old, body, allowed)
    names = _selectors if lower.endswith((".css", ".scss", ".less")) else _RE.defines.findall
    old_names, new_names = names(old), names(body)
    removed = allowed.unpermitted(
        [item for item in dict.fromkeys(old_names) if item not in new_names],
        [item for item in new_names if item not in old_names],
    )
    return _require_whole_file(name, removed) if removed else _with_doubt(name, old, body, allowed)


def _selectors(text: str) -> list[str]:
    """Return the selectors of a style sheet's rules, one by one."""
    return [" ".join(item.split()) for rule in _RE.selector.findall(text) for item in rule.split(",") if item.strip()]
