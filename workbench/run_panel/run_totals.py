"""Figures of a run put together from those of its parts. Qt-free."""

import math

import msgspec

from engine.events import Statistics


def completed(final: Statistics, known: Statistics | None) -> Statistics:
    """The final figures with what only the single calls tell: wall time, and whether a count was estimated."""
    if known is None:
        return final
    return msgspec.structs.replace(
        final, effective_seconds=known.effective_seconds, estimated=final.estimated or known.estimated
    )


def wall_seconds(spans: list[tuple[float, float]]) -> float:
    """How long at least one of the spans (start, end) went on."""
    seconds, covered = 0.0, -math.inf
    for start, end in sorted(spans):
        seconds += max(0.0, end - max(start, covered))
        covered = max(covered, end)
    return seconds
