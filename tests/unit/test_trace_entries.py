"""The symbol trace as entries."""

import pytest

from engine.flow.trace import Kind
from tests.helpers.run_events import START, Script
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.trace_entries import live_trace, parse_trace, trace_text

TIMED = "⇉ 1/5, L, FeatureAnalyzer, (1900 ms), ⚠, (2500 ms), 5↣1, ↴, ○, Join, 🗨, HOT, Check, (600 ms), ⏹, ✗, ☢"


def test_every_entry_has_its_kind() -> None:
    kinds = [entry.kind for entry in parse_trace(TIMED)]
    assert kinds == [
        Kind.SPLIT,
        Kind.CATEGORY,
        Kind.AGENT,
        Kind.DURATION,
        Kind.RETRY,
        Kind.DURATION,
        Kind.MERGE,
        Kind.NEXT,
        Kind.SKIPPED,
        Kind.AGENT,
        Kind.NEXT,
        Kind.CATEGORY,
        Kind.AGENT,
        Kind.DURATION,
        Kind.FINISH,
        Kind.GRADE,
        Kind.FATAL,
    ]


def test_the_text_comes_back() -> None:
    assert trace_text(parse_trace(TIMED)) == TIMED
    assert "ms" not in trace_text(parse_trace(TIMED), timed=False)
    assert parse_trace("") == []


@pytest.mark.parametrize("symbol", ["⚠", "☢", "✓", "✗", "→", "🗨", "↴", "⏹", "⛔", "🔧", "❌", "○", "‖"])
def test_every_symbol_has_an_icon_and_an_explanation(symbol: str) -> None:
    entry = parse_trace(symbol)[0]
    assert entry.icon is not None
    assert entry.shown == ""
    assert entry.explanation().endswith(".")


def test_what_is_shown_of_numbers() -> None:
    shown = [entry.shown for entry in parse_trace("⇉ 2/5, M, A, (2100 ms), 5↣1")]
    assert shown == ["2/5", "M", "A", "2.1 s", "5 → 1"]


def test_an_agent_named_like_a_symbol_is_an_agent() -> None:
    entries = parse_trace("M, →, (3 ms), →, M, B")
    assert [entry.kind for entry in entries][:4] == [Kind.CATEGORY, Kind.AGENT, Kind.DURATION, Kind.NEXT]


def test_the_trace_of_a_run_under_way() -> None:
    script = Script()
    model = RunModel(clock=lambda: START + 5)
    for event in [script.run(), script.begin("A", 0), *script.ask(0.1), script.answer(2, "x"), script.leave(2, "B")]:
        model.apply(event)
    model.apply(script.begin("B", 2, splits=3))
    assert trace_text(live_trace(model)) == "M, A, (2000 ms), →, ⇉ 0/3, M, B"
