"""Many streams at once: the window stays alive, nothing is lost, and Stop ends all of them at once."""

import asyncio
import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from engine.completion import FinishReason
from engine.events import CompletionFinished
from engine.folders import Folders
from tests.helpers.flood_server import HALF, flooding, stalling, whole_text
from tests.helpers.heartbeat import Heartbeat
from tests.helpers.model_answers import flow_file, write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened

pytestmark = pytest.mark.usefixtures("qapp")

STREAMS = 64


def wide_flow(folder: Path, branches: int) -> Path:
    """One agent that asks for each of so many values at once."""
    values = [f"thing {number}" for number in range(branches)]
    inputs = [{"key": "thing", "type": "list", "default": values}]
    return flow_file(folder / "wide.flow.json", {"name": "Writer", "template": "Write of [[thing]]."}, inputs=inputs)


def texts(bench: Workbench) -> list[str]:
    """What the branches hold."""
    steps = bench.tab.panel.model.steps
    branches = steps[1].branches.values() if 1 in steps else ()
    return [branch.attempt.content.text for branch in branches if branch.attempt is not None]


def lengths(bench: Workbench) -> list[int]:
    """How long the texts of the branches are: to look costs next to nothing."""
    steps = bench.tab.panel.model.steps
    branches = steps[1].branches.values() if 1 in steps else ()
    return [branch.attempt.content.length for branch in branches if branch.attempt is not None]


FULL = pytest.param(STREAMS, 200, 60.0, marks=[pytest.mark.soak, pytest.mark.timeout(400)])


@pytest.mark.parametrize(("streams", "rate", "seconds"), [(16, 100, 2.0), FULL])
def test_streams_side_by_side_do_not_hold_the_window_and_lose_nothing(
    streams: int, rate: int, seconds: float, tmp_path: Path
) -> None:
    is_full = streams == STREAMS
    home, path = tmp_path / "home", wide_flow(tmp_path, streams)

    async def story() -> None:
        with flooding(rate, seconds) as url:
            write_profile(Folders(home), "fake", url, category="M", maxConcurrent=str(streams))
            async with opened(home, [path], size=(1900, 1000)) as bench:
                bench.press("F5")
                async with asyncio.timeout(60):
                    while len(lengths(bench)) < streams or not all(lengths(bench)):
                        await asyncio.sleep(0.05)
                assert bench.tab.panel.stream.shows_grid
                await bench.until(lambda: len(bench.tab.panel.stream.grid.cells) == 8)
                heart = Heartbeat()
                async with asyncio.timeout(seconds * 4 + 30):
                    while bench.tab.is_running:
                        await asyncio.sleep(0.05)
                heart.stop()
                assert gc.get_freeze_count()  # searching all that was loaded for garbage would hold the window
                assert bench.tab.progress.status == "finished"
                whole = whole_text(round(rate * seconds))
                assert texts(bench) == [whole] * streams
                await bench.until(lambda: not bench.tab.panel.flusher.active)
                shown = [cell.text.full_text for cell in bench.tab.panel.stream.grid.cells]
                assert shown == [whole] * 8
                figures = [round(heart.percentile(part) * 1000) for part in (0.5, 0.99, 1)]
                print(f"heartbeat late: median {figures[0]} ms, p99 {figures[1]} ms, at most {figures[2]} ms")
                if is_full:
                    assert heart.percentile(0.99) <= 0.050, heart.dumps[:3]
                    assert heart.percentile(1) <= 0.250, heart.dumps[:3]

    run_qt(story(), 60 + seconds * 5)


@pytest.mark.parametrize("repeats", [2, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(1500)])])
def test_stop_ends_64_streams_together_and_keeps_their_text(repeats: int, tmp_path: Path) -> None:
    home, path, half = tmp_path / "home", wide_flow(tmp_path, STREAMS), "".join(HALF)
    shows, closes = [], []

    async def story() -> None:
        with stalling() as (url, left):
            write_profile(Folders(home), "fake", url, category="M", maxConcurrent=str(STREAMS))
            async with opened(home, [path]) as bench:
                await stop_again_and_again(bench, left)

    async def stop_again_and_again(bench: Workbench, left: Callable[[], tuple[int, float]]) -> None:
        before = (0, 0)
        for number in range(repeats + 1):
            bench.press("F5")
            await bench.until(lambda: texts(bench) == [half] * STREAMS)
            started = time.monotonic()
            bench.press("Shift+F5")
            # Seen at once, before anything was awaited.
            assert bench.tab.panel._caption.text() == "stopping …"
            shows.append(time.monotonic() - started)
            count, moment = await asyncio.to_thread(left)
            assert count == STREAMS
            closes.append(moment - started)
            assert await bench.run_end() == "stopped"
            await check_recorded(bench)
            if number == 0:  # what is made once is made by now
                before = held()
        await bench.until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))

    async def check_recorded(bench: Workbench) -> None:
        assert bench.engine.history is not None
        row = (await bench.engine.history.runs(1))[0]
        assert row.status == "stopped"
        answers = [
            event for event in (await bench.engine.history.run(row.id)).events if isinstance(event, CompletionFinished)
        ]
        kept = {(event.content, event.finish_reason) for event in answers}
        assert (len(answers), kept) == (STREAMS, {(half, FinishReason.STOPPED)})
        assert all(event.statistics.out_tokens > 0 for event in answers)

    run_qt(story(), 60 + repeats * 6)
    shows.sort()
    closes.sort()
    worst = int(len(shows) * 0.99)
    print(f"median: closed after {closes[len(closes) // 2] * 1000:.0f} ms")
    print(f"p99: shown after {shows[worst] * 1000:.0f} ms, closed after {closes[worst] * 1000:.0f} ms")
    if repeats >= 200:
        assert shows[worst] <= 0.100
        assert closes[worst] <= 0.250


def held() -> tuple[int, int]:
    """How many tasks there are, and file handles where the system tells (Linux).

    Those of the history aside: SQLite closes the ones of finished readers when its writer lets its locks go.
    """
    folder = Path("/proc/self/fd")
    names = []
    for link in folder.iterdir() if folder.exists() else ():
        with suppress(OSError):  # the folder's own handle is gone by now
            names.append(os.readlink(link))
    return len(asyncio.all_tasks()), sum("history.sqlite" not in name for name in names)
