"""Opening, saving, closing and recovering flows in the window; broken files and profiles beside good ones."""

import json
import os
import threading
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QLineEdit, QMenu

from engine import FlowSpec, LoadedFlow, load_flow, save_flow
from engine.folders import Folders
from engine.recovery_files import RecoveryFiles
from tests.helpers.fake_server import FakeServer, chat
from tests.helpers.model_answers import flow_file, write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, choose_file, find_button, opened
from workbench.designer.edits import change_agent
from workbench.documents import slug
from workbench.flow_source import read_source
from workbench.profiles.page import ProfilesPage
from workbench.run_panel.input_form import InputForm

pytestmark = pytest.mark.usefixtures("qapp")


def one_agent(folder: Path, name: str = "one") -> Path:
    return flow_file(folder / f"{name}.flow.json", {"name": "Writer", "template": "Write a line."}, name=name.title())


def edit(bench: Workbench, text: str) -> None:
    """Change the prompt of the first agent by typing."""
    bench.tab.editor.select([bench.tab.document.spec.agents[0].name])
    bench.type_text(bench.tab.inspector.agent_form.template, text)


def prompt(bench: Workbench) -> str:
    return bench.tab.document.spec.agents[0].template


# -- opening ----------------------------------------------------------------------------------------------------------


def test_the_first_start_shows_the_first_sample(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            assert [tab.document.title for tab in bench.desk.documents.tabs] == ["Release announcement"]
            assert bench.tab.document.path is None
            assert bench.tab.document.problems == ()
            assert bench.window.run_hint.text() == "4 agents"
            assert bench.banner_texts() == []

    run_qt(story(), 60)


def test_flows_are_opened_by_dialog_and_come_back_at_the_next_start(tmp_path: Path) -> None:
    first, second = one_agent(tmp_path, "first"), one_agent(tmp_path, "second")

    async def story() -> None:
        async with opened(tmp_path / "home", [first]) as bench:
            bench.press("Ctrl+O")
            await choose_file(bench, second)
            await bench.until(lambda: len(bench.desk.documents.tabs) == 2)
            assert bench.tab.document.title == "Second"
            await bench.desk.documents.open(str(first))
            assert bench.tab.document.title == "First"
            assert len(bench.desk.documents.tabs) == 2
            bench.desk.leave()
        async with opened(tmp_path / "home") as bench:
            assert [tab.document.title for tab in bench.desk.documents.tabs] == ["First", "Second"]
            assert bench.settings.recent == [str(second), str(first)]

    run_qt(story(), 60)


def test_a_broken_flow_is_told_and_the_window_opens_with_the_others(tmp_path: Path) -> None:
    broken = tmp_path / "broken.flow.json"
    document = json.loads(one_agent(tmp_path).read_text("utf-8"))
    document["agents"][0]["template"] = 7
    broken.write_text(json.dumps(document, indent=2), "utf-8")
    torn = tmp_path / "torn.flow.json"
    torn.write_text('{\n "format": "workbench.flow",\n "version": 1,\n "agents": [\n', "utf-8")

    async def story() -> None:
        async with opened(tmp_path / "home", [broken, torn, tmp_path / "one.flow.json"]) as bench:
            assert bench.tab.document.title == "One"
            await bench.until(lambda: len(bench.banners) == 2)
            first, second = bench.banner_texts()
            assert "broken.flow.json, $.agents[0].template: found 7, expected" in first
            assert "torn.flow.json:5:1: expecting value, found the end of the file" in second
            before = bench.tab
            assert await bench.desk.documents.open(str(broken)) is None
            assert bench.tab is before
            await bench.until(lambda: bench.banner_texts() == [second, first])

    run_qt(story(), 60)


def test_with_only_a_broken_flow_the_window_stays_empty_and_offers_a_start(tmp_path: Path) -> None:
    broken = tmp_path / "broken.flow.json"
    broken.write_text("no flow", "utf-8")

    async def story() -> None:
        async with opened(tmp_path / "home", [broken]) as bench:
            await bench.until(lambda: bench.banners)
            assert bench.desk.documents.tabs == []
            assert button(bench.window.welcome, "Open a sample").isVisible()
            assert not bench.window.actions_by_id["run"].isEnabled()
            bench.press("F5")

    run_qt(story(), 60)


def test_fields_the_format_does_not_know_are_told_and_kept(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "new.flow.json", {"name": "Writer", "template": "x", "colour": "red"})

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            await bench.until(lambda: any("colour" in text for text in bench.banner_texts()))
            edit(bench, "Better.")
            bench.press("Ctrl+S")
            await bench.saved()
            written = json.loads(path.read_text("utf-8"))
            assert (written["agents"][0]["colour"], written["agents"][0]["template"]) == ("red", "Better.")

    run_qt(story(), 60)


# -- saving -----------------------------------------------------------------------------------------------------------


def test_saving_writes_the_file_and_clears_the_mark(tmp_path: Path) -> None:
    path = one_agent(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            edit(bench, "Write two lines.")
            assert bench.window.tabs.tabText(0) == "One •"
            bench.press("Ctrl+S")
            await bench.saved()
            assert load_flow(path).spec.agents[0].template == "Write two lines."
            assert bench.window.tabs.tabText(0) == "One"
            assert not bench.window.isWindowModified()
            bench.trigger("undo")
            assert bench.window.tabs.tabText(0) == "One •"
            bench.trigger("redo")
            assert bench.window.tabs.tabText(0) == "One"
            assert [file.name for file in tmp_path.glob("*one*")] == ["one.flow.json"]

    run_qt(story(), 60)


def test_saving_a_sample_asks_for_a_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            edit(bench, "Sum up {{code}}.")
            bench.press("Ctrl+S")
            dialog = await bench.dialog(QFileDialog)
            field = dialog.findChild(QLineEdit, "fileNameEdit")
            assert field is not None
            assert field.text() == "release-announcement.flow.json"
            await choose_file(bench, tmp_path / "mine.flow.json")
            await bench.until(lambda: bench.tab.document.path is not None)
            await bench.saved()
            assert not bench.tab.document.is_modified
            assert bench.tab.document.path == tmp_path / "mine.flow.json"
            assert bench.tab.source == str(tmp_path / "mine.flow.json")
            edit(bench, "Sum up {{code}} again.")
            bench.press("Ctrl+S")
            await bench.saved()
            assert load_flow(tmp_path / "mine.flow.json").spec.agents[0].template == "Sum up {{code}} again."

    run_qt(story(), 60)


def test_a_save_that_fails_leaves_the_old_file_the_mark_and_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = one_agent(tmp_path)
    before = path.read_bytes()

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            edit(bench, "Write two lines.")
            with monkeypatch.context() as broken:
                broken.setattr(os, "replace", no_room)
                bench.press("Ctrl+S")
                await bench.until(lambda: bench.banners)
            assert "No space left on device" in bench.banner_texts()[0]
            assert str(path) in bench.banner_texts()[0]
            assert path.read_bytes() == before
            assert [file.name for file in tmp_path.iterdir() if "one" in file.name] == ["one.flow.json"]
            assert bench.tab.document.is_modified
            assert bench.window.tabs.tabText(0) == "One •"
            bench.click(button(bench.banners[0], "Save as…"))
            await choose_file(bench, tmp_path / "other.flow.json")
            await bench.until(lambda: not bench.tab.document.is_modified)
            assert load_flow(tmp_path / "other.flow.json").spec.agents[0].template == "Write two lines."

    run_qt(story(), 60)


def test_a_file_that_others_changed_is_not_overwritten_unasked(tmp_path: Path) -> None:
    path = one_agent(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            edit(bench, "Mine.")
            theirs = path.read_text("utf-8").replace("Write a line.", "Theirs.")
            path.write_text(theirs, "utf-8")
            bench.press("Ctrl+S")
            await bench.until(lambda: bench.banners)
            assert "was changed on disk" in bench.banner_texts()[0]
            assert path.read_text("utf-8") == theirs
            assert bench.tab.document.is_modified
            bench.click(button(bench.banners[0], "Overwrite"))
            await bench.saved()
            assert load_flow(path).spec.agents[0].template == "Mine."

    run_qt(story(), 60)


def test_a_file_that_others_changed_can_be_reloaded_and_the_own_version_comes_back_by_undo(tmp_path: Path) -> None:
    path = one_agent(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            edit(bench, "Mine.")
            path.write_text(path.read_text("utf-8").replace("Write a line.", "Theirs."), "utf-8")
            bench.press("Ctrl+S")
            await bench.until(lambda: bench.banners)
            bench.click(button(bench.banners[0], "Reload"))
            await bench.until(lambda: prompt(bench) != "Mine.")
            assert prompt(bench) == "Theirs."
            assert not bench.tab.document.is_modified
            assert bench.window.tabs.tabText(0) == "One"
            bench.trigger("undo")
            assert prompt(bench) == "Mine."
            assert bench.window.tabs.tabText(0) == "One •"
            bench.press("Ctrl+S")
            await bench.saved()
            assert load_flow(path).spec.agents[0].template == "Mine."

    run_qt(story(), 60)


def test_a_disk_that_hangs_holds_neither_the_window_nor_the_next_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = one_agent(tmp_path), one_agent(tmp_path, "other")
    free = threading.Event()
    waiting = threading.Event()

    def slow_save(spec: FlowSpec, target: Path) -> str:
        waiting.set()
        assert free.wait(60)
        return save_flow(spec, target)

    def slow_load(name: str) -> LoadedFlow:
        waiting.set()
        assert free.wait(60)
        return read_source(name)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            edit(bench, "First.")
            monkeypatch.setattr("workbench.designer.flow_document.save_flow", slow_save)
            monkeypatch.setattr("workbench.documents.read_source", slow_load)
            bench.press("Ctrl+S")
            await bench.until(waiting.is_set)
            edit(bench, "Second.")  # the window takes it while the disk hangs
            bench.press("Ctrl+S")
            waiting.clear()
            bench.desk.documents.open_soon(str(other))
            await bench.until(waiting.is_set)
            assert bench.window.tabs.tabText(0) == "One •"
            assert load_flow(path).spec.agents[0].template == "Write a line."
            free.set()
            await bench.until(lambda: len(bench.desk.documents.tabs) == 2)
            await bench.until(lambda: bench.window.tabs.tabText(0) == "One")
            assert load_flow(path).spec.agents[0].template == "Second."
            assert bench.banner_texts() == []

    run_qt(story(), 60)


def test_what_is_edited_while_a_save_is_on_its_way_stays_unsaved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = one_agent(tmp_path)
    free = threading.Event()

    def slow_save(spec: FlowSpec, target: Path) -> str:
        assert free.wait(60)
        return save_flow(spec, target)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            monkeypatch.setattr("workbench.designer.flow_document.save_flow", slow_save)
            edit(bench, "First.")
            bench.press("Ctrl+S")
            edit(bench, "Second.")
            free.set()
            await bench.until(lambda: load_flow(path).spec.agents[0].template == "First.")
            await bench.until(lambda: RecoveryFiles(bench.folders.recovery).found())
            assert "Second." in RecoveryFiles(bench.folders.recovery).found()[0].text
            assert bench.window.tabs.tabText(0) == "One •"
            bench.trigger("undo")
            assert prompt(bench) == "First."
            assert bench.window.tabs.tabText(0) == "One"

    run_qt(story(), 60)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Release announcement", "release-announcement"),
        ("../../etc/passwd", "etc-passwd"),
        ("测试", "flow"),
        ("", "flow"),
    ],
)
def test_file_names_are_made_of_titles_safely(title: str, name: str) -> None:
    assert slug(title) == name
    assert len(slug("long " * 100)) <= 60


def test_a_version_saved_before_is_restored_as_a_step_of_undo(tmp_path: Path) -> None:
    path = one_agent(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            menu = bench.window.actions_by_id["restore_version"].menu()
            assert isinstance(menu, QMenu)
            menu.aboutToShow.emit()
            assert [action.isEnabled() for action in menu.actions()] == [False]
            for text in ("First.", "Second."):
                edit(bench, text)
                bench.press("Ctrl+S")
                await bench.saved()
            menu.aboutToShow.emit()
            newest, oldest = menu.actions()
            oldest.trigger()
            await bench.until(lambda: prompt(bench) == "Write a line.")
            assert bench.window.tabs.tabText(0) == "One •"
            assert load_flow(path).spec.agents[0].template == "Second."
            newest.trigger()
            await bench.until(lambda: prompt(bench) == "First.")
            bench.trigger("undo")
            bench.trigger("undo")
            assert prompt(bench) == "Second."
            assert bench.window.tabs.tabText(0) == "One"

    run_qt(story(), 60)


# -- closing ----------------------------------------------------------------------------------------------------------


def test_closing_a_changed_flow_asks_and_every_answer_holds(tmp_path: Path) -> None:
    path = one_agent(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            edit(bench, "Write two lines.")
            bench.press("Ctrl+W")
            assert await bench.answer("Cancel") == "One has changes that are not saved."
            await bench.settle()
            assert bench.tab.document.is_modified
            bench.press("Ctrl+W")
            await bench.answer("Close without saving")
            await bench.until(lambda: not bench.desk.documents.tabs)
            assert load_flow(path).spec.agents[0].template == "Write a line."
            await bench.until(lambda: not RecoveryFiles(bench.folders.recovery).found())
            await bench.desk.documents.open(str(path))
            edit(bench, "Write three lines.")
            bench.click(button(bench.window.tabs.tabBar(), "Close One •"))
            await bench.answer("Save and close")
            await bench.until(lambda: not bench.desk.documents.tabs)
            assert load_flow(path).spec.agents[0].template == "Write three lines."

    run_qt(story(), 60)


def test_closing_the_window_with_changes_asks_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home", [one_agent(tmp_path), one_agent(tmp_path, "two")]) as bench:
            edit(bench, "Changed.")
            bench.press("Ctrl+Q")
            assert await bench.answer("Cancel") == "Two has changes that are not saved."
            await bench.settle()
            assert not bench.quits
            bench.press("Ctrl+Q")
            await bench.answer("Save and close")
            await bench.until(lambda: bench.quits == [True])
            assert load_flow(tmp_path / "two.flow.json").spec.agents[0].template == "Changed."

    run_qt(story(), 60)


# -- recovery ---------------------------------------------------------------------------------------------------------


async def crash_with_edit(home: Path, documents: list[Path], text: str) -> None:
    """Edit, wait until the change is kept, and end without leaving: the recovery file stays as after a crash."""
    async with opened(home, documents) as bench:
        edit(bench, text)
        await bench.until(lambda: RecoveryFiles(bench.folders.recovery).found())


@pytest.mark.parametrize("own_file", [True, False], ids=["of a file", "of a sample"])
def test_an_unsaved_version_is_offered_at_the_next_start_and_opens_undoable(own_file: bool, tmp_path: Path) -> None:
    documents = [one_agent(tmp_path)] if own_file else []

    async def story() -> None:
        await crash_with_edit(tmp_path / "home", documents, "Not saved.")
        async with opened(tmp_path / "home", documents) as bench:
            await bench.until(lambda: bench.banners)
            name = "one.flow.json" if own_file else "release-announcement"
            assert bench.banners[0].title().startswith(f"An unsaved version of {name} from ")
            before = prompt(bench)
            assert before != "Not saved."
            offer = bench.banner_texts()[0].splitlines()
            assert offer[1].endswith("The details show the difference to the saved version.")
            assert offer[-1].startswith('+ "template": "Not saved."')
            assert any(line.startswith('- "template": ') for line in offer[2:])
            bench.click(button(bench.banners[0], "Open it"))
            await bench.until(lambda: prompt(bench) == "Not saved.")
            assert prompt(bench) == "Not saved."
            assert bench.tab.document.is_modified
            assert len(bench.desk.documents.tabs) == 1
            bench.trigger("undo")
            assert prompt(bench) == before
            bench.trigger("redo")
            assert prompt(bench) == "Not saved."

    run_qt(story(), 60)


def test_an_offer_tells_that_the_file_was_changed_meanwhile_or_is_the_same(tmp_path: Path) -> None:
    path = one_agent(tmp_path)
    saved = path.read_text("utf-8")

    async def story() -> None:
        await crash_with_edit(tmp_path / "home", [path], "Not saved.")
        for text, told in (("Theirs.", "changed meanwhile"), ("Not saved.", "the same as the saved version")):
            path.write_text(saved.replace("Write a line.", text), "utf-8")
            async with opened(tmp_path / "home", [path]) as bench:
                await bench.until(lambda: bench.banners)
                assert told in bench.banner_texts()[0].splitlines()[1]
                assert ('- "template": "Theirs."' in bench.banner_texts()[0]) is (text == "Theirs.")

    run_qt(story(), 60)


def test_an_unsaved_version_can_be_discarded(tmp_path: Path) -> None:
    documents = [one_agent(tmp_path)]

    async def story() -> None:
        await crash_with_edit(tmp_path / "home", documents, "Not saved.")
        async with opened(tmp_path / "home", documents) as bench:
            await bench.until(lambda: bench.banners)
            bench.click(button(bench.banners[0], "Discard"))
            await bench.until(lambda: not RecoveryFiles(bench.folders.recovery).found())
        async with opened(tmp_path / "home", documents) as bench:
            await bench.settle()
            assert bench.banner_texts() == []

    run_qt(story(), 60)


def test_an_unsaved_version_nobody_decided_about_is_offered_again_whatever_is_edited_meanwhile(tmp_path: Path) -> None:
    documents = [one_agent(tmp_path)]

    async def story() -> None:
        await crash_with_edit(tmp_path / "home", documents, "Not saved.")
        async with opened(tmp_path / "home", documents) as bench:
            edit(bench, "Something else.")
            bench.press("Ctrl+S")
            await bench.saved()
            assert not bench.tab.document.is_modified
        async with opened(tmp_path / "home", documents) as bench:
            await bench.until(lambda: bench.banners)
            assert prompt(bench) == "Something else."
            bench.click(button(bench.banners[0], "Open it"))
            await bench.until(lambda: prompt(bench) == "Not saved.")
            assert prompt(bench) == "Not saved."
            bench.press("Ctrl+S")
            await bench.saved()
        async with opened(tmp_path / "home", documents) as bench:
            await bench.settle()
            assert bench.banner_texts() == []

    run_qt(story(), 60)


def test_the_version_of_a_file_that_is_gone_opens_as_a_new_document(tmp_path: Path) -> None:
    path = one_agent(tmp_path)

    async def story() -> None:
        await crash_with_edit(tmp_path / "home", [path], "Not saved.")
        path.unlink()
        async with opened(tmp_path / "home") as bench:
            await bench.until(lambda: find_button(bench.window, "Open it"))
            offer = next(banner for banner in bench.banners if find_button(banner, "Open it"))
            assert "no saved version to compare it with" in offer.copied
            bench.click(button(offer, "Open it"))
            await bench.until(lambda: bench.desk.documents.current and prompt(bench) == "Not saved.")
            assert prompt(bench) == "Not saved."
            assert bench.tab.document.is_modified

    run_qt(story(), 60)


def test_a_damaged_recovery_file_does_not_stop_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        await crash_with_edit(tmp_path / "home", [], "Not saved.")
        (kept,) = (tmp_path / "home" / "recovery").glob("*.recovery")
        kept.write_bytes(kept.read_bytes()[:-9])
        async with opened(tmp_path / "home") as bench:
            await bench.settle()
            assert bench.tab.document.title == "Release announcement"
            assert bench.banner_texts() == []

    run_qt(story(), 60)


def test_the_first_run_card_makes_room_for_who_begins_to_edit(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home", ["release-announcement"]) as bench:
            editor = bench.tab.editor
            assert editor._first_run.isVisible()
            editor.edit("Note", change_agent(editor.document.spec, "FeatureAnalyzer", notes="Slow."))
            assert not editor._first_run.isVisible()

    run_qt(story(), 60)


# -- profiles ---------------------------------------------------------------------------------------------------------


def test_a_broken_profile_is_listed_with_its_problems_and_keeps_only_its_own_flow_from_running(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "home")

    async def story() -> None:
        with FakeServer(chat("fine")) as server:
            write_profile(folders, "good", server.url, category="M")
            write_profile(folders, "bad", server.url, temperature="hot", maxTokens="-5")
            good = one_agent(tmp_path, "good")
            needs_bad = {"name": "Writer", "template": "x", "model": {"profile": "bad"}}
            bad = flow_file(tmp_path / "bad.flow.json", {"name": "First", "template": "x"}, needs_bad, name="Bad")
            async with opened(tmp_path / "home", [bad, good]) as bench:
                items = {item.id: item for item in bench.desk.overview.explorer.items("profile")}
                assert items["good"].icon == "profile"
                assert items["bad"].icon == "warning"
                assert "temperature" in items["bad"].tip
                bench.desk.overview.open_item(items["bad"])
                page = bench.desk.pages.current
                assert isinstance(page, ProfilesPage)
                rows = page.view.form.rows
                await bench.until(lambda: 'found "hot", expected a number' in rows["temperature"].note.text)
                assert 'found "-5", expected a whole number' in rows["maxTokens"].note.text
                bench.window.tabs.setCurrentIndex(0)
                bench.desk.documents.open_soon(str(good))
                await bench.until(lambda: bench.desk.documents.current is not None)
                await bench.until(lambda: bench.tab.source == str(good))
                assert await bench.run_to_end() == "finished"
                await bench.desk.documents.open(str(bad))
                assert bench.window.run_hint.text() == "3 errors keep this flow from running"
                bench.press("F5")
                assert not bench.tab.is_running
                await bench.until(lambda: "The flow cannot run" in bench.banner_texts()[-1])
                assert '"Writer" cannot run. Profile bad cannot be used' in bench.banner_texts()[-1]
                assert len(server.requests) == 1

    run_qt(story(), 60)


def test_a_profile_that_was_mended_serves_after_reloading(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "home")

    async def story() -> None:
        with FakeServer(chat("fine")) as server:
            write_profile(folders, "mine", server.url, category="M", temperature="hot")
            async with opened(tmp_path / "home", [one_agent(tmp_path)]) as bench:
                assert bench.tab.document.problems
                write_profile(folders, "mine", server.url)
                bench.trigger("reload_profiles")
                assert bench.tab.document.problems == ()
                assert await bench.run_to_end() == "finished"

    run_qt(story(), 60)


def test_inputs_are_kept_for_each_flow(tmp_path: Path) -> None:
    inputs = [{"key": "topic", "type": "text", "default": "robots"}]
    path = flow_file(tmp_path / "in.flow.json", {"name": "Writer", "template": "{{topic}}"}, inputs=inputs)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.press("Ctrl+I")
            form = await bench.dialog(InputForm)
            bench.type_text(form._fields._fields["topic"], "boats")
            bench.click(button(form, "Keep"))
            await bench.settle()
            assert not bench.tab.is_running
            assert bench.tab.inspector.flow_form.texts() == {"topic": "boats"}
        async with opened(tmp_path / "home", [path]) as bench:
            assert bench.tab.inspector.flow_form.texts() == {"topic": "boats"}

    run_qt(story(), 60)
