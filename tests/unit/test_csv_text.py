"""CSV for spreadsheets acts on nothing and loses nothing else; the exact form loses nothing."""

from decimal import Decimal
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.csv_text import Cell, CsvWriter, delimiter_of, guarded, unique_names
from engine.dataset import Dataset

PIECES = st.sampled_from(
    ["=", "+", "-", "@", "\t", "\r", "\n", "\r\n", '"', '""', "'", ",", ";", " ", "\0", "\ufeff", "1"]
)
NASTY = st.lists(st.one_of(PIECES, st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), max_size=6)
CELLS = st.lists(NASTY.map("".join), min_size=200, max_size=200)


def written(*rows: list[Cell], exact: bool = False) -> bytes:
    sink = BytesIO()
    writer = CsvWriter(sink, exact=exact)
    for row in rows:
        writer.row(row)
    return sink.getvalue()


@pytest.mark.parametrize(
    "text", ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "-", "- 5", "-1-1", "=", "+1 (2)", "-٣"]
)
def test_formulas_are_guarded(text: str) -> None:
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=1", " =1", "-5", "+3.14", "-1e5", "'=1", "5-3", "١"])
def test_numbers_and_other_texts_stay(text: str) -> None:
    assert guarded(text) == text


def test_numbers_are_written_without_quotes() -> None:
    assert written([-5, 2.5, Decimal("-0.07"), "-5", "=A1"]) == b'-5,2.5,-0.07,"-5","\'=A1"\r\n'


@pytest.mark.parametrize(
    ("header", "sign"),
    [
        ("a,b", ","),
        ("a;b", ";"),
        ("a\tb", "\t"),
        ("a", ","),
        ("", ","),
        ('"a;b;c",d', ","),
        ('"a""b;c"', ","),
        ("a;b,c;d", ";"),
    ],
)
def test_the_first_line_tells_the_delimiter(header: str, sign: str) -> None:
    assert delimiter_of(header) == sign


def test_names_are_made_unique() -> None:
    assert unique_names(["row", "a", "output.row"], ["row"], "output.") == ["output.row", "a", "output.output.row"]


def read(path: Path, data: bytes) -> tuple[list[str], list[list[object]]]:
    path.write_bytes(data)
    dataset = Dataset(path)
    with dataset.rows() as rows:
        found = list(rows)
    assert [row.fault for row in found] == [""] * len(found)
    return list(dataset.columns), [list(row.values.values()) for row in found]


@given(cells=CELLS, columns=st.sampled_from([1, 4, 8]), header=NASTY.map("".join))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_200_cells_come_back(cells: list[str], columns: int, header: str, tmp_path: Path) -> None:
    names = [f"{header}{column}" for column in range(columns)]
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    data = written(list(names), *[list(row) for row in rows], exact=True)
    assert read(tmp_path / "exact.csv", data) == (names, rows)
    data = written(list(names), *[list(row) for row in rows])
    guarded_names, guarded_rows = [guarded(name) for name in names], [[guarded(cell) for cell in row] for row in rows]
    assert read(tmp_path / "guarded.csv", data) == (guarded_names, guarded_rows)
    for original, row in zip(rows, guarded_rows, strict=True):
        assert all(cell in (before, f"'{before}") for cell, before in zip(row, original, strict=True))


def test_half_a_character_is_replaced() -> None:
    assert written(["a\ud800"], exact=True) == b'"a?"\r\n'
