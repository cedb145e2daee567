"""Keeps a part of the panel that raises from holding up the others."""

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class ErrorGuard:
    """Runs calls of several parts; of each part only the first error is told, until `forget`."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def run(self, part: object, call: Callable[[], object]) -> bool:
        """Call, and say whether it went well; an error goes where unhandled ones go."""
        try:
            call()
        except Exception as error:
            self._tell(part, error)
            return False
        return True

    def run_each(self, part: object, call: Callable[[T], object], items: Iterable[T]) -> None:
        """Call with each of the items, those behind one that raises as well."""
        for item in items:
            try:
                call(item)
            except Exception as error:
                self._tell(part, error)

    def _tell(self, part: object, error: Exception) -> None:
        if id(part) not in self._told:
            self._told.add(id(part))
            sys.excepthook(type(error), error, error.__traceback__)

    def forget(self) -> None:
        """Tell errors again."""
        self._told.clear()
