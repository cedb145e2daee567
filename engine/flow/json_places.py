"""Finds where in a JSON text the values of some JSON paths stand, for problems that name line and column."""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from engine.errors import Problem

_TOKEN = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*+:)?|[\[\]{},]|[^\s\[\]{},":]++', re.DOTALL)


def placed(problems: Iterable[Problem], text: str) -> list[Problem]:
    """The problems with line and column of their paths in the text they were found in.

    A path that is not there, as that of a missing field, gets the place of what it should be in.
    """
    found = list(problems)
    wanted = {problem.path for problem in found if problem.path.startswith("$") and not problem.line}
    places = positions(text, wanted) if wanted else {}
    return [_with_place(problem, places, text) if problem.path in wanted else problem for problem in found]


def member(path: str, key: str) -> str:
    """The path of a member of an object."""
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key[:80], ensure_ascii=False)}]"


def positions(text: str, wanted: Collection[str]) -> dict[str, int]:
    """Path → position in the text, of the wanted paths and all they lie in; the text is JSON."""
    around = {path for name in wanted for path in above(name)}
    found: dict[str, int] = {}
    stack: list[tuple[str, int]] = []  # container, and the number of its next element, -1 in an object
    path = "$"
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if token[2] is not None:
            path = member(stack[-1][0], json.loads(token[1])) if stack and stack[-1][0] else ""
            continue
        if first in "]}":
            stack.pop()
            continue
        if first == ",":
            continue
        if stack and stack[-1][1] >= 0:
            container, index = stack[-1]
            path = f"{container}[{index}]" if container else ""
            stack[-1] = (container, index + 1)
        if path and path in around:
            found.setdefault(path, token.start())
        if first in "[{":
            stack.append((path if path in around else "", 0 if first == "[" else -1))
    return found


def above(path: str) -> Iterator[str]:
    """A path and those of all it lies in, the longest first."""
    while path:
        yield path
        path = path[: max(path.rfind("."), path.rfind("["))] if path != "$" else ""


def _with_place(problem: Problem, places: dict[str, int], text: str) -> Problem:
    position = next((places[path] for path in above(problem.path) if path in places), None)
    if position is None:
        return problem
    line = text.count("\n", 0, position) + 1
    return replace(problem, line=line, column=position - text.rfind("\n", 0, position))
