import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.completion import Chunk, Completion
from engine.flow.context import Context
from engine.flow.handlers import DONE, AccumulateHandler, Again, JsonHandler, TextHandler, flattened


async def test_text_replaces_and_stale_reasoning_goes() -> None:
    context = Context({"a": ["old"], "a_reasoning": ["old thought"]})
    handler = TextHandler("a")
    assert await handler.handle(Completion(content="new", reasoning="a thought"), context) is DONE
    assert dict(context) == {"a": ["new"], "a_reasoning": ["a thought"]}
    await handler.handle(Completion(content="", reasoning="  "), context)
    assert dict(context) == {"a": [""]}


async def test_a_transform_may_drop_the_answer() -> None:
    context = Context({"a": ["old"]})
    await TextHandler("a", transform=str.upper).handle(Completion(content="new"), context)
    assert context.text("a") == "NEW"
    await TextHandler("a", transform=lambda text: None).handle(Completion(content="new"), context)
    assert "a" not in context


async def test_accumulate_does_not_touch_the_shared_list() -> None:
    shared: list[object] = ["one"]
    context = Context()
    context["all"] = shared
    await AccumulateHandler("all").handle(Completion(content="two"), context)
    await AccumulateHandler("all", transform=lambda text: None).handle(Completion(content="three"), context)
    assert context["all"] == ["one", "two"]
    assert shared == ["one"]


async def test_json_schema_faults_are_told_to_the_model() -> None:
    context = Context()
    handler = JsonHandler("p_", schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    result = await handler.handle(Completion(content='{"n": "three"}'), context)
    assert isinstance(result, Again)
    assert '$.n: expected integer, found "three"' in result.correction
    assert not context
    assert await handler.handle(Completion(content='{"n": 3}', reasoning="three it is"), context) is DONE
    assert dict(context) == {"p_n": ["3"], "p__reasoning": ["three it is"]}


async def test_the_correction_names_the_fault() -> None:
    result = await JsonHandler().handle(Completion(content='{"a": oops}'), Context())
    assert isinstance(result, Again)
    assert "line 1: expected a value, found 'oops}'" in result.correction


async def test_a_long_answer_is_read_off_the_loop() -> None:
    context = Context()
    answer = "{" + ", ".join(f"k{number}: 'text'" for number in range(3000)) + "}"
    threads = threading.active_count()
    assert await JsonHandler().handle(Completion(content=answer), context) is DONE
    assert len(context) == 3000
    assert threading.active_count() > threads
    assert isinstance(await JsonHandler().handle(Completion(content="{" + " " * 20_000), context), Again)


def test_an_interrupted_object_keeps_only_the_thinking() -> None:
    context = Context()
    JsonHandler().keep(Completion(content='{"a": 1', reasoning="half a thought"), context)
    assert dict(context) == {"_reasoning": ["half a thought"]}


@pytest.mark.parametrize(
    "answer", ["[1, 2]", "[" * 3000, "{" + "[" * 3000 + "]" * 3000 + "}", '{"a":' + "9" * 6000 + "}", "{}{}"]
)
async def test_no_keys_from_what_cannot_be_read(answer: str) -> None:
    context = Context()
    assert isinstance(await JsonHandler().handle(Completion(content=answer), context), Again)
    assert not context


def test_flattening_keeps_document_order() -> None:
    value = {"user": {"name": "A", "tags": ["x", {"name": "B"}]}, "name": "C"}
    assert flattened(value) == {"name": ["A", "B", "C"], "tags": ["x"]}


def test_streamed_keys_grow_and_hooks_see_them() -> None:
    context = Context({"a": ["old"], "a_reasoning": ["old"]})
    seen: list[tuple[str, str]] = []
    handler = TextHandler(
        "a",
        before_stream=lambda context: seen.append((context.text("a", "none"), context.text("a_reasoning", "none"))),
        chunk_transform=lambda chunk: Chunk(content=chunk.content.upper(), reasoning=chunk.reasoning),
        after_chunk=lambda context, chunk: seen.append((context.text("a"), chunk.content)),
    )
    handler.before_stream(context)
    for chunk in (Chunk(reasoning="hm"), Chunk(content="one "), Chunk(content="two")):
        handler.on_chunk(chunk, context)
    assert seen == [("", "none"), ("", ""), ("ONE ", "ONE "), ("ONE TWO", "TWO")]
    assert dict(context) == {"a": ["ONE TWO"], "a_reasoning": ["hm"]}


async def test_the_whole_answer_replaces_what_streamed() -> None:
    context = Context()
    handler = TextHandler("a", chunk_transform=lambda chunk: Chunk(content="*" * len(chunk.content)))
    handler.before_stream(context)
    handler.on_chunk(Chunk(content="secret"), context)
    assert context.text("a") == "******"
    await handler.handle(Completion(content="secret"), context)
    assert context.text("a") == "secret"


def test_a_long_stream_stays_cheap_and_complete() -> None:
    context = Context()
    handler = TextHandler("a")
    handler.before_stream(context)
    joins = 0
    last = ""
    for number in range(100_000):
        handler.on_chunk(Chunk(content=f"{number % 1000:03d} "), context)
        if number % 50 == 0 and context.text("a") is not last:
            joins, last = joins + 1, context.text("a")
    assert 0.9 * 400_000 < len(last) <= 400_000
    assert joins < 500
    full: list[str] = []
    watched = TextHandler("a", after_chunk=lambda context, _: full.append(context.text("a")[-4:]))
    watched.before_stream(context)
    watched.on_chunk(Chunk(content="x" * 100_000), context)
    watched.on_chunk(Chunk(content="last"), context)
    assert full == ["xxxx", "last"]


async def test_json_thinking_is_visible_while_it_streams() -> None:
    context = Context({"p__reasoning": ["old"]})
    handler = JsonHandler("p_")
    handler.before_stream(context)
    assert not context
    handler.on_chunk(Chunk(reasoning="one "), context)
    handler.on_chunk(Chunk(content="{"), context)
    handler.on_chunk(Chunk(reasoning="two"), context)
    assert dict(context) == {"p__reasoning": ["one two"]}
    await handler.handle(Completion(content="{}"), context)
    assert not context


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=20
)


