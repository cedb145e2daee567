"""Agents that are not asked again: their recorded answers are used, and what has changed since is told.

A frozen agent still expands its prompt, handles the answer and chooses its way; only the request is not made. The
record lies beside the history, not in the flow: it holds answers, which are private and large, and what a flow does
must not depend on what one machine happens to have recorded.
"""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version

import msgspec

from engine.completion import Completion, FinishReason, Stream
from engine.conversation import Conversation
from engine.errors import FlowError
from engine.events import AnyEvent, CompletionFinished, HandlerFailed, PromptReady
from engine.flow.agent import Agent
from engine.flow.recorded_answers import given
from engine.profile import ModelProfile

USABLE = frozenset({FinishReason.DONE, FinishReason.TOKEN_LIMIT_REACHED, FinishReason.CONTENT_FILTERED})


class Fingerprint(msgspec.Struct, frozen=True):
    """What an answer came of, apart from what went into the prompt."""

    prompt: str
    """Of the agent's own texts and settings."""
    profile: str
    """Of the profile, without its key."""
    engine: str
    """Version of the program."""


class FrozenAnswer(msgspec.Struct, frozen=True):
    """One answer that is kept."""

    visit: int
    """How many times the agent had been asked in this branch, from 1."""
    branch: str
    inputs: str
    """Of the turns that were sent."""
    content: str
    reasoning: str = ""
    finish_reason: FinishReason = FinishReason.DONE
    model: str = ""
    profile: str = ""


class Frozen(msgspec.Struct, frozen=True):
    """An agent with its kept answers."""

    agent: str
    run_id: str
    """Where they come from."""
    fingerprint: Fingerprint
    answers: tuple[FrozenAnswer, ...]
    since: float = 0.0
    """When it was frozen, seconds since the epoch; 0: not noted."""


class GivenAnswer(msgspec.Struct, frozen=True):
    """A kept answer for one request."""

    completion: Completion
    run_id: str
    stale: tuple[str, ...]
    """What has changed since: `prompt`, `inputs`, `profile`, `engine`."""

    @property
    def stream(self) -> AbstractAsyncContextManager[Stream]:
        """The answer as a stream."""
        return given(self.completion)


def fingerprint(agent: Agent, profile: ModelProfile) -> Fingerprint:
    """What an agent's answers come of."""
    texts = (
        agent.type.value,
        agent.system_prompt,
        agent.template,
        [(turn.role.value, turn.text) for turn in agent.few_shot],
        *([agent.images] if agent.images else []),
        msgspec.to_builtins(agent.overrides, enc_hook=str, str_keys=True),
    )
    # Keys and headers are not part of the text of a profile.
    return Fingerprint(prompt=_digest(texts), profile=_digest(repr(profile)), engine=version("flow-workbench"))


def stale_reasons(frozen: Frozen, agent: Agent, profile: ModelProfile) -> tuple[str, ...]:
    """What has changed since an agent was frozen, as far as it can be told before a run."""
    now = fingerprint(agent, profile)
    before = frozen.fingerprint
    return tuple(name for name in ("prompt", "profile", "engine") if getattr(now, name) != getattr(before, name))


def freeze(events: Sequence[AnyEvent], run_id: str, agent: Agent, profile: ModelProfile) -> Frozen:
    """Keep what an agent answered in a run; `profile` is the one it asked. Raises FlowError when nothing is there."""
    prompts: dict[tuple[int, str], PromptReady] = {}
    answered: dict[tuple[int, str], CompletionFinished] = {}
    for event in events:
        key = (event.step, event.branch)
        if event.agent != agent.name:
            continue
        if isinstance(event, PromptReady):
            prompts.setdefault(key, event)
        elif isinstance(event, CompletionFinished) and event.finish_reason in USABLE and not event.tool_calls:
            answered[key] = event
        elif isinstance(event, HandlerFailed):
            answered.pop(key, None)
    visits: dict[str, int] = {}
    answers: list[FrozenAnswer] = []
    for key in sorted(prompts):
        visit = visits[key[1]] = visits.get(key[1], 0) + 1
        done = answered.get(key)
        if done is not None:
            answers.append(
                FrozenAnswer(
                    visit=visit,
                    branch=key[1],
                    inputs=_digest(prompts[key].turns),
                    content=done.content,
                    reasoning=done.reasoning,
                    finish_reason=done.finish_reason,
                    model=done.model,
                    profile=done.profile,
                )
            )
    if not answers:
        raise FlowError(f'"{agent.name}" has no answer in run {run_id} that could be kept.', hint="Run it first.")
    return Frozen(agent=agent.name, run_id=run_id, fingerprint=fingerprint(agent, profile), answers=tuple(answers))


class FrozenAgents:
    """The frozen agents of one run."""

    def __init__(self, frozen: Iterable[Frozen]) -> None:
        self._frozen = {one.agent: one for one in frozen}
        self._steps: dict[tuple[str, str], list[int]] = {}

    def given(
        self, agent: Agent, profile: ModelProfile, conversation: Conversation, step: int, branch: str
    ) -> GivenAnswer | None:
        """The kept answer to a request: that to the same turns, else that of the same pass and branch; None: ask."""
        frozen = self._frozen.get(agent.name)
        if frozen is None:
            return None
        steps = self._steps.setdefault((agent.name, branch), [])
        if step not in steps:
            steps.append(step)
        visit = steps.index(step) + 1
        inputs = _digest(conversation.shown)
        same = [answer for answer in frozen.answers if answer.inputs == inputs]
        placed = [answer for answer in frozen.answers if (answer.visit, answer.branch) == (visit, branch)]
        answer = next((one for one in placed if one in same), None) or next(iter(same or placed), None)
        if answer is None:
            return None
        stale = stale_reasons(frozen, agent, profile)
        if answer.inputs != inputs and "prompt" not in stale:
            stale = ("inputs", *stale)
        completion = Completion(
            content=answer.content,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason,
            model=answer.model,
            profile=answer.profile,
        )
        return GivenAnswer(completion=completion, run_id=frozen.run_id, stale=stale)

    def is_frozen(self, agent: Agent) -> bool:
        """Whether answers of an agent are kept."""
        return agent.name in self._frozen


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted", enc_hook=str)).hexdigest()[:32]
