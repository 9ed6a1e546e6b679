"""Gives the session a model, from the screen for a missing one: a server, a file, or a download (G2, L2)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tui_agent.common import paths
from tui_agent.common.domain import Fault
from tui_agent.common.errors import JournalBroken
from tui_agent.models.connect import BadAddress, resolve_provider
from tui_agent.models.endpoint import endpoint, is_local
from tui_agent.models.local import library
from tui_agent.models.local.engine import INSTALL, engine_installed
from tui_agent.models.local.get import GetModel, describe_progress
from tui_agent.models.local.memory import read_memory
from tui_agent.models.local.parts import free_space, incomplete_files
from tui_agent.models.local.progress import DownloadFailed, Progress
from tui_agent.models.local.sources import OllamaSource, Suggestion, find_suggestion, suggest
from tui_agent.models.wire import Wire
from tui_agent.settings import Settings
from tui_agent.text import file_size, one_line
from tui_agent.tui.settings_file import SettingsFile
from widgets.first_run import OLLAMA_COMMANDS, DownloadView, FieldName, FirstRun, ModelOption, ServerValues

if TYPE_CHECKING:
    from tui_agent.engine.models.choice import ModelChoice
    from tui_agent.models.discovery import FoundServer
    from tui_agent.tui.commands import CommandApp

KEY_ADVICE = {True: "The key was not accepted: correct", False: "The server requires a key: type"}
"""Whether a key was sent → what to do with the field."""


class ServerDialog(FirstRun):
    """The screen for a missing model, which uses what is typed there from the next request on."""

    def __init__(self, app: CommandApp, explanation: str, **guard: Any) -> None:
        """`guard` are the options of `KeyGuard`."""
        self._base = app
        self._choice: ModelChoice | None = getattr(app.session, "models", None)
        loaded = app.preferences.loaded
        self._busy = self._unmounted = False
        self._asked: Suggestion | None = None
        self._servers: list[FoundServer] = []
        has_url = self._choice is not None and self._choice.provider not in ("scripted", "local")
        url = self._choice.endpoint if self._choice is not None and has_url else ""
        model = (loaded.settings.model or "") if loaded is not None else ""
        super().__init__(self._explain(explanation), url=url, model=model, field=self._field(), **guard)
        self.commands = self._commands()
        works = self._choice is not None and self._choice.fault is None
        self.offers_demo = not works and not app.view.tree.roots  # it would end a session that is in use
        if works:
            self.escape_label = "back"

    @property
    def _is_gone(self) -> bool:
        """Whether the screen was closed."""
        return self._unmounted or (self.is_mounted and self not in self._base.screen_stack)

    @property
    def _fault(self) -> Fault | None:
        return self._choice.fault if self._choice is not None else None

    @property
    def _is_local(self) -> bool:
        """Whether the session's model is a file: the list has the others, and there is no server to ask."""
        return self._choice is not None and self._choice.provider == "local"

    def _explain(self, text: str) -> str:
        """Return `text`, which says why there is no model, with the field of this dialog to fill in."""
        fault = self._fault
        if fault is None or not fault.is_unauthorized or "token" not in fault.advice:
            return text
        advice = f"{KEY_ADVICE['not accepted' in fault.advice]} it in the field Key below."
        return text.replace(fault.advice, advice) if fault.advice in text else f"{text}\n{advice}"

    def _field(self) -> FieldName:
        """Return the field to correct."""
        fault = self._fault
        if fault is None or fault.kind == "unreachable" or self._is_local:
            return "url"  # also if another kind of server answers
        return "key" if fault.is_unauthorized else "model"

    def _commands(self) -> tuple[str, ...]:
        """Return commands that help with Ollama, if it does not run or has no model."""
        fault, choice = self._fault, self._choice
        is_ollama = choice is None or choice.provider == "ollama"
        return OLLAMA_COMMANDS if is_ollama and not self.choices and (fault is None or _is_silent(fault)) else ()

    def on_mount(self) -> None:
        """Show the download that is running; otherwise list the models of a server that answers, or ways to one."""
        if self._base.download is not None:
            self._base.download.show_in(self)
        elif self._choice is not None and self._base.preferences.loaded is not None:
            self._base.work(self._list_ways)

    def on_unmount(self) -> None:
        """Report later results as hints."""
        self._unmounted = True
        if self._base.download is not None:
            self._base.download.show_in(None)

    async def _list_ways(self) -> None:
        if self._fault is not None and self._field() == "model":
            await self._list_models()
        if not self.models:
            assert self._choice is not None
            self.commands = ()
            found = await asyncio.to_thread(_ways_on_this_machine)
            self.show_choices(found)
            servers = await self._choice.servers()
            if not self._is_gone:
                self._servers = list(filter(self._is_usable, servers))
                self.show_choices([*map(_server_option, self._servers), *found])

    def _is_usable(self, server: FoundServer) -> bool:
        return bool(self._choice and server.reachable and server.base_url and not self._choice.is_current(server))

    @property
    def _gets_with_ollama(self) -> bool:
        """Whether an Ollama server answers that has no model."""
        fault, choice = self._fault, self._choice
        return choice is not None and choice.provider == "ollama" and fault is not None and not _is_silent(fault)

    def choose(self, choice: ModelOption) -> None:
        """Connect to a server, use a file, or ask about a download."""
        if choice.kind == "server":
            values = ServerValues(choice.name, self.fields["key"].value.strip(), "")
            server = next((one for one in self._servers if _server_option(one) == choice), None)
            if server is not None and not self._busy:
                self._base.work(self._use_server, server, values, expected=(JournalBroken,))
        elif choice.kind == "file" and not engine_installed():
            self.show_problem(NOT_INSTALLED.format(folder=sys.prefix), "url", (INSTALL,))
        elif choice.kind == "file":
            self._base.work(self._use_file, choice.name, expected=(JournalBroken,))
        elif (suggestion := find_suggestion(choice.name)) is not None:
            self._asked = suggestion
            self.ask(_question(suggestion, with_ollama=self._gets_with_ollama))

    async def _use_server(self, server: FoundServer, values: ServerValues) -> None:
        """Use a server of the list with its own token or the key in the field, and write it to the settings, unless it
        was the session's already."""
        choice, loaded = self._choice, self._base.preferences.loaded
        if choice is None or loaded is None or self._busy:
            return
        before, is_other = loaded.settings, not choice.is_current(server)
        used = settings_for(server, before)
        self._busy = True
        self.show_message(f"Asking {values.url} …")
        try:
            if server.configured and not server.setting:
                problem = await choice.use_settings(before, values.key, moves=True)
            else:
                problem = await choice.use_server(server, values.key, values.model, used if is_other else None)
        finally:
            self._busy = False
            self.show_message("")
        if problem:
            wants_key = "requires a token" in problem or "token was not accepted" in problem
            advice = f"\n{KEY_ADVICE['not accepted' in problem]} it in the field Key below." if wants_key else ""
            self._report_problem(problem + advice, "key" if wants_key else "url")
        else:
            await self._use(choice, before if is_other else used, used, values)

    async def _use_file(self, name: str) -> None:
        assert self._choice is not None
        if self._busy:
            return
        self._busy = True
        self.show_message(f"Starting {name} …")
        try:
            problem = await use_model(self._base, self._choice, name, "local", self._base.hints.show)
        finally:
            self._busy = False
            self.show_message("")
        if problem:
            self._report_problem(problem, "url")
        elif not self._is_gone:
            self.dismiss()

    def _report_problem(self, problem: str, field: FieldName) -> None:
        """Say why there is no model; as a hint if the screen was closed meanwhile."""
        if self._is_gone:
            self._base.hints.show(one_line(problem, 300))
        else:
            is_same = self.explanation.startswith(problem)
            self.show_problem(problem, field, self._commands())
            if is_same:
                self.tell("tried again: the result is the same")

    def start_download(self) -> None:
        """Download what was asked about, and use it."""
        if self._asked is not None and self._choice is not None and self._base.download is None:
            download = ModelDownload(self._base, self._choice, self._asked, with_ollama=self._gets_with_ollama)
            self._base.download = download
            download.show_in(self)
            self._base.work(download.run, group="download", expected=(JournalBroken,))

    def leave_download(self) -> None:
        """Close the screen; the download continues."""
        self._base.hints.show("the download continues · F8 shows it")
        self.dismiss()

    def end_download(self, problem: str) -> None:
        """Close the screen, or say why there is still no model."""
        self.show_download(None)
        if problem:
            self.show_problem(problem, "url")
        else:
            self.dismiss()

    async def _list_models(self) -> bool:
        """List the models of the server; return whether it answers."""
        if self._is_local:
            return True
        names = await self._choice.listed() if self._choice is not None else ()
        self.show_models(() if isinstance(names, Fault) else [candidate.name for candidate in names])
        return not isinstance(names, Fault)

    def connect(self, values: ServerValues) -> None:
        """Ask the server in the fields, and use it if it has a model."""
        if self._choice is None or self._base.preferences.loaded is None:
            if self._base.session is not None:
                self._base.hints.show("looking for a model")
                self._base.session.look_for_model()
            self.dismiss()
        elif not self._busy:
            settings = self._base.preferences.loaded.settings
            if values.url and values.model == settings.model and _configured_server(settings)[1] == "local":
                values = values._replace(model="")  # a file, which no server has
            if values.url and (server := self._choice.chosen_at(values.url)) is not None:
                self._base.work(self._use_server, server, values, expected=(JournalBroken,))
                return
            self._busy = True
            self.show_message(f"Asking {values.url or self._choice.endpoint} …")
            self._base.work(self._connect, self._choice, settings, values, expected=(JournalBroken,))

    async def _connect(self, choice: ModelChoice, settings: Settings, values: ServerValues) -> None:
        problem, used = "", settings
        try:
            for used in self._candidates(settings, values):
                problem = await choice.use_settings(used, values.key, moves=True)
                fault = choice.fault
                if not problem or fault is None or _is_silent(fault) or fault.is_unauthorized:
                    break
                if await self._list_models():
                    break
        finally:
            self._busy = False
            self.show_message("")
        if problem:
            self._report_problem(problem if self._is_gone else self._explain(problem), self._field())
        else:
            await self._use(choice, settings, used, values)

    def _candidates(self, settings: Settings, values: ServerValues) -> list[Settings]:
        """Return the settings to try: as Ollama, and as a server that speaks OpenAI's protocol."""
        url, (configured, provider) = values.url.rstrip("/"), _configured_server(settings)
        if url and "://" not in url:
            url = ("http://" if is_local(urlsplit(f"//{url}").hostname or "") else "https://") + url
        tried: list[tuple[str, str | None]] = [("ollama", url)]
        if not url or url == configured:
            tried = [(provider, settings.base_url)]
        elif url.endswith("/v1"):
            tried = []
        if url and tried[:1] != [("openai", settings.base_url)]:
            tried.append(("openai", f"{url.removesuffix('/v1')}/v1"))
        update: dict[str, Any] = {"model": values.model or None}
        if url and url != configured and settings.token_env == "":
            update["token_env"] = Settings.model_fields["token_env"].default  # another server may get one
        return [
            settings.model_copy(update=update | {"base_url": address, "provider": provider})
            for provider, address in tried
        ]

    async def _use(self, choice: ModelChoice, before: Settings, used: Settings, values: ServerValues) -> None:
        """Close, and write what changed to the settings; the key is only kept in memory."""
        if not self._is_gone:
            self.dismiss()
        keeps = f"{used.token_env} keeps it" if used.token_env and not used.token_file else "`token_file` keeps it"
        key = f"the key is forgotten when you quit: {keeps}" if values.key else ""

        def report(text: str) -> None:
            if used.base_url != before.base_url and text.startswith("saved"):
                text = text.replace("saved", f"saved as your server in {paths.config_file().name}", 1)
            self._base.hints.show(" · ".join(filter(None, (text and f"settings: {text}", key))))

        await _save(self._base, before, used, report)


