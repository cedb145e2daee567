"""Keys renamed in the inspector, wherever they are made, take along what uses them, as one step."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine import flow_text
from engine.flow.flow_spec import AgentSpec
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened
from workbench.designer.agent_form import AgentForm
from workbench.designer.fields import Field, LineField

pytestmark = pytest.mark.usefixtures("qapp")

SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def flow(folder: Path) -> Path:
    """Each agent makes keys in another way; the last one reads them all."""
    return flow_file(
        folder / "keys.flow.json",
        {
            "name": "Setter",
            "template": "x",
            "before": [{"set": "tone", "to": "'dry'"}, {"delete": "old"}],
            "after": [{"set": "seen", "to": "1"}, {"set": "seen", "to": "2"}],
            "routes": [{"to": "Table"}],
        },
        {
            "name": "Table",
            "template": "x",
            "handler": {"type": "csv", "prefix": "t_", "headings": ["id", "title"]},
            "routes": [{"to": "Object"}],
        },
        {
            "name": "Object",
            "template": "[[t_id]]",
            "handler": {"type": "json", "prefix": "o_", "schema": SCHEMA},
            "merge": {"type": "join", "key": "joined", "template": "{{o_score}}"},
            "routes": [{"to": "Voter"}],
        },
        {
            "name": "Voter",
            "template": "[[t_title]]",
            "handler": {"type": "text", "key": "mood"},
            "merge": {"type": "vote", "key": "mood"},
            "routes": [{"to": "Reader"}],
        },
        {
            "name": "Reader",
            "template": "{{tone}} {{seen}} {{t_id}} {{t_title}} {{o_score}} {{joined}} {{mood}}",
            "after": [{"set": "last", "to": "o_score"}],
            "routes": [{"when": "o_score > 3", "to": None}, {"to": None}],
        },
    )


def before_row(row: int) -> Callable[[AgentForm], Field]:
    return lambda form: form.operations.parts[0].rows[row].fields[1]


CASES: dict[str, tuple[str, Callable[[AgentForm], Field], str, str, str]] = {
    "operation": ("Setter", before_row(0), "manner", "{{tone}}", "{{manner}}"),
    "heading": ("Table", lambda form: form.response.options["headings"], "number, title", "{{t_id}}", "{{t_number}}"),
    "schema": ("Object", lambda form: form.response.table.rows[0].fields[0], "points", "{{o_score}}", "{{o_points}}"),
    "join": ("Object", lambda form: form.merge.options["key"], "all_of_it", "{{joined}}", "{{all_of_it}}"),
    "vote": ("Voter", lambda form: form.merge.options["key"], "feeling", "{{mood}}", "{{feeling}}"),
}
"""Agent, field, what is typed, and how the prompt of the reader follows."""


def agent(bench: Workbench, name: str) -> AgentSpec:
    found = bench.tab.document.spec.agent(name)
    assert found is not None
    return found


def type_into(bench: Workbench, name: str, find: Callable[[AgentForm], Field], text: str) -> LineField:
    bench.tab.editor.select([name])
    field = find(bench.tab.inspector.agent_form)
    assert isinstance(field, LineField)
    field.line.setFocus()
    QTest.keySequence(field.line, "Ctrl+A")
    QTest.keyClicks(field.line, text)
    QTest.keyClick(field.line, Qt.Key.Key_Return)
    return field


def in_window(path: Path, story: Callable[[Workbench], None]) -> None:
    async def live() -> None:
        async with opened(path.parent / "home", [path]) as bench:
            bench.tab.inspector.set_open({section.key: True for section in bench.tab.inspector._sections()})
            story(bench)

    run_qt(live(), 60)


def test_each_way_to_make_a_key_renames_it_everywhere_in_one_step(tmp_path: Path) -> None:
    def story(bench: Workbench) -> None:
        before = flow_text(bench.tab.document.spec)
        for case, (name, find, typed, old, new) in CASES.items():
            template = agent(bench, "Reader").template
            type_into(bench, name, find, typed)
            assert agent(bench, "Reader").template == template.replace(old, new), case
            assert bench.tab.editor.undo_stack.count() == 1, case
            if case == "schema":
                assert agent(bench, "Reader").routes[0].when == "o_points > 3"
                assert agent(bench, "Reader").after[0].to == "o_points"
                merge = agent(bench, "Object").merge
                assert merge is not None
                assert merge.template == "{{o_points}}"
            if case == "vote":
                handler = agent(bench, "Voter").handler
                assert handler is not None
                assert handler.key == "feeling"
            bench.tab.editor.undo_stack.undo()
            assert flow_text(bench.tab.document.spec) == before, case

    in_window(flow(tmp_path), story)


def test_where_another_key_is_meant_only_the_field_changes(tmp_path: Path) -> None:
    def story(bench: Workbench) -> None:
        template = agent(bench, "Reader").template
        type_into(bench, "Voter", CASES["vote"][1], "tone")  # there is such a key: it is voted on instead
        type_into(bench, "Setter", lambda form: form.operations.parts[1].rows[0].fields[1], "noticed")  # set twice
        type_into(bench, "Setter", before_row(1), "tone")  # deletes another key
        type_into(bench, "Table", CASES["heading"][1], "title, id")  # two headings changed: another order
        assert agent(bench, "Reader").template == template
        merge, handler = agent(bench, "Voter").merge, agent(bench, "Table").handler
        assert merge is not None
        assert handler is not None
        assert (merge.key, handler.headings) == ("tone", ("title", "id"))
        assert [one.set for one in agent(bench, "Setter").after] == ["noticed", "seen"]
        assert agent(bench, "Setter").before[1].delete == "tone"

    in_window(flow(tmp_path), story)


def test_a_name_that_an_expression_cannot_hold_is_refused_at_the_field(tmp_path: Path) -> None:
    def story(bench: Workbench) -> None:
        before = flow_text(bench.tab.document.spec)
        field = type_into(bench, "Object", CASES["schema"][1], "two words")
        assert "is used in an expression" in field.line.note.text
        assert flow_text(bench.tab.document.spec) == before

    in_window(flow(tmp_path), story)


def test_what_a_node_gives_back_is_renamed_with_its_users(tmp_path: Path) -> None:
    flow_file(tmp_path / "inner.flow.json", {"name": "Inner", "template": "Say."})
    path = flow_file(
        tmp_path / "outer.flow.json",
        {"name": "Node", "flow": "inner.flow.json", "outputs": {"text": "response"}, "routes": [{"to": "Reader"}]},
        {"name": "Reader", "template": "{{text}}"},
    )

    def story(bench: Workbench) -> None:
        type_into(bench, "Node", lambda form: form.node.outputs.rows[0].fields[0], "chapter")
        assert agent(bench, "Node").outputs == {"chapter": "response"}
        assert agent(bench, "Reader").template == "{{chapter}}"
        assert bench.tab.editor.undo_stack.count() == 1
        assert json.loads(flow_text(bench.tab.document.spec))["agents"][0]["outputs"] == {"chapter": "response"}

    in_window(path, story)
