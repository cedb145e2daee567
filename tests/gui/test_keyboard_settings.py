"""Keys of actions are changed by pressing others: at once, without two actions on one key, and for the next start."""

from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest

from tests.gui.test_settings_dialog import one_agent, settings_of
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened
from workbench.settings_dialog.keys_page import KeysPage
from workbench.shortcuts import shortcut_rows
from workbench.widgets.key_line import KeyLine

pytestmark = pytest.mark.usefixtures("qapp")

CTRL, SHIFT, ALT = (
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.AltModifier,
)
PLAIN = Qt.KeyboardModifier.NoModifier


async def keyboard_of(bench: Workbench) -> KeysPage:
    dialog = await settings_of(bench)
    dialog.show_page(dialog.keys)
    return dialog.keys


def press(line: KeyLine, key: Qt.Key, modifiers: Qt.KeyboardModifier = PLAIN) -> None:
    line.setFocus()
    QTest.keyClick(line, Qt.Key.Key_Return)
    QTest.keyClick(line, Qt.Key.Key_Control, CTRL)  # a modifier alone is no key
    assert line.text() == "Press a key…"
    QTest.keyClick(line, key, modifiers)


def test_a_key_is_found_changed_used_and_remembered(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            page = await keyboard_of(bench)
            page.filter.setFocus()
            QTest.keyClicks(page.filter, "palette")
            assert page.chosen.text() == "Command palette"
            page.tree.setFocus()
            QTest.keyClick(page.tree, Qt.Key.Key_Return)
            assert page.first.listening
            assert page.first.hasFocus()
            QTest.keyClick(page.first, Qt.Key.Key_P, CTRL | SHIFT)
            assert page.first.text() == "Ctrl+Shift+P"
            press(page.second, Qt.Key.Key_F3)
            keys = bench.window.actions_by_id.shown_keys("palette")
            assert keys == "Ctrl+Shift+P, F3"
            assert "(Ctrl+Shift+P)" in bench.window.actions_by_id["palette"].toolTip()
            assert bench.window._palette_field.text().endswith("Ctrl+Shift+P")
            assert ("View", "Command palette", keys) in list(shortcut_rows(bench.window.actions_by_id))
            bench.window.findChild(type(page.window())).reject()  # type: ignore[union-attr]
            await bench.reactivate()
            opened_palettes: list[bool] = []
            bench.window.actions_by_id["palette"].triggered.connect(lambda: opened_palettes.append(True))
            bench.press("F3")
            await bench.until(lambda: opened_palettes)
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            assert bench.window.actions_by_id.shown_keys("palette") == "Ctrl+Shift+P, F3"
            page = await keyboard_of(bench)
            page.choose("palette")
            bench.click(page.reset)
            assert bench.window.actions_by_id.shown_keys("palette") == "Ctrl+K"
            assert bench.settings.keys == {}

    run_qt(story(), 60)


def test_a_key_of_another_action_is_taken_or_left(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            actions = bench.window.actions_by_id
            page = await keyboard_of(bench)
            page.choose("palette")
            press(page.first, Qt.Key.Key_S, CTRL)
            assert (
                page.question.text()
                == "Ctrl+S belongs to “Save”. Take it for “Command palette”? “Save” is then without it."
            )
            QTest.keyClick(page.take, Qt.Key.Key_Tab)
            assert page.leave.hasFocus()
            bench.click(page.leave)
            assert (actions.shown_keys("palette"), actions.shown_keys("save")) == ("Ctrl+K", "Ctrl+S")
            assert page.first.text() == "Ctrl+K"
            press(page.first, Qt.Key.Key_S, CTRL)
            QTest.keyClick(page.take, Qt.Key.Key_Space)
            assert (actions.shown_keys("palette"), actions.shown_keys("save")) == ("Ctrl+S", "")
            page.choose("save")
            bench.click(page.reset)  # what it had at first is another's now
            assert page.question.text().startswith("Ctrl+S belongs to “Command palette”.")
            bench.click(page.take)
            assert (actions.shown_keys("palette"), actions.shown_keys("save")) == ("", "Ctrl+S")
            bench.click(page.reset_all)
            assert await bench.answer("Reset all") == "Give all actions their first keys again?"
            assert (actions.shown_keys("palette"), actions.shown_keys("save")) == ("Ctrl+K", "Ctrl+S")
            assert not page.reset_all.isEnabled()

    run_qt(story(), 60)


def test_keys_that_no_action_can_have(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            page = await keyboard_of(bench)
            page.choose("open")
            for key, modifiers, words in (
                (Qt.Key.Key_Tab, PLAIN, "Tab moves about and chooses everywhere: it cannot be changed."),
                (Qt.Key.Key_F, ALT, "Alt+F opens the menu File."),
                (Qt.Key.Key_D, PLAIN, "D has its own meaning on the canvas."),
            ):
                press(page.first, key, modifiers)
                assert page.refusal.text == words
                assert page.first.text() == "Ctrl+O"
            press(page.first, Qt.Key.Key_Escape)
            assert page.first.text() == "Ctrl+O"
            assert page.isVisible()  # Esc did not close the settings
            QTest.keyClick(page.first, Qt.Key.Key_Delete)
            assert bench.window.actions_by_id.shown_keys("open") == ""
            page.first.listen()
            page.tree.setFocus()
            assert not page.first.listening

    run_qt(story(), 60)


@pytest.mark.parametrize("kept", ["[", "[1]", '{"open": 3, "gone": ["F3"], "find": [null, "F3", "F3"]}'])
def test_damaged_keys_are_left_out(tmp_path: Path, kept: str) -> None:
    async def story() -> None:
        async with opened(tmp_path, started=False) as bench:
            assert bench.window.actions_by_id.shown_keys("open") == "Ctrl+O"
            assert bench.window.actions_by_id.shown_keys("find") in ("Ctrl+F", "F3")

    store = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)
    store.setValue("keys/changed", kept)
    store.sync()
    run_qt(story(), 60)


def test_a_first_key_gives_way_to_a_chosen_one(tmp_path: Path) -> None:
    """An action of a later version comes with a key that a person has given to another."""

    async def story() -> None:
        async with opened(tmp_path, started=False) as bench:
            assert bench.window.actions_by_id.shown_keys("find") == "Ctrl+O"
            assert bench.window.actions_by_id.shown_keys("open") == ""

    store = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)
    store.setValue("keys/changed", '{"find": ["Ctrl+O"]}')
    store.sync()
    run_qt(story(), 60)
