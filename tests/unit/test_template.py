import inspect
import json
import logging
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.flow.agent import Agent, AgentType
from engine.flow.context import Context, text_of
from engine.flow.template import Slot, expand, fill, is_long, literal, narrowed, split_count, split_keys

busy_machine = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_joined_json_and_slots() -> None:
    context = Context({"a": ["1", "2"], "b": ["x"]})
    parts = expand("{{a}} {{{a}}} [[b]] [[b|hidden]]!", context)
    assert parts == ("1\n\n2", " ", '["1","2"]', " ", Slot("b"), " ", Slot("b", hidden=True), "!")
    assert split_keys(parts) == ("b",)
    assert fill(parts, context) == '1\n\n2 ["1","2"] x !'
    assert literal(parts) == '1\n\n2 ["1","2"] [[b]] [[b|hidden]]!'


def test_shown_keys_come_first() -> None:
    assert split_keys((Slot("id", hidden=True), Slot("name")), (Slot("role"),)) == ("name", "role", "id")


def test_the_shortest_list_counts() -> None:
    context = Context({"a": ["1", "2", "3"], "b": ["x", "y"], "c": []})
    assert split_count(("a", "b"), context) == 2
    assert split_count(("a", "c"), context) == 0
    branch = narrowed(context, ("a", "b"), 1, 2)
    assert dict(branch) == {"a": ["2"], "b": ["y"], "c": []}
    assert context["a"] == ["1", "2", "3"]


def test_a_longer_key_wins_over_its_beginning() -> None:
    assert fill(expand("{{ab}}{{a}}", Context({"a": "short", "ab": "long"})), Context()) == "longshort"


def test_values_json_cannot_hold_leave_the_placeholder(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert expand("{{{x}}}", Context({"x": [float("nan")]})) == ("{{{x}}}",)
    assert "cannot be written as JSON" in caplog.text


keys = st.text(min_size=1, max_size=4)
values = st.lists(st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.none()), max_size=3)


@busy_machine
@given(st.text(max_size=40), st.dictionaries(keys, values, max_size=3))
def test_text_without_placeholders_stays(text: str, context: dict[str, list[object]]) -> None:
    plain = text.replace("{{", "").replace("[[", "")
    assert literal(expand(plain, context)) == plain


@busy_machine
@given(st.dictionaries(keys, values, min_size=1, max_size=3), st.data())
def test_inserted_values_are_never_scanned(context: dict[str, list[object]], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(context)))
    other = data.draw(st.sampled_from(sorted(context)))
    context[key] = [f"{{{{{other}}}}}", f"[[{other}]]"]
    expanded = literal(expand(f"<{{{{{key}}}}}>", context))
    if "{" not in key and "}" not in key:  # a key of braces may be found at another place
        assert expanded == f"<{{{{{other}}}}}\n\n[[{other}]]>"


@busy_machine
@given(values, st.text(alphabet="abc ", max_size=5), st.text(alphabet="abc ", max_size=5))
def test_each_branch_gets_its_element(items: list[object], before: str, after: str) -> None:
    context = Context({"k": items})
    parts = expand(f"{before}[[k]]{after}", context)
    keys = split_keys(parts)
    count = split_count(keys, context)
    assert count == len(items)
    texts = [fill(parts, narrowed(context, keys, index, count)) for index in range(count)]
    assert texts == [f"{before}{text_of(item)}{after}" for item in items]


def test_long_texts_are_written_as_json_in_pieces_that_fit_together() -> None:
    text = 'ä"\\\n\U0001f600' * 700_000
    assert json.loads("".join(map(str, expand("{{{x}}}", Context({"x": [text, 1, None]}))))) == [text, 1, None]


def test_what_is_long() -> None:
    big = Context({"x": ["a" * 600_000] * 2})
    assert is_long("{{x}}", big)
    assert not is_long("x", big)
    assert not is_long("{{x}}", Context({"x": ["a"] * 100_000, "y": []}))
    assert is_long("{{x}}", Context({"x": ["a" * 20] * 100_000}))


async def test_large_values_are_expanded_off_the_loop() -> None:
    threads: set[int] = set()

    class Values(list[object]):
        def __iter__(self) -> Iterator[object]:
            threads.add(threading.get_ident())
            return super().__iter__()

    agent = Agent("A", AgentType.COMPLETION, template="{{x}}", system_prompt="{{{x}}}")
    context = Context()
    context["x"] = Values(["x" * 2_000_000])
    prompt = agent.prompt(context)
    assert inspect.isawaitable(prompt)
    threads.clear()
    system, text = await prompt
    assert literal(text) == "x" * 2_000_000
    assert literal(system) == f'["{"x" * 2_000_000}"]'
    assert threads
    assert threading.get_ident() not in threads
