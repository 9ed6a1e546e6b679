"""models.json: the user's description of each model, and which model does what (M5). Parsing, validation, first
version."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue, ModelInfo
from tui_agent.common.suggestions import closest_name
from tui_agent.platform.file_faults import FileChangedError
from tui_agent.platform.files import replace_file
from tui_agent.settings.tree import SettingsProblem, SettingsTree, parse_json_tree, printable, read_json_tree
from tui_agent.text.patterns import read_table

BUILT_IN_FILE = Path(__file__).with_name("first_models.json")
"""The models that a new file lists in addition to those of the server."""
MAX_NEW_WINDOW = 32_768
"""Largest context window, in tokens, that a new file sets. For models with more it sets none: a larger window needs
memory that may not be there, and the server may have loaded the model with another one."""
LARGE_MODEL = 36.0
"""Billions of parameters; larger models need more memory than most machines have, so they are chosen last."""
_EMBEDDING_NAMES = ("embed", "rerank", "bge-", "minilm")
"""Parts of the names of models that can't chat, for servers that list no capabilities."""
MAX_LISTED = 100
"""Maximum number of the server's models in a new file."""

Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=1_024, le=10_000_000)]
Level: TypeAlias = Literal["low", "medium", "high", "max"]
Strategy: TypeAlias = Literal["native", "json", "xml", "files"]
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


class ModelOptions(FrozenValue, frozen=True, kw_only=True, omit_defaults=True):
    """Request options of a model; None: settings and role decide. Names are Ollama's own."""

    num_ctx: Tokens | None = None
    """Window to request; default: all of `contextWindow`."""
    num_predict: Annotated[int, msgspec.Meta(ge=64, le=1_000_000)] | None = None
    """Maximum tokens of one reply."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    think: bool | Level | None = None
    keep_alive: Annotated[str, msgspec.Meta(pattern=r"^(-1|0|\d+(ms|s|m|h))$")] | int | None = None
    strategy: Strategy | None = None
    """How the model is asked for its work; default: as calibrated, else by its capabilities (E4, C1 to C3)."""


class Calibration(FrozenValue, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Measurements of a model by `tui-agent reliability` (E4). All fields are optional."""

    strategy: Strategy | None = None
    """The strategy to start with."""
    date: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")] = ""
    tokens_per_second: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Generation speed."""
    cached_share: Share | None = None
    """Share of the prompt tokens that the server had cached."""
    scores: dict[str, Share] = msgspec.field(default_factory=dict)
    """Strategy → share of tasks solved."""


class ModelEntry(FrozenValue, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The user's description of a model. All fields are optional."""

    display_name: str = ""
    provider: str = ""
    """For the reader of the file only; a model is found by its name."""
    capabilities: tuple[str, ...] = ()
    """What it is good at, in the user's words; technical capabilities are queried from the server."""
    context_window: Tokens | None = None
    recommended_for: tuple[str, ...] = ()
    prompt: str = ""
    """Added to the prompt after the agent rules (H1)."""
    options: ModelOptions = ModelOptions()
    calibration: Calibration = Calibration()

    @property
    def window(self) -> int | None:
        """Window to request, in tokens; None: the settings decide."""
        return self.options.num_ctx or self.context_window


class SelectionRules(FrozenValue, frozen=True, kw_only=True, rename="camel"):
    """Which model does what. A model that the server doesn't have is never used."""

    default: str = ""
    by_task_type: dict[str, str] = msgspec.field(default_factory=dict)
    by_stage: dict[str, str] = msgspec.field(default_factory=dict)


class Catalog(FrozenValue, frozen=True, kw_only=True):
    models: dict[str, ModelEntry] = msgspec.field(default_factory=dict)
    rules: SelectionRules = SelectionRules()

    def entry(self, name: str) -> ModelEntry:
        """Return the entry of a model, with or without the tag `latest`; an empty one if it has none."""
        return self.models.get(served_name(name, self.models)) or ModelEntry()

    def label(self, name: str) -> str:
        """Return the display name."""
        return self.entry(name).display_name or name


