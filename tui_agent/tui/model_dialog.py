"""`/model`: chooses the model of the session or of one of its roles (M5, M6, U4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tui_agent.common.domain import Fault
from tui_agent.common.errors import JournalBroken
from tui_agent.models.base import LOCAL_ENGINE, first_model_advice, model_owner
from tui_agent.models.discovery import LOADING_KINDS, LOCAL, FoundServer
from tui_agent.models.openai_info import SLEEPING
from tui_agent.text import one_line, pluralize
from tui_agent.tui.base_app import BaseApp
from widgets.model_picker import ModelPicker, ModelRow, RoleRow
from widgets.status_line import format_tokens

if TYPE_CHECKING:
    from tui_agent.engine.models.choice import Candidate, ModelChoice
    from tui_agent.tui.commands import CommandApp

SESSION: Final = "execution"
"""The role of the session's own model."""
ROLE_NAMES = {
    SESSION: "session",
    "planning": "planning",
    "dispatcher": "dispatcher",
    "summary": "summary",
    "title": "title",
    "explorer": "sub-agents",
}
"""Roles as shown on the screen."""
ROLES_BY_NAME = {**{role: role for role in ROLE_NAMES}, **{name: role for role, name in ROLE_NAMES.items()}} | {
    "subagents": "explorer"
}
"""Roles as the user may write them."""
UPDATE_EVERY = 8
"""Number of described models after which the list is repainted."""


def show_models(app: CommandApp, arguments: str) -> None:
    """Open the picker, or choose at once with `NAME` or `ROLE NAME`; `ROLE default` resets a role.

    Without a server, open the screen for a missing model.
    """
    choice: ModelChoice | None = getattr(app.session, "models", None)
    if choice is None:
        app.hints.show("the model can't be changed here")
        return
    first, _, rest = arguments.partition(" ")
    role = ROLES_BY_NAME.get(first.lower(), "")
    name = rest.strip() if role else arguments.strip()
    if role and not name:
        app.hints.show(f"/model {first} needs a model name or `default`")
    elif name:
        app.work(_choose, app, choice, role or SESSION, name, expected=(JournalBroken,))
    else:
        app.work(_open, app, choice, expected=(JournalBroken,))


async def _open(app: CommandApp, choice: ModelChoice) -> None:
    """Open the picker, or the screen for a missing model if no server answers."""
    fault = choice.fault
    if fault is not None and fault.kind == "unreachable":
        others = [server for server in await choice.servers() if not choice.is_current(server)]
        if all(server.problem for server in others):
            from tui_agent.tui.server_dialog import ServerDialog

            app.push_screen(ServerDialog(app, f"{fault.message} {fault.advice}".strip()))
            return
    await ModelDialog(app, choice).fill()


async def _choose(app: BaseApp, choice: ModelChoice, role: str, name: str) -> None:
    name = "" if role != SESSION and name.lower() == "default" else name
    problem = await choice.choose(role, name)
    app.hints.show(one_line(problem, 300) if problem else _result_message(role, name))


def _result_message(role: str, name: str) -> str:
    label = one_line(name, 60)
    if role == SESSION:
        return f"{label} answers from the next message"
    return f"{ROLE_NAMES[role]}: {label or 'the configured one'}"


class ServerModels:
    """The models of one server, as far as they are known."""

    def __init__(self, server: FoundServer | None = None) -> None:
        """`server` None: the session's own, until the servers were looked for."""
        self.server = server
        self.candidates: dict[str, Candidate] = {}
        self.note = "…"
        """Why there are no candidates."""


