"""The rounds of a loop with a grader: who ran in each, what it used, what the grader made of it. Qt-free."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.events import Graded
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Branch, Step, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One agent in one round."""

    agent: str
    step: int
    path: str
    totals: Totals
    seconds: float
    text: str
    """The answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What was tried once, and the verdict on it."""

    number: int
    grade: Graded
    parts: tuple[Part, ...]
    """In the order they ran; the grader stands last."""

    @property
    def candidate(self) -> str:
        """The answer that was judged."""
        return self.parts[-2].text if len(self.parts) > 1 else ""

    @property
    def feedback(self) -> str:
        """What the grader said of it."""
        return self.grade.explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """All rounds of one grader on one branch."""

    grader: str
    path: str
    rounds: list[Round] = field(default_factory=list)


def loops(model: RunModel) -> list[Loop]:
    """The loops of a run by grader and branch, in the order they began."""
    found: dict[tuple[str, str], Loop] = {}
    judged: dict[tuple[str, str], int] = {}
    for step in model.steps.values():
        for path, branch in step.branches.items():
            if branch.grade is None:
                continue
            place = (step.agent, path)
            loop = found.setdefault(place, Loop(grader=step.agent, path=path))
            before = judged.get(place, 0)
            judged[place] = step.number
            steps = list(_steps_of_round(model, step, before))
            parts = tuple(_part(model, one, path) for one in (*reversed(steps), step))
            loop.rounds.append(
                Round(number=branch.grade.iteration or len(loop.rounds) + 1, grade=branch.grade, parts=parts)
            )
    return list(found.values())


def _steps_of_round(model: RunModel, judge: Step, before: int) -> Iterable[Step]:
    """What ran between the verdict before and this one, newest first; of a first round, from where feedback leads."""
    back = {name for one in model.steps.values() if one.agent == judge.agent for name in one.leaving if name}
    step = model.steps.get(judge.from_step)
    while step is not None and step.number != before and step.agent != judge.agent:
        yield step
        if not before and (step.agent in back or not back):
            return
        step = model.steps.get(step.from_step)


def _part(model: RunModel, step: Step, path: str) -> Part:
    branch = _branch_on(step, path)
    attempts = branch.attempts if branch is not None else []
    totals = Totals.of(one.statistics for one in attempts if one.statistics is not None)
    last = branch.attempt if branch is not None else None
    timed = branch or step
    return Part(
        agent=step.agent,
        step=step.number,
        path=branch.path if branch is not None else "",
        totals=totals if branch is not None else step.totals,
        seconds=timed.seconds(model.now()),
        text=last.content.text if last is not None else "",
    )


def _branch_on(step: Step, path: str) -> Branch | None:
    """The branch of an execution on the way to a path; None for one whose branches were merged."""
    if path in step.branches:
        return step.branches[path]
    return next(iter(step.branches.values())) if len(step.branches) == 1 else None