class ModelDownload:
    """A download of a suggested model, which outlives the dialog that started it."""

    def __init__(self, app: CommandApp, choice: ModelChoice, suggestion: Suggestion, *, with_ollama: bool) -> None:
        self._app, self._choice, self._suggestion = app, choice, suggestion
        self._dialog: ServerDialog | None = None
        self._wire: Wire | None = None
        sources = suggestion.sources
        if with_ollama:
            self._wire = choice.new_wire()
            sources = (OllamaSource(name=suggestion.ollama),)
        self._job = GetModel(sources, self._report, typed=suggestion.name, ollama=self._wire)
        self._tenth, self._note = 0, ""

    def show_in(self, dialog: ServerDialog | None) -> None:
        """Show the progress in this dialog; None: as hints."""
        self._dialog = dialog
        if dialog is not None:
            dialog.show_download(self._view())

    def _view(self) -> DownloadView:
        progress = self._job.progress
        share = progress.done / progress.total if progress.total else None
        title = f"Downloading {self._suggestion.title}"
        return DownloadView(title, share, describe_progress(progress) if progress.done else "starting …", self._note)

    def _report(self, progress: Progress) -> None:
        self._note = progress.note
        tenth = 10 * progress.done // progress.total if progress.total else 0
        if self._dialog is not None:
            self._dialog.show_download(self._view())
        elif tenth != self._tenth:
            self._app.hints.show(f"{self._suggestion.title}: {describe_progress(progress)}")
        self._tenth = tenth

    async def run(self) -> None:
        """Download the model and use it, unless the user has found another one meanwhile."""
        problem, result, saved = "", "", list[str]()
        try:
            file = await self._job.run()
            name, provider = (file.name, "local") if file is not None else (self._suggestion.ollama, "ollama")
            if provider == "local" and not engine_installed():
                problem = f"{name} is downloaded. {NOT_INSTALLED.format(folder=sys.prefix)} Type: {INSTALL}"
            elif self._dialog is None and self._choice.fault is None:
                result = f"{name} is downloaded · `tui-agent --provider {provider} --model {name}` uses it"
            else:
                result = f"{name} answers from the next message"
                problem = await use_model(self._app, self._choice, name, provider, saved.append)
        except DownloadFailed as error:
            problem = str(error)
        finally:
            self._app.download = None
            if self._wire is not None:
                await self._wire.aclose()
        if self._dialog is not None:
            self._dialog.end_download(problem)
        if problem and self._dialog is None:
            self._app.hints.show(one_line(problem, 400))
        elif not problem:
            self._app.hints.show(" · ".join([result, *(f"settings: {text}" for text in saved if text)]))


