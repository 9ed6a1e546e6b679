"""The models on this machine: files in the program's folder, registered files elsewhere, and those in packages (L2).

What is in the folder counts; the index only adds where a file is from and what its hash was.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.common.errors import CodedError
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import CHUNK, atomic_write, read_file
from tui_agent.platform.locks import FileLock, InUse
from tui_agent.text import file_size, one_line
from tui_agent.text.patterns import read_table

SUFFIX = ".gguf"
INDEX_LIMIT = 1 << 20
"""Maximum size of the index in bytes."""
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})$")
"""End of the name, without suffix, of one file of several."""
_COPY = ".copy"
"""End of the names of folders of incomplete copies."""
_RESERVE = 200 << 20
"""Bytes that stay free on the disk."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
"""Errors of file systems without hard links."""


class LibraryError(CodedError):
    """A model that can't be found, added or removed. `code`: `not_found`, `not_ours`, `in_use`, `exists`,
    `no_space` or `failed`."""


class LocalFile(FrozenValue, frozen=True, kw_only=True):
    """A model on this machine."""

    name: str
    """The name that the user types: that of the file, without suffix."""
    path: Path
    """The file, or the first of several."""
    size: int
    """Bytes, of all files."""
    origin: str = ""
    """Where it is from, such as a URL; empty if that is unknown."""
    sha256: str = ""
    """Hash of the file when it was added; empty if unknown, or for several files."""
    managed: bool
    """Whether it is in the program's folder, so that it can be removed."""


class _Record(FrozenValue, frozen=True, kw_only=True):
    """An entry of the index."""

    path: str
    """Name in the folder, or an absolute path elsewhere."""
    size: int
    origin: str = ""
    sha256: str = ""


def parts_dir() -> Path:
    """Folder of incomplete downloads."""
    return paths.models_dir() / ".part"


def split_name(path: Path | str) -> tuple[str, int, int]:
    """Return the model's name of a file, its number and how many files the model has.

    A number outside of the count says nothing: such a file is a model of its own.
    """
    stem = os.path.basename(path)
    stem = stem[: -len(SUFFIX)] if stem.lower().endswith(SUFFIX) else stem
    match = _SPLIT.search(stem)
    if match and 1 <= int(match[1]) <= int(match[2]):
        return stem[: match.start()], int(match[1]), int(match[2])
    return stem, 1, 1


# --- listing --------------------------------------------------------------------------------


def local_files(*, packages: bool = False) -> list[LocalFile]:
    """Return the models by name; with `packages` also those that installed Python packages contain, which takes longer.

    Blocks briefly.
    """
    folder = paths.models_dir()
    index = _read_index()
    known = {record.path: record for record in index}
    found = [_describe(name, files, known, managed=True) for name, files in _models_in(folder)]
    for record in index:
        path = Path(record.path)
        if path.is_absolute() and path.is_file():
            name, _, _ = split_name(path)
            found.append(_describe(name, _siblings(path), known, managed=False))
    if packages:
        found += _package_files()
    return sorted(found, key=lambda file: (file.name.lower(), not file.managed))


def find(name: str) -> LocalFile | None:
    """Return the model with this name, with or without suffix, that was suggested by it, or at this path; None if there
    is none."""
    wanted = name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else name
    for packages in (False, True):
        files = local_files(packages=packages) if os.sep not in name else []
        for same in (wanted.__eq__, lambda other: wanted.lower() == other.lower()):
            if hit := next((file for file in files if same(file.name)), None):
                return hit
    if file := _suggested_file(name):
        return find(file)
    path = Path(os.path.abspath(os.path.expanduser(name)))
    if not (name.lower().endswith(SUFFIX) and path.is_file()):
        return None
    listed = next((file for file in local_files() if file.path == path), None)
    return listed or _describe(split_name(path)[0], _siblings(path), {}, managed=False)


def _suggested_file(name: str) -> str:
    """Return the file of a model that the program suggests by this name, or an empty string."""
    suggested = read_table(__package__, "suggestions.toml")["model"]
    return next((str(entry["file"]) for entry in suggested if entry["name"] == name.lower()), "")


