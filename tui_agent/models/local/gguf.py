"""What a GGUF file says about its model: size, quantization, window, memory of the cache, chat template (L1, L4).

The file may come from anyone: everything is read within bounds.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from tui_agent.common.domain import FrozenValue, ModelInfo
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import open_regular
from tui_agent.text import clean, file_size, one_line, with_full_stop
from tui_agent.text.patterns import read_table

Value: TypeAlias = int | float | str | tuple[int | float, ...]

MAX_HEADER = 256 << 20
"""Bytes before the weights; the largest vocabularies take 30 MB."""
MAX_KEYS = 16_384
MAX_KEY = 1_024
"""Bytes of the name of a key or tensor."""
MAX_TENSORS = 200_000
MAX_STRINGS = 4_000_000
"""Texts in all arrays; the largest vocabularies have 0.8 million tokens and merges."""
MAX_KEPT = 16 << 20
"""Bytes of the metadata that are kept in memory."""
MAX_TEXT = (1 << 20) + 4
"""Bytes that are kept of one text."""
MAX_KEPT_NUMBERS = 4_096
"""Numbers in an array that is kept: one for each layer."""
MAX_NESTING = 4

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_DIMENSIONS = 4
_MAX_LENGTH = 1 << 40
"""Of one dimension of a tensor."""
_DEFAULT_ALIGNMENT = 32
_MAX_ALIGNMENT = 1 << 20
_BUFFER = 1 << 20
_GET_IT_AGAIN = "Download it again, or choose another file."

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
_MAX_PARTS = 1_000
_MAX_LAYERS = 4_096
_LARGEST = 1 << 31
"""Larger numbers of tokens, heads or lengths are not believed."""
_LARGEST_CACHE = 1 << 50
_BATCH = 512
"""Tokens that llama.cpp adds to the cache of a layer with a sliding window: one batch."""
_CACHE_ELEMENT = 2
"""Bytes of an element of the cache (f16)."""


class GgufError(ValueError):
    """The file can't be used as a model. `str()` is a sentence for the user that names the file and what to do."""


class GgufInfo(FrozenValue, frozen=True, kw_only=True):
    """The properties of the model in a GGUF file; the texts are cleaned."""

    path: Path
    """The file, or the first of its parts: absolute, links not resolved."""
    size: int
    """Bytes of all parts."""
    architecture: str
    name: str
    parameters: float | None
    """In billions, counted from the tensors."""
    quantization: str
    """Such as `Q4_K_M`; empty if unknown."""
    license: str
    context_window: int | None
    """Tokens that the model was trained for."""
    layers: int | None
    cache_bytes: int | None
    """Bytes of memory that the cache (f16) needs for each token of the window; None if unknown."""
    fixed_cache: int
    """Bytes of cache that don't depend on the window, of layers that see only the latest tokens."""
    template: str
    """Chat template; empty if there is none."""
    capabilities: tuple[str, ...]
    """`completion` with `tools` and `thinking` if the template has them, or `embedding`."""

    switches: tuple[str, ...] = ()
    """Variables of the template that choose whether, or how much, the model reasons."""

    def model_info(self, name: str) -> ModelInfo:
        """Return these properties as those of a served model called `name`."""
        facts = [_parameter_size(self.parameters), self.quantization, file_size(self.size)]
        return ModelInfo(
            name=name,
            capabilities=self.capabilities,
            context_window=self.context_window,
            build=" · ".join(filter(None, facts)),
            parameters=self.parameters,
            size=self.size,
            cache_bytes=self.cache_bytes,
            reasoning_switches=self.switches,
        )


