"""Two profiles of the embedded model over ten rows, by command line and by window: figures are what was recorded."""

import asyncio
import json
from collections.abc import Container
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine import RunHistory, cli
from engine.comparison_values import CellStatus
from engine.embedded_server import EmbeddedServer
from engine.folders import Folders
from tests.e2e.test_embedded_model import pytestmark as needs_model
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import button, opened
from workbench.comparison.page import ComparePage
from workbench.comparison.setup_form import SetupForm

pytestmark = [*needs_model, pytest.mark.usefixtures("qapp")]

PROFILES = ("embedded-chat", "embedded-thinking")
CITIES = ("Paris", "Rome", "Oslo", "Bern", "Lima", "Cairo", "Tokyo", "Delhi", "Quito", "Accra")
PROMPT = "Name one thing to see in {{city}}."


SETTINGS = """modelProvider=OAI_CHAT_COMPLETION
modelName=smollm2-135m-instruct
url=embedded
tokenizer=llamaServer
temperature=0
topP=1
maxContextLength=8192
cost1MInTokens=2
cost1MCachedInTokens=1
cost1MOutTokens=8
cost1MReasoningOutTokens=8
"""
THINKING = 'extParams={"chat_template_kwargs": {"enable_thinking": true}, "thinking_budget_tokens": 8}\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Short answers, with prices."""
    folder = Folders(tmp_path / "home").profiles
    folder.mkdir(parents=True)
    (folder / f"{PROFILES[0]}.properties").write_text(f"{SETTINGS}maxTokens=10\n")
    (folder / f"{PROFILES[1]}.properties").write_text(f"{SETTINGS}maxTokens=24\n{THINKING}")
    return tmp_path / "home"


@dataclass(frozen=True)
class Sums:
    """What the requests of one profile come to; cached tokens are among those in, reasoning among those out."""

    in_tokens: int
    out_tokens: int
    reasoning: int
    cost: Decimal


async def recorded(history: RunHistory, runs: Container[str], profile: str) -> Sums:
    """The sums over the recorded requests of these runs."""
    every = await history.requests(datetime.now(UTC) - timedelta(days=1))
    found = [one for one in every if one.run_id in runs and one.profile == profile]
    assert sum(one.requests for one in found) == len(CITIES)
    return Sums(
        in_tokens=sum(one.in_tokens + one.cached_in_tokens for one in found),
        out_tokens=sum(one.out_tokens + one.reasoning_out_tokens for one in found),
        reasoning=sum(one.reasoning_out_tokens for one in found),
        cost=sum((one.cost for one in found), Decimal(0)),
    )


def check(sums: dict[str, Sums]) -> None:
    """All that was asked was counted, and costs what the prices say."""
    chat, thinking = (sums[name] for name in PROFILES)
    assert chat.reasoning == 0 < thinking.reasoning <= thinking.out_tokens <= 24 * len(CITIES)
    assert 0 < chat.out_tokens <= 10 * len(CITIES)
    for one in sums.values():
        assert one.in_tokens > len(CITIES) * len(PROMPT.split())
        at_most = (2 * one.in_tokens + 8 * one.out_tokens) / Decimal(1_000_000)
        assert (
            at_most / 2 < one.cost <= at_most
        )  # part of the prompt is read from the server's memory, at half the price


def test_the_command_line_counts_what_was_recorded(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "cities.csv"
    rows.write_text("city\n" + "\n".join(CITIES) + "\n")
    command = ["compare", "--prompt", PROMPT, "--profiles", ",".join(PROFILES), "--dataset", str(rows), "--json"]
    assert cli.main(["--data-dir", str(home), *command]) == 0
    document = json.loads(capsys.readouterr().out)
    cells = document["cells"]
    assert [(cell["row"], cell["profile"]) for cell in cells] == [
        (row + 1, name) for row in range(10) for name in PROFILES
    ]
    assert {cell["status"] for cell in cells} <= {"answered", "cut_off", "no_answer"}
    runs = {cell["run_id"] for cell in cells}
    assert len(runs) == 20
    told = {
        one["name"]: Sums(one["in_tokens"], one["out_tokens"], one["reasoning_out_tokens"], Decimal(str(one["cost"])))
        for one in document["profiles"]
    }
    history = RunHistory(Folders(home).history)
    sums = {name: asyncio.run(recorded(history, runs, name)) for name in PROFILES}
    assert told == sums
    check(sums)


def test_the_window_counts_what_was_recorded(home: Path) -> None:
    async def story() -> None:
        async with opened(home, server=EmbeddedServer(data_dir=home)) as bench:
            bench.press("Ctrl+Alt+C")
            page = bench.desk.pages.current
            assert isinstance(page, ComparePage)
            bench.click(page.view.first)
            form = await bench.dialog(SetupForm)
            form.prompt.setFocus()
            QTest.keyClicks(form.prompt, PROMPT)
            form.check_profiles(PROFILES)
            form.rows.setCurrentCell(0, 0)
            QApplication.clipboard().setText("\n".join(CITIES))
            QTest.keySequence(form.rows, "Ctrl+V")
            bench.click(button(form, "Start"))
            async with asyncio.timeout(200):
                while page.work.record is None or page.work.is_running or len(page.board.answers) < 20:
                    await asyncio.sleep(0.05)
            results = [one.result for one in page.board.answers.values()]
            assert {one.status for one in results} <= {CellStatus.ANSWERED, CellStatus.CUT_OFF, CellStatus.NO_ANSWER}
            assert page.board.prompts_agree is True
            assert bench.engine.history is not None
            await bench.engine.history.flush()
            sums = {}
            for place, name in enumerate(PROFILES):
                runs = {one.run_id for one in results if one.profile == name}
                sums[name] = await recorded(bench.engine.history, runs, name)
                await bench.until(lambda place=place: page.view.table.figures.figures(place).cells == 10)
                figures = page.view.table.figures.figures(place)
                told = Sums(figures.in_tokens, figures.out_tokens, figures.reasoning_tokens, figures.cost)
                assert told == sums[name]
            check(sums)

    run_qt(story(), 240)
