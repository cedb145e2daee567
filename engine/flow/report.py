"""Collects the problems a check finds, with a guess at what was meant."""

import difflib
from collections.abc import Collection

from engine.errors import Problem

_MOST_NAMES = 500
"""Names to compare with; more take too long for a guess."""
_MOST_GUESSES = 50
"""Guesses at what was meant; each compares a name with many others."""


class Report:
    """The problems of one file, in the order they were found."""

    def __init__(self, file: str = "") -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._guesses = 0

    def error(self, path: str, message: str, agent: str = "") -> None:
        """Add a problem that stops a run."""
        self._add("error", path, message, agent)

    def warning(self, path: str, message: str, agent: str = "") -> None:
        """Add a problem that does not."""
        self._add("warning", path, message, agent)

    def near(self, name: str, known: Collection[str]) -> str:
        """The end of a message about an unknown name: a guess what was meant, or a full stop."""
        self._guesses += 1
        return (did_you_mean(name, known) if self._guesses <= _MOST_GUESSES else "") or "."

    def _add(self, severity: str, path: str, message: str, agent: str) -> None:
        self.problems.append(Problem(severity=severity, message=message, file=self._file, path=path, agent=agent))


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of a message about an unknown name: `; did you mean "…"?`, or nothing when no known one is similar."""
    near = nearest(name, known)
    return f'; did you mean "{near}"?' if near else ""


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that is most like another one, empty when none is like it or there are too many to compare."""
    if len(known) > _MOST_NAMES or len(name) > 100:
        return ""
    by_lower = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(name.strip().lower(), by_lower, 1)
    return by_lower[near[0]] if near else ""
