"""Reading `.properties` text: against an oracle written from Java's documentation, and what people get wrong."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.profile_file import SIZE_LIMIT, parse_properties, read_file

BLANK = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def java_load(text: str) -> dict[str, str]:
    """What `java.util.Properties.load` makes of text, from its documentation; ValueError for a bad \\u escape."""
    natural = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: dict[str, str] = {}
    index = 0
    while index < len(natural):
        line = natural[index].lstrip(BLANK)
        index += 1
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + (natural[index].lstrip(BLANK) if index < len(natural) else "")
            index += 1
        if line:
            key, value = split_line(line)
            found[unescape(key)] = unescape(value)
    return found


def split_line(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in BLANK + "=:":
        position += 2 if line[position] == "\\" else 1
    rest = line[position:].lstrip(BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANK)
    return line[:position], rest


def unescape(text: str) -> str:
    units: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\":
            if position == len(text):
                break
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                    raise ValueError(digits)
                character = chr(int(digits, 16))
                position += 4
            else:
                character = ESCAPES.get(character, character)
        units.append(character)
    return "".join(units).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


PIECES = st.sampled_from(
    [
        "a",
        "b",
        "key",
        "=",
        ":",
        " ",
        "\t",
        "\f",
        "\\",
        "\\\\",
        "#",
        "!",
        "\n",
        "\r",
        "\r\n",
        "\\n",
        "\\u00e9",
        "\\u4E2D",
        "é",
        "1.5",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_reads_what_java_reads(text: str) -> None:
    try:
        expected = java_load(text)
    except ValueError:
        expected = None
    read = parse_properties(text.encode("iso-8859-1"), "x.properties")
    faults = [problem for problem in read.problems if problem.severity == "error"]
    if expected is None:
        assert faults
    else:
        assert not faults
        assert {key: entry.value for key, entry in read.entries.items()} == expected


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_named_as_faults(data: bytes) -> None:
    read = parse_properties(data, "x.properties")
    for entry in read.entries.values():
        entry.value.encode("utf-8")
        assert 1 <= entry.line <= data.count(b"\n") + data.count(b"\r") + 1


def test_lines_are_those_where_entries_start() -> None:
    read = parse_properties(b"# one\n\na=1\r\nb=2,\\\n   3\r! no\rc 4\na = 5", "x.properties")
    assert [(key, entry.value, entry.line) for key, entry in read.entries.items()] == [
        ("b", "2,3", 4),
        ("c", "4", 7),
        ("a", "5", 8),
    ]
    assert [str(problem) for problem in read.problems] == [
        "x.properties:8:a: warning: a is already on line 3; this later line counts."
    ]


@pytest.mark.parametrize(
    ("data", "value", "notice"),
    [
        (b"k=caf\xe9", "café", ""),
        ("k=café".encode(), "café", "UTF-8"),
        (b"\xef\xbb\xbfk=1", "1", "byte order mark"),
        (b"k=\\u00e9\\uD83D\\uDE00", "é😀", ""),
    ],
)
def test_encodings(data: bytes, value: str, notice: str) -> None:
    read = parse_properties(data, "x.properties")
    assert read.text("k") == value
    assert all(problem.severity == "warning" and notice in problem.message for problem in read.problems)
    assert bool(read.problems) == bool(notice)


def test_the_utf8_notice_names_its_line() -> None:
    read = parse_properties("a=1\r\nb=2\nc=中".encode(), "x.properties")
    assert [problem.line for problem in read.problems] == [3]


def test_bad_escapes_are_listed_and_the_rest_is_read() -> None:
    read = parse_properties(b"a=\\u12\nb=2\nc=\\uD83D\nd=4\ne=\\uXYZW", "x.properties")
    assert list(read.entries) == ["b", "d"]
    assert [(problem.line, problem.severity) for problem in read.problems] == [(1, "error"), (3, "error"), (5, "error")]


def test_utf16_is_named() -> None:
    read = parse_properties("a=1".encode("utf-16"), "x.properties")
    assert not read.entries
    assert "UTF-16" in read.problems[0].message


def test_only_regular_files_up_to_the_limit_are_read(tmp_path: Path) -> None:
    large, pipe, circle = tmp_path / "large", tmp_path / "pipe", tmp_path / "circle"
    with large.open("wb") as file:
        file.truncate(SIZE_LIMIT + 1)
    os.mkfifo(pipe)
    circle.symlink_to(circle)
    for path in (large, pipe, circle, tmp_path, Path("/dev/zero"), tmp_path / "missing"):
        read = read_file(path)
        assert not read.entries
        assert [problem.severity for problem in read.problems] == ["error"]
        assert read.problems[0].file == str(path)
    just_right = tmp_path / "ok"
    just_right.write_bytes(b"a=1\n#" + b"x" * (SIZE_LIMIT - 5))
    assert read_file(just_right).text("a") == "1"