def read_gguf(path: Path) -> GgufInfo:
    """Read the header of a model file, and of the other parts if it is split; blocks for up to a second.

    Raises GgufError if the file can't be used: not a language model, damaged, incomplete, or with a harmful template.
    """
    parts = weight_files(path)
    headers = [_read_header(part) for part in parts]
    facts = _Facts(headers[0].values)
    shown = one_line(path.name, exact=True)
    _check_kind(headers, facts, shown)
    from tui_agent.models.local.templates import template_capabilities, template_switches

    template = _checked_template(headers[0].values, shown)
    per_token, fixed = facts.cache()
    architecture = facts.architecture
    embeds = bool(facts.number("pooling_type")) or any(
        word in architecture for word in _table("embedding_architectures")
    )
    return GgufInfo(
        path=parts[0],
        size=sum(header.size for header in headers),
        architecture=architecture,
        name=facts.text("general.name", 100) or one_line(_PART.sub(r"\1", path.name).removesuffix(".gguf"), 100),
        parameters=sum(header.parameters for header in headers) / 1e9,
        quantization=_table("file_types").get(str(headers[0].values.get("general.file_type")), ""),
        license=facts.text("general.license", 60),
        context_window=facts.number("context_length"),
        layers=facts.layers,
        cache_bytes=per_token,
        fixed_cache=fixed,
        template=template,
        capabilities=("embedding",) if embeds else ("completion", *template_capabilities(template)),
        switches=template_switches(template),
    )


def weight_files(path: Path) -> list[Path]:
    """Return all parts of a model, the first one first, as absolute paths; links are not resolved, since those of a
    download cache lead to files with other names. Raises GgufError if a part is missing."""
    path = path.absolute()
    match = _PART.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match[3])
    if not 0 < int(match[2]) <= count <= _MAX_PARTS:
        raise GgufError(f"{one_line(path.name, exact=True)} is not a possible part of a model. Check its name.")
    parts = [path.with_name(f"{match[1]}-{number:05}-of-{match[3]}.gguf") for number in range(1, count + 1)]
    for part in parts:
        if part != path and not part.is_file():
            missing = one_line(part.name, exact=True)
            raise GgufError(f"A part of the model is missing: {missing}. Download it to the same folder.")
    return parts


