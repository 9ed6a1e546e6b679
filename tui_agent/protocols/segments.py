"""Cutting a reply into its parts in one pass, whatever pieces it comes in."""

from __future__ import annotations

import re

from tui_agent.protocols import signals, special
from tui_agent.protocols.fences import FenceRegion
from tui_agent.protocols.hooks import HOOK, IN_FENCE, IN_THOUGHT, REACH, UNTHINK, undecided_from
from tui_agent.protocols.pieces import Piece, at_line_start, mentioned, quoted
from tui_agent.protocols.regions import PythonRegion, Region, WrapperRegion, region_at
from tui_agent.protocols.token_regions import DsmlRegion, TokenRegion, dsml_invokes

_PYTHON = re.compile(r"\[\s{0,8}[A-Za-z_][\w.]{0,64}\(")
_PYTHON_BEGUN = re.compile(r"\[\s{0,8}(?:[A-Za-z_][\w.]{0,64})?\Z")
_HARMONY = re.compile(
    r"(?:<\|start\|>(?P<who>[^<]{0,80}))?<\|channel\|>\s*(?P<channel>[a-z]+)(?P<to>[^<]{0,120})"
    r"(?:<\|(?:constrain|channel)\|>[^<]{0,32}){0,2}<\|message\|>"
)
_TO = re.compile(r"to=(?:functions\.)?([\w.\-]+)")
_TORN = re.compile(r"(?:</t[a-z]{0,8}|\[/T[A-Z]{0,8}|\[TASK_?[A-Z]{0,8})\Z", re.IGNORECASE)
"""What is left of a closing tag or a signal where the reply was cut off in it."""
_LONGEST_HEAD = 320
_THOUGHT_TAIL = 16
REGIONS = 2000
"""Pieces of markup that are read in one reply; what follows them is text."""


