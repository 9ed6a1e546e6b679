"""The model asks the user: an answer by number, or in one's own words (T8)."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from tui_agent.domain import Answer
from tui_agent.text import visible
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, indent, wrap
from widgets.line_view import LinesView
from widgets.modal import LineInput, RequestModal, below, options, room_for, scrolled

KEYS = Keys("question")
SCROLLS = ("up", "down", "page_up", "page_down")


class QuestionModal(RequestModal):
    """A number picks an option while nothing is typed; Enter sends what is typed."""

    def compose(self) -> ComposeResult:
        """Question and options, which scroll together, and a line to answer in."""
        with Vertical(id="dialog"):
            yield LinesView(self._asked, id="body")
            picks = "123456789"[: len(self.request.options)]
            yield LineInput(id="reply", placeholder="your answer", picks=picks)
            yield LinesView(self._hint, id="keys")

    def on_mount(self) -> None:
        """No typing before the dialog listens."""
        self.query_one("#reply").can_focus = False
        super().on_mount()
        self.watch(self._body, "scroll_y", self._fit, init=False)
        self.call_after_refresh(self._fit)

    @property
    def _body(self) -> LinesView:
        return self.query_one("#body", LinesView)

    def on_resize(self) -> None:
        """Another size has room for more, or for less."""
        self.call_after_refresh(self._fit)

    def on_line_view_resized(self) -> None:
        """A part has its place, which may come later than our own size."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """All of it is in reach, and how much is below is said."""
        for keys in self.query("#keys").results(LinesView):  # gone when it was answered meanwhile
            body = self._body
            height = room_for(body)
            if body.styles.max_height is None or body.styles.max_height.cells != height:
                body.styles.max_height = height
                self.call_after_refresh(self._fit)
            keys.relayout()

    def listening(self) -> None:
        """Take keys from now on."""
        for reply in self.query("#reply"):  # gone when it was answered meanwhile
            if not reply.can_focus:
                reply.can_focus = True
                reply.focus()
                self._body.relayout()

    def _asked(self, width: int, ink: Ink) -> list[Line]:
        text = visible(self.request.question, lookalikes=False)
        asked = indent(wrap([(text, ink.text)], width - 2), [("? ", ink.accent)], [("  ", ink.text)])
        pairs = [
            (str(number), visible(text, lookalikes=False), "")
            for number, text in enumerate(self.request.options[:9], start=1)
        ]
        listed = options(pairs, width, ink, lit=lambda key: self.armed)
        return [*asked, Line([]), *listed] if listed else asked

    def _hint(self, width: int, ink: Ink) -> list[Line]:
        hint: list[Span] = [("enter", ink.accent), (" answers", ink.muted)]
        for key, does in KEYS.pairs([("decline", "declines")]):
            hint += [(f"   {key}", ink.accent), (f" {does}", ink.muted)]
        hint += [("   esc", ink.accent), (" stops the run", ink.muted)]
        hint += below(self._body, KEYS.arrows("down", "page_down"), ink, seen=True)
        return wrap(hint, width)

    def takes(self, key: str) -> bool:
        """Keys that scroll; the numbers and the key that declines, while nothing is typed."""
        if KEYS.named(key) in SCROLLS:
            return True
        reply = self.query_one("#reply", LineInput)
        return not reply.value and (KEYS.named(key) == "decline" or key in tuple(reply.picks))

    def pressed(self, event: events.Key) -> None:
        """A key that scrolls, a number, the key that declines, or a key that came before the input had the focus."""
        reply = self.query_one("#reply", LineInput)
        self.listening()
        if (action := KEYS.does(event)) in SCROLLS:
            self._body.scroll_to(y=scrolled(self._body, action), animate=False)
        elif action == "decline":
            self.answer(Answer(verdict="reject", text="The user did not want to answer."))
        elif event.character and event.character in reply.picks and not reply.value:
            self.answer(Answer(verdict="reply", text=self.request.options[int(event.character) - 1]))
        elif event.character and event.is_printable:
            reply.insert_text_at_cursor(event.character)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter with text is the answer; without, nothing."""
        event.stop()
        if event.value.strip():
            self.answer(Answer(verdict="reply", text=event.value.strip()))
