"""One key of a file changes, every other byte stays."""

import javaproperties
from hypothesis import example, given
from hypothesis import strategies as st

from engine.profile_edit import with_property

TEXTS = st.text(st.characters(max_codepoint=0xFF), max_size=12)
LINES = st.one_of(
    st.builds("# {}".format, TEXTS.map(lambda text: text.replace("\n", "").replace("\r", ""))),
    st.just(""),
    st.builds(javaproperties.join_key_value, st.sampled_from(["a", "b", "key", "long.key"]), TEXTS),
    st.just("key = one \\\n   two"),
)
FILES = st.builds(
    lambda lines, end, last: end.join(lines) + (end if last else ""),
    st.lists(LINES, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
).map(lambda text: text.encode("iso-8859-1"))


def read(data: bytes) -> dict[str, str]:
    return dict(javaproperties.loads(data.decode("iso-8859-1")))


@given(FILES, st.sampled_from(["key", "new"]), st.text(max_size=12))
@example(b"key=\xc3\xa4\nother=1", "key", "\u00e4 \U0001f600")
def test_a_value_is_set_and_the_others_stay(data: bytes, key: str, value: str) -> None:
    changed = with_property(data, key, value)
    before = read(data)
    assert read(changed) == before | {key: value}
    assert list(read(changed)) == list(before | {key: value})


@given(FILES)
def test_without_a_key_only_its_lines_are_gone(data: bytes) -> None:
    changed = with_property(data, "key", None)
    assert read(changed) == {name: value for name, value in read(data).items() if name != "key"}
    if "key" not in read(data):
        assert changed == data


def test_only_the_line_that_counts_changes() -> None:
    data = b"# n\xf6te\r\nkey=1\r\n\r\n! x\r\nkey : 2 \\\r\n  3\r\nother=4\r\n"
    expected = b"# n\xf6te\r\nkey=1\r\n\r\n! x\r\nkey=new\r\nother=4\r\n"
    assert with_property(data, "key", "new") == expected
