"""Scripts in documents: found, run on scripted answers, compared with the output printed below them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.completion import FinishReason
from engine.conversation import ToolCall
from engine.flow.context import Context
from engine.flow.flow import Flow
from engine.run import Run
from tests.helpers.scripted_completer import Answer, Reply, ScriptedCompleter

DOCS = Path(__file__).parents[2] / "docs"
_EXAMPLE = re.compile(
    r"<!-- answers: (?P<answers>\[.*?\]) -->\n```python\n(?P<script>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL
)


@dataclass(frozen=True)
class Example:
    """A script with what the model answers in it and what it prints."""

    page: str
    number: int
    answers: list[Any]
    script: str
    output: str


def examples(page: str) -> Iterator[Example]:
    """The scripts of a page, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for number, match in enumerate(_EXAMPLE.finditer(text), 1):
        yield Example(page, number, json.loads(match["answers"]), match["script"], match["output"])


def scripts(page: str) -> int:
    """How many scripts a page has, run or not."""
    return (DOCS / page).read_text(encoding="utf-8").count("```python\n")


class ScriptedEngine(ScriptedCompleter):
    """Stands in for `Engine`: flows run as ever, on answers of the example."""

    async def __aenter__(self) -> "ScriptedEngine":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def run(self, flow: Flow, context: Context, **options: Any) -> Run:
        """Run a flow."""
        return Run(flow, context, self, **options)


def engine_for(example: Example) -> type[ScriptedEngine]:
    """What `Engine()` is in the script."""

    class Made(ScriptedEngine):
        def __init__(self) -> None:
            super().__init__([_answer(answer) for answer in example.answers])

    return Made


def _answer(answer: Any) -> Answer:
    if isinstance(answer, dict):
        calls = tuple(
            ToolCall(id=f"call_{number}", name=call["name"], arguments=json.dumps(call["arguments"]))
            for number, call in enumerate(answer["calls"], 1)
        )
        return Reply(tool_calls=calls, finish_reason=FinishReason.TOOL_CALLS)
    return answer if isinstance(answer, str) else Reply(content=answer)
