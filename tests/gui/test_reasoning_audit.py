"""A model that only thinks: told by badge and message, and what helps."""

from pathlib import Path

import pytest

from tests.helpers.fake_server import Answer, Received, chat, delta
from tests.helpers.model_answers import flow_file, prompt_of
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, find_button, opened_on
from workbench.limit_form import LimitForm
from workbench.run_panel.run_state import State

pytestmark = pytest.mark.usefixtures("qapp")


def flow(folder: Path) -> Path:
    agents = [
        {"name": "Solve", "template": "solve", "handler": {"type": "text", "key": "result"}},
        {"name": "Tell", "template": "tell {{result}}", "handler": {"type": "text", "key": "told"}},
    ]
    return flow_file(folder / "think.flow.json", *agents, outputs=["told"])


class Thinker:
    """Thinks until its limit; with 400 tokens it answers."""

    def __init__(self, finish: str = "length") -> None:
        self.finish = finish
        self.limits: list[int] = []
        self.asked: list[str] = []

    def __call__(self, request: Received) -> Answer:
        prompt = prompt_of(request)
        self.asked.append(prompt)
        if prompt != "solve":
            return chat(f"<{prompt}>")
        self.limits.append(request.json()["max_tokens"])
        if self.limits[-1] >= 400:
            return chat("42")
        pieces = [delta(reasoning_content="six times seven"), delta(finish=self.finish), b"data: [DONE]\n\n"]
        return Answer(pieces=pieces, framing="chunked")


def note(bench: Workbench, step: int) -> tuple[str, str]:
    """What the tree says behind the name of a step."""
    row = bench.tab.panel.tree.rows.step_row(step)
    assert row is not None
    return row.note


async def solved(bench: Workbench) -> None:
    """Run the flow and show what Solve did."""
    assert await bench.run_to_end() == "finished"
    bench.click_agent("Solve")
    await bench.until(lambda: find_button(bench.tab.panel.stream.banner, "Use thinking as answer"))


def test_the_thinking_is_taken_as_the_answer_and_the_run_goes_on(tmp_path: Path) -> None:
    model = Thinker("stop")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [flow(tmp_path)]) as (bench, _server):
            await solved(bench)
            panel, banner = bench.tab.panel, bench.tab.panel.stream.banner
            assert "The answer is empty, but" in banner.copied
            assert find_button(banner, "Retry with a higher limit…") is None  # no limit was met
            assert note(bench, 1) == ("only thinking, no answer", "warn")
            assert bench.card_state("Solve") == "warning"
            footer = bench.tab.editor.scene.agents["Solve"].look.footer
            assert footer is not None
            assert footer.label == "only thinking, no answer"
            first = bench.tab.run_id
            bench.click(button(banner, "Use thinking as answer"))
            await bench.until(lambda: bench.tab.run_id != first and panel.model.status == "finished")
            assert model.asked == ["solve", "tell ", "tell six times seven"]
            assert panel.model.outputs == {"told": ["<tell six times seven>"]}
            assert (panel.model.origin, panel.model.edited) == ("from", True)
            assert note(bench, 1) == ("thinking taken as answer", "reason")
            bench.click_agent("Tell")
            bench.click_agent("Solve")
            await bench.shows("six times seven")
            await bench.until(lambda: "its thinking was taken as the answer" in banner.copied)
            assert "Finish thinking taken as answer" in panel.stream.line.text()

    run_qt(story(), 90)


def test_the_agent_is_asked_again_with_twice_the_limit(tmp_path: Path) -> None:
    model = Thinker()

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [flow(tmp_path)]) as (bench, _server):
            await solved(bench)
            panel, banner = bench.tab.panel, bench.tab.panel.stream.banner
            assert "The limit was spent on thinking" in banner.copied
            assert note(bench, 1) == ("limit spent on thinking", "warn")
            assert panel.model.steps[1].state is State.NO_ANSWER
            first = bench.tab.run_id
            bench.click(button(banner, "Retry with a higher limit…"))
            form = await bench.dialog(LimitForm)
            assert form.limit.value() == 400
            bench.click(button(form, "Run from here"))
            await bench.reactivate()
            await bench.until(lambda: bench.tab.run_id != first and panel.model.status == "finished")
            assert model.limits == [200, 400]
            assert panel.model.outputs == {"told": ["<tell 42>"]}
            agent = bench.tab.document.spec.agent("Solve")
            assert agent is not None
            assert agent.model is not None
            assert agent.model.overrides == {"maxTokens": 400}
            assert note(bench, 1) == ("", "")
            bench.press("Ctrl+Z")  # the limit is an edit of the flow like any other
            agent = bench.tab.document.spec.agent("Solve")
            assert agent is not None
            assert agent.model is not None
            assert agent.model.overrides == {}

    run_qt(story(), 90)


def test_a_typed_limit_is_taken(tmp_path: Path) -> None:
    model = Thinker()

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [flow(tmp_path)]) as (bench, _server):
            await solved(bench)
            bench.click(button(bench.tab.panel.stream.banner, "Retry with a higher limit…"))
            form = await bench.dialog(LimitForm)
            bench.type_text(form.limit, "777")
            bench.press("Return", form.limit)
            await bench.reactivate()
            await bench.until(lambda: model.limits == [200, 777])
            await bench.until(lambda: bench.tab.panel.model.status == "finished")

    run_qt(story(), 90)
