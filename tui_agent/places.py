"""Every key within dialogs, lists and panels in one table, place by place (U5, R20.2).

Dialogs, their lines of keys, help and documents are made from it; `keys:` in the settings changes it, each action by
the name `place.action`. What can't have another key stands here too, with the reason.
"""

from __future__ import annotations

from typing import Final

from tui_agent.place import Does, Fixed, Place

_FIELD: Final = "in a text field they are what they are in every field"
_OUT: Final = "the way out is the same everywhere, and works before anything else does"
_ESC: Final = Fixed("esc", "back", _OUT)
_TAB: Final = Fixed(
    "tab", "to the composer, and back", "it leads there from all that stands beside it", ("tab",)
)
_IN_LIST: Final = "choose"
_READ: Final = "read on"


def _scrolling(row: str = _READ, *, pages: bool = True, edges: bool = True) -> tuple[Does, ...]:
    found = [Does("up", ("up",), "a line up", row), Does("down", ("down",), "a line down", row)]
    if pages:
        found.append(Does("page_up", ("pageup",), "a page up", row))
        found.append(Does("page_down", ("pagedown",), "a page down", row))
    if edges:
        found.append(Does("top", ("home",), "to the beginning", row))
        found.append(Does("bottom", ("end",), "to the end", row))
    return tuple(found)


def _choosing(*, top: str = "home", bottom: str = "end", pages: bool = True) -> tuple[Does, ...]:
    row = _IN_LIST
    found = [Does("up", ("up",), "the one above", row), Does("down", ("down",), "the one below", row)]
    if pages:
        found.append(Does("page_up", ("pageup",), "a page up", row))
        found.append(Does("page_down", ("pagedown",), "a page down", row))
    return (*found, Does("top", (top,), "the first one", row), Does("bottom", (bottom,), "the last one", row))


