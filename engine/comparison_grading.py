"""Judges answers of a comparison: by an output of the flow, by what is expected, by asking a model."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.comparison_values import CellGrade, CellResult, CompareJob, CompareRow, GraderColumn
from engine.engine import Engine
from engine.errors import EngineError
from engine.events import GradeOutcome, RunFinished, Statistics
from engine.flow.agent import Agent
from engine.flow.context import Context, text_of
from engine.flow.flow import Flow
from engine.flow.graders import LEAST_RATING, AnswerGrader2, AnswerGraderBinary
from engine.flow.template import expand, literal
from engine.flow.voting import Grader2
from engine.profile import Category, ProfileRef

PASSED, FAILED = 100.0, 0.0
"""The ratings of graders that say yes or no."""
MOST_EXPECTED = 10_000
"""Characters of what is expected; patterns that long are not tried."""

_YES = frozenset(["true", "yes", "passed", "pass", "ok", "correct"])
_NO = frozenset(["false", "no", "failed", "fail", "wrong", "incorrect"])


def asks_model(grader: GraderColumn) -> bool:
    """Whether judging is a request of its own."""
    return grader.kind in ("binary", "rating", "vote")


def judge_of(grader: GraderColumn) -> ProfileRef:
    """Who judges."""
    return grader.profile or Category.MEDIUM


def grades_at_once(
    graders: Sequence[GraderColumn], content: str, outputs: Mapping[str, Sequence[object]], row: CompareRow
) -> tuple[CellGrade, ...]:
    """The grades that need no request."""
    grades = []
    for grader in graders:
        if grader.kind == "key":
            grades.append(_by_key(grader, outputs.get(grader.key, ())))
        elif grader.kind == "expected":
            grades.append(_by_expected(grader, content, text_of(row.values.get(grader.key, ""))))
    return tuple(grades)


def _by_key(grader: GraderColumn, values: Sequence[object]) -> CellGrade:
    """The mean of what the flow gave: numbers from 0 to 100, or words for yes and no."""
    ratings = [rating for value in values if (rating := rating_of(value)) is not None]
    if not ratings:
        found = ", ".join(text_of(value)[:80] for value in values[:3])
        outcome = GradeOutcome.UNPARSABLE if values else GradeOutcome.UNANSWERED
        explanation = (
            f'found "{found}", expected a number or true or false' if values else f'no "{grader.key}" was made'
        )
        return CellGrade(grader=grader.name, outcome=outcome, explanation=explanation)
    rating = sum(ratings) / len(ratings)
    outcome = GradeOutcome.PASSED if rating > LEAST_RATING else GradeOutcome.FAILED
    return CellGrade(grader=grader.name, outcome=outcome, rating=rating)


def rating_of(value: object) -> float | None:
    """A value as a rating from 0 to 100; None for what is none."""
    text = text_of(value).strip().casefold()
    if text in _YES:
        return PASSED
    if text in _NO:
        return FAILED
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 100 else None


def _by_expected(grader: GraderColumn, content: str, expected: str) -> CellGrade:
    if not expected.strip():
        explanation = f'the row has nothing in "{grader.key}"'
        return CellGrade(grader=grader.name, outcome=GradeOutcome.UNANSWERED, explanation=explanation)
    try:
        met = _meets(grader, content, expected)
    except re.error as error:
        explanation = f'"{expected[:80]}" is no pattern: {error}'
        return CellGrade(grader=grader.name, outcome=GradeOutcome.UNPARSABLE, explanation=explanation)
    explanation = "" if met else f'expected "{expected[:200]}"'
    outcome = GradeOutcome.PASSED if met else GradeOutcome.FAILED
    return CellGrade(grader=grader.name, outcome=outcome, rating=PASSED if met else FAILED, explanation=explanation)


def _meets(grader: GraderColumn, content: str, expected: str) -> bool:
    answer, wanted = _folded(content), _folded(expected)
    match grader.match:
        case "equal":
            return answer == wanted
        case "contains":
            return wanted in answer
        case "pattern":
            if len(expected) > MOST_EXPECTED:
                raise re.error("it is too long")
            return re.search(expected.strip(), content, re.IGNORECASE) is not None


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def asked(job: CompareJob, flow: Flow, row: CompareRow, context: Context) -> str:
    """What was asked, as a judge reads it."""
    if job.prompt and flow.agents:
        return literal(expand(flow.agents[0].template, context))
    values = {item.key: row.values.get(item.key) for item in flow.inputs}
    return f"{flow.name}\n{json.dumps(values, ensure_ascii=False, default=str)}"


@dataclass(frozen=True, slots=True)
class _Verdict:
    outcome: GradeOutcome
    rating: float | None
    explanation: str
    statistics: Statistics


async def grade_by_model(engine: Engine, grader: GraderColumn, question: str, result: CellResult) -> CellGrade:
    """Ask a model to judge; a judge that cannot be asked gives no verdict, and says why."""
    wanted = f"{grader.question}\n\n{question}" if grader.question else question
    try:
        vote = grader.kind == "vote"
        verdict = await (_voted if vote else _judged)(engine, grader, wanted, result.content)
    except EngineError as error:
        return CellGrade(grader=grader.name, outcome=GradeOutcome.UNANSWERED, explanation=str(error))
    return CellGrade(
        grader=grader.name,
        outcome=verdict.outcome,
        rating=verdict.rating,
        explanation=verdict.explanation,
        statistics=verdict.statistics,
    )


async def _voted(engine: Engine, grader: GraderColumn, question: str, content: str) -> _Verdict:
    vote = await Grader2(engine, judge_of(grader)).assess(question, content)
    explanation = f"{len(vote.answers)} votes: {', '.join(answer.strip()[:20] for answer in vote.answers)}"
    return _Verdict(vote.outcome, _yes_or_no(vote.outcome), explanation, Statistics.of_run(vote.statistic))


async def _judged(engine: Engine, grader: GraderColumn, question: str, content: str) -> _Verdict:
    kind = AnswerGrader2 if grader.kind == "rating" else AnswerGraderBinary
    agent: Agent = kind("Judge", profile=judge_of(grader), descriptions=True, feedback_to="")
    flow = Flow(name=f"Judge: {grader.name}", agents=(agent,))
    context = Context({"qaQuestion": [question], "qaAnswer": [content]})
    async with engine.run(flow, context, use_cache=False) as run:
        async for _ in run:
            pass
        finished: RunFinished | None = run.finished
        contexts = run.contexts
    statistics = finished.statistics if finished is not None else Statistics()
    if finished is not None and finished.status == "stopped":
        return _Verdict(GradeOutcome.UNANSWERED, None, "it was stopped", statistics)
    grade = contexts[0].grades.get("Judge") if contexts else None
    error = contexts[0].error if contexts else None
    if grade is None:
        return _Verdict(GradeOutcome.UNANSWERED, None, error.info.message if error else "", statistics)
    rating = grade.rating if grader.kind == "rating" else _yes_or_no(grade.outcome)
    explanation = grade.explanation or (error.info.message if error else "")
    return _Verdict(grade.outcome, rating, explanation, statistics)


def _yes_or_no(outcome: GradeOutcome) -> float | None:
    """Without a verdict there is no rating."""
    return {GradeOutcome.PASSED: PASSED, GradeOutcome.FAILED: FAILED}.get(outcome)
