from decimal import Decimal

import pytest

from engine.conversation import Conversation
from engine.errors import ConnectFailed, FlowError
from engine.events import ErrorInfo
from engine.flow.context import BranchError, Context, text_of
from engine.flow.trace import Kind


def test_values_are_lists() -> None:
    context = Context({"code": "x = 1", "feature": ["a", "b"], "count": 3})
    assert dict(context) == {"code": ["x = 1"], "feature": ["a", "b"], "count": [3]}
    assert context.text("feature") == "a"
    assert context.texts("count") == ["3"]
    assert context.text("missing") == ""
    assert context.text("missing", "none") == "none"
    context.set("empty")
    assert context.text("empty", "default") == "default"
    del context["code"]
    assert "code" not in context
    context.remove("code")


def test_a_copy_shares_statistic_and_turns_but_not_keys_and_trace() -> None:
    context = Context({"a": ["1"]})
    context.conversation = Conversation.create("be kind", "hello")
    context.trace = context.trace.add(Kind.AGENT, "A")
    copy = context.copy()
    copy.set("a", "2")
    copy.trace = copy.trace.add(Kind.AGENT, "B")
    copy.conversation = copy.conversation and copy.conversation.add_user("more")
    assert context.text("a") == "1"
    assert context.trace.text() == "A"
    assert len(context.conversation.turns) == 2
    assert copy.statistic is context.statistic
    assert copy.trace.text() == "A, B"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é", "é"),
        (True, "true"),
        (7, "7"),
        (2.50, "2.5"),
        (1e3, "1000.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (None, ""),
        ({"b": [1, None]}, '{"b":[1,null]}'),
        (Decimal("1.20"), "1.20"),
    ],
)
def test_text_forms(value: object, text: str) -> None:
    assert text_of(value) == text


def test_an_error_as_plain_data() -> None:
    failed = ConnectFailed("No server.", hint="Start it.", facts={"url": "http://x"}, partial="half")
    assert BranchError(kind="GENERAL", exception=failed, agent="A").info == ErrorInfo(
        type="GENERAL",
        name="ConnectFailed",
        message="No server.",
        hint="Start it.",
        facts={"url": "http://x"},
        partial="half",
    )
    assert BranchError(kind="GENERAL", exception=KeyError("x")).info.message == "KeyError: 'x'"
    assert BranchError(kind="GENERAL", exception=ValueError()).info.message == "ValueError"


def test_values_of_a_type() -> None:
    context = Context({"n": [1, 2], "text": "7", "none": []})
    assert (context.value("n", int), context.values_of("n", int)) == (1, [1, 2])
    assert (context.value("none", int), context.value("missing", int), context.values_of("missing", str)) == (
        None,
        None,
        [],
    )
    with pytest.raises(FlowError, match="Value 1 of the key text is of the type str, expected int"):
        context.value("text", int)