def leaves_by_name(text: str) -> dict[str, list[object]]:
    """The oracle: reads the JSON as a line of tokens and remembers which name is in force, without building values."""
    found: dict[str, list[object]] = {}
    names: list[str | None] = [None]
    pending: str | None = None
    waits_for_name: list[bool] = []
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        char = text[position]
        if char in "{[":
            names.append(pending if pending is not None else names[-1])
            waits_for_name.append(char == "{")
            pending = None
        elif char in "}]":
            names.pop()
            waits_for_name.pop()
        elif char == ":":
            waits_for_name[-1] = False
        elif char == ",":
            pending = None
            waits_for_name[-1] = text[_opening(text, position)] == "{"
        else:
            value, end = decoder.raw_decode(text, position)
            if waits_for_name and waits_for_name[-1]:
                pending = value
            elif (name := pending if pending is not None else names[-1]) is not None:
                found.setdefault(name, []).append(value)
            position = end
            continue
        position += 1
    return found


def _opening(text: str, end: int) -> int:
    """Where the object or list begins that goes on at `end`."""
    open_at: list[int] = []
    inside = False
    position = 0
    while position < end:
        char = text[position]
        if inside:
            position += char == "\\"
            inside = char != '"'
        elif char == '"':
            inside = True
        elif char in "{[":
            open_at.append(position)
        elif char in "}]":
            open_at.pop()
        position += 1
    return open_at[-1]


def shown(value: object) -> str:
    words = {None: "", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return words[value]
    return value if isinstance(value, str) else repr(value)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_flattening_agrees_with_the_order_of_the_text(value: dict[str, object]) -> None:
    text = json.dumps(value, separators=(",", ":"))
    expected = {name: [shown(leaf) for leaf in leaves] for name, leaves in leaves_by_name(text).items()}
    assert flattened(json.loads(text)) == expected


@given(st.dictionaries(NAMES, VALUES, max_size=4))
async def test_json_answers_come_back_whole(value: dict[str, object]) -> None:
    context = Context()
    answer = f"Here it is: {json.dumps(value, indent=1)} That is all."
    assert await JsonHandler("p_").handle(Completion(content=answer), context) is DONE
    assert dict(context) == {f"p_{name}": texts for name, texts in flattened(json.loads(json.dumps(value))).items()}
