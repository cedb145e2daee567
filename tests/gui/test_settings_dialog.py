"""The settings: they hold at once, are kept, and say at the field what cannot be taken."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine import EngineSettings, Spending
from engine.folders import Folders
from tests.helpers.fake_server import chat
from tests.helpers.installed_plugins import install
from tests.helpers.model_answers import announcement_answers, flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, focusable, opened, opened_on
from workbench.settings_dialog.cache_page import CREATED, HITS, QUESTION, TOKENS
from workbench.settings_dialog.dialog import SettingsDialog
from workbench.settings_dialog.numbers import money, whole_number
from workbench.settings_dialog.page import NumberField
from workbench.theme import DARK, LIGHT, theme

pytestmark = pytest.mark.usefixtures("qapp")


async def settings_of(bench: Workbench) -> SettingsDialog:
    bench.press("Ctrl+,")
    await bench.until(lambda: bench.window.findChild(SettingsDialog) is not None)
    dialog = bench.window.findChild(SettingsDialog)
    assert isinstance(dialog, SettingsDialog)
    await bench.until(dialog.isActiveWindow)
    return dialog


def type_number(field: NumberField, text: str) -> None:
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, text)
    if not text:
        QTest.keyClick(field, Qt.Key.Key_Backspace)
    QTest.keyClick(field, Qt.Key.Key_Tab)


def one_agent(folder: Path) -> Path:
    return flow_file(folder / "one.flow.json", {"name": "Writer", "template": "Write a line."})


def test_the_look_changes_at_once_and_is_remembered(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            dialog = await settings_of(bench)
            page = dialog.appearance
            page.scheme.setFocus()
            page.scheme.setCurrentIndex(page.scheme.findData(LIGHT))
            page.scheme.activated.emit(page.scheme.currentIndex())
            assert not theme.dark
            assert bench.settings.theme == LIGHT
            assert bench.window.actions_by_id["theme_light"].isChecked()
            page.zoom.setCurrentIndex(page.zoom.findText("150 %"))
            page.zoom.activated.emit(page.zoom.currentIndex())
            assert theme.zoom == bench.settings.zoom == 1.5
            bench.trigger("text_reset")  # the menu is another way to the same
            assert page.zoom.currentText() == "100 %"
            bench.click(page.motion)
            assert theme.reduced_motion is bench.settings.reduced_motion is page.motion.isChecked()

    try:
        run_qt(story(), 60)
    finally:
        theme.choose(DARK)
        theme.set_zoom(1.0)
        theme.set_reduced_motion(True)


def test_limits_hold_at_once_and_are_kept_for_the_next_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)], cache=True) as bench:
            dialog = await settings_of(bench)
            dialog.show_page(dialog.limits)
            fields = dialog.limits.fields
            for key, text in {
                "requests_per_minute": "60",
                "tokens_per_minute": "90,000",
                "run.cost": "0.50",
                "day.cost": "5",
                "day.tokens": "1000000",
                "run.requests": "40",
            }.items():
                type_number(fields[key], text)
            bench.click(dialog.limits.breaker)
            wanted = EngineSettings(
                requests_per_minute=60,
                tokens_per_minute=90_000,
                run_budget=Spending(cost=Decimal("0.50"), requests=40),
                day_budget=Spending(cost=Decimal(5), tokens=1_000_000),
                breaker=False,
            )
            assert bench.engine.settings == wanted
            await bench.until(lambda: EngineSettings.load(bench.folders.engine_settings) == wanted)
            type_number(fields["run.cost"], "")
            assert bench.engine.settings.run_budget == Spending(requests=40)
            await bench.until(lambda: dialog.limits.today.text() == "Used today: free, 0 tokens, 0 requests.")
        async with opened(tmp_path, [one_agent(tmp_path)], cache=True) as bench:
            dialog = await settings_of(bench)
            shown = {key: field.text() for key, field in dialog.limits.fields.items()}
            assert shown == {
                "requests_per_minute": "60",
                "tokens_per_minute": "90,000",
                "run.cost": "",
                "run.tokens": "",
                "run.requests": "40",
                "day.cost": "5",
                "day.tokens": "1,000,000",
                "day.requests": "",
            }
            assert not dialog.limits.breaker.isChecked()

    run_qt(story(), 60)


def test_old_runs_are_forgotten_at_the_next_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(chat("Told."), tmp_path, [one_agent(tmp_path)]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            dialog = await settings_of(bench)
            dialog.show_page(dialog.data)
            type_number(dialog.data.days, "x")
            assert "whole number" in dialog.data.days.fault
            type_number(dialog.data.days, "30")
            assert bench.engine.settings.history_days == 30
            history = bench.engine.history
            assert history is not None
            assert len(await history.runs()) == 1  # nothing is deleted by typing
        with closing(sqlite3.connect(Folders(tmp_path).history)) as connection, connection:
            connection.execute("UPDATE runs SET started = started - 31 * 86400")
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            history = bench.engine.history
            assert history is not None
            async with asyncio.timeout(20):
                while await history.runs():
                    await asyncio.sleep(0.05)
            (used,) = await history.usage(datetime.now(UTC) - timedelta(days=40))
            assert used.requests == 1

    run_qt(story(), 90)


def test_a_budget_from_the_settings_stops_a_run_and_says_why(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path) as (bench, server):
            dialog = await settings_of(bench)
            dialog.show_page(dialog.limits)
            type_number(dialog.limits.fields["run.requests"], "2")
            dialog.reject()
            await bench.reactivate()
            assert await bench.run_to_end() == "budget"
            assert len(server.requests) == 2
            await bench.until(lambda: bench.tab.panel.stream.banner.message is not None)
            message = bench.tab.panel.stream.banner.message
            assert message is not None
            assert message.title == "The run has used 2 of the 2 requests it may use."

    run_qt(story(), 60)


def test_what_cannot_be_taken_stays_in_its_field_with_the_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)], cache=True) as bench:
            dialog = await settings_of(bench)
            dialog.show_page(dialog.cache)
            field = dialog.cache.size_limit
            type_number(field, "lots")
            assert field.text() == "lots"
            assert field.fault == "Size: found “lots”, expected a whole number from 1 to 100,000."
            assert bench.engine.settings.cache_megabytes == 200
            field.setFocus()
            QTest.keyClick(field, Qt.Key.Key_Escape)  # takes back what was typed, the dialog stays
            assert (field.text(), field.fault) == ("200", "")
            assert dialog.isVisible()
            QTest.keyClicks(field, "x")
            dialog.reject()  # typed and not left: asked about once
            assert dialog.isVisible()
            assert field.fault
            dialog.reject()
            await bench.until(lambda: bench.window.findChild(SettingsDialog) is None)

    run_qt(story(), 60)


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("1,000", 1000), ("1 000", 1000), ("0", 0), ("", None)],
)
def test_whole_numbers(text: str, value: int | None) -> None:
    assert whole_number("Tokens", text, 0, empty="no limit") == value


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "²", "1e3", "9" * 20])
def test_whole_numbers_that_are_none(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"^Tokens: found “.+”, expected a whole number from 0 to .+, or nothing for no"
    ):
        whole_number("Tokens", text, 0, empty="no limit")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", Decimal("0.5")),
        ("0,50", Decimal("0.50")),
        ("12", Decimal(12)),
        ("0.0025", Decimal("0.0025")),
        ("", None),
    ],
)
def test_money(text: str, value: Decimal | None) -> None:
    assert money("Money", text, empty="no limit") == value


@pytest.mark.parametrize("text", ["1,000", "1.000.000", "-2", "$3", "nan", "1e5", "٣"])
def test_money_that_is_none(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"^Money: found “.+”, expected an amount such as 0\.50, or nothing for no limit\.$"
    ):
        money("Money", text, empty="no limit")


def test_kept_answers_are_listed_and_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path, cache=True) as (bench, server):
            dialog = await settings_of(bench)
            dialog.show_page(dialog.cache)
            page = dialog.cache
            await bench.until(lambda: page.summary.text() == "None yet: run a flow, and its answers appear here.")
            assert not page.clear.isEnabled()
            dialog.reject()
            await bench.reactivate()
            await bench.run_to_end()
            await bench.run_to_end()
            assert len(server.requests) == 7
            dialog = await settings_of(bench)
            page = dialog.cache
            dialog.show_page(page)
            await bench.until(lambda: len(page.answers.answers) == 7)
            assert page.summary.text().startswith("7 answers, 0.0 MB (")
            assert page.summary.text().endswith("given again 7 times, which saved $0.001.")
            texts = {
                page.answers.text(answer, QUESTION): [page.answers.text(answer, column) for column in (TOKENS, HITS)]
                for answer in page.answers.answers
            }
            question = next(text for text in texts if text.startswith("A robot can wash the dishes."))
            assert texts[question] == ["20 → 10", "1"]
            assert page.answers.text(page.answers.answers[0], CREATED)
            assert not page.delete.isEnabled()
            page.table.selectRow(2)
            gone = page.answers.answers[2].key
            page.table.setFocus()
            QTest.keyClick(page.table, Qt.Key.Key_Delete)
            await bench.until(lambda: len(page.answers.answers) == 6)
            assert gone not in {answer.key for answer in page.answers.answers}
            bench.click(page.clear)
            assert await bench.answer("Forget all") == "Forget all kept answers?"
            await bench.until(lambda: not page.answers.answers)
            assert (await bench.engine.cache.info()).entries == 0  # type: ignore[union-attr]
            await bench.run_to_end()
            assert len(server.requests) == 14

    run_qt(story(), 120)


def test_the_switch_in_the_settings_is_that_beside_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)], cache=True) as bench:
            dialog = await settings_of(bench)
            dialog.show_page(dialog.cache)
            bench.click(dialog.cache.use)
            assert not bench.window.actions_by_id["use_cache"].isChecked()
            bench.click(button(bench.window.main_bar, "Use cache"))
            assert dialog.cache.use.isChecked()
            assert (await settings_of(bench)) is dialog  # there is one

    run_qt(story(), 60)


def test_everything_is_reached_by_keyboard_and_has_a_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(chat("x"), tmp_path, [one_agent(tmp_path)], cache=True) as (bench, _server):
            await bench.run_to_end()
            dialog = await settings_of(bench)
            for page in dialog.pages:
                dialog.show_page(page)
                await bench.settle()
                wanted = {widget for widget in focusable(dialog) if widget.isVisible() and widget.isEnabled()}
                assert [
                    widget for widget in wanted if not (widget.accessibleName() or getattr(widget, "text", str)())
                ] == []
                seen = set()
                dialog.list.setFocus()
                for _ in range(60):
                    seen.add(dialog.focusWidget())
                    QTest.keyClick(dialog.focusWidget(), Qt.Key.Key_Tab)
                assert wanted <= seen, [type(widget) for widget in wanted - seen]

    run_qt(story(), 90)


INTERCEPTOR = """
from engine import Conversation


class Polite:
    async def before(self, profile, conversation):
        return Conversation.create("", "Please: hello")

    async def after(self, profile, conversation, completion):
        return completion
"""


def test_interceptors_of_packages_are_switched_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path / "site", {"interceptors": {"polite": "manners:Polite"}}, manners=INTERCEPTOR)

    async def story() -> None:
        async with opened_on(chat("Hello."), tmp_path / "home", [one_agent(tmp_path)]) as (bench, server):
            bench.desk.options.change(interceptors=("gone",))
            dialog = await settings_of(bench)
            dialog.show_page(dialog.limits)
            boxes = dialog.limits.interceptors
            assert [(name, box.isChecked()) for name, box in boxes.items()] == [("gone", True), ("polite", False)]
            assert boxes["gone"].accessibleDescription() == "Not installed: no request passes while it is on."
            assert boxes["polite"].accessibleDescription() == "Of the package test-plugins."
            boxes["gone"].click()
            boxes["polite"].click()
            assert bench.engine.settings.interceptors == ("polite",)
            dialog.reject()
            await bench.reactivate()
            assert await bench.run_to_end() == "finished"
            assert server.requests[0].json()["messages"] == [{"role": "user", "content": "Please: hello"}]

    run_qt(story(), 60)