APPROVAL: Final = Place(
    "approval",
    "In an approval",
    (
        Does("approve_once", ("a",), "approve once; trust a folder", decides=True),
        Does("approve_session", ("s",), "approve for this session", decides=True),
        Does("approve_always", ("A",), "approve always", decides=True),
        Does("reject", ("r",), "reject, with a reason", decides=True),
        Does("again", ("w",), "go on when the file changed meanwhile", decides=True),
        Does("next_hunk", ("n",), "next hunk", "next and previous hunk"),
        Does("previous_hunk", ("p",), "previous hunk", "next and previous hunk"),
        Does("leave_out", ("x",), "leave the hunk out, or take it again"),
        Does("edit", ("e",), "change its text before it is applied"),
        Does("sides", ("v",), "both sides beside each other, from 100 columns on"),
        Does("secrets", ("u",), "show and hide secrets"),
        *_scrolling(),
    ),
    (
        Fixed("esc", "stop the run; while a reason is typed: back", _OUT),
        Fixed("enter", "while a reason is typed: reject", "enter never approves", ("enter",)),
    ),
)
CHANGE: Final = Place(
    "change",
    "While the text of a hunk is changed",
    (Does("take", ("ctrl+s",), "take the text; it is shown once more to be approved", decides=True),),
    (Fixed("esc", "drop it", _OUT),),
    field=True,
)
CONFLICT: Final = Place(
    "conflict",
    "When a plan was changed by two at once",
    (
        Does("ours", ("o",), "write what the agent says", decides=True),
        Does("theirs", ("t",), "leave what the file says", decides=True),
        Does("both", ("b",), "both, one after the other", decides=True),
        *_scrolling(pages=False),
    ),
    (Fixed("esc", "stop the run; nothing is written", _OUT),),
)
QUESTION: Final = Place(
    "question",
    "In a question",
    (
        Does("decline", ("ctrl+d",), "decline, while nothing is typed", decides=True),
        *_scrolling(edges=False),
    ),
    (
        Fixed("1–9", "take that answer, while nothing is typed", "the number is that of the answer"),
        Fixed("enter", "answer with what is typed", _FIELD),
        Fixed("esc", "stop the run", _OUT),
    ),
    field=True,
)
FIRST_RUN: Final = Place(
    "first_run",
    "When no model was found",
    (
        Does("demo", ("d",), "demonstration: a scripted model on a scratch project", decides=True),
        Does("retry", ("r",), "look again", decides=True),
        *_scrolling()[:4],
    ),
    (Fixed("esc", "go on without a model", _OUT),),
)
PROGRESS: Final = Place(
    "progress",
    "In the progress",
    (
        Does("up", ("up",), "the line above", "from line to line"),
        Does("down", ("down",), "the line below", "from line to line"),
        Does("top", ("home",), "the first line", "from line to line"),
        Does("bottom", ("end",), "the last line", "from line to line"),
        Does("fold", ("left",), "fold", "fold and unfold"),
        Does("unfold", ("right",), "unfold", "fold and unfold"),
        Does("turn", ("space",), "the other of the two", "fold and unfold"),
        Does("show", ("enter",), "show it in the transcript"),
        Does("stop_subagent", ("x",), "stop the sub-agent of this line; the others go on", decides=True),
    ),
    (Fixed("esc", "back to the composer", _OUT),),
    app=None,
)
PLAN: Final = Place(
    "plan",
    "In the plan panel",
    (
        Does("tick", ("space",), "tick a criterion, open what is folded"),
        Does("edit", ("e", "enter"), "reword what the cursor is at"),
        Does("add", ("a", "plus"), "add a criterion behind it"),
        Does("remove", ("delete",), "remove it"),
        Does("undo", ("u",), "undo the last edit"),
        Does("accept", ("ctrl+s",), "accept what is proposed", decides=True, typed=False),
        Does("discard", ("ctrl+d",), "discard what is proposed", decides=True, typed=False),
        *_choosing(pages=False),
    ),
    (
        Fixed("esc", "back to the composer", _OUT),
        Fixed("enter  tab  esc", "while it is reworded: keep it, next field, leave it", _FIELD, ("tab",)),
    ),
    app=None,
)
REVIEW: Final = Place(
    "review",
    "In a plan review",
    (
        Does("approve", ("a",), "approve the plan, as edited", decides=True),
        Does("edit", ("e",), "edit the steps"),
        Does("reject", ("r",), "reject, with a reason", decides=True),
        *_scrolling(pages=False),
    ),
    (
        Fixed("1–5", "take another way instead", "the number is that of the way", ("1", "2", "3", "4", "5")),
        _TAB,
        Fixed("enter", "while a reason is typed: reject", _FIELD),
        Fixed("esc", "stop the run; while a reason is typed: back", _OUT),
    ),
    app=None,
)
STEPS: Final = Place(
    "steps",
    "Editing its steps",
    (
        Does("reword", ("enter", "e"), "reword the line"),
        Does("move_up", ("K", "alt+up"), "move the step up"),
        Does("move_down", ("J", "alt+down"), "move the step down"),
        Does("drop", ("d", "delete"), "drop the step"),
        Does("add", ("plus",), "add a step behind it"),
        *_choosing(pages=False),
    ),
    (
        Fixed(
            "enter  tab  up  down",
            "while a line is reworded: take it, the next one, the one before",
            _FIELD,
            ("tab",),
        ),
        Fixed("esc", "done with editing", _OUT),
    ),
    app=None,
)
SUMMARY: Final = Place(
    "summary",
    "In a summary",
    (
        Does("accept", ("ctrl+s",), "accept it as it stands", decides=True),
        Does("discard", ("ctrl+d",), "discard it; pressed twice", decides=True),
        Does("tick", ("space", "x"), "tick a criterion", typed=True),
    ),
    (
        Fixed("tab  shift+tab", "next field, field before", _FIELD, ("tab", "shift+tab")),
        Fixed("up  down  enter", "from field to field, from criterion to criterion", _FIELD, ("up", "down")),
        Fixed("esc", "leave the field, then the summary", _OUT),
    ),
    field=True,
    app=None,
)
SEARCH: Final = Place(
    "search",
    "Searching the session",
    (
        Does("older", ("enter", "up"), "older match"),
        Does("newer", ("shift+enter", "down"), "newer match"),
    ),
    (Fixed("esc", "close it", _OUT),),
    field=True,
    app=None,
)
SESSIONS: Final = Place(
    "sessions",
    "In the list of sessions",
    (
        Does("open", ("enter",), "open it"),
        *_choosing(),
        Does("scroll_up", ("shift+up",), "scroll up what is in it", "scroll what is in it"),
        Does("scroll_down", ("shift+down",), "scroll down what is in it", "scroll what is in it"),
        Does("folders", ("tab",), "sessions of this folder, or of all"),
        Does("rename", ("f2",), "give it another title"),
        Does("fork", ("f4",), "fork it: a copy to go on with"),
        Does("delete", ("f8",), "delete it; pressed twice", decides=True),
    ),
    (Fixed("esc", "back; while a title is typed: leave it as it was", _OUT),),
    field=True,
    app=("help",),
)
QUEUE: Final = Place(
    "queue",
    "In the list of what waits (/queue)",
    (
        *_choosing(pages=False),
        Does("edit", ("enter",), "edit it: it comes back to its place when it is sent again"),
        Does("earlier", ("minus", "shift+up", "alt+up"), "earlier"),
        Does("later", ("plus", "equals_sign", "shift+down", "alt+down"), "later"),
        Does("guide", ("g",), "guide the run that goes on, or wait for a run of its own", decides=True),
        Does("withdraw", ("x",), "withdraw it; it stays in the history", decides=True),
        Does("send", ("s",), "when nothing runs: send the first one", decides=True),
    ),
    upon="panel",
    app=("help",),
)
GRANTS: Final = Place(
    "grants",
    "In what you allowed (/grants)",
    (
        *_choosing(pages=False)[:2],
        Does("take_back", ("x",), "take it back: it is asked for again", decides=True),
    ),
    upon="panel",
)
CHECKPOINTS: Final = Place(
    "checkpoints",
    "In what was done to files (/checkpoints)",
    (
        *_choosing(pages=False)[:2],
        Does("diff", ("d",), "what it did, line by line"),
        Does("undo", ("u",), "undo this run", decides=True),
        Does("rewind", ("b",), "files and conversation back to before it", decides=True),
        Does("files", ("c",), "files back to before it", decides=True),
        Does("conversation", ("t",), "conversation back to before it", decides=True),
        Does("keep", ("k",), "keep it for good, or no longer", decides=True),
    ),
    upon="panel",
)
STATISTICS: Final = Place(
    "statistics",
    "In the statistics (/stats)",
    (Does("again", ("r",), "read the journals again"),),
    upon="panel",
)
PANEL: Final = Place(
    "panel",
    "In every panel: help, context, diffs, lists",
    (Does("close", ("enter", "q", "question_mark"), "close it"), *_scrolling()),
    (Fixed("esc", "close it", _OUT),),
)
MODELS: Final = Place(
    "models",
    "In the list of models (/model)",
    (
        Does("use", ("enter",), "use it"),
        *_choosing(),
        Does("next_role", ("tab",), "for the next role", "for the whole session, or for one role"),
        Does(
            "previous_role", ("shift+tab",), "for the role before", "for the whole session, or for one role"
        ),
        Does("take_back", ("f8",), "take the choice for a role back", decides=True),
    ),
    (_ESC,),
    field=True,
    app=("help",),
)
PAGER: Final = Place(
    "pager",
    "In an output (/output)",
    (
        Does("up", ("up",), "a line up", "move; at the end it follows"),
        Does("down", ("down",), "a line down", "move; at the end it follows"),
        Does("page_up", ("pageup",), "a page up", "move; at the end it follows"),
        Does("page_down", ("pagedown", "space"), "a page down", "move; at the end it follows"),
        Does("top", ("home",), "to the beginning", "move; at the end it follows"),
        Does("bottom", ("end",), "to the end, and follow", "move; at the end it follows"),
        Does("left", ("left",), "to the left", "to the side"),
        Does("right", ("right",), "to the right", "to the side"),
        Does("wrap", ("w",), "wrap long lines, or cut them"),
        Does("search", ("slash", "ctrl+f"), "search; :120 goes to a line"),
        Does("next_match", ("n",), "next match", "next and previous match"),
        Does("previous_match", ("N",), "previous match", "next and previous match"),
        Does("older", ("tab",), "the output of an older call", "older and newer calls"),
        Does("newer", ("shift+tab",), "the output of a newer call", "older and newer calls"),
        Does("close", ("q", "f7"), "back"),
    ),
    (_ESC, Fixed("enter", "in the search: find it", _FIELD)),
    app=("help",),
)
SETTINGS: Final = Place(
    "settings",
    "In the settings (/settings)",
    (
        Does("change", ("enter",), "change it"),
        *_choosing(top="ctrl+home", bottom="ctrl+end"),
        Does("reset", ("delete",), "in an empty field: back to what is built in"),
    ),
    (_ESC,),
    field=True,
    app=(),
)
SETTING: Final = Place(
    "setting",
    "While a setting is changed",
    (
        Does("keep", ("enter",), "keep what is typed"),
        Does(
            "next_word", ("down", "tab"), "the next of its words", "the next of its words, and the one before"
        ),
        Does(
            "previous_word",
            ("up", "shift+tab"),
            "the one before",
            "the next of its words, and the one before",
        ),
    ),
    (Fixed("esc", "leave it as it was", _OUT),),
    field=True,
    app=(),
)
PALETTE: Final = Place(
    "palette",
    "In the palette",
    (
        Does("do", ("enter",), "do it"),
        Does("up", ("up", "ctrl+p", "shift+tab"), "the one above", _IN_LIST),
        Does("down", ("down", "ctrl+n", "tab"), "the one below", _IN_LIST),
        *_choosing(top="ctrl+home", bottom="ctrl+end")[2:],
    ),
    (_ESC,),
    field=True,
    app=(),
)
LISTS: Final = Place(
    "lists",
    "In the list of commands or files over the composer",
    fixed=(
        Fixed(
            "up  down",
            _IN_LIST,
            "the draft keeps the keys; the list borrows those that a draft has no use for",
        ),
        Fixed("enter", "do it, or take it", "as above"),
        Fixed("tab", "put it into the draft, or go into the folder", "as above"),
        Fixed("esc", "close it", _OUT),
    ),
    app=None,
)
NAMING: Final = Place(
    "naming",
    "While keys are named (/keys)",
    fixed=(Fixed("esc esc", "close it", "every other key is only looked at"),),
    app=(),
)
PLACES: Final = (
    APPROVAL, CHANGE, PROGRESS, PLAN, REVIEW, STEPS, SUMMARY, QUESTION, CONFLICT, SESSIONS, QUEUE, MODELS, PAGER,
    SETTINGS, SETTING, PALETTE, SEARCH, CHECKPOINTS, GRANTS, STATISTICS, PANEL, FIRST_RUN, LISTS, NAMING,
)  # fmt: skip
"""In the order of the help."""
ACTIONS: Final = {f"{place.name}.{one.name}": (place, one) for place in PLACES for one in place.actions}
"""Every action as `keys:` names it."""
