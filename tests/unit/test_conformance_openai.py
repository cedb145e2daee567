"""The vectors of OpenAI messages, and of streams in their form."""

from pathlib import Path

import pytest

from tests.conformance import messages_openai
from tests.conformance.__main__ import cases_of, run_case
from tests.conformance.cases import Case

VECTORS = Path(__file__).parent.parent / "vectors"
CASES = [
    case
    for name in ("messages_openai", "tool_stream")
    for case in cases_of(VECTORS / f"{name}.json")
    if case.kind in messages_openai.KINDS and case.kind != "openai"  # those need a server: tests/wire
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_vector(case: Case) -> None:
    problems = await run_case(case, messages_openai.KINDS)
    assert not problems, "\n".join(problems)


def test_no_vector_is_lost() -> None:
    assert len(CASES) == 16
