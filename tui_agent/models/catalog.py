"""models.json: what the user says of each model, and which model does what (M5). Read, checked, made on first run."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue, ModelInfo
from tui_agent.common.tables import read_table
from tui_agent.platform.file_faults import FileChangedError
from tui_agent.platform.files import replace_file
from tui_agent.settings.tree import SettingsProblem, Tree, parse_json_tree, printable, read_json_tree

FIRST_FILE = Path(__file__).with_name("first_models.json")
"""The models that a new file holds, beside those of the server."""
FIRST_WINDOW = 32_768
"""Tokens that a new file asks of a model at the most. Of one that has more it says nothing: a larger window takes
memory that may not be there, and the server may have it loaded with another one."""
ROOMY = 36.0
"""Thousand millions of parameters: larger models need more memory than most desks have, so that they are taken last."""
_EMBEDDING = ("embed", "rerank", "bge-", "minilm")
"""In names of models that can't answer, where the server does not say what they can."""
LISTED = 100
"""Models of a server that a new file takes in at most."""

Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=1_024, le=10_000_000)]
Level: TypeAlias = Literal["low", "medium", "high", "max"]
Strategy: TypeAlias = Literal["native", "json", "xml", "files"]
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


class ModelOptions(FrozenValue, frozen=True, kw_only=True, omit_defaults=True):
    """What requests to a model say; None leaves it to settings and role. Names are Ollama's own."""

    num_ctx: Tokens | None = None
    """How much of the window is asked for; without it, all of `contextWindow`."""
    num_predict: Annotated[int, msgspec.Meta(ge=64, le=1_000_000)] | None = None
    """Tokens of one reply at most."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    think: bool | Level | None = None
    keep_alive: Annotated[str, msgspec.Meta(pattern=r"^(-1|0|\d+(ms|s|m|h))$")] | int | None = None
    strategy: Strategy | None = None
    """How the model is asked for changes; without it, as was measured, else as it is able to (E4, C1 to C3)."""


class Calibration(FrozenValue, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What `tui-agent reliability` measured of a model (E4). An empty one says nothing."""

    strategy: Strategy | None = None
    """The one to begin with."""
    date: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")] = ""
    tokens_per_second: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """As the model writes."""
    cached_share: Share | None = None
    """Of the prompts, what the server still had."""
    scores: dict[str, Share] = msgspec.field(default_factory=dict)
    """Strategy → share of the tasks that came out right."""


