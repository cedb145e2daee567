"""Every streamed wire fixture through its reader, without a socket: how the bytes are cut makes no difference."""

import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.clients.failures import Place
from engine.conversation import Conversation
from engine.errors import RequestError
from engine.profile import ModelProfile, ProfileOptions
from tests.conformance.wire import PROVIDERS, SUFFIX, THINK_TAGS, Fixture, fixture_at
from tests.helpers.tampered import mutated

FIXTURES = Path(__file__).parents[1] / "fixtures" / "wire"


def streams() -> list[Fixture]:
    found = [fixture_at(path) for path in sorted(FIXTURES.rglob(f"*{SUFFIX}"))]
    kinds = (".sse", ".ndjson")
    return [
        fixture
        for fixture in found
        if fixture and fixture.runs and any(fixture.path.with_name(fixture.name + kind).exists() for kind in kinds)
    ]


def read(fixture: Fixture, pieces: list[bytes]) -> dict[str, Any]:
    """All that came of a body, the text as it was shown included."""
    tags: Any = fixture.expected.get("think_tags")
    profile = ModelProfile(
        name="cut",
        category="M",
        provider=PROVIDERS[str(fixture.expected["api"])],
        url="http://h",
        prompt_strategy="noop",
        options=ProfileOptions(think_tags=THINK_TAGS[tags]),
    )
    request = ChatRequest.create(profile, Conversation.create("", "hi"))
    reader = client_for(profile).reader(request, Place.of(profile, "http://h"), {})
    chunks = []
    for piece in pieces:
        if not (reader.ended or reader.error):
            chunks += reader.feed(piece)
    chunks += reader.close()
    answer = reader.answer
    made = {item.name: getattr(answer, item.name) for item in fields(answer) if item.name not in ("resume", "pieces")}
    made["calls"] = [(call.name, call.arguments) for call in answer.calls]  # some ids are made here
    assert reader.error is None or isinstance(reader.error, RequestError)
    shown = ["".join(chunk.content for chunk in chunks), "".join(chunk.reasoning for chunk in chunks)]
    return made | {"shown": shown, "error": repr(reader.error)}


def check(fixture: Fixture, seeds: range) -> None:
    body = fixture.body
    whole = read(fixture, [body])
    content = str(fixture.expected["content"])
    if fixture.expected["api"] == "completions":  # raw answers have no outer white space
        content = content.strip()
    assert whole["shown"] == [content, fixture.expected["reasoning"]]
    assert read(fixture, [body[place : place + 1] for place in range(len(body))]) == whole
    for seed in seeds:
        chance = random.Random(seed)
        places = sorted(chance.choices(range(len(body)), k=chance.randint(1, 40)))
        pieces = [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]
        assert read(fixture, pieces) == whole, f"seed {seed}"


@pytest.mark.parametrize("fixture", streams(), ids=lambda fixture: fixture.name)
def test_cuts(fixture: Fixture) -> None:
    check(fixture, range(10))


@pytest.mark.soak
@pytest.mark.parametrize("fixture", streams(), ids=lambda fixture: fixture.name)
def test_two_hundred_cuts(fixture: Fixture) -> None:
    check(fixture, range(200))


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.soak)])
def test_tampered_streams_of_every_dialect_raise_nothing_else_and_are_read_alike_in_pieces(count: int) -> None:
    fixtures = streams()
    for seed in range(count):
        fixture, chance = fixtures[seed % len(fixtures)], random.Random(seed)
        body = mutated(fixture.body, chance)
        size = chance.randint(1, 50)
        whole, pieces = read(fixture, [body]), read(fixture, [body[at : at + size] for at in range(0, len(body), size)])
        for name in ("content", "reasoning", "calls", "finish", "refusal", "skipped", "shown"):
            assert pieces[name] == whole[name], f"seed {seed}: {name} of {fixture.name}"


def test_that_the_fixtures_are_there() -> None:
    assert len(streams()) >= 40
