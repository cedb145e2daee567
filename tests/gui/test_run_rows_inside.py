"""Executions inside of a flow run as one node hang under it."""

from PySide6.QtCore import QModelIndex
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication

from engine.flow.agent import Agent, merge_contexts
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow import Flow
from engine.flow.flow_spec import AgentType, InputSpec
from engine.flow.subflow import SubflowAgent
from tests.helpers.scripted_completer import ScriptedCompleter
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_rows import RunRows


def names(rows: RunRows, parent: QModelIndex = QModelIndex()) -> list[object]:  # noqa: B008
    """The first column as a tree."""
    found: list[object] = []
    for number in range(rows.rowCount(parent)):
        index = rows.index(number, 0, parent)
        found.append(rows.data(index))
        if inside := names(rows, index):
            found.append(inside)
    return found


async def run(model: RunModel, subjects: list[str]) -> None:
    ask = Agent("Ask", AgentType.COMPLETION, template="{{topic}} [[n]]")
    inner = Flow(name="Inner", agents=(ask,), inputs=(InputSpec(key="topic"), InputSpec(key="n", type="list")))
    node = SubflowAgent(
        "Node",
        inner,
        inputs={"topic": "[[subject]]", "n": [1, 2]},
        merge=lambda contexts: merge_contexts([], contexts),
    )
    context = Context({"subject": subjects})
    await Walk(Flow(name="F", agents=(node,)), context, ScriptedCompleter(["x"]), run_id="r", emit=model.apply).run()


async def test_one_node_holds_its_agents(qapp: QApplication) -> None:
    model = RunModel()
    rows = RunRows(model)
    tester = QAbstractItemModelTester(rows)
    await run(model, ["a"])
    assert names(rows) == ["Node", ["2/2  Ask", ["1/2  1", "2/2  2"]]]
    assert list(model.agent_statistics()) == ["Node"]
    assert model.agent_statistics()["Node"].requests == 2
    del tester


async def test_each_branch_of_a_node_holds_its_own(qapp: QApplication) -> None:
    model = RunModel()
    rows = RunRows(model)
    tester = QAbstractItemModelTester(rows)
    await run(model, ["a", "b"])
    assert names(rows) == [
        "2/2  Node",
        ["1/2  a", ["2/2  Ask", ["1/2  1", "2/2  2"]], "2/2  b", ["2/2  Ask", ["1/2  1", "2/2  2"]]],
    ]
    del tester
