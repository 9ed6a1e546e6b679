"""The screen for a missing model: what was tried, models to choose from, fields for a server, and a demo (G2, L2).

The list and the fields are used together: arrows choose from the list, and typing goes to the fields. On a low screen,
only one of them is visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from tui_agent.text import make_visible, one_line
from widgets.dialog_keys import Keys, held_label, key_lines
from widgets.inputs import LineInput
from widgets.line_view import LinesView
from widgets.lone_keys import LINE_BREAKS
from widgets.panel import cursor_mark
from widgets.request_view import GuardedModal
from widgets.styled_text import Line, TextStyles, fit, hanging, justified_line, line, share_bar, wrap

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
MAX_CHOICES = 6
"""Choices that are visible at once; on a low screen MAX_CHOICES_LOW."""
MAX_CHOICES_LOW = 4
TALL = 24
"""Height of a screen from which list and fields are visible at the same time."""
FIXED_LINES = 8
"""Lines of the dialog beside the body, the choices, the fields and the models."""
FIELD_LINES = 4
NARROW = 70
"""Width of a screen below which the keys take one line more."""
ENTER = {"server": "connect", "file": "use it", "get": "download it"}
"""Kind of a choice → what Enter does."""
BAR_WIDTH = 40
"""Cells of the bar that shows a download."""
KEYS = Keys("first_run")


def _paint_label(label: str, width: int, styles: TextStyles) -> list[Line]:
    return [line((fit(label, width), styles.muted))]


class ServerValues(NamedTuple):
    """What is in the fields."""

    url: str
    key: str
    model: str


class ModelOption(NamedTuple):
    """A way to a model that can be chosen from the list."""

    kind: Literal["server", "file", "get"]
    """A server that was found, a model on this machine, or one to download."""
    name: str
    """Address, name of the model, or what to get."""
    label: str
    facts: str
    """Shown on the right, such as size and license."""
    more: str = ""
    """A sentence, shown while it is selected."""


class DownloadView(NamedTuple):
    """A download as it is shown."""

    title: str
    share: float | None
    """From 0 to 1; None if it is not known."""
    text: str
    note: str = ""


class RunningDownload(Protocol):
    """A download that outlives the screen."""

    def show_in(self, dialog: Any) -> None:
        """Show the progress in this screen; None: as hints."""
        ...


class FirstRun(GuardedModal):
    """Shown once per start, before the first message. Subclasses connect to a server and download models."""

    @dataclass
    class Picked(Message):
        """The user's choice."""

        choice: Literal["demo", "continue"]

    def __init__(
        self, explanation: str, *, url: str = "", model: str = "", field: FieldName = "url", **guard: Any
    ) -> None:
        """`url` and `model` are the initial values, `field` gets the focus; `guard` are the options of `KeyGuard`."""
        super().__init__(**guard)
        self.heading = "No model yet"
        self.explanation = explanation
        self.commands: Sequence[str] = ()
        """Commands that help, if there are any."""
        self.models: Sequence[str] = ()
        """The models of the server; empty while unknown."""
        self.message = ""
        """What is happening, shown instead of the keys."""
        self.choices: Sequence[ModelOption] = ()
        self.question: Sequence[str] = ()
        """Paragraphs of what is asked before a download; empty if nothing is asked."""
        self.download: DownloadView | None = None
        """The download that is shown instead of everything else."""
        self.escape_label = "continue without a model"
        self.offers_demo = True
        """Whether the demo, which ends the session, is offered."""
        self._cursor = -1
        """Index in the choices followed by the models; -1 for none."""
        self._edits = False
        """Whether a low screen shows the fields."""
        self._first_field: FieldName = field
        self._shown_value = ""
        """What the field contained when it got the focus."""
        self.fields = {
            name: LineInput(id=f"server-{name}", placeholder=placeholder) for name, (_, placeholder) in LABELS.items()
        }
        self.fields["key"].password = True
        self.fields["url"].value, self.fields["model"].value = url, model

    def connect(self, values: ServerValues) -> None:
        """Connect to the server in the fields, or look for a model once more."""
        raise NotImplementedError

    def choose(self, choice: ModelOption) -> None:
        """Use what was chosen from the list."""
        raise NotImplementedError

    def start_download(self) -> None:
        """Download what was asked about."""
        raise NotImplementedError

    def leave_download(self) -> None:
        """Let the download continue in the background."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield head, explanation, fields, models and keys."""
        self.body = LinesView(self._body, id="body")
        with Vertical(id="dialog"):
            yield LinesView(self._head, id="head")
            yield self.body
            yield LinesView(self._choices, id="server-choices")
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

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        return [line((self.heading, styles.heading))]

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        lines: list[Line] = []
        if self.download is not None:
            return self._paint_download(self.download, width, styles)
        if self.question:
            for text in self.question:
                lines += wrap([(make_visible(text, lookalikes=False), styles.text)], width)
            return lines
        for text in make_visible(self.explanation, lookalikes=False).split("\n"):
            lines += wrap([(text, styles.text)], width)
        for command in self.commands:
            lines += hanging([("$ ", styles.accent)], [(command, styles.strong)], width, styles.text, cut=True)
        return lines

    @staticmethod
    def _paint_download(download: DownloadView, width: int, styles: TextStyles) -> list[Line]:
        lines = wrap([(make_visible(download.title, lookalikes=False), styles.strong)], width)
        if download.share is not None:
            bar = share_bar(download.share, min(BAR_WIDTH, width - 5), styles.accent, styles)
            lines.append(line(*bar, (f" {100 * download.share:3.0f}%", styles.text)))
        lines += wrap([(one_line(download.text, 200), styles.text)], width)
        if download.note:
            lines += wrap([(make_visible(download.note, lookalikes=False), styles.warn)], width)
        return lines

    def _choices(self, width: int, styles: TextStyles) -> list[Line]:
        count = self._visible_choices
        cursor = self._cursor if self._cursor < len(self.choices) else -1
        first = max(0, min(cursor - count // 2, len(self.choices) - count))
        lines = []
        for index, choice in enumerate(self.choices[first : first + count], start=first):
            style = styles.strong if index == cursor else styles.text
            label = (one_line(make_visible(choice.label), 200), style)
            facts = [(one_line(make_visible(choice.facts), 60), styles.muted)]
            lines.append(justified_line([cursor_mark(index == cursor, styles), label], facts, width, styles))
        more = self.choices[cursor].more if cursor >= 0 else ""
        hidden = len(self.choices) - count
        more = more or (f"{hidden} more" if hidden > 0 else "")
        if more or self.size.height >= TALL:  # there, the fields below don't move
            lines.append(line(("  ", styles.text), (fit(more, max(1, width - 2)), styles.muted)))
        return lines

    def _models(self, width: int, styles: TextStyles) -> list[Line]:
        cursor = self._cursor - len(self.choices)
        first = max(0, min(cursor - MAX_MODELS // 2, len(self.models) - MAX_MODELS))
        lines = []
        for index, name in enumerate(self.models[first : first + MAX_MODELS], start=first):
            is_selected = index == cursor
            text = fit(one_line(make_visible(name), 200), max(1, width - 2))
            lines.append(line(cursor_mark(is_selected, styles), (text, styles.strong if is_selected else styles.text)))
        if len(self.models) > MAX_MODELS:
            lines.append(line((f"  {len(self.models)} models on the server", styles.muted)))
        return lines

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        if self.message:
            return wrap([(one_line(self.message, 300), styles.warn)], width)[:2]
        if self.download is not None or self.question:
            return key_lines(self._download_keys(), width, styles, gap=3, held=held_label(self.held_key))
        has_list = bool(self.models or self.choices)
        arrows = [(KEYS.arrow_labels("up", "down"), "choose a model")] if has_list else []
        retry = "connect, or retry" if self._selected is None else ENTER[self._selected.kind]
        field = "next field" if self._shows_fields else "server"
        pairs = [
            *KEYS.hints([("retry", retry), ("next_field", field)]),
            *arrows,
            *(KEYS.hints([("demo", "demo: a scripted model on a scratch project")]) if self.offers_demo else []),
            ("esc", self.escape_label),
            ("ctrl+c", "twice: quit"),
        ]
        return key_lines(pairs, width, styles, gap=3, held=held_label(self.held_key))

    def _download_keys(self) -> list[tuple[str, str]]:
        if self.question:
            return [*KEYS.hints([("retry", "download")]), ("esc", "back")]
        return [("esc", "continue in the background"), ("ctrl+c", "twice: quit; what is downloaded is kept")]

    # --- what is visible ---

    @property
    def _is_plain(self) -> bool:
        """Whether list and fields are shown."""
        return not self.question and self.download is None

    @property
    def _shows_fields(self) -> bool:
        return self._is_plain and (not self.choices or self._edits or self.size.height >= TALL)

    @property
    def _shows_choices(self) -> bool:
        is_replaced = self._edits and self.size.height < TALL
        return self._is_plain and bool(self.choices) and not is_replaced

    @property
    def _visible_choices(self) -> int:
        return min(len(self.choices), MAX_CHOICES if self.size.height >= TALL else MAX_CHOICES_LOW)

    @property
    def _selected(self) -> ModelOption | None:
        is_choice = self._shows_choices and 0 <= self._cursor < len(self.choices)
        return self.choices[self._cursor] if is_choice else None

    def on_resize(self) -> None:
        """Arrange everything for the size, with the beginning of the body visible."""
        self._arrange()
        self.body.scroll_home(animate=False)

    def _arrange(self) -> None:
        """Limit the body to the screen, and show list, fields or both."""
        rows = FIXED_LINES + (self.size.width < NARROW)
        rows += self._visible_choices + 2 if self._shows_choices else 0
        rows += FIELD_LINES if self._shows_fields else 0
        rows += min(len(self.models), MAX_MODELS + 1) if self._shows_fields else 0
        if self.size.height:  # else a scroll bar would appear for a moment, and leave its column
            self.body.styles.max_height = max(2, self.size.height - rows)
        self.query_one("#server-choices").display = self._shows_choices
        self.query_one("#server-fields").display = self._shows_fields
        self.query_one("#server-models").display = self._shows_fields and bool(self.models)
        if self.is_typing and not self._shows_fields:
            self.set_focus(None)

    def _show(self) -> None:
        """Arrange and paint everything after a change."""
        if self.is_attached:
            self._arrange()
            for view in self.query("#body, #server-choices, #server-models").results(LinesView):
                view.relayout()
            self.repaint_keys()
            if self._shows_fields and not self.is_typing:
                self._focus_field(self._first_field)

    # --- what is known ---

    def show_problem(self, explanation: str, field: FieldName, commands: Sequence[str] = ()) -> None:
        """Say why there is still no model, and put the focus on the field to correct."""
        self.explanation, self.commands, self.message, self._first_field = explanation, commands, "", field
        self.question, self.download = (), None
        if self.is_attached:
            self._show()
            if self._shows_fields:
                self._focus_field(field)

    def show_models(self, names: Sequence[str]) -> None:
        """List the models of the server."""
        self.models, self._cursor = names, -1
        self._show()

    def show_choices(self, choices: Sequence[ModelOption]) -> None:
        """List what can be chosen; the selected choice stays selected."""
        selected = self._selected
        self.choices = choices
        self._cursor = choices.index(selected) if selected in choices else -1
        self._show()

    def ask(self, question: Sequence[str]) -> None:
        """Ask before a download; an empty question returns to the list."""
        self.question, self.download = question, None
        if question:
            self.disarm()  # the key that chose is not the answer
        self._show()

    def show_download(self, download: DownloadView | None) -> None:
        """Show a download instead of everything else; None returns to the list."""
        changes = (download is None) != (self.download is None)
        self.question, self.download = (), download
        if changes:
            self._show()
        elif self.is_attached:
            self.query_one("#body", LinesView).relayout()

    def show_message(self, text: str) -> None:
        """Show what is happening instead of the keys."""
        self.message = text
        self.repaint_keys()

    # --- keys ---

    def on_mount(self) -> None:
        """Keep the focus off the fields until keys are accepted: what is typed until then goes to the draft."""
        for field in self.fields.values():
            field.can_focus = False
        self._arrange()

    def on_armed(self) -> None:
        """Focus the field to fill in."""
        super().on_armed()
        if not self.is_typing and self._shows_fields:
            self._focus_field(self._first_field)

    def _focus_field(self, name: FieldName) -> None:
        if self.armed:
            for field in self.fields.values():
                field.can_focus = True
            self.fields[name].focus()
            self._shown_value = self.fields[name].value

    def overrides_field(self, key: str) -> bool:
        """Return whether a key has a function here: none of them is typed into a field."""
        return bool(KEYS.action_for_key(key))

    def take_text(self, event: events.Key) -> None:
        """Type a key into the field, or before keys are accepted into the draft."""
        if event.key in LINE_BREAKS:
            self.forward_to_draft(event)
        elif not self._is_plain:
            super().take_text(event)
        elif self.armed or self.is_typing:
            self._edit()
            self._current_field.press(event)
        else:
            super().take_text(event)

    def forward_to_draft(self, event: events.Key) -> None:
        """Send a key to the draft, but never what ends the text of a field: that connects, if the field was edited."""
        if self.is_typing and event.key in LINE_BREAKS:
            self._current_field.call_later(self._connect_if_edited)  # after the keys that the field has yet to get
        else:
            super().forward_to_draft(event)

    def _connect_if_edited(self) -> None:
        if self._current_field.value != self._shown_value:
            self.tell("")
            self._submit()

    def unbound_key(self, event: events.Key) -> None:
        """Type a key that was pressed before the field had the focus."""
        if self._is_plain:
            self._edit()
            self._current_field.press(event)
        else:
            super().unbound_key(event)

    def _edit(self) -> None:
        """Show the fields, and select nothing."""
        if not self._edits or self._cursor >= 0:
            self._edits, self._cursor = True, -1
            self._show()

    def _on_input_changed(self, event: Input.Changed) -> None:
        """Select nothing once a field is edited."""
        if event.input.has_focus:
            self.tell("")
        if event.input.has_focus and self._selected is not None:
            self._edit()

    @property
    def _current_field(self) -> LineInput:
        return self.focused if isinstance(self.focused, LineInput) else self.fields[self._first_field]

    def process_key(self, event: events.Key) -> bool:
        """Connect, choose or scroll; return False for a key without a function."""
        action = KEYS.action_for(event)
        if not self._is_plain:
            if action == "retry" and self.question:
                self.start_download()
            else:
                self.body.scroll_for(action)
        elif action == "demo":
            if self.offers_demo:
                self.post_message(self.Picked("demo"))
        elif action == "retry":
            self._submit()
        elif action in ("next_field", "previous_field"):
            self._move_to_field(1 if action == "next_field" else -1)
        elif action in ("up", "down") and (self.models or self.choices):
            self._move_cursor(1 if action == "down" else -1)
        else:
            self.body.scroll_for(action)
        return bool(action)

    def _move_to_field(self, step: int) -> None:
        """Focus the next field; from a selected row, the first or the last one."""
        if self._cursor >= 0:
            self._edit()
            self._focus_field(tuple(LABELS)[0 if step > 0 else -1])
            return
        if not self._shows_fields:
            self._edit()
            return
        fields = list(self.fields.values())
        self._focus_field(tuple(LABELS)[(fields.index(self._current_field) + step) % len(fields)])

    def _move_cursor(self, step: int) -> None:
        """Select the next choice or model; a model is put into its field."""
        count = len(self.choices) + len(self.models)
        start = self._cursor if self._cursor >= 0 or step > 0 else 0
        self._cursor, self._edits = (start + step) % count, False
        if self._cursor >= len(self.choices):
            self.fields["model"].value = self.models[self._cursor - len(self.choices)]
        self._show()

    def _submit(self) -> None:
        self.tell("")
        if (choice := self._selected) is not None:
            self.choose(choice)
            return
        self.connect(ServerValues(*(self.fields[name].value.strip() for name in LABELS)))

    def escape(self) -> None:
        """Go back to the list, leave the download to the background, or continue without a model."""
        if self.question:
            self.ask(())
        elif self.download is not None:
            self.leave_download()
        else:
            self.post_message(self.Picked("continue"))