def weights_identity(path: Path) -> tuple[tuple[int, ...], ...]:
    """Return device, inode, size, and times of change in nanoseconds (content, status) of every part of a model.

    It differs if a part has been replaced or changed since. Raises GgufError if a part can't be read.
    """
    try:
        found = [part.stat() for part in weight_files(path)]
    except (OSError, ValueError) as error:
        if isinstance(error, GgufError):
            raise
        why = getattr(error, "strerror", None) or error
        raise GgufError(f"The model file can't be read: {one_line(path.name, exact=True)}: {why}.") from error
    return tuple((one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found)


def _check_kind(headers: list[_Header], facts: _Facts, shown: str) -> None:
    """Raise GgufError if the files are not the complete parts of one language model."""
    for number, header in enumerate(headers):
        count, place = header.values.get("split.count", 1), header.values.get("split.no", number)
        if not (_is_whole(count) and _is_whole(place)):
            raise GgufError(f"{shown} is damaged (its number of parts). {_GET_IT_AGAIN}")
        if count not in (0, 1, len(headers)) or place not in (number, 0):
            raise GgufError(
                f"{shown} is one of {count} parts of a model. Keep all parts in one folder, with their original names."
            )
    kind = facts.text("general.type", 40)
    if other := _table("other_types").get(kind):
        raise GgufError(f"{shown} is {other}, not a language model. Choose the file of the model itself.")
    if not facts.architecture or not any(header.parameters for header in headers):
        raise GgufError(f"{shown} has no weights of a language model. Choose another file.")


def _checked_template(values: Mapping[str, Value], shown: str) -> str:
    """Return the chat template. Raises GgufError if one of the templates is refused."""
    from tui_agent.models.local.templates import check_template

    for key, value in values.items():
        if not key.startswith("tokenizer.chat_template") or not isinstance(value, str):
            continue
        if reason := check_template(value):
            raise GgufError(
                f"The chat template in {shown} {reason}, so the file is refused. Get the model from another source."
            )
    template = values.get("tokenizer.chat_template", "")
    return template if isinstance(template, str) else ""


def cache_size(values: Mapping[str, Any]) -> tuple[int | None, int]:
    """Return the bytes of cache (f16) for each token, None if unknown, and those that don't depend on the window.

    `values` are the metadata of a model, named as in GGUF files.
    """
    return _Facts(values).cache()


class _Facts:
    """Metadata with plausible values only."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values
        self.architecture = self.text("general.architecture", 60)
        layers = self.number("block_count")
        self.layers = layers if layers is not None and layers <= _MAX_LAYERS else None

    def text(self, key: str, limit: int) -> str:
        """Return a text on one line of at most `limit` characters; empty if there is none."""
        value = self._values.get(key)
        return one_line(clean(value), limit) if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """Return a positive number of the architecture, or None."""
        return _positive(self._values.get(f"{self.architecture}.{key}"))

    def cache(self) -> tuple[int | None, int]:
        """Return the bytes of cache for each token, None if unknown, and those that don't depend on the window."""
        heads = self._heads()
        if heads is None:
            return None, 0
        sliding = self._sliding_layers(len(heads))
        window = self.number("attention.sliding_window") or 0
        sizes = [self._head_size("") or 0, self._head_size("_swa") or self._head_size("") or 0]
        if not all(sizes):
            return None, 0
        per_token = sum(
            count * sizes[0] for count, slides in zip(heads, sliding, strict=True) if not (slides and window)
        )
        latest = sum(count * sizes[1] for count, slides in zip(heads, sliding, strict=True) if slides and window)
        per_token, fixed = per_token * _CACHE_ELEMENT, latest * _CACHE_ELEMENT * (window + _BATCH)
        return (per_token, fixed) if per_token < _LARGEST and fixed < _LARGEST_CACHE else (None, 0)

    def _heads(self) -> list[int] | None:
        """Return the key-value heads of each layer that has a cache of its own; None if that is unknown."""
        prefix, layers = f"{self.architecture}.", self.layers
        if layers is None:
            return None
        value = self._values.get(f"{prefix}attention.head_count_kv", self._values.get(f"{prefix}attention.head_count"))
        if isinstance(value, tuple):
            if len(value) < layers or not all(map(_is_whole, value)):
                return None
            heads = [int(count) for count in value[:layers]]
        elif (count := _positive(value)) is None:
            return None
        elif interval := self.number("full_attention_interval"):
            heads = [0 if (index + 1) % interval else count for index in range(layers)]
        elif any(key.startswith((f"{prefix}ssm.", f"{prefix}wkv.")) for key in self._values):
            return None  # a recurrent model, and nothing says which layers have a cache
        else:
            heads = [count] * layers
        return heads[: layers - min(layers, self.number("attention.shared_kv_layers") or 0)]

    def _head_size(self, suffix: str) -> int | None:
        """Return the elements that one head caches for a token: a key and a value."""
        key = self.number(f"attention.key_length{suffix}")
        value = self.number(f"attention.value_length{suffix}")
        if key is None or value is None:
            width, heads = (
                self.number("embedding_length"),
                self._values.get(f"{self.architecture}.attention.head_count"),
            )
            if isinstance(heads, tuple):
                heads = max(heads, default=0) if all(map(_is_whole, heads)) else 0
            count = _positive(heads)
            if suffix or width is None or count is None:
                return None
            key, value = key or width // count, value or width // count
        return key + value

    def _sliding_layers(self, layers: int) -> list[bool]:
        """Return for each layer whether it sees only the latest tokens."""
        pattern = self._values.get(f"{self.architecture}.attention.sliding_window_pattern")
        if isinstance(pattern, tuple):
            return [bool(pattern[index]) if index < len(pattern) else False for index in range(layers)]
        period = _positive(pattern) or _table("sliding_window_patterns").get(self.architecture, 1)
        return [(index + 1) % period != 0 for index in range(layers)]


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value and _is_whole(value) else None


def _is_whole(value: object) -> bool:
    """Whether a value is a plausible count, such as 0."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _parameter_size(billions: float | None) -> str:
    if not billions:
        return ""
    return f"{billions:.1f}B" if billions >= 1 else f"{billions * 1000:.0f}M"


def _table(name: str) -> Any:
    return read_table(__package__, "gguf.json")[name]


# --- the file format ------------------------------------------------------------------------


class _Header(NamedTuple):
    """What the beginning of one GGUF file says."""

    values: dict[str, Value]
    """Metadata by key: all numbers, short arrays of numbers, and the texts that describe the model."""
    parameters: int
    """Elements of all tensors."""
    size: int
    """Bytes of the file."""


def _read_header(path: Path) -> _Header:
    """Read metadata and tensor table, and compare the file's length with what its tensors need. Raises GgufError."""
    try:
        with open_regular(path) as opened, os.fdopen(opened.fd, "rb", _BUFFER, closefd=False) as file:
            try:
                return _HeaderReader(file, one_line(path.name, exact=True), opened.size).read()
            except GgufError as error:
                problem = error  # raised below: here any ValueError counts as a problem of the path
    except FileFault as error:
        raise GgufError(f"The model file can't be read: {with_full_stop(str(error))}") from error
    raise problem


class _HeaderReader:
    def __init__(self, file: BinaryIO, name: str, size: int) -> None:
        self._file = file
        self._name = name
        self._size = size
        self._end = min(size, MAX_HEADER)
        self._kept = 0
        self._strings = 0

    def read(self) -> _Header:
        tensors, keys = self._read_counts()
        values: dict[str, Value] = {}
        seen: set[bytes] = set()
        for _ in range(keys):
            key = self._take(self._length(MAX_KEY))
            if key in seen:
                raise self._damaged("a key is there twice")
            seen.add(key)
            name = key.decode("utf-8", "replace")
            if (value := self._value(self._number("I"), _is_kept(name))) is not None:
                values[name] = value
        parameters = self._read_tensors(tensors, self._alignment(values))
        return _Header(values, parameters, self._size)

    def _read_counts(self) -> tuple[int, int]:
        """Return the number of tensors and of keys."""
        if self._size < len(_MAGIC) or self._take(len(_MAGIC)) != _MAGIC:
            raise GgufError(f"{self._name} is not a GGUF file. Choose a model file in GGUF format.")
        version = self._number("I")
        if version and version & 0xFFFF == 0:
            raise GgufError(
                f"{self._name} was made for big-endian machines. Choose a file of this model for common machines."
            )
        if version not in (2, 3):
            raise GgufError(
                f"{self._name} has version {version} of the GGUF format; versions 2 and 3 can be used. "
                "Choose another file of this model."
            )
        tensors, keys = self._number("Q"), self._number("Q")
        if tensors > MAX_TENSORS or keys > MAX_KEYS:
            raise self._damaged(f"it announces {tensors:,} tensors and {keys:,} keys")
        return tensors, keys

    # --- values ---

    def _value(self, kind: int, keep: bool, depth: int = 0) -> Value | None:
        """Read or skip a value; None if it is not kept."""
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind == _STRING:
            return self._text(keep)
        if kind != _ARRAY:
            raise self._damaged(f"unknown type {kind} of a value")
        inner, count = self._number("I"), self._number("Q")
        if inner in _NUMBERS:
            return self._numbers(_NUMBERS[inner], count, keep)
        if inner == _STRING:
            self._skip_strings(count)
        elif depth >= MAX_NESTING:
            raise self._damaged("arrays are nested too deeply")
        else:
            self._count_strings(count)
            for _ in range(count):
                self._value(inner, False, depth + 1)
        return None

    def _text(self, keep: bool) -> str | None:
        length = self._length(self._end)
        if not keep:
            self._skip(length)
            return None
        kept = min(length, MAX_TEXT)
        self._count_kept(kept)
        text = self._take(kept).decode("utf-8", "replace")
        self._skip(length - kept)
        return text

    def _numbers(self, form: str, count: int, keep: bool) -> tuple[int | float, ...] | None:
        size = count * struct.calcsize(f"<{form}")
        if not keep or count > MAX_KEPT_NUMBERS:
            self._skip(size)
            return None
        self._count_kept(count * 32)
        return struct.unpack(f"<{count}{form}", self._take(size))

    def _skip_strings(self, count: int) -> None:
        self._count_strings(count)
        read, seek, unpack, end = self._file.read, self._file.seek, struct.Struct("<Q").unpack, self._end
        for _ in range(count):
            length_bytes = read(8)
            if len(length_bytes) < 8:
                raise self._cut()
            (length,) = unpack(length_bytes)
            if length > end or seek(length, os.SEEK_CUR) > end:
                raise self._cut()

    def _count_strings(self, count: int) -> None:
        self._strings += count
        if self._strings > MAX_STRINGS:
            raise self._damaged("its vocabulary is too large")

    def _count_kept(self, count: int) -> None:
        self._kept += count
        if self._kept > MAX_KEPT:
            raise self._damaged("its metadata are too large")

    # --- tensors ---

    def _alignment(self, values: dict[str, Value]) -> int:
        alignment = values.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
            raise self._damaged(f"alignment {alignment}" if isinstance(alignment, int) else "its alignment")
        return alignment

    def _read_tensors(self, count: int, alignment: int) -> int:
        """Read the table of tensors and return the number of all elements."""
        types: dict[str, list[int]] = read_table(__package__, "gguf.json")["tensor_types"]
        parameters = needed = 0
        for _ in range(count):
            self._skip(self._length(MAX_KEY))
            dimensions = self._number("I")
            if not 0 < dimensions <= _MAX_DIMENSIONS:
                raise self._damaged(f"a tensor with {dimensions} dimensions")
            shape = struct.unpack(f"<{dimensions}Q", self._take(8 * dimensions))
            elements, kind, offset = math.prod(shape), self._number("I"), self._number("Q")
            # A type that is unknown here may be new: its size is not checked.
            block, block_size = types.get(str(kind), (1, 0))
            if max(shape) > _MAX_LENGTH or shape[0] % block or offset % alignment:
                raise self._damaged("a tensor with an impossible shape or place")
            parameters += elements
            needed = max(needed, offset + elements // block * block_size)
        start = -(-self._file.tell() // alignment) * alignment
        if start + needed > self._size:
            raise GgufError(
                f"{self._name} is incomplete: it has {file_size(self._size)}, its tensors need "
                f"{file_size(start + needed)}. {_GET_IT_AGAIN}"
            )
        return parameters

    # --- bytes ---

    def _number(self, form: str) -> int:
        """Read one number. It is a float for the forms `f` and `d`, which only metadata have."""
        (number,) = struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))
        return number  # type: ignore[no-any-return]  # struct is untyped

    def _length(self, limit: int) -> int:
        length = self._number("Q")
        if length > limit:
            raise self._cut() if limit == self._end else self._damaged(f"a name of {length:,} bytes")
        return length

    def _take(self, count: int) -> bytes:
        if self._file.tell() + count > self._end:
            raise self._cut()
        data = self._file.read(count)
        if len(data) < count:
            raise self._cut()
        return data

    def _skip(self, count: int) -> None:
        if self._file.tell() + count > self._end:
            raise self._cut()
        self._file.seek(count, os.SEEK_CUR)

    def _cut(self) -> GgufError:
        if self._end < self._size:
            return self._damaged("its header is too large")
        return GgufError(f"{self._name} is incomplete: it ends within its header. {_GET_IT_AGAIN}")

    def _damaged(self, what: str) -> GgufError:
        return GgufError(f"{self._name} is damaged ({what}). {_GET_IT_AGAIN}")


def _is_kept(key: str) -> bool:
    """Whether the text or array of a key is kept; numbers always are."""
    return key.startswith(("general.", "tokenizer.chat_template")) or ".attention." in key
