"""The model asks the user: an answer by number, or in one's own words (T8)."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from tui_agent.common.domain import Answer
from tui_agent.text import make_visible
from widgets.dialog_keys import Keys, key_spans
from widgets.inputs import LineInput
from widgets.line_view import LinesView
from widgets.request_view import FittedModal, hidden_hint, option_lines
from widgets.styled_text import Line, TextStyles, hanging, wrap

KEYS = Keys("question")
SCROLLS = ("up", "down", "page_up", "page_down")


class QuestionModal(FittedModal):
    """A number option_keys an option while nothing is typed; Enter sends what is typed."""

    def compose(self) -> ComposeResult:
        """Question and options, which scroll together, and a line to answer in."""
        with Vertical(id="dialog"):
            self.body = LinesView(self._asked, id="body")
            yield self.body
            option_keys = "123456789"[: len(self.request.options)]
            yield LineInput(id="reply", placeholder="your answer", option_keys=option_keys)
            yield LinesView(self._hint, id="keys")

    def on_mount(self) -> None:
        """No typing before the dialog listens."""
        self.query_one("#reply").can_focus = False
        super().on_mount()

    def on_armed(self) -> None:
        """Take keys from now on."""
        for reply in self.query("#reply"):  # gone when it was answered meanwhile
            if not reply.can_focus:
                reply.can_focus = True
                reply.focus()
                self.query_one("#body", LinesView).relayout()

    def _asked(self, width: int, styles: TextStyles) -> list[Line]:
        text = make_visible(self.request.question, lookalikes=False)
        asked = hanging([("? ", styles.accent)], [(text, styles.text)], width, styles.text)
        pairs = [
            (str(number), make_visible(text, lookalikes=False), "")
            for number, text in enumerate(self.request.options[:9], start=1)
        ]
        listed = option_lines(pairs, lambda key: self.armed, str, width, styles)
        return [*asked, Line([]), *listed] if listed else asked

    def _hint(self, width: int, styles: TextStyles) -> list[Line]:
        pairs = [("enter", "answers"), *KEYS.hints([("decline", "declines")]), ("esc", "stops the run")]
        hint = key_spans(pairs, styles)
        hint += hidden_hint(self.body, KEYS.arrow_labels("down", "page_down"), styles, seen=True)
        return wrap(hint, width)

    def overrides_field(self, key: str) -> bool:
        """Keys that scroll; the numbers and the key that declines, while nothing is typed."""
        if KEYS.action_for_key(key) in SCROLLS:
            return True
        reply = self.query_one("#reply", LineInput)
        return not reply.value and (KEYS.action_for_key(key) == "decline" or key in tuple(reply.option_keys))

    def process_key(self, event: events.Key) -> None:
        """A key that scrolls, a number, the key that declines, or a key that came before the input had the focus."""
        reply = self.query_one("#reply", LineInput)
        self.on_armed()
        if (action := KEYS.action_for(event)) in SCROLLS:
            self.body.scroll_for(action)
        elif action == "decline":
            self.answer(Answer(verdict="reject", text="The user did not want to answer."))
        elif event.character and event.character in reply.option_keys and not reply.value:
            self.answer(Answer(verdict="reply", text=self.request.options[int(event.character) - 1]))
        else:
            reply.press(event)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter with text is the answer; without, nothing."""
        event.stop()
        if event.value.strip():
            self.answer(Answer(verdict="reply", text=event.value.strip()))
