"""Merge what a reply shows of a file into its current content (E4)."""

from __future__ import annotations

import ast
import difflib
from typing import Any

import msgspec

from tui_agent.protocols.data_files import UnreadableData, parse_data
from tui_agent.protocols.json_parts import is_inner, load_json, load_partial_object, merge_values, missing_keys, shrinks
from tui_agent.protocols.python_source import PASSIVE, Definition, dump_tree, merge_definitions, parse_module
from tui_agent.protocols.removals import AllowedRemovals, omission_lines
from tui_agent.protocols.source_lines import adopt_ends, content_lines, normalize_ends, removed_share, source_lines
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "parts")

_REMOVED_SHARE = 0.4
"""Share of missing lines above which a shorter version may be partial."""
_SHORT_SHARE = 0.6
"""Share of the line count above which a text is a new version."""
_MAX_BRACKETS = 5_000
"""Maximum number of opening brackets in a settings file that is parsed."""
_MAX_KEY_DEPTH = 20
_SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".env", ".properties", ".conf")
_MARKUP = (".html", ".htm", ".xhtml", ".svg", ".xml", ".vue", ".svelte")


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
    merged = _Merger(name, old_text, new_text, allowed, closed).merge()
    return merged if merged.problem else msgspec.structs.replace(merged, text=adopt_ends(old, merged.text))


