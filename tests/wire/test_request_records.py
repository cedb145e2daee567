"""One record for each model request: from the wire into the events, the database, and out of the command line."""

import csv
import io
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engine import Agent, AgentType, Context, Engine, Flow, MemoryCache, Tool, ToolDefinition
from engine.cli import main
from engine.clients.failures import Failure
from engine.completion import FinishReason
from engine.events import AnyEvent, CompletionFinished, RequestFailed
from engine.flow.agent import Next
from engine.history_schema import HISTORY
from engine.profile import ModelProfile
from engine.recorded_calls import calls
from engine.request_records import RequestRecord
from engine.run_history import RunHistory
from engine.statistics import Prices
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import DONE, Answer, FakeServer, chat, delta, event, failure
from tests.helpers.model_answers import flow_file
from tests.helpers.tested_profile import write_tested

FIXTURES = Path(__file__).parents[1] / "fixtures" / "history"
ALL = datetime(2000, 1, 1, tzinfo=UTC)
PRICED = Prices(input=Decimal("0.000001"), output=Decimal("0.00001"))


def flow_of(profile: ModelProfile, prompt: str = "Hello?", **more: Any) -> Flow:
    agent = Agent(name="Only", type=AgentType.COMPLETION, profile=profile, template=prompt, **more)
    return Flow(name="One", agents=(agent,))


async def records_of(flow: Flow, history: RunHistory, engine: Engine) -> tuple[list[RequestRecord], list[AnyEvent]]:
    """The records of a run by the database, which are those of its events."""
    async with engine.run(flow, Context({})) as run:
        events = [event async for event in run]
    kept = await history.requests(ALL)
    told = [call.record for call in calls(events) if call.record is not None]
    assert [one for one in kept if one.run_id == run.id] == told
    return told, events


