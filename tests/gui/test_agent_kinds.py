"""Agents of every kind in the designer: the inspector says what each does, and nothing breaks on any flow."""

from pathlib import Path

import pytest

from engine import bundled
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import opened
from workbench.designer.agent_form import AgentForm

pytestmark = pytest.mark.usefixtures("qapp")

ROOT = Path(__file__).parents[2]
SAMPLES = bundled.names("resources", "flows", suffix=".flow.json")
FILES = sorted((ROOT / "docs" / "examples").rglob("*.flow.json"))

KINDS = (
    {
        "name": "Chapter",
        "type": None,
        "model": None,
        "flow": "release-announcement",
        "with": {"code": "[[topic]]", "product": ["a", "b"]},
        "outputs": {"chapter": "announcement"},
        "merge": {"type": "concat", "keys": ["chapter"]},
    },
    {
        "name": "Table",
        "template": "Rows for {{chapter}}",
        "few_shot": [{"user": "a", "assistant": "b"}],
        "stop": ["END"],
        "timeout": 30,
        "retry_on_parsing_error": 2,
        "handler": {"type": "csv", "key": "table", "headings": ["id", "text"]},
        "before": [{"set": "n", "to": "1 + 1"}, {"delete": "x", "when": "n > 1"}],
    },
    {
        "name": "Calc",
        "template": "Compute {{table}}",
        "tools": ["calculator"],
        "max_tool_call_rounds": 4,
        "handler": {"type": "tools", "then": {"type": "text", "key": "sum"}},
    },
    {
        "name": "Join",
        "type": "PROCESSING_ONLY",
        "gather": True,
        "merge": {"type": "join", "key": "t", "template": "{{sum}}", "sort_by": "n"},
    },
    {"name": "Judge", "type": None, "grader": "AnswerGrader2", "with": {"question": "Good?", "answer": "{{t}}"}},
)


def kinds(folder: Path) -> Path:
    agents = [{key: value for key, value in agent.items() if value is not None} for agent in KINDS]
    path = flow_file(folder / "kinds.flow.json", *agents)
    text = path.read_text("utf-8")
    for agent in KINDS:
        if "type" in agent and agent["type"] is None:  # the helper gives each agent a type and a model
            start = text.index(f'"name": "{agent["name"]}"')
            before = text.rindex('"type": "COMPLETION",', 0, start)
            text = text[:before] + text[before + len('"type": "COMPLETION",') :]
    path.write_text(text, "utf-8")
    return path


def shown(form: AgentForm) -> list[str]:
    """Keys of the sections that are there, from top to bottom."""
    return [section.key for section in form.sections if not section.isHidden()]


REST = ["operations", "merge", "limits", "notes"]


def test_the_inspector_has_the_sections_that_fit_the_kind_of_agent(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [kinds(tmp_path)]) as bench:
            form = bench.tab.inspector.agent_form
            bench.tab.editor.select(["Chapter"])
            assert shown(form) == ["given", "routes", *REST]
            assert not form.model.isVisible()
            assert not form.template.isVisible()
            bench.tab.editor.select(["Table"])
            asking = ["model", "conversation", "prompt", "response", "routes", "few_shot"]
            assert shown(form) == [*asking, "operations", "merge", "tools", "limits", "notes"]
            assert form.model.isVisible()
            bench.tab.editor.select(["Join"])
            assert shown(form) == ["conversation", "prompt", "routes", *REST]
            assert not form.model.isVisible()
            bench.tab.editor.select(["Judge"])
            assert shown(form) == ["grader", "model", "prompt", "response", "routes", "few_shot", *REST]
            assert not form.type.isVisible()

    run_qt(story(), 60)


def test_an_agent_can_be_kept_from_the_cache(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [kinds(tmp_path)]) as bench:
            form = bench.tab.inspector.agent_form
            bench.tab.editor.select(["Table"])
            form.skip_cache.click()
            agent = bench.tab.document.spec.agent("Table")
            assert agent is not None
            assert agent.skip_cache
            bench.trigger("undo")
            assert not form.skip_cache.isChecked()

    run_qt(story(), 60)


@pytest.mark.parametrize("source", [*SAMPLES, *FILES], ids=lambda source: Path(str(source)).name)
def test_every_flow_opens_and_each_of_its_agents_can_be_looked_at(source: str | Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [source]) as bench:
            for agent in bench.tab.document.spec.agents:
                bench.tab.editor.select([agent.name])
                assert "routes" in shown(bench.tab.inspector.agent_form)
            if str(source) in SAMPLES:
                assert [problem for problem in bench.tab.document.problems if problem.severity == "error"] == []
                assert str(source) in [item.id for item in bench.window.explorer.items("flow")]

    run_qt(story(), 60)
