"""The loop of the `files` strategy: the program finds files and runs checks, the model writes whole files (E4).

Each attempt is a request with the relevant files. The files of the reply are written by the usual tool, with approvals,
then the checks run. Failures go back to the model alternately as feedback in the conversation and as a fresh attempt,
since small models tend to repeat their first answer.
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
    check_results,
    command_line,
    has_run_command,
    is_inspection,
    is_project_run,
    is_test_run,
    python_program,
)
from tui_agent.engine.checks.properties import (
    called_function,
    named_function,
    properties_in,
    property_program,
    sampling_program,
)
from tui_agent.engine.checks.relevant_files import RelevantFiles, find_relevant_files, name_list, room_in_window
from tui_agent.engine.checks.request_reading import RequestReading, read_request, removable_names
from tui_agent.engine.checks.request_scope import asks_for_tests_only, protected_files
from tui_agent.engine.checks.static_checks import NOTHING, find_problems, lint_hints, with_fixed_imports
from tui_agent.engine.core.history import ATTACHED, STANDARD_INPUT, is_kind
from tui_agent.engine.core.prompts import prompt
from tui_agent.engine.core.state import EngineState
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.loop.ask import ConversationSource, LoopDeps, LoopNode, ModelRequester
from tui_agent.engine.loop.completion import CheckRunner, claims_change, output_tail
from tui_agent.engine.loop.reply import ReceivedReply
from tui_agent.events import CompletionRefused, ProgramMessageAdded, RunEnded
from tui_agent.protocols.file_reply import read_file_reply as read_files
from tui_agent.protocols.file_reply import without_files
from tui_agent.text import one_line
from tui_agent.tools.registry import Registry

MAX_ATTEMPTS = 6
RETRY_TEMPERATURE = 0.7
"""Temperature of all attempts but the first, which is greedy."""
BASE_REPLY_TOKENS = 700
"""Tokens of a reply in addition to the files that it may repeat."""
MAX_PROBLEMS = 4
"""Problems reported to the model at once."""
BATCH_SIZE = 10
"""Files read in one batch of calls, and commands of one reply that are run."""
EXAMPLE_TIMEOUT = 10
"""Time limit of an example, in seconds."""
TRUNCATED_FACTOR = 3
"""Factor on the reply limit after a truncated reply."""
MAX_IDENTICAL_REPLIES = 3
"""Identical replies in a row after which the loop gives up."""


class FilesConversation:
    """The messages of the next request of the files strategy, replaced before each request."""

    def __init__(self, source: ConversationSource) -> None:
        self.messages: tuple[Message, ...] = ()
        self.new_call_id = source.new_call_id
        self.save_raw = source.save_raw
        self.steer = source.steer

    def context(self) -> tuple[Message, ...]:
        """See ConversationSource."""
        return self.messages

    def notes(self) -> str:
        """Return nothing: requests contain the current files."""
        return ""


class _Attempts(msgspec.Struct):
    """The state of the attempts of one run."""

    reported: set[str] = set()
    """Soft problems reported to the model once; they are tolerated afterwards."""
    candidate: dict[str, str] | None = None
    """The files of an attempt with soft problems only."""
    unchanged: bool = False
    """The last two replies contained the same files."""
    last_files: dict[str, str] = {}
    answer: str = ""
    """The text of the last reply, without its files."""
    replies: list[str] = []
    """The latest replies, verbatim."""
    truncated: bool = False
    """A reply was truncated."""

    def is_stuck(self, reply: str) -> bool:
        """Record a reply and return whether the last `MAX_IDENTICAL_REPLIES` are identical."""
        self.replies = [*self.replies, reply][-MAX_IDENTICAL_REPLIES:]
        return len(self.replies) == MAX_IDENTICAL_REPLIES and len(set(self.replies)) == 1


class FilesLoop:
    """One run of the loop, for one user message or one step of a plan."""

    def __init__(
        self,
        deps: LoopDeps,
        node: LoopNode,
        *,
        state: EngineState,
        registry: Registry,
        environment: ToolEnvironment,
        system: Callable[[], str],
    ) -> None:
        """`system` returns the system prompt of this strategy."""
        self._node = node
        self._deps = deps
        self._stream = deps.stream
        self._calls = deps.calls
        self._state = state
        self._registry = registry
        self._environment = environment
        self._system = system
        self._conversation = FilesConversation(deps.source)
        self._checks = CheckRunner(environment, deps.calls, registry)
        self._requester = ModelRequester(msgspec.structs.replace(deps, source=self._conversation), node, ())
        self._requester.max_continuations = 0
        self._earlier_calls = deps.calls.count
        self.claimed = False
        self.strategy_failed = False
        """The run failed because the model could not work with this strategy."""
        self._request = RequestReading(text="", kind="unclear")
        self._files = RelevantFiles()
        self._facts: list[str] = []
        self._written: dict[str, str] = {}
        """Path to content, for the files written by this run."""
        self._satisfied: list[Example] = []
        """Examples that passed before any change."""
        self._attempts = _Attempts()

    async def work(self) -> RunEnded:
        """Run until the task ends. Failures are outcomes; only cancellation is raised."""
        await self._prepare()
        problems: list[Problem] = []
        attempt = 0
        while attempt < MAX_ATTEMPTS:
            if attempt and self._deps.source.steer():
                self._calls.note_user_input()
                await self._prepare()
                attempt = 0
            received = await self._ask(attempt)
            if isinstance(received, str):
                return self._ended("limit", received, "")
            result = await self._process_reply(received)
            if isinstance(result, RunEnded):
                return result
            problems = result
            self._prepare_retry(problems, attempt, received)
            attempt += 1
            if self._attempts.is_stuck(received.ended.text):
                break
        if self._attempts.candidate is not None:
            result = await self._write_and_check(self._attempts.candidate)
            if isinstance(result, RunEnded):
                return result
            problems = result
        return self._failed(problems, attempt)

    # --- preparation ---

    async def _prepare(self) -> None:
        """Read the request, find and read the relevant files, and run the checks as they stand now."""
        self._request = request = read_request(self._task())
        notes = self._state.facts.notes
        recent = [name for name in (*notes.read, *notes.written) if name]
        room = room_in_window(self._deps.config.num_ctx)
        self._files = await asyncio.to_thread(find_relevant_files, request, self._environment.roots, room, recent)
        await self._read(list(self._files.files))
        self._facts = await asyncio.to_thread(lint_hints, self._files.files) if request.kind != "question" else []
        if request.kind == "change" and any(is_test(name) for name in request.paths):
            self._facts += await self._sample_results()
        if request.kind == "change":
            self._facts += [f"Now {failure}" for failure in await self._failures(may_ask=False)]
        elif request.kind == "command":
            self._facts += await self._failing(list(request.commands or await self._commands()), may_ask=True)

    async def _read(self, names: list[str]) -> None:
        """Read the files with the usual tool, so that they may be written."""
        if self._registry.find("read_file") is None:
            return
        for start in range(0, len(names), BATCH_SIZE):
            calls = tuple(
                ToolCall(id=f"read{secrets.token_hex(4)}", name="read_file", arguments={"path": name})
                for name in names[start : start + BATCH_SIZE]
            )
            await self._calls.execute(calls, self._node.parent)

    def _task(self) -> str:
        """Return the user's request of this turn, or the current step of the plan."""
        turns = self._state.history.turns
        if not turns:
            return ""
        turn = turns[-1]
        if turn.step is not None and turn.step_label:
            return re.sub(r"^Step \d+: ", "", turn.step_label)
        return self._state.history.request

    def _base_messages(self) -> tuple[Message, ...]:
        """Return rules, plan document, earlier turns, the files and the request."""
        context = self._deps.source.context()
        plan = [message for message in context[1:] if isinstance(message, SystemMessage)]
        earlier = self._state.history.earlier()
        listing = self._files.text()
        files = f"The files of my project:\n\n{listing}" if listing else "My project has no files yet."
        if self._files.omitted:
            files += f"\n\nThe project has more files; {self._files.omitted} of them may matter too."
        return (
            SystemMessage(text=self._system()),
            *plan,
            *earlier,
            *self._attachments(),
            ProgramMessage(text=program_text("files", files)),
            UserMessage(text=self._request.text),
        )

    def _attachments(self) -> tuple[Message, ...]:
        """Return the user's attachments, unless they are mentioned files that are in the request anyway."""
        turns = self._state.history.turns
        attached = tuple(message for turn in turns[-1:] for message in turn.messages if is_kind(message, ATTACHED))
        mentioned = re.findall(r"@([\w./-]+)", self._request.text)
        if all(name.rstrip(".") in self._files.files for name in mentioned):
            return tuple(message for message in attached if STANDARD_INPUT in message.text)
        return attached

    def _closing_messages(self) -> tuple[Message, ...]:
        """Return the messages after the request: facts about the files, and the format of the reply."""
        facts = self._facts[:MAX_PROBLEMS]
        note = "\n".join(facts) if len(facts) == 1 else "\n".join(f"- {fact}" for fact in facts)
        messages = [ProgramMessage(text=program_text("note", note))] if facts else []
        if self._request.kind != "question":
            messages.append(ProgramMessage(text=program_text("form", prompt("files_form"))))
        return tuple(messages)

    # --- replies ---

    async def _ask(self, attempt: int) -> ReceivedReply | str:
        if attempt == 0 or not self._conversation.messages:
            self._conversation.messages = (*self._base_messages(), *self._closing_messages())
        size = sum(map(len, self._files.shown.values()))
        self._requester.iteration += 1
        limit = BASE_REPLY_TOKENS + (size if self._request.kind != "question" else 0) // 3
        self._requester.limit = limit * TRUNCATED_FACTOR if self._attempts.truncated else limit
        return await self._requester.ask((), (), RETRY_TEMPERATURE if attempt else 0.0)

    async def _process_reply(self, received: ReceivedReply) -> RunEnded | list[Problem]:
        """Carry out a reply. Return the end of the run, or what is wrong with the reply or its result."""
        text, request, existing = received.ended.text, self._request, self._files.files
        if (fault := received.ended.fault) is not None:
            if fault.kind in ("broken", "timeout"):
                return [Problem(fault.message)]
            return self._ended(fault.outcome, fault.full_message, "")
        reply = await asyncio.to_thread(read_files, text, existing, request.text, removable_names(request.text))
        self._attempts.answer = without_files(text) if reply.files else text.strip()
        truncated = received.ended.stop == "length"
        self._attempts.truncated = self._attempts.truncated or (truncated and not received.repeated)
        if request.kind == "question" or not self._may_write():
            return self._process_answer(text)
        if received.repeated or (truncated and not reply.files):
            return [Problem(prompt("files_long"))]
        if not reply.shown and reply.commands:
            return await self._run_commands(reply.commands)
        if not reply.shown and request.kind != "change" and not claims_change(text):
            return self._process_answer(text)
        if truncated:
            return [Problem(prompt("files_long"))]
        changed = await asyncio.to_thread(_with_fixed_imports, reply.files, existing)
        if asks_for_tests_only(request.text):
            changed = {name: content for name, content in changed.items() if is_test(name) or name not in existing}
        protected = protected_files(request.text, existing)
        ignored = protected & changed.keys()
        changed = {name: content for name, content in changed.items() if name not in ignored}
        self._attempts.unchanged, self._attempts.last_files = changed == self._attempts.last_files, changed
        problems = [Problem(problem) for problem in reply.problems]
        problems += [] if changed else [Problem(f"{name} must stay as it is") for name in sorted(ignored)]
        problems += [Problem(doubt, soft=True) for doubt in reply.doubts]
        if changed or not problems:
            problems += await asyncio.to_thread(find_problems, request, existing, changed)
        if any(not problem.soft for problem in problems):
            return problems
        if problems and not any(problem.text in self._attempts.reported for problem in problems):
            self._attempts.reported |= {problem.text for problem in problems}
            self._attempts.candidate = self._attempts.candidate or changed
            return problems
        return await self._write_and_check(changed)

    def _process_answer(self, text: str) -> RunEnded | list[Problem]:
        """End the run with an answer, unless the answer is incomplete or a requested command was not run."""
        answer = text.strip()
        if not answer:
            return [Problem("the reply was empty")]
        if self._request.kind == "command" and self._may_write() and not has_run_command(self._calls.results):
            return [Problem("nothing was run: name the command to run in a sh block")]
        gaps = answer_gaps(self._request.text, answer, self._files.files) if self._request.kind == "question" else []
        if gaps and not self._attempts.reported:
            self._attempts.reported |= set(gaps)
            return [Problem(gap, soft=True) for gap in gaps]
        if self._request.kind != "command":
            return self._ended("done", answer, answer)
        outcomes = {
            command: "passed" if result.success else result.error or "failed"
            for call, result in self._calls.results
            if (command := command_line(call)) and not is_inspection(command)
        }
        facts = [f"`{one_line(command, 60)}`: {outcome}." for command, outcome in list(outcomes.items())[-3:]]
        return self._ended("done", "\n\n".join(filter(None, [answer, " ".join(facts)])), answer)

    def _may_write(self) -> bool:
        return self._registry.find("write_file") is not None

    # --- changes and checks ---

    async def _write_and_check(self, changed: dict[str, str]) -> RunEnded | list[Problem]:
        """Write the files, restore those of earlier attempts, and run the checks."""
        existing = self._files.files
        restored = {name: existing[name] for name in self._written if name in existing and name not in changed}
        for name, content in {**restored, **changed}.items():
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
        return [Problem(failure) for failure in await self._failures()] or self._done()

    async def _run_commands(self, commands: tuple[str, ...]) -> RunEnded | list[Problem]:
        """Run the commands that a reply has instead of files, each with its approval. Commands that only read, test or
        run the project don't count as a change."""
        changing = [line for line in commands if not (is_inspection(line) or is_test_run(line) or is_project_run(line))]
        if self._request.kind == "change" and not changing:
            return [Problem(NOTHING)]
        for command in commands[:BATCH_SIZE]:
            result = await self._call("run_terminal_command", {"command": command})
            if result.code == "refused":
                return self._declined(f"`{command}`", result)
            if not result.success and not (self._request.kind == "command" and is_test_run(command)):
                return [Problem(f"`{command}` fails ({result.error}):\n{output_tail(result)}")]
        if len(commands) > BATCH_SIZE:
            return [Problem(f"only the first {BATCH_SIZE} commands were run")]
        if self._request.kind == "change":
            effects = CommandEffects(self._calls.by_command)
            if not effects.had_effect(self._calls.results, self._request):
                return [Problem(NOTHING)]
            if problems := [Problem(failure) for failure in await self._failures()]:
                return problems
        return self._done()

    async def _call(self, name: str, arguments: dict[str, str]) -> ToolResult:
        call = self._deps.source.new_call_id(ToolCall(id="", name=name, arguments=arguments))
        await self._calls.execute((call,), self._requester.node)
        return self._calls.results[-1][1]

    async def _failures(self, *, may_ask: bool = True) -> list[str]:
        """Run tests, examples and commands of the request and return what fails.

        Commands other than tests run last, and only if everything else passes, since they may have side effects."""
        commands = await self._commands()
        failures = await self._failing([line for line in commands if is_test_run(line)], may_ask=may_ask)
        files = self._files.files
        for example in examples_in(self._request.text, {**files, **self._written}, files):
            if example in self._satisfied or not await self._checks.may_run(example.command, may_ask=may_ask):
                continue
            result = await self._checks.run(example.command, self._node.parent, seconds=EXAMPLE_TIMEOUT, must_end=True)
            if not may_ask and example.wrong and not example.want and (result is None or result.success):
                self._satisfied.append(example)  # the request is not about what the call returns
            if result is not None and not result.success:
                lines = output_tail(result).splitlines()
                failures.append(f"{example.expected}, but: {lines[-1] if lines else 'it fails'}")
        if self._written and may_ask:
            failures += await self._broken_properties()
        others = [line for line in commands if not is_test_run(line)]
        if not failures and (may_ask or self._request.kind == "command"):
            failures += await self._failing(others, may_ask=may_ask)
        return failures

    async def _failing(self, commands: list[str], *, may_ask: bool) -> list[str]:
        failures = []
        for command in commands:
            if not await self._checks.may_run(command, may_ask=may_ask):
                continue
            result = await self._checks.run(command, self._node.parent)
            if result is not None and not result.success:
                failures.append(f"`{command}` fails:\n{output_tail(result)}")
            elif result is not None and self._request.kind == "command":
                self._facts.append(f"`{command}` passed:\n{output_tail(result)}")
        return failures

    async def _sample_results(self) -> list[str]:
        """Return what the function under test returns for sample arguments, if it can run without approval."""
        module, function, count = named_function(self._request.text, self._files.files)
        if not function or any(name in self._files.files for name in self._request.paths if is_test(name)):
            return []
        output = await self._run_program(f"sample_{function}", sampling_program(module, function, count))
        return [f"{function} gives now:\n{output}"] if output else []

    async def _run_program(self, name: str, program: str) -> str:
        """Run a generated Python program and return its output; empty if that would need approval."""
        path = self._environment.scratch / f"{name}.py"
        await asyncio.to_thread(path.write_text, program, encoding="utf-8")
        command = f"{python_program()} -B {shlex.quote(str(path))}"
        if not await self._checks.may_run(command, may_ask=False):
            return ""
        result = await self._checks.run(command, self._node.parent)
        return "" if result is None else output_tail(result).removeprefix("exit code 0").strip()

    async def _broken_properties(self) -> list[str]:
        """Return a property that the request demands of a function's results and they lack, if it can run without
        approval."""
        properties = properties_in(self._request.text)
        module, function = called_function(self._request.text, {**self._files.files, **self._written})
        if not properties or not function:
            return []
        output = await self._run_program(f"try_{function}", property_program(module, function, properties))
        return [line for line in output.splitlines() if "but the request says" in line][-1:]

    async def _commands(self) -> list[str]:
        if self._request.commands:
            return list(self._request.commands)
        tests = await self._checks.test_command()
        has_tests = any(is_test(name) for name in (*self._files.files, *self._written, *self._request.paths))
        return [tests] if tests and (has_tests or not tests.startswith("python3")) else []

    # --- retries ---

    def _prepare_retry(self, problems: list[Problem], attempt: int, received: ReceivedReply) -> None:
        """Record why a reply was refused, and set the messages of the next request."""
        why = "; ".join(problem.text.split("\n", 1)[0] for problem in problems[:MAX_PROBLEMS]) or NOTHING
        self._stream.emit(CompletionRefused(why=why), run=self._node.run, node=self._requester.node)
        base = (*self._base_messages(), *self._closing_messages())
        if len(problems) == 1 and problems[0].text == prompt("files_long"):
            self._conversation.messages = (*base, ProgramMessage(text=program_text("note", problems[0].text)))
            return
        only_new_files = bool(self._written) and not set(self._written) & set(self._files.files)
        if attempt % 2 or only_new_files or self._attempts.unchanged:
            why = "\n".join(problem.text for problem in problems[:1])
            hint = (ProgramMessage(text=program_text("note", f"Take care: {why}")),) if attempt > 2 else ()
            self._conversation.messages = (*base, *hint)
            return
        if [problem.text for problem in problems] == [NOTHING]:
            feedback = prompt("files_nothing")
        else:
            rows = "\n".join(f"- {problem.text}" for problem in problems[:MAX_PROBLEMS])
            feedback = rows if self._request.kind == "question" else prompt("files_wrong").format(problems=rows)
        self._stream.emit(ProgramMessageAdded(kind="feedback", text=feedback), run=self._node.run)
        reply = received.ended.text.strip() or "(nothing)"
        self._conversation.messages = (
            *base,
            AssistantMessage(text=reply),
            ProgramMessage(text=program_text("feedback", feedback)),
        )

    # --- the end ---

    def _done(self) -> RunEnded:
        """End the run as done, with the model's answer and the facts."""
        changed = [name for name in self._written if self._files.files.get(name) != self._written[name]]
        passed = [command for command, result in check_results(self._calls.results).items() if result.success]
        facts = [f"Changed: {name_list(changed)}."] if changed else []
        facts += [f"Passed: {', '.join(f'`{one_line(command, 60)}`' for command in passed[-3:])}."] if passed else []
        text = "\n\n".join(filter(None, [self._attempts.answer, " ".join(facts)]))
        return self._ended("done", text or "Done.", self._attempts.answer)

    def _declined(self, subject: str, result: ToolResult) -> RunEnded:
        return self._ended(
            "refused", f"Not done: {subject} was not allowed. {result.error or ''}".strip(), self._attempts.answer
        )

    def _failed(self, problems: list[Problem], attempts: int) -> RunEnded:
        self.strategy_failed = True
        why = "; ".join(problem.text for problem in problems[:MAX_PROBLEMS])
        written = f" Left as it is: {name_list(self._written)}; /undo takes it back." if self._written else ""
        return self._ended("failed", f"Not done after {attempts} tries: {why}.{written}", "")

    def _ended(self, outcome: str, text: str, said: str) -> RunEnded:
        return self._requester.ended(outcome, text, self._calls.count - self._earlier_calls, said)


def _with_fixed_imports(files: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    return {
        name: with_fixed_imports(content, existing.get(name)) if name.endswith(".py") else content
        for name, content in files.items()
    }
