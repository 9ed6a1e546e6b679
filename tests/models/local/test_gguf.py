from __future__ import annotations

import json
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.gguf import QWEN, Raw, Tensor, gguf_bytes, write_gguf
from tui_agent.common.domain import ModelInfo
from tui_agent.models.local.gguf import GgufError, GgufInfo, cache_size, read_gguf, weight_files, weights_identity

BLOCKS = 144 * 4  # bytes of a tensor of 256 × 4 elements in Q4_K


def info_of(folder: Path, values: dict[str, Any] | None = None, **bent: Any) -> GgufInfo:
    return read_gguf(write_gguf(folder / "model.gguf", QWEN | (values or {}), **bent))


def error_of(path: Path) -> str:
    with pytest.raises(GgufError) as caught:
        read_gguf(path)
    return str(caught.value)


# --- what is read -----------------------------------------------------------------


def test_a_model_is_described(tmp_path: Path) -> None:
    info = info_of(tmp_path)
    assert info == GgufInfo(
        path=tmp_path / "model.gguf",
        size=(tmp_path / "model.gguf").stat().st_size,
        architecture="qwen2",
        name="Small Qwen",
        parameters=1024 / 1e9,
        quantization="Q4_K_M",
        license="apache-2.0",
        context_window=32768,
        layers=4,
        cache_bytes=4 * 2 * (64 + 64) * 2,
        fixed_cache=0,
        template=QWEN["tokenizer.chat_template"],
        capabilities=("completion",),
    )


def test_it_becomes_a_model_info(tmp_path: Path) -> None:
    info = info_of(tmp_path, tensors=[Tensor(shape=(1 << 15, 1 << 16), kind=99)])
    assert info.model_info("local") == ModelInfo(
        name="local",
        capabilities=("completion",),
        context_window=32768,
        build=f"2.1B · Q4_K_M · {info.size / 1000:.1f} kB",
        parameters=(1 << 31) / 1e9,
        size=info.size,
        cache_bytes=2048,
        reasoning_switches=(),
    )


def test_version_2_is_read(tmp_path: Path) -> None:
    assert info_of(tmp_path, version=2).layers == 4


def test_the_name_is_cleaned_and_else_that_of_the_file(tmp_path: Path) -> None:
    assert info_of(tmp_path, {"general.name": "A\x1b[31m\nB\u202e" + "x" * 500}).name.startswith("A B")
    assert len(info_of(tmp_path, {"general.name": "x" * 500}).name) == 100
    assert info_of(tmp_path, {"general.name": ""}).name == "model"


@pytest.mark.parametrize(
    ("template", "capabilities"),
    [
        ("{% if tools %}{{ tools }}{% endif %}", ("completion", "tools")),
        ("You have no tools. {{ messages }}", ("completion",)),
        ("{{ messages }}<think>", ("completion", "thinking")),
        ("{% if tools and enable_thinking %}{% endif %}", ("completion", "tools", "thinking")),
        ("", ("completion",)),
    ],
)
def test_capabilities_come_from_the_template(template: str, capabilities: tuple[str, ...], tmp_path: Path) -> None:
    assert info_of(tmp_path, {"tokenizer.chat_template": template}).capabilities == capabilities


def test_embedding_models_are_recognized(tmp_path: Path) -> None:
    assert info_of(tmp_path, {"qwen2.pooling_type": 3}).capabilities == ("embedding",)
    assert info_of(tmp_path, {"general.architecture": "nomic-bert"}).capabilities == ("embedding",)


