"""What the pages show works: each script is run as printed and prints what stands below it."""

import json
import re

import pytest

import engine
from engine.flow.agent_check import Available, check_agent
from engine.flow.flow_spec import AgentSpec
from engine.flow.report import Report
from tests.helpers.doc_examples import DOCS, Example, engine_for, examples, scripts

PAGES = ["agents.md", "graders.md", "handlers.md", "tools.md"]
EXAMPLES = [example for page in PAGES for example in examples(page)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.page}-{example.number}")
def test_a_script(example: Example, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(engine, "Engine", engine_for(example), raising=False)
    exec(compile(example.script, example.page, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == example.output


@pytest.mark.parametrize("page", PAGES)
def test_no_script_is_left_out(page: str) -> None:
    assert len(list(examples(page))) == scripts(page)


@pytest.mark.parametrize("page", PAGES)
def test_agents_in_json_have_no_fault(page: str) -> None:
    import msgspec

    for text in re.findall(r"```json\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL):
        report = Report()
        check_agent(msgspec.convert(json.loads(text), AgentSpec), "$", Available(), report)
        assert report.problems == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_pages(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (DOCS / page).read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (DOCS / link).exists()] == []
