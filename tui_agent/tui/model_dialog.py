"""`/model`: which model answers, in the session or in one of its roles (M5, M6, U4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui_agent.common.domain import Fault
from tui_agent.engine.core.stream import JournalBroken
from tui_agent.text import one_line
from tui_agent.tui.base_app import BaseApp
from widgets.model_picker import ModelPicker, ModelRow, RoleRow
from widgets.status_line import format_tokens

if TYPE_CHECKING:
    from tui_agent.engine.models.roles import Candidate, ModelChoice

SESSION = "execution"
"""The role that is the session's own."""
NAMES = {
    SESSION: "session",
    "planning": "planning",
    "dispatcher": "dispatcher",
    "summary": "summary",
    "title": "title",
    "explorer": "sub-agents",
}
"""What the roles are called on the screen."""
WORDS = {**{role: role for role in NAMES}, **{said: role for role, said in NAMES.items()}, "subagents": "explorer"}
"""What the user may call them."""
TOGETHER = 8
"""Models whose facts are shown together."""


def show_models(app: BaseApp, words: str) -> None:
    """`/model` opens the picker; `/model NAME` and `/model ROLE NAME` choose at once, `default` takes a role's back."""
    choice: ModelChoice | None = getattr(app.session, "models", None)
    if choice is None:
        app.hints.show("the model can't be changed here")
        return
    first, _, rest = words.partition(" ")
    role = WORDS.get(first.lower(), "")
    name = rest.strip() if role else words.strip()
    if role and not name:
        app.hints.show(f"/model {first} needs a model name or `default`")
    elif name:
        app.work(_choose, app, choice, role or SESSION, name, expected=(JournalBroken,))
    else:
        app.work(ModelDialog(app, choice).fill, expected=(JournalBroken,))


async def _choose(app: BaseApp, choice: ModelChoice, role: str, name: str) -> None:
    taken = "" if role != SESSION and name.lower() == "default" else name
    problem = await choice.choose(role, taken)
    app.hints.show(one_line(problem, 300) if problem else _result_message(role, taken))


def _result_message(role: str, name: str) -> str:
    shown = one_line(name, 60)
    if role == SESSION:
        return f"{shown} answers from the next message"
    return f"{NAMES[role]}: {shown or 'the configured one'}"


class ModelDialog(ModelPicker):
    """The model picker with the models of the session and its server."""

    def __init__(self, app: BaseApp, choice: ModelChoice) -> None:
        super().__init__(where=choice.endpoint)
        self._base = app
        self._choice = choice
        self._known: dict[str, Candidate] = {}
        self._model = ""
        """The session's."""
        self._window: int | None = None
        self._news = 0
        self._busy = False
        self._gone = False

    async def fill(self) -> None:
        """Show the picker, and fill it."""
        await self._base.push_screen(self)
        found = await self._choice.listed()
        if isinstance(found, Fault):
            self.show_rows((), one_line(f"{found.message} {found.advice}", 400))
            return
        if not found:
            pull = (
                " Pull one first, such as `ollama pull qwen2.5-coder:7b`." if self._choice.provider == "ollama" else ""
            )
            self.show_rows((), f"{self._choice.endpoint} has no models.{pull}")
            return
        self._known = {one.name: one for one in found}
        await self._show_roles()
        self._show()
        await self._choice.describe(list(self._known), self._learn)
        self._show()

    def _learn(self, one: Candidate) -> None:
        self._known[one.name] = one
        self._news += 1
        if self._news % TOGETHER == 1:
            self._show()

    def _show(self) -> None:
        if not self._gone:
            self.show_rows([_row(one) for one in self._known.values()])

    async def _show_roles(self) -> None:
        current = await self._choice.current()
        self._model, self._window = current["execution"][0], await self._choice.window()
        rows = []
        for role, (model, own) in current.items():
            why = "chosen here" if own else "" if role == SESSION else "configured"
            if role != SESSION and model == self._model and not own:
                why = "the session's"
            rows.append(RoleRow(role, NAMES[role], model, why, own))
        self.show_roles(rows)

    # --- what the user wants ---

    def outlook(self, role: str, name: str) -> Sequence[str]:
        """See ModelPicker."""
        from tui_agent.engine.models.roles import outlook

        now, used = self._known.get(self._model), self._base.view.context_used
        return outlook(
            now, self._known[name], role=role, window=self._window, used=used, provider=self._choice.provider
        )

    def choose(self, role: str, name: str) -> None:
        """See ModelPicker."""
        if not self._busy:
            self._busy = True
            self.say(f"Asking {self._choice.endpoint} …")
            self._base.work(self._choose, role, name, expected=(JournalBroken,))
        else:
            self.say("still checking the previously chosen model")

    async def _choose(self, role: str, name: str) -> None:
        try:
            problem = await self._choice.choose(role, name)
        finally:
            self._busy = False
        if problem or self._gone:
            self._say(problem or _result_message(role, name))
        elif role == SESSION:
            self._base.hints.show(_result_message(role, name))
            self.dismiss()
        else:
            await self._show_roles()
            self._say(_result_message(role, name))

    def _say(self, text: str) -> None:
        if self._gone:
            self._base.hints.show(one_line(text, 300))
        else:
            self.say(text)

    def on_unmount(self) -> None:
        """What is answered now is told elsewhere."""
        self._gone = True


# --- words ----------------------------------------------------------------------------------


def _row(one: Candidate) -> ModelRow:
    if not one.known:
        return ModelRow(one.name, one.label, "…")
    if one.problem:
        return ModelRow(one.name, one.label, "not known")
    if not one.answers:
        return ModelRow(one.name, one.label, "embeddings only", "", one.build)
    words = [said for said, able in (("tools", one.tools), ("thinking", one.thinks), ("vision", one.sees)) if able]
    able = " ".join(words) if one.tools is not None else "not reported"
    return ModelRow(
        one.name, one.label, able, "" if one.window is None else format_tokens(one.window), one.build, one.loaded
    )
