"""What `workbench batch` shows while it works, and when it asks."""

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer

from engine import cli_progress
from engine.batch_values import BatchOptions, BatchProgress
from engine.cli_batch_run import BatchCommand, _Runner, limits_text, progress_text, spending_text
from engine.cli_progress import ProgressLine
from engine.cli_text import Terminal
from engine.events import Statistics
from engine.flow.flow import Limits
from engine.guards import Spending
from engine.statistics import CostProvenance
from tests.helpers.batches import Bench

USED = Statistics(
    requests=9, in_tokens=12_000, out_tokens=345, cost=Decimal("0.38"), provenance=CostProvenance.MEASURED
)


def progress(**changes: Any) -> BatchProgress:
    values: dict[str, Any] = {
        "batch_id": "3f2a91c4",
        "total": 500,
        "finished": 118,
        "failed": 2,
        "invalid": 0,
        "left": 380,
        "acted": 0,
        "running": 4,
        "seconds": 38.7,
        "rate": 3.1,
        "seconds_left": 122.6,
        "statistics": USED,
    }
    return BatchProgress(**values | changes)


def test_a_line_tells_rows_rate_time_tokens_and_cost() -> None:
    assert progress_text(progress()) == "120/500 rows, 2 failed, 3.1 rows/s, 2 min left, 12,345 tokens, $0.38"
    long = progress(failed=0, seconds_left=8100.0, statistics=Statistics())
    assert progress_text(long) == "120/500 rows, 3.1 rows/s, 2 h 15 min left, 0 tokens, free"
    assert progress_text(progress(seconds_left=None, left=500)).startswith("0/500 rows, 2 failed, 3.1 rows/s, 12,345")
    assert progress_text(progress(rate=0.04)).startswith("120/500 rows, 2 failed, 2.4 rows/min, 2 min left")
    assert ", 59 s left" in progress_text(progress(seconds_left=59.4))


def test_the_smaller_limit_of_flow_and_settings_is_told() -> None:
    limits = Limits(max_cost=Decimal(2), max_seconds=1.5)
    budget = Spending(cost=Decimal(1), tokens=5000)
    assert limits_text(limits, budget) == "200 steps, 100 tool calls, 1.5 s, $1.00, 5,000 tokens, any requests"
    assert spending_text(Spending()) == "any cost, any tokens, any requests"


def test_on_a_terminal_one_line_changes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(cli_progress.time, "monotonic", lambda: now)
    line = ProgressLine(Terminal())
    line.show(lambda: progress_text(progress()))
    assert capsys.readouterr().err == ""  # a short batch shows nothing
    now += 6
    line.show(lambda: progress_text(progress()))
    line.show(lambda: progress_text(progress(left=300)))  # too soon
    assert capsys.readouterr().err == f"\r\x1b[K{progress_text(progress())}"
    now += 1
    line.show(lambda: progress_text(progress(left=300)))
    line.clear()
    line.clear()
    assert capsys.readouterr().err == f"\r\x1b[K{progress_text(progress(left=300))}\r\x1b[K"


def test_elsewhere_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(cli_progress.time, "monotonic", lambda: now)
    line = ProgressLine(Terminal())
    for now in (103.0, 106.0, 107.0, 112.0):  # noqa: B007 - the clock
        line.show(lambda: progress_text(progress()))
    assert capsys.readouterr().err == f"{progress_text(progress())}\n" * 2


def command() -> BatchCommand:
    return BatchCommand(
        flow=None,
        file=None,
        trust=False,
        dataset=None,
        delimiter="",
        values={},
        mapping={},
        profile=None,
        resume="",
        out=None,
        exact=False,
        as_json=False,
        options=BatchOptions(),
    )


@pytest.mark.parametrize(
    ("terminal", "answer", "left"), [(True, True, 0), (True, False, 1), (False, True, 1)], ids=["yes", "no", "nobody"]
)
async def test_rows_that_acted_are_repeated_when_a_person_says_so(
    terminal: bool,
    answer: bool,
    left: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(typer, "confirm", lambda *_given, **_options: answer)
    async with Bench(tmp_path, ["a", "b"]) as bench:
        batch = await bench.batch(["good"])
        batch._known[2] = 2
        assert batch.acted == [2]
        _Runner(bench.engine, bench.store, command(), Terminal())._ask_to_repeat(batch)
        assert (await batch.run()).left == left
    shown = capsys.readouterr().err
    assert shown.startswith("rows 2: tools with side effects have already run there, but there is no result\n")
    assert ("--repeat-effects runs them again" in shown) is bool(left)
