"""models.json: what the user says of each model, and which model does what (M5). Read, checked, made on first run."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from tui_agent import paths
from tui_agent.domain import ModelInfo, Noun
from tui_agent.platform.files import FileChangedError, replace_file
from tui_agent.settings.json_tree import parse_json_tree, read_json_tree
from tui_agent.settings.yaml_tree import SettingsProblem, Tree, printable

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


class ModelOptions(Noun, frozen=True, kw_only=True, omit_defaults=True):
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


class Calibration(Noun, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
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


class ModelEntry(Noun, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
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


class SelectionRules(Noun, frozen=True, kw_only=True, rename="camel"):
    """Which model does what. A model that the server does not have is never used."""

    default: str = ""
    by_task_type: dict[str, str] = msgspec.field(default_factory=dict)
    by_stage: dict[str, str] = msgspec.field(default_factory=dict)


class Catalog(Noun, frozen=True, kw_only=True):
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


class CatalogRead(Noun, frozen=True, kw_only=True):
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


def read(path: Path) -> CatalogRead:
    """The catalogue in the file at `path`. Blocks for a moment; never raises."""
    return _checked(*read_json_tree(path))


def parse(text: str, name: str = "models.json") -> CatalogRead:
    """The catalogue in `text`, which stands in the file `name`."""
    return _checked(*parse_json_tree(name, text))


def built_in() -> Catalog:
    """What holds where there is no file."""
    return parse(FIRST_FILE.read_text(encoding="utf-8")).catalog or Catalog()


def _checked(tree: Tree | None, problems: list[SettingsProblem]) -> CatalogRead:
    if tree is None:
        return CatalogRead(problems=tuple(problems))
    check = _Check(tree)
    catalog = check.catalog()
    found = (*problems, *check.problems)
    bad = any(not problem.ignored for problem in found)
    return CatalogRead(catalog=None if bad else catalog, problems=found)


_WORDS = {
    "display_name": "a text",
    "provider": "a text",
    "prompt": "a text",
    "capabilities": "a list of words",
    "recommended_for": "a list of words",
    "context_window": "a whole number of tokens from 1,024 to 10,000,000",
    "num_ctx": "a whole number of tokens from 1,024 to 10,000,000",
    "num_predict": "a whole number of tokens from 64 to 1,000,000",
    "temperature": "a number from 0 to 2",
    "think": "true, false, or one of low, medium, high, max",
    "keep_alive": 'a time such as "30m", or -1 for ever, or 0',
    "strategy": "native, json, xml or files",
    "date": 'a day such as "2026-01-31"',
    "tokens_per_second": "a number from 0 on",
    "cached_share": "a number from 0 to 1",
    "scores": "an object of strategy and a number from 0 to 1",
    "default": "the name of a model",
    "by_task_type": "an object of task type and model",
    "by_stage": "an object of stage and model",
}
_ELSEWHERE = {
    "numctx": "options.num_ctx",
    "num_ctx": "options.num_ctx",
    "contextlength": "contextWindow",
    "context_length": "contextWindow",
    "maxtokens": "options.num_predict",
    "max_tokens": "options.num_predict",
    "system": "prompt",
    "systemprompt": "prompt",
}


class _Check:
    """Turns a tree into a catalogue, and names all that is wrong by line and field."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.problems: list[SettingsProblem] = []

    def catalog(self) -> Catalog:
        values = self._tree.values
        self._strangers(values, (), ("models", "selectionRules"))
        if "models" not in values:
            self._wrong(
                (), 'has no "models": the object that holds an entry for each model, by its name', line=1
            )
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
            given = {"strategy": given["protocol"]} | {
                name: one for name, one in given.items() if name != "protocol"
            }
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
                self._wrong(here, f"must be {_WORDS[field.name]}, not {_shown(given[name])}")
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
            near = _ELSEWHERE.get(name.lower(), "") if len(where) == 2 else ""
            plain = {one.lower(): one for one in known}
            close = difflib.get_close_matches(name.replace("_", "").lower(), plain, n=1, cutoff=0.6)
            near = near or (plain[close[0]] if close else "")
            hint = f'; did you mean "{near}"?' if near else ""
            self._wrong((*where, name), f"is no field that counts{hint}", ignored=True)

    def _wrong(
        self, where: tuple[str, ...], message: str, *, ignored: bool = False, line: int | None = None
    ) -> None:
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
    rules["default"] = best_of(infos, rules["default"]) or rules["default"]
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def best_of(served: Sequence[ModelInfo], wanted: str = "") -> str:
    """The model to take of those that a server has: the wanted one, else the one that is fit best to work with, by what
    the server says of it. Empty where none of them can answer."""
    able = [info for info in served if answers(info)]
    if found := served_name(wanted, [info.name for info in able]):
        return found
    return max(able, key=_fitness).name if able else ""


def answers(info: ModelInfo) -> bool:
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


def create(path: Path, served: Iterable[ModelInfo] = (), provider: str = "ollama") -> bool:
    """Write a new file at `path`; False when there is one already, which is left as it is, whatever it says.

    Blocks for a moment. Raises FileFault or OSError when nothing can be written there.
    """
    paths.ensure_private_dir(path.parent)
    try:
        replace_file(path, first_text(served, provider).encode(), None, mode=0o600)
    except FileChangedError:
        return False
    return True