def _models_in(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield name and files of every complete model in a folder."""
    groups: dict[tuple[str, int], dict[int, Path]] = {}
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.suffix.lower() == SUFFIX and path.is_file():
                name, number, count = split_name(path)
                groups.setdefault((name, count), {})[number] = path
    for (name, count), files in groups.items():
        if set(files) == set(range(1, count + 1)):
            yield name, [files[number] for number in sorted(files)]


def _siblings(path: Path) -> list[Path]:
    """Return all files of a model, in order."""
    _, number, count = split_name(path)
    if count == 1:
        return [path]
    head, _, tail = path.name.rpartition(f"-{number:05}-of-")
    return [path.with_name(f"{head}-{index:05}-of-{tail}") for index in range(1, count + 1)]


def _describe(name: str, files: list[Path], known: dict[str, _Record], *, managed: bool) -> LocalFile:
    size = 0
    for path in files:
        with contextlib.suppress(OSError):
            size += path.stat().st_size
    record = known.get(files[0].name if managed else str(files[0]))
    if record is None or record.size != size:  # another file has this name now
        return LocalFile(name=name, path=files[0], size=size, managed=managed)
    return LocalFile(name=name, path=files[0], size=size, origin=record.origin, sha256=record.sha256, managed=managed)


def _package_files() -> Iterator[LocalFile]:
    """Yield the models in installed packages, none of which is imported."""
    from importlib import metadata

    for package in metadata.distributions():
        with contextlib.suppress(OSError, ValueError):
            if SUFFIX not in (package.read_text("RECORD") or ""):
                continue
            for file in package.files or ():
                path = Path(str(package.locate_file(file)))
                if path.suffix.lower() == SUFFIX and path.is_file():
                    origin = f"package {package.metadata['Name']}"
                    yield LocalFile(
                        name=split_name(path)[0], path=path, size=path.stat().st_size, origin=origin, managed=False
                    )


# --- changing -------------------------------------------------------------------------------


def add(path: Path, *, copy: bool = False, stopped: Callable[[], bool] = lambda: False) -> LocalFile:
    """Register a file elsewhere, or copy it into the folder, until `stopped` is true. Blocks. Raises LibraryError."""
    path = Path(os.path.abspath(os.path.expanduser(path)))
    name, number, count = split_name(path)
    files = _siblings(path)
    if missing := next((file for file in files if not file.is_file()), None):
        raise LibraryError(f"There is no file {missing}.", "not_found")
    if path.suffix.lower() != SUFFIX:
        raise LibraryError(f"{path.name} is not a {SUFFIX} file.", "failed")
    if number != 1:
        raise LibraryError(f"{path.name} is file {number} of {count}: name the first one.", "failed")
    existing = next((file for file in local_files() if file.name.lower() == name.lower()), None)
    if existing is not None and existing.path == path:
        return existing
    if existing is not None:
        raise LibraryError(f"There already is a model {existing.name}: {existing.path}. Rename one of them.", "exists")
    from tui_agent.models.local.gguf import GgufError, read_gguf

    sha256 = ""
    try:
        read_gguf(path)
        if copy:
            hashes = _copy_files(files, stopped)
            files, sha256 = [paths.models_dir() / file.name for file in files], hashes[0] if count == 1 else ""
    except GgufError as error:
        raise LibraryError(str(error), "failed") from error
    except InUse:
        raise LibraryError(f"Another process is getting {path.name}. Wait for it, or stop it.", "in_use") from None
    except OSError as error:
        raise LibraryError(f"{path.name} can't be copied: {error.strerror or error}.", "failed") from error
    record(files[0], origin=f"copy of {path}" if copy else "", sha256=sha256)
    return _listed(files[0])


def _listed(path: Path) -> LocalFile:
    file = next((file for file in local_files() if file.path == path), None)
    if file is None:
        raise LibraryError(f"{path.name} has been removed meanwhile.", "failed")
    return file


def _copy_files(files: Sequence[Path], stopped: Callable[[], bool]) -> list[str]:
    """Copy files into the folder, in which they appear when all are complete; return their hashes.

    Raises LibraryError, InUse or OSError.
    """
    parts, name = paths.ensure_private_dir(parts_dir()), files[0].name
    remove_abandoned_copies()
    with FileLock(parts / f"{name}.lock"):
        if problem := space_problem(name, sum(file.stat().st_size for file in files)):
            raise LibraryError(problem, "no_space")
        folder = paths.ensure_private_dir(parts / f"{name}{_COPY}")
        try:
            hashes = [_copy(file, folder / file.name, stopped) for file in files]
            for file in files:
                move_new(folder / file.name, paths.models_dir() / file.name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return hashes


def _copy(source: Path, target: Path, stopped: Callable[[], bool]) -> str:
    """Copy a file; return its hash. Raises LibraryError if it is stopped, or OSError."""
    digest = hashlib.sha256()
    with source.open("rb") as original, target.open("wb") as out:
        while chunk := original.read(CHUNK):
            if stopped():
                raise LibraryError(f"{source.name} was not copied: stopped.", "failed")
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def remove_abandoned_copies() -> None:
    """Delete what killed processes left of copies. Blocks briefly."""
    for folder in parts_dir().glob(f"*{_COPY}"):
        with contextlib.suppress(InUse, OSError), FileLock(folder.with_name(f"{folder.name.removesuffix(_COPY)}.lock")):
            shutil.rmtree(folder, ignore_errors=True)


def space_problem(name: str, missing: int) -> str:
    """Return why the disk has no room for `missing` more bytes of a model; empty if it has."""
    free = shutil.disk_usage(paths.models_dir()).free
    if missing + _RESERVE <= free:
        return ""
    return (
        f"{name} needs {file_size(missing)} more, but only {file_size(free)} are free on the disk of "
        f"{paths.models_dir()}. Free some space there, or choose a smaller model."
    )


def move_new(source: Path, target: Path) -> None:
    """Move a file on one file system, without replacing another one. Raises FileExistsError or OSError."""
    try:
        os.link(source, target)
    except FileExistsError:
        if not (target.exists() and target.samefile(source)):  # else a killed process did the first half
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.replace(source, target)
        return
    source.unlink()


def remove(name: str, in_use: Callable[[Path], bool] = lambda path: False) -> LocalFile:
    """Delete a model's files in the folder, or forget a registered file elsewhere; return what it was.

    `in_use` says whether an engine uses a file. Blocks briefly. Raises LibraryError.
    """
    file = find(name)
    if file is None:
        raise LibraryError(f"There is no model {one_line(name)} on this machine.", "not_found")
    registered = any(record.path == str(file.path) for record in _read_index())
    if not file.managed and not registered:
        advice = f"Uninstall the {file.origin}" if file.origin else "Delete the file yourself"
        raise LibraryError(f"{file.path} is not managed by tui-agent. {advice}, if you no longer need it.", "not_ours")
    if in_use(file.path):
        raise LibraryError(f"{file.name} is in use by a session. Close the session, or choose another model.", "in_use")
    try:
        for path in _siblings(file.path) if file.managed else ():
            path.unlink(missing_ok=True)
    except OSError as error:
        raise LibraryError(f"{file.path} can't be removed: {error.strerror or error}.", "failed") from error
    key = file.path.name if file.managed else str(file.path)
    _change_index(lambda records: [record for record in records if record.path != key])
    return file


def record(path: Path, *, origin: str, sha256: str = "") -> None:
    """Note where a model is from; `path` is its first file. Blocks briefly. Raises LibraryError."""
    managed = path.parent == paths.models_dir()
    size = sum(file.stat().st_size for file in _siblings(path))
    new = _Record(path=path.name if managed else str(path), size=size, origin=origin, sha256=sha256)
    _change_index(lambda records: [*(record for record in records if record.path != new.path), new])


def _index_file() -> Path:
    return paths.models_dir() / "index.json"


def _read_index() -> list[_Record]:
    """Return the entries of the index; none if it is missing or unreadable."""
    try:
        return msgspec.json.decode(read_file(_index_file(), INDEX_LIMIT).data, type=list[_Record])
    except (FileFault, msgspec.MsgspecError, UnicodeDecodeError):
        return []


def _change_index(change: Callable[[list[_Record]], list[_Record]]) -> None:
    """Replace the index, while no other process does."""
    try:
        lock = paths.ensure_private_dir(parts_dir()) / "index.lock"
        with FileLock(lock, timeout=5.0):
            atomic_write(_index_file(), msgspec.json.format(msgspec.json.encode(change(_read_index())), indent=1))
    except (InUse, FileFault, OSError) as error:
        raise LibraryError(f"The list of models can't be saved: {one_line(str(error), 200)}.", "failed") from error