# --- memory of the cache ----------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "per_token", "fixed"),
    [
        ({"qwen2.attention.key_length": 128, "qwen2.attention.value_length": 64}, 4 * 2 * 192 * 2, 0),
        ({"qwen2.attention.head_count_kv": [0, 2, 0, 4]}, 6 * 128 * 2, 0),
        ({"qwen2.full_attention_interval": 2, "qwen2.ssm.state_size": 16}, 2 * 2 * 128 * 2, 0),
        ({"qwen2.ssm.state_size": 16}, None, 0),
        ({"qwen2.attention.head_count_kv": [2]}, None, 0),
        ({"qwen2.block_count": 0}, None, 0),
        ({"qwen2.block_count": True}, None, 0),
        ({"qwen2.attention.head_count": [8.0, 8.0, 8.0, 8.0]}, None, 0),
        ({"qwen2.attention.head_count": ["8"]}, None, 0),
        ({"qwen2.attention.head_count_kv": [True, True, True, True]}, None, 0),
        ({"qwen2.attention.head_count_kv": [Raw(5, struct.pack("<i", -2))] * 4}, None, 0),
        ({"qwen2.attention.key_length": Raw(12, struct.pack("<d", 1e300))}, 2048, 0),
        ({"qwen2.attention.key_length": (1 << 31) - 1, "qwen2.attention.value_length": (1 << 31) - 1}, None, 0),
        ({"qwen2.attention.head_count": 1 << 31}, None, 0),
        ({"qwen2.attention.shared_kv_layers": 3}, 1 * 2 * 128 * 2, 0),
        ({"qwen2.attention.sliding_window": 1024}, 2048, 0),
        (
            {
                "qwen2.attention.sliding_window": 1024,
                "qwen2.attention.sliding_window_pattern": [True, True, True, False],
            },
            1 * 2 * 128 * 2,
            3 * 2 * 128 * 2 * (1024 + 512),
        ),
        (
            {"qwen2.attention.sliding_window": 1024, "qwen2.attention.sliding_window_pattern": 2},
            2 * 2 * 128 * 2,
            2 * 2 * 128 * 2 * (1024 + 512),
        ),
    ],
)
def test_the_cache_is_computed(values: dict[str, Any], per_token: int | None, fixed: int, tmp_path: Path) -> None:
    info = info_of(tmp_path, values)
    assert (info.cache_bytes, info.fixed_cache) == (per_token, fixed)


def test_known_architectures_slide_without_saying_so(tmp_path: Path) -> None:
    values = {key.replace("qwen2.", "gemma3."): value for key, value in QWEN.items()}
    values |= {"general.architecture": "gemma3", "gemma3.block_count": 6, "gemma3.attention.sliding_window": 512}
    info = read_gguf(write_gguf(tmp_path / "g.gguf", values))
    assert (info.cache_bytes, info.fixed_cache) == (2 * 128 * 2, 5 * 2 * 128 * 2 * 1024)


# --- files that can't be used -----------------------------------------------------


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"general.type": "mmproj"}, "reads images"),
        ({"general.type": "adapter"}, "an adapter"),
        ({"general.architecture": ""}, "no weights of a language model"),
        ({"general.alignment": 24}, "alignment 24"),
        ({"general.alignment": "\x1b[31m"}, "(its alignment)"),
        ({"tokenizer.chat_template": "{{ ''.__class__ }}"}, "Python internals (`__class__`)"),
        ({"tokenizer.chat_template.tool_use": "{{ ''.__class__ }}"}, "Get the model from another source."),
        ({"tokenizer.chat_template": "x" * (2 << 20)}, "characters"),
        ({"split.count": 3}, "one of 3 parts"),
        ({"split.count": 1.5}, "is damaged (its number of parts)"),
        ({"split.no": True}, "is damaged (its number of parts)"),
    ],
)
def test_other_files_are_refused(values: dict[str, Any], part: str, tmp_path: Path) -> None:
    message = error_of(write_gguf(tmp_path / "model.gguf", QWEN | values))
    assert part in message
    assert "model.gguf" in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("bent", "part"),
    [
        ({"version": 1}, "version 1 of the GGUF format"),
        ({"version": 3, "order": ">"}, "big-endian"),
        ({"counts": (1 << 63, 3)}, "damaged"),
        ({"counts": (1, 1 << 63)}, "damaged"),
        ({"counts": (2, len(QWEN))}, "0 dimensions"),
        ({"tensors": [Tensor(shape=(1 << 63, 1))]}, "impossible shape"),
        ({"tensors": [Tensor(shape=(255, 4))]}, "impossible shape"),
        ({"tensors": [Tensor(offset=1)]}, "impossible shape"),
        ({"tensors": [Tensor(shape=(1, 1, 1, 1, 1))]}, "5 dimensions"),
        ({"tensors": [Tensor(offset=1 << 62)]}, "its tensors need"),
        ({"tensors": [Tensor(name="x" * 2000)]}, "a name of 2,000 bytes"),
        ({"tensors": []}, "no weights"),
        ({"data": BLOCKS - 1}, "its tensors need"),
    ],
)
def test_bent_files_are_refused(bent: dict[str, Any], part: str, tmp_path: Path) -> None:
    message = error_of(write_gguf(tmp_path / "model.gguf", **bent))
    assert part in message
    assert "model.gguf" in message


