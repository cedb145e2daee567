"""A recorded run as a list of calls in order: what was asked, what was answered, what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.events import (
    AgentFinished,
    AnyEvent,
    BranchFailed,
    CacheHit,
    CompletionFinished,
    ErrorInfo,
    PromptReady,
    Statistics,
    ToolCalled,
)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One request and its answer."""

    number: int
    profile: str = ""
    model: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    parameters: dict[str, object] = field(default_factory=dict)
    content: str = ""
    reasoning: str = ""
    finish: str = ""
    statistics: Statistics | None = None
    """None: no answer came."""
    cached: bool = False
    tools: list[ToolCalled] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Branch:
    """One branch of one agent execution."""

    step: int
    agent: str
    visit: int
    """How many times the agent has run in this branch, from 1."""
    branch: str
    attempts: list[Attempt] = field(default_factory=list)
    values: dict[str, list[object]] = field(default_factory=dict)
    """The keys after it; of a merge on its first context."""
    error: ErrorInfo | None = None

    @property
    def answer(self) -> str:
        """The text of the last answer."""
        return self.attempts[-1].content if self.attempts else ""


def story(events: Sequence[AnyEvent]) -> list[Branch]:
    """The branches of all executions, in the order in which they began to ask or ended."""
    found: dict[tuple[int, str], Branch] = {}
    visits: dict[tuple[str, str], int] = {}
    for event in events:
        if isinstance(event, PromptReady | CompletionFinished | ToolCalled | CacheHit | BranchFailed | AgentFinished):
            key = (event.step, event.branch)
            branch = found.get(key)
            if branch is None:
                visit = visits[event.agent, event.branch] = visits.get((event.agent, event.branch), 0) + 1
                branch = found[key] = Branch(step=event.step, agent=event.agent, visit=visit, branch=event.branch)
            _add(branch, event)
    return list(found.values())


def _add(
    branch: Branch, event: PromptReady | CompletionFinished | ToolCalled | CacheHit | BranchFailed | AgentFinished
) -> None:
    match event:
        case PromptReady():
            branch.attempts.append(
                Attempt(
                    number=event.attempt, profile=event.profile, turns=event.turns, parameters=dict(event.parameters)
                )
            )
        case AgentFinished():
            branch.values = event.values
        case BranchFailed():
            branch.error = event.error
        case _:
            if not branch.attempts:
                branch.attempts.append(Attempt(number=1))
            attempt = branch.attempts[-1]
            if isinstance(event, CacheHit):
                attempt.cached = True
            elif isinstance(event, ToolCalled):
                attempt.tools.append(event)
            else:
                attempt.model, attempt.content, attempt.reasoning = event.model, event.content, event.reasoning
                attempt.finish, attempt.statistics = event.finish_reason.value, event.statistics