class _Merger:
    """Merges one file, in the manner of its type."""

    def __init__(self, name: str, old: str, body: str, allowed: AllowedRemovals, closed: bool) -> None:
        self._name = name
        self._old = old
        self._body = body
        self._allowed = allowed
        self._closed = closed
        self._lines = source_lines(body)
        self._omissions = omission_lines(body, old)
        """Numbers of the lines that stand for omitted ones."""

    def merge(self) -> FileMerge:
        name = self._name.lower()
        if name.endswith((".py", ".pyi")):
            return self._merge_python()
        if not self._closed and self._is_truncated():
            return self._require_whole_file()
        if name.endswith(".json"):
            return self._merge_json()
        if name.endswith((".md", ".markdown")):
            return self._merge_document()
        if name.endswith(_SETTINGS):
            return self._merge_settings()
        if self._omissions:
            return self._reject_omission(self._omissions)
        return self._check_elements() if name.endswith(_MARKUP) else self._check_names()

    def _require_whole_file(self, removed: list[str] | None = None) -> FileMerge:
        missing = f" Missing: {', '.join(f'“{item}”' for item in removed[:4])}." if removed else ""
        return FileMerge(problem=f"{self._name}: show the whole file, with everything that stays.{missing}")

    def _reject_omission(self, omissions: list[int]) -> FileMerge:
        line = self._lines[omissions[0]].strip()
        return FileMerge(problem=f"{self._name}: show the whole file, every line of it, and not “{line[:60]}”.")

    def _accept(self, text: str) -> FileMerge:
        """Return the new content, with a doubt if it lacks most of the old lines although the request removes
        nothing."""
        shorter = len(content_lines(text)) < _SHORT_SHARE * len(content_lines(self._old))
        if shorter and not self._allowed.allows_removal and removed_share(self._old, text) > _REMOVED_SHARE:
            return FileMerge(text, doubt=self._require_whole_file().problem)
        return FileMerge(text)

    def _without_lines(self, numbers: list[int]) -> str:
        return "".join(line for number, line in enumerate(self._lines) if number not in numbers)

    def _is_truncated(self) -> bool:
        """Whether a block without an end stops before the end of the file."""
        old_lines, new_lines = content_lines(self._old), content_lines(self._body)
        last = old_lines[-1]
        return (
            len(new_lines) < len(old_lines)
            and new_lines[-1:] != [last]
            and new_lines.count(last) < old_lines.count(last)
        )

    # --- Python ---

    def _merge_python(self) -> FileMerge:
        old, body, removable = self._old, self._body, self._allowed.removable
        old_tree, new_tree = parse_module(old), parse_module(body)
        if not self._closed and old_tree and new_tree and _ends_early(old, body, old_tree, new_tree):
            return self._require_whole_file()
        omissions = self._python_omissions(new_tree)
        if not omissions:
            text = merge_definitions(old, body, removable)
            loses = text == body and old_tree and new_tree and _loses_statements(old_tree, new_tree)
            return self._accept(text) if loses else FileMerge(text)
        part = self._without_lines(omissions)
        tree = parse_module(part)
        if tree is None:
            part, tree = body, new_tree
        if (
            old_tree is None
            or tree is None
            or not any(isinstance(node, Definition) for node in tree.body)
            or any(_is_in_function(self._lines, number) for number in omissions)
        ):
            return self._reject_omission(omissions)
        old_dumps = {dump_tree(node) for node in old_tree.body}
        if any(not isinstance(node, PASSIVE | ast.If) and dump_tree(node) not in old_dumps for node in tree.body):
            return self._reject_omission(omissions)
        return FileMerge(merge_definitions(old, part, removable, partial=True))

    def _python_omissions(self, tree: ast.Module | None) -> list[int]:
        """Return the numbers of omission lines; three dots count only in addition to other statements."""
        ignored: set[int] = set()
        for node in ast.walk(tree) if tree and self._omissions else ():
            match getattr(node, "body", None):
                case [ast.Expr(lineno=line)] if not isinstance(node, ast.Module):
                    ignored.add(line - 1)
            if isinstance(node, ast.Constant | ast.JoinedStr) and (node.end_lineno or 0) > node.lineno:
                ignored |= set(range(node.lineno - 1, node.end_lineno or 0))
        return [number for number in self._omissions if number not in ignored]

    # --- JSON, and files of keys and values ---

    def _merge_json(self) -> FileMerge:
        old_value, omissions = load_json(self._old), self._omissions
        is_object = isinstance(load_json(self._body), dict)
        part = self._body if is_object else load_partial_object(self._without_lines(omissions))
        new = load_json(part or self._body)
        if not isinstance(old_value, dict) or not isinstance(new, dict):
            is_part = isinstance(old_value, dict | list) and not isinstance(new, type(old_value)) and new is not ...
            return self._require_whole_file() if omissions or is_part else self._accept(self._body)
        if omissions and shrinks(old_value, new):
            return self._reject_omission(omissions)
        missing = missing_keys(old_value, new)
        if not omissions and (not missing or self._allowed.allows_rewrite):
            return FileMerge(part)
        unpermitted = missing
        if not is_inner(old_value, new):
            unpermitted = self._allowed.unpermitted(missing, new.keys() - old_value.keys())
            if not unpermitted and not omissions:
                return FileMerge(part)
        text = merge_values(self._old, part, self._allowed) if len(unpermitted) == len(missing) else ""
        return FileMerge(text) if text else self._require_whole_file(unpermitted)

    def _merge_settings(self) -> FileMerge:
        part = self._without_lines(self._omissions)
        old_keys, new_keys = self._settings_keys(self._old) or [], self._settings_keys(part)
        if new_keys is None:
            return self._reject_omission(self._omissions) if self._omissions else FileMerge(self._body)
        missing = dict.fromkeys(key.rpartition("\0")[2] for key in old_keys if key not in new_keys)
        added = [key.rpartition("\0")[2] for key in new_keys if key not in old_keys]
        unpermitted = self._allowed.unpermitted(missing, added)
        if not self._omissions and (not unpermitted or self._allowed.allows_rewrite):
            return self._accept(self._body)
        text = _replace_settings(self._old, part) if len(unpermitted) == len(missing) else ""
        merged_keys = self._settings_keys(text) if text else None
        if merged_keys is None or any(key not in merged_keys for key in old_keys):
            return self._require_whole_file(unpermitted)
        return FileMerge(text)

    def _settings_keys(self, text: str) -> list[str] | None:
        """Return the keys of a settings file, nested ones with their path; None if it can't be parsed."""
        if self._name.endswith((".yaml", ".yml", ".toml")):
            if text.count("[") + text.count("{") > _MAX_BRACKETS:
                return None
            try:
                value = parse_data(self._name, text)
            except UnreadableData:
                return None
            return _key_paths(value, "") if isinstance(value, dict) else [] if value is None else None
        section, keys = "", []
        for line in (line.strip() for line in source_lines(text)):
            if line.startswith("[") and line.endswith("]"):
                section = line
                keys.append(line)
            elif (match := _RE.key.match(line)) and line[:1] not in "#;":
                keys.append(f"{section}\0{match.group(1)}")
        return keys

    # --- documents, pages, other code ---

    def _merge_document(self) -> FileMerge:
        old, body, lines, allowed = self._old, self._body, self._lines, self._allowed
        fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(("```", "~~~"))]
        omissions = [
            number
            for number in omission_lines(body, old, headings=True)
            if sum(fence < number for fence in fences) % 2 == 0
        ]
        if omissions:
            marked = "".join(OMISSION if number in omissions else line for number, line in enumerate(lines))
            text = merge_sections(old, marked)
            return FileMerge(text) if text is not None else self._reject_omission(omissions)
        is_part = _is_document_part(old, body)
        if allowed.allows_restructuring and not is_part:
            return FileMerge(body)
        missing = _lost_headings(old, body, allowed)
        if is_part and (missing or not allowed.allows_removal):
            text = merge_sections(old, body)
            if text is not None:
                return FileMerge(text)
        return FileMerge(body, doubt=self._require_whole_file(missing).problem) if missing else self._accept(body)

    def _check_elements(self) -> FileMerge:
        """Accept a page unless it lacks elements that every page of its kind has."""
        old_elements, new_elements = (
            {element.lower() for element in _RE.element.findall(text)} for text in (self._old, self._body)
        )
        removed = sorted(old_elements - new_elements)
        if {"html", "svg", "body"} & set(removed) or self._allowed.unpermitted(removed):
            return self._require_whole_file([f"<{element}>" for element in removed])
        return self._accept(self._body)

    def _check_names(self) -> FileMerge:
        """Accept code unless it lacks definitions or selectors that the request doesn't remove."""
        is_style_sheet = self._name.lower().endswith((".css", ".scss", ".less"))
        find_names = _selectors if is_style_sheet else _RE.definition.findall
        old_names, new_names = find_names(self._old), find_names(self._body)
        removed = self._allowed.unpermitted(
            [name for name in dict.fromkeys(old_names) if name not in new_names],
            [name for name in new_names if name not in old_names],
        )
        return self._require_whole_file(removed) if removed else self._accept(self._body)


