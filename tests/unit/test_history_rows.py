"""Events become rows in their order; how chunks were cut does not matter."""

import sqlite3
from contextlib import closing
from decimal import Decimal

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.context_rows import LARGE, ContextReader, ContextRows
from engine.events import (
    AgentFinished,
    AnyEvent,
    BranchFailed,
    ChunkReceived,
    ErrorInfo,
    RequestFormed,
    RunFinished,
    Warned,
    read_event,
)
from engine.formed_request import FormedRequest
from engine.history_rows import (
    FINISH_RUN,
    INSERT_BLOB,
    INSERT_EVENT,
    INSERT_INPUTS,
    INSERT_REQUEST,
    INSERT_RUN,
    HistoryRows,
    RunBegun,
    clean,
    merge_chunks,
)
from engine.history_text import json_text
from tests.helpers.history_events import CALL_COST, run_events


def begun(run_id: str = "r", **more: object) -> RunBegun:
    values: dict[str, object] = {"flow": "Sample", "flow_text": "{}", "inputs": {}, "profiles": {}, "started": 5.0}
    return RunBegun(run_id=run_id, **(values | more))  # type: ignore[arg-type]


def collector() -> HistoryRows:
    rows = HistoryRows(7, "mark")
    rows.begin(begun())
    rows.take()
    return rows


def events_in(rows: HistoryRows) -> list[AnyEvent]:
    with closing(sqlite3.connect(":memory:")) as connection:
        reader = ContextReader(connection, "r")
        texts = [reader.whole(str(values[2])) for statement, values in rows.take() if statement == INSERT_EVENT]
    return list(map(read_event, texts))


def chunk(text: str, *, branch: str = "", attempt: int = 1, reasoning: str = "", time: float = 1.0) -> ChunkReceived:
    return ChunkReceived(
        time=time, run_id="r", agent="a", step=1, branch=branch, content=text, reasoning=reasoning, attempt=attempt
    )


def test_a_run_begins_with_its_inputs() -> None:
    rows = HistoryRows(7, "mark")
    rows.begin(begun(inputs={"topic": ["sea", 3]}, profiles={"A": "embedded-chat"}))
    assert rows.take() == [
        (INSERT_RUN, ("r", "Sample", 5.0, 7, "mark")),
        (INSERT_INPUTS, ("r", "{}", '{"topic":["sea",3]}', '{"A":"embedded-chat"}', "")),
    ]


def test_a_request_is_counted_exactly() -> None:
    rows = collector()
    for event in run_events("r", steps=1, time=100.0):
        rows.add(event)
    taken = rows.take()
    (request,) = [values for statement, values in taken if statement == INSERT_REQUEST]
    assert request[:-1] == (
        "r",
        6,
        100.5,
        "agent 1",
        "embedded-chat",
        "smollm2-135m-instruct",
        1,
        10,
        2,
        5,
        3,
        "1.234567890123456789E-10",
        "measured",
        0.5,
        0.125,
        "DONE",
        0.0,
        0.0,
        "",
    )
    assert '"tokens_per_second":21.33' in str(request[-1])
    assert Decimal("1.234567890123456789E-10") == CALL_COST
    assert taken[-1][0] == FINISH_RUN
    assert taken[-1][1][:3] == ("finished", 1.0, 1)


def test_text_waits_for_the_next_event_of_its_branch_only() -> None:
    rows = collector()
    rows.add(chunk("one ", branch="1/2"))
    rows.add(chunk("two ", branch="2/2"))
    rows.add(chunk("three", branch="1/2"))
    assert rows.take() == []
    assert rows.holds_text
    failed = BranchFailed(
        time=2, run_id="r", step=1, branch="1/2", error=ErrorInfo(type="GENERAL", name="X", message="m")
    )
    rows.add(failed)
    assert events_in(rows) == [chunk("one three", branch="1/2"), failed]
    rows.fold()
    assert events_in(rows) == [chunk("two ", branch="2/2")]
    assert not rows.holds_text


def test_events_of_unknown_and_finished_runs_are_ignored() -> None:
    rows = HistoryRows(7, "mark")
    rows.add(Warned(time=1, run_id="r", message="before"))
    assert rows.take() == []
    rows.begin(begun())
    end = RunFinished(time=9, run_id="r", status="stopped")
    rows.add(end)
    rows.take()
    rows.add(end)
    rows.add(Warned(time=10, run_id="r", message="after"))
    assert rows.take() == []


