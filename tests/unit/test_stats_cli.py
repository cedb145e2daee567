"""`workbench stats`: the figures of the dashboard without a window."""

import asyncio
import json
import time
from decimal import Decimal
from pathlib import Path

import pytest

from engine.cli import main
from engine.run_history import RunHistory
from tests.helpers.history_events import CALL_COST, run_events


async def recorded(home: Path) -> None:
    history = RunHistory(home / "history.sqlite")
    await history.begin("run 1", "Sample", "{}", {}, {})
    for event in run_events("run 1", 2, time.time() - 60):
        history.record(event)
    assert await history.close()


def run(home: Path, capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["--data-dir", str(home), "stats", *arguments]) == status
    told = capsys.readouterr()
    return told.out if status == 0 else told.err


def test_use_is_told_by_day_and_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(recorded(tmp_path))
    document = json.loads(run(tmp_path, capsys, "--since", "3", "--json"))
    assert [(row["profile"], row["requests"]) for row in document["days"]] == [("embedded-chat", 2)]
    total = document["total"]
    assert (Decimal(total["cost"]), total["cost_provenance"], total["failed"]) == (2 * CALL_COST, "measured", 0)
    assert document["saved"] == {"cost": "0", "cost_provenance": "free"}
    table = run(tmp_path, capsys, "--since", "3")
    assert "embedded-chat" in table
    assert table.splitlines()[-1].startswith("all")
    assert "No request" in run(tmp_path, capsys, "--since", "3", "--agent", "nobody")


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "99999999999"])
def test_a_time_that_cannot_be_is_wrong_usage(since: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f'--since: found "{since}", expected a day' in run(tmp_path, capsys, "--since", since, status=2)