def _is_in_function(lines: list[str], number: int) -> bool:
    """Whether a line is in a function, by indentation, rather than in a class or at top level."""
    indentation = len(lines[number]) - len(lines[number].lstrip())
    for line in reversed(lines[:number]):
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or len(line) - len(line.lstrip()) >= indentation:
            continue
        if not stripped.startswith("class "):
            return True
        indentation = len(line) - len(line.lstrip())
    return False


def _ends_early(old: str, body: str, old_tree: ast.Module, new_tree: ast.Module) -> bool:
    """Whether the last definition of a block without an end is only the beginning of the file's one."""
    last = new_tree.body[-1] if new_tree.body else None
    if not isinstance(last, Definition) or isinstance(last.body[-1], ast.Return | ast.Raise):
        return False
    same_name = [node for node in old_tree.body if isinstance(node, Definition) and node.name == last.name]
    if not same_name:
        return False
    old_lines = source_lines(old)[same_name[-1].lineno - 1 : same_name[-1].end_lineno]
    new_lines = [line.strip() for line in source_lines(body)[last.lineno - 1 : last.end_lineno]]
    return len(new_lines) < len(old_lines) and old_lines[-1].strip() not in new_lines


def _loses_statements(old_tree: ast.Module, new_tree: ast.Module) -> bool:
    """Whether a program without definitions has far fewer statements than before."""
    if any(isinstance(node, Definition) for node in (*old_tree.body, *new_tree.body)):
        return False
    return len(old_tree.body) >= 4 and len(new_tree.body) < len(old_tree.body) / 2


def _key_paths(table: dict[Any, Any], prefix: str, depth: int = 0) -> list[str]:
    paths = []
    for key, value in table.items():
        path = f"{prefix}\0{key}" if prefix else str(key)
        paths.append(path)
        if isinstance(value, dict) and depth < _MAX_KEY_DEPTH:
            paths += _key_paths(value, path, depth + 1)
    return paths


def _replace_settings(old: str, part: str) -> str:
    """Return the file with the values of a part, each of whose keys it has exactly once, else an empty text. New keys
    are appended if the file has no sections."""
    lines = source_lines(old if old.endswith("\n") else old + "\n")
    old_lines = {line.strip() for line in lines}
    keys = [match.group(1) if (match := _RE.key.match(line.strip())) else "" for line in lines]
    is_flat = not any((line[:1].isspace() and line.strip()) or line.startswith("[") for line in lines)
    for line in (line.rstrip() for line in source_lines(part)):
        stripped = line.strip()
        if not stripped or stripped in old_lines or stripped.startswith("#"):
            continue
        match = _RE.key.match(stripped)
        if match is None or match.end() == len(stripped):
            return ""
        numbers = [number for number, key in enumerate(keys) if key == match.group(1)]
        if len(numbers) == 1:
            current = lines[numbers[0]].rstrip("\n")
            indentation = current[: len(current) - len(current.lstrip())]
            comment = _RE.comment.search(current)
            suffix = comment.group(0) if comment and "#" not in stripped else ""
            lines[numbers[0]] = f"{indentation}{stripped}{suffix}\n"
        elif not numbers and is_flat and line == stripped:
            lines.append(stripped + "\n")
        else:
            return ""
    return "".join(lines)


