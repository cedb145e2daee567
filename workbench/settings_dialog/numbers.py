"""Typed numbers: what is taken, and the words for what is not."""

import re
from decimal import Decimal

from PySide6.QtCore import QCoreApplication

translate = QCoreApplication.translate

MOST = 10**12
"""The largest whole number a limit may be."""
_MONEY = re.compile(r"\d{1,9}([.,]\d{1,2}|\.\d{3,6})?", re.ASCII)
"""A comma has at most two digits behind it: `1,000` may mean one or a thousand."""


def whole_number(name: str, text: str, least: int = 1, most: int = MOST, *, empty: str = "") -> int | None:
    """A typed whole number, with or without commas between thousands; None for nothing where `empty` says what that is.

    Raises ValueError in words.
    """
    plain = text.replace(" ", "").replace(",", "")
    if not plain and empty:
        return None
    if plain.isascii() and plain.isdecimal() and len(plain) <= 15 and least <= int(plain) <= most:
        return int(plain)
    fault = translate("settings", "%1: found “%2”, expected a whole number from %3 to %4")
    raise ValueError(_filled(fault, name, text, empty, f"{least:,}", f"{most:,}"))


def money(name: str, text: str, *, empty: str = "") -> Decimal | None:
    """A typed amount of money; None for nothing where `empty` says what that is. Raises ValueError in words."""
    if not text and empty:
        return None
    if _MONEY.fullmatch(text):
        return Decimal(text.replace(",", "."))
    fault = translate("settings", "%1: found “%2”, expected an amount such as 0.50")
    raise ValueError(_filled(fault, name, text, empty))


def _filled(fault: str, name: str, text: str, empty: str, least: str = "", most: str = "") -> str:
    if empty:
        fault += translate("settings", ", or nothing for %5")
    for mark, value in (("%1", name), ("%3", least), ("%4", most), ("%5", empty), ("%2", text[:20])):
        fault = fault.replace(mark, value)
    return f"{fault}."
