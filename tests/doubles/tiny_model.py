"""A language model that llama.cpp loads at once: one layer, all weights zero, so that every token is equally likely."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

from tests.doubles.gguf import Raw, Tensor, write_gguf

WIDTH, INNER, WINDOW = 64, 128, 4_096
TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)


def _integers(values: list[int]) -> Raw:
    return Raw(9, struct.pack("<IQ", 5, len(values)) + struct.pack(f"<{len(values)}i", *values))


def write_tiny_model(path: Path) -> Path:
    """Write the model and return its path."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁pong"]
    values: dict[str, Any] = {
        "general.architecture": "llama",
        "general.name": "Tiny",
        "general.file_type": 0,
        "llama.context_length": WINDOW,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": 32,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": _integers([2, 3, 3, *[6] * 256, 1]),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": TEMPLATE,
    }
    square, up, down, vector = (WIDTH, WIDTH), (WIDTH, INNER), (INNER, WIDTH), (WIDTH,)
    shapes = {
        "token_embd.weight": (WIDTH, len(tokens)),
        "output_norm.weight": vector,
        "output.weight": (WIDTH, len(tokens)),
        "blk.0.attn_norm.weight": vector,
        "blk.0.attn_q.weight": square,
        "blk.0.attn_k.weight": square,
        "blk.0.attn_v.weight": square,
        "blk.0.attn_output.weight": square,
        "blk.0.ffn_norm.weight": vector,
        "blk.0.ffn_gate.weight": up,
        "blk.0.ffn_up.weight": up,
        "blk.0.ffn_down.weight": down,
    }
    tensors, offset = [], 0
    for name, shape in shapes.items():
        tensors.append(Tensor(shape, 0, offset, name))
        offset += math.prod(shape) * 4
    return write_gguf(path, values, tensors, data=offset)
