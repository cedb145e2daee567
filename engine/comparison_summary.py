"""What a comparison comes to: figures of each profile, brought up to date cell by cell."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from engine.batch_values import sum_of
from engine.comparison_values import Cell, CellResult, CellStatus, Mark
from engine.events import Statistics
from engine.statistics import CostProvenance

_FAILED = frozenset([CellStatus.FAILED, CellStatus.BUDGET])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFigures:
    """The figures of one profile; None where nothing was measured."""

    name: str
    cells: int
    """With a result."""
    answered: int
    errors: int
    no_answer: int
    cut_off: int
    score: float | None
    """The mean over its cells of what graders gave, 0 to 100; cells without a verdict do not count."""
    by_grader: Mapping[str, float]
    """The mean of each grader that gave any verdict."""
    thumbs: int
    """Up minus down."""
    stars: float | None
    """The mean of the given ones."""
    cost: Decimal
    provenance: CostProvenance
    latency_p50: float | None
    """Seconds from the question to the whole answer; answers from the cache do not count."""
    latency_p95: float | None
    first_token_p50: float | None
    out_tps: float | None
    """Median of answer and reasoning tokens a second."""
    in_tokens: int
    """With cached ones."""
    out_tokens: int
    """With reasoning."""
    reasoning_tokens: int
    cached: int
    """Cells whose answers came from the cache."""


@dataclass(frozen=True, slots=True)
class _Figures:
    """What the sums need of one result."""

    status: CellStatus
    score: float | None
    grades: tuple[tuple[str, float], ...]
    statistics: Statistics
    tps: float | None


class ComparisonSummary:
    """The sums of a comparison; a result that comes again, with more grades for instance, replaces itself."""

    def __init__(self, profiles: Sequence[str]) -> None:
        self._cells: dict[str, dict[tuple[int, int], _Figures]] = {profile: {} for profile in profiles}
        self._marks: dict[Cell, Mark] = {}

    def add(self, result: CellResult) -> None:
        """Take a result in."""
        grades = tuple((grade.grader, grade.rating) for grade in result.grades if grade.rating is not None)
        self._cells[result.profile][result.row, result.repeat] = _Figures(
            result.status, result.score, grades, result.statistics, result.out_tps
        )

    def mark(self, cell: Cell, mark: Mark) -> None:
        """Take in what a person thinks of a cell."""
        self._marks[cell] = mark

    def figures(self) -> list[ProfileFigures]:
        """The figures of each profile, in the order of the comparison."""
        return [self._of(profile) for profile in self._cells]

    def _of(self, profile: str) -> ProfileFigures:
        cells = list(self._cells[profile].values())
        statuses = [cell.status for cell in cells]
        used = Statistics()
        for cell in cells:
            used = sum_of(used, cell.statistics)
        asked = [cell for cell in cells if cell.statistics.requests and cell.status not in _FAILED]
        latencies = [cell.statistics.effective_seconds for cell in asked]
        firsts = [first for cell in asked if (first := cell.statistics.first_token) is not None]
        by_grader: dict[str, list[float]] = {}
        for cell in cells:
            for grader, rating in cell.grades:
                by_grader.setdefault(grader, []).append(rating)
        marks = [mark for cell, mark in self._marks.items() if cell.profile == profile]
        return ProfileFigures(
            name=profile,
            cells=len(cells),
            answered=statuses.count(CellStatus.ANSWERED),
            errors=sum(status in _FAILED for status in statuses),
            no_answer=statuses.count(CellStatus.NO_ANSWER),
            cut_off=statuses.count(CellStatus.CUT_OFF),
            score=mean(cell.score for cell in cells if cell.score is not None),
            by_grader={grader: sum(ratings) / len(ratings) for grader, ratings in by_grader.items()},
            thumbs=sum(mark.thumb for mark in marks),
            stars=mean(float(mark.stars) for mark in marks if mark.stars),
            cost=used.cost,
            provenance=used.provenance,
            latency_p50=percentile(latencies, 50),
            latency_p95=percentile(latencies, 95),
            first_token_p50=percentile(firsts, 50),
            out_tps=percentile([cell.tps for cell in asked if cell.tps is not None], 50),
            in_tokens=used.in_tokens + used.cached_in_tokens,
            out_tokens=used.out_tokens + used.reasoning_out_tokens,
            reasoning_tokens=used.reasoning_out_tokens,
            cached=sum(1 for cell in cells if cell.statistics.cached_prompts and not cell.statistics.requests),
        )


def mean(values: Iterable[float]) -> float | None:
    """The mean; None of nothing."""
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def percentile(values: Sequence[float], share: int) -> float | None:
    """The smallest value that at least `share` percent do not exceed (nearest rank); None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]
