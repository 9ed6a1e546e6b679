"""Parse data files by their suffix: JSON, TOML, YAML, INI."""

from __future__ import annotations

import json
import tomllib
from typing import Any


class UnreadableData(ValueError):
    """A file is not valid for its suffix; the message is the parser's."""


def parse_data(name: str, text: str) -> Any:
    """Parse the file `name`; .ini and .cfg give a dict of sections. Raises UnreadableData."""
    try:
        if name.endswith(".json"):
            return json.loads(text)
        if name.endswith(".toml"):
            return tomllib.loads(text)
        if name.endswith((".ini", ".cfg")):
            return _parse_ini(text)
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UnreadableData(str(error)) from error
    except (ValueError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        raise UnreadableData(str(error)) from error


def yaml_error(text: str) -> str:
    """Return why a text is not valid YAML; empty if it is. Custom tags are accepted."""
    import yaml

    try:
        for _ in yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as error:
        return str(error)
    return ""


def _parse_ini(text: str) -> dict[str, dict[str, str]]:
    import configparser

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
        return {section: dict(parser[section]) for section in parser.sections()}
    except configparser.Error as error:
        raise UnreadableData(str(error)) from error
