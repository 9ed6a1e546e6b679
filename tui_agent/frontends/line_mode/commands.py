"""The `/` commands that make sense line by line. Each is a word, a sentence, and what it does to the session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tui_agent.domain import ApprovalMode, Fault, Mode
from tui_agent.engine.undoing import CannotUndo, What
from tui_agent.frontends.line_mode.shown import diff_lines, rule
from tui_agent.text import clean, one_line

if TYPE_CHECKING:
    from tui_agent.checkpoints.ledger import Checkpoint
    from tui_agent.engine.session import Session
    from tui_agent.frontends.line_mode.loop import Repl

SESSION: Final = "execution"
"""The role whose model is the session's own."""


class Command(NamedTuple):
    """`run` takes the loop and what was typed behind the name."""

    name: str
    takes: str
    does: str
    run: Callable[[Repl, str], None]


def run(repl: Repl, text: str) -> None:
    """Do what a line that begins with `/` asks for. Raises Leave for `/quit`."""
    name, _, rest = text[1:].partition(" ")
    command = BY_NAME.get(name)
    if command is None:
        repl.say(
            f"There is no command /{one_line(name, 40)}. /help lists them; a blank in front sends it as a message."
        )
        return
    try:
        command.run(repl, rest.strip())
    except CannotUndo as error:
        repl.say(clean(str(error)))


def _help(repl: Repl, _: str) -> None:
    rows = [(f"/{one.name} {one.takes}".rstrip(), one.does) for one in COMMANDS]
    rows += [
        ("!command", "run a command of your own in the session's shell"),
        ("@path", "in a message: attach a file or folder; :L10-L50 for lines"),
        ("\\ at the end", "the message goes on in the next line"),
        ("Ctrl+C", "stops the run; at an empty prompt, twice leaves"),
        ("Ctrl+D", "leaves; the session can be resumed"),
    ]
    wide = max(len(name) for name, _ in rows) + 2
    repl.say("\n".join(f"{name:<{wide}}{does}" for name, does in rows))


def _clear(repl: Repl, _: str) -> None:
    repl.backstage.call(repl.session.checkpoints.clear)


def _chooses(command: str, field: str, modes: type[Mode | ApprovalMode]) -> Callable[[Repl, str], None]:
    """What switches one of the two modes, and tells which there are."""

    def run(repl: Repl, word: str) -> None:
        names = [mode.value for mode in modes]
        if word in names:
            repl.wait_for(repl.session.set_modes(**{field: word}))
        else:
            repl.say(f"{command} takes {', '.join(names)}")

    return run


def _model(repl: Repl, name: str) -> None:
    models = repl.session.models
    if name:
        problem = repl.wait_for(models.choose(SESSION, name))
        if problem:
            repl.say(clean(problem))
        return
    found = repl.wait_for(models.listed())
    if isinstance(found, Fault):
        repl.say(clean(f"{found.message} {found.advice}".strip()))
    elif found is not None:
        listed = "\n".join(f"  {one_line(clean(one.name), 100)}" for one in found)
        repl.say(f"{listed or '  none'}\n/model NAME chooses one, from the next message on")


def _plan(repl: Repl, word: str) -> None:
    memory = repl.session.memory
    if word in ("accept", "discard"):
        if not repl.wait_for(repl.session.settle_plan(word == "accept")):
            repl.say("there is no proposal to decide about")
    elif word:
        repl.say("/plan takes accept or discard; alone it shows the plan")
    else:
        text = repl.backstage.call(lambda: memory.proposals() or memory.text())
        repl.say(clean(text) or "this session has no plan")


def _undo(repl: Repl, words: str) -> None:
    checkpoints = repl.session.checkpoints
    if _is_run(words):
        repl.wait_for(checkpoints.undo(run=_run(words)))
    else:
        repl.wait_for(checkpoints.undo(files=(words,) if words else ()))


def _redo(repl: Repl, _: str) -> None:
    repl.wait_for(repl.session.checkpoints.redo())


def _rewind(repl: Repl, words: str) -> None:
    number, _, rest = words.partition(" ")
    kinds: dict[str, What] = {"": "both", "both": "both", "code": "code", "conversation": "conversation"}
    if not _is_run(number) or rest.strip() not in kinds:
        repl.say(
            "/rewind takes the number of a run, then code, conversation or both; /checkpoints lists them"
        )
        return
    report = repl.wait_for(repl.session.checkpoints.rewind(_run(number), kinds[rest.strip()]))
    if report is not None and report.text:
        repl.terminal.again(clean(report.text))


