"""Yes or no by a vote of several answers: Grader2, and the older Grader."""

import warnings
from dataclasses import dataclass

from engine.completion import Completer
from engine.conversation import Conversation
from engine.events import GradeOutcome
from engine.flow import grader_prompts as prompts
from engine.profile import Category, Overrides, ProfileRef
from engine.statistics import RequestStatistic

MOST_VOTES = 7
"""After them the majority counts, however narrow."""
MARGIN = 2
"""Votes one side must be ahead to end the vote early."""

_AROUND = " \t\r\n.!?,;:*_`'\"“”„‟‘’«»´()[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """How a vote ended; true when it passed."""

    outcome: GradeOutcome
    answers: tuple[str, ...]
    """What was said, in order."""
    statistic: RequestStatistic

    def __bool__(self) -> bool:
        return self.outcome is GradeOutcome.PASSED


class Grader2:
    """Asks a model whether something is true until one side is two votes ahead, at most seven times."""

    def __init__(
        self,
        completer: Completer,
        profile: ProfileRef = Category.MEDIUM,
        *,
        overrides: Overrides | None = None,
    ) -> None:
        """`completer` is an Engine."""
        self._completer = completer
        self._profile = profile
        self._overrides = overrides

    async def assess(self, question: str, text: str) -> Vote:
        """Judge a text by a question; raises what a request raises.

        Anything but the word true is a vote against. Votes never come from the cache.
        """
        conversation = Conversation.create(prompts.TRUTH, prompts.TRUTH_QUESTION.format(question=question, text=text))
        answers: list[str] = []
        statistic = RequestStatistic()
        balance = 0
        while len(answers) < MOST_VOTES and abs(balance) < MARGIN:
            stream_of = self._completer.stream(self._profile, conversation, overrides=self._overrides, skip_cache=True)
            async with stream_of as stream:
                async for _ in stream:
                    pass
                completion = stream.completion
            statistic.add(completion.statistics)
            answers.append(completion.content)
            balance += 1 if _word(completion.content) == "true" else -1
        return Vote(outcome=_outcome(balance, answers), answers=tuple(answers), statistic=statistic)


class Grader(Grader2):
    """The older grader, always of the category M. Deprecated: use Grader2."""

    def __init__(self, completer: Completer) -> None:
        warnings.warn("Grader is deprecated: use Grader2", DeprecationWarning, stacklevel=2)
        super().__init__(completer)


def _word(answer: str) -> str:
    return answer.strip(_AROUND).casefold()


def _outcome(balance: int, answers: list[str]) -> GradeOutcome:
    if balance > 0:
        return GradeOutcome.PASSED
    words = {_word(answer) for answer in answers}
    if words & {"true", "false"}:
        return GradeOutcome.FAILED
    return GradeOutcome.UNPARSABLE if any(answer.strip() for answer in answers) else GradeOutcome.UNANSWERED