class Segmenter:
    """Text in any pieces in, parts out. The same parts come whatever way the text was cut, but for where text and
    thoughts themselves are cut. `thinking`: the text begins inside a thought."""

    def __init__(self, *, thinking: bool = False, cuts: bool = True) -> None:
        """Without `cuts`, what the model writes in the name of a tool or the user is text like any other."""
        self._cuts = cuts
        self._words = 0
        """Where the last text that is more than blanks ends."""
        self.text = ""
        """Everything that came."""
        self._at = 0
        self._region: Region | None = None
        self._thinking = thinking
        self._thought_from = -1
        """Where a thought within a line began whose end has not come yet."""
        self._fence = ""
        self._begun = False
        self._thought = False
        self._never_closed = False
        self._regions = 0
        self._invented = ""
        """Whose words the model invented, a `result` or a `turn`: nothing behind them counts."""
        self._closer_from = -1
        """From where the end of an invented result is sought."""
        self._out: list[Piece] = []

    @property
    def over(self) -> bool:
        """Nothing that still comes counts."""
        return bool(self._invented)

    @property
    def region(self) -> Region | None:
        """The markup that is being read."""
        inner = self._region.inner if isinstance(self._region, FenceRegion) else None
        return inner or self._region

    def feed(self, text: str) -> list[Piece]:
        """The parts that are decided."""
        # Taking the text out of its attribute lets CPython append in place, so that small pieces cost no copies.
        whole = self.text
        self.text = ""
        whole += text
        self.text = whole
        return self._go(False)

    def finish(self) -> list[Piece]:
        """The rest."""
        return self._go(True)

    def _go(self, final: bool) -> list[Piece]:
        self._out = []
        while self._at < len(self.text):
            before = self._at
            if self._invented:
                return self._over(final)
            if self._region is not None:
                more = self._in_region(final)
            elif self._thinking:
                more = self._in_thought(final)
            elif self._fence:
                more = self._in_fence(final)
            else:
                more = self._in_text(final)
            if not more and (self._at == before or not final):
                break
        return self._out

    def _over(self, final: bool) -> list[Piece]:
        """What a reply goes on with behind an invented turn; what that holds decides in the end what it is."""
        if final:
            if self._invented == "turn" and special.says_result(self.text, self._at):
                self._out.append(Piece(kind="invented", raw="", tag="result"))
            self._at = len(self.text)
        return self._out

    def _invent(self, tag: str, end: int) -> bool:
        if not self._cuts:
            self._say("text", end)
            return True
        self._out.append(Piece(kind="invented", raw=self.text[self._at : end], tag=tag))
        self._invented = tag
        self._at = end
        return True

    def _say(self, kind: str, end: int) -> None:
        """Give out everything up to `end` as text or thought."""
        if end > self._at:
            raw = self.text[self._at : end]
            if kind == "text" and not raw.isspace():
                self._begun = True
                self._words = end
            self._out.append(Piece(kind="thought" if kind == "thought" else "text", raw=raw))
            self._at = end

    def _in_region(self, final: bool) -> bool:
        region = self._region
        assert region is not None
        piece = region.run(self.text, final)
        if piece is None:
            return False
        self._begun = True
        if piece.kind == "invented":
            self._region = None
            return self._invent(piece.tag, region.end)
        self._out.append(piece)
        self._words = region.end if piece.kind == "text" else self._words
        self._at = region.end
        if isinstance(region, FenceRegion):
            self._fence = region.open
        self._region = None
        return True

    def _in_thought(self, final: bool) -> bool:
        found = IN_THOUGHT.search(self.text, self._at)
        if found is None:
            size = len(self.text)
            if final and (torn := _TORN.search(self.text, max(self._at, size - _THOUGHT_TAIL))):
                self._say("thought", torn.start())
                self._at = size
            self._say("thought", size if final else self._safe(size - _THOUGHT_TAIL, "<["))
            return False
        self._say("thought", found.start())
        self._at = found.end()
        if found["done"]:
            self._out.append(Piece(kind="done", raw=found.group(), tag="thought"))
        else:
            self._thinking = False
            self._thought = True
        return True

    def _safe(self, at: int, signs: str) -> int:
        """The first of `signs` from `at` on, or the end."""
        places = [place for sign in signs if (place := self.text.find(sign, max(at, self._at))) >= 0]
        return min(places, default=len(self.text))

    def _in_fence(self, final: bool) -> bool:
        found = IN_FENCE.search(self.text, self._at)
        if found is None or (found["fence"] and found.end() == len(self.text) and not final):
            end = len(self.text)
            if not final:
                end = found.start() if found else self._safe(end - _THOUGHT_TAIL, "`~[")
            self._say("text", end)
            return False
        if found["done"]:
            self._say("text", found.start())
            self._out.append(Piece(kind="done", raw=found.group()))
            self._at = found.end()
            return True
        mark = found.group()
        if mark.startswith(self._fence) and at_line_start(self.text, found.start()):
            self._fence = ""
        self._say("text", found.end())
        return True

    def _in_text(self, final: bool) -> bool:
        found = HOOK.search(self.text, self._at)
        python = None if self._begun else self._python(final)
        if python is not None and (found is None or python <= found.start()):
            self._say("text", python)
            if _PYTHON.match(self.text, python) is None and not final:
                return False
            self._begun = True
            self._region = PythonRegion(python)
            return True
        if found is None:
            size = len(self.text)
            self._say("text", size if final else undecided_from(self.text, self._at))
            return False
        if not final and found.start() > len(self.text) - REACH:
            undecided = undecided_from(self.text, self._at)
            if undecided < found.start():
                self._say("text", undecided)
                return False
        self._say("text", found.start())
        return self._hook(found, final)

    def _python(self, final: bool) -> int | None:
        """Where a reply begins that may be calls in Python's form."""
        place = self._at
        while self.text[place : place + 1].isspace():
            place += 1
        if _PYTHON.match(self.text, place) or (not final and _PYTHON_BEGUN.match(self.text, place)):
            return place
        return None

    def _hook(self, found: re.Match[str], final: bool) -> bool:
        kind = found.lastgroup
        if kind == "done":
            self._out.append(Piece(kind="done", raw=found.group()))
            self._at = found.end()
            return True
        if kind == "think":
            return self._think(found, final)
        if kind == "unthink":
            return self._unthink(found, final)
        if kind == "unwrap":
            self._out.append(Piece(kind="closer", raw=found.group()))
            self._at = found.end()
            return True
        if kind == "token":
            return self._token(found, final)
        if kind == "result":
            return self._result(found, final)
        if kind == "dsml" and not dsml_invokes(found.group()):
            self._out.append(Piece(kind="closer", raw=found.group(), tag="token"))
            self._at = found.end()
            return True
        self._regions += 1
        if self._regions > REGIONS:
            self._say("text", found.end())
            return True
        if kind == "fence":
            self._region = FenceRegion(found.start())
            if not at_line_start(self.text, found.start()) and found.group()[0] == "~":
                self._region = None
                self._say("text", found.end())
            return True
        self._region = DsmlRegion(found.start()) if kind == "dsml" else region_at(self.text, found)
        return True

    def _behind(self, place: int) -> bool:
        """Whether markup stands right before `place`."""
        return not self.text[self._words : place].isspace() and self._words < place

    def _result(self, found: re.Match[str], final: bool) -> bool:
        """A tag of a tool's result: invented, unless it is spoken of."""
        start, end = found.span()
        sign = self.text[end : end + 1]
        if not sign and not final:
            return False
        if quoted(self.text, start):
            self._say("text", end)
        elif sign.isalnum() or (sign and sign in "\r\n{["):
            return self._invent("result", end)
        elif mentioned(self.text, start) and not self._behind(start):
            self._say("text", end)
        else:
            closer = re.compile(rf"</{re.escape(found['of'])}>", re.IGNORECASE)
            if not sign or closer.search(self.text, max(end, self._closer_from)):
                return self._invent("result", end)
            self._closer_from = max(end, len(self.text) - 64)
            if not final:
                return False
            self._closer_from = -1
            self._say("text", end)
        return True

    def _think(self, found: re.Match[str], final: bool) -> bool:
        place = found.start()
        if place and self.text[place - 1] in "`\"'":
            self._say("text", found.end())
            return True
        if not at_line_start(self.text, place) and not self._thought_ends(found.end(), final):
            if final:
                self._say("text", found.end())
            return final
        self._thought_from = -1
        self._thinking = True
        self._at = found.end()
        return True

    def _thought_ends(self, after: int, final: bool) -> bool:
        """Whether the end of a thought that began within a line has come."""
        if self._never_closed:
            return False
        closed = UNTHINK.search(self.text, max(after, self._thought_from)) is not None
        self._thought_from = max(after, len(self.text) - _THOUGHT_TAIL)
        self._never_closed = final and not closed
        return closed

    def _unthink(self, found: re.Match[str], final: bool) -> bool:
        start, end = found.span()
        line = self.text[end : end + 64]
        if not line.strip(" \t") and not final and len(line) < 64:
            return False
        alone = at_line_start(self.text, start) or not line.strip(" \t") or line.lstrip(" \t")[0] in "\r\n"
        if not quoted(self.text, start) and (alone or self._ends_thought(start, end)):
            self._out.append(Piece(kind="unopened", raw=found.group()))
            self._begun = False
            self._at = end
        else:
            self._say("text", end)
        return True

    def _ends_thought(self, start: int, end: int) -> bool:
        """Whether a closing tag within a line is none that is spoken of: it stands right behind a word or a sentence,
        or before the beginning of one."""
        begins = self.text[end : end + 64].lstrip(" \t")[:1]
        if begins.isupper() or begins in tuple("<[{#"):
            return True
        before = self.text[max(0, start - 64) : start]
        return not before[-1:].isspace() or before.rstrip()[-1:] in tuple(".!?:;…)*")

    def _token(self, found: re.Match[str], final: bool) -> bool:
        meaning = special.meaning(self.text, found, final, behind=self._behind(found.start()))
        if meaning is None:
            return False
        if meaning.kind in ("result", "turn"):
            return self._invent(meaning.kind, meaning.end)
        if meaning.kind == "text":
            self._say("text", meaning.end)
        elif meaning.kind == "drop":
            self._out.append(Piece(kind="closer", raw=self.text[self._at : meaning.end], tag="token"))
            self._at = meaning.end
        elif meaning.kind == "call":
            self._regions += 1
            self._region = TokenRegion(found.start())
        else:
            return self._plain_token(found, final)
        return True

    def _plain_token(self, found: re.Match[str], final: bool) -> bool:
        start = found.start()
        head = _HARMONY.match(self.text, start)
        if head is None:
            begins = found.group() in ("<|start|>", "<|channel|>")
            if begins and not final and len(self.text) - start < _LONGEST_HEAD:
                return False
            tag = "" if found.group() == "</s>" else "token"
            self._out.append(Piece(kind="closer", raw=found.group(), tag=tag))
            self._begun = self._begun and found.group() != "<|python_tag|>"
            self._at = found.end()
            return True
        to = _TO.search(head["to"] or "") or _TO.search(head["who"] or "")
        if to is not None:
            self._region = WrapperRegion(self.text, start, head.end() - start, tag="harmony", name=to[1])
            return True
        if head["channel"] == "analysis":
            return self._analysis(head.end(), final)
        self._at = head.end()
        return True

    def _analysis(self, begin: int, final: bool) -> bool:
        """A thought of the harmony format: it ends where the next message begins."""
        ends = re.compile(r"<\|(?:end|return|start|channel)\|>").search(self.text, begin)
        if ends is None and not final:
            return False
        end = ends.start() if ends else len(self.text)
        self._out.append(Piece(kind="thought", raw=signals.without_signals(self.text[begin:end])[0]))
        self._at = end
        return True
