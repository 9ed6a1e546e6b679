"""The screen for a missing model: what was tried, fields for the server, its key and the model, and a demo (G2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message

from tui_agent.text import make_visible, one_line
from widgets.dialog_keys import Keys, held_label, key_lines
from widgets.inputs import LineInput
from widgets.line_view import LinesView
from widgets.panel import cursor_mark
from widgets.request_view import GuardedModal
from widgets.styled_text import Line, TextStyles, fit, hanging, line, wrap

FieldName: TypeAlias = Literal["url", "key", "model"]
LABELS: Final[dict[FieldName, tuple[str, str]]] = {
    "url": ("URL", "http://localhost:11434, or https://…/v1"),
    "key": ("Key", "only if the server requires one; kept in memory until you quit"),
    "model": ("Model", "the server's best one"),
}
"""Field → label, placeholder."""
OLLAMA_COMMANDS = ("ollama serve", "ollama pull qwen2.5-coder:7b")
"""Commands that start Ollama and get a model."""
MAX_MODELS = 5
"""Models of the server that are visible at once."""
FIXED_LINES = 13
"""Lines of the dialog beside the body and the models."""
KEYS = Keys("first_run")


def _paint_label(label: str, width: int, styles: TextStyles) -> list[Line]:
    return [line((fit(label, width), styles.muted))]


class ServerValues(NamedTuple):
    """What is in the fields."""

    url: str
    key: str
    model: str


class FirstRun(GuardedModal):
    """Shown once per start, before the first message. Subclasses connect to a server."""

    @dataclass
    class Picked(Message):
        """The user's choice."""

        choice: Literal["demo", "continue"]

    def __init__(
        self, explanation: str, *, url: str = "", model: str = "", field: FieldName = "url", **guard: Any
    ) -> None:
        """`url` and `model` are the initial values, `field` gets the focus; `guard` are the options of `KeyGuard`."""
        super().__init__(**guard)
        self.explanation = explanation
        self.commands: Sequence[str] = ()
        """Commands that help, if there are any."""
        self.models: Sequence[str] = ()
        """The models of the server; empty while unknown."""
        self.message = ""
        """What is happening, shown instead of the keys."""
        self._cursor = -1
        self._first_field: FieldName = field
        self.fields = {
            name: LineInput(id=f"server-{name}", placeholder=placeholder) for name, (_, placeholder) in LABELS.items()
        }
        self.fields["key"].password = True
        self.fields["url"].value, self.fields["model"].value = url, model

    def connect(self, values: ServerValues) -> None:
        """Connect to the server in the fields, or look for a model once more."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield head, explanation, fields, models and keys."""
        self.body = LinesView(self._body, id="body")
        with Vertical(id="dialog"):
            yield LinesView(self._head, id="head")
            yield self.body
            with Vertical(id="server-fields"):
                for name, (label, _) in LABELS.items():
                    with Horizontal(classes="form-row"):
                        label_view = LinesView(partial(_paint_label, label))
                        label_view.add_class("form-label")
                        yield label_view
                        yield self.fields[name]
            yield LinesView(self._models, id="server-models")
            yield LinesView(self._keys, id="keys")

    # --- painting ---

    @staticmethod
    def _head(width: int, styles: TextStyles) -> list[Line]:
        return [line(("No model yet", styles.heading))]

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        lines: list[Line] = []
        for text in make_visible(self.explanation, lookalikes=False).split("\n"):
            lines += wrap([(text, styles.text)], width)
        for command in self.commands:
            lines += hanging([("$ ", styles.accent)], [(command, styles.strong)], width, styles.text, cut=True)
        return lines

    def _models(self, width: int, styles: TextStyles) -> list[Line]:
        first = max(0, min(self._cursor - MAX_MODELS // 2, len(self.models) - MAX_MODELS))
        lines = []
        for index, name in enumerate(self.models[first : first + MAX_MODELS], start=first):
            is_selected = index == self._cursor
            text = fit(one_line(make_visible(name), 200), max(1, width - 2))
            lines.append(line(cursor_mark(is_selected, styles), (text, styles.strong if is_selected else styles.text)))
        if len(self.models) > MAX_MODELS:
            lines.append(line((f"  {len(self.models)} models on the server", styles.muted)))
        return lines

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        if self.message:
            return wrap([(one_line(self.message, 300), styles.warn)], width)[:2]
        models = [(KEYS.arrow_labels("up", "down"), "choose a model")] if self.models else []
        pairs = [
            *KEYS.hints([("retry", "connect, or retry"), ("next_field", "next field")]),
            *models,
            *KEYS.hints([("demo", "demo: a scripted model on a scratch project")]),
            ("esc", "continue without a model"),
            ("ctrl+c", "twice: quit"),
        ]
        return key_lines(pairs, width, styles, gap=3, held=held_label(self.held_key))

    def on_resize(self) -> None:
        """Limit the body to the screen."""
        rows = min(len(self.models), MAX_MODELS + 1)
        self.body.styles.max_height = max(2, self.size.height - FIXED_LINES - rows)

    # --- what is known ---

    def show_problem(self, explanation: str, field: FieldName, commands: Sequence[str] = ()) -> None:
        """Say why there is still no model, and put the focus on the field to correct."""
        self.explanation, self.commands, self.message, self._first_field = explanation, commands, "", field
        if self.is_attached:
            self.query_one("#body", LinesView).relayout()
            self.repaint_keys()
            self._focus_field(field)

    def show_models(self, names: Sequence[str]) -> None:
        """List the models of the server."""
        self.models, self._cursor = names, -1
        if self.is_attached:
            self.on_resize()
            self.query_one("#server-models", LinesView).display = bool(names)
            self.query_one("#server-models", LinesView).relayout()
            self.repaint_keys()

    def show_message(self, text: str) -> None:
        """Show what is happening instead of the keys."""
        self.message = text
        self.repaint_keys()

    # --- keys ---

    def on_mount(self) -> None:
        """Keep the focus off the fields until keys are accepted: what is typed until then goes to the draft."""
        for field in self.fields.values():
            field.can_focus = False
        self.query_one("#server-models").display = bool(self.models)

    def on_armed(self) -> None:
        """Focus the field to fill in."""
        super().on_armed()
        if not self.is_typing:
            self._focus_field(self._first_field)

    def _focus_field(self, name: FieldName) -> None:
        if self.armed:
            for field in self.fields.values():
                field.can_focus = True
            self.fields[name].focus()

    def overrides_field(self, key: str) -> bool:
        """Return whether a key has a function here: none of them is typed into a field."""
        return bool(KEYS.action_for_key(key))

    def take_text(self, event: events.Key) -> None:
        """Type a key into the field, or before keys are accepted into the draft."""
        if self.armed and event.key not in ("enter", "ctrl+j"):
            self._current_field.press(event)
        else:
            super().take_text(event)

    def unbound_key(self, event: events.Key) -> None:
        """Type a key that was pressed before the field had the focus."""
        self._current_field.press(event)

    @property
    def _current_field(self) -> LineInput:
        return self.focused if isinstance(self.focused, LineInput) else self.fields[self._first_field]

    def process_key(self, event: events.Key) -> bool:
        """Connect, choose or scroll; return False for a key without a function."""
        action = KEYS.action_for(event)
        if action == "demo":
            self.post_message(self.Picked("demo"))
        elif action == "retry":
            values = (self.fields[name].value.strip() for name in LABELS)
            self.connect(ServerValues(*values))
        elif action in ("next_field", "previous_field"):
            fields = list(self.fields.values())
            step = 1 if action == "next_field" else -1
            self._focus_field(tuple(LABELS)[(fields.index(self._current_field) + step) % len(fields)])
        elif action in ("up", "down") and self.models:
            self._cursor = (self._cursor + (1 if action == "down" else -1)) % len(self.models)
            self.fields["model"].value = self.models[self._cursor]
            self.query_one("#server-models", LinesView).relayout()
        else:
            self.body.scroll_for(action)
        return bool(action)

    def escape(self) -> None:
        """Continue without a model."""
        self.post_message(self.Picked("continue"))
