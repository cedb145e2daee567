import csv
import io
import threading
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.completion import Chunk, Completion
from engine.flow.context import Context
from engine.flow.csv_handlers import CsvHandler, CsvRowsHandler, cell_text, read_rows
from engine.flow.handlers import DONE, Again, Done

CELLS = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\\"), max_size=8)


def rows_of(answer: str, *headings: str, separator: str = ";") -> list[tuple[str, ...]]:
    return list(read_rows(answer, headings, separator).rows)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ('say "hi"', 'say "hi"'),
        ('"say ""hi"""', 'say "hi"'),
        ("'it''s'", "it''s"),
        ("„Haus“", "Haus"),
        ("“a”", "a"),
        ("'a\"", "'a\""),
        ('""', ""),
        ('"', '"'),
        ('""a""', '"a"'),
    ],
)
def test_a_cell_loses_one_pair_of_quotes(cell: str, text: str) -> None:
    assert cell_text(f"  {cell} ") == text


def test_a_pair_around_the_whole_text_goes_unless_its_marks_are_used_inside() -> None:
    assert rows_of("'a;b\nc;d'", "x", "y") == [("a", "b"), ("c", "d")]
    assert rows_of('"a";"b"', "x", "y") == [("a", "b")]


def test_separators_inside_double_quotes() -> None:
    assert rows_of('"a;b" ; c', "x", "y") == [("a;b", "c")]
    assert rows_of('1;"a "" ; b";\'c\'', "x", "y", "z") == [("1", 'a " ; b', "c")]
    assert rows_of('a;"never closed;b', "x", "y") == []


def test_one_column_takes_lines_whole() -> None:
    assert rows_of("```\nWord\n- one; two\n\nthree\n```", "word") == [("- one; two",), ("three",)]


def test_a_line_of_headings_inside_the_data_is_data() -> None:
    assert rows_of("b;a\n1;2\na;b", "a", "b") == [("1", "2"), ("a", "b")]


async def test_dropped_rows_are_told() -> None:
    result = await CsvHandler(["a", "b"]).handle(Completion(content="1;2\n1;2;3\nx;y;z"), Context())
    assert result == Done("2 rows of the answer were left out: the cells do not fit the columns.")
    one = await CsvHandler(["a", "b"]).handle(Completion(content="1;2\n1;2;3"), Context())
    assert one == Done("1 row of the answer was left out: the cells do not fit the columns.")


async def test_thinking_is_kept_beside_the_columns() -> None:
    context = Context({"p__reasoning": ["old"]})
    handler = CsvHandler(["a"], "p_")
    handler.before_stream(context)
    assert "p__reasoning" not in context
    handler.on_chunk(Chunk(reasoning="it "), context)
    handler.on_chunk(Chunk(reasoning="is"), context)
    assert context["p__reasoning"] == ["it is"]
    assert await handler.handle(Completion(content="1", reasoning="it is 1"), context) is DONE
    assert dict(context) == {"p_a": ["1"], "p__reasoning": ["it is 1"]}
    handler.keep(Completion(content="2", reasoning="it was"), context)
    assert dict(context) == {"p_a": ["1"], "p__reasoning": ["it was"]}


@dataclass(frozen=True)
class Row:
    name: str
    tags: tuple[str, ...]
    score: float | None = None


async def test_rows_become_objects() -> None:
    context = Context()
    result = await CsvRowsHandler(Row, "rows").handle(Completion(content="A;x, y;1.5\n;x;1\nB;;null\nC;x;one"), context)
    assert context["rows"] == [Row("A", ("x", "y"), 1.5), Row("B", ())]
    assert isinstance(result, Done)
    assert result.warning.startswith("2 rows")
    no_lists = CsvRowsHandler(Row, "rows", list_separator=None)
    await no_lists.handle(Completion(content="A;x, y;"), context)
    assert context["rows"] == [Row("A", ())]
    again = await no_lists.handle(Completion(content="A;x;one"), context)
    assert isinstance(again, Again)
    assert "name;tags;score" in again.correction


def test_objects_show_as_json_in_prompts() -> None:
    context = Context({"rows": [Row("A", ("x",), 1.5)]})
    assert context.text("rows") == '{"name":"A","tags":["x"],"score":1.5}'


@dataclass
class Odd:
    when: complex


def test_what_a_handler_refuses() -> None:
    with pytest.raises(TypeError, match=r"Odd.when is .*complex.*, expected text"):
        CsvRowsHandler(Odd)
    with pytest.raises(TypeError, match="is no dataclass"):
        CsvRowsHandler(str)
    with pytest.raises(ValueError, match="both separated"):
        CsvRowsHandler(Row, separator=",")
    with pytest.raises(ValueError, match="needs headings"):
        CsvHandler(["a", " "])
    with pytest.raises(ValueError, match="cannot be separated"):
        CsvHandler(["a"], separator="\n")


async def test_a_long_answer_is_read_off_the_loop() -> None:
    context = Context()
    threads: set[str] = set()

    class Watching(str):
        def replace(self, *args: object) -> str:
            threads.add(threading.current_thread().name)
            return str.replace(self, *args)  # type: ignore[arg-type]

    await CsvHandler(["a", "b"]).handle(Completion(content=Watching("1;2\n" * 10_000)), context)
    assert len(context["a"]) == 10_000
    assert threading.main_thread().name not in threads


@given(
    st.text(),
    st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=4),
    st.sampled_from([";", ",", "||", " "]),
)
def test_no_text_is_too_odd(answer: str, headings: list[str], separator: str) -> None:
    found = read_rows(answer, headings, separator)
    assert all(len(row) == len(headings) for row in found.rows)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=5), st.sampled_from([";", ",", "|"]))
def test_quoted_cells_come_back_as_they_were(rows: list[list[str]], separator: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    headings = ("heading 1", "heading 2", "heading 3")
    assert rows_of(written.getvalue(), *headings, separator=separator) == [tuple(row) for row in rows]
