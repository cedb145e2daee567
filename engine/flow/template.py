"""Placeholders in prompts: `{{{key}}}` JSON list, `{{key}}` joined text, `[[key]]` and `[[key|hidden]]` split.

A template is cut once; inserted values are never scanned. What stays open are the slots of the keys that split it, so
a fan-out fills them branch by branch and never holds all texts at once.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from engine.flow.context import Context, json_form, text_of

log = logging.getLogger(__name__)

JOINER = "\n\n"
"""Between the values of one `{{key}}`."""
LONG = 1_000_000
"""Characters of values that are better inserted in a thread."""
_PIECE = 1_000_000
_LOOKED_AT = 64


class Slot(NamedTuple):
    """A place that each split fills with its own element of a key."""

    key: str
    hidden: bool = False
    """Splits and narrows the key, but shows nothing."""

    @property
    def source(self) -> str:
        """The placeholder as written."""
        return f"[[{self.key}|hidden]]" if self.hidden else f"[[{self.key}]]"


Parts = tuple[str | Slot, ...]
"""An expanded template: texts, and slots where it splits."""


class _Insert(NamedTuple):
    key: str
    as_json: bool
    source: str


def expand(template: str, context: Mapping[str, Sequence[object]]) -> Parts:
    """Resolve `{{{key}}}` and `{{key}}`; keys the context does not have stay literally."""
    if "{{" not in template and "[[" not in template:
        return (template,) if template else ()
    parts: list[str | Slot] = []
    for segment in _segments(template, tuple(context)):
        if isinstance(segment, _Insert):
            parts.append(_inserted(segment, context[segment.key]))
        else:
            parts.append(segment)
    return tuple(parts)


def is_long(template: str, context: Mapping[str, Sequence[object]]) -> bool:
    """Whether expanding would take long: the texts of the context are, or look as if they were, more than LONG."""
    if "{{" not in template:
        return False
    total = 0
    for values in context.values():
        some = values if len(values) <= _LOOKED_AT else values[:_LOOKED_AT]
        length = sum([len(value) for value in some if value.__class__ is str])
        total += length * len(values) // len(some) if some else 0
    return total > LONG


def split_keys(*prompts: Parts) -> tuple[str, ...]:
    """The keys the prompts split by, each once, the shown ones first."""
    slots = [part for parts in prompts for part in parts if part.__class__ is Slot]
    if not slots:
        return ()
    return tuple(dict.fromkeys(slot.key for slot in sorted(slots, key=lambda slot: slot.hidden)))


def split_count(keys: Sequence[str], context: Mapping[str, Sequence[object]]) -> int:
    """How many branches the keys make: the length of the shortest list; 0 = no split."""
    return min((len(context[key]) for key in keys), default=0)


def fill(parts: Parts, context: Mapping[str, Sequence[object]]) -> str:
    """The text of one branch, whose context holds one element for each key; without elements slots stay literally."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    return "".join(part if isinstance(part, str) else _filled(part, context) for part in parts)


def literal(parts: Parts) -> str:
    """The text when nothing is split: slots stay as written."""
    return "".join(part if isinstance(part, str) else part.source for part in parts)


def narrowed(context: Context, keys: Sequence[str], index: int, count: int) -> Context:
    """The context of split `index` (from 0) of `count`: a copy whose keys hold only their element of that index."""
    new = context.copy()
    for key in keys:
        new[key] = [context[key][index]]
    return new


@lru_cache(maxsize=256)
def _segments(template: str, keys: tuple[str, ...]) -> tuple[str | Slot | _Insert, ...]:
    if not keys:
        return (template,)
    segments: list[str | Slot | _Insert] = []
    end = 0
    for match in _placeholder(keys).finditer(template):
        if match.start() > end:
            segments.append(template[end : match.start()])
        as_json, joined, hidden, shown = match.groups()
        if as_json is not None or joined is not None:
            is_json = as_json is not None
            segments.append(_Insert(as_json if is_json else joined, is_json, match.group()))
        else:
            segments.append(Slot(shown if hidden is None else hidden, hidden is not None))
        end = match.end()
    if end < len(template):
        segments.append(template[end:])
    return tuple(segments)


@lru_cache(maxsize=64)
def _placeholder(keys: tuple[str, ...]) -> re.Pattern[str]:
    # Only known keys, longest first: a generic key pattern would take the outer braces of {{{{key}}}}.
    key = "|".join(re.escape(key) for key in sorted(keys, key=len, reverse=True))
    return re.compile(rf"\{{\{{\{{({key})\}}\}}\}}|\{{\{{({key})\}}\}}|\[\[({key})\|hidden\]\]|\[\[({key})\]\]")


def _inserted(insert: _Insert, values: Sequence[object]) -> str:
    if not insert.as_json:
        return JOINER.join(map(text_of, values))
    try:
        return f"[{','.join(map(_as_json, values))}]"
    except (TypeError, ValueError, RecursionError) as exc:
        log.warning("the values of %s cannot be written as JSON: %s", insert.key, exc)
        return insert.source


def _as_json(value: object) -> str:
    if isinstance(value, str) and len(value) > _PIECE:
        # In pieces, so that other threads get their turn in between.
        pieces = (value[start : start + _PIECE] for start in range(0, len(value), _PIECE))
        return f'"{"".join(json.dumps(piece, ensure_ascii=False)[1:-1] for piece in pieces)}"'
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=json_form)


def _filled(slot: Slot, context: Mapping[str, Sequence[object]]) -> str:
    return "" if slot.hidden else text_of(context[slot.key][0])
