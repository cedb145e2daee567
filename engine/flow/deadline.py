"""When a run has to be over, and how its steps are kept to that."""

import asyncio
import inspect
from collections.abc import Awaitable
from time import monotonic
from typing import TypeVar

from engine.errors import BudgetExceeded, FlowError
from engine.flow.agent import Next

T = TypeVar("T")


class Deadline:
    """The end of the time a flow may take; runs that may take any have none."""

    __slots__ = ("_at", "_began", "_seconds")

    def __init__(self, seconds: float, began: float) -> None:
        """Begin to count on the running loop; `began` is when the whole run did (`monotonic`)."""
        self._at = asyncio.get_running_loop().time() + seconds
        self._began = began
        self._seconds = seconds

    def nearer(self, other: "Deadline | None") -> "Deadline":
        """The one that is over first."""
        return self if other is None or self._at < other._at else other

    def put_off(self, seconds: float) -> None:
        """Move the end, for time that is nobody's work; what is under way keeps the one it had."""
        self._at += seconds

    def check(self) -> None:
        """Raise BudgetExceeded when the time is over."""
        if asyncio.get_running_loop().time() >= self._at:
            raise self._passed()

    async def hold(self, work: Awaitable[T]) -> T:
        """Await as long as there is time; raises BudgetExceeded when it is over."""
        try:
            async with asyncio.timeout_at(self._at) as timeout:
                return await work
        except TimeoutError:
            if timeout.expired():
                raise self._passed() from None
            raise

    def _passed(self) -> BudgetExceeded:
        return BudgetExceeded(
            f"The run took longer than the {self._seconds:g} seconds it may take.",
            hint="Raise the limit of the flow, or use a faster model.",
            facts={"limit": "max_seconds", "spent": f"{monotonic() - self._began:.1f}"},
        )


async def settled(value: Awaitable[T] | T, deadline: Deadline | None) -> T:
    """The result of a plain or async callable of a flow, as long as there is time."""
    if value is None or isinstance(value, Next | list) or not inspect.isawaitable(value):
        return value
    return await in_time(value, deadline)


async def in_time(work: Awaitable[T], deadline: Deadline | None) -> T:
    """Await a part of a step; raises BudgetExceeded when the time is over, FlowError when it cancels itself."""
    try:
        return await (work if deadline is None else deadline.hold(work))
    except asyncio.CancelledError:
        if (error := own_cancellation()) is None:
            raise
        raise error from None


def own_cancellation() -> FlowError | None:
    """What a step gets that cancels itself: its worker would else end and take the branch along without a word.

    None when it was cancelled from outside. The exception stays with its handler: handed around, it would hold the
    frames that hold it, and all of a stopped run with them.
    """
    task = asyncio.current_task()
    if task is None or task.cancelling():
        return None
    return FlowError("The step cancelled itself.", hint="A hook, handler or client raised CancelledError.")
