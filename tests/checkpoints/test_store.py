from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles.fault_os import FakeOs
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.common.line_merge import merge_bytes
from tui_agent.platform.files import sha256_of


def blobs(folder: Path) -> list[Path]:
    return [path for path in (folder / "blobs").rglob("*") if path.is_file()]


def test_contents_are_stored_privately(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = BlobStore(tmp_path)
        name = store.put(b"\x00\r\nbytes")
    finally:
        os.umask(old)
    assert store.get(name) == b"\x00\r\nbytes"
    assert stat.S_IMODE(store.path_of(name).stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path_of(name).parent.stat().st_mode) == 0o700
    assert store.path_of(name).relative_to(tmp_path).parts == ("blobs", name[:2], name)


def test_the_same_content_is_stored_once(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    for _ in range(1000):
        store.put(b"always the same")
    assert len(blobs(tmp_path)) == 1
    assert store.size == len(b"always the same")


@pytest.mark.parametrize("data", [b"garbage", b"", b"conten"])
def test_a_damaged_content_is_reported_and_never_returned(tmp_path: Path, data: bytes) -> None:
    store = BlobStore(tmp_path)
    name = store.put(b"content")
    store.path_of(name).write_bytes(data)
    with pytest.raises(StoreError, match=name[:12]) as fault:
        store.get(name)
    assert fault.value.code == "damaged"
    assert store.put(b"content") == name  # the right bytes are at hand again
    assert store.get(name) == b"content"


def test_missing_contents_and_links_are_refused(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    name = store.put(b"content")
    store.path_of(name).unlink()
    with pytest.raises(StoreError) as fault:
        store.get(name)
    assert fault.value.code == "missing"
    (tmp_path / "other").write_bytes(b"content")
    store.path_of(name).symlink_to(tmp_path / "other")
    with pytest.raises(StoreError):
        store.get(name)


def test_limits_refuse_with_a_reason(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, file_cap=10, total_cap=15)
    with pytest.raises(StoreError) as fault:
        store.put(b"x" * 11)
    assert fault.value.code == "too_large"
    first = store.put(b"y" * 10)
    with pytest.raises(StoreError) as fault:
        store.put(b"z" * 10)
    assert fault.value.code == "full"
    assert "15 bytes" in str(fault.value)
    assert store.prune(()) == 10
    assert not store.has(first)
    store.put(b"z" * 10)
    assert BlobStore(tmp_path).size == 10


@pytest.mark.parametrize("call", ["open", "write", "fsync", "link"])
def test_a_disk_error_leaves_no_partial_content(tmp_path: Path, call: str) -> None:
    disk = FakeOs(fail_named={call: errno.ENOSPC})
    store = BlobStore(tmp_path, calls=disk)
    with pytest.raises(StoreError) as fault:
        store.put(b"content")
    assert fault.value.code == "failed"
    assert disk.fired
    assert blobs(tmp_path) == []
    assert not store.has(sha256_of(b"content"))


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d"]), max_size=8).map(b"".join)


@given(base=LINES, ours=LINES, theirs=LINES)
@settings(max_examples=200, deadline=None)
def test_a_merge_contains_both_changes_or_fails(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge_bytes(base, ours, base) == ours
    merged = merge_bytes(base, base, theirs)
    assert merged == theirs
    result = merge_bytes(base, ours, theirs)
    assert result == merge_bytes(base, theirs, ours) or base in (ours, theirs)


def test_separate_changes_are_merged_and_adjacent_ones_are_not() -> None:
    base = b"1\n2\n3\n4\n5\n"
    assert merge_bytes(base, b"one\n2\n3\n4\n5\n", b"1\n2\n3\n4\nfive\n") == b"one\n2\n3\n4\nfive\n"
    assert merge_bytes(base, b"one\n2\n3\n4\n5\n", b"eins\n2\n3\n4\n5\n") is None
    assert merge_bytes(base, b"1\nx\n3\n4\n5\n", b"1\n2\ny\n4\n5\n") is None
    assert merge_bytes(b"\0", b"a", b"b") is None
