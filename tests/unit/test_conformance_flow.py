"""The vectors of flows, templates and handlers."""

from pathlib import Path

import pytest

from tests.conformance import csv_handler, json_handler, templates, trace
from tests.conformance.__main__ import cases_of, run_case
from tests.conformance.cases import Case

VECTORS = Path(__file__).parent.parent / "vectors"
KINDS = {**templates.KINDS, **json_handler.KINDS, **csv_handler.KINDS, **trace.KINDS}

CASES = [
    case
    for name in ("templates", "json_handler", "csv_handler", "trace")
    for case in cases_of(VECTORS / f"{name}.json")
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_vector(case: Case) -> None:
    problems = await run_case(case, KINDS)
    assert not problems, "\n".join(problems)


def test_no_vector_is_lost() -> None:
    assert len(CASES) == 109
