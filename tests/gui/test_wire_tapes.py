"""Wire tapes in the window: kept with each run, saved, played with a stripe over all, made a test."""

import shutil
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog

from engine.clients.tape_file import RecordedTape
from tests.helpers.fake_server import DONE, Answer, Received, chat, delta
from tests.helpers.model_answers import flow_file, prompt_of
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, choose_file, opened, opened_on
from workbench.replay_form import ReplayForm
from workbench.wire_tapes import test_name as name_of_test

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "plugins"

pytestmark = pytest.mark.usefixtures("qapp")


def answers(request: Received) -> Answer:
    """Something that tells which agent asked."""
    return chat("An ", f"answer to {prompt_of(request).split()[0]}.", usage=(40, 20))


def two_agents(folder: Path) -> Path:
    return flow_file(
        folder / "two.flow.json",
        {"name": "Draft", "template": "draft {{topic}}", "handler": {"type": "text", "key": "draft"}},
        {"name": "Final", "template": "final {{draft}}", "handler": {"type": "text", "key": "final"}},
        inputs=[{"key": "topic", "type": "text", "default": "robots"}],
        outputs=["final"],
    )


async def play(bench: Workbench, speed: float = 0.0) -> None:
    """Replay the run on show, or the tape that was chosen."""
    form = await bench.dialog(ReplayForm)
    form.speeds[speed].setChecked(True)
    bench.click(button(form, "Replay"))
    await bench.until(lambda: bench.tab.source.startswith("replay ") and bench.tab.run_id)
    await bench.run_end()
    await bench.reactivate()


def enabled(bench: Workbench) -> dict[str, bool]:
    return {name: bench.window.actions_by_id[name].isEnabled() for name in ("save_tape", "make_test", "replay_tape")}


def test_a_run_is_saved_and_played_without_its_server(tmp_path: Path) -> None:
    """The tape goes to another window, whose profiles know nobody."""

    shown: list[str] = []

    async def record() -> None:
        async with opened_on(answers, tmp_path / "home", [two_agents(tmp_path)]) as (bench, _):
            assert enabled(bench) == {"save_tape": False, "make_test": False, "replay_tape": True}
            assert await bench.run_to_end() == "finished"
            assert enabled(bench) == {"save_tape": True, "make_test": True, "replay_tape": True}
            bench.trigger("save_tape")
            await choose_file(bench, tmp_path / "saved.tape.jsonl")
            await bench.until(lambda: any("was saved as saved.tape.jsonl" in text for text in bench.banner_texts()))
            assert bench.window.replay_stripe.text == ""
            shown.append(bench.tab.panel.summary_text().partition("Time")[0])

    async def replay() -> None:
        async with opened(tmp_path / "other") as bench:
            bench.trigger("replay_tape")
            await choose_file(bench, tmp_path / "saved.tape.jsonl")
            await play(bench)
            assert bench.tab.progress.status == "finished"
            assert bench.window.replay_stripe.isVisible()
            assert bench.window.replay_stripe.accessibleName() == (
                "Replay – nothing was called. The answers came from the tape saved.tape.jsonl."
            )
            await bench.until(lambda: [item.icon for item in bench.window.explorer.items("run")] == ["tape"])
            assert "replay" in bench.window.explorer.items("run")[0].text
            total = await bench.engine.recorded.today()
            assert (total.requests, total.cost) == (0, 0)
            shown.append(bench.tab.panel.summary_text().partition("Time")[0])

    run_qt(record())
    run_qt(replay())
    recorded, replayed = shown
    assert "An answer to final." in recorded
    assert replayed == recorded


