"""Writes small GGUF files: valid ones with chosen metadata and tensors, and bent ones."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

QWEN: dict[str, Any] = {
    "general.architecture": "qwen2",
    "general.name": "Small Qwen",
    "general.file_type": 15,
    "general.license": "apache-2.0",
    "qwen2.context_length": 32768,
    "qwen2.block_count": 4,
    "qwen2.embedding_length": 512,
    "qwen2.attention.head_count": 8,
    "qwen2.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["a", "b", "<|end|>"],
    "tokenizer.chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}",
}
"""Metadata of a model whose cache takes 4 layers × 2 heads × (64 + 64) × 2 bytes = 2,048 bytes a token."""


class Tensor(NamedTuple):
    """A tensor of the file's table."""

    shape: tuple[int, ...] = (256, 4)
    kind: int = 12  # Q4_K: 144 bytes for 256 elements
    offset: int = 0
    name: str = "blk.0.weight"


class Raw(NamedTuple):
    """A value that is written as given: type and bytes."""

    kind: int
    data: bytes


WEIGHTS = (Tensor(),)


def gguf_bytes(
    values: Mapping[str, Any] = QWEN,
    tensors: Sequence[Tensor] = WEIGHTS,
    *,
    data: int = 576,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    order: str = "<",
) -> bytes:
    """Return a file with `data` bytes of weights. `counts` overrides the announced numbers of tensors and keys."""
    tensor_count, key_count = counts or (len(tensors), len(values))
    head = b"GGUF" + struct.pack(f"{order}IQQ", version, tensor_count, key_count)
    for key, value in values.items():
        head += text_bytes(key) + _value_bytes(value)
    for tensor in tensors:
        head += text_bytes(tensor.name) + struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        head += struct.pack("<IQ", tensor.kind, tensor.offset)
    return head + bytes(-len(head) % 32) + bytes(data)


def write_gguf(path: Path, values: Mapping[str, Any] = QWEN, tensors: Sequence[Tensor] = WEIGHTS, **bent: Any) -> Path:
    """Write such a file and return its path."""
    path.write_bytes(gguf_bytes(values, tensors, **bent))
    return path


def text_bytes(text: str) -> bytes:
    """Return a text with its length."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value_bytes(value: Any) -> bytes:
    kind, data = _typed(value)
    return struct.pack("<I", kind) + data


def _typed(value: Any) -> tuple[int, bytes]:
    if isinstance(value, Raw):
        return value
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text_bytes(value)
    items = [_typed(item) for item in value]
    kind = items[0][0] if items else 4
    return 9, struct.pack("<IQ", kind, len(items)) + b"".join(data for _, data in items)
