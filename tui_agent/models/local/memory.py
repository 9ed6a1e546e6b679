"""How much memory and graphics memory this machine has, and how much of it is free (L4)."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from tui_agent.common.domain import FrozenValue
from tui_agent.text import one_line

_METAL_SHARE = 0.75
"""Part of the memory of an Apple machine that its graphics may use by default."""
_COMMAND_SECONDS = 5.0


class GraphicsCard(FrozenValue, frozen=True, kw_only=True):
    """A graphics card that can hold a model."""

    name: str
    total: int
    """Bytes."""
    free: int
    """Bytes."""


class Memory(FrozenValue, frozen=True, kw_only=True):
    """Memory of this machine, in bytes; 0 where it is unknown."""

    total: int = 0
    """Installed, or the limit of the container or service that this process runs in."""
    available: int = 0
    """Free, or used only as a cache of files."""
    graphics: tuple[GraphicsCard, ...] = ()
    unified: bool = False
    """The graphics card uses the same memory (Apple)."""


def read_memory(
    root: Path = Path("/"), system: str = sys.platform, run: Callable[[Sequence[str]], str] | None = None
) -> Memory:
    """Read memory and graphics memory; blocks for some milliseconds, never raises.

    `root` is where /proc and /sys are looked up, `system` as in `sys.platform`, `run` returns what a command prints.
    """
    if system == "darwin":
        return _apple_memory(run or _output)
    total, available = _linux_memory(root)
    return Memory(total=total, available=available, graphics=(*_nvidia_cards(), *_amd_cards(root)))


# --- Linux ----------------------------------------------------------------------------------


def _linux_memory(root: Path) -> tuple[int, int]:
    """Return total and available bytes, within the limits of control groups."""
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE))
    total, available = (int(sizes.get(name, 0)) * 1024 for name in ("MemTotal", "MemAvailable"))
    for limit, used in _group_limits(root):
        if 0 < limit < total:
            total = limit
            available = min(available, max(0, limit - used))
    return total, available


def _group_limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use in bytes of each control group that this process is in, of version 2 and 1."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = base / path.lstrip("/")
        for group in (folder, *folder.parents):
            if group == base.parent:
                break
            if (limit := _count(_text(group / names[0]))) is not None:
                cached = re.search(rf"^{names[2]} (\d+)$", _text(group / "memory.stat"), re.MULTILINE)
                yield limit, (_count(_text(group / names[1])) or 0) - (int(cached[1]) if cached else 0)


def _nvidia_cards() -> list[GraphicsCard]:
    """Ask NVIDIA's library through the package nvidia-ml-py; without either there are no cards."""
    cards: list[GraphicsCard] = []
    try:
        library = import_module("pynvml")
        library.nvmlInit()
        try:
            for index in range(library.nvmlDeviceGetCount()):
                handle = library.nvmlDeviceGetHandleByIndex(index)
                sizes, name = library.nvmlDeviceGetMemoryInfo(handle), library.nvmlDeviceGetName(handle)
                name = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
                cards.append(GraphicsCard(name=one_line(name, 60), total=int(sizes.total), free=int(sizes.free)))
        finally:
            library.nvmlShutdown()
    except Exception:  # the package is missing, or the library under it fails in its own way
        return cards
    return cards


def _amd_cards(root: Path) -> list[GraphicsCard]:
    cards = []
    for device in sorted((root / "sys/class/drm").glob("card*/device")):
        total, used = (_count(_text(device / f"mem_info_vram_{name}")) for name in ("total", "used"))
        if total:
            name = one_line(_text(device / "product_name"), 60) or "AMD graphics card"
            cards.append(GraphicsCard(name=name, total=total, free=max(0, total - (used or 0))))
    return cards


# --- Apple ----------------------------------------------------------------------------------


def _apple_memory(run: Callable[[Sequence[str]], str]) -> Memory:
    total = _count(run(["/usr/sbin/sysctl", "-n", "hw.memsize"])) or 0
    statistics = run(["/usr/bin/vm_stat"])
    page = re.search(r"page size of (\d+) bytes", statistics)
    pages = dict(re.findall(r"^Pages (free|inactive|speculative|purgeable):\s+(\d+)\.", statistics, re.MULTILINE))
    available = min(total, sum(map(int, pages.values())) * int(page[1] if page else 4096))
    graphics = int(total * _METAL_SHARE)
    if not total or platform.machine() != "arm64":
        return Memory(total=total, available=available)
    card = GraphicsCard(name="Metal", total=graphics, free=min(available, graphics))
    return Memory(total=total, available=available, graphics=(card,), unified=True)


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS, check=False, env={"LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


# --- small files ----------------------------------------------------------------------------


def _text(path: Path) -> str:
    """Return the content of a file of the kernel; empty if it can't be read."""
    try:
        return path.read_text("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,18}", text := text.strip()) else None
