"""Handlers turn an answer into context keys."""

from dataclasses import dataclass

from engine.completion import Chunk, Completion
from engine.flow.context import Context


@dataclass(frozen=True, slots=True)
class Done:
    """The answer was used."""


@dataclass(frozen=True, slots=True)
class Again:
    """The answer was of no use; another attempt may be made."""

    reason: str
    correction: str = ""
    """What the model is told before the next attempt, after its bad answer; empty: it is asked the same again."""


HandlerResult = Done | Again
DONE = Done()


class Handler:
    """Base of all handlers. A new one is made for each attempt, so it may collect things while chunks arrive."""

    def on_chunk(self, chunk: Chunk, context: Context) -> None:
        """See a piece as it arrives; the whole text comes to `handle` or `keep` anyway."""

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Put the answer into the context. An exception counts as an answer of no use."""
        raise NotImplementedError

    def keep(self, partial: Completion, context: Context) -> None:
        """Keep what had arrived of an answer that broke off."""


class TextHandler(Handler):
    """The whole answer goes to one key, thinking to `<key>_reasoning`."""

    def __init__(self, key: str = "response") -> None:
        self.key = key

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Replace the key, also by an empty answer."""
        self.keep(completion, context)
        return DONE

    def keep(self, partial: Completion, context: Context) -> None:
        """Store the text so far."""
        store_reasoning(f"{self.key}_reasoning", partial, context)
        context.set(self.key, partial.content)


def store_reasoning(key: str, completion: Completion, context: Context) -> None:
    """Replace the key by the thinking; blank thinking removes a stale one."""
    if completion.reasoning.strip():
        context.set(key, completion.reasoning)
    else:
        context.remove(key)
