"""What the dashboard asks the history: by day and profile, with filters, unknown costs, failures, reused answers."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from engine.dashboard_queries import Figure, Measured, Question
from engine.events import CompletionFinished, RequestFailed, Statistics
from engine.history_answers import BUCKETS, LEAST_SECONDS, Spread, bucket, lower_edge
from engine.run_history import RunHistory
from engine.statistics import CostProvenance
from tests.helpers.history_events import CALL_COST, run_events

START = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
DAY = timedelta(days=1)
FIXTURES = Path(__file__).parent.parent / "fixtures" / "history"


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[RunHistory]:
    history = RunHistory(tmp_path / "history.sqlite")
    yield history
    await history.close()


async def record(
    history: RunHistory, run_id: str, time: datetime = START, *, flow: str = "Sample", cached: bool = False,
    provenance: CostProvenance = CostProvenance.MEASURED, error: str = "",
) -> None:  # fmt: skip
    """A run of two requests, the second of which may be answered from the cache or fail."""
    await history.begin(run_id, flow, "{}", {}, {})
    for event in run_events(run_id, 2, time.timestamp()):
        if isinstance(event, CompletionFinished):
            used = msgspec.structs.replace(event.statistics, provenance=provenance)
            if cached and event.agent == "agent 2":
                used = msgspec.structs.replace(used, requests=0, cached_prompts=1, cost=0 * CALL_COST)
            event = msgspec.structs.replace(event, statistics=used)
            if error and event.agent == "agent 2":
                place = {"run_id": run_id, "agent": event.agent, "step": event.step, "profile": event.profile}
                event = RequestFailed(
                    time=event.time, attempt=1, model=event.model, error=error, statistics=Statistics(), **place
                )
        history.record(event)
    assert await history.flush()


def question(**more: str) -> Question:
    return Question(since=START - DAY, until=START + 3 * DAY, zone=UTC, **more)


async def test_use_and_answers_come_by_day_and_profile(history: RunHistory) -> None:
    await record(history, "run 1", cached=True)
    await record(history, "run 2", START + DAY, error="server")
    found = await history.dashboard(question())
    assert [str(day) for day in found.days] == ["2027-01-15", "2027-01-16"]
    first, second = found.by_day.values()
    assert (first.used.requests, first.answers.answered, first.answers.reused, first.answers.failed) == (1, 1, 1, 0)
    assert (second.used.requests, second.answers.answered, second.answers.failed) == (1, 1, 1)
    assert second.answers.error_share == 0.5
    assert found.total.used.cost == 2 * CALL_COST
    assert found.total.answers.first_token.quantile(0.5) == pytest.approx(0.125, rel=0.2)
    assert found.total.answers.speed.quantile(0.5) == pytest.approx(8 / 0.375, rel=0.2)
    assert (found.flows, found.profiles) == (("Sample",), ("embedded-chat",))


async def test_a_saving_is_an_estimate_and_unknown_without_a_price(history: RunHistory) -> None:
    await record(history, "run 1", cached=True)
    saved = (await history.dashboard(question())).saved
    assert (saved.cost, saved.provenance) == (CALL_COST, CostProvenance.ESTIMATED)
    await record(history, "run 2", cached=True, provenance=CostProvenance.UNKNOWN)
    found = await history.dashboard(question())
    assert (found.saved.provenance, found.total.used.cost_provenance) == (CostProvenance.UNKNOWN,) * 2


async def test_what_was_stopped_is_no_failure(history: RunHistory) -> None:
    await record(history, "run 1", error="cancelled")
    assert (await history.dashboard(question())).total.answers.failed == 0


async def test_filters_leave_the_names_to_choose_from(history: RunHistory) -> None:
    await record(history, "run 1")
    await record(history, "run 2", flow="Other")
    found = await history.dashboard(question(flow="Other", agent="agent 2"))
    assert (found.total.used.requests, found.flows) == (1, ("Other", "Sample"))
    assert found.agents == ("agent 1", "agent 2")


async def test_runs_are_found_by_what_their_requests_measured(history: RunHistory) -> None:
    await history.begin("run 1", "Sample", "{}", {}, {})
    for event in run_events("run 1", 1):
        history.record(event)
    assert await history.flush()
    now = datetime.now(UTC)
    today = Question(since=now - DAY, until=now + DAY)
    assert [row.id for row in await history.runs_of(today, Measured(Figure.FIRST_TOKEN, 0.1, 0.2))] == ["run 1"]
    assert await history.runs_of(today, Measured(Figure.FIRST_TOKEN, 0.2, 0.4)) == []
    assert [row.id for row in await history.runs_of(today, Measured(Figure.SPEED, 20.0, 25.0))] == ["run 1"]
    assert await history.runs_of(Question(since=now - DAY, until=now + DAY, profile="none")) == []


@pytest.mark.parametrize("version", [1, 3, 6])
async def test_older_databases_are_added_up(version: int, tmp_path: Path) -> None:
    shutil.copy(FIXTURES / f"version_{version}.sqlite", tmp_path / "history.sqlite")
    history = RunHistory(tmp_path / "history.sqlite")
    ever = Question(since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2040, 1, 1, tzinfo=UTC))
    found = await history.dashboard(ever)
    assert found.total.used.requests == found.total.answers.answered > 0
    assert len(found.runs) == 2
    await history.close()


async def test_no_database_is_an_empty_dashboard(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "none.sqlite")
    assert (await history.dashboard(question())).shares == {}
    assert not (tmp_path / "none.sqlite").exists()


async def test_a_question_can_be_given_up(history: RunHistory) -> None:
    await record(history, "run 1")
    asking = asyncio.ensure_future(history.dashboard(question()))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await history.dashboard(question())).total.used.requests == 2


def test_buckets_cover_all_values_and_give_quantiles() -> None:
    assert [bucket(value, LEAST_SECONDS) for value in (0.0, LEAST_SECONDS, 1e9)] == [0, 0, BUCKETS - 1]
    packed = sum(1 << 32 * bucket(value, LEAST_SECONDS) for value in [0.1] * 90 + [2.0] * 10)
    spread = Spread(LEAST_SECONDS, packed)
    assert sum(spread.counts) == 100
    middle, high = spread.quantile(0.5), spread.quantile(0.95)
    assert middle == pytest.approx(0.1, rel=0.21)
    assert high == pytest.approx(2.0, rel=0.21)
    assert Spread(LEAST_SECONDS).quantile(0.5) is None
    assert lower_edge(12, LEAST_SECONDS) == pytest.approx(10 * LEAST_SECONDS)
