"""Calls in fenced JSON: the vectors, and what holds for every answer and every way it is cut."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversation import Conversation, Role, ToolCall, ToolChoice, ToolDefinition, ToolResult
from engine.struct_parse import NAME_KEY, LiveText, described, struct_parse, tool_prompt, turn_places
from tests.conformance.cases import Case, differences
from tests.conformance.struct_parse import KINDS

FILE = Path(__file__).parents[1] / "vectors" / "struct_parse.json"
VECTORS = json.loads(FILE.read_text(encoding="utf-8"))
SEARCH = ToolDefinition.of_texts("search", "Searches.", {"query": "What for"})


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_vector(vector: Mapping[str, Any]) -> None:
    case = Case(path=FILE, id=vector["id"], given=vector["given"], expect=vector["expect"])
    assert differences(case.expect, KINDS[case.kind](case)) == []


def test_that_there_are_vectors() -> None:
    assert len(VECTORS) >= 15


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6) | st.sampled_from(["```", "```json\n{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["query", "a", "b c", "ä"]), VALUES, max_size=3)
NOISE = st.lists(
    st.sampled_from(
        ["`", "``", "```", "json", "```json", "\n", " ", "{", "}", '"function_name"', ": ", '"f"', "js", "é"]
    ),
    max_size=14,
).map("".join)


def fenced(name: str, arguments: Mapping[str, object]) -> str:
    return f"```json\n{json.dumps({NAME_KEY: name, **arguments}, ensure_ascii=False)}\n```"


@given(st.text("ab .\n", max_size=20), st.lists(ARGUMENTS, min_size=1, max_size=3), st.text("xy\n", max_size=9))
def test_what_was_written_is_read(text: str, written: list[Mapping[str, object]], tail: str) -> None:
    found = struct_parse(text + "\n".join(fenced("search", item) for item in written) + tail, [SEARCH])
    assert found.content == text.rstrip()
    assert found.errors == ()
    different: list[Mapping[str, object]] = []
    for item in written:
        if json.dumps(item, sort_keys=True) not in [json.dumps(other, sort_keys=True) for other in different]:
            different.append(item)
    assert [dict(call.arguments) for call in found.calls] == different


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in pairwise(places)]


@given(
    NOISE | st.builds(lambda a, b, c: a + fenced("f", b) + c, NOISE, ARGUMENTS, NOISE), st.lists(st.integers(0, 400))
)
def test_live_text_is_the_content_however_it_is_cut(text: str, cuts: list[int]) -> None:
    live = LiveText()
    shown = [live.feed(piece) for piece in pieces_of(text, cuts)]
    found = struct_parse(live.text, [])
    before = "".join(shown)
    assert text.startswith(before)
    assert (before + live.close(found.content)).rstrip() == found.content.rstrip()
    if found.calls or found.errors:
        assert len(before.rstrip()) <= len(found.content)


@given(NOISE)
def test_every_text_is_read_and_nothing_is_lost_without_a_call(text: str) -> None:
    found = struct_parse(text, [])
    if not found.calls and not found.errors:
        assert found.content == text
    else:
        assert text.startswith(found.content)


def test_arguments_in_a_member_of_their_own_are_unwrapped_unless_the_tool_has_one() -> None:
    text = fenced("search", {"arguments": {"query": "q"}})
    assert struct_parse(text, [SEARCH]).calls[0].arguments == {"query": "q"}
    own = ToolDefinition(name="search", parameters={"properties": {"arguments": {"type": "object"}}})
    assert struct_parse(text, [own]).calls[0].arguments == {"arguments": {"query": "q"}}


def test_the_prompt_describes_the_tools_and_changes_none() -> None:
    before = json.dumps(SEARCH.parameters)
    prompt = tool_prompt(ToolChoice.force([SEARCH], "search"), "Write it so:")
    assert prompt.startswith("Write it so:\n")
    assert "`search`" in prompt
    assert "Call `search` now." in prompt
    block = json.loads(prompt.rsplit("```json\n", 1)[1].removesuffix("\n```"))
    assert block["parameters"]["required"] == [NAME_KEY, "query"]
    assert json.dumps(SEARCH.parameters) == before


def test_history_goes_as_text_and_results_as_one_turn() -> None:
    calls = [ToolCall(id=f"c{number}", name="search", arguments='{"query": "q"}') for number in (1, 2)]
    results = [ToolResult(call_id=call.id, output=f"found {call.id}") for call in calls]
    conversation = Conversation.create("", "go").add_tool_round("Searching.", calls, results)
    sent = described(conversation, ToolChoice.auto([SEARCH]), "Write it so:")
    assert [turn.role for turn in sent.turns] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.USER]
    assert struct_parse(sent.turns[2].text, [SEARCH]).content == "Searching."
    assert sent.turns[3].text == "Tool result search (c1):\nfound c1\n\nTool result search (c2):\nfound c2"
    assert turn_places(conversation) == [(), (0,), (1,), (2, 3)]


@pytest.mark.parametrize("text", ["```" * 30_000, "```json" * 20_000, "`" * 100_000, "```json" + "[" * 100_000])
def test_no_answer_takes_long(text: str) -> None:
    """Ends at all: a quadratic search would take minutes."""
    assert struct_parse(text, []).calls == ()
    live = LiveText()
    for piece in pieces_of(text, list(range(0, len(text), 997))):
        live.feed(piece)
    live.close(text)
