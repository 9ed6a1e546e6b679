"""Connects the session to another model server, from the screen for a missing model (G2)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tui_agent.common import paths
from tui_agent.common.domain import Fault
from tui_agent.common.errors import JournalBroken
from tui_agent.models.endpoint import is_local
from tui_agent.text import one_line
from tui_agent.tui.settings_file import SettingsFile
from widgets.first_run import OLLAMA_COMMANDS, FieldName, FirstRun, ServerValues

if TYPE_CHECKING:
    from tui_agent.engine.models.choice import ModelChoice
    from tui_agent.settings import Settings
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
        self._busy = self._closed = False
        url = self._choice.endpoint if self._choice is not None and self._choice.provider != "scripted" else ""
        model = (loaded.settings.model or "") if loaded is not None else ""
        self._configured = url, self._choice.provider if self._choice is not None else "ollama"
        """Address and provider of the settings."""
        super().__init__(self._explain(explanation), url=url, model=model, field=self._field(), **guard)
        self.commands = self._commands()

    @property
    def _fault(self) -> Fault | None:
        return self._choice.fault if self._choice is not None else None

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
        if fault is None or fault.kind == "unreachable":
            return "url"  # also if another kind of server answers
        return "key" if fault.is_unauthorized else "model"

    def _commands(self) -> tuple[str, ...]:
        """Return commands that help with Ollama, if it does not run or has no model."""
        fault, choice = self._fault, self._choice
        is_ollama = choice is None or choice.provider == "ollama"
        return OLLAMA_COMMANDS if is_ollama and (fault is None or _is_silent(fault)) else ()

    def on_mount(self) -> None:
        """List the models of a server that answers."""
        if self._fault is not None and self._field() == "model":
            self._base.work(self._list_models)

    def on_unmount(self) -> None:
        """Report later results as hints."""
        self._closed = True

    async def _list_models(self) -> bool:
        """List the models of the server; return whether it answers."""
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
            self._busy = True
            self.show_message(f"Asking {values.url or 'the server'} …")
            settings = self._base.preferences.loaded.settings
            self._base.work(self._connect, self._choice, settings, values, expected=(JournalBroken,))

    async def _connect(self, choice: ModelChoice, settings: Settings, values: ServerValues) -> None:
        problem, used = "", settings
        try:
            for used in self._candidates(settings, values):
                problem = await choice.use_settings(used, values.key)
                fault = choice.fault
                if not problem or fault is None or _is_silent(fault) or fault.is_unauthorized:
                    break
                if await self._list_models():
                    break
        finally:
            self._busy = False
            self.show_message("")
        if problem and self._closed:
            self._base.hints.show(one_line(problem, 300))
        elif problem:
            self.show_problem(self._explain(problem), self._field(), self._commands())
        else:
            await self._use(choice, settings, used, values)

    def _candidates(self, settings: Settings, values: ServerValues) -> list[Settings]:
        """Return the settings to try: as Ollama, and as a server that speaks OpenAI's protocol."""
        url, (configured, provider) = values.url.rstrip("/"), self._configured
        if url and "://" not in url:
            url = ("http://" if is_local(urlsplit(f"//{url}").hostname or "") else "https://") + url
        tried: list[tuple[str, str | None]] = [("ollama", url)]
        if not url or url == configured:
            tried = [(provider, settings.base_url)]
        elif url.endswith("/v1"):
            tried = []
        if url and tried[:1] != [("openai", settings.base_url)]:
            tried.append(("openai", f"{url.removesuffix('/v1')}/v1"))
        update = {"model": values.model or None}
        return [
            settings.model_copy(update=update | {"base_url": address, "provider": provider})
            for provider, address in tried
        ]

    async def _use(self, choice: ModelChoice, before: Settings, used: Settings, values: ServerValues) -> None:
        """Close, and write what changed to the settings; the key is only kept in memory."""
        if not self._closed:
            self.dismiss()
        key = "the key is forgotten when you quit: LLM_AUTH_TOKEN keeps it" if values.key else ""
        changed = {
            name: getattr(used, name)
            for name in ("base_url", "provider", "model")
            if getattr(used, name) != getattr(before, name) and not (name == "provider" and _is_implied(before, used))
        }
        if not changed:
            self._base.hints.show(key)
            return

        def report(text: str) -> None:
            self._base.hints.show(" · ".join(filter(None, (f"settings: {text}", key))))

        await SettingsFile(self._base, paths.config_file()).change(changed, report, apply=False)


def _is_silent(fault: Fault) -> bool:
    """Return whether no server answered; one of another kind answers with a status."""
    return fault.kind == "unreachable" and fault.status is None


def _is_implied(before: Settings, used: Settings) -> bool:
    """Return whether the address implies the provider, so that it need not be written."""
    is_v1 = (used.base_url or "").endswith("/v1")
    is_openai = is_v1 or bool(os.environ.get("LLM_BASE_URL", "").strip())
    return before.provider is None and used.provider == ("openai" if is_openai else "ollama")
