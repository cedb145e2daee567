"""Tests a profile on its server, step by step, and says what to change where something is missing."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from engine.clients import client_for
from engine.completion import Completion
from engine.conversation import Conversation, ToolChoice, ToolDefinition
from engine.engine import Engine
from engine.errors import (
    AuthenticationFailed,
    CircuitOpen,
    ConnectFailed,
    EngineError,
    LocalModelError,
    RateLimited,
    RequestTimeout,
)
from engine.profile import ModelProfile, ProfileRef

QUESTION = "Count from one to ten in words, nothing else."
TOOL_QUESTION = "How many degrees is it in Oslo right now? Use the tool."
WEATHER = ToolDefinition(
    name="temperature",
    description="The temperature of a town in degrees Celsius.",
    parameters={
        "type": "object",
        "properties": {"town": {"type": "string", "description": "Name of the town"}},
        "required": ["town"],
    },
)
MOST_TOKENS = 256
"""Of one answer; enough for a model that thinks first."""

_THINKING = ("<think>", "</think>", "<|channel|>")


class Step(StrEnum):
    """One thing that is tested, in this order."""

    REACH = "reach"
    AUTHENTICATE = "authenticate"
    MODELS = "models"
    ANSWER = "answer"
    STREAMING = "streaming"
    USAGE = "usage"
    REASONING = "reasoning"
    TOOLS = "tools"
    TOKENIZER = "tokenizer"


class Outcome(StrEnum):
    """What came of a step."""

    PASSED = "passed"
    WARNING = "warning"
    """It works, with something missing."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """It could not be tested, or there is nothing to test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one step."""

    step: Step
    outcome: Outcome
    text: str
    """What was found."""
    hint: str = ""
    """What to change."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of a test."""

    checks: tuple[Check, ...]
    models: tuple[str, ...] = ()
    """Those the server lists."""
    first_token: float | None = None
    """Seconds."""
    reading: float | None = None
    """Prompt tokens a second."""
    writing: float | None = None
    """Answer and reasoning tokens a second."""

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(check.outcome is not Outcome.FAILED for check in self.checks)


Tell = Callable[[Check], object]


async def probe(engine: Engine, profile: ProfileRef, tell: Tell | None = None) -> Probe:
    """Test a profile with two or three short requests; `tell` gets each result as it comes.

    Nothing is raised for a server that fails. Raises ProfileError for a profile that cannot be used at all.
    """
    return await _Prober(engine, engine.resolve(profile), tell or (lambda _check: None)).run()


