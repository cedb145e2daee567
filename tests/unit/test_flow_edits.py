"""Edits as pure functions, and undoing any sequence of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QUndoStack

from engine.flow.flow_file import flow_text
from engine.flow.flow_spec import EditorSpec, FlowSpec
from tests.helpers.sample_flows import agent, chain, sample
from workbench.designer.commands import EditFlow
from workbench.designer.edits import change_agent, change_flow, move_agents, rename_agent
from workbench.designer.flow_document import FlowDocument
from workbench.designer.placement import flow_order, placed

pytestmark = pytest.mark.usefixtures("qapp")


def test_an_edit_shares_what_it_does_not_change() -> None:
    spec = chain("A", "B", "C")
    edited = change_agent(spec, "B", template="Write {{more}}.")
    assert edited.agents[1].template == "Write {{more}}."
    assert edited.agents[0] is spec.agents[0]
    assert edited.agents[2] is spec.agents[2]
    assert edited.editor is spec.editor


def test_moving_changes_one_line_of_the_file() -> None:
    spec = sample("release-announcement")
    before = flow_text(spec).splitlines()
    after = flow_text(move_agents(spec, {"FeatureAnalyzer": (570.0, 40.0)})).splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 1
    assert changed[0][1].strip() == '"FeatureAnalyzer": [570, 40],'


def test_everything_follows_a_renamed_agent() -> None:
    spec = sample("draft-grade-improve")
    spec = change_flow(spec, editor=EditorSpec(positions=spec.editor.positions, breakpoints=("Writer",)))
    renamed = rename_agent(spec, "Writer", "Author")
    assert renamed.start == "Author"
    assert [one.name for one in renamed.agents] == ["Author", "Check"]
    assert renamed.agents[1].with_["feedback_to"] == "Author"
    assert renamed.editor.positions["Author"] == spec.editor.positions["Writer"]
    assert "Writer" not in renamed.editor.positions
    assert renamed.editor.breakpoints == ("Author",)
    assert rename_agent(renamed, "Check", "Judge").agents[0].routes[0].to == "Judge"


@pytest.mark.parametrize("name", ["", "B"])
def test_a_name_that_is_empty_or_taken_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not free"):
        rename_agent(chain("A", "B"), "A", name)


def test_renaming_to_the_same_name_changes_nothing() -> None:
    spec = chain("A", "B")
    assert rename_agent(spec, "A", "A") is spec


EDITS = st.one_of(
    st.tuples(st.just("move"), st.sets(st.integers(0, 3), min_size=1), st.integers(-500, 500), st.booleans()),
    st.tuples(st.just("template"), st.integers(0, 3), st.text(max_size=8), st.booleans()),
    st.tuples(st.just("rename"), st.integers(0, 3), st.text("abcXYZ", min_size=1, max_size=3), st.just(False)),
    st.tuples(st.just("flow"), st.just(0), st.text(max_size=8), st.booleans()),
)


def edited(spec: FlowSpec, kind: str, which: object, value: object) -> FlowSpec:
    names = [one.name for one in spec.agents]
    if kind == "move":
        assert isinstance(which, set)
        return move_agents(spec, {names[index]: (index * 7.0, value) for index in which})  # type: ignore[misc]
    assert isinstance(which, int)
    if kind == "template":
        return change_agent(spec, names[which], template=value)
    if kind == "rename":
        return spec if value in names else rename_agent(spec, names[which], str(value))
    return change_flow(spec, description=value)


@settings(max_examples=60, deadline=None)
@given(st.lists(EDITS, max_size=12))
def test_undoing_all_gives_the_start_and_redoing_all_the_end(edits: list[tuple[str, object, object, bool]]) -> None:
    document = FlowDocument(chain("A", "B", "C", "D"))
    stack = QUndoStack()
    start = document.spec
    for kind, which, value, merges in edits:
        after = edited(document.spec, kind, which, value)
        if after != document.spec:
            stack.push(EditFlow(document, kind, after, f"{kind}:{which}" if merges else None))
    end = document.spec
    while stack.canUndo():
        stack.undo()
    assert document.spec == start
    assert not document.is_modified
    while stack.canRedo():
        stack.redo()
    assert document.spec == end
    assert document.is_modified == (end != start)


def test_typing_in_one_field_is_one_step_and_another_field_is_another() -> None:
    document = FlowDocument(chain("A", "B"))
    stack = QUndoStack()
    for text in ("W", "Wr", "Wri"):
        stack.push(EditFlow(document, "Edit template", change_agent(document.spec, "A", template=text), "A:template"))
    stack.push(EditFlow(document, "Edit template", change_agent(document.spec, "B", template="x"), "B:template"))
    assert stack.count() == 2
    stack.undo()
    stack.undo()
    assert document.spec.agents[0].template == "Say {{it}}."


def test_an_edit_that_ends_where_it_began_leaves_no_step() -> None:
    document = FlowDocument(chain("A", "B"))
    stack = QUndoStack()
    for text in ("Say {{it}}.!", "Say {{it}}."):
        stack.push(EditFlow(document, "Edit template", change_agent(document.spec, "A", template=text), "A:template"))
    assert stack.count() == 0
    assert not document.is_modified


def test_edits_after_saving_do_not_join_those_before() -> None:
    document = FlowDocument(chain("A", "B"))
    stack = QUndoStack()
    stack.push(EditFlow(document, "Edit", change_agent(document.spec, "A", template="1"), "A:template"))
    stack.setClean()
    stack.push(EditFlow(document, "Edit", change_agent(document.spec, "A", template="12"), "A:template"))
    assert stack.count() == 2


def test_agents_without_a_place_are_put_in_columns_below_the_others() -> None:
    spec = FlowSpec(
        name="x",
        start="A",
        agents=(agent("C", None), agent("B", "C"), agent("A", "B", "C"), agent("Lost", None)),
        editor=EditorSpec(positions={"A": (0.0, 100.0)}),
    )
    assert flow_order(spec) == ("A", "B", "C", "Lost")
    assert placed(spec) == {"A": (0.0, 100.0), "C": (280.0, 280.0), "B": (280.0, 460.0), "Lost": (0.0, 280.0)}
