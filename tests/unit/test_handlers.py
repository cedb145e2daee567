import threading

import pytest

from engine.completion import Completion
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
