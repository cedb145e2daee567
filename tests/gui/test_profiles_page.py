"""The page Profiles as a person uses it: form and source, faults, keys, saving, testing, categories, other programs."""

import types
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLineEdit, QMenu

from engine import api_keys
from engine.folders import Folders
from engine.profile_probe import Step
from engine.server_finder import UsualPort
from tests.helpers.fake_server import Answer, FakeServer, chat, failure
from tests.helpers.model_answers import write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, opened
from workbench.profiles.key_field import KeyField
from workbench.profiles.page import ProfilesPage
from workbench.widgets.difference_dialog import DifferenceDialog
from workbench.widgets.name_dialog import NameDialog

pytestmark = pytest.mark.usefixtures("qapp")

TEXT = """# My own model
modelProvider=OAI_CHAT_COMPLETION
modelName = small
url=http://127.0.0.1:9/v1

x-team=blue
maxTokens=100
temperature=0
topP=1
cost1MInTokens=2
cost1MOutTokens=8
"""


def mine(home: Path, text: str = TEXT, name: str = "mine") -> Path:
    folder = Folders(home).profiles
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.properties"
    path.write_bytes(text.encode("utf-8"))
    return path


async def shown(bench: Workbench, name: str = "mine") -> ProfilesPage:
    """The page with this profile on show, and checked."""
    bench.press("Ctrl+Alt+M")
    page = bench.desk.pages.current
    assert isinstance(page, ProfilesPage)
    page.open_profile(name)
    await bench.until(lambda: page.document is not None and page.document.name == name)
    await bench.until(lambda: page.entry is not None)
    return page


def line(page: ProfilesPage, key: str) -> QLineEdit:
    edit = page.view.form.rows[key].edit
    found = edit.line if isinstance(edit, KeyField) else edit
    assert isinstance(found, QLineEdit)
    return found


def retype(bench: Workbench, page: ProfilesPage, key: str, text: str) -> None:
    field = line(page, key)
    field.setFocus()
    field.selectAll()
    if text:
        QTest.keyClicks(field, text)
    else:
        QTest.keyClick(field, Qt.Key.Key_Delete)


def fault(page: ProfilesPage, key: str) -> str:
    return page.view.form.rows[key].note.text


def test_form_and_source_edit_one_text_and_leave_the_rest_as_it_is(tmp_path: Path) -> None:
    path = mine(tmp_path)

    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: line(page, "modelName").text() == "small")
            assert page.view.form.example.text() == "1,000 in + 500 out = $0.006"
            retype(bench, page, "modelName", "large")
            retype(bench, page, "temperature", "0.5")
            retype(bench, page, "maxContextLength", "8192")
            assert page.is_modified
            expected = TEXT.replace("modelName = small", "modelName=large").replace(
                "temperature=0\n", "temperature=0.5\n"
            )
            assert page.view.source.toPlainText() == f"{expected}maxContextLength=8192\n"
            page.view.views.setCurrentIndex(1)
            page.view.source.setFocus()
            QTest.keySequence(page.view.source, "Ctrl+Z")  # one keystroke of the last field
            assert "maxContextLength=819\n" in page.view.source.toPlainText()
            page.view.source.selectAll()
            QTest.keySequence(page.view.source, "Ctrl+End")
            QTest.keyClicks(page.view.source, "maxRetries=7")
            await bench.until(lambda: line(page, "maxRetries").text() == "7")
            bench.press("Ctrl+S")
            await bench.until(lambda: not page.is_modified)

    run_qt(story())
    saved = path.read_text("utf-8")
    assert saved.startswith("# My own model\nmodelProvider=OAI_CHAT_COMPLETION\nmodelName=large\n")
    assert "\n\nx-team=blue\n" in saved
    assert saved.endswith("maxRetries=7")


