"""The tasks of the suite, made by number from a few families, with the faults that a plan puts in their way."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tui_agent.domain import Noun

HERE = Path(__file__).parent
PLAN_FILE = HERE / "fault_plan.json"
COUNT = 120
CHECK = "sh check.sh"
"""What shows in every workspace whether its task is done."""
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
_READ, _WRITE, _EDIT, _RUN = "read_file", "write_file", "edit_file", "run_terminal_command"


class FaultKind(Noun, frozen=True, kw_only=True):
    """What may be in the way, and in which share of the tasks that it fits."""

    kind: str
    rate: float


class FaultPlan(Noun, frozen=True, kw_only=True):
    """The faults of a suite: the same for the same seed, whoever works on it and how."""

    seed: int
    telling: float
    """Share of the faults whose own message names the kind of error and what is needed first."""
    faults: tuple[FaultKind, ...]

    def rate(self, kind: str) -> float:
        """0 for a kind that is not planned."""
        return next((one.rate for one in self.faults if one.kind == kind), 0.0)


class Move(Noun, frozen=True, kw_only=True):
    """One call on the way to a task's end."""

    tool: str
    arguments: dict[str, Any]
    after: dict[str, Any] = msgspec.field(default_factory=dict)
    """Arguments that are right once `Task.evidence` was seen, where they differ."""
    open: bool = False
    """The arguments can only be known when it is done, so that no plan holds them."""
    says: str = ""
    """What it does, in a plan's words."""


class Task(Noun, frozen=True, kw_only=True):
    """One task: a workspace, what is asked, what is in the way, and what must be there in the end."""

    number: int
    family: str
    request: str
    files: dict[str, str]
    goal: dict[str, str]
    """Path → text of every file that the request is about."""
    moves: tuple[Move, ...]
    """The short way, which works where nothing is in it."""
    need: Move | None = None
    """What must be done before them where something is."""
    evidence: str = ""
    """Text that shows what `need` found out, where it finds something out."""
    needed: str = ""
    """Names the need in messages: a command or a path."""
    error_class: str = ""
    """Of the failure that comes without the need."""
    fault: str = ""
    """The kind of fault that is in the way; empty for none."""
    telling: bool = False
    simple: bool = False
    """One call does it."""

    def set_up(self, folder: Path) -> Path:
        """Make the workspace; returns it. Blocks."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder

    def right(self, folder: Path) -> bool:
        """Whether the files that were asked for are there as asked. Blocks."""
        try:
            return all((folder / name).read_bytes() == text.encode() for name, text in self.goal.items())
        except OSError:
            return False


class Errand(Noun, frozen=True, kw_only=True):
    """A family around a little program that may want something first."""

    family: str
    kind: str
    script: str
    act: str
    prepare: str
    folder: str
    ask: str
    about: str
    rule: str
    error: str
    code: int
    source: str = ""
    """A file that must be written before."""
    simple: bool = False
    passes: bool = False
    """The fault passes with the second try."""


@cache
def fault_plan() -> FaultPlan:
    """The plan that comes with the program."""
    return msgspec.json.decode(PLAN_FILE.read_bytes(), type=FaultPlan)


@cache
def errands() -> tuple[Errand, ...]:
    """The families that are data."""
    return tuple(msgspec.json.decode((HERE / "errands.json").read_bytes(), type=list[Errand]))


def suite(count: int = COUNT, plan: FaultPlan | None = None) -> list[Task]:
    """The first `count` tasks."""
    return [task(number, plan or fault_plan()) for number in range(1, count + 1)]


def task(number: int, plan: FaultPlan) -> Task:
    """The task of that number; the same for ever under the same plan."""
    families: list[Callable[[_Draw], Task]] = [
        *((lambda draw, one=one: _errand(one, draw)) for one in errands()),
        _mend,
        _change,
        _note,
    ]
    draw = _Draw(number, plan, Random(f"{plan.seed}:{number}"))
    return families[(number - 1) % len(families)](draw)


class _Draw:
    """What chance decides of one task."""

    def __init__(self, number: int, plan: FaultPlan, rng: Random) -> None:
        self.number = number
        self.rng = rng
        self.thing = f"{rng.choice(_WORDS)}{number}"
        self.telling = rng.random() < plan.telling
        self._struck = rng.random()
        self._plan = plan

    def fault(self, kind: str) -> str:
        """`kind` where it strikes, else empty."""
        return kind if self._struck < self._plan.rate(kind) else ""

    def asked(self, text: str) -> str:
        """The request: its number, which tells tasks apart, and what is wanted."""
        return f"Task {self.number}: {text}. In the end `{CHECK}` must pass."


_CLASSES = {"missing_file": "not_found", "wrong_path": "not_found"}


def _told(error: str, kind: str, need: str) -> str:
    """An error's message that says what it is about and what helps."""
    return f"{error} ({_CLASSES.get(kind, kind).replace('_', ' ')}); needed first: {need}"


def _errand(one: Errand, draw: _Draw) -> Task:
    thing, fault = draw.thing, draw.fault(one.kind)
    need, main = f"sh {one.script} {one.prepare}", f"sh {one.script} {one.act} {thing}"
    source = one.source.format(thing=thing)
    made = f"{one.folder}/{thing}.txt"
    names = {"main": f"`{main}`", "source": f"`{source}`", "number": draw.number}
    moves = [Move(tool=_RUN, arguments={"command": main}, says=f"Run `{main}`")]
    goal = {made: f"{thing}\n"}
    if source:
        text = f"VALUE = {draw.number}\n"
        write = Move(
            tool=_WRITE, arguments={"path": source, "content": text}, open=True, says=f"Write `{source}`"
        )
        moves.insert(0, write)
        goal[source] = text
    return Task(
        number=draw.number,
        family=one.family,
        request=draw.asked(one.ask.format(**names) + f", so that `{made}` is there"),
        files={
            one.script: _script(one, fault, draw.telling),
            "README.md": f"# {one.family}\n\n{one.about} {one.rule.format(need=f'`{need}`')}\n",
            "check.sh": f'test "$(cat {made})" = {thing} && echo passed\n',
        },
        goal=goal,
        moves=tuple(moves),
        need=Move(tool=_RUN, arguments={"command": need}, says=f"Prepare with `{need}`"),
        needed=need,
        error_class=_CLASSES.get(one.kind, one.kind),
        fault=fault,
        telling=draw.telling,
        simple=one.simple,
    )