def test_the_stripe_stays_as_long_as_a_replay_is_in_front(tmp_path: Path) -> None:
    slow = Answer(pieces=[delta("Slow "), 0.05, delta("words", finish="stop"), DONE])

    async def scenario() -> None:
        flow = flow_file(tmp_path / "one.flow.json", {"name": "Only", "template": "say"})
        async with opened_on(slow, tmp_path / "home", [flow]) as (bench, server):
            assert await bench.run_to_end() == "finished"
            real, stripe = bench.tab, bench.window.replay_stripe
            said: list[str] = []
            stripe_say = stripe.say

            def noted(text: str) -> None:
                said.append(text)
                stripe_say(text)

            stripe.say = noted  # type: ignore[method-assign]
            bench.trigger("replay_tape")
            await play(bench, 1.0)
            await bench.shows("Slow words")
            assert any(
                text.startswith("Replay – nothing is called. The answers come from the run of ") for text in said
            )
            assert len(server.requests) == 1
            assert stripe.isVisible()
            assert stripe.width() == bench.window.width()
            bench.window.tabs.setCurrentWidget(real.editor)
            assert not stripe.isVisible()
            assert bench.tab is real
            bench.desk.documents.close_tab(next(tab for tab in bench.desk.documents.tabs if tab is not real))
            await bench.until(lambda: len(bench.desk.documents.tabs) == 1)
            # What a replay recorded is one when it is opened from the list, too.
            await bench.until(lambda: len(bench.window.explorer.items("run")) == 2)
            await bench.desk.overview.open_run(bench.window.explorer.items("run")[0].id)
            assert stripe.isVisible()
            assert enabled(bench)["save_tape"], "the tape it played is still there"

    run_qt(scenario())


def test_no_tape_is_kept_when_nobody_wants_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened_on(answers, tmp_path / "home", [two_agents(tmp_path)]) as (bench, _):
            record = bench.window.actions_by_id["record_tape"]
            assert record.isChecked()
            record.trigger()
            assert await bench.run_to_end() == "finished"
            assert not enabled(bench)["save_tape"]
            assert "no wire tape" in bench.window.actions_by_id["save_tape"].toolTip()
            assert not bench.folders.tapes.exists()
            assert not bench.settings.record_tapes

    run_qt(scenario())


def test_a_folder_that_cannot_be_written_keeps_no_run_from_happening(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened_on(answers, tmp_path / "home", [two_agents(tmp_path)]) as (bench, _):
            bench.folders.tapes.write_text("a file in its place")
            assert await bench.run_to_end() == "finished"
            assert not enabled(bench)["save_tape"]

    run_qt(scenario())


def test_one_click_makes_an_offline_test(tmp_path: Path) -> None:
    folder = tmp_path / "tests"

    async def scenario() -> None:
        async with opened_on(answers, tmp_path / "home", [two_agents(tmp_path)]) as (bench, _):
            await bench.run_to_end()
            bench.trigger("make_test")
            dialog = await bench.dialog(QFileDialog)
            dialog.reject()
            dialog.fileSelected.emit(str(folder))
            await bench.until(lambda: any("offline test test_test_flow.py" in text for text in bench.banner_texts()))
            assert "An answer to final." in (folder / "test_test_flow.py").read_text("utf-8")
            assert RecordedTape(folder / "test_flow.tape.jsonl").end is not None

    run_qt(scenario())


def test_a_flow_with_plug_ins_is_played_with_those_beside_its_file(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "own")

    async def scenario() -> None:
        async with opened_on(answers, tmp_path / "home", [tmp_path / "own" / "slogan.flow.json"]) as (bench, _):
            access = bench.tab.trust.restricted
            assert access is not None
            bench.tab.trust.trust(access)
            await bench.run_to_end()
            status, outputs = bench.tab.progress.status, bench.tab.panel.model.outputs
            bench.trigger("replay_tape")
            await play(bench)
            assert (bench.tab.progress.status, bench.tab.panel.model.outputs) == (status, outputs)
            bench.trigger("make_test")
            dialog = await bench.dialog(QFileDialog)
            dialog.reject()
            dialog.fileSelected.emit(str(tmp_path / "made"))
            await bench.until(lambda: any("The offline test" in text for text in bench.banner_texts()))
            assert (tmp_path / "made" / "plugins" / "words.py").is_file()

    run_qt(scenario())


def test_a_damaged_tape_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("not a tape\n")

    async def scenario() -> None:
        async with opened(tmp_path / "home") as bench:
            bench.trigger("replay_tape")
            await choose_file(bench, tmp_path / "bad.jsonl")
            await bench.until(lambda: any("bad.jsonl, line 1" in text for text in bench.banner_texts()))

    run_qt(scenario())


def test_a_name_of_a_flow_is_a_name_in_python() -> None:
    assert name_of_test("Réponse – n° 1!") == "reponse_n_1"
    assert name_of_test("演示") == "flow"