def test_faults_stand_at_their_fields_and_only_fields_of_the_provider_are_shown(tmp_path: Path) -> None:
    mine(tmp_path)

    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: line(page, "url").text())
            rows = page.view.form.rows
            retype(bench, page, "url", "htps://example.org")
            await bench.until(lambda: "expected an address http" in fault(page, "url"))
            retype(bench, page, "temperature", "9")
            await bench.until(lambda: "expected a number from 0 to 2" in fault(page, "temperature"))
            retype(bench, page, "topP", "")
            await bench.until(lambda: fault(page, "topP") == "The required key topP is missing.")
            assert page.view.problems.text().count("x-team") == 1  # known as unknown, and kept
            retype(bench, page, "url", "http://127.0.0.1:9/v1")
            await bench.until(lambda: not fault(page, "url"))
            assert rows["reasoningEffort"].isVisibleTo(page)
            assert not rows["thinkingMode"].isVisibleTo(page)
            provider = rows["modelProvider"].edit
            assert isinstance(provider, QComboBox)
            provider.setFocus()
            provider.setCurrentIndex(provider.findData("ANTHROPIC_MESSAGES"))
            provider.activated.emit(provider.currentIndex())
            await bench.until(lambda: rows["thinkingMode"].isVisibleTo(page))
            assert not rows["reasoningEffort"].isVisibleTo(page)
            bench.click(page.view.revert)
            await bench.until(lambda: not page.is_modified)
            await bench.until(lambda: line(page, "topP").text() == "1")

    run_qt(story())


def test_a_key_in_plain_is_warned_of_and_moves_to_the_keychain_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mine(tmp_path)
    kept: dict[tuple[str, str], str] = {}
    backend = types.SimpleNamespace(
        priority=5,
        set_password=lambda service, name, value: kept.__setitem__((service, name), value),
        get_password=lambda service, name: kept.get((service, name)),
    )
    monkeypatch.setattr(api_keys, "_keyring", lambda: backend)

    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: line(page, "url").text())
            field = page.view.form.rows["apiKey"].edit
            assert isinstance(field, KeyField)
            retype(bench, page, "apiKey", "sk-test-0123456789")
            await bench.until(lambda: field.keyring.isVisible())
            assert field.line.echoMode() is QLineEdit.EchoMode.Password
            assert field.note.text == "The key stands in the file as it is: whoever reads the file has it."
            bench.click(field.keyring)
            await bench.until(lambda: field.line.text() == "${MINE_KEY}")
            assert kept == {("flow-workbench", "MINE_KEY"): "sk-test-0123456789"}
            await bench.until(lambda: field.state.text().startswith("Taken from MINE_KEY"))
            assert not field.keyring.isVisible()
            retype(bench, page, "apiKey", "sk-other-0123456789")
            await bench.until(lambda: field.variable.isVisible())
            kept.clear()
            bench.engine.profiles.reload()
            bench.click(field.variable)
            await bench.until(
                lambda: field.state.text().startswith("Found nowhere: set the environment variable MINE_KEY")
            )
            bench.press("Ctrl+S")
            await bench.until(lambda: not page.is_modified)

    run_qt(story())
    assert "apiKey=${MINE_KEY}\n" in path.read_text("utf-8")
    assert "0123456789" not in path.read_text("utf-8")


def test_the_test_goes_step_by_step_and_fills_the_models(tmp_path: Path) -> None:
    async def story() -> None:
        with FakeServer(chat("One", " two.", usage=(10, 5))) as server:
            write_profile(Folders(tmp_path), "fake", server.url)
            async with opened(tmp_path) as bench:
                page = await shown(bench, "fake")
                panel = page.view.test
                bench.click(panel.button)
                await bench.until(lambda: not panel.is_running)
                assert panel.rows[Step.ANSWER].icon._icon == "ok"
                assert panel.rows[Step.REACH].icon._icon == "ok"
                assert panel.rows[Step.USAGE].text.text()
                assert panel.button.text() == "&Test again"

    run_qt(story())


