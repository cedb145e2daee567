"""Datasets are read row by row; every fault has its line, and none keeps the others from being read."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from engine import dataset as module
from engine.dataset import Dataset, Row, RowInputs, RowReader, check_dataset, look_through
from engine.errors import DatasetInvalid
from engine.flow.flow_spec import FlowSpec, InputSpec

SPEC = FlowSpec(
    name="Reply",
    inputs=(
        InputSpec(key="message", type="text", required=True),
        InputSpec(key="stars", type="number", default=3),
        InputSpec(key="urgent", type="boolean", default=False),
        InputSpec(key="tags", type="list"),
        InputSpec(key="data", type="json"),
        InputSpec(key="letter", type="file"),
    ),
)


def made(tmp_path: Path, content: str | bytes, name: str = "data.csv") -> Dataset:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Dataset(path)


def rows(dataset: Dataset) -> list[Row]:
    with dataset.rows() as found:
        return list(found)


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_csv_with_each_delimiter(sign: str, tmp_path: Path) -> None:
    dataset = made(tmp_path, f"message{sign}stars\r\nHello{sign}4\r\n")
    assert [row.values for row in rows(dataset)] == [{"message": "Hello", "stars": "4"}]
    assert (dataset.delimiter, dataset.columns) == (sign, ("message", "stars"))


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    dataset = made(tmp_path, b"\xef\xbb\xbfmessage\nHello\n")
    assert rows(dataset)[0].values == {"message": "Hello"}


def test_quotes_hold_delimiters_quotes_and_lines(tmp_path: Path) -> None:
    dataset = made(tmp_path, 'message,stars\n"a, ""b""\nc",1\n\nd,2\n')
    found = rows(dataset)
    assert [row.values["message"] for row in found] == ['a, "b"\nc', "d"]
    assert [(row.index, row.line) for row in found] == [(1, 2), (2, 5)]


def test_faulty_rows_have_their_line_and_others_go_on(tmp_path: Path) -> None:
    dataset = made(tmp_path, 'message,stars\na,1\nb\nc,2,3\n"d"x,4\ne,5\n"f,6\n')
    assert [(row.line, row.fault) for row in rows(dataset)] == [
        (2, ""),
        (3, "found 1 cells, expected 2"),
        (4, "found 3 cells, expected 2"),
        (5, "',' expected after '\"'"),
        (6, ""),
        (7, "found a quote that is not closed"),
    ]


def test_jsonl_keeps_types_and_tells_faults(tmp_path: Path) -> None:
    lines = [
        '{"message": "a", "stars": 4.5, "tags": ["x"]}',
        "",
        "[1]",
        '{"message": ',
        '{"a": 1, "a": 2}',
        '{"message": NaN}',
    ]
    found = rows(made(tmp_path, "\n".join(lines), "data.jsonl"))
    assert found[0].values == {"message": "a", "stars": 4.5, "tags": ["x"]}
    assert [row.line for row in found] == [1, 3, 4, 5, 6]
    assert found[1].fault == "found a JSON value that is no object"
    assert found[2].fault.startswith("column 13: ")
    assert 'found the name "a" twice' in found[3].fault
    assert "NaN" in found[4].fault


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"message\nok\nna\xefve\n", "data.csv:3: found the byte 0xef at byte 3 of the line, expected UTF-8 text."),
        ("message\nx\n".encode("utf-16"), "data.csv: found UTF-16 or binary data, expected UTF-8 text."),
        (b"", "data.csv:1: found no names of columns, expected them in the first line."),
        (b"\n\n", "data.csv:1: found no names of columns, expected them in the first line."),
        (b"a,b,a\n", 'data.csv:1: found the column "a" more than once.'),
        (b'"a\n', "data.csv:1: found a quote that is not closed."),
        (b"a," * 1001 + b"a\n", "data.csv:1: found 1002 columns, expected at most 1000."),
    ],
)
def test_files_that_cannot_be_used(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetInvalid) as caught:
        rows(made(tmp_path, content))
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(("name", "start"), [("data.csv", b"message\n"), ("data.jsonl", b'{"message": "a"}\n')])
def test_a_line_without_end_is_named_before_it_fills_the_memory(name: str, start: bytes, tmp_path: Path) -> None:
    dataset = made(tmp_path, start, name)
    os.truncate(dataset.path, 5_000_000_000)
    with pytest.raises(DatasetInvalid, match=rf"{name}:2: found a row of more than 20,000,000 bytes"):
        rows(dataset)


def test_a_quote_that_is_never_closed_has_the_same_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_LIMIT", 1000)
    dataset = made(tmp_path, 'message\na\n"b' + "\nline" * 1000)
    with pytest.raises(DatasetInvalid, match=r"data.csv:\d+: found a row of more than 1,000 bytes"):
        rows(dataset)
    assert len(rows(made(tmp_path, "message\n" + "a\n" * 1000))) == 1000  # the limit is that of each row


def test_what_is_no_regular_file_is_refused_unopened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    for name, kind in (("pipe.csv", "a pipe"), ("folder.csv", "a folder")):
        with pytest.raises(DatasetInvalid, match=f"is {kind}, not a regular file"):
            rows(Dataset(tmp_path / name))
    with pytest.raises(DatasetInvalid, match="No such file"):
        rows(Dataset(tmp_path / "gone.csv"))
    with pytest.raises(DatasetInvalid, match=r"expected .csv or .jsonl"):
        Dataset(tmp_path / "data.xlsx")


def test_cells_become_inputs_of_the_declared_types(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Dear Ada")
    dataset = made(
        tmp_path,
        "message,stars,urgent,tags,data,letter\n"
        'Hello,4,yes,"[""a"",""b""]","{""x"": 1}",a.txt\n'
        "Bye,,,,,\n"
        ",1,,,,\n"
        "x,many,,,,\n"
        "x,1,,,,../secret\n"
        "x,1,,,,/etc/hostname\n",
    )
    inputs = RowInputs(dataset, SPEC, {})
    good, plain, *faulty = rows(dataset)
    assert inputs.context(good).values_copy() == {
        "message": ["Hello"],
        "stars": [4],
        "urgent": [True],
        "tags": ["a", "b"],
        "data": [{"x": 1}],
        "letter": ["Dear Ada"],
    }
    assert inputs.context(plain).values_copy()["stars"] == [3]
    assert [inputs.fault(row) for row in faulty] == [
        'The input "message": found nothing, expected a text',
        'The input "stars": found "many", expected a number with a decimal point',
        'The input "letter": found "../secret", expected a file in the folder of the dataset',
        'The input "letter": found "/etc/hostname", expected a file in the folder of the dataset',
    ]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    dataset = made(tmp_path / "in", "message,letter\na,link\n")
    assert "expected a file in the folder" in RowInputs(dataset, SPEC, {}).fault(rows(dataset)[0])


def test_a_check_reads_all_and_counts(tmp_path: Path) -> None:
    dataset = made(tmp_path, "message,mesage,stars\na,,1\nb,,x\nc\n")
    check = check_dataset(dataset, SPEC, {})
    assert (check.rows, check.faulty, check.columns) == (3, 2, ("message", "mesage", "stars"))
    assert [(problem.line, problem.message) for problem in check.faults] == [
        (3, 'The input "stars": found "x", expected a number with a decimal point'),
        (4, "found 1 cells, expected 3"),
    ]
    assert check.warnings == ('The column "mesage" is no input of the flow and not used; did you mean "message"?',)
    assert check.digest != check_dataset(made(tmp_path, "message\na\n"), SPEC, {}).digest


@pytest.mark.parametrize(
    ("content", "given", "messages"),
    [
        ("stars\n1\n", {}, ['There is no column for the input "message", which is required.']),
        ("mesage\na\n", {}, ['There is no column for the input "message", which is required; did you mean "mesage"?']),
        (
            "message\na\n",
            {"message": "b"},
            ['The input "message" is given for all rows and is a column, too; expected one of both.'],
        ),
        (
            "x\na\n",
            {"message": "b"},
            ["None of the columns (x) is an input; inputs are message, stars, urgent, tags, data, letter."],
        ),
        (
            "message\na\n",
            {"star": "1", "stars": "x"},
            [
                '"star" is not an input of the flow; did you mean "stars"?',
                'The input "stars": found "x", expected a number with a decimal point.',
            ],
        ),
    ],
)
def test_columns_that_do_not_fit(content: str, given: dict[str, object], messages: list[str], tmp_path: Path) -> None:
    with pytest.raises(DatasetInvalid) as caught:
        check_dataset(made(tmp_path, content), SPEC, given)
    assert [problem.message for problem in caught.value.problems] == messages


def test_jsonl_without_the_required_key_anywhere(tmp_path: Path) -> None:
    with pytest.raises(DatasetInvalid, match='no column for the input "message"'):
        check_dataset(made(tmp_path, '{"stars": 1}\n{"stars": 2}\n', "data.jsonl"), SPEC, {})


def test_a_dataset_without_rows(tmp_path: Path) -> None:
    with pytest.raises(DatasetInvalid, match="found no rows"):
        check_dataset(made(tmp_path, "message\n"), SPEC, {})


async def test_looking_through_ends_when_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = made(tmp_path, "message\n" + "a\n" * 1000)
    assert (await look_through(dataset, SPEC, {})).rows == 1000
    read: list[int] = []
    reached, go_on = threading.Event(), threading.Event()

    def fault(self: RowInputs, row: Row) -> str:
        read.append(row.index)
        reached.set()
        go_on.wait(60)
        return ""

    monkeypatch.setattr(RowInputs, "fault", fault)
    task = asyncio.create_task(look_through(dataset, SPEC, {}))
    await asyncio.to_thread(reached.wait, 60)
    task.cancel()
    await asyncio.wait([task])
    go_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert read == [1]


def test_identity_is_index_and_content() -> None:
    one, same, other = (Row(index=1, line=2, values={"a": value}) for value in ("x", "x", "y"))
    assert one.digest == same.digest != other.digest
    assert Row(index=1, line=2, values={"a": 1, "b": 2}).digest == Row(index=1, line=2, values={"b": 2, "a": 1}).digest


async def test_few_rows_are_held(tmp_path: Path) -> None:
    dataset = made(tmp_path, "message\n" + "".join(f"{index}\n" for index in range(100_000)))
    most = count = 0
    with RowReader(dataset) as reader:
        while (row := await reader.take()) is not None:
            count += 1
            assert row.values == {"message": str(count - 1)}
            most = max(most, len(reader.ahead))
            if count == 5000:
                break
    assert 0 < most < module.ROWS_AHEAD
