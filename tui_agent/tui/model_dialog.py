"""`/model`: chooses the model of the session or of one of its roles (M5, M6, U4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tui_agent.common.domain import Fault
from tui_agent.common.errors import JournalBroken
from tui_agent.text import one_line
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
    elif (fault := choice.fault) is not None and fault.kind == "unreachable":
        from tui_agent.tui.server_dialog import ServerDialog

        app.push_screen(ServerDialog(app, f"{fault.message} {fault.advice}".strip()))
    else:
        app.work(ModelDialog(app, choice).fill, expected=(JournalBroken,))


async def _choose(app: BaseApp, choice: ModelChoice, role: str, name: str) -> None:
    name = "" if role != SESSION and name.lower() == "default" else name
    problem = await choice.choose(role, name)
    app.hints.show(one_line(problem, 300) if problem else _result_message(role, name))


def _result_message(role: str, name: str) -> str:
    label = one_line(name, 60)
    if role == SESSION:
        return f"{label} answers from the next message"
    return f"{ROLE_NAMES[role]}: {label or 'the configured one'}"


class ModelDialog(ModelPicker):
    """The model picker, filled with the roles of the session and the models of its server."""

    def __init__(self, app: BaseApp, choice: ModelChoice) -> None:
        super().__init__(endpoint=choice.endpoint)
        self._base = app
        self._choice = choice
        self._candidates: dict[str, Candidate] = {}
        self._session_model = ""
        self._window: int | None = None
        self._described = 0
        self._busy = False
        self._closed = False

    async def fill(self) -> None:
        """Open the picker, list the models, then describe them one by one."""
        await self._base.push_screen(self)
        candidates = await self._choice.listed()
        if isinstance(candidates, Fault):
            self.show_rows((), one_line(f"{candidates.message} {candidates.advice}", 400))
            return
        if not candidates:
            pull = (
                " Pull one first, such as `ollama pull qwen2.5-coder:7b`." if self._choice.provider == "ollama" else ""
            )
            self.show_rows((), f"{self._choice.endpoint} has no models.{pull}")
            return
        self._candidates = {candidate.name: candidate for candidate in candidates}
        await self._show_roles()
        self._show_models()
        await self._choice.describe(list(self._candidates), self._on_described)
        self._show_models()

    def _on_described(self, candidate: Candidate) -> None:
        self._candidates[candidate.name] = candidate
        self._described += 1
        if self._described % UPDATE_EVERY == 1:
            self._show_models()

    def _show_models(self) -> None:
        if not self._closed:
            self.show_rows([_row(candidate) for candidate in self._candidates.values()])

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

    # --- ModelPicker's hooks ---

    def outlook(self, role: str, name: str) -> Sequence[str]:
        """Return what would change with this model."""
        from tui_agent.engine.models.choice import consequences

        current, used = self._candidates.get(self._session_model), self._base.view.context_used
        return consequences(current, self._candidates[name], role=role, window=self._window, used=used)

    def choose(self, role: str, name: str) -> None:
        """Check the model and give it the role."""
        if not self._busy:
            self._busy = True
            self.show_message(f"Asking {self._choice.endpoint} …")
            self._base.work(self._choose, role, name, expected=(JournalBroken,))
        else:
            self.show_message("still checking the previously chosen model")

    async def _choose(self, role: str, name: str) -> None:
        try:
            problem = await self._choice.choose(role, name)
        finally:
            self._busy = False
        if problem or self._closed:
            self._report(problem or _result_message(role, name))
        elif role == SESSION:
            self._base.hints.show(_result_message(role, name))
            self.dismiss()
        else:
            await self._show_roles()
            self._report(_result_message(role, name))

    def _report(self, text: str) -> None:
        if self._closed:
            self._base.hints.show(one_line(text, 300))
        else:
            self.show_message(text)

    def on_unmount(self) -> None:
        """Report later results as hints."""
        self._closed = True


def _row(model: Candidate) -> ModelRow:
    if not model.described:
        return ModelRow(model.name, model.label, "…")
    if model.problem:
        return ModelRow(model.name, model.label, "not known")
    if not model.answers:
        return ModelRow(model.name, model.label, "embeddings only", "", model.build)
    abilities = {"tools": model.tools, "thinking": model.thinks, "vision": model.sees}
    text = "not reported" if model.tools is None else " ".join(name for name, present in abilities.items() if present)
    window = "" if model.window is None else format_tokens(model.window)
    return ModelRow(model.name, model.label, text, window, model.build)