class CatalogRead(FrozenValue, frozen=True, kw_only=True):
    """The parsed file. `catalog` is None if the file is missing or unusable."""

    catalog: Catalog | None = None
    problems: tuple[SettingsProblem, ...] = ()
    """Problems marked `ignored` are reported; the rest of the file is used."""

    @property
    def missing(self) -> bool:
        """Whether the file does not exist."""
        return self.catalog is None and not self.problems


def same_model(first: str, second: str) -> bool:
    """Whether two names mean the same model: the tag `latest` is optional."""
    return _full_name(first) == _full_name(second)


def served_name(name: str, served: Collection[str]) -> str:
    """Return the server's name for the model `name`; empty if the server doesn't have it."""
    if name in served:
        return name
    return next((second for second in served if same_model(name, second)), "") if name else ""


def _full_name(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


# --- reading --------------------------------------------------------------------------------


def read_catalog(path: Path) -> CatalogRead:
    """Read the catalog from a file. Blocks briefly; never raises."""
    return _validate(*read_json_tree(path))


def parse_catalog(text: str, name: str = "models.json") -> CatalogRead:
    """Parse the catalog in `text`; `name` is the file's name for messages."""
    return _validate(*parse_json_tree(name, text))


def built_in_catalog() -> Catalog:
    """Return the catalog that is used without a file."""
    return parse_catalog(BUILT_IN_FILE.read_text(encoding="utf-8")).catalog or Catalog()


def _validate(tree: SettingsTree | None, problems: list[SettingsProblem]) -> CatalogRead:
    if tree is None:
        return CatalogRead(problems=tuple(problems))
    validator = _Validator(tree)
    catalog = validator.catalog()
    all_problems = (*problems, *validator.problems)
    is_unusable = any(not problem.ignored for problem in all_problems)
    return CatalogRead(catalog=None if is_unusable else catalog, problems=all_problems)


def _table(table: Literal["expected", "elsewhere"]) -> dict[str, str]:
    """Return the expected values by field, or the right place of common wrong names (in lower case)."""
    entries: dict[str, str] = read_table(__package__, "catalog_words.json")[table]
    return entries


class _Validator:
    """Converts a tree into a catalog and collects all problems with line and field."""

    def __init__(self, tree: SettingsTree) -> None:
        self._tree = tree
        self.problems: list[SettingsProblem] = []

    def catalog(self) -> Catalog:
        values = self._tree.values
        self._check_unknown(values, (), ("models", "selectionRules"))
        if "models" not in values:
            self._add_problem((), 'has no "models": the object that holds an entry for each model, by its name', line=1)
        models = {
            name: self._struct(ModelEntry, entry, ("models", name))
            for name, entry in self._as_object(values.get("models", {}), ("models",)).items()
        }
        rules = self._struct(SelectionRules, values.get("selectionRules", {}), ("selectionRules",))
        return Catalog(models=models, rules=rules)

    def _struct(self, kind: Any, value: Any, path: tuple[str, ...]) -> Any:
        """Convert `value` to a `kind` field by field, so that every problem has its own location."""
        given = self._as_object(value, path)
        if kind is ModelOptions and "protocol" in given:  # former name of `strategy`
            given = {"strategy": given["protocol"]} | {key: item for key, item in given.items() if key != "protocol"}
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        self._check_unknown(given, path, tuple(fields))
        values: dict[str, Any] = {}
        for name, field in fields.items():
            item, field_path = given.get(name), (*path, name)
            if item is None:
                continue
            if field.type in (ModelOptions, Calibration):
                values[field.name] = self._struct(field.type, item, field_path)
                continue
            try:
                values[field.name] = msgspec.convert(item, field.type, strict=True)
            except msgspec.ValidationError:
                self._add_problem(field_path, f"must be {_table('expected')[field.name]}, not {_describe(item)}")
        return kind(**values)

    def _as_object(self, value: Any, path: tuple[str, ...]) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self._add_problem(path, f"must be an object in braces, not {_describe(value)}")
        return {}

    def _check_unknown(self, fields: Iterable[str], path: tuple[str, ...], known: tuple[str, ...]) -> None:
        for name in fields:
            if name in known or name.startswith(("_", "$", "//")):
                continue
            suggestion = _table("elsewhere").get(name.lower(), "") if len(path) == 2 else ""
            suggestion = suggestion or closest_name(name, known, 0.6)
            hint = f'; did you mean "{suggestion}"?' if suggestion else ""
            self._add_problem((*path, name), f"is not a known field{hint}", ignored=True)

    def _add_problem(
        self, path: tuple[str, ...], message: str, *, ignored: bool = False, line: int | None = None
    ) -> None:
        self.problems.append(
            SettingsProblem(
                file=self._tree.file,
                line=line or self._tree.line(path),
                field=printable(".".join(path), 120),
                message=message,
                ignored=ignored,
            )
        )


def _describe(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return printable(json.dumps(value, ensure_ascii=False), 40)


# --- making the first one -------------------------------------------------------------------


def new_catalog_text(served: Iterable[ModelInfo], provider: str = "ollama") -> str:
    """Return a new models.json with the built-in models and those of the server.

    The default is the built-in one if the server has it, else the server's best model (see `best_model`).
    """
    content: dict[str, Any] = json.loads(BUILT_IN_FILE.read_text(encoding="utf-8"))
    models: dict[str, Any] = content["models"]
    infos = list(served)
    for info in infos[:MAX_LISTED]:
        if not served_name(info.name, models):
            models[info.name] = _new_entry(info, provider)
    rules = content["selectionRules"]
    rules["default"] = best_model(infos, rules["default"]) or rules["default"]
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def best_model(served: Sequence[ModelInfo], preferred: str = "") -> str:
    """Return the preferred model if the server has it, else its best one by what the server reports; empty if none can
    chat."""
    usable = [info for info in served if can_answer(info)]
    if name := served_name(preferred, [info.name for info in usable]):
        return name
    return max(usable, key=_rank).name if usable else ""


def can_answer(info: ModelInfo) -> bool:
    """Whether a model can chat, by the server's capabilities or else by its name; embedding models can't."""
    if info.capabilities:
        return "completion" in info.capabilities or "embedding" not in info.capabilities
    return not any(word in info.name.lower() for word in _EMBEDDING_NAMES)


def _rank(info: ModelInfo) -> tuple[bool, bool, bool, float]:
    """Sort key: loaded models first, then tool calls, code models, and size up to LARGE_MODEL."""
    has_tools = info.capabilities is None or "tools" in info.capabilities
    size = info.parameters or 0.0
    size_rank = size if size <= LARGE_MODEL else 1 / size
    is_loaded = bool(info.loaded_window) and info.loaded is not False
    return is_loaded, has_tools, "code" in info.name.lower(), size_rank


def _new_entry(info: ModelInfo, provider: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"displayName": info.name, "provider": provider}
    if info.capabilities is not None:
        entry["capabilities"] = list(info.capabilities)
    window = info.context_window
    is_window_requested = provider != "openai"
    if not is_window_requested and info.loaded_window in (None, window):
        window = None  # unknown, or an option of the running server that may change with its next start
    if window is not None and 1_024 <= window <= (MAX_NEW_WINDOW if is_window_requested else 10_000_000):
        entry["contextWindow"] = window
    return entry


def create_models_file(path: Path, served: Iterable[ModelInfo] = (), provider: str = "ollama") -> bool:
    """Create the file at `path`; return False if it already exists. Blocks briefly. Raises FileFault or OSError."""
    paths.ensure_private_dir(path.parent)
    try:
        replace_file(path, new_catalog_text(served, provider).encode(), None, mode=0o600)
    except FileChangedError:
        return False
    return True
