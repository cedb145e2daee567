"""The page about the flow format tells the truth."""

import re
from pathlib import Path

from engine.flow.flow_check import check_flow
from engine.flow.flow_file import read_flow
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, InputSpec
from engine.flow.sandbox import Sandbox

PAGE = (Path(__file__).parents[2] / "docs" / "flow-format.md").read_text(encoding="utf-8")


def test_its_example_has_no_problem() -> None:
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    loaded = read_flow(example[1])
    assert loaded.problems == ()
    assert check_flow(loaded.spec) == []


def test_it_lists_the_filters_there_are() -> None:
    listed = re.search(r"- Filters: `(.*?)`;", PAGE, re.DOTALL)
    assert listed is not None
    internal = {"d", "_counted"}
    assert set(listed[1].split()) == set(Sandbox().filters) - internal


def test_it_names_every_field_and_type() -> None:
    fields = {
        *FlowSpec.__struct_encode_fields__,
        *AgentSpec.__struct_encode_fields__,
        *InputSpec.__struct_encode_fields__,
    }
    later = {"extra", "max_tool_call_rounds"}
    for word in sorted(fields - later) + list(AgentType):
        assert re.search(rf"(?<!\w){re.escape(word)}\b", PAGE), word