def nested(depth: int) -> bytes:
    return b"".join(struct.pack("<IQ", 9, 1) for _ in range(depth)) + struct.pack("<IQ", 4, 0)


@pytest.mark.parametrize(
    "value",
    [
        Raw(8, struct.pack("<Q", 1 << 60)),
        Raw(9, struct.pack("<IQ", 8, 1 << 63)),
        Raw(9, struct.pack("<IQ", 8, 3_000_000)),
        Raw(9, struct.pack("<IQQ", 8, 1, (1 << 64) - 1)),
        Raw(9, struct.pack("<IQ", 4, 1 << 63)),
        Raw(9, struct.pack("<IQ", 9, 1 << 63)),
        Raw(9, nested(50)),
        Raw(9, struct.pack("<IQ", 77, 1)),
        Raw(99, b""),
    ],
)
@pytest.mark.parametrize("key", ["general.name", "x.attention.y", "tokenizer.ggml.tokens"])
def test_hostile_values_are_refused_in_little_memory(key: str, value: Raw, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", {key: value} | {name: QWEN[name] for name in QWEN if name != key})
    tracemalloc.start()
    message = error_of(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "damaged" in message or "incomplete" in message
    assert peak < 8 << 20


def test_much_text_is_not_kept(tmp_path: Path) -> None:
    values = {f"general.note{number}": "x" * (1 << 20) for number in range(20)}
    assert "metadata are too large" in error_of(write_gguf(tmp_path / "model.gguf", QWEN | values))


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    key = "tokenizer.chat_template"
    data = gguf_bytes({**QWEN, key[:-1] + "X": "second"})
    (tmp_path / "model.gguf").write_bytes(data.replace(key[:-1].encode() + b"X", key.encode()))
    assert "twice" in error_of(tmp_path / "model.gguf")


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04" + bytes(500), b"version https://git-lfs"])
def test_other_formats_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    assert "not a GGUF file" in error_of(tmp_path / "model.gguf")


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    data = gguf_bytes()
    path = tmp_path / "model.gguf"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert "incomplete" in error_of(path) if length >= 4 else error_of(path)
    path.write_bytes(data)
    assert read_gguf(path).size == len(data)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to(write_gguf(tmp_path / "model.gguf"))
    assert "folder" in error_of(tmp_path)
    assert "pipe" in error_of(tmp_path / "fifo").lower()
    assert "loop" in error_of(tmp_path / "loop")
    assert "missing" in error_of(tmp_path / "missing")
    assert read_gguf(tmp_path / "link").name == "Small Qwen"


# --- parts ------------------------------------------------------------------------


def part_names() -> list[str]:
    return [f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]


def write_parts(folder: Path) -> list[Path]:
    first = write_gguf(folder / part_names()[0], QWEN | {"general.name": "", "split.count": 3, "split.no": 0})
    rest = [
        write_gguf(folder / name, {"split.count": 3, "split.no": number})
        for number, name in enumerate(part_names()[1:], 1)
    ]
    return [first, *rest]


def test_all_parts_belong_to_the_model(tmp_path: Path) -> None:
    parts = write_parts(tmp_path)
    for part in parts:
        info = read_gguf(part)
        assert info.path == parts[0]
        assert info.size == sum(path.stat().st_size for path in parts)
        assert info.parameters == 3 * 1024 / 1e9
        assert info.name == "m"


def test_a_missing_or_cut_part_is_reported(tmp_path: Path) -> None:
    parts = write_parts(tmp_path)
    parts[2].write_bytes(parts[2].read_bytes()[:-1])
    assert part_names()[2] in error_of(parts[0])
    parts[1].unlink()
    assert part_names()[1] in error_of(parts[0])
    assert "not a possible part" in error_of(tmp_path / "m-00004-of-00003.gguf")


def test_parts_may_be_links_into_a_download_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    for number, part in enumerate(write_parts(tmp_path)):
        part.rename(blobs / f"hash{number}")
        (snapshot / part.name).symlink_to(f"../blobs/hash{number}")
    first = snapshot / part_names()[0]
    for name in part_names():
        assert read_gguf(snapshot / name).path == first
    monkeypatch.chdir(snapshot)
    assert read_gguf(Path(part_names()[1])).path == first
    (blobs / "hash2").unlink()
    assert part_names()[2] in error_of(first)


def test_the_identity_covers_every_part(tmp_path: Path) -> None:
    parts = write_parts(tmp_path)
    before = weights_identity(parts[0])
    assert weights_identity(parts[1]) == before
    assert hash(before) is not None
    assert tuple(tuple(part) for part in json.loads(json.dumps(before))) == before
    assert [part[2] for part in before] == [path.stat().st_size for path in weight_files(parts[0])]
    status = parts[2].stat()
    other = tmp_path / "other"
    other.write_bytes(parts[2].read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, parts[2])  # same name, size and time
    assert weights_identity(parts[0])[:2] == before[:2]
    assert weights_identity(parts[0])[2] != before[2]
    parts[2].unlink()
    with pytest.raises(GgufError, match="missing"):
        weights_identity(parts[0])
    with pytest.raises(GgufError, match="can't be read"):
        weights_identity(tmp_path / "none.gguf")


# --- any values ---

READ_KEYS = [
    *(f"general.{name}" for name in ("name", "type", "license", "file_type", "alignment", "architecture")),
    *("split.count", "split.no", "tokenizer.chat_template", "tokenizer.chat_template.tool_use"),
    *(f"qwen2.{name}" for name in ("context_length", "block_count", "embedding_length", "pooling_type")),
    *("qwen2.full_attention_interval", "qwen2.ssm.state_size"),
    *(f"qwen2.attention.{name}" for name in ("head_count", "head_count_kv", "key_length", "value_length")),
    *(f"qwen2.attention.{name}" for name in ("key_length_swa", "value_length_swa", "shared_kv_layers")),
    *(f"qwen2.attention.{name}" for name in ("sliding_window", "sliding_window_pattern")),
]
FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@st.composite
def values(draw: st.DrawFn) -> Raw | str | list[str]:
    """Return a value of any type: a number, a text, or an array of them."""
    kind = draw(st.sampled_from([*FORMS, 8]))
    if kind == 8:
        return draw(st.one_of(st.text(max_size=9), st.lists(st.text(max_size=3), max_size=5)))
    form = FORMS[kind]
    size = struct.calcsize(f"<{form}")
    small = st.integers(0, 9).map(lambda number: struct.pack(f"<{form}", number))
    item = st.one_of(st.binary(min_size=size, max_size=size), small)
    if form == "?":
        item = st.booleans().map(lambda flag: bytes([flag]))
    if draw(st.booleans()):
        return Raw(kind, draw(item))
    items = draw(st.lists(item, max_size=6))
    return Raw(9, struct.pack("<IQ", kind, len(items)) + b"".join(items))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(READ_KEYS), values(), min_size=1, max_size=5))