class ModelDialog(ModelPicker):
    """The model picker, filled with the roles of the session and the models of all servers."""

    def __init__(self, app: CommandApp, choice: ModelChoice) -> None:
        super().__init__(endpoint=choice.endpoint)
        self._base = app
        self._choice = choice
        self._own = ServerModels()
        self._others: list[ServerModels] = []
        self._session_model = ""
        self._window: int | None = None
        self._described = 0
        self._busy = self._is_gone = False
        self._search: asyncio.Future[Any] | None = None

    async def fill(self) -> None:
        """Open the picker, and list the models."""
        await self._base.push_screen(self)
        await self._fill()

    async def _fill(self, *, fresh: bool = False) -> None:
        """List the models of the session's server and, at the same time, those of the others; then describe them one by
        one. A server that does not answer delays no other. Ends a search that is still running."""
        if self._search is not None:
            self._search.cancel()
        self._search = search = asyncio.gather(self._fill_own(), self._fill_others(fresh))
        try:
            await search
        except asyncio.CancelledError:
            if self._search is search:
                raise

    async def _fill_own(self) -> None:
        candidates = await self._choice.listed()
        if isinstance(candidates, Fault):
            self._own.note = one_line(f"{candidates.message} {candidates.advice}", 400)
            self._own.candidates = {}
        else:
            self._own.candidates = {candidate.name: candidate for candidate in candidates}
            self._own.note = "" if candidates else self._no_models()
            if candidates or self._others:
                await self._show_roles()
        self._show_models()
        if self._own.candidates:
            await self._choice.describe(list(self._own.candidates), partial(self._on_described, self._own))
            self._show_models()

    def _no_models(self) -> str:
        provider = self._choice.provider
        return f"{model_owner(provider, self._choice.endpoint)} has no models. {first_model_advice(provider)}"

    async def _fill_others(self, fresh: bool) -> None:
        servers = await self._choice.servers(fresh=fresh)
        before = {others.server.name: others for others in self._others if others.server is not None}
        self._others = []
        for server in servers:
            if self._choice.is_current(server):
                self._own.server = server
                continue
            models = before.get(server.name) or ServerModels()
            models.server = server
            if server.problem:
                models.note, models.candidates = server.problem, {}
            self._others.append(models)
        self._show_models()
        await asyncio.gather(*(self._fill_other(models) for models in self._others))

    async def _fill_other(self, models: ServerModels) -> None:
        server = models.server
        if server is None or not server.may_answer:
            return
        candidates = await self._choice.listed(server)
        if isinstance(candidates, Fault):
            models.note, models.candidates = one_line(candidates.message, 300), {}
        else:
            models.note = "" if candidates else "has no models"
            models.candidates = {candidate.name: candidate for candidate in candidates}
        self._show_models()
        if models.candidates:
            await self._choice.describe(list(models.candidates), partial(self._on_described, models), server)
            self._show_models()

    def _on_described(self, models: ServerModels, candidate: Candidate) -> None:
        models.candidates[candidate.name] = candidate
        self._described += 1
        if self._described % UPDATE_EVERY == 1:
            self._show_models()

    def _show_models(self) -> None:
        if self._is_gone:
            return
        if not self._others:
            rows = [_row(candidate, self._own.server) for candidate in self._own.candidates.values()]
            if rows or self._own.note != "…":
                self.show_rows(rows, self._own.note)
            return
        if not self.role_rows:  # the session's server may be dead or slow: its model can be chosen on the others
            self.show_roles([RoleRow(SESSION, ROLE_NAMES[SESSION], self._base.view.model, "")])
        self.sub_title = pluralize(1 + len(self._others), "server")
        rows = []
        for models in (self._own, *self._others):
            name = models.server.name if models.server is not None and models is not self._own else ""
            group = [_row(candidate, models.server, name) for candidate in models.candidates.values()]
            group = group or [ModelRow("", server=name, note=models.note)]
            rows += [group[0]._replace(heading=self._heading(models)), *group[1:]]
        self.show_rows(rows)

    def _heading(self, models: ServerModels) -> str:
        """Name a server: its name in the settings, its kind, version and address."""
        server = models.server
        if server is None:
            return self._choice.endpoint
        kind = f"{server.kind} {server.version}".strip()
        address = server.base_url.partition("://")[2].removesuffix("/v1")
        return " · ".join(filter(None, (server.setting, kind, address)))

    async def _show_roles(self) -> None:
        current = await self._choice.current()
        self._session_model, self._window = current[SESSION][0], await self._choice.window()
        rows = []
        for role, (model, own) in current.items():
            source = "chosen here" if own else "" if role == SESSION else "configured"
            if role != SESSION and model == self._session_model and not own:
                source = "the session's"
            rows.append(RoleRow(role, ROLE_NAMES[role], model, source, own))
        self.show_roles(rows)

    def _candidate(self, row: ModelRow) -> tuple[ServerModels, Candidate] | None:
        for models in (self._own, *self._others):
            name = models.server.name if models.server is not None and models is not self._own else ""
            if name == row.server and row.name in models.candidates:
                return models, models.candidates[row.name]
        return None

    # --- ModelPicker's hooks ---

    def outlook(self, role: str, row: ModelRow) -> Sequence[str]:
        """Return what would change with this model."""
        from tui_agent.engine.models.choice import consequences

        if (found := self._candidate(row)) is None:
            return ()
        models, candidate = found
        current, used = self._own.candidates.get(self._session_model), self._base.view.context_used
        sentences = consequences(current, candidate, role=role, window=self._window, used=used)
        if models is not self._own and role == SESSION and not candidate.problem:
            return [f"The session moves to {_in_words(row.server)}.", *sentences]
        return sentences

    def choose(self, role: str, name: str, server: str = "") -> None:
        """Check the model and give it the role."""
        if not self._busy:
            self._busy = True
            self.show_message(f"Asking {_in_words(server) or self._choice.endpoint} …")
            self._base.work(self._choose, role, name, server, expected=(JournalBroken,))
        else:
            self.show_message("still checking the previously chosen model")

    async def _choose(self, role: str, name: str, server: str) -> None:
        try:
            problem = await self._choice.choose(role, name, server)
        finally:
            self._busy = False
        if problem or self._is_gone:
            self._report(problem or _result_message(role, name))
        elif role == SESSION:
            self._base.hints.show(_result_message(role, name))
            self.dismiss()
        else:
            await self._show_roles()
            self._report(_result_message(role, name))

    def risk(self, row: ModelRow) -> str:
        """Say that a model in use would be, or might be, removed from memory."""
        used = {role.model for role in self.role_rows}
        if row.server:
            return ""
        if row.loaded:
            return f"{row.name} is in use here." if row.name in used else ""
        others = [name for name in used if (model := self._own.candidates.get(name)) is not None and model.loaded]
        return f"{others[0]} is in use here and may be removed from memory." if others else ""

    def set_loaded(self, row: ModelRow, wanted: bool) -> None:
        """Load or unload a model, and show its state then."""
        if self._busy:
            self.show_message("still busy with the previous one")
        elif (found := self._candidate(row)) is not None:
            self._busy = True
            self._base.work(self._set_loaded, *found, wanted)

    async def _set_loaded(self, models: ServerModels, candidate: Candidate, wanted: bool) -> None:
        models.candidates[candidate.name] = msgspec.structs.replace(
            candidate, state="loading …" if wanted else "unloading …"
        )
        self._show_models()
        try:
            problem = await self._choice.set_loaded(candidate, wanted)
        finally:
            self._busy = False
            models.candidates[candidate.name] = candidate
        names = [name for name, other in models.candidates.items() if other.loaded or name == candidate.name]
        server = None if models is self._own else models.server
        await self._choice.describe(names, partial(self._on_described, models), server)
        self._show_models()
        self._report(problem or f"{candidate.name} is {'loaded' if wanted else 'no longer in memory'}")

    def reload(self) -> None:
        """Look for servers and models again."""
        self._base.work(partial(self._fill, fresh=True), expected=(JournalBroken,))
        self.show_message("Asking the servers …")

    def get_model(self) -> None:
        """Open the screen that downloads models and connects to servers."""
        from tui_agent.tui.server_dialog import ServerDialog

        dialog = ServerDialog(self._base, "Download a model, use a file, or connect to another server.")
        dialog.heading = "Get a model"
        self.dismiss()
        self._base.push_screen(dialog)

    def _report(self, text: str) -> None:
        if self._is_gone:
            self._base.hints.show(one_line(text, 300))
        else:
            self.show_message(text)

    def on_unmount(self) -> None:
        """Report later results as hints."""
        self._is_gone = True


def _in_words(server: str) -> str:
    """Return the name of a server for a sentence."""
    return LOCAL_ENGINE if server == LOCAL else server


def _row(model: Candidate, server: FoundServer | None, name: str = "") -> ModelRow:
    """Return the row of a model; `name` is that of its server, empty for the session's own."""
    row = ModelRow(model.name, model.label, "…", server=name)
    if not model.described:
        return row
    if model.problem:
        return row._replace(abilities="not known")
    if not model.answers:
        return row._replace(abilities="embeddings only", build=model.build)
    abilities = {"tools": model.tools, "thinking": model.thinks, "vision": model.sees}
    text = "not reported" if model.tools is None else " ".join(name for name, present in abilities.items() if present)
    state = model.state or (" · ".join(filter(None, ("loaded", model.where))) if model.loaded else "")
    changes = server is None or server.kind in LOADING_KINDS
    return row._replace(
        abilities=text,
        window="" if model.window is None else format_tokens(model.window),
        build=model.build,
        state=state,
        speed="" if model.speed is None else f"{model.speed:,.0f} tok/s",
        loaded=(model.loaded or model.state == SLEEPING) if changes else None,
    )
