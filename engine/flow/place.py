"""Where an event happens within a run, and how it is sent."""

from collections.abc import Awaitable, Callable
from typing import TypedDict

from engine.events import AnyEvent

Emit = Callable[[AnyEvent], Awaitable[None] | None]
"""Takes an event. Returns None when there was room for it, else an awaitable that ends when there is, which may be
dropped. Never raises."""


class Place(TypedDict):
    """The fields that place an event: one branch of one agent execution."""

    run_id: str
    agent: str
    step: int
    branch: str


async def send(emit: Emit, event: AnyEvent) -> None:
    """Emit an event and wait until there is room for it."""
    full = emit(event)
    if full is not None:
        await full
