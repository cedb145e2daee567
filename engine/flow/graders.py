"""Graders as agents: they judge an answer and send it back once when it is not good enough (docs/graders.md)."""

import asyncio
import inspect
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import time
from typing import ClassVar, TypedDict, Unpack

from engine.conversation import Turn
from engine.errors import HandlerError
from engine.events import Grade, Graded, GradeOutcome
from engine.flow import grader_prompts as prompts
from engine.flow.agent import Agent, Hook, Merge, Next
from engine.flow.context import Context, text_of
from engine.flow.flow_spec import AgentType
from engine.flow.handlers import Handler, JsonHandler
from engine.flow.place import Place
from engine.flow.template import Parts, expand, is_long, literal
from engine.profile import Category, Overrides, ProfileRef

LEAST_RATING = 60.0
"""A rating must be above it to pass."""
MOST_ATTEMPTS = 2
"""How often an answer is judged within one loop."""

_NUMBER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?)")

Decide = Callable[[Context, bool], Awaitable[Next] | Next]
"""Where a judged context goes when it is not sent back; the second argument is whether it passed."""
Render = Callable[[str, Context], Awaitable[Parts] | Parts]
"""Text and context to the parts of a prompt."""


class GraderOptions(TypedDict, total=False):
    """What a grader shares with other agents."""

    category: Category | str
    profile: ProfileRef | None
    few_shot: Sequence[Turn]
    targets: Sequence[str] | None
    merge: Merge | None
    gather: bool
    retry_on_parsing_error: int
    overrides: Overrides | None
    stop: Sequence[str]
    response_schema: Mapping[str, object] | None
    timeout: float | None
    stream: bool


