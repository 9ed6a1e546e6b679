"""The loop of the `files` strategy: the program finds the files and runs the checks, the model writes whole files (E4).

A run of it is a request with the files that matter, the reply's files written by the usual tool with its approvals, and
the commands that show whether it is right; what failed goes back to the model, in the conversation and as a fresh
attempt in turn, since a small model clings to its own first answer.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from collections.abc import Callable, Mapping

import msgspec

from tui_agent.common.domain import (
    AssistantMessage,
    Message,
    ProgramMessage,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
    program_text,
)
from tui_agent.engine.checks.examples import Example, examples_in
from tui_agent.engine.checks.name_checks import Problem, answer_gaps, is_test
from tui_agent.engine.checks.project_checks import (
    CommandEffects,
    checks_of,
    command_of,
    only_looks,
    only_runs,
    only_tests,
    python,
    ran_something,
)
from tui_agent.engine.checks.properties import (
    function_in,
    named_function,
    properties_in,
    property_program,
    sampling_program,
)
from tui_agent.engine.checks.relevant_files import RelevantFiles, find_relevant_files, name_list, room_in_window
from tui_agent.engine.checks.request_reading import RequestReading, read_request, removable_names
from tui_agent.engine.checks.request_scope import asks_for_tests_only, protected_files
from tui_agent.engine.checks.static_checks import NOTHING, lint_hints, problems, with_fixed_imports
from tui_agent.engine.core.history import ATTACHED, is_kind
from tui_agent.engine.core.prompts import prompt
from tui_agent.engine.core.state import EngineState
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.loop.ask import ConversationSource, LoopDeps, LoopNode, ModelRequester
from tui_agent.engine.loop.completion import CheckRuns, claims_change, output_of
from tui_agent.engine.loop.reply import Received
from tui_agent.events import CompletionRefused, ProgramMessageAdded, RunEnded
from tui_agent.protocols.file_reply import read_file_reply as read_files
from tui_agent.protocols.file_reply import without_files
from tui_agent.text import one_line
from tui_agent.tools.registry import Registry

TRIES = 6
"""Replies that are asked for at most."""
FRESH = 0.7
"""Temperature of every reply but the first, which is the model's likeliest one."""
REPLY = 700
"""Tokens of a reply beside the files that it may have to show again."""
TOLD = 4
"""Problems that the model is told at once."""
AT_ONCE = 10
"""Files that are read in a round of calls, and commands of a reply that are run."""
EXAMPLE_SECONDS = 10
"""Time limit of an example."""
LONGER = 3
"""How many times longer a reply may be after one that was cut off."""
SAME = 3
"""Equal replies running after which the model is not asked again."""


class FilesConversation:
    """The conversation of one run, as the files strategy shows it: set anew for each reply."""

    def __init__(self, desk: ConversationSource) -> None:
        self.messages: tuple[Message, ...] = ()
        self.new_call_id = desk.new_call_id
        self.keep_raw = desk.keep_raw
        self.steer = desk.steer

    def context(self) -> tuple[Message, ...]:
        """See ConversationSource."""
        return self.messages

    def notes(self) -> str:
        """Nothing: the files are shown as they are now."""
        return ""


class _Attempts(msgspec.Struct):
    """What the replies of a run came to."""

    accepted: set[str] = set()
    """Soft problems that a try had before."""
    spare: dict[str, str] | None = None
    """The files of a try that had soft problems only."""
    same: bool = False
    """The last reply showed what the one before it did."""
    last: dict[str, str] = {}
    said: str = ""
    """The model's own words of the last reply, without its files."""
    replies: list[str] = []
    """The replies word for word."""
    cut_off: bool = False
    """A reply came to an end before the model did."""

    def stuck(self, reply: str) -> bool:
        """Whether the model says the same for the third time running, whatever it is told."""
        self.replies = [*self.replies, reply][-SAME:]
        return len(self.replies) == SAME and len(set(self.replies)) == 1


