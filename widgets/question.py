"""The dialog for a question of the model: choose an option by number, or type an answer (T8)."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from tui_agent.common.domain import Answer
from tui_agent.text import make_visible
from widgets.dialog_frame import hidden_hint, option_lines
from widgets.dialog_keys import Keys, held_label, key_spans
from widgets.inputs import LineInput
from widgets.line_view import LinesView
from widgets.request_view import RequestModal
from widgets.styled_text import Line, TextStyles, add_below, hanging, wrap

KEYS = Keys("question")
SCROLLS = ("up", "down", "page_up", "page_down")


class ChoiceModal(RequestModal):
    """A question that only its options answer: a number chooses one, Esc declines."""

    def compose(self) -> ComposeResult:
        """Yield question and options, which scroll together, and the keys."""
        with Vertical(id="dialog"):
            self.body = LinesView(self._body, id="body")
            yield self.body
            yield LinesView(self._keys, id="keys")

    @property
    def option_keys(self) -> str:
        """The keys that choose an option."""
        return "123456789"[: len(self.request.options)]

    def on_armed(self) -> None:
        """Show that keys are accepted."""
        super().on_armed()
        self.query_one("#body", LinesView).relayout()

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        texts = (self.request.question, *self.request.options[:9])
        question, *answers = (make_visible(text, lookalikes=False) for text in texts)
        lines = hanging([("? ", styles.accent)], [(question, styles.text)], width, styles.text)
        held = held_label(self.held_key)
        options = [(str(number), text, "") for number, text in enumerate(answers, start=1)]
        return add_below(lines, option_lines(options, lambda key: self.armed, str, width, styles, held=held))

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        hint = key_spans(self._key_effects(), styles)
        scroll_keys = KEYS.arrow_labels("down", "page_down")
        hint += hidden_hint(self.body, scroll_keys, styles, seen=True)
        return wrap(hint, width)

    def _key_effects(self) -> list[tuple[str, str]]:
        return [("esc", self.request.otherwise)]

    def show_held(self, event: events.Key | None) -> None:
        """Mark the option that the held key chooses in a moment."""
        super().show_held(event)
        self.query_one("#body", LinesView).relayout()

    def process_key(self, event: events.Key) -> bool:
        """Scroll, decline, or choose an option; return False for a key without a function."""
        if (action := KEYS.action_for(event)) in SCROLLS:
            self.body.scroll_for(action)
        elif action == "decline":
            self.decline()
        elif event.character and event.character in self.option_keys:
            self.answer(Answer(verdict="reply", text=self.request.options[int(event.character) - 1]))
        else:
            return False
        return True

    def decline(self) -> None:
        """Answer that there is no answer."""
        self.answer(Answer(verdict="reject", text="The user did not want to answer."))

    def escape(self) -> None:
        """Decline: there may be no run to stop."""
        self.decline()


class QuestionModal(ChoiceModal):
    """A number chooses an option while the field is empty; Enter sends the typed answer."""

    def compose(self) -> ComposeResult:
        """Yield question and options, which scroll together, the field, and the keys."""
        with Vertical(id="dialog"):
            self.body = LinesView(self._body, id="body")
            yield self.body
            yield LineInput(id="reply", placeholder="your answer", option_keys=self.option_keys)
            yield LinesView(self._keys, id="keys")

    def on_mount(self) -> None:
        """Keep the focus off the field until keys are accepted."""
        self.query_one("#reply").can_focus = False

    def on_armed(self) -> None:
        """Focus the field, unless the question was answered in the meantime."""
        for reply in self.query("#reply"):
            if not reply.can_focus:
                reply.can_focus = True
                reply.focus()
                self.query_one("#body", LinesView).relayout()

    def _key_effects(self) -> list[tuple[str, str]]:
        return [("enter", "answers"), *KEYS.hints([("decline", "declines")]), ("esc", "stops the run")]

    def escape(self) -> None:
        """Stop the run."""
        self.interrupt()

    def overrides_field(self, key: str) -> bool:
        """Return whether a key scrolls; in an empty field also whether it chooses an option or declines."""
        if KEYS.action_for_key(key) in SCROLLS:
            return True
        reply = self.query_one("#reply", LineInput)
        return not reply.value and (KEYS.action_for_key(key) == "decline" or key in tuple(reply.option_keys))

    def press_clicked(self, event: events.Key) -> None:
        """Choose the clicked option whatever is in the field, or send what is in it."""
        if event.key not in ("enter", *self.option_keys):
            super().press_clicked(event)
        elif not self.accepts_key(event):
            self.tell("clicked too soon: click again")
        elif event.key == "enter":
            self._answer_typed(self.query_one("#reply", LineInput).value)
        else:
            ChoiceModal.process_key(self, event)

    def take_text(self, event: events.Key) -> None:
        """Type a key into the field: keys that do not stand alone are an answer in words."""
        if not self.armed:
            super().take_text(event)
        elif event.key == "enter":
            self._answer_typed(self.query_one("#reply", LineInput).value)
        else:
            self.query_one("#reply", LineInput).press(event)

    def process_key(self, event: events.Key) -> bool:
        """Scroll, decline, choose an option, or type a key that was pressed before the field had the focus."""
        reply = self.query_one("#reply", LineInput)
        self.on_armed()
        is_typed = bool(reply.value) and event.character is not None and event.character in reply.option_keys
        if is_typed or not super().process_key(event):
            reply.press(event)
        return True

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with the typed text, unless it is empty."""
        event.stop()
        self._answer_typed(event.value)

    def _answer_typed(self, text: str) -> None:
        if text.strip():
            self.answer(Answer(verdict="reply", text=text.strip()))
