"""The page about prompt formats tells the truth: its table, its examples, its code."""

import json
import re
from pathlib import Path

import pytest

from engine import profile_keys, prompt_strategies, tokenizers
from engine.conversation import Role, Turn
from engine.prompt_strategies import strategy_named, strategy_names

PAGE = (Path(__file__).parents[2] / "docs" / "prompt-strategies.md").read_text(encoding="utf-8")
TURNS = [
    Turn(role=Role.SYSTEM, text="You are terse."),
    Turn(role=Role.USER, text="Hi"),
    Turn(role=Role.ASSISTANT, text="Hello."),
    Turn(role=Role.USER, text="Bye"),
]


def table() -> str:
    """The table of formats as the page should have it."""
    lines = []
    for name in strategy_names():
        strategy = strategy_named(name)
        prompt = json.dumps(strategy.render(TURNS)).replace("|", "\\|")
        stops = ", ".join(f"`{stop}`" for stop in strategy.stop_texts()).replace("|", "\\|")
        lines.append(f"| `{name}` | `{prompt}` | {stops} |".replace("|  |", "| |"))
    return "\n".join(lines)


def test_the_table_of_formats() -> None:
    assert table() in PAGE


def test_the_marks_in_texts() -> None:
    part = PAGE.partition("## Marks in texts")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    assert len(lines) == 7
    for line in lines:
        name, text, sent = (cell.replace("\\|", "|") for cell in re.findall(r"`(.*?)`(?= \|)", line))
        assert strategy_named(name).neutralised(text) == sent


@pytest.mark.parametrize(
    "code", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), ids=["reasoning", "own", "tokens"]
)
def test_the_code_runs(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(prompt_strategies, "_by_name", dict(prompt_strategies._by_name))
    monkeypatch.setattr(tokenizers, "_registered", {})
    monkeypatch.setattr(profile_keys, "_tokenizers", dict(profile_keys._tokenizers))
    exec(compile(code, "docs/prompt-strategies.md", "exec"), {})
