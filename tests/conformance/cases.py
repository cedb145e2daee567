"""One vector, and how an actual value is compared with the expected one.

A runner module exposes `KINDS`: the kind of a vector → a function that takes the `Case` and returns the actual value
in the shape of `case.expect`. Where the vector format has rules of its own (sets, placeholders such as `<correction>`),
the runner fits its value to them, for instance by sorting, or by writing the placeholder where it is satisfied. An
exception fails the case.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One entry of a vector file."""

    path: Path
    id: str
    given: Mapping[str, object]
    expect: object
    note: str = ""

    @property
    def kind(self) -> str:
        """`given.kind` or `given.op`; truncation and image vectors have neither and are told by their keys.

        Operations that exist for two services have the name of Anthropic before them in its file.
        """
        given = self.given
        kind = str(
            given.get("kind")
            or given.get("op")
            or ("truncate" if "counter" in given else "image_tokens" if "provider" in given else "")
        )
        both = kind in ("messages", "request", "response") and "anthropic" in self.path.name
        return f"anthropic {kind}" if both else kind


Runner = Callable[[Case], Awaitable[object] | object]
Kinds = Mapping[str, Runner]

GENERATED_ID = re.compile(r"call_[0-9a-f]{24}")


def differences(expected: object, actual: object, place: str = "$") -> list[str]:
    """What differs as JSON: key order is free, 1 equals 1.0, true is no number, an `id` of `*` is any generated id."""
    match expected, actual:
        case dict(), dict():
            return _map_differences(expected, actual, place)
        case ((list() | tuple()), (list() | tuple())):
            found = (
                [] if len(expected) == len(actual) else [f"{place}: expected {len(expected)} items, got {len(actual)}"]
            )
            for index, (wanted, got) in enumerate(zip(expected, actual, strict=False)):
                found += differences(wanted, got, f"{place}[{index}]")
            return found
    if expected == "*" and place.endswith(".id") and isinstance(actual, str) and GENERATED_ID.fullmatch(actual):
        return []
    if isinstance(expected, bool) == isinstance(actual, bool) and expected == actual:
        return []
    return [f"{place}: expected {expected!r}, got {actual!r}"]


def _map_differences(expected: dict[str, object], actual: dict[str, object], place: str) -> list[str]:
    found = [f"{place}.{key}: missing" for key in expected.keys() - actual.keys()]
    found += [f"{place}.{key}: not expected, got {actual[key]!r}" for key in actual.keys() - expected.keys()]
    for key in expected.keys() & actual.keys():
        found += differences(expected[key], actual[key], f"{place}.{key}")
    return sorted(found)
