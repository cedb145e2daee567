"""Timers tell when work ends, and how, also of generators that are left early."""

import re
from pathlib import Path
from typing import Any

import pytest

from engine.interceptors import current_run
from engine.timers import Timing, listening, timed, timer


@timed("count")
async def count(most: int):  # type: ignore[no-untyped-def]
    for number in range(most):
        yield number


@timed("fail")
async def fail() -> None:
    raise ValueError("no")


@timed("plain")
def plain(number: int) -> int:
    return number + 1


async def test_blocks_functions_and_generators_are_timed() -> None:
    ended: list[Timing] = []
    token = current_run.set("r1")
    try:
        with listening(ended.append):
            async with timer("outer"):
                assert plain(1) == 2
                with pytest.raises(ValueError, match="no"):
                    await fail()
            assert [number async for number in count(2)] == [0, 1]
            left = count(5)
            assert await anext(left) == 0
            await left.aclose()
    finally:
        current_run.reset(token)
    plain(1)  # nobody listens any more
    found = [(one.key, one.within, one.error) for one in ended]
    assert found == [
        ("plain", "outer", ""),
        ("fail", "outer", "ValueError"),
        ("outer", "", ""),
        ("count", "", ""),
        ("count", "", "GeneratorExit"),
    ]
    assert {one.run_id for one in ended} == {"r1"}
    assert all(one.milliseconds >= 0 for one in ended)


async def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text("utf-8")
    (code,) = (found for found in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def measured" in found)
    names: dict[str, Any] = {}
    exec(compile(code, "example", "exec"), names)
    assert len(await names["measured"]()) == 2
