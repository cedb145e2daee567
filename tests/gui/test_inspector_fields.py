"""Every field of the inspector: what it changes is one step of undo, comes back by redo, and is saved as it is."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from engine import flow_text, read_flow
from engine.flow.flow_check import check_flow
from tests.gui.test_agent_kinds import kinds
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, focusable, opened
from workbench.designer.fields import ChoiceField, Field, LineField, TextField, TickField
from workbench.designer.form_section import ExpressionField, FormSection
from workbench.designer.json_field import JsonField

pytestmark = pytest.mark.usefixtures("qapp")

TYPED = ("7", "other", "0.25", "a, b")


def in_window(path: Path, home: Path, story: Callable[[Workbench], Awaitable[None]]) -> None:
    async def live() -> None:
        async with opened(home, [path]) as bench:
            bench.tab.inspector.set_open({section.key: True for section in bench.tab.inspector._sections()})
            await story(bench)

    run_qt(live(), 120)


def everything(folder: Path) -> Path:
    """A flow that uses every list of an agent, so that the rows have fields."""
    return flow_file(
        folder / "all.flow.json",
        {
            "name": "Writer",
            "template": "Write about {{topic}}.",
            "model": {"category": "M", "overrides": {"topP": 0.5}},
            "handler": {
                "type": "tools",
                "then": {
                    "type": "json",
                    "prefix": "a_",
                    "schema": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
                },
            },
            "tools": ["calculator"],
            "few_shot": [{"user": "a", "assistant": "b"}],
            "before": [
                {"set": "n", "to": "1 + 1"},
                {"delete": "old", "when": "n > 1"},
                {"skip": "SKIP", "when": "n > 5"},
            ],
            "after": [{"set": "m", "to": "n"}],
            "merge": {"type": "join", "key": "t", "template": "{{a_x}}", "sort_by": "a_x"},
            "routes": [{"when": "n > 1", "to": "Critic", "graded": True}, {"to": None}],
        },
        {"name": "Critic", "template": "Judge this: {{a_x}}", "handler": {"type": "csv", "headings": ["id"]}},
        inputs=[{"key": "topic", "type": "choice", "choices": ["robots", "boats"], "default": "robots"}],
    )


def act(bench: Workbench, field: Field) -> bool:
    """Change a field by keyboard; False when nothing can be changed by it."""
    stop = field.stops()[0]
    stop.setFocus()
    if isinstance(field, TickField):
        QTest.keyClick(stop, Qt.Key.Key_Space)
    elif isinstance(field, ChoiceField):
        count = field.box.count()
        QTest.keyClick(stop, Qt.Key.Key_Down if field.box.currentIndex() < count - 1 else Qt.Key.Key_Up)
        return count > 1
    elif isinstance(field, JsonField):
        QTest.keySequence(stop, "Ctrl+A")
        QTest.keyClicks(stop, '{"type": "array"}')
    elif isinstance(field, TextField):
        typed = "1" if isinstance(field, ExpressionField) else "q"
        if "as JSON" in field.help_line:
            typed = '[{"name": "q"}]' if "objects" in field.help_line else '["q"]'
        QTest.keySequence(stop, "Ctrl+A")
        QTest.keyClicks(stop, typed)
        QTest.keySequence(stop, "Esc")
    elif isinstance(field, LineField):
        is_key = field.binding.whole_path.endswith((".set", ".key", ".name"))  # a number is no name in an expression
        tried = [text for text in TYPED if not (is_key and text[0].isdigit())]
        typed = next(text for text in tried if not field._fault(text) and text != field.line.text())
        QTest.keySequence(stop, "Ctrl+A")
        QTest.keyClicks(stop, typed)
        QTest.keyClick(stop, Qt.Key.Key_Return)
    return True


def sections(bench: Workbench) -> list[FormSection]:
    inspector = bench.tab.inspector
    form = inspector.agent_form if bench.tab.editor.selected() else inspector.flow_form
    return [section for section in form.sections if not section.isHidden()]


def fields(bench: Workbench) -> list[Field]:
    return [field for section in sections(bench) for field in section.all_fields() if field.isVisibleTo(section)]


def check_every_field(bench: Workbench) -> int:
    """Do, undo, redo, save; for each field of what is selected."""
    document, stack = bench.tab.document, bench.tab.editor.undo_stack
    before = flow_text(document.spec)
    done = 0
    for index in range(len(fields(bench))):
        field = fields(bench)[index]
        name = f"{field.binding.whole_path} ({field.stops()[0].accessibleName()})"
        if not act(bench, field):
            continue
        after = flow_text(document.spec)
        assert after != before, f"{name} changes nothing"
        assert stack.count() == 1, f"{name} makes {stack.count()} steps"
        assert read_flow(after).spec == document.spec, f"{name} is saved as something else"
        for problem in check_flow(document.spec):
            assert problem.path.startswith("$"), name
        stack.undo()
        assert flow_text(document.spec) == before, f"{name} is not undone"
        stack.redo()
        assert flow_text(document.spec) == after, f"{name} is not redone"
        stack.undo()
        done += 1
    return done


@pytest.mark.parametrize(("name", "least"), [("Writer", 40), ("Critic", 14), ("", 8)])
def test_each_field_is_one_step_that_is_undone_redone_and_saved(name: str, least: int, tmp_path: Path) -> None:
    async def story(bench: Workbench) -> None:
        bench.tab.editor.select([name] if name else [])
        assert check_every_field(bench) >= least

    in_window(everything(tmp_path), tmp_path / "home", story)


@pytest.mark.parametrize(("name", "least"), [("Chapter", 7), ("Judge", 12), ("Join", 8)])
def test_so_is_each_field_of_the_other_kinds(name: str, least: int, tmp_path: Path) -> None:
    async def story(bench: Workbench) -> None:
        bench.tab.editor.select([name])
        assert check_every_field(bench) >= least

    in_window(kinds(tmp_path), tmp_path / "home", story)


def test_several_agents_are_changed_in_one_step(tmp_path: Path) -> None:
    async def story(bench: Workbench) -> None:
        bench.tab.editor.select(["Writer", "Critic"])
        form = bench.tab.inspector.agent_form
        assert [section.key for section in sections(bench)] == ["model", "conversation", "response", "limits"]
        assert form.response.kind.box.currentText() == "several values"
        assert check_every_field(bench) >= 8
        bench.type_text(form.limits.timeout.line, "12")
        QTest.keyClick(form.limits.timeout.line, Qt.Key.Key_Return)
        assert [agent.timeout for agent in bench.tab.document.spec.agents] == [12.0, 12.0]
        assert bench.tab.editor.undo_stack.undoText() == "Change time limit of 2 agents"

    in_window(everything(tmp_path), tmp_path / "home", story)


def test_routes_are_added_ordered_and_removed_by_keyboard(tmp_path: Path) -> None:
    async def story(bench: Workbench) -> None:
        bench.tab.editor.select(["Writer"])
        routes = bench.tab.inspector.agent_form.routes

        def order() -> list[str | None]:
            agent = bench.tab.document.spec.agent("Writer")
            assert agent is not None
            return [route.when for route in agent.routes]

        routes.plus.setFocus()
        QTest.keyClick(routes.plus, Qt.Key.Key_Space)
        assert order() == ["n > 1", "true", None]
        field = routes.part.rows[1].fields[0]
        assert isinstance(field, ExpressionField)
        assert QApplication.focusWidget() is field.edit
        QTest.keySequence(field.edit, "Ctrl+A")
        QTest.keyClicks(field.edit, "a_x +* 2")
        assert field.edit.fault is not None
        assert (field.edit.fault.start, field.edit.fault.end) == (5, 6)
        assert field.note.text.startswith("Character 6: ")
        QTest.keySequence(field.edit, "Alt+Up")
        assert order() == ["a_x +* 2", "n > 1", None]
        grip = routes.part.list.rows[0].grip
        grip.setFocus()
        QTest.keyClick(grip, Qt.Key.Key_Delete)
        assert order() == ["n > 1", None]
        for _ in range(4):
            bench.trigger("undo")
        assert order() == ["n > 1", None]
        assert not bench.tab.document.is_modified

    in_window(everything(tmp_path), tmp_path / "home", story)


def test_a_route_is_dragged_by_its_number(tmp_path: Path) -> None:
    async def story(bench: Workbench) -> None:
        bench.tab.editor.select(["Writer"])
        await bench.settle()
        rows = bench.tab.inspector.agent_form.routes.part.list.rows
        grip, last = rows[0].grip, rows[1]
        start = grip.rect().center()
        below = grip.mapFromGlobal(last.mapToGlobal(last.rect().bottomLeft()))
        QTest.mousePress(grip, Qt.MouseButton.LeftButton, pos=start)
        QTest.mouseMove(grip, below)
        QTest.mouseRelease(grip, Qt.MouseButton.LeftButton, pos=below)
        agent = bench.tab.document.spec.agent("Writer")
        assert agent is not None
        assert [route.to for route in agent.routes] == [None, "Critic"]

    in_window(everything(tmp_path), tmp_path / "home", story)


def test_known_keys_are_completed_in_a_prompt(tmp_path: Path) -> None:
    async def story(bench: Workbench) -> None:
        bench.tab.editor.select(["Critic"])
        edit = bench.tab.inspector.agent_form.template
        assert edit.completion is not None
        edit.setFocus()
        QTest.keySequence(edit, "Ctrl+A")
        QTest.keyClicks(edit, "About {{to")
        popup = edit.completion.popup
        assert popup.isVisible()
        offered = [popup.model().index(row, 0).data() for row in range(popup.model().rowCount())]
        assert "topic" in offered
        QTest.keyClick(popup, Qt.Key.Key_Return)
        assert edit.toPlainText() == "About {{topic}}"
        assert not popup.isVisible()
        QTest.keyClicks(edit, " [[a_")
        QTest.keyClick(popup, Qt.Key.Key_Escape)
        assert not popup.isVisible()
        agent = bench.tab.document.spec.agent("Critic")
        assert agent is not None
        assert agent.template == "About {{topic}} [[a_"

    in_window(everything(tmp_path), tmp_path / "home", story)


def test_a_preview_shows_the_prompt_of_each_split(tmp_path: Path) -> None:
    path = flow_file(
        tmp_path / "split.flow.json",
        {"name": "Writer", "template": "Write about [[topic]].", "system_prompt": "You know {{count}} things."},
        inputs=[{"key": "topic", "type": "list", "default": ["robots", "boats"]}],
    )
    text = path.read_text("utf-8")
    assert '"template"' in text

    async def story(bench: Workbench) -> None:
        bench.tab.editor.select(["Writer"])
        prompt = bench.tab.inspector.agent_form.prompt
        bench.click(prompt.switch[1])
        view = prompt.view
        await bench.until(lambda: "robots" in view.text.toPlainText())
        assert view.place.text() == "1 / 2"
        assert "You know {{count}} things." in view.text.toPlainText()
        QTest.keyClick(view.forth, Qt.Key.Key_Space)
        assert "Write about boats." in view.text.toPlainText()
        assert not view.forth.isEnabled()
        bench.click(prompt.switch[0])
        assert prompt.template.edit.isVisible()

    in_window(path, tmp_path / "home", story)


def test_a_wrong_schema_waits_with_line_and_column(tmp_path: Path) -> None:
    async def story(bench: Workbench) -> None:
        bench.tab.editor.select(["Writer"])
        schema = bench.tab.inspector.agent_form.response.then_options["schema"]
        assert isinstance(schema, JsonField)
        bench.type_text(schema.edit, '{"type": "objekt"}')
        assert schema.note.text.startswith("Line 1, column 10: ")
        assert "object" in schema.note.text
        assert bench.tab.inspector.invalid_fields() == []
        bench.type_text(schema.edit, '{"type": ')
        assert schema.note.text.startswith("Line 1, column 10: ")
        assert [problem.path for problem in bench.tab.inspector.invalid_fields()] == ["$.agents[0].handler.then.schema"]
        bench.tab.editor.select(["Critic"])
        bench.tab.editor.select(["Writer"])
        assert schema.edit.toPlainText() == '{"type": '
        QTest.keySequence(schema.edit, "Ctrl+End")
        QTest.keyClicks(schema.edit, '"object"}')
        assert bench.tab.inspector.invalid_fields() == []

    in_window(everything(tmp_path), tmp_path / "home", story)


def test_a_key_that_is_renamed_takes_its_users_along(tmp_path: Path) -> None:
    path = flow_file(
        tmp_path / "keys.flow.json",
        {"name": "Writer", "template": "About {{topic}}", "handler": {"type": "text", "key": "draft"}},
        {"name": "Critic", "template": "Judge: {{draft}}"},
        inputs=[{"key": "topic", "type": "text"}],
    )

    async def story(bench: Workbench) -> None:
        bench.tab.editor.select(["Writer"])
        key = bench.tab.inspector.agent_form.response.options["key"]
        assert isinstance(key, LineField)
        bench.type_text(key.line, "text")
        QTest.keyClick(key.line, Qt.Key.Key_Return)
        assert [agent.template for agent in bench.tab.document.spec.agents] == ["About {{topic}}", "Judge: {{text}}"]
        bench.tab.editor.select([])
        declared = bench.tab.inspector.flow_form.declared.part.rows[0].fields[0]
        assert isinstance(declared, LineField)
        bench.type_text(declared.line, "theme")
        QTest.keyClick(declared.line, Qt.Key.Key_Return)
        assert bench.tab.document.spec.agents[0].template == "About {{theme}}"
        assert bench.tab.editor.undo_stack.count() == 2

    in_window(path, tmp_path / "home", story)


def test_a_node_opens_its_flow_in_a_tab(tmp_path: Path) -> None:
    async def story(bench: Workbench) -> None:
        bench.tab.editor.select(["Chapter"])
        opener = bench.tab.inspector.agent_form.node.open
        opener.setFocus()
        QTest.keyClick(opener, Qt.Key.Key_Space)
        await bench.until(lambda: bench.tab.document.title == "Release announcement")

    in_window(kinds(tmp_path), tmp_path / "home", story)


def test_sections_stay_folded_in_every_tab_and_at_the_next_start(tmp_path: Path) -> None:
    path = everything(tmp_path)

    async def fold() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.tab.editor.select(["Writer"])
            head = bench.tab.inspector.agent_form.routes.head
            head.setFocus()
            QTest.keyClick(head, Qt.Key.Key_Space)
            assert not bench.tab.inspector.agent_form.routes.is_open

    async def look() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.tab.editor.select(["Writer"])
            assert not bench.tab.inspector.agent_form.routes.is_open
            assert bench.tab.inspector.agent_form.prompt.is_open

    run_qt(fold(), 60)
    run_qt(look(), 60)


def test_everything_in_the_inspector_has_a_name(tmp_path: Path) -> None:
    def nameless(root: QWidget) -> list[str]:
        return [type(widget).__name__ for widget in focusable(root) if not widget.accessibleName()]

    async def story(bench: Workbench) -> None:
        inspector = bench.tab.inspector
        for names in (["Writer"], ["Critic"], ["Writer", "Critic"], []):
            bench.tab.editor.select(names)
            form = inspector.agent_form if names else inspector.flow_form
            assert nameless(form) == []

    in_window(everything(tmp_path), tmp_path / "home", story)