class ModelEntry(FrozenValue, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One model, as the user knows it. An empty one says nothing."""

    display_name: str = ""
    provider: str = ""
    """Who serves it; for the reader of the file. A model is found by its name."""
    capabilities: tuple[str, ...] = ()
    """What it is good at, in the user's words; what it is able to is asked of the server."""
    context_window: Tokens | None = None
    recommended_for: tuple[str, ...] = ()
    prompt: str = ""
    """Stands after the agent's rules (H1)."""
    options: ModelOptions = ModelOptions()
    calibration: Calibration = Calibration()

    @property
    def window(self) -> int | None:
        """Tokens to ask for; None leaves it to the settings."""
        return self.options.num_ctx or self.context_window


class SelectionRules(FrozenValue, frozen=True, kw_only=True, rename="camel"):
    """Which model does what. A model that the server does not have is never used."""

    default: str = ""
    by_task_type: dict[str, str] = msgspec.field(default_factory=dict)
    by_stage: dict[str, str] = msgspec.field(default_factory=dict)


class Catalog(FrozenValue, frozen=True, kw_only=True):
    """All of models.json."""

    models: dict[str, ModelEntry] = msgspec.field(default_factory=dict)
    rules: SelectionRules = SelectionRules()

    def entry(self, name: str) -> ModelEntry:
        """What is said of the model `name`, with or without the tag `latest`; an empty entry when nothing is."""
        found = self.models.get(name)
        if found is None:
            found = next((entry for key, entry in self.models.items() if same_model(key, name)), None)
        return found or ModelEntry()

    def label(self, name: str) -> str:
        """The name for people."""
        return self.entry(name).display_name or name


class CatalogRead(FrozenValue, frozen=True, kw_only=True):
    """A reading of the file. `catalog` is None when there is none, or when it can't be used as it is."""

    catalog: Catalog | None = None
    problems: tuple[SettingsProblem, ...] = ()
    """`ignored` ones are told and harmless: the rest of the file counts."""

    @property
    def missing(self) -> bool:
        """There is no such file."""
        return self.catalog is None and not self.problems


def same_model(one: str, other: str) -> bool:
    """True when two names mean one model: the tag `latest` may be left out."""
    return _full(one) == _full(other)


def served_name(name: str, served: Collection[str]) -> str:
    """The name under which the server has the model `name`; empty when it has none."""
    if name in served:
        return name
    return next((other for other in served if same_model(name, other)), "") if name else ""


def _full(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


# --- reading --------------------------------------------------------------------------------


def read_catalog(path: Path) -> CatalogRead:
    """The catalogue in the file at `path`. Blocks for a moment; never raises."""
    return _checked(*read_json_tree(path))


def parse_catalog(text: str, name: str = "models.json") -> CatalogRead:
    """The catalogue in `text`, which stands in the file `name`."""
    return _checked(*parse_json_tree(name, text))


def built_in_catalog() -> Catalog:
    """What holds where there is no file."""
    return parse_catalog(FIRST_FILE.read_text(encoding="utf-8")).catalog or Catalog()


def _checked(tree: Tree | None, problems: list[SettingsProblem]) -> CatalogRead:
    if tree is None:
        return CatalogRead(problems=tuple(problems))
    check = _Check(tree)
    catalog = check.catalog()
    found = (*problems, *check.problems)
    bad = any(not problem.ignored for problem in found)
    return CatalogRead(catalog=None if bad else catalog, problems=found)


def _words(table: Literal["expected", "elsewhere"]) -> dict[str, str]:
    """What each field must be; or a name that people take, in small letters → where it stands."""
    words: dict[str, str] = read_table(__file__, "catalog_words.json")[table]
    return words


class _Check:
    """Turns a tree into a catalogue, and names all that is wrong by line and field."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.problems: list[SettingsProblem] = []

    def catalog(self) -> Catalog:
        values = self._tree.values
        self._strangers(values, (), ("models", "selectionRules"))
        if "models" not in values:
            self._wrong((), 'has no "models": the object that holds an entry for each model, by its name', line=1)
        models = {
            name: self._struct(ModelEntry, entry, ("models", name))
            for name, entry in self._object(values.get("models", {}), ("models",)).items()
        }
        rules = self._struct(SelectionRules, values.get("selectionRules", {}), ("selectionRules",))
        return Catalog(models=models, rules=rules)

    def _struct(self, kind: Any, value: Any, where: tuple[str, ...]) -> Any:
        """`value` as a `kind`, field by field, so that each mistake has its own place."""
        given = self._object(value, where)
        if kind is ModelOptions and "protocol" in given:  # its former name
            given = {"strategy": given["protocol"]} | {name: one for name, one in given.items() if name != "protocol"}
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        self._strangers(given, where, tuple(fields))
        taken: dict[str, Any] = {}
        for name, field in fields.items():
            if name not in given or given[name] is None:
                continue
            here = (*where, name)
            if field.type in (ModelOptions, Calibration):
                taken[field.name] = self._struct(field.type, given[name], here)
                continue
            try:
                taken[field.name] = msgspec.convert(given[name], field.type, strict=True)
            except msgspec.ValidationError:
                self._wrong(here, f"must be {_words('expected')[field.name]}, not {_shown(given[name])}")
        return kind(**taken)

    def _object(self, value: Any, where: tuple[str, ...]) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self._wrong(where, f"must be an object in braces, not {_shown(value)}")
        return {}

    def _strangers(self, given: Iterable[str], where: tuple[str, ...], known: tuple[str, ...]) -> None:
        for name in given:
            if name in known or name.startswith(("_", "$", "//")):
                continue
            near = _words("elsewhere").get(name.lower(), "") if len(where) == 2 else ""
            plain = {one.lower(): one for one in known}
            close = difflib.get_close_matches(name.replace("_", "").lower(), plain, n=1, cutoff=0.6)
            near = near or (plain[close[0]] if close else "")
            hint = f'; did you mean "{near}"?' if near else ""
            self._wrong((*where, name), f"is not a known field{hint}", ignored=True)

    def _wrong(self, where: tuple[str, ...], message: str, *, ignored: bool = False, line: int | None = None) -> None:
        self.problems.append(
            SettingsProblem(
                file=self._tree.file,
                line=line or self._tree.line(where),
                field=printable(".".join(where), 120),
                message=message,
                ignored=ignored,
            )
        )


def _shown(given: Any) -> str:
    if given is None:
        return "null"
    if isinstance(given, list | dict):
        return "a list" if isinstance(given, list) else "an object"
    return printable(json.dumps(given, ensure_ascii=False), 40)


# --- making the first one -------------------------------------------------------------------


def first_text(served: Iterable[ModelInfo], provider: str = "ollama") -> str:
    """A new models.json: the models that come with the program and those of the server.

    Of the server's models the default is the one that comes with the program, else the best (see `best_of`).
    """
    whole: dict[str, Any] = json.loads(FIRST_FILE.read_text(encoding="utf-8"))
    models: dict[str, Any] = whole["models"]
    infos = list(served)
    for info in infos[:LISTED]:
        if not served_name(info.name, models):
            models[info.name] = _first_entry(info, provider)
    rules = whole["selectionRules"]
    rules["default"] = best_model(infos, rules["default"]) or rules["default"]
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def best_model(served: Sequence[ModelInfo], wanted: str = "") -> str:
    """The model to take of those that a server has: the wanted one, else the one that is fit best to work with, by what
    the server says of it. Empty where none of them can answer."""
    able = [info for info in served if can_answer(info)]
    if found := served_name(wanted, [info.name for info in able]):
        return found
    return max(able, key=_fitness).name if able else ""


def can_answer(info: ModelInfo) -> bool:
    """False for a model that only makes embeddings, as the server says, or else its name."""
    if info.capabilities:
        return "completion" in info.capabilities or "embedding" not in info.capabilities
    return not any(word in info.name.lower() for word in _EMBEDDING)


def _fitness(info: ModelInfo) -> tuple[bool, bool, bool, float]:
    """A model that is loaded first; then calls of tools, a name that says code, and size, as long as a desk has it."""
    able = info.capabilities is None or "tools" in info.capabilities
    size = info.parameters or 0.0
    fits = size if size <= ROOMY else 1 / size
    return bool(info.loaded_window), able, "code" in info.name.lower(), fits


def _first_entry(info: ModelInfo, provider: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"displayName": info.name, "provider": provider}
    if info.capabilities is not None:
        entry["capabilities"] = list(info.capabilities)
    window = info.context_window
    asked = provider != "openai"
    if not asked and info.loaded_window in (None, window):
        window = None  # not known, or as the server was started today, which says nothing of its next start
    if window is not None and 1_024 <= window <= (FIRST_WINDOW if asked else 10_000_000):
        entry["contextWindow"] = window
    return entry


def create_models_file(path: Path, served: Iterable[ModelInfo] = (), provider: str = "ollama") -> bool:
    """Write a new file at `path`; False when there is one already, which is left as it is, whatever it says.

    Blocks for a moment. Raises FileFault or OSError when nothing can be written there.
    """
    paths.ensure_private_dir(path.parent)
    try:
        replace_file(path, first_text(served, provider).encode(), None, mode=0o600)
    except FileChangedError:
        return False
    return True
