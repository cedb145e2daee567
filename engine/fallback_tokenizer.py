"""The fallback tokenizer: no model's real tokens, but a stable and reversible approximation, without any data."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import filterfalse

_SPACE_SIZE = 6
_DIGIT_SIZE = 3
_LETTER_SIZE = 4
_BYTE_SIZE = 6

_SLICE = 16_384
"""Characters."""

_KINDS = bytes(
    ord(" ")
    if chr(code).isspace()
    else ord("a")
    if chr(code).isalpha()
    else ord("0")
    if chr(code).isdecimal()
    else ord(".")
    for code in range(128)
).ljust(256, b".")
"""Each ASCII character as one of its kind: blank, letter, digit, other."""
_LINES = re.compile(r"\n(?=\S)")
"""Behind it the count may be cut."""
_BOUNDARY = re.compile(r"\s(?=\S)")
_THREE_BYTES = re.compile("[\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+")
"""Letters of Chinese, Japanese and Korean; each takes three bytes."""

_RUN = re.compile(r"\s+|[^\W_]+|.", re.DOTALL)
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]+")


def fallback_pieces(text: str) -> Iterator[str]:
    """Cut text into the pieces of the fallback tokenizer, one token each; joined they are the text."""
    for match in _RUN.finditer(text):
        run = match[0]
        if run.isspace():
            yield from _sized(run, _SPACE_SIZE) if run.isascii() else _by_bytes(run)
        elif run.isascii() or len(run) == 1:
            yield from _word_pieces(run)
        else:
            # `\w` knows more numbers (², Ⅷ) than letters and decimal digits: those stand alone.
            yield from _split_other_numbers(run)


def fallback_encode(text: str) -> list[int]:
    """Token ids of the fallback tokenizer: the length of a piece in bytes, then its UTF-8 bytes, least byte first."""
    encoded = (piece.encode("utf-8", "surrogatepass") for piece in fallback_pieces(text))
    return [int.from_bytes(bytes((len(data),)) + data, "little") for data in encoded]


def fallback_decode(tokens: Sequence[int]) -> str:
    """The text of ids made by `fallback_encode`; raises ValueError for others."""
    data = bytearray()
    for token in tokens:
        try:
            data += (token >> 8).to_bytes(token & 0xFF, "little")
        except OverflowError:
            raise ValueError(f"{token} is no token of the fallback tokenizer") from None
    return data.decode("utf-8", "surrogatepass")


def fallback_count(text: str) -> int:
    """How many tokens the fallback tokenizer makes of the text, without making them: 16 KB cost about 0.2 ms."""
    if text.isascii():
        return _count_ascii(text)
    lines = _LINES.split(text)
    plain, mixed = list(filter(str.isascii, lines)), list(filterfalse(str.isascii, lines))
    (mixed if lines[-1].isascii() else plain).append("")  # the last line has no end
    return _count_ascii("\n".join(plain)) + _count_mixed("\n".join(mixed))


def count_slices(text: str) -> Iterator[str]:
    """Cut a text where no piece is torn: the counts of the slices add up. Each is counted within a moment."""
    start = 0
    while len(text) - start > _SLICE:
        boundary = _BOUNDARY.search(text, start + _SLICE)
        if boundary is None:
            break
        yield text[start : boundary.end()]
        start = boundary.end()
    yield text[start:]


def _count_ascii(text: str) -> int:
    kinds = text.encode("ascii").translate(_KINDS)
    symbols = kinds.count(b".")
    total = symbols + _count_spaces(kinds)
    # Few words differ in length and kind: what is counted is how often each shape occurs.
    for shape, times in Counter((kinds.replace(b".", b" ") if symbols else kinds).split()).items():
        size = _LETTER_SIZE if b"0" not in shape else _BYTE_SIZE if b"a" in shape else _DIGIT_SIZE
        total += -(-len(shape) // size) * times
    return total


def _count_spaces(kinds: bytes) -> int:
    """Groups of at most six blanks."""
    if b"  " not in kinds:
        return kinds.count(b" ")
    kinds = kinds.replace(b" " * _SPACE_SIZE, b"~")
    for shorter in (b"   ", b"  ", b"  "):  # what is left of a run, five at most, becomes one
        kinds = kinds.replace(shorter, b" ")
    return kinds.count(b"~") + kinds.count(b" ")


def _count_mixed(text: str) -> int:
    words, spaces = _WORD.findall(text), _SPACE.findall(text)
    wide = list(filterfalse(str.isascii, words))
    other = list(filterfalse(_THREE_BYTES.fullmatch, wide))
    lengths = Counter(map(len, wide))
    lengths.subtract(map(len, other))
    return (
        _count_ascii(" ".join(filter(str.isascii, words)))
        - max(0, len(words) - len(wide) - 1)  # the blanks between
        + sum(-(-length // (_BYTE_SIZE // 3)) * times for length, times in lengths.items())
        + sum(sum(1 for _ in _split_other_numbers(run)) for run in other)
        + sum(sum(1 for _ in _by_bytes(space)) for space in filterfalse(str.isascii, spaces))
        + sum(-(-len(space) // _SPACE_SIZE) for space in filter(str.isascii, spaces))
        + len(text)
        - sum(map(len, words))
        - sum(map(len, spaces))
    )


def _word_pieces(run: str) -> Iterator[str]:
    if run.isascii() and run.isdecimal():
        return _sized(run, _DIGIT_SIZE)
    if run.isascii() and run.isalpha():
        return _sized(run, _LETTER_SIZE)
    return _by_bytes(run)


def _split_other_numbers(run: str) -> Iterator[str]:
    start = 0
    for index, character in enumerate(run):
        if not (character.isalpha() or character.isdecimal()):
            if start < index:
                yield from _word_pieces(run[start:index])
            yield character
            start = index + 1
    if start < len(run):
        yield from _word_pieces(run[start:])


def _sized(run: str, size: int) -> Iterator[str]:
    return (run[start : start + size] for start in range(0, len(run), size))


def _by_bytes(run: str) -> Iterator[str]:
    piece, size = "", 0
    for character in run:
        width = len(character.encode("utf-8", "surrogatepass"))
        if piece and size + width > _BYTE_SIZE:
            yield piece
            piece, size = "", 0
        piece += character
        size += width
    if piece:
        yield piece