def _checkpoints(repl: Repl, _: str) -> None:
    listed = repl.backstage.call(repl.session.checkpoints.listed)
    for one in listed:
        files = [f"{clean(file.display)} +{file.added} −{file.removed}" for file in one.files]
        undone = " (undone)" if one.undone else ""
        repl.say(f"{one.run}{undone} {one_line(clean(one.title), 80)}\n  {', '.join(files) or 'no files'}")
    if not listed:
        repl.say("nothing was done to files")


def _diff(repl: Repl, word: str) -> None:
    found = [
        one
        for one in repl.backstage.call(repl.session.checkpoints.listed)
        if word in ("", one.run, one.run[4:])
    ]
    if not found:
        repl.say("nothing was done to files")
        return
    _compare(repl, found[-1])


def _compare(repl: Repl, chosen: Checkpoint) -> None:
    for file in chosen.files:
        diff = repl.wait_for(repl.session.checkpoints.diff(chosen.run, file.path))
        if diff is not None:
            repl.say(f"{clean(diff.path)}  +{diff.added} −{diff.removed}", "strong")
            for text, style in diff_lines(diff):
                repl.say(text, style)


def _compact(repl: Repl, _: str) -> None:
    repl.backstage.call(repl.session.compact)


def _grants(repl: Repl, word: str) -> None:
    listed = repl.backstage.call(repl.session.grants.listed)
    if word.isdecimal() and 0 < int(word[:6]) <= len(listed):
        repl.wait_for(repl.session.grants.revoke(listed[int(word[:6]) - 1]))
        repl.say("taken back: it is asked for again")
    elif listed:
        rows = [f"  {number} {one.scope.value}: {rule(one)}" for number, one in enumerate(listed, 1)]
        repl.say("\n".join([*rows, "/grants N takes one back"]))
    else:
        repl.say("nothing is allowed for longer than once")


def _rename(repl: Repl, title: str) -> None:
    if title and repl.wait_for(repl.session.naming.rename(title)):
        repl.say(f"This session is called «{one_line(clean(title), 100)}» now.")
    elif not title:
        repl.say("/rename takes a title")


def _export(repl: Repl, name: str) -> None:
    from tui_agent.export import writing

    session: Session = repl.session
    repl.wait_for(session.wait())
    form = writing.form_of(name) or "markdown"
    try:
        path = writing.target(name, Path(), session.id, form)
        writing.write(session.folder, form, session.mask, path)
    except writing.NotWritten as error:
        repl.say(clean(str(error)))
    else:
        repl.say(f"Written to {clean(str(path))}.")


def _output(repl: Repl, _: str) -> None:
    repl.say(clean(repl.last_output).rstrip("\n") or "no call has printed anything yet")


def _status(repl: Repl, _: str) -> None:
    session = repl.session
    current = repl.wait_for(session.models.current())
    model = current.get(SESSION, ("", False))[0] if current else ""
    window = repl.wait_for(session.models.window()) if model else None
    repl.say(f"session {session.id}  {one_line(clean(session.title), 80)}")
    repl.say(f"model {one_line(clean(model), 100) or 'not known yet'} · {clean(session.models.endpoint)}")
    repl.say(f"context {repl.used_words(window)}")


def _quit(repl: Repl, _: str) -> None:
    repl.leave()


COMMANDS = (
    Command("help", "", "this list", _help),
    Command("clear", "", "forget the conversation; plan, files and session stay", _clear),
    Command("mode", "NAME", "how messages are worked on", _chooses("/mode", "mode", Mode)),
    Command("approvals", "NAME", "who is asked when", _chooses("/approvals", "approval_mode", ApprovalMode)),
    Command("model", "[NAME]", "the server's models; choose one", _model),
    Command("plan", "[accept|discard]", "show the plan; decide what the model proposes for it", _plan),
    Command("status", "", "session, model, how full its window is", _status),
    Command("output", "", "all that the last call printed", _output),
    Command("diff", "[RUN]", "what the last run, or that one, did to files", _diff),
    Command("checkpoints", "", "all runs and what they did to files", _checkpoints),
    Command("undo", "[RUN|FILE]", "take back what the last run did to files", _undo),
    Command("redo", "", "make the last undo, rewind or clear undone", _redo),
    Command("rewind", "RUN [WHAT]", "files and conversation back to before a run", _rewind),
    Command("compact", "", "make room in the model's context", _compact),
    Command("grants", "[N]", "what you allowed for longer than once; take one back", _grants),
    Command("rename", "TITLE", "give this session a title", _rename),
    Command("export", "[FILE]", "write the session to a file, markdown or .html", _export),
    Command("quit", "", "leave; the session can be resumed", _quit),
)
BY_NAME = {one.name: one for one in COMMANDS}
BY_NAME["exit"] = BY_NAME["quit"]


def _is_run(word: str) -> bool:
    return word.removeprefix("run-").isdecimal()


def _run(word: str) -> str:
    return f"run-{word.removeprefix('run-')}"
