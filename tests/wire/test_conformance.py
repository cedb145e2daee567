"""Every wire fixture the clients of this version can read, served by a real loopback server."""

from pathlib import Path

import pytest

from engine.clients import CLIENTS
from tests.conformance import messages_openai
from tests.conformance.__main__ import cases_of, run_case
from tests.conformance.cases import Case
from tests.conformance.wire import PROVIDERS, SUFFIX, Fixture, fixture_at, run_fixture

FIXTURES = Path(__file__).parents[1] / "fixtures" / "wire"


def readable() -> list[Fixture]:
    found = [fixture_at(path) for path in sorted(FIXTURES.rglob(f"*{SUFFIX}"))]
    return [fixture for fixture in found if fixture and PROVIDERS.get(str(fixture.expected.get("api"))) in CLIENTS]


def test_that_the_fixtures_are_there() -> None:
    assert len(readable()) >= 50


@pytest.mark.parametrize("fixture", readable(), ids=lambda fixture: fixture.name)
async def test_fixture(fixture: Fixture) -> None:
    assert await run_fixture(fixture) == []


STREAMS = [
    case for case in cases_of(Path(__file__).parents[1] / "vectors" / "tool_stream.json") if case.kind == "openai"
]


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.id)
async def test_stream_vector(case: Case) -> None:
    assert await run_case(case, messages_openai.KINDS) == []


def test_that_the_streams_are_there() -> None:
    assert len(STREAMS) == 11