def _script(one: Errand, fault: str, telling: bool) -> str:
    need = f"sh {one.script} {one.prepare}"
    error = one.error.replace("{thing}", "$2")
    said = _told(error, one.kind, need) if telling else error
    passing = f"touch .{one.family}; " if one.passes else ""
    guard = f'[ -e .{one.family} ] || {{ {passing}echo "{said}" >&2; exit {one.code}; }}' if fault else ":"
    wants = f'[ -e "{one.source.format(thing="$2")}" ] || {{ echo "no module $2" >&2; exit 3; }}'
    return "\n".join(
        [
            f"# {one.about} {one.rule.format(need=need)}",
            'case "$1" in',
            f"  {one.prepare}) touch .{one.family}; echo prepared ;;",
            f"  {one.act})",
            '    [ -n "$2" ] || exit 64',
            f"    {wants if one.source else ':'}",
            f"    {guard}",
            f'    mkdir -p {one.folder}; echo "$2" > "{one.folder}/$2.txt"; echo "{one.folder}/$2.txt is there" ;;',
            f'  *) echo "usage: sh {one.script} {one.prepare} | {one.act} NAME" >&2; exit 64 ;;',
            "esac",
            "",
        ]
    )


def _mend(draw: _Draw) -> Task:
    """A test fails; what is right stands in the test only, and the first guess may be wrong."""
    fault = draw.fault("test_failure")
    right, wrong = draw.rng.choice((("a + b", "a * b"), ("a * b + 1", "a * b"), ("b - a", "a + b")))
    name, test = f"{draw.thing}.py", f"check_{draw.thing}.py"
    a, b = draw.rng.randint(3, 9), draw.rng.randint(11, 19)
    wanted = eval(right, {"a": a, "b": b})
    mended, guessed = (f"def blend(a, b):\n    return {one}\n" for one in (right, wrong if fault else right))
    run = f"python3 -B {test}"  # no bytecode: it is told apart by seconds only
    error = "AssertionError"
    hint = _told(error, "test_failure", f"read {test}") if draw.telling else error
    return Task(
        number=draw.number,
        family="mend",
        request=draw.asked(f"the test `{run}` fails, mend `{name}`"),
        files={
            name: "def blend(a, b):\n    return a - b\n",
            test: f"# the rule: {right}\nfrom {draw.thing} import blend\n\n"
            f"if blend({a}, {b}) != {wanted}:\n    raise SystemExit('{hint}')\n",
            "check.sh": f"{run} && echo passed\n",
        },
        goal={name: mended},
        moves=(
            Move(tool=_READ, arguments={"path": name}, says=f"Read `{name}`"),
            Move(
                tool=_WRITE,
                arguments={"path": name, "content": guessed},
                after={"path": name, "content": mended},
                open=True,
                says=f"Mend `{name}`",
            ),
            Move(tool=_RUN, arguments={"command": run}, says=f"Run `{run}`"),
        ),
        need=Move(tool=_READ, arguments={"path": test}, says=f"Read `{test}` to see what is wanted"),
        evidence=f"# the rule: {right}",
        needed=test,
        error_class="test_failure",
        fault=fault,
        telling=draw.telling,
    )


def _change(draw: _Draw) -> Task:
    """A value is to be changed in a file that may lie elsewhere than the request says."""
    fault = draw.fault("wrong_path")
    name, limit = f"{draw.thing}.ini", draw.rng.randint(20, 90)
    real = f"settings/{name}" if fault else name
    read, edit = {"path": name}, {"path": name, "old_string": "limit = 10", "new_string": f"limit = {limit}"}
    find = f"find . -name {name}"
    return Task(
        number=draw.number,
        family="change",
        request=draw.asked(f"set the limit in `{name}` to {limit}"),
        files={
            real: "[main]\nlimit = 10\n",
            "check.sh": f"grep -q 'limit = {limit}' {real} && echo passed\n",
        },
        goal={real: f"[main]\nlimit = {limit}\n"},
        moves=(
            Move(tool=_READ, arguments=read, after={"path": real}, open=True, says=f"Read `{name}`"),
            Move(
                tool=_EDIT, arguments=edit, after={**edit, "path": real}, open=True, says=f"Change `{name}`"
            ),
        ),
        need=Move(tool=_RUN, arguments={"command": find}, says=f"Find it with `{find}`"),
        evidence=f"settings/{name}" if fault else "",
        needed=find,
        error_class="not_found",
        fault=fault,
        telling=draw.telling,
    )


def _note(draw: _Draw) -> Task:
    name, text = f"notes/{draw.thing}.txt", f"the number is {draw.number}\n"
    return Task(
        number=draw.number,
        family="note",
        request=draw.asked(f"write the line «the number is {draw.number}» into the new file `{name}`"),
        files={"check.sh": f"grep -q 'number is {draw.number}' {name} && echo passed\n"},
        goal={name: text},
        moves=(
            Move(tool=_WRITE, arguments={"path": name, "content": text}, open=True, says=f"Write `{name}`"),
        ),
        simple=True,
    )