def _selectors(text: str) -> list[str]:
    """Return the selectors of a style sheet's rules, one by one."""
    return [" ".join(item.split()) for rule in _RE.selector.findall(text) for item in rule.split(",") if item.strip()]


# --- sections of documents ---

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
    sections: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in source_lines(text):
        mark = _RE.fence.match(line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and mark.group(1).startswith(fence) and not line.strip(" \t\r\n`~"):
            fence = ""
        if not fence and _RE.heading.match(line):
            sections.append((line.strip(), []))
        sections[-1][1].append(line)
    return [DocumentSection(title, "".join(lines)) for title, lines in sections if title or "".join(lines).strip()]


def _lost_headings(old: str, new: str, allowed: AllowedRemovals) -> list[str]:
    """Return headings that a new version removes without a replacement or the request's permission."""
    old_titles, new_titles = ([section.title for section in document_sections(text)] for text in (old, new))
    added = [title for title in new_titles if title not in old_titles]
    missing = [title for title in old_titles if title and title not in new_titles]
    return [
        title
        for title in allowed.unpermitted(missing, added)
        if not difflib.get_close_matches(title, added, n=1, cutoff=_RENAMED_SIMILARITY)
    ]


def merge_sections(old: str, part: str) -> str | None:
    """Return the document with the sections of `part` replaced or added; None if `part` has none, or if it is unclear
    what remains of a section."""
    old_sections, new_sections = document_sections(old), document_sections(part)
    originals = {section.title: section.text for section in old_sections}
    new_titles = {section.title for section in new_sections}
    has_duplicates = len(originals) < len(old_sections) or len(new_titles) < len(new_sections)
    if new_sections and not new_sections[0].title and not new_sections[0].text.replace(OMISSION, "").strip():
        new_sections = new_sections[1:]
    if has_duplicates or not any(originals) or not new_sections or not new_sections[0].title:
        return None
    merged, order = dict(originals), list(originals)
    previous = ""
    for section in new_sections:
        title = section.title
        text = _merge_section(originals.get(title), section, is_last=section is new_sections[-1])
        if text is None:
            return None
        if title not in originals:
            order.insert(_insertion_index(order, previous, title) if previous else len(order), title)
        merged[title] = text
        previous = title
    return _join_sections([(merged[title], originals.get(title)) for title in order])


def _insertion_index(order: list[str], previous: str, title: str) -> int:
    """Return where a new section goes: after the one that precedes it in the part, including its subsections."""
    index = order.index(previous) + 1
    level = min(_level(previous), _level(title))
    while index < len(order) and _level(order[index]) > level:
        index += 1
    return index


def _level(title: str) -> int:
    return len(title) - len(title.lstrip("#"))


def _join_sections(sections: list[tuple[str, str | None]]) -> str:
    """Join (new, old) sections: unchanged ones keep their trailing blank lines, others get one."""
    text = ""
    for new, old in sections:
        if old is None:
            text = (text.rstrip() + "\n\n" if text else "") + new.rstrip() + "\n\n"
        else:
            text += new if new == old else new.rstrip() + old[len(old.rstrip()) :]
    return text.rstrip() + "\n"


def _is_document_part(old: str, part: str) -> bool:
    """Whether a document is partial: it begins below the title, or has no text under the title."""
    old_sections, new_sections = document_sections(old), document_sections(part)
    if not old_sections or not new_sections or not new_sections[0].title:
        return False
    first_old, first_new = old_sections[0], new_sections[0]
    if first_new.title == first_old.title:
        return bool(first_old.body.strip()) and not first_new.body.strip() and len(new_sections) > 1
    return first_new.title.startswith("##")


def _merge_section(old: str | None, new: DocumentSection, *, is_last: bool) -> str | None:
    """Return a section's new text as shown by `new`; None if it is unclear what remains."""
    above, marker, below = new.body.partition(OMISSION)
    if not marker:
        return old if old is not None and not new.body.strip() else new.text
    if old is None:
        heading = new.text[: len(new.text) - len(new.body)]
        return heading + above if is_last and not below.strip() else None
    if OMISSION in below or (above.strip() and below.strip()):
        return None
    old_lines = content_lines(old.partition("\n")[2])
    if above.strip():
        return old if all(line in old_lines for line in content_lines(above)) else None
    if all(line in old_lines for line in content_lines(below)):
        return old
    return old.rstrip() + "\n\n" + below.strip("\n") + "\n"
