"""Numbers and outside text as the window writes them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.number_text import money_text
from engine.statistics import CostProvenance
from workbench.text_format import (
    clock_text,
    cost_text,
    rate_text,
    seconds_text,
    tokens_text,
    visible_text,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.043, "0.04 s"),
        (0.0999, "0.1 s"),
        (2.14, "2.1 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (65, "1 min 5 s"),
        (7380, "2 h 3 min"),
        (-1, "0 s"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_clock() -> None:
    assert [clock_text(s) for s in (0, 8.9, 760, 3725)] == ["0:00", "0:08", "12:40", "1:02:05"]


def test_tokens_and_rates() -> None:
    assert tokens_text(1204) == "1,204"
    assert tokens_text(97, estimated=True) == "~97"
    assert rate_text(57.6) == "58 tok/s"
    assert rate_text(3.44) == "3.4 tok/s"
    assert rate_text(0) == "0 tok/s"
    assert rate_text(1940, estimated=True) == "~1,940 tok/s"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0"),
        ("0.0031", "$0.0031"),
        ("0.0004", "$0.0004"),
        ("0.00312", "$0.0031"),
        ("0.012", "$0.012"),
        ("0.5", "$0.50"),
        ("0.999", "$1.00"),
        ("12.3", "$12.30"),
        ("1234.567", "$1,234.57"),
        ("0.0000012", "$0.0000012"),
    ],
)
def test_money(amount: str, text: str) -> None:
    assert money_text(Decimal(amount)) == text


def test_cost_shows_where_it_comes_from() -> None:
    cost = Decimal("0.0031")
    assert cost_text(cost, CostProvenance.MEASURED) == "$0.0031"
    assert cost_text(cost, CostProvenance.ESTIMATED) == "~$0.0031"
    assert cost_text(Decimal(0), CostProvenance.FREE) == "free"
    assert cost_text(Decimal(0), CostProvenance.UNKNOWN) == "unknown"
    assert cost_text(Decimal(0), CostProvenance.UNKNOWN, lower_bound=True) == "unknown"
    assert cost_text(cost, CostProvenance.UNKNOWN, lower_bound=True) == "≥ $0.0031"
    assert cost_text(cost, CostProvenance.UNKNOWN) == "≥ $0.0031"
    assert cost_text(cost, CostProvenance.MEASURED, lower_bound=True) == "≥ $0.0031"
    assert cost_text(Decimal(0), CostProvenance.FREE, lower_bound=True) == "free"
    assert cost_text(Decimal(0), CostProvenance.MEASURED) == "$0"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n\twith tabs", "plain text\n\twith tabs"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "a‹CR›b"),
        ("\x1b[31mred\x1b[0m", "‹ESC›[31mred‹ESC›[0m"),
        ("\x1b]8;;http://x\x07link", "‹ESC›]8;;http://x‹BEL›link"),
        ("\x1b]52;c;aGk=\x07", "‹ESC›]52;c;aGk=‹BEL›"),
        ("nul\x00here", "nul‹NUL›here"),
        ("del\x7f", "del‹DEL›"),
        ("\x9b31m", "‹U+009B›31m"),
        ("abc\u202egnp.exe", "abc‹RLO›gnp.exe"),
        ("\u2066x\u2069", "‹LRI›x‹PDI›"),
        ("zero\u200bwidth", "zero‹ZWSP›width"),
        ("tag\U000e0041\U000e007f", "tag‹U+E0041›‹U+E007F›"),
        ("lone \ud83d half", "lone \ufffd half"),
        ("line\u2028sep", "line‹LSEP›sep"),
        ("👩\u200d💻 works", "👩\u200d💻 works"),
        ("a\u200db", "a‹ZWJ›b"),
        ("grüße, 中文, עברית", "grüße, 中文, עברית"),
    ],
)
def test_visible_marks(text: str, shown: str) -> None:
    assert visible_text(text) == shown


@given(st.text(st.characters(categories=None), max_size=60))
def test_no_invisible_character_passes(text: str) -> None:
    shown = visible_text(text)
    shown.encode("utf-8")
    for character in shown:
        code = ord(character)
        assert code >= 0x20 or character in "\n\t"
        assert not 0x7F <= code <= 0x9F
        assert not 0x202A <= code <= 0x202E
        assert not 0x2066 <= code <= 0x2069
        assert not 0xE0000 <= code <= 0xE007F
    assert visible_text(shown) == shown