async def test_a_request_with_repeats_is_one_record(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    with FakeServer(failure(503), failure(503), chat("Hel", "lo.")) as server:
        profile = replace(profile_for(server.url, max_retries=2, retry_base_delay=0.01), prices=PRICED)
        async with Engine(history=history) as engine:
            (record,), _ = await records_of(flow_of(profile), history, engine)
            (total,) = engine.totals.values()
        sent = [len(request.body) for request in server.requests]
        host = server.url.removeprefix("http://")
    assert (record.number, record.agent, record.step, record.attempt) == (1, "Only", 1, 1)
    assert (record.profile, record.provider, record.host, record.model) == (
        "tested",
        "OAI_CHAT_COMPLETION",
        host,
        "test-model",
    )
    assert [(one.status, one.sent) for one in record.attempts] == [(503, sent[0]), (503, sent[1]), (200, sent[2])]
    assert record.bytes_sent == sum(sent)
    assert record.bytes_received == sum(one.received for one in record.attempts)
    assert all(one.received for one in record.attempts)
    assert (record.stream, record.finish_reason, record.error, record.cached) == (True, "DONE", "", False)
    assert (record.requests, record.in_tokens, record.out_tokens) == (1, 7, 3)
    assert (record.cost, record.provenance.value) == (Decimal("0.000037"), "measured")
    assert record.waited > 0
    assert record.first_token is not None
    assert record.tokens_per_second > 0
    assert record.started <= record.ended
    assert record.memory > 1_000_000
    assert len(record.prompt_hash) == 16
    assert (total.requests, total.in_tokens, total.out_tokens, total.cost) == (1, 7, 3, record.cost)


async def test_a_request_that_failed_is_a_record_too_and_counts_for_nothing(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    with FakeServer(failure(401)) as server:
        async with Engine(history=history) as engine:
            (record,), events = await records_of(flow_of(profile_for(server.url)), history, engine)
    assert (record.error, record.requests, record.finish_reason, record.cost) == (Failure.CONFIG.value, 0, "", 0)
    assert [one.status for one in record.attempts] == [401]
    assert [event.error for event in events if isinstance(event, RequestFailed)] == [Failure.CONFIG.value]
    async with Engine(history=RunHistory(tmp_path / "history.sqlite")) as engine:
        assert (await engine.recorded.today()).requests == 0


async def test_an_answer_that_breaks_off_names_the_class_of_the_failure(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    with FakeServer(Answer(pieces=[delta("Hel")], framing="chunked", end="cut")) as server:
        async with Engine(history=history) as engine:
            (record,), events = await records_of(flow_of(profile_for(server.url)), history, engine)
    assert (record.error, record.finish_reason, record.requests) == ("transient", "ERROR", 1)
    assert [event.content for event in events if isinstance(event, CompletionFinished)] == ["Hel"]


async def test_a_stopped_request_is_cancelled(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    with FakeServer(Answer(pieces=[], end="stall")) as server:
        async with Engine(history=history) as engine:
            async with engine.run(flow_of(profile_for(server.url)), Context({})) as run:
                async for one in run:
                    if getattr(one, "phase", None) == "reading prompt":
                        run.stop()
            (record,) = await history.requests(ALL)
            host = server.url.removeprefix("http://")
    assert (record.error, record.requests, record.host) == ("cancelled", 0, host)
    assert record.seconds > 0


async def test_tools_malformed_events_and_the_cache(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    call = {"index": 0, "id": "c1", "function": {"name": "clock", "arguments": "{}"}}
    calling = Answer(pieces=[delta(tool_calls=[call]), delta(finish="tool_calls"), DONE], framing="chunked")
    odd = Answer(pieces=[event("{no JSON"), delta("Noon."), delta(finish="stop"), DONE], framing="chunked")

    clock = Tool(definition=ToolDefinition.of_texts("clock", "Tells the time", {}), function=lambda: "12:00")
    with FakeServer(calling, odd, chat("Yes.")) as server:
        profile = profile_for(server.url)
        async with Engine(history=history, cache=MemoryCache()) as engine:
            flow = flow_of(profile, tools=[clock])
            (first, second), _ = await records_of(flow, history, engine)
            (asked,), _ = await records_of(flow_of(profile), history, engine)
            (again,), _ = await records_of(flow_of(profile), history, engine)
    assert (first.tools, first.finish_reason, first.attempt) == (("clock",), FinishReason.TOOL_CALLS, 1)
    assert (second.tools, second.skipped_events, second.attempt, second.number) == ((), 1, 2, 2)
    assert first.prompt_hash != second.prompt_hash
    assert (again.cached, again.requests, again.attempts, again.bytes_sent) == (True, 0, (), 0)
    assert again.prompt_hash == asked.prompt_hash


async def test_a_prompt_that_is_shortened_tells_its_tokens(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    with FakeServer(chat("one " * 20), chat("done")) as server:
        profile = profile_for(server.url, max_input_tokens=130)
        first = Agent(
            "First",
            AgentType.START_CONVERSATION,
            template="word " * 60,
            profile=profile,
            choose_next=lambda _: Next("Second"),
            targets=["Second"],
        )
        second = Agent("Second", AgentType.CONVERSATION, template="again " * 20, profile=profile)
        async with Engine(history=history) as engine:
            (whole, cut), _ = await records_of(Flow(name="Long", agents=(first, second)), history, engine)
    assert (whole.prompt_tokens, whole.sent_tokens, whole.dropped_turns) == (0, 0, 0)
    assert cut.dropped_turns == 2
    assert cut.prompt_tokens > 130 >= cut.sent_tokens > 0


@pytest.mark.parametrize("version", range(1, len(HISTORY)))
async def test_requests_of_every_older_version_are_read(version: int, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    shutil.copy(FIXTURES / f"version_{version}.sqlite", path)
    records = await RunHistory(path).requests(ALL)
    assert len(records) >= 3
    assert {(one.profile, one.started, one.error) for one in records} == {("embedded-chat", 0.0, "")}


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["runs", *arguments]) == 0
    return capsys.readouterr().out


def test_the_command_line_shows_records_as_table_csv_and_json(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents: Sequence[dict[str, Any]] = ({"name": "=First", "template": "One."}, {"name": "Second", "template": "Two."})
    with FakeServer(chat("Yes."), failure(401)) as server:
        write_tested(home, server.url, category="M")
        main(["run", str(flow_file(tmp_path / "two.json", *agents)), "--profile", "tested", "--json"])
    run_id = json.loads(capsys.readouterr().out)["run_id"]
    table = shown(capsys, "requests", run_id).splitlines()
    assert [line.split()[-1] for line in table] == ["END", "DONE", "configuration"]
    assert shown(capsys, "requests").splitlines() == table
    first, second = json.loads(shown(capsys, "requests", run_id, "--to", "json"))
    assert (first["agent"], second["error"], second["attempts"][0]["status"]) == ("=First", Failure.CONFIG.value, 401)
    assert json.loads(shown(capsys, "show", run_id, "--json"))["requests"] == [first, second]
    rows = list(csv.DictReader(io.StringIO(shown(capsys, "requests", run_id, "--to", "csv"))))
    assert [(row["agent"], row["error"]) for row in rows] == [("'=First", ""), ("Second", Failure.CONFIG.value)]
    assert rows[1]["attempts"].startswith("tested at 127.0.0.1")
    shown(capsys, "requests", "--to", "csv", "--exact", "-o", str(tmp_path / "requests.csv"))
    assert b'"=First"' in (tmp_path / "requests.csv").read_bytes()
    main(["runs", "delete", run_id])
    assert len(json.loads(shown(capsys, "requests", "--to", "json"))) == 2
