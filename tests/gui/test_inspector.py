"""The inspector, typed into and clicked as a person does: every edit can be undone, and wrong values change nothing."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QMenu, QPlainTextEdit

from engine import load_flow
from engine.flow.flow_spec import AgentSpec, AgentType
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, focusable, opened
from workbench.designer.agent_form import AgentForm
from workbench.designer.form_head import Head
from workbench.designer.sections.model import override_value

pytestmark = pytest.mark.usefixtures("qapp")


def in_window(tmp_path: Path, story: Callable[[Workbench, AgentForm], Awaitable[None]]) -> None:
    """Open a flow of two agents with the first one selected by mouse, and live the story."""
    path = flow_file(
        tmp_path / "two.flow.json",
        {"name": "Writer", "template": "Write about {{topic}}.", "system_prompt": "You write."},
        {"name": "Critic", "template": "Judge this: {{response}}"},
        inputs=[{"key": "topic", "type": "text", "default": "robots"}],
    )

    async def live() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.click_agent("Writer")
            form = bench.tab.inspector.agent_form
            assert form.isVisible()
            await story(bench, form)

    run_qt(live(), 60)


def agent(bench: Workbench, name: str = "Writer") -> AgentSpec:
    found = bench.tab.document.spec.agent(name)
    assert found is not None
    return found


def undo_texts(bench: Workbench) -> list[str]:
    stack = bench.tab.editor.undo_stack
    return [stack.text(index) for index in range(stack.count())]


def test_a_click_on_a_card_shows_the_agent_and_on_the_canvas_the_flow(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        assert (form.name.text(), form.template.toPlainText()) == ("Writer", "Write about {{topic}}.")
        assert form.model.currentText() == "M  →  embedded-chat"
        bench.click_agent("Critic")
        assert (form.name.text(), form.system_prompt.toPlainText()) == ("Critic", "")
        view = bench.tab.editor.view
        bench.click(view, view.viewport().rect().topLeft() + view.viewport().rect().center() / 10)
        assert bench.tab.editor.selected() == ()
        assert bench.tab.inspector.flow_form.isVisible()
        bench.press("Ctrl+A")
        assert form.isVisible()
        assert form._head._title.text() == "2 agents"

    in_window(tmp_path, story)


def test_the_head_of_a_form_looks_the_same_from_the_first_time_on(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        def looks(head: Head) -> list[tuple[int, int]]:
            labels = (head._title, head._line, head._badge)
            return [(label.font().pixelSize(), label.font().weight().value) for label in labels]

        expected = [(15, 600), (12, 400), (11, 700)]
        assert looks(form._head) == expected
        assert looks(bench.tab.inspector.flow_form._head) == expected
        await bench.desk.documents.open("release-announcement")
        assert looks(bench.tab.inspector.flow_form._head) == expected
        bench.tab.editor.select(["CodeSummarizer"])
        assert looks(bench.tab.inspector.agent_form._head) == expected

    in_window(tmp_path, story)


def test_typing_a_prompt_is_one_step_of_undo_and_marks_the_document(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        tab = bench.tab
        bench.press("Ctrl+E")
        assert QApplication.focusWidget() is form.template
        QTest.keySequence(form.template, "Ctrl+End")
        QTest.keyClicks(form.template, " In two lines.")
        assert agent(bench).template == "Write about {{topic}}. In two lines."
        assert undo_texts(bench) == ["Edit prompt of Writer"]
        assert bench.window.tabs.tabText(0) == "Test flow •"
        assert bench.window.isWindowModified()
        bench.press("Ctrl+Z")
        assert agent(bench).template == "Write about {{topic}}."
        assert form.template.toPlainText() == "Write about {{topic}}."
        assert not tab.document.is_modified
        assert bench.window.tabs.tabText(0) == "Test flow"
        bench.press("Ctrl+Shift+Z")
        assert agent(bench).template == "Write about {{topic}}. In two lines."
        assert form.template.toPlainText() == "Write about {{topic}}. In two lines."

    in_window(tmp_path, story)


def test_edits_of_several_fields_are_steps_of_their_own(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        bench.type_text(form.system_prompt, "Be brief.")
        bench.type_text(form.template, "Go.")
        bench.click_agent("Critic")
        bench.type_text(form.template, "Judge.")
        assert undo_texts(bench) == ["Edit system prompt of Writer", "Edit prompt of Writer", "Edit prompt of Critic"]
        for _ in range(3):
            bench.trigger("undo")
        assert not bench.tab.document.is_modified
        assert not bench.window.actions_by_id["undo"].isEnabled()

    in_window(tmp_path, story)


def test_renaming_takes_routes_and_selection_along(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        bench.click_agent("Critic")
        bench.type_text(form.name, "Judge")
        QTest.keyClick(form.name, Qt.Key.Key_Return)
        spec = bench.tab.document.spec
        assert [one.name for one in spec.agents] == ["Writer", "Judge"]
        assert agent(bench).routes[0].to == "Judge"
        assert bench.tab.editor.selected() == ("Judge",)
        assert undo_texts(bench) == ["Rename Critic to Judge"]
        bench.trigger("undo")
        assert agent(bench).routes[0].to == "Critic"
        assert bench.tab.editor.selected() == ("Critic",)
        assert form.name.text() == "Critic"

    in_window(tmp_path, story)


@pytest.mark.parametrize(
    ("typed", "words"),
    [("Critic", "There is another agent named “Critic”."), ("  ", "An agent needs a name.")],
)
def test_a_name_that_cannot_be_is_refused_beside_the_field(typed: str, words: str, tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        bench.type_text(form.name, typed)
        QTest.keyClick(form.name, Qt.Key.Key_Return)
        assert words in form.name.fault
        assert form.name.note.isVisible()
        assert form.name.text() == typed
        assert form.name.property("invalid") == "true"
        assert not bench.tab.document.is_modified
        bench.type_text(form.name, "Author")
        QTest.keyClick(form.name, Qt.Key.Key_Tab)
        assert not form.name.note.isVisible()
        assert bench.tab.document.spec.start == "Author"

    in_window(tmp_path, story)


def test_a_temperature_is_set_kept_when_wrong_and_taken_back_when_empty(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        def overrides() -> dict[str, object]:
            model = agent(bench).model
            return {} if model is None else dict(model.overrides)

        bench.type_text(form.temperature, "0.7")
        QTest.keyClick(form.temperature, Qt.Key.Key_Return)
        assert overrides() == {"temperature": 0.7}
        bench.type_text(form.temperature, "hot")
        QTest.keyClick(form.temperature, Qt.Key.Key_Tab)
        assert overrides() == {"temperature": 0.7}
        assert form.temperature.fault == "Temperature: found “hot”, expected a number from 0 to 2."
        assert form.temperature.note.isVisible()
        assert form.temperature.property("invalid") == "true"
        bench.type_text(form.temperature, "1,5")
        QTest.keyClick(form.temperature, Qt.Key.Key_Tab)
        assert overrides() == {"temperature": 1.5}
        assert not form.temperature.note.isVisible()
        assert form.temperature.property("invalid") == "false"
        bench.type_text(form.max_tokens, "250")
        QTest.keyClick(form.max_tokens, Qt.Key.Key_Tab)
        assert overrides() == {"temperature": 1.5, "maxTokens": 250}
        bench.click(form.temperature)
        QTest.keySequence(form.temperature, "Ctrl+A")
        QTest.keyClick(form.temperature, Qt.Key.Key_Delete)
        QTest.keyClick(form.temperature, Qt.Key.Key_Tab)
        assert overrides() == {"maxTokens": 250}
        for _ in range(4):
            bench.trigger("undo")
        assert overrides() == {}
        assert (form.temperature.text(), form.max_tokens.text()) == ("", "")

    in_window(tmp_path, story)


def test_each_wrong_field_says_so_below_itself_until_it_is_corrected_or_taken_back(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        bench.type_text(form.temperature, "9,5abc")
        bench.type_text(form.max_tokens, "-4")
        QTest.keyClick(form.max_tokens, Qt.Key.Key_Tab)
        await bench.settle()
        for line, typed, name in ((form.temperature, "9,5abc", "Temperature"), (form.max_tokens, "-4", "Max tokens")):
            assert line.text() == typed
            assert line.property("invalid") == "true"
            assert line.fault.startswith(f"{name}: found “{typed}”, expected ")
            assert line.accessibleDescription() == line.fault
            assert line.note.isVisible()
            bottom = line.mapTo(form, line.rect().bottomLeft()).y()
            assert 0 < line.note.mapTo(form, line.note.rect().topLeft()).y() - bottom < 20
        assert {(one.agent, one.path) for one in bench.tab.inspector.invalid_fields()} == {
            ("Writer", "$.agents[0].model.overrides.temperature"),
            ("Writer", "$.agents[0].model.overrides.maxTokens"),
        }
        await bench.until(lambda: len(bench.tab.document.problems) == 2)
        bench.click(form.temperature)
        QTest.keyClick(form.temperature, Qt.Key.Key_Escape)
        assert (form.temperature.text(), form.temperature.note.isVisible()) == ("", False)
        assert bench.tab.editor.selected() == ("Writer",)
        bench.type_text(form.max_tokens, "40")
        QTest.keyClick(form.max_tokens, Qt.Key.Key_Tab)
        assert not form.max_tokens.note.isVisible()
        assert bench.tab.inspector.invalid_fields() == []
        await bench.until(lambda: not bench.tab.document.problems)

    in_window(tmp_path, story)


def test_a_wrong_value_waits_while_another_agent_is_chosen_and_renamed(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        bench.type_text(form.temperature, "hot")
        bench.type_text(form.name, "Author")
        bench.click_agent("Critic")
        assert form.temperature.text() == ""
        assert not form.temperature.note.isVisible()
        assert form.temperature.property("invalid") != "true"
        bench.click_agent("Author")
        assert form.temperature.text() == "hot"
        assert form.temperature.note.isVisible()
        assert undo_texts(bench) == ["Rename Writer to Author"]

    in_window(tmp_path, story)


def test_a_run_is_refused_while_a_field_has_a_wrong_value(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        bench.type_text(form.temperature, "hot")
        bench.click_agent("Critic")
        bench.press("F5")
        assert not bench.tab.is_running
        assert bench.tab.editor.selected() == ("Writer",)
        assert QApplication.focusWidget() is form.temperature
        assert form.temperature.text() == "hot"
        assert any("Writer: Temperature: found “hot”" in text for text in bench.banner_texts())

    in_window(tmp_path, story)


def test_nothing_is_saved_while_a_field_has_a_wrong_value(tmp_path: Path) -> None:
    path = tmp_path / "two.flow.json"

    async def story(bench: Workbench, form: AgentForm) -> None:
        bench.type_text(form.system_prompt, "Hello. ")
        bench.type_text(form.temperature, "hot")
        before = path.read_bytes()
        bench.press("Ctrl+S")
        assert path.read_bytes() == before
        assert bench.tab.document.is_modified
        assert any("The flow was not saved: " in text and "found “hot”" in text for text in bench.banner_texts())
        assert QApplication.focusWidget() is form.temperature
        bench.type_text(form.temperature, "0.5")
        bench.press("Ctrl+S")
        await bench.saved()
        saved = load_flow(path).spec.agents[0]
        assert saved.model is not None
        assert saved.model.overrides == {"temperature": 0.5}
        assert not bench.tab.document.is_modified

    in_window(tmp_path, story)


def test_what_is_being_typed_counts_when_the_flow_is_run(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        bench.type_text(form.max_tokens, "12")
        assert bench.tab.inspector.finish_editing()
        model = agent(bench).model
        assert model is not None
        assert model.overrides == {"maxTokens": 12}
        bench.type_text(form.max_tokens, "0")
        assert not bench.tab.inspector.finish_editing()
        assert model.overrides == {"maxTokens": 12}
        assert form.max_tokens.fault

    in_window(tmp_path, story)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("temperature", "0", 0),
        ("temperature", "2", 2),
        ("temperature", "2.1", None),
        ("temperature", "-0.1", None),
        ("temperature", "nan", None),
        ("temperature", "inf", None),
        ("temperature", "1e400", None),
        ("maxTokens", "1", 1),
        ("maxTokens", "0", None),
        ("maxTokens", "1.5", None),
        ("maxTokens", "9" * 5000, None),
        ("maxTokens", "²", None),
        ("maxTokens", "1,5", None),
        ("maxTokens", "-4", None),
        ("temperature", "9,5abc", None),
        ("temperature", "1,5", 1.5),
    ],
)
def test_typed_limits_are_checked(key: str, text: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match="expected"):
            override_value(key, text)
    else:
        assert override_value(key, text) == value


def test_model_and_conversation_are_chosen_by_keyboard(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        choose(form.model, "embedded-thinking")
        model = agent(bench).model
        assert model is not None
        assert (model.category, model.profile) == (None, "embedded-thinking")
        choose(form.type, "Start, with system prompt")
        assert agent(bench).type is AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT
        assert undo_texts(bench) == ["Change model of Writer", "Change conversation of Writer"]
        bench.trigger("undo")
        bench.trigger("undo")
        assert form.model.currentText() == "M  →  embedded-chat"
        assert form.type.currentText() == "Completion"

    in_window(tmp_path, story)


def choose(box: QComboBox, text: str) -> None:
    """Open a box by keyboard, walk to an entry and take it."""
    box.setFocus()
    box.showPopup()
    view = box.view()
    view.setCurrentIndex(box.model().index(box.findText(text), 0))
    QTest.keyClick(view, Qt.Key.Key_Return)


def test_a_model_that_is_not_there_stays_and_is_called_missing(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "gone.flow.json", {"name": "Writer", "template": "x", "model": {"profile": "gone"}})

    async def live() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.click_agent("Writer")
            assert bench.tab.inspector.agent_form.model.currentText() == "gone (missing)"
            bench.press("F5")
            assert not bench.tab.is_running
            await bench.until(lambda: any('the profile "gone"' in text for text in bench.banner_texts()))

    run_qt(live(), 60)


def test_tokens_of_the_prompt_are_counted_while_typing(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        await bench.until(lambda: "tok before values" in form.prompt.foot.text())
        before = form.prompt.foot.text()
        bench.type_text(form.template, "one two three four five six seven eight nine ten eleven twelve thirteen")
        await bench.until(lambda: "tok before values" in form.prompt.foot.text() and form.prompt.foot.text() != before)

    in_window(tmp_path, story)


def test_a_key_that_nobody_provides_is_underlined_and_listed(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        assert form.template.highlighter.known is not None
        assert "topic" in form.template.highlighter.known
        bench.type_text(form.template, "About {{tpoic}}")
        await bench.until(lambda: bench.tab.document.problems)
        problem = next(problem for problem in bench.tab.document.problems if "tpoic" in problem.message)
        assert problem.agent == "Writer"
        bench.trigger("check")
        assert bench.desk.overview.problems.isVisible()
        count = len(bench.tab.document.problems)
        assert bench.window.docks["problems"].windowTitle() == f"Problems  {count}"

    in_window(tmp_path, story)


def test_a_key_that_nobody_provides_is_mended_at_the_foot_of_the_prompt(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        problems = form.prompt.problems
        assert not problems.isVisible()
        bench.type_text(form.template, "About {{tpoic}} and {{tpoic}}")
        await bench.until(lambda: problems.isVisible() and problems.fix.isVisible())
        assert problems.count.text() == "1"
        assert problems.fix.toolTip() == "Correct tpoic to topic"
        problems.fix.setFocus()
        QTest.keyClick(problems.fix, Qt.Key.Key_Space)
        assert form.template.toPlainText() == "About {{topic}} and {{topic}}"
        assert undo_texts(bench)[-1] == "Correct tpoic to topic"
        await bench.until(lambda: not problems.isVisible())

        bench.type_text(form.template, "About {{zebras}}, {{tpoic}}")
        await bench.until(lambda: problems.count.text() == "2" and problems.isVisible())
        assert problems.fix.text() == "Fix…"
        bench.click(problems.fix)
        await bench.until(lambda: isinstance(QApplication.activePopupWidget(), QMenu))
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu)
        declare = next(one for one in menu.actions() if one.text() == "Declare the input zebras")
        declare.trigger()
        menu.close()
        assert [item.key for item in bench.tab.document.spec.inputs] == ["topic", "zebras"]
        await bench.until(lambda: problems.count.text() == "1")

    in_window(tmp_path, story)


def test_flow_name_description_and_inputs_are_edited(tmp_path: Path) -> None:
    async def story(bench: Workbench, _form: AgentForm) -> None:
        bench.trigger("select_none")
        flow = bench.tab.inspector.flow_form
        bench.type_text(flow.name, "Better name")
        bench.type_text(flow.description, "What it does.")
        spec = bench.tab.document.spec
        assert (spec.name, spec.description) == ("Better name", "What it does.")
        assert bench.window.windowTitle().startswith("Better name")
        assert undo_texts(bench) == ["Rename flow", "Edit description"]
        field = flow.fields._fields["topic"]
        assert isinstance(field, QLineEdit | QPlainTextEdit)
        bench.type_text(field, "boats")
        assert undo_texts(bench) == ["Rename flow", "Edit description"]
        assert bench.settings.inputs(bench.tab.source) == {"topic": "boats"}
        bench.press("Ctrl+S")
        await bench.saved()
        assert load_flow(bench.tab.source).spec.name == "Better name"

    in_window(tmp_path, story)


def test_tab_walks_through_the_form_from_top_to_bottom(tmp_path: Path) -> None:
    async def story(bench: Workbench, form: AgentForm) -> None:
        form.name.setFocus()
        order = []
        for _ in range(30):
            here = QApplication.focusWidget()
            assert here is not None
            if not form.isAncestorOf(here):
                break
            order.append(here)
            QTest.keyClick(here, Qt.Key.Key_Tab)
        fields = [
            form.name,
            form.model,
            form.temperature,
            form.max_tokens,
            form.type,
            form.system_prompt,
            form.template,
        ]
        assert [widget for widget in order if widget in fields] == fields
        # The button that removes a row stands at its top and comes last.
        downward = [widget for widget in order if not widget.accessibleName().startswith("Remove ")]
        heights = [widget.mapTo(form, widget.rect().topLeft()).y() for widget in downward]
        assert heights == sorted(heights)
        assert all(widget.accessibleName() for widget in focusable(form))

    in_window(tmp_path, story)
