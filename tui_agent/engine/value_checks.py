"""Values of settings files that changed and were not meant: the same key in another section than the request names."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from tui_agent.engine.name_checks import prose

DATA = (".json", ".toml", ".ini", ".cfg", ".yaml", ".yml")
_CLAUSES = re.compile(
    r"[.;!?]\s+|\n+|,?\s+(?:but|while|whereas)\s+|,\s+(?:and\s+)?(?=(?:leave|keep|not|the)\b)", re.IGNORECASE
)
_STAYING = re.compile(
    r"\b(?:stays?|staying|remains?|keeps?|leave|unchanged|untouched|not|don't|never|without|alone|other than)\b",
    re.IGNORECASE,
)
_REST = re.compile(
    r"\b(?:everything|anything|nothing|all) else\b|\bthe rest\b|\bother (?:values?|settings?|keys?|entries|lines)\b",
    re.IGNORECASE,
)
Path = tuple[str, ...]


def wrong_sections(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> list[str]:
    """A sentence for each value that changed although the request names another section that has the same key.

    `before`, `changed`: path → content. Files that can't be parsed are passed over.
    """
    clauses = [one for one in _CLAUSES.split(prose(request)) if one]
    doing = " ".join(one for one in clauses if not _STAYING.search(one))
    found = []
    for name, text in changed.items():
        if name.endswith(DATA) and name in before:
            old, new = values(name, before[name]), values(name, text)
            found += [
                f"{name}: {'.'.join(path)} must stay {json.dumps(old[path], default=str)}"
                for path in old
                if path in new and old[path] != new[path] and _is_elsewhere(path, old, doing)
            ]
    return found


def unnamed_values(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> list[str]:
    """A sentence for each value that changed or went where everything but what the request names is to stay."""
    text = prose(request)
    found = []
    for name, content in changed.items() if _REST.search(text) else ():
        if name.endswith(DATA) and name in before:
            old, new = values(name, before[name]), values(name, content)
            for path, was in old.items() if new else ():
                now = new.get(path)
                if now == was or any(part.isdigit() for part in path):
                    continue  # what stands in a list may have moved
                if any(
                    _speaks_of(text, word) for part in (*path, str(now)) for word in (part, *_words(part))
                ):
                    continue
                found.append(
                    f"{name}: {'.'.join(path)} was {json.dumps(was, default=str)}, and is not to change"
                )
    return found


def _is_elsewhere(path: Path, values: Mapping[Path, Any], doing: str) -> bool:
    """Whether the words name a section with the same key as this one's, and not this one's."""
    same = [other for other in values if other[-1] == path[-1] and other != path]
    own = {part for part in path[:-1] if _speaks_of(doing, part)}
    named = [
        other for other in same if any(_speaks_of(doing, part) for part in other[:-1] if part not in path)
    ]
    return bool(named) and not own - {part for other in named for part in other}


def _words(key: str) -> list[str]:
    return [one for one in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", key) if len(one) > 2]


def _speaks_of(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def values(name: str, text: str) -> dict[Path, Any]:
    """The single values of a settings file by their keys from the top; empty where it can't be read."""
    try:
        if name.endswith(".json"):
            read: Any = json.loads(text)
        elif name.endswith(".toml"):
            read = tomllib.loads(text)
        elif name.endswith((".ini", ".cfg")):
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            parser.read_string(text)
            read = {section: dict(parser[section]) for section in parser.sections()}
        else:
            import yaml

            read = yaml.safe_load(text)
    except (ValueError, RecursionError, configparser.Error):
        return {}
    except Exception as error:  # yaml's own
        if type(error).__module__.startswith("yaml"):
            return {}
        raise
    return dict(_leaves(read, ()))


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if inner is None or len(path) > 50:
        yield path, value
        return
    for key, each in inner:
        yield from _leaves(each, (*path, str(key)))