class FilesLoop:
    """One run of the loop for one user message, or for a step of a plan."""

    def __init__(
        self,
        deps: LoopDeps,
        place: LoopNode,
        *,
        state: EngineState,
        registry: Registry,
        environment: ToolEnvironment,
        system: Callable[[], str],
    ) -> None:
        """`system`: the system text of this strategy."""
        self._place = place
        self._deps = deps
        self._stream = deps.stream
        self._calls = deps.calls
        self._state = state
        self._registry = registry
        self._environment = environment
        self._system = system
        self._conversation = FilesConversation(deps.source)
        self._checks = CheckRuns(environment, deps.calls, registry)
        self._requester = ModelRequester(msgspec.structs.replace(deps, source=self._conversation), place, ())
        self._requester.continues = 0
        self._began_calls = deps.calls.count
        self.claimed = False
        self.misfit = False
        """Nothing came of this way of asking."""
        self._request = RequestReading(text="", kind="unclear")
        self._material = RelevantFiles()
        self._facts: list[str] = []
        self._written: dict[str, str] = {}
        """Path → content, of the files as this run left them."""
        self._settled: list[Example] = []
        """Examples that held before anything was changed."""
        self._attempts = _Attempts()

    async def work(self) -> RunEnded:
        """Run to the end. Failures are outcomes; only cancellation is raised."""
        await self._prepare()
        wrong: list[Problem] = []
        attempt = 0
        while attempt < TRIES:
            if attempt and self._deps.source.steer():
                self._calls.heard()
                await self._prepare()
                attempt = 0
            received = await self._ask(attempt)
            if isinstance(received, str):
                return self._ended("limit", received, "")
            found = await self._judge(received)
            if isinstance(found, RunEnded):
                return found
            wrong = found
            self._refuse(wrong, attempt, received)
            attempt += 1
            if self._attempts.stuck(received.ended.text):
                break
        if self._attempts.spare is not None:
            found = await self._carry_out(self._attempts.spare)
            if isinstance(found, RunEnded):
                return found
            wrong = found
        return self._failed(wrong, attempt)

    # --- before the model is asked ---

    async def _prepare(self) -> None:
        """Read the request, find and read the files that matter, and see what fails now."""
        self._request = request = read_request(self._task())
        place = self._environment
        recent = [name for name in self._recent() if name]
        self._material = await asyncio.to_thread(
            find_relevant_files, request, place.roots, room_in_window(self._deps.config.num_ctx), recent
        )
        await self._read(list(self._material.files))
        self._facts = await asyncio.to_thread(lint_hints, self._material.files) if request.kind != "question" else []
        if request.kind == "change" and any(is_test(name) for name in request.paths):
            self._facts += await self._samples()
        if request.kind == "change":
            self._facts += [f"Now {one}" for one in await self._failures(unasked=True)]
        elif request.kind == "command":
            self._facts += await self._failing(list(request.commands or await self._commands()), unasked=False)

    async def _read(self, names: list[str]) -> None:
        """Have the files read by the usual tool, so that they may be written."""
        if self._registry.find("read_file") is None:
            return
        for at in range(0, len(names), AT_ONCE):
            calls = tuple(
                ToolCall(id=f"read{secrets.token_hex(4)}", name="read_file", arguments={"path": name})
                for name in names[at : at + AT_ONCE]
            )
            await self._calls.carry_out(calls, self._place.parent)

    def _task(self) -> str:
        """What is to be done: the user's words of this turn, or the step of the plan that is being carried out."""
        turns = self._state.history.turns
        if not turns:
            return ""
        turn = turns[-1]
        if turn.step is not None and turn.doing:
            return re.sub(r"^Step \d+: ", "", turn.doing)
        return self._state.history.request

    def _recent(self) -> list[str]:
        """Paths that calls of this session changed or read, the latest last."""
        notes = self._state.facts.notes
        return [*notes.read, *notes.written]

    def _base(self) -> tuple[Message, ...]:
        """Rules, plan document, earlier turns, the files, the request."""
        context = self._deps.source.context()
        plan = [one for one in context[1:] if isinstance(one, SystemMessage)]
        earlier = self._state.history.earlier()
        shown = self._material.text()
        files = f"The files of my project:\n\n{shown}" if shown else "My project has no files yet."
        if self._material.left:
            files += f"\n\nThe project has more files; {self._material.left} of them may matter too."
        return (
            SystemMessage(text=self._system()),
            *plan,
            *earlier,
            *self._attached(),
            ProgramMessage(text=program_text("files", files)),
            UserMessage(text=self._request.text),
        )

    def _attached(self) -> tuple[Message, ...]:
        """What the user attached, unless it is files that are shown anyway."""
        turns = self._state.history.turns
        mentioned = re.findall(r"@([\w./-]+)", self._request.text)
        if all(name.rstrip(".") in self._material.files for name in mentioned):
            return ()
        return tuple(one for turn in turns[-1:] for one in turn.messages if is_kind(one, ATTACHED))

    def _closing(self) -> tuple[Message, ...]:
        """What stands behind the request: what is known of the files, and the form of the reply."""
        notes = self._facts[:TOLD]
        note = "\n".join(notes) if len(notes) == 1 else "\n".join(f"- {one}" for one in notes)
        found = (ProgramMessage(text=program_text("note", note)),) if notes else ()
        form = (
            ()
            if self._request.kind == "question"
            else (ProgramMessage(text=program_text("form", prompt("files_form"))),)
        )
        return (*found, *form)

    # --- the reply ---

    async def _ask(self, attempt: int) -> Received | str:
        if attempt == 0 or not self._conversation.messages:
            self._conversation.messages = (*self._base(), *self._closing())
        size = sum(map(len, self._material.shown.values()))
        self._requester.iteration += 1
        limit = REPLY + (size if self._request.kind != "question" else 0) // 3
        self._requester.limit = limit * LONGER if self._attempts.cut_off else limit
        temperature = min(self._deps.config.temperature, FRESH) if attempt == 0 else FRESH
        return await self._requester.ask((), (), 0.0 if attempt == 0 else temperature)

    async def _judge(self, received: Received) -> RunEnded | list[Problem]:
        """What a reply is worth: the end of the run, or what is wrong with it."""
        text, request, known = received.ended.text, self._request, self._material.files
        if (fault := received.ended.fault) is not None:
            if fault.kind in ("broken", "timeout"):
                return [Problem(fault.message)]
            return self._ended(fault.outcome, fault.full_message, "")
        reply = await asyncio.to_thread(read_files, text, known, request.text, removable_names(request.text))
        self._attempts.said = without_files(text) if reply.files else text.strip()
        cut_off = received.ended.stop == "length"
        self._attempts.cut_off = self._attempts.cut_off or (cut_off and not received.repeated)
        if request.kind == "question" or not self._may_write():
            return self._answered(text)
        if received.repeated or (cut_off and not reply.files):
            return [Problem(prompt("files_long"))]
        if not reply.shown and reply.commands:
            return await self._run_commands(reply.commands)
        if not reply.shown and request.kind != "change" and not claims_change(text):
            return self._answered(text)
        if cut_off:
            return [Problem(prompt("files_long"))]
        changed = await asyncio.to_thread(self._mended, reply.files)
        if asks_for_tests_only(request.text):
            changed = {name: one for name, one in changed.items() if is_test(name) or name not in known}
        protected = protected_files(request.text, known)
        left_alone = protected & changed.keys()
        changed = {name: one for name, one in changed.items() if name not in left_alone}
        self._attempts.same, self._attempts.last = changed == self._attempts.last, changed
        wrong = [Problem(one) for one in reply.problems]
        wrong += [] if changed else [Problem(f"{name} must stay as it is") for name in sorted(left_alone)]
        wrong += [Problem(one, soft=True) for one in reply.doubts]
        wrong += [] if wrong and not changed else await asyncio.to_thread(problems, request, known, changed, protected)
        if any(not one.soft for one in wrong):
            return wrong
        if wrong and not any(one.text in self._attempts.accepted for one in wrong):
            self._attempts.accepted |= {one.text for one in wrong}
            self._attempts.spare = self._attempts.spare or changed
            return wrong
        return await self._carry_out(changed)

    def _mended(self, files: Mapping[str, str]) -> dict[str, str]:
        known = self._material.files
        return {
            name: with_fixed_imports(content, known.get(name)) if name.endswith(".py") else content
            for name, content in files.items()
        }

    def _answered(self, text: str) -> RunEnded | list[Problem]:
        """The end with an answer in words. What was asked to be run and was not is no answer."""
        said = text.strip()
        if not said:
            return [Problem("the reply was empty")]
        if self._request.kind == "command" and self._may_write() and not ran_something(self._calls.results):
            return [Problem("nothing was run: name the command to run in a sh block")]
        lacking = (
            answer_gaps(self._request.text, said, self._material.files) if self._request.kind == "question" else []
        )
        if lacking and not self._attempts.accepted:
            self._attempts.accepted |= set(lacking)
            return [Problem(one, soft=True) for one in lacking]
        facts = " ".join(self._outcomes()) if self._request.kind == "command" else ""
        return self._ended("done", "\n\n".join(filter(None, [said, facts])), said)

    def _outcomes(self) -> list[str]:
        """How the commands of this run ended, in words."""
        ended = {
            command_of(call): "passed" if result.success else result.error or "failed"
            for call, result in self._calls.results
            if command_of(call) and not only_looks(command_of(call))
        }
        return [f"`{one_line(command, 60)}`: {how}." for command, how in list(ended.items())[-3:]]

    def _may_write(self) -> bool:
        return self._registry.find("write_file") is not None

    # --- carrying out ---

    async def _carry_out(self, changed: dict[str, str]) -> RunEnded | list[Problem]:
        """Write the files, and run what shows whether they are right."""
        known = self._material.files
        back = {name: known[name] for name in self._written if name not in changed and name in known}
        for name, content in {**back, **changed}.items():
            result = await self._call("write_file", {"path": name, "content": content})
            if result.success:
                self._written[name] = content
                continue
            if result.code == "refused":
                return self._declined(name, result)
            if result.code in ("changed", "not_read"):
                await self._prepare()
                return [Problem(f"{name} is another one by now")]
            return [Problem(f"{name} could not be written: {result.error}")]
        return [Problem(one) for one in await self._failures()] or self._done()

    async def _run_commands(self, commands: tuple[str, ...]) -> RunEnded | list[Problem]:
        """Run what the reply proposes instead of a change, each command with its approval. To look, to test or to run
        the project is no change: the program does so by itself."""
        changing = [one for one in commands if not (only_looks(one) or only_tests(one) or only_runs(one))]
        if self._request.kind == "change" and not changing:
            return [Problem(NOTHING)]
        for command in commands[:AT_ONCE]:
            result = await self._call("run_terminal_command", {"command": command})
            if result.code == "refused":
                return self._declined(f"`{command}`", result)
            if not result.success and not (self._request.kind == "command" and only_tests(command)):
                return [Problem(f"`{command}` fails ({result.error}):\n{output_of(result)}")]
        if len(commands) > AT_ONCE:
            return [Problem(f"only the first {AT_ONCE} commands were run")]
        if self._request.kind == "change":
            effects = CommandEffects(self._calls.by_command)
            if not effects.acted(self._calls.results, self._request):
                return [Problem(NOTHING)]
            if wrong := [Problem(one) for one in await self._failures()]:
                return wrong
        return self._done()

    async def _call(self, name: str, arguments: dict[str, str]) -> ToolResult:
        call = self._deps.source.new_call_id(ToolCall(id="", name=name, arguments=arguments))
        await self._calls.carry_out((call,), self._requester.node)
        return self._calls.results[-1][1]

    async def _failures(self, *, unasked: bool = False) -> list[str]:
        """What of the request's commands, the project's tests and the request's examples fails now. What is no test is
        run last, and only when all else is right: it may do more than show something."""
        commands = await self._commands()
        found = await self._failing([one for one in commands if only_tests(one)], unasked=unasked)
        for example in self._examples():
            if example in self._settled or not await self._checks.may_run(example.command, unasked=unasked):
                continue
            result = await self._checks.run(example.command, self._place.parent, seconds=EXAMPLE_SECONDS, must_end=True)
            if unasked and example.wrong and not example.want and (result is None or result.success):
                self._settled.append(example)  # the request does not speak of what the call gives
            if result is not None and not result.success:
                said = output_of(result).splitlines()
                found.append(f"{example.expected}, but: {said[-1] if said else 'it fails'}")
        if self._written and not unasked:
            found += await self._broken_properties()
        others = [one for one in commands if not only_tests(one)]
        if not found and (not unasked or self._request.kind == "command"):
            found += await self._failing(others, unasked=unasked)
        return found

    async def _failing(self, commands: list[str], *, unasked: bool) -> list[str]:
        found = []
        for command in commands:
            if not await self._checks.may_run(command, unasked=unasked):
                continue
            result = await self._checks.run(command, self._place.parent)
            if result is not None and not result.success:
                found.append(f"`{command}` fails:\n{output_of(result)}")
            elif result is not None and self._request.kind == "command":
                self._facts.append(f"`{command}` passed:\n{output_of(result)}")
        return found

    async def _samples(self) -> list[str]:
        """What the function gives now that tests are asked for, where it can be tried without asking."""
        module, function, count = named_function(self._request.text, self._material.files)
        if not function or any(name in self._material.files for name in self._request.paths if is_test(name)):
            return []
        said = await self._output(f"sample_{function}", sampling_program(module, function, count))
        return [f"{function} gives now:\n{said}"] if said else []

    async def _output(self, name: str, program: str) -> str:
        """What a small program of our own prints; empty where it can't be run without asking."""
        path = self._environment.scratch / f"{name}.py"
        await asyncio.to_thread(path.write_text, program, encoding="utf-8")
        command = f"{python()} -B {shlex.quote(str(path))}"
        if not await self._checks.may_run(command, unasked=True):
            return ""
        result = await self._checks.run(command, self._place.parent)
        return "" if result is None else output_of(result).removeprefix("exit code 0").strip()

    async def _broken_properties(self) -> list[str]:
        """What the request says of a function's results and is not so, where it can be tried without asking."""
        wanted = properties_in(self._request.text)
        module, function = function_in(self._request.text, {**self._material.files, **self._written})
        if not wanted or not function:
            return []
        said = await self._output(f"try_{function}", property_program(module, function, wanted))
        return [line for line in said.splitlines() if "but the request says" in line][-1:]

    async def _commands(self) -> list[str]:
        if self._request.commands:
            return list(self._request.commands)
        tests = await self._checks.test_command()
        shown = any(is_test(name) for name in (*self._material.files, *self._written, *self._request.paths))
        return [tests] if tests and (shown or not tests.startswith("python3")) else []

    def _examples(self) -> list[Example]:
        files = self._material.files
        return examples_in(self._request.text, {**files, **self._written}, files)

    # --- between two replies ---

    def _refuse(self, wrong: list[Problem], attempt: int, received: Received) -> None:
        """Note why a reply is not the end, and prepare the next one."""
        why = "; ".join(one.text.split("\n", 1)[0] for one in wrong[:TOLD]) or NOTHING
        self._stream.emit(CompletionRefused(why=why), run=self._place.run, node=self._requester.node)
        base = (*self._base(), *self._closing())
        if len(wrong) == 1 and wrong[0].text == prompt("files_long"):
            self._conversation.messages = (*base, ProgramMessage(text=program_text("note", wrong[0].text)))
            return
        makes_new = bool(self._written) and not set(self._written) & set(self._material.files)
        if attempt % 2 or makes_new or self._attempts.same:
            why = "\n".join(one.text for one in wrong[:1])
            hint = (ProgramMessage(text=program_text("note", f"Take care: {why}")),) if attempt > 2 else ()
            self._conversation.messages = (*base, *hint)
            return
        if [one.text for one in wrong] == [NOTHING]:
            told = prompt("files_nothing")
        else:
            rows = "\n".join(f"- {one.text}" for one in wrong[:TOLD])
            told = rows if self._request.kind == "question" else prompt("files_wrong").format(problems=rows)
        self._stream.emit(ProgramMessageAdded(kind="feedback", text=told), run=self._place.run)
        said = received.ended.text.strip() or "(nothing)"
        self._conversation.messages = (
            *base,
            AssistantMessage(text=said),
            ProgramMessage(text=program_text("feedback", told)),
        )

    # --- the end ---

    def _done(self) -> RunEnded:
        """The end of a run whose work is done: the model's words, and the facts."""
        changed = [name for name in self._written if self._material.files.get(name) != self._written[name]]
        passed = [command for command, result in checks_of(self._calls.results).items() if result.success]
        facts = [f"Changed: {name_list(changed)}."] if changed else []
        facts += [f"Passed: {', '.join(f'`{one_line(one, 60)}`' for one in passed[-3:])}."] if passed else []
        text = "\n\n".join(filter(None, [self._attempts.said, " ".join(facts)]))
        return self._ended("done", text or "Done.", self._attempts.said)

    def _declined(self, what: str, result: ToolResult) -> RunEnded:
        return self._ended(
            "refused", f"Not done: {what} was not allowed. {result.error or ''}".strip(), self._attempts.said
        )

    def _failed(self, wrong: list[Problem], tries: int) -> RunEnded:
        self.misfit = True
        what = "; ".join(one.text for one in wrong[:TOLD])
        left = f" Left as it is: {name_list(self._written)}; /undo takes it back." if self._written else ""
        return self._ended("failed", f"Not done after {tries} tries: {what}.{left}", "")

    def _ended(self, outcome: str, text: str, said: str) -> RunEnded:
        return self._requester.ended(outcome, text, self._calls.count - self._began_calls, said)
