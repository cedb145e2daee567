"""Walks flows against scripted answers and keeps everything they told."""

from collections.abc import Callable
from typing import TypeVar

from engine.events import (
    AnyEvent,
    Event,
    RunFinished,
)
from engine.flow.agent import Agent, AgentType, Next
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.handlers import TextHandler
from tests.helpers.scripted_completer import Answers, Request, ScriptedCompleter

T = TypeVar("T", bound=Event)
COMPLETION = AgentType.COMPLETION
PROCESSING = AgentType.PROCESSING_ONLY


class Run:
    """A walk with everything it told."""

    def __init__(
        self,
        agents: list[Agent],
        answers: Answers = ("an answer",),
        values: dict[str, object] | Context | None = None,
        *,
        limits: Limits | None = None,
        outputs: tuple[str, ...] = (),
        max_concurrent: int = 4,
        missing: frozenset[str] = frozenset(),
        start: str | None = None,
    ) -> None:
        self.events: list[AnyEvent] = []
        self.completer = ScriptedCompleter(answers, max_concurrent=max_concurrent, missing=missing)
        flow = Flow(name="test", agents=tuple(agents), outputs=outputs, limits=limits or Limits())
        context = values if isinstance(values, Context) else Context(values)
        self.walk = Walk(flow, context, self.completer, run_id="run", emit=self.events.append, start=start)
        self.contexts: list[Context] = []

    async def to_end(self) -> "Run":
        self.contexts = await self.walk.run()
        return self

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def finished(self) -> RunFinished:
        assert isinstance(self.events[-1], RunFinished)
        return self.events[-1]


def asks(name: str, template: str = "go", key: str | None = None, **fields: object) -> Agent:
    handler = fields.pop("handler", lambda context: TextHandler(key or ("out" if name == "F" else name.lower())))
    return Agent(name, COMPLETION, template=template, handler=handler, **fields)  # type: ignore[arg-type]


def works(name: str, **fields: object) -> Agent:
    return Agent(name, PROCESSING, **fields)  # type: ignore[arg-type]


def to(name: str) -> Callable[[Context], Next]:
    return lambda context: Next.to(name)


def echo(request: Request) -> str:
    return f"re {request.prompt}"


def boom(*_: object) -> None:
    raise RuntimeError("boom")
