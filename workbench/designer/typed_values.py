"""What is typed into lines: from a text to a value, and back. What cannot be taken raises ValueError in words."""

import re
from collections.abc import Callable, Sequence

from PySide6.QtCore import QCoreApplication

translate = QCoreApplication.translate


def optional(text: str) -> str | None:
    """A text, or nothing when it is empty."""
    return text or None


def names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def names_text(value: Sequence[str]) -> str:
    """Names as they are typed."""
    return ", ".join(value)


def whole_number(least: int, empty: int | None = None) -> Callable[[str], int | None]:
    """A parser of whole numbers; an empty text stands for `empty`."""

    def parse(text: str) -> int | None:
        if not text:
            return empty
        if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) < least:
            fault = translate("Inspector", "Found “%1”, expected a whole number from %2 to 999999999.")
            raise ValueError(fault.replace("%2", str(least)).replace("%1", text[:20]))
        return int(text)

    return parse


def number(least: float, *, above: bool = False, most: float = 1e12) -> Callable[[str], float | None]:
    """A parser of numbers from `least`, or only above it; an empty text is nothing."""

    def parse(text: str) -> float | None:
        if not text:
            return None
        try:
            value = float(text.replace(",", ".")) if len(text) <= 30 and text.isascii() else least - 1
        except ValueError:
            value = least - 1
        if not (least < value <= most if above else least <= value <= most):
            fault = translate("Inspector", "Found “%1”, expected a number from %2.")
            if above:
                fault = translate("Inspector", "Found “%1”, expected a number above %2.")
            raise ValueError(fault.replace("%2", f"{least:g}").replace("%1", text[:20]))
        return value

    return parse


def number_text(value: float) -> str:
    """A number as it is typed."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def one_line(text: str) -> str:
    r"""A text as it is typed in one line: `\n` and `\t` stand for the characters, `\\` for a backslash."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace("\t", r"\t")


def unescaped(text: str) -> str:
    """The text that is meant by a typed line."""
    return re.sub(r"\\([nt\\])", lambda found: {"n": "\n", "t": "\t"}.get(found[1], "\\"), text)