def test_the_end_of_a_run_brings_all_its_text() -> None:
    rows = collector()
    rows.add(chunk("lost?", branch="1/2"))
    end = RunFinished(time=9, run_id="r", status="stopped")
    rows.add(end)
    taken = rows.take()
    assert [read_event(str(values[2])) for statement, values in taken[:2]] == [chunk("lost?", branch="1/2"), end]
    assert taken[2] == (FINISH_RUN, ("stopped", 4.0, 0, 0, 0, 0, 0, "0", "free", "r"))


def test_values_json_does_not_know_become_text() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd\ud800"

    rows = collector()
    values: dict[str, list[object]] = {
        "k\ud800": [Odd(), {1: "a\udc00"}, (1, None, True), "half \ud83d\ude00 and \ud83d"]
    }
    rows.add(AgentFinished(time=1, run_id="r", values=values))
    (event,) = events_in(rows)
    assert isinstance(event, AgentFinished)
    assert event.values == {"k\ufffd": ["odd\ufffd", {"1": "a\ufffd"}, [1, None, True], "half 😀 and \ufffd"]}


def test_nul_and_newlines_are_kept() -> None:
    rows = collector()
    rows.add(chunk("a\0b\n\u2028c"))
    rows.fold()
    assert events_in(rows) == [chunk("a\0b\n\u2028c")]


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_cleaned_text_can_be_stored_and_whole_text_is_untouched(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert cleaned == text


pieces = st.lists(
    st.tuples(
        st.sampled_from(["", "1/2", "2/2"]), st.sampled_from([1, 2]), st.text(max_size=3), st.booleans(), st.booleans()
    )
)


@settings(max_examples=60)
@given(pieces)
def test_every_way_to_cut_the_text_gives_the_same_run(cuts: list[tuple[str, int, str, bool, bool]]) -> None:
    """`reasons`: reasoning instead of content; `folds`: a second has passed here."""
    rows = collector()
    sent: list[AnyEvent] = []
    stored: list[AnyEvent] = []
    for branch, attempt, text, reasons, folds in cuts:
        event = chunk("" if reasons else text, branch=branch, attempt=attempt, reasoning=text if reasons else "")
        sent.append(event)
        rows.add(event)
        if folds:
            rows.fold()
        stored += events_in(rows)
    rows.fold()
    stored += events_in(rows)

    def texts(events: list[AnyEvent]) -> dict[tuple[str, int], AnyEvent]:
        return {(event.branch, event.attempt): event for event in events if isinstance(event, ChunkReceived)}

    assert texts(merge_chunks(stored)) == texts(merge_chunks(sent))
    assert len(merge_chunks(stored)) == len({(branch, attempt) for branch, attempt, *_ in cuts})


def request(body: dict[str, object]) -> RequestFormed:
    formed = FormedRequest(url="http://here", headers={}, body=body)
    return RequestFormed(time=1.0, run_id="r", agent="a", step=1, attempt=1, request=formed)


def test_the_long_texts_of_requests_are_stored_once() -> None:
    rows, long = collector(), "word " * 100
    turns = [{"role": "system", "content": long}, {"role": "user", "content": f"{long}?"}]
    rows.add(request({"messages": turns[:1], "stream": True}))
    rows.add(request({"messages": turns, "odd": "\x01" + "1", "none": None}))
    taken = rows.take()
    assert [values[2] for number, values in taken if number == INSERT_BLOB] == [json_text(long), json_text(f"{long}?")]
    assert sum(len(str(values[2])) for number, values in taken if number == INSERT_EVENT) < 800


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "\x01", "\x011", "\x01\x01", "x" * 300, "\x01" * 300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab\x01"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(st.lists(st.dictionaries(st.sampled_from(["model", "messages"]), json_values), min_size=1, max_size=3))
def test_recorded_bodies_come_back_as_they_were(bodies: list[dict[str, object]]) -> None:
    blobs: list[tuple[str, int, str]] = []
    rows = ContextRows("r", blobs.append)
    stored = [json_text(rows.body(body)) for body in bodies]
    texts = [rows.shortened(json_text(body)) for body in [*bodies, {"large": "\x01" * LARGE}]]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE blobs (run_id TEXT, id INTEGER, data TEXT)")
        connection.executemany("INSERT INTO blobs VALUES (?, ?, ?)", blobs)
        reader = ContextReader(connection, "r")
        assert [reader.body(msgspec.json.decode(text)) for text in stored] == bodies
        whole = [msgspec.json.decode(reader.whole(text)) for text in texts]
        assert whole == [*bodies, {"large": "\x01" * LARGE}]
    assert len(texts[-1]) < 100