class _Prober:
    """One test."""

    def __init__(self, engine: Engine, profile: ModelProfile, tell: Tell) -> None:
        self._engine = engine
        self._profile = profile
        self._tell = tell
        self._checks: list[Check] = []
        self._models: tuple[str, ...] = ()
        self._pieces = 0

    async def run(self) -> Probe:
        """Go through the steps until one makes the others pointless."""
        self._engine.try_again(self._profile)
        answer = None
        if await self._reach():
            answer = await self._answer()
        if answer is not None:
            self._usage(answer)
            self._reasoning(answer)
            await self._tools()
            await self._tokenizer()
        for step in Step:
            if all(check.step is not step for check in self._checks):
                self._add(step, Outcome.SKIPPED, "Not tested: an earlier step failed.")
        used = answer.statistics if answer is not None else None
        first = used.first_token if used else None
        tokens = used.in_tokens + used.cached_in_tokens if used else 0
        return Probe(
            checks=tuple(sorted(self._checks, key=lambda check: list(Step).index(check.step))),
            models=self._models,
            first_token=first,
            reading=tokens / first if first and tokens else None,
            writing=used.tokens_per_second or None if used else None,
        )

    def _add(self, step: Step, outcome: Outcome, text: str, hint: str = "", seconds: float | None = None) -> None:
        check = Check(step=step, outcome=outcome, text=text, hint=hint, seconds=seconds)
        self._checks.append(check)
        self._tell(check)

    async def _reach(self) -> bool:
        """List the models: the one request that needs no model. Whether it makes sense to go on."""
        began = time.monotonic()
        try:
            if self._profile.embedded:
                await self._engine.server.ensure()
            self._models = tuple(await self._engine.model_names(self._profile, force_reload=True))
        except (ConnectFailed, RequestTimeout, CircuitOpen, LocalModelError) as error:
            self._add(Step.REACH, Outcome.FAILED, str(error), error.hint, time.monotonic() - began)
            return False
        except AuthenticationFailed as error:
            seconds = time.monotonic() - began
            self._add(Step.REACH, Outcome.PASSED, "The server answers.", seconds=seconds)
            self._add(Step.AUTHENTICATE, Outcome.FAILED, str(error), error.hint)
            return False
        except EngineError as error:
            # A server may answer without listing its models.
            self._add(Step.REACH, Outcome.PASSED, "The server answers.", seconds=time.monotonic() - began)
            hint = "" if self._profile.model else "Set modelName: without it the first listed model would be asked."
            outcome = Outcome.WARNING if self._profile.model else Outcome.FAILED
            self._add(Step.MODELS, outcome, f"The server lists no models: {error}", hint)
            return bool(self._profile.model)
        self._add(Step.REACH, Outcome.PASSED, "The server answers.", seconds=time.monotonic() - began)
        self._list()
        return bool(self._models or self._profile.model)

    def _list(self) -> None:
        model, count = self._profile.model, len(self._models)
        listed = "1 model" if count == 1 else f"{count} models"
        if not model:
            text = f"{listed}; the first, {self._models[0]}, is asked." if count else "No models are listed."
            hint = "" if count else "Load a model on the server, or set modelName."
            self._add(Step.MODELS, Outcome.PASSED if count else Outcome.FAILED, text, hint)
        elif model in self._models:
            self._add(Step.MODELS, Outcome.PASSED, f"{listed}, this one is among them.")
        else:
            near = ", ".join(self._models[:5])
            hint = f"The server lists {near}{', …' if count > 5 else ''}." if near else ""
            self._add(Step.MODELS, Outcome.WARNING, f"{listed}, {model} is not among them.", hint)

    async def _answer(self) -> Completion | None:
        """Ask for a short answer, streaming if the profile allows it."""
        began = time.monotonic()
        first = None
        limit = min(MOST_TOKENS, self._profile.max_tokens)
        try:
            stream_of = self._engine.stream(self._profile, QUESTION, overrides={"maxTokens": limit}, use_cache=False)
            async with stream_of as stream:
                async for chunk in stream:
                    if chunk.content or chunk.reasoning:
                        self._pieces += 1
                        first = first or time.monotonic() - began
            answer = stream.completion
        except EngineError as error:
            self._refused(error, time.monotonic() - began)
            return None
        if all(check.step is not Step.AUTHENTICATE for check in self._checks):
            keyed = bool(self._profile.api_key)
            self._add(Step.AUTHENTICATE, Outcome.PASSED, "The key is accepted." if keyed else "No key is needed.")
        seconds = time.monotonic() - began
        shown = " ".join(answer.content.split())[:60]
        if shown:
            self._add(Step.ANSWER, Outcome.PASSED, f"“{shown}”", seconds=seconds)
        else:
            hint = "Set a larger maxTokens, or a lower reasoningEffort." if answer.reasoning else ""
            text = "Only thinking came, no answer." if answer.reasoning else "The answer is empty."
            self._add(Step.ANSWER, Outcome.WARNING, text, hint, seconds)
        self._streaming(first)
        return answer

    def _refused(self, error: EngineError, seconds: float) -> None:
        if isinstance(error, AuthenticationFailed):
            self._add(Step.AUTHENTICATE, Outcome.FAILED, str(error), error.hint, seconds)
            return
        hint = error.hint
        if isinstance(error, RateLimited):
            hint = hint or "Wait, or ask for a higher limit."
        self._add(Step.ANSWER, Outcome.FAILED, str(error), hint, seconds)

    def _streaming(self, first: float | None) -> None:
        if self._pieces > 1:
            self._add(Step.STREAMING, Outcome.PASSED, f"{self._pieces} pieces, the first after {first or 0.0:.1f} s.")
        elif not client_for(self._profile).capabilities(self._profile).streaming:
            self._add(Step.STREAMING, Outcome.SKIPPED, "The profile asks for whole answers.")
        else:
            self._add(Step.STREAMING, Outcome.WARNING, "The answer came in one piece.", "Words appear only at its end.")

    def _usage(self, answer: Completion) -> None:
        used = answer.statistics
        if used.estimated:
            hint = "Counts are estimated and carry ~."
            self._add(Step.USAGE, Outcome.WARNING, "The answer ends without token counts.", hint)
            return
        tokens = f"{used.in_tokens + used.cached_in_tokens} in, {used.out_tokens + used.reasoning_out_tokens} out"
        self._add(Step.USAGE, Outcome.PASSED, f"The server counts: {tokens}.")

    def _reasoning(self, answer: Completion) -> None:
        if answer.reasoning:
            self._add(Step.REASONING, Outcome.PASSED, "Thinking comes apart from the answer.")
        elif any(mark in answer.content for mark in _THINKING):
            hint = "Set the reasoning format of the server, or another promptFormat."
            self._add(Step.REASONING, Outcome.WARNING, "Thinking stands within the answer.", hint)
        else:
            self._add(Step.REASONING, Outcome.SKIPPED, "The model did not think aloud.")

    async def _tools(self) -> None:
        if not client_for(self._profile).capabilities(self._profile).tools:
            self._add(Step.TOOLS, Outcome.SKIPPED, "The profile offers no tools.")
            return
        began = time.monotonic()
        limit = min(MOST_TOKENS, self._profile.max_tokens)
        try:
            answer = await self._engine.complete(
                self._profile,
                Conversation.create("", TOOL_QUESTION),
                overrides={"maxTokens": limit},
                tools=ToolChoice(tools=(WEATHER,)),
                use_cache=False,
            )
        except EngineError as error:
            hint = "functionCallType=struct_parse lets models without tools call them in their text."
            self._add(Step.TOOLS, Outcome.WARNING, f"Tools are refused: {error}", hint, time.monotonic() - began)
            return
        seconds = time.monotonic() - began
        if answer.tool_calls:
            call = answer.tool_calls[0]
            self._add(Step.TOOLS, Outcome.PASSED, f"It called {call.name}({call.arguments[:60]}).", seconds=seconds)
        else:
            hint = "A larger model may; functionCallType=struct_parse is another way to ask."
            self._add(Step.TOOLS, Outcome.WARNING, "It answered without calling the tool.", hint, seconds)

    async def _tokenizer(self) -> None:
        try:
            count = await self._engine.count_tokens(self._profile, QUESTION)
        except EngineError as error:
            self._add(Step.TOKENIZER, Outcome.WARNING, f"Tokens cannot be counted: {error}", error.hint)
            return
        if count.approximate:
            hint = "Set tokenEncoding, or tokenizer for a server that counts."
            self._add(Step.TOKENIZER, Outcome.WARNING, "Tokens are estimated before a request.", hint)
        else:
            self._add(Step.TOKENIZER, Outcome.PASSED, f"Exact: {count.tokens} tokens for the test question.")