NOT_INSTALLED = (
    "The local engine, which runs models from files, is not installed in {folder}. Install it and start again."
)


def _server_option(server: FoundServer) -> ModelOption:
    return ModelOption("server", server.base_url, f"{server.name} at {server.base_url}", server.problem)


def _ways_on_this_machine() -> list[ModelOption]:
    """Return the models on this machine, and those that fit it. Blocks for some milliseconds."""
    local = library.local_files()
    files = [ModelOption("file", file.name, file.name, f"{file_size(file.size)}, here") for file in local]
    names = {file.path.name for file in local}
    parts = {state.source: (state, size) for state, size in incomplete_files()}
    for one in suggest(read_memory()):
        if one.file in names:
            continue
        label, facts = f"Get {one.title}", f"{file_size(one.size)}, {one.license}"
        if one.name in parts:
            state, size = parts[one.name]
            label = f"Continue with {one.title}"
            facts = f"{100 * size // state.size}% of {file_size(state.size)}" if state.size else file_size(size)
        files.append(ModelOption("get", one.name, label, facts, one.expect))
    return files


def _question(one: Suggestion, *, with_ollama: bool) -> list[str]:
    """Return what the user should know before the download."""
    free = "" if with_ollama else f" {file_size(free_space())} are free on the disk."
    lines = [
        f"Download {one.title}{' with Ollama' if with_ollama else ''}?",
        f"{file_size(one.size)}, license {one.license}; it takes about {file_size(one.memory)} of memory.{free}",
        one.expect,
    ]
    if not with_ollama and not engine_installed():
        lines.append(f"{NOT_INSTALLED.format(folder=sys.prefix)} Type: {INSTALL}")
    return lines


