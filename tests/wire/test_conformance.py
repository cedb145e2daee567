"""Every wire fixture the clients of this version can read, served by a real loopback server."""

from pathlib import Path

import pytest

from engine.clients import CLIENTS
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