class AgentGrader(Agent):
    """Base of the graders: reads and writes the keys `qa…`, keeps a grade, sends back what did not pass."""

    own_name: ClassVar[str]
    own_system_prompt: ClassVar[str]
    own_template: ClassVar[str]
    verdict_key: ClassVar[str]
    question_key: ClassVar[str] = "qaQuestion"
    answer_key: ClassVar[str] = "qaAnswer"

    def __init__(
        self,
        name: str = "",
        *,
        question: str | None = None,
        answer: str | None = None,
        descriptions: bool | None = None,
        feedback_to: str | None = None,
        system_prompt: str = "",
        template: str = "",
        handler: Callable[[Context], Handler] | None = None,
        before: Hook | None = None,
        after: Hook | None = None,
        decide: Decide | None = None,
        render: Render | None = None,
        **options: Unpack[GraderOptions],
    ) -> None:
        """Define a grader; everything is optional.

        Args:
            name: missing = that of the class.
            question: template of what was asked; missing = the key `qaQuestion` as it is.
            answer: template of what is judged; missing = the key `qaAnswer` as it is.
            descriptions: whether the verdict is explained; missing = the key `qaOutputDescription` says, else yes.
            feedback_to: the agent that gets the answer back; empty = none, missing = the key
                `qaFeedbackLoopDestination` says.
            system_prompt: replaces the built-in one; so do `template` and `handler`.
            before: called before the question and the answer are filled in.
            after: called before the verdict is read.
            decide: where the flow goes on with what is not sent back; missing = it ends.
            render: another template language, for all texts given here; it may be async.
        """
        if not (template or handler) and descriptions is not None:
            options.setdefault("response_schema", self._schema(explained=descriptions))
        super().__init__(
            name or self.own_name,
            AgentType.COMPLETION,
            system_prompt=system_prompt or self.own_system_prompt,
            template=template or self.own_template,
            handler=handler or (lambda _: JsonHandler()),
            before=before,
            after=after,
            skip_cache=True,
            **options,
        )
        self._render_own = render or expand
        self._own_system = bool(system_prompt)
        self._own_template = bool(template)
        self._filled = {
            key: text for key, text in ((self.question_key, question), (self.answer_key, answer)) if text is not None
        }
        self._descriptions = descriptions
        self._feedback_to = feedback_to
        self._decide = decide

    @classmethod
    def _schema(cls, *, explained: bool) -> dict[str, object]:
        """The JSON of a verdict, for servers that can keep to it; reasons come before the verdict."""
        raise NotImplementedError

    def _output_format(self, *, explained: bool) -> str:
        raise NotImplementedError

    def _grade(self, context: Context) -> tuple[GradeOutcome, float | None]:
        """Read the verdict, and fill in what is missing of it."""
        raise NotImplementedError

    async def prompt(self, context: Context) -> tuple[Parts, Parts]:
        """System prompt and text of the user turn; the built-in ones have placeholders in braces in any case."""
        system = await self._expanded(self.system_prompt, context, own=self._own_system)
        return system, await self._expanded(self.template, context, own=self._own_template)

    async def _expanded(self, template: str, context: Context, *, own: bool = True) -> Parts:
        if not template:
            return ()
        if not own or self._render_own is expand:
            long = is_long(template, context)
            return await asyncio.to_thread(expand, template, context) if long else expand(template, context)
        parts = self._render_own(template, context)
        return await parts if inspect.isawaitable(parts) else parts

    async def before(self, context: Context) -> None:
        """Fill in question and answer, count the attempt, forget the verdict of an earlier one."""
        if self._descriptions is not None:
            context.set("qaOutputDescription", self._descriptions)
        if self._feedback_to is not None:
            context.set("qaFeedbackLoopDestination", self._feedback_to)
            if not self._feedback_to:
                context.remove("qaFeedbackLoopDestination")
        own = super().before(context)
        if inspect.isawaitable(own):
            await own
        filled = {key: literal(await self._expanded(text, context)) for key, text in self._filled.items()}
        for key, text in filled.items():
            context.set(key, text)
        if not self._is_within_loop(context):
            context.remove("qaIteration")
        grades = {name: grade for name, grade in context.grades.items() if name != self.name}
        context.grades = grades
        context.set("qaOutputFormat", self._output_format(explained=self._explains(context)))
        self._forget(context)

    def _forget(self, context: Context) -> None:
        for key in (self.verdict_key, "qaExplanation"):
            context.remove(key)

    def _explains(self, context: Context) -> bool:
        return text_of(context.get("qaOutputDescription", [True])[0]).lower() != "false"

    def _is_within_loop(self, context: Context) -> bool:
        """Whether the last verdict of this grader sent the answer back."""
        if context.grades:
            own = context.grades.get(self.name)
            return own is not None and own.sent_back
        # A context that comes from elsewhere, a recorded run for instance, has the keys only.
        failed = context.text("qaPassed", "false").lower() != "true"
        return failed and 0 < _iteration(context) < MOST_ATTEMPTS and bool(context.text("qaFeedbackLoopDestination"))

    async def after(self, context: Context) -> None:
        """Read the verdict, once the agent's own `after` is done."""
        own = super().after(context)
        if inspect.isawaitable(own):
            await own
        if not context.answered or context.error is not None:
            return  # skipped: there is no verdict
        outcome, rating = self._grade(context)
        iteration = _iteration(context) + 1
        context.set("qaIteration", iteration)
        context.set("qaPassed", outcome is GradeOutcome.PASSED)
        back = context.text("qaFeedbackLoopDestination")
        context.grades = {
            **context.grades,
            self.name: Grade(
                outcome=outcome,
                rating=rating,
                explanation=context.text("qaExplanation"),
                iteration=iteration,
                sent_back=outcome is not GradeOutcome.PASSED and iteration < MOST_ATTEMPTS and bool(back),
            ),
        }

    async def choose_next(self, context: Context) -> Next:
        """Send back what failed for the first time; let `decide` take everything else, with ✓ or ✗."""
        grade = context.grades.get(self.name)
        if grade is not None and grade.sent_back:
            context.set("qaFeedback", prompts.FEEDBACK + grade.explanation)
            return Next(context.text("qaFeedbackLoopDestination"), graded=False)
        passed = grade is None or grade.outcome is GradeOutcome.PASSED
        chosen = Next()
        if self._decide is not None:
            decided = self._decide(context, passed)
            chosen = await decided if inspect.isawaitable(decided) else decided
        if grade is None or chosen.graded is not None:
            return chosen
        return Next(chosen.agent, passed)

    def give_up(self, context: Context, exc: Exception) -> bool:
        """Grade a branch that failed here: no verdict is not a bad one. False when it has a verdict already."""
        if self.name in context.grades:
            return False
        answered = isinstance(exc, HandlerError) and context.last is not None and bool(context.last.content.strip())
        outcome = GradeOutcome.UNPARSABLE if answered else GradeOutcome.UNANSWERED
        context.grades = {**context.grades, self.name: Grade(outcome=outcome)}
        return True


