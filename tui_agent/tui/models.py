"""`/model`: which model answers, in the session or in one of its roles (M5, M6, U4)."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from tui_agent.domain import Fault
from tui_agent.text import one_line
from widgets.model_picker import ModelPicker, RoleRow, Row
from widgets.status_line import tokens

if TYPE_CHECKING:
    from tui_agent.engine.model_choice import Candidate, ModelChoice
    from tui_agent.tui.app import TuiAgentApp

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
WORDS = {
    **{role: role for role in NAMES},
    **{said: role for role, said in NAMES.items()},
    "subagents": "explorer",
}
"""What the user may call them."""
TOGETHER = 8
"""Models whose facts are shown together."""


def show(app: TuiAgentApp, words: str) -> None:
    """`/model` opens the picker; `/model NAME` and `/model ROLE NAME` choose at once, `default` takes a role's back."""
    choice: ModelChoice | None = getattr(app.session, "models", None)
    if choice is None:
        app.hints.say("the model can't be changed here")
        return
    first, _, rest = words.partition(" ")
    role = WORDS.get(first.lower(), "")
    name = rest.strip() if role else words.strip()
    if role and not name:
        app.hints.say(f"/model {first} takes the name of a model, or `default`")
    elif name:
        _do(app, _choose(app, choice, role or SESSION, name))
    else:
        Models(app, choice).begin()


async def _choose(app: TuiAgentApp, choice: ModelChoice, role: str, name: str) -> None:
    taken = "" if role != SESSION and name.lower() == "default" else name
    problem = await choice.choose(role, taken)
    app.hints.say(one_line(problem, 300) if problem else _done(role, taken))


def _done(role: str, name: str) -> str:
    shown = one_line(name, 60)
    if role == SESSION:
        return f"{shown} answers from the next message on"
    return f"{NAMES[role]}: {shown or 'as it was set up'}"


def _do(app: TuiAgentApp, job: Coroutine[Any, Any, None]) -> None:
    """Do it behind the screen."""

    async def guarded() -> None:
        from tui_agent.engine.stream import JournalBroken

        try:
            await job
        except JournalBroken as error:
            app.hints.say(str(error))
        except Exception as error:  # the last net: whatever it is, the user gets a sentence
            app.fail(error)

    app.run_worker(guarded(), exit_on_error=False)


class Models:
    """What the picker wants, asked of the session and its server."""

    def __init__(self, app: TuiAgentApp, choice: ModelChoice) -> None:
        self.app = app
        self._choice = choice
        self.picker = ModelPicker(self, where=choice.endpoint)
        self._known: dict[str, Candidate] = {}
        self._model = ""
        """The session's."""
        self._window: int | None = None
        self._news = 0
        self._busy = False
        self._closed = False

    def begin(self) -> None:
        """Show the picker, and fill it."""
        _do(self.app, self._begin())

    async def _begin(self) -> None:
        await self.app.push_screen(self.picker)
        found = await self._choice.listed()
        if isinstance(found, Fault):
            self.picker.show_rows((), one_line(f"{found.message} {found.advice}", 400))
            return
        if not found:
            pull = (
                " Pull one first, such as `ollama pull qwen2.5-coder:7b`."
                if self._choice.provider == "ollama"
                else ""
            )
            self.picker.show_rows((), f"{self._choice.endpoint} has no models.{pull}")
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
        if not self._closed:
            self.picker.show_rows([_row(one) for one in self._known.values()])

    async def _show_roles(self) -> None:
        current = await self._choice.current()
        self._model, self._window = current["execution"][0], await self._choice.window()
        rows = []
        for role, (model, own) in current.items():
            why = "chosen here" if own else "" if role == SESSION else "set up for it"
            if role != SESSION and model == self._model and not own:
                why = "the session's"
            rows.append(RoleRow(role, NAMES[role], model, why, own))
        self.picker.show_roles(rows)

    # --- what the picker wants ---

    def outlook(self, role: str, name: str) -> Sequence[str]:
        """See ModelDoor."""
        from tui_agent.engine.model_choice import outlook

        now, used = self._known.get(self._model), self.app.view.context_used
        return outlook(
            now, self._known[name], role=role, window=self._window, used=used, provider=self._choice.provider
        )

    def choose(self, role: str, name: str) -> None:
        """See ModelDoor."""
        if not self._busy:
            self._busy = True
            self.picker.say(f"Asking {self._choice.endpoint} …")
            _do(self.app, self._choose(role, name))
        else:
            self.picker.say("still asking about the model chosen before")

    async def _choose(self, role: str, name: str) -> None:
        try:
            problem = await self._choice.choose(role, name)
        finally:
            self._busy = False
        if problem or self._closed:
            self._say(problem or _done(role, name))
        elif role == SESSION:
            self.app.hints.say(_done(role, name))
            self.picker.dismiss()
        else:
            await self._show_roles()
            self._say(_done(role, name))

    def _say(self, text: str) -> None:
        if self._closed:
            self.app.hints.say(one_line(text, 300))
        else:
            self.picker.say(text)

    def closed(self) -> None:
        """See ModelDoor."""
        self._closed = True


# --- words ----------------------------------------------------------------------------------


def _row(one: Candidate) -> Row:
    if not one.known:
        return Row(one.name, one.label, "…")
    if one.problem:
        return Row(one.name, one.label, "not known")
    if not one.answers:
        return Row(one.name, one.label, "embeddings only", "", one.build)
    words = [
        said for said, able in (("tools", one.tools), ("thinking", one.thinks), ("vision", one.sees)) if able
    ]
    able = " ".join(words) if one.tools is not None else "not told"
    return Row(
        one.name, one.label, able, "" if one.window is None else tokens(one.window), one.build, one.loaded
    )