def test_a_test_of_a_dead_server_says_what_to_change_and_faulty_profiles_are_not_tested(tmp_path: Path) -> None:
    mine(tmp_path)

    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            panel = page.view.test
            bench.click(panel.button)
            await bench.until(lambda: not panel.is_running)
            assert panel.rows[Step.REACH].icon._icon == "failed"
            assert "127.0.0.1:9" in panel.rows[Step.REACH].text.text()
            assert panel.rows[Step.TOOLS].icon._icon == "minus"
            retype(bench, page, "temperature", "9")
            await bench.until(lambda: page.entry is not None and page.entry.profile is None)
            bench.click(panel.button)
            assert page.view.banners.banners[0].copied == "The profile has errors: mend them first."

    run_qt(story())


def test_bundled_profiles_become_files_of_ones_own_and_new_ones_are_made_and_deleted(tmp_path: Path) -> None:
    folder = Folders(tmp_path).profiles

    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench, "ollama")
            await bench.until(lambda: line(page, "url").text())
            assert page.document is not None
            assert page.document.is_bundled
            assert not page.view.delete.isEnabled()
            retype(bench, page, "maxTokens", "77")
            assert "Saving makes a file of your own" in page.view.info.text()
            bench.press("Ctrl+S")
            await bench.until(lambda: not page.is_modified)
            assert "maxTokens=77" in (folder / "ollama.properties").read_text("utf-8")
            bench.click(page.view.duplicate)
            dialog = await bench.dialog(NameDialog)
            dialog.field.selectAll()
            QTest.keyClicks(dialog.field, "ollama")
            assert not dialog._accept.isEnabled()
            QTest.keyClicks(dialog.field, "-two")
            bench.click(button(dialog, "Create"))
            await bench.until(lambda: page.document is not None and page.document.name == "ollama-two")
            await bench.reactivate()
            assert (folder / "ollama-two.properties").read_bytes() == (folder / "ollama.properties").read_bytes()
            bench.click(page.view.delete)
            assert await bench.answer("Delete") == "Delete the profile ollama-two?"
            await bench.until(lambda: "ollama-two" not in [entry.name for entry in page.entries])

    run_qt(story())
    assert not (folder / "ollama-two.properties").exists()
    assert (folder / "deleted" / "ollama-two.properties").exists()


def test_categories_are_mapped(tmp_path: Path) -> None:
    mine(tmp_path)

    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: "M" in page.view.categories.combos)
            combo = page.view.categories.combos["M"]
            combo.setCurrentIndex(combo.findData("mine"))
            combo.activated.emit(combo.currentIndex())
            await bench.until(lambda: bench.engine.profiles.categories()["M"] == "mine")
            page.view.categories.new_wanted.emit()
            dialog = await bench.dialog(NameDialog)
            bench.click(button(dialog, "Create"))
            await bench.until(lambda: "JUDGE" in page.view.categories.combos)
            await bench.reactivate()
            assert bench.engine.profiles.categories()["JUDGE"] == "mine"

    run_qt(story())


def test_what_others_write_is_taken_or_asked_about_and_unsaved_changes_outlive_a_crash(tmp_path: Path) -> None:
    path = mine(tmp_path)

    async def first() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: line(page, "modelName").text() == "small")
            path.write_text(TEXT.replace("small", "tiny"), "utf-8")
            await bench.until(lambda: line(page, "modelName").text() == "tiny")
            assert not page.view.banners.banners
            retype(bench, page, "modelName", "mine")
            path.write_text(TEXT.replace("small", "theirs"), "utf-8")
            await bench.until(lambda: page.view.banners.banners)
            assert await page.save() is False
            assert "theirs" in path.read_text("utf-8")
            bench.click(button(page.view.banners.banners[0], "Keep mine"))
            await page.drafts.settle()

    async def second() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: line(page, "modelName").text() == "mine")
            assert "Unsaved changes of mine are back." in page.view.banners.banners[-1].copied
            assert await page.save()

    run_qt(first())
    run_qt(second())
    assert "modelName=mine\n" in path.read_text("utf-8")


