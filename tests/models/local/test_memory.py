from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from tui_agent.models.local.memory import GraphicsCard, Memory, read_memory

GIB = 1 << 30
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n"


@pytest.fixture(autouse=True)
def no_nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_memory_of_linux(tmp_path: Path) -> None:
    assert read_memory(machine(tmp_path, {}), "linux") == Memory(total=16 * GIB, available=8 * GIB)


@pytest.mark.parametrize(
    "files",
    [
        {
            "proc/self/cgroup": "0::/user/work\n",
            "sys/fs/cgroup/user/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/user/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/user/memory.stat": f"anon 5\ninactive_file {GIB}\n",
            "sys/fs/cgroup/user/work/memory.max": "max\n",
        },
        {
            "proc/self/cgroup": "12:cpu,memory:/docker/abc\n3:cpuset:/\n",
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{4 * GIB}\n",
            "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": f"{3 * GIB}\n",
            "sys/fs/cgroup/memory/docker/abc/memory.stat": f"inactive_file 0\ntotal_inactive_file {GIB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    ],
)
def test_the_limit_of_a_control_group(files: dict[str, str], tmp_path: Path) -> None:
    assert read_memory(machine(tmp_path, files), "linux") == Memory(total=4 * GIB, available=2 * GIB)


def test_a_limit_above_the_memory_is_none(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{64 * GIB}\n"}
    assert read_memory(machine(tmp_path, files), "linux").total == 16 * GIB


def test_cards_of_amd(tmp_path: Path) -> None:
    device = "sys/class/drm/card1/device"
    files = {f"{device}/mem_info_vram_total": f"{8 * GIB}\n", f"{device}/mem_info_vram_used": f"{2 * GIB}\n"}
    cards = read_memory(machine(tmp_path, files), "linux").graphics
    assert cards == (GraphicsCard(name="AMD graphics card", total=8 * GIB, free=6 * GIB),)
    (tmp_path / device / "product_name").write_text("Radeon\x1b[31m X\n")
    assert "Radeon" in read_memory(tmp_path, "linux").graphics[0].name
    assert "\x1b" not in read_memory(tmp_path, "linux").graphics[0].name


def test_cards_of_nvidia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    library = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: closed.append(True),
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: [b"GeForce", "Tesla"][index],
        nvmlDeviceGetMemoryInfo=lambda index: SimpleNamespace(total=24 * GIB, free=(20 + index) * GIB),
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert read_memory(machine(tmp_path, {}), "linux").graphics == (
        GraphicsCard(name="GeForce", total=24 * GIB, free=20 * GIB),
        GraphicsCard(name="Tesla", total=24 * GIB, free=21 * GIB),
    )
    assert closed == [True]


def test_a_driver_that_fails_is_no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("driver/library version mismatch")

    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(nvmlInit=fail))
    assert read_memory(machine(tmp_path, {}), "linux").graphics == ()


VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               65536.
Pages active:                            500000.
Pages inactive:                          131072.
Pages speculative:                        65536.
"""


@pytest.mark.parametrize(("machine_name", "unified"), [("arm64", True), ("x86_64", False)])
def test_memory_of_apple(machine_name: str, unified: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Sequence[str]) -> str:
        return f"{16 * GIB}\n" if "hw.memsize" in command else VM_STAT

    monkeypatch.setattr("platform.machine", lambda: machine_name)
    memory = read_memory(system="darwin", run=run)
    card = GraphicsCard(name="Metal", total=12 * GIB, free=4 * GIB)
    assert memory == Memory(total=16 * GIB, available=4 * GIB, graphics=(card,) if unified else (), unified=unified)


def test_nothing_is_raised_where_nothing_can_be_read(tmp_path: Path) -> None:
    assert read_memory(tmp_path, "linux") == Memory()
    assert read_memory(system="darwin", run=lambda command: "") == Memory()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_bytes(b"\xff\xfe MemTotal: x kB")
    assert read_memory(tmp_path, "linux") == Memory()
