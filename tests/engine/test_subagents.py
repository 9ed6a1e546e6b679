from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import ToolResult
from tui_agent.events import Notice, ProgramMessageAdded, ReplyEnded, ReplyStarted, TextDelta, ToolFinished, ToolStarted
from tui_agent.export.session import export_session
from tui_agent.frontends.plain import PlainText
from tui_agent.mock_server.replies import ServedModel
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView

REVIEW = "Review this project"
AREAS = ("parsers", "storage", "network")
FINDINGS = {area: f"{area}/mod_07.py line 2 swallows every error of {area}." for area in AREAS}
ORCHESTRATOR = {"orchestrator": True, "approval_mode": "auto"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """300 files in three packages."""
    for area in AREAS:
        folder = tmp_path / "work" / area
        folder.mkdir(parents=True)
        for number in range(100):
            (folder / f"mod_{number:02}.py").write_text(
                f"# {area} {number}\nSECRET_OF_{area.upper()}_{number} = {number}\n"
            )
    return tmp_path / "work"


def send(area: str, **more: Any) -> dict[str, Any]:
    arguments = {
        "task": f"Look through {area} for faults.",
        "title": f"Review {area}",
        "description": f"faults in the package {area}",
        "context_hint": f"Begin with {area}/mod_07.py",
        "mode": "review",
    }
    return call("run_subagent", **(arguments | more))


def looks_through(area: str, *, last: dict[str, Any] | str = "", thinking: str = "") -> dict[str, Any]:
    """The sub-agent of an area: searches and reads side by side, then reports."""
    reads = step(
        None,
        call("search_workspace", query=f"{area} 7"),
        call("read_file", path=f"{area}/mod_07.py"),
        thinking=thinking or None,
    )
    return scenario(f"Look through {area}", reads, last or FINDINGS[area])


def main(*calls: dict[str, Any], final: str = "Three findings, all about swallowed errors.") -> dict[str, Any]:
    return scenario(REVIEW, step("Three parts, side by side.", *calls), final)


def sent_by(server: MockServer, words: str) -> list[Any]:
    """Requests with a message of the user's that begins with these words."""
    found = []
    for one in server.requests:
        users = [str(m["content"]) for m in one.messages if m["role"] == "user"]
        if any(part.lstrip().startswith(words) for text in users for part in text.split("</agent_outcome>")):
            found.append(one)
    return found


def inside(watch: SessionDriver, node: str) -> list[ToolFinished]:
    return [one for one in watch.of(ToolFinished) if one.agent == node]


def results(watch: SessionDriver) -> dict[str, ToolResult]:
    """Title → result of the calls that sent sub-agents."""
    titles = {one.call.id: one.title for one in watch.of(ToolStarted) if one.call.name == "run_subagent"}
    done = {one.call_id: one.result for one in watch.of(ToolFinished)}
    return {title.partition(" — ")[0]: done[key] for key, title in titles.items()}


async def test_three_sub_agents_review_300_files_and_one_is_stopped_alone(workspace: Path) -> None:
    stalls = looks_through("network", last=step("never", delay=600.0))
    known = [main(*map(send, AREAS)), looks_through("parsers", thinking="Where first?"), looks_through("storage")]
    async with serve(*known, stalls, scenario("Thanks", "Gladly."), strict=True) as server:
        async with run_session(server, workspace, flags=ORCHESTRATOR) as session:
            watch = SessionDriver(session)
            await session.send(REVIEW)
            nodes: dict[str, str] = {}
            while len(nodes) < 3:
                record = await watch.until(lambda one: isinstance(one.event, ToolStarted))
                event = record.event
                assert isinstance(event, ToolStarted)
                if event.call.name == "run_subagent":
                    nodes[event.title.partition(" — ")[0]] = event.call.id
            network = nodes["Review network"]
            await watch.until(lambda one: isinstance(one.event, ReplyStarted) and one.node == f"{network}.2")
            done = [one.call_id for one in watch.of(ToolFinished)]
            while not {nodes["Review parsers"], nodes["Review storage"]} <= set(done):
                done.append((await watch.until_event(ToolFinished)).call_id)
            assert network not in done
            assert session.subagents.interrupt(network) and not session.subagents.interrupt("nobody")
            ended = await watch.ended()
            resume = session.id
        assert ended.outcome == "done" and ended.tool_calls == 3
        found = results(watch)
        assert [found[f"Review {area}"].success for area in AREAS] == [True, True, False]
        assert found["Review network"].code == "interrupted"
        assert "network/mod_07.py" in str(found["Review network"].data)  # what it had looked at

        own = sent_by(server, REVIEW)
        assert len(own) == 2
        last = json.dumps(own[-1].body)
        assert FINDINGS["parsers"] in last and FINDINGS["storage"] in last and "stopped this sub-agent" in last
        assert "SECRET_OF" not in last and "Where first?" not in last
        offered = [tool["function"]["name"] for tool in own[0].body["tools"]]
        assert sorted(offered) == ["edit_file", "run_subagent", "run_terminal_command", "write_file"]
        assert "Scout" in own[0].messages[0]["content"]
        inner = sent_by(server, "Look through parsers")
        assert REVIEW not in json.dumps(inner[0].body) and "Begin with parsers" in json.dumps(inner[0].body)
        assert "SECRET_OF_PARSERS_7" in json.dumps(inner[-1].body)
        of_sub = {tool["function"]["name"] for tool in inner[0].body["tools"]}
        assert {"read_file", "search_workspace"} < of_sub
        assert not of_sub & {"write_file", "edit_file", "run_subagent", "ask_user", "update_plan"}

        async with run_session(server, workspace, flags=ORCHESTRATOR, resume=resume) as session:
            again = SessionDriver(session)
            await session.send("Thanks for that")
            assert (await again.ended()).text == "Gladly."
        resumed = sent_by(server, "Thanks for that")[-1]
    said = [one["content"] for one in resumed.messages if one["role"] != "system"]
    assert said[:2] == [REVIEW, "Three findings, all about swallowed errors."]
    assert "Tools used: run_subagent ×3." in said[2]
    assert "SECRET_OF" not in json.dumps(resumed.body)
    _the_tree_shows_all(watch, nodes)


def _the_tree_shows_all(watch: SessionDriver, nodes: dict[str, str]) -> None:
    view = SessionView()
    for record in watch.records:
        fold_record(view, record)
    tree = view.tree
    for title, node in nodes.items():
        place = tree.indexes[node]
        one = tree.nodes[place]
        assert one.title.startswith(f"{title} — faults in the package")
        assert one.status == ("interrupted" if title == "Review network" else "ok")
        assert {tree.indexes[call.call_id] for call in inside(watch, node)} <= set(_all_below(view, place))
    thoughts = [one.thought for one in watch.of(ReplyEnded) if one.thought]
    assert thoughts == ["Where first?"]
    assert not any("swallows" in one.text for one in watch.of(TextDelta))


def _all_below(view: SessionView, place: int) -> list[int]:
    children = view.tree.nodes[place].children
    return [one for child in children for one in (child, *_all_below(view, child))]


async def test_its_failures_and_limits_are_results_with_what_was_found_until_then(workspace: Path) -> None:
    breaks = looks_through("storage", last=step("x", fault={"kind": "status", "status": 400}))
    rounds = [step(f"Still looking {n}.", call("read_file", path=f"network/mod_0{n}.py")) for n in range(6)]
    endless = scenario("Look through network", *rounds)
    long = looks_through("parsers", last="word " * 4_000)
    sent = main(*map(send, AREAS))
    async with serve(sent, long, breaks, endless) as server:
        flags = {**ORCHESTRATOR, "iterations": {"subagent": 3}}
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send(REVIEW)
            assert (await watch.ended()).outcome == "done"
    found = results(watch)
    parsers, storage, network = (found[f"Review {area}"] for area in AREAS)
    assert parsers.success and len(str(parsers.data).split()) < 1_520
    assert "4,000 words, 1,500 are handed on" in str(parsers.data)
    assert not storage.success and "sub-agent failed" in str(storage.error)
    assert "search_workspace storage 7" in str(storage.data)
    assert network.success and network.code == "limit"
    assert "Still looking 3." in str(network.data) and "used up its 3 rounds" in str(network.data)
    asked = sent_by(server, "Look through network")
    assert len(asked) == 4 and "Write your report now" in json.dumps(asked[-1].body)
    assert not asked[-1].body.get("tools")
    assert "Review network" not in "".join(one.text for one in watch.of(Notice))


async def test_its_model_is_chosen_by_three_tiers(workspace: Path) -> None:
    known = [main(send("parsers")), looks_through("parsers")]
    asked: list[str] = []
    async with serve(*known, models=["mock-model", "small", "other"]) as server:
        for flags, chosen in ((ORCHESTRATOR, ""), ({**ORCHESTRATOR, "explorer_model": "small"}, "other")):
            async with run_session(server, workspace, flags=flags) as session:
                watch = SessionDriver(session)
                for wish in ("", chosen):
                    await session._roles.choose("explorer", wish)
                    await session.send(REVIEW)
                    await watch.ended()
                    asked.append(sent_by(server, "Look through")[-1].body["model"])
    assert asked == ["mock-model", "mock-model", "small", "other"]
    assert {one.body["model"] for one in sent_by(server, REVIEW)} == {"mock-model"}


async def test_stopping_the_run_stops_all_and_a_crash_leaves_them_interrupted(workspace: Path) -> None:
    stall = [looks_through(area, last=step("never", delay=600.0)) for area in AREAS]
    async with serve(main(*map(send, AREAS)), *stall, scenario("Go on", "I see.")) as server:
        async with run_session(server, workspace, flags=ORCHESTRATOR) as session:
            watch = SessionDriver(session)
            await session.send(REVIEW)
            waiting: set[str] = set()
            while len(waiting) < 3:
                record = await watch.until(lambda one: isinstance(one.event, ReplyStarted))
                if record.node.endswith(".2") and record.parent:
                    waiting.add(record.parent)
            journal = session.folder / "events.jsonl"
            await session._stream.durable()
            crashed = journal.read_bytes()
            await session.interrupt(at_once=True)
            assert (await watch.ended()).outcome == "interrupted"
            assert [one.result.code for one in watch.of(ToolFinished) if one.name == "run_subagent"] == [
                "interrupted"
            ] * 3
            resume = session.id
        journal.write_bytes(crashed)
        async with run_session(server, workspace, flags=ORCHESTRATOR, resume=resume) as session:
            view = SessionView()
            watch = SessionDriver(session)
            await session.send("Go on")
            await watch.ended()
            async for record in session.follow(0):
                fold_record(view, record)
                if record.seq == session.last:
                    break
        last = sent_by(server, "Go on")[-1]
    places = [view.tree.indexes[node] for node in waiting]
    assert {view.tree.nodes[place].status for place in places} == {"interrupted"}
    assert not view.tree.running and not view.subagent_replies
    said = [str(one["content"]) for one in last.messages if one["role"] == "assistant"]
    assert "Three parts, side by side." in said[0] and "SECRET_OF" not in json.dumps(last.body)


@pytest.mark.parametrize("mode", ["agent", "direct"])
async def test_the_orchestrator_has_four_tools_whatever_it_calls(workspace: Path, mode: str) -> None:
    tried = [call("read_file", path="parsers/mod_01.py"), call("grep", query="x"), call("list_files")]
    looks = {"intent": "modify", "needs_write": True, "task_type": "coding", "complexity": "simple"}
    sorted_ = scenario("", json.dumps(looks), when={"system": "You sort requests"})
    async with serve(sorted_, scenario(REVIEW, step(None, *tried), "I have none of these.")) as server:
        flags = {**ORCHESTRATOR, "mode": mode, "plan_depth": "simple"}
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send(REVIEW)
            ended = await watch.ended()
    done = watch.of(ToolFinished)[:3]
    assert [one.result.code for one in done] == ["refused"] * 3
    assert all("Send one with run_subagent" in str(one.result.error) for one in done)
    assert "orchestrator" in ended.prompts
    assert ("intent_modify" in ended.prompts) is (mode == "agent")
    body = json.dumps(sent_by(server, REVIEW)[-1].body)
    assert ("Find every place that is concerned" in body) is (mode == "agent")


async def test_the_plan_document_is_for_those_who_are_sent_to_read_it(workspace: Path) -> None:
    about = send("storage", task="Look through storage: does it hold what plan_doc.md demands?")
    async with serve(main(send("parsers"), about), looks_through("parsers"), looks_through("storage")) as server:
        async with run_session(server, workspace, flags=ORCHESTRATOR) as session:
            await session.edit_plan("# Plan: Trust\n\n## Goal\nEvery error is seen\n")
            watch = SessionDriver(session)
            await session.send(REVIEW)
            await watch.ended()
    for area in ("parsers", "storage"):
        request = sent_by(server, f"Look through {area}")[0]
        assert ("Every error is seen" in json.dumps(request.body)) is (area == "storage")


async def test_sub_agents_work_with_calls_as_text_too(workspace: Path) -> None:
    sends = json.dumps({"tool_calls": [{"name": "run_subagent", "parameters": send("parsers")["arguments"]}]})
    reads = json.dumps({"tool_calls": [{"name": "read_file", "parameters": {"path": "parsers/mod_07.py"}}]})
    inner = scenario("Look through parsers", reads, json.dumps({"response": FINDINGS["parsers"]}))
    outer = scenario(REVIEW, sends, json.dumps({"response": "One finding."}))
    model = ServedModel(name="mock-model", capabilities=("completion",))
    async with serve(inner, outer, models=[model]) as server:
        async with run_session(server, workspace, provider="ollama", flags=ORCHESTRATOR) as session:
            watch = SessionDriver(session)
            await session.send(REVIEW)
            ended = await watch.ended()
    assert ended.text == "One finding." and {"reply_json", "tools", "rules", "mode_direct"} < set(ended.prompts)
    assert results(watch)["Review parsers"].data == FINDINGS["parsers"]
    last = json.dumps(sent_by(server, REVIEW)[-1].body)
    assert FINDINGS["parsers"] in last and "SECRET_OF" not in last


async def test_the_logs_tell_sub_agents_from_the_agent(workspace: Path) -> None:
    async with serve(main(send("parsers")), looks_through("parsers", thinking="Where first?")) as server:
        async with run_session(server, workspace, flags=ORCHESTRATOR) as session:
            watch, out = SessionDriver(session), StringIO()
            await session.send(REVIEW)
            await watch.ended()
            await session._stream.durable()
            log = (session.folder / "chat_history.log").read_text("utf-8")
            plain = PlainText(out, session.mask)
            for record in watch.records:
                plain.show(record)
            document = "".join(export_session(session.folder, "markdown", session.mask))
    said = [line.partition("] ")[2] for line in log.split("\n") if line.startswith("[")]
    assert [line for line in said if line.startswith("AGENT")] == [
        "AGENT: Three parts, side by side.",
        "AGENT: Three findings, all about swallowed errors.",
    ]
    assert 'TOOL_CALL: read_file({"path":"parsers/mod_07.py"}) (by a sub-agent)' in said
    assert f"TOOL_RESULT: {FINDINGS['parsers']}" in said
    assert "\n  [Tool: read_file parsers/mod_07.py]\n" in out.getvalue()
    assert "\n[Tool: run_subagent Review parsers — faults in the package parsers]\n" in out.getvalue()
    assert "by a sub-agent" in document and "Where first?" in document


async def test_rules_of_a_folder_are_told_to_who_works_in_it_each_for_itself(workspace: Path) -> None:
    (workspace / "parsers" / "AGENTS.md").write_text("RULES OF THE PARSERS\n")
    again = step("", call("read_file", path="parsers/mod_08.py"))
    looks = scenario("Look through parsers", step("", call("read_file", path="parsers/mod_07.py")), again, "Looked.")
    reads = step("", call("read_file", path="parsers/mod_07.py"))
    async with serve(scenario(REVIEW, step("", send("parsers")), reads, "Done."), looks, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "deep-explore"}) as session:
            watch = SessionDriver(session)
            await session.send(REVIEW)
            await watch.ended()

    def rules(words: str) -> list[int]:
        return [json.dumps(one.messages).count("RULES OF THE PARSERS") for one in sent_by(server, words)]

    assert rules("Look through parsers") == [0, 1, 1]
    assert rules(REVIEW) == [0, 0, 1]
    told = [one for one in watch.of(ProgramMessageAdded) if "RULES OF THE PARSERS" in one.text]
    sent = [one.call.id for one in watch.of(ToolStarted) if one.call.name == "run_subagent"]
    assert [one.agent for one in told] == [*sent, ""]


async def test_a_sub_agent_that_failed_is_sent_again_when_it_is_asked_for(workspace: Path) -> None:
    breaks = looks_through("storage", last=step("x", fault={"kind": "status", "status": 400}))
    story = scenario(REVIEW, step("", send("storage")), step("", send("storage")), "It fails.")
    async with serve(story, breaks) as server:
        async with run_session(server, workspace, flags=ORCHESTRATOR) as session:
            watch = SessionDriver(session)
            await session.send(REVIEW)
            await watch.ended()
    sent = [one for one in watch.of(ToolFinished) if one.name == "run_subagent"]
    assert [one.result.code for one in sent] == ["failed", "failed"]
    assert len(sent_by(server, "Look through storage")) == 4