def test_any_values_are_a_model_or_a_sentence(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = write_gguf(tmp_path / "model.gguf", QWEN | changed)
    try:
        info = read_gguf(path)
    except GgufError as error:
        assert "model.gguf" in str(error)
        assert str(error).isprintable()
    else:
        assert isinstance(msgspec.json.encode(info.model_info("m")), bytes)
        assert info.cache_bytes is None or info.cache_bytes >= 0
        assert info.fixed_cache >= 0
        assert info.context_window is None or info.context_window > 0


ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(READ_KEYS), ANY.map(lambda one: tuple(one) if isinstance(one, list) else one)))
def test_the_cache_is_computed_from_any_values(changed: dict[str, Any]) -> None:
    per_token, fixed = cache_size(QWEN | changed)
    assert per_token is None or per_token >= 0
    assert fixed >= 0


# --- any bytes --------------------------------------------------------------------

VALID = gguf_bytes()


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    data = bytearray(VALID)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data) - 1))
        data[place : place + draw(st.integers(0, 8))] = draw(st.binary(max_size=8))
    return bytes(data)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(mutations(), st.binary(max_size=200).map(lambda data: b"GGUF\x03\0\0\0" + data)))
def test_any_bytes_are_a_model_or_a_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    try:
        info = read_gguf(path)
    except GgufError as error:
        assert "model.gguf" in str(error)
        assert str(error).endswith(".")
    else:
        assert info.size == len(data)
        assert info.name.isprintable()