def settings_for(server: FoundServer, before: Settings) -> Settings:
    """Return the settings that name a server of the list, with its own token or, if nobody named it, with none."""
    if server.configured and not server.setting:
        return before
    update: dict[str, Any] = {"base_url": server.base_url, "provider": server.provider, "model": None}
    own = before.servers.get(server.setting)
    if own is None:
        return before.model_copy(update=update | {"token_env": "", "token_file": None})
    update |= {"base_url": own.base_url, "provider": own.kind}
    return before.model_copy(update=update | {"token_env": own.token_env or "", "token_file": own.token_file})


def _configured_server(settings: Settings) -> tuple[str, str]:
    """Return address and provider of the server that the settings name."""
    try:
        chosen = resolve_provider(configured=settings.provider, base_url=settings.base_url, model=settings.model)
        return endpoint(chosen.base_url, None, {}).base if chosen.base_url else "", chosen.provider
    except BadAddress:
        return "", settings.provider or "openai"


async def use_model(
    app: CommandApp, choice: ModelChoice, name: str, provider: str, report: Callable[[str], object]
) -> str:
    """Use a model from the next message on, and write it to the settings; return why that failed, or ""."""
    loaded = app.preferences.loaded
    assert loaded is not None
    before = loaded.settings
    used = before.model_copy(update={"provider": provider, "model": name})
    if problem := await choice.use_settings(used, moves=True):
        return problem
    await _save(app, before, used, report)
    return ""


async def _save(app: CommandApp, before: Settings, used: Settings, report: Callable[[str], object]) -> None:
    """Write what changed to the settings."""
    changed = {
        name: getattr(used, name)
        for name in ("base_url", "provider", "model", "token_env", "token_file")
        if getattr(used, name) != getattr(before, name) and not (name == "provider" and _is_implied(before, used))
    }
    if changed:
        await SettingsFile(app, paths.config_file()).change(changed, report, apply=False)
    else:
        report("")


def _is_silent(fault: Fault) -> bool:
    """Return whether no server answered; one of another kind answers with a status."""
    return fault.kind == "unreachable" and fault.status is None


def _is_implied(before: Settings, used: Settings) -> bool:
    """Return whether the address implies the provider, so that it need not be written."""
    is_v1 = (used.base_url or "").endswith("/v1")
    is_openai = is_v1 or bool(os.environ.get("LLM_BASE_URL", "").strip())
    return before.provider is None and used.provider == ("openai" if is_openai else "ollama")