def test_ends_of_lines_and_other_encodings_stay(tmp_path: Path) -> None:
    path = mine(tmp_path)
    path.write_bytes(TEXT.replace("My own", "Größe").replace("\n", "\r\n").encode("iso-8859-1"))

    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: line(page, "modelName").text() == "small")
            retype(bench, page, "maxTokens", "200")
            assert await page.save()

    run_qt(story())
    expected = TEXT.replace("My own", "Größe").replace("maxTokens=100", "maxTokens=200").replace("\n", "\r\n")
    assert path.read_bytes() == expected.encode("iso-8859-1")


def test_recovery_files_hold_no_key_and_the_file_keeps_its_own(tmp_path: Path) -> None:
    path = mine(tmp_path, f"{TEXT}apiKey=sk-file-0123456789\n")

    async def first() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: line(page, "modelName").text() == "small")
            retype(bench, page, "modelName", "other")
            await page.drafts.settle()

    async def second() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            await bench.until(lambda: line(page, "modelName").text() == "other")
            assert line(page, "apiKey").text() == "sk-file-0123456789"
            assert await page.save()

    run_qt(first())
    kept = [file.read_bytes() for file in (tmp_path / "recovery").rglob("*") if file.is_file()]
    assert any(b"modelName=other" in data for data in kept)
    assert not any(b"0123456789" in data for data in kept)
    run_qt(second())
    assert "apiKey=sk-file-0123456789\n" in path.read_text("utf-8")
    assert "modelName=other\n" in path.read_text("utf-8")


def test_profiles_are_compared_without_their_keys(tmp_path: Path) -> None:
    mine(tmp_path, f"{TEXT}apiKey=sk-file-0123456789\n")
    mine(tmp_path, TEXT.replace("small", "large"), "other")

    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench)
            bench.click(page.view.compare)
            dialog = await bench.dialog(DifferenceDialog)
            second = dialog.choices[1]
            second.setCurrentIndex(second.findText("other"))
            pieces = [text for kind, text in dialog.difference.pieces if "small" in text or "large" in text]
            assert [text.strip() for text in pieces] == ["small", "large"]
            assert "0123456789" not in dialog.difference.text.toPlainText()

    run_qt(story())


def test_a_server_found_here_becomes_a_profile(tmp_path: Path) -> None:
    listed = Answer(headers={"content-type": "application/json"}, pieces=[b'{"data": [{"id": "tiny:1b"}]}'])

    async def story() -> None:
        with FakeServer(chat("x"), get=listed) as server, FakeServer(chat("x"), get=failure(404, "no")) as other:
            ports = [int(one.url.rpartition(":")[2]) for one in (server, other)]
            async with opened(tmp_path) as bench:
                page = await shown(bench, "ollama")
                page.ports = (UsualPort("LM Studio", ports[0], "lm-studio"), UsualPort("vLLM", ports[1], "vllm"))
                bench.click(page.view.find_here)
                await bench.until(lambda: page.findChild(QMenu, "found"))
                menu = page.findChild(QMenu, "found")
                assert isinstance(menu, QMenu)
                (action,) = [one for one in menu.actions() if not one.isSeparator()]
                assert action.text() == "tiny:1b"
                action.trigger()
                menu.close()
                dialog = await bench.dialog(NameDialog)
                assert dialog.field.text() == "lm-studio-tiny-1b"
                bench.click(button(dialog, "Create"))
                await bench.until(lambda: page.document is not None and page.document.name == "lm-studio-tiny-1b")
                profile = bench.engine.profiles.get("lm-studio-tiny-1b")
                assert (profile.model, profile.url) == ("tiny:1b", f"http://127.0.0.1:{ports[0]}/v1")

    run_qt(story())


def test_that_no_server_is_found_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            page = await shown(bench, "ollama")
            page.ports = ()
            bench.click(page.view.find_here)
            await bench.until(lambda: page.view.banners.banners)
            assert page.view.banners.banners[0].copied.startswith("No server answers")

    run_qt(story())