class AnswerGrader2(AgentGrader):
    """Rates an answer from 0 to 100; above 60 it passes."""

    own_name = "AnswerGrader2"
    own_system_prompt = prompts.EXAMINER
    own_template = prompts.RATING
    verdict_key = "qaRating"

    @classmethod
    def _schema(cls, *, explained: bool) -> dict[str, object]:
        return prompts.verdict_schema("qaRating", {"type": "integer", "minimum": 0, "maximum": 100}, explained)

    def _output_format(self, *, explained: bool) -> str:
        return prompts.RATING_EXPLAINED if explained else prompts.RATING_ALONE

    def _grade(self, context: Context) -> tuple[GradeOutcome, float | None]:
        missing = not context.get("qaRating")
        if missing:
            context.set("qaRating", "0")
            _explain(context, prompts.NO_RATING)
        value = context["qaRating"][0]
        rating = None if missing else _number(value)
        _explain(context, prompts.RATED.format(text_of(value)))
        if rating is None:
            return GradeOutcome.UNPARSABLE, None
        return GradeOutcome.PASSED if rating > LEAST_RATING else GradeOutcome.FAILED, rating


class AnswerGraderBinary(AgentGrader):
    """Says of an answer whether it is good enough."""

    own_name = "AnswerGraderBinary"
    own_system_prompt = prompts.EXAMINER
    own_template = prompts.BINARY
    verdict_key = "qaPassed"

    @classmethod
    def _schema(cls, *, explained: bool) -> dict[str, object]:
        return prompts.verdict_schema("qaPassed", {"type": "boolean"}, explained)

    def _output_format(self, *, explained: bool) -> str:
        return prompts.BINARY_EXPLAINED if explained else prompts.BINARY_ALONE

    def _grade(self, context: Context) -> tuple[GradeOutcome, float | None]:
        values = context.get("qaPassed")
        word = text_of(values[0]).strip().lower() if values else ""
        if word == "true":
            outcome = GradeOutcome.PASSED
        else:
            outcome = GradeOutcome.FAILED if word == "false" else GradeOutcome.UNPARSABLE
        if not values:
            _explain(context, prompts.NO_VERDICT)
        _explain(context, prompts.JUDGED_GOOD if outcome is GradeOutcome.PASSED else prompts.JUDGED_BAD)
        return outcome, None


class AnswerGrader(AnswerGrader2):
    """The older grader of ratings, with the keys `questions` and `answer`. Deprecated: use AnswerGrader2."""

    own_name = "AnswerGrader"
    own_template = prompts.RATING.replace("{{{qaQuestion}}}", "{{{questions}}}").replace(
        "{{{qaAnswer}}}", "{{{answer}}}"
    )
    question_key = "questions"
    answer_key = "answer"

    def __init__(self, name: str = "", **options: Unpack["_AllOptions"]) -> None:
        warnings.warn("AnswerGrader is deprecated: use AnswerGrader2", DeprecationWarning, stacklevel=2)
        super().__init__(name, **options)

    def _forget(self, context: Context) -> None:
        """Keep a stale rating: that is how it always was."""

    def _explains(self, context: Context) -> bool:
        return True


class _AllOptions(GraderOptions, total=False):
    question: str | None
    answer: str | None
    feedback_to: str | None
    system_prompt: str
    template: str
    handler: Callable[[Context], Handler] | None
    before: Hook | None
    after: Hook | None
    decide: Decide | None
    render: Render | None


def graded_event(grader: str, context: Context, passed: bool, place: Place) -> Graded:
    """The event for a ✓ or ✗; what a grader made of the answer goes along."""
    grade = context.grades.get(grader)
    if grade is None:
        grade = Grade(outcome=GradeOutcome.PASSED if passed else GradeOutcome.FAILED)
    return Graded(
        time=time(),
        passed=passed,
        outcome=grade.outcome,
        rating=grade.rating,
        explanation=grade.explanation,
        iteration=grade.iteration,
        **place,
    )


GRADERS: Mapping[str, type[AgentGrader]] = {grader.own_name: grader for grader in (AnswerGrader2, AnswerGraderBinary)}
"""The graders of flow files by name."""


def _iteration(context: Context) -> int:
    number = _number(context["qaIteration"][0]) if context.get("qaIteration") else None
    return int(number or 0)


def _number(value: object) -> float | None:
    """The number a value is, or begins with."""
    if isinstance(value, bool):
        return None
    match = _NUMBER.match(text_of(value))
    return float(match[1]) if match else None


def _explain(context: Context, text: str) -> None:
    """Give an explanation unless there is one."""
    if not context.text("qaExplanation").strip():
        context.set("qaExplanation", text)
