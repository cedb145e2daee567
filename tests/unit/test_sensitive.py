"""Masking of personal data, and redaction of secrets: the vectors, and what holds for every text."""

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversation import Conversation, Role, ToolCall, ToolResult, Turn
from engine.engine_settings import EngineSettings
from engine.errors import EngineError
from engine.redaction import SECRETS, RedactingFilter, redact
from engine.sensitive import PIECE, Masking, custom_rule, mask, masked, pieces
from tests.conformance.cases import Case, differences
from tests.conformance.sensitive import KINDS

FILE = Path(__file__).parents[1] / "vectors" / "sensitive.json"
VECTORS = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_vector(vector: Mapping[str, Any]) -> None:
    case = Case(path=FILE, id=vector["id"], given=vector["given"], expect=vector["expect"])
    assert differences(case.expect, KINDS[case.kind](case)) == []


def test_that_there_are_vectors() -> None:
    assert len(VECTORS) >= 16


PIECES = st.sampled_from(
    [
        *("a@b.cn", "x.y+z@mail.example.com", "13800138000", "+86", "510104199001011234", "11010519491231002X"),
        *("6226327514303272", "6222021234567890128", "86", "-", "1", "a", "@", "中", "✿", "＠", "*", ".com", "_"),
    ]
)
TEXTS = st.lists(PIECES | st.sampled_from([" ", ";", "1", "é"]), max_size=8).map("".join)


@given(TEXTS, st.sampled_from(["partial", "stars"]), st.sampled_from([(), ("b.cn",), ("example.com",)]))
def test_masking_twice_is_masking_once(text: str, style: str, allowed: tuple[str, ...]) -> None:
    once = mask(text, style=style, allow_email_domains=allowed)
    assert mask(once, style=style, allow_email_domains=allowed) == once


@given(TEXTS)
def test_masking_keeps_the_length_and_hides_every_kind(text: str) -> None:
    done = mask(text)
    assert len(done) == len(text)
    assert not re.search(r"(?<![0-9A-Za-z_])1[3-9][0-9]{9}(?![0-9A-Za-z_])", done)
    assert not re.search(r"[A-Za-z0-9._%+-]@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?![0-9A-Za-z_])", done)


@given(st.text("ab\n", max_size=50), st.integers(0, 3))
def test_pieces_are_the_text(text: str, times: int) -> None:
    long = (text + "\n") * (times * 3000)
    parts = pieces(long)
    assert "".join(parts) == long
    assert all(len(part) <= PIECE for part in parts)


def test_results_of_tools_are_masked_and_nothing_else_by_default() -> None:
    call = ToolCall(id="c13800138000", name="find", arguments='{"phone": "13800138000"}')
    conversation = Conversation.create("13800138000", "call 13800138000").add_tool_round(
        "13800138000", [call], [ToolResult(call_id=call.id, output="it is 13800138000")]
    )
    sent = masked(conversation, "tool_results", Masking())
    assert sent.turns[:3] == conversation.turns[:3]
    assert (sent.turns[3].text, sent.turns[3].tool_call_id) == ("it is 138✿✿✿✿8000", call.id)
    everything = masked(conversation, "all", Masking(style="stars"))
    assert [turn.text for turn in everything.turns] == [
        "*" * 11,
        f"call {'*' * 11}",
        "13800138000",
        f"it is {'*' * 11}",
    ]
    assert everything.turns[2].tool_calls == (call,)
    plain = Conversation.create("", "no data")
    assert masked(plain, "all", Masking()) is plain


def test_json_of_a_tool_stays_json() -> None:
    output = json.dumps({"tel": 13800138000, "note": "line\n13900139000", "count": 3, "a@b.cn": [True, None, 2.5]})
    assert json.loads(Masking().output(output)) == {
        "tel": "138✿✿✿✿8000",
        "note": "line\n139✿✿✿✿9000",
        "count": 3,
        "a@b.cn": [True, None, 2.5],
    }
    assert Masking().output('{"a":  1}') == '{"a":  1}'
    assert Masking().output("[13800138000") == "[138✿✿✿✿8000"


def test_own_patterns_are_checked() -> None:
    with pytest.raises(re.error):
        custom_rule("re:(", "x")
    with pytest.raises(ValueError, match="is no expression"):
        EngineSettings(sensitive_patterns={"re:[": "x"})
    assert mask("a.c abc", patterns={"a.c": "X"}) == "X abc"
    assert mask("a.c abc", patterns={"re:a.c": r"\1"}) == r"\1 \1"


def test_known_secrets_are_in_no_error_and_no_line(caplog: pytest.LogCaptureFixture) -> None:
    SECRETS.add(["correct-horse-battery", "short"])
    error = EngineError("got correct-horse-battery", hint="sk-abcdef123456", facts={"url": "https://u:p@h.example/"})
    assert (str(error), error.hint, error.facts) == ("got ***", "sk-***", {"url": "https://***@h.example/"})
    assert str(EngineError("apiKey: found nothing, a short word")) == "apiKey: found nothing, a short word"
    logger = logging.getLogger("test.redaction")
    logger.addFilter(RedactingFilter())
    try:
        raise ValueError("correct-horse-battery")
    except ValueError:
        logger.exception("key %s and x-api-key: abc", "correct-horse-battery")
    assert "correct-horse" not in caplog.text
    assert "x-api-key: ***" in caplog.text
    assert "ValueError: ***" in caplog.text


@given(TEXTS | st.sampled_from(["Authorization: Bearer a", "?key=1", "sk-12345678", "data:image/png;base64,AAAA"]))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text, ["13800138000"])
    assert redact(once, ["13800138000"]) == once
    assert "13800138000" not in once


def test_a_picture_in_a_log_is_a_number() -> None:
    assert redact("see data:image/png;base64,iVBORw0KGgo= end") == "see data:image/png;base64,<12 chars> end"


def test_a_turn_of_parts_is_masked_in_its_places() -> None:
    turn = Turn(role=Role.USER, text="13800138000")
    assert masked(Conversation((turn,)), "all", Masking()).turns[0].text == "138✿✿✿✿8000"


@pytest.mark.parametrize("text", ["a." * 50_000, "a" * 100_000 + "@", "@a" * 40_000, "://" * 30_000, "key=" * 30_000])
def test_no_text_takes_long(text: str) -> None:
    """Ends at all: a quadratic search would take minutes."""
    assert len(mask(text)) == len(text)
    assert redact(text)
