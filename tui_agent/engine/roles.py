"""Which model answers, and with which window: settled once a session and model, since a change reloads it (R1.1)."""

from __future__ import annotations

from collections.abc import Callable

from tui_agent.domain import Fault
from tui_agent.engine.loop import Brain
from tui_agent.events import ModelChanged, Notice, RunEnded
from tui_agent.models.base import Model
from tui_agent.settings import Settings

NO_SERVER = "server.missing"
"""Code of the notice that no model can be had."""
WINDOW = 32_768
"""Tokens to ask for where neither settings nor model say."""
TEMPERATURE = 0.2
"""Of execution (M5)."""
SMALL_WINDOW = 16_384
"""Below this the user is warned once (R1.5)."""


def ended_by(fault: Fault) -> RunEnded:
    """How a run ends that the model's server ended."""
    text = f"{fault.message} {fault.advice}".strip()
    return RunEnded(outcome="unreachable" if fault.kind == "unreachable" else "failed", text=text)


class Roles:
    """The session's model. `brain()` settles name and window on first use and keeps them."""

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        context_window: int | None,
        settings: Settings,
        because: str,
        tell: Callable[[Notice | ModelChanged], object],
    ) -> None:
        self.model = model
        self.name = name
        self._window = context_window
        self._settings = settings
        self._because = because
        self._tell = tell
        self._brain: Brain | None = None

    async def look(self) -> None:
        """See whether the server is there and settle the model; a missing server is told with what was tried."""
        brain = await self.brain()
        if isinstance(brain, RunEnded):
            text = f"{brain.text}\nTried {self.model.endpoint}, because of {self._because}."
            self._tell(Notice(level="error", text=text, code=NO_SERVER))

    async def brain(self) -> Brain | RunEnded:
        """The model with its options, or how the run ends because there is none."""
        if self._brain is None:
            if not self.name:
                chosen = await self._choose()
                if isinstance(chosen, Fault):
                    return ended_by(chosen)
                self.name = chosen
            window = self._window or await self._settle_window()
            if isinstance(window, Fault):
                return ended_by(window)
            self._brain = Brain(
                model=self.model,
                name=self.name,
                num_ctx=window,
                temperature=self._temperature(),
                max_tokens=self._settings.caps.reply_tokens,
            )
            changed = ModelChanged(provider=self.model.provider, model=self.name, context_window=window)
            self._tell(changed)
        return self._brain

    async def _choose(self) -> str | Fault:
        names = await self.model.list_models()
        if isinstance(names, Fault):
            return names
        if not names:
            advice = "Pull one first, such as `ollama pull qwen2.5-coder:7b`, or name one with --model."
            return Fault(kind="status", message=f"{self.model.endpoint} has no models.", advice=advice)
        return next((name for name in names if "coder" in name), names[0])

    async def _settle_window(self) -> int | Fault:
        wanted = self._settings.context_window or WINDOW
        info = await self.model.describe(self.name)
        if isinstance(info, Fault):
            return info if info.kind == "unreachable" else wanted
        # Ollama loads what we ask for; another server's window is what it is.
        fixed = info.loaded_window if self.model.provider == "openai" else None
        known = fixed or info.context_window
        window = min(wanted, known) if known else wanted
        if window < SMALL_WINDOW and self.model.provider != "scripted":
            text = (
                f"{self.name} has a window of {window:,} tokens, which is little for coding work. "
                "Raise context_window in the settings, or choose a model with a larger one."
            )
            self._tell(Notice(level="warning", text=text, code="context.small"))
        return window

    def _temperature(self) -> float:
        chosen = self._settings.temperature
        return TEMPERATURE if chosen is None else chosen

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self.model.aclose()
