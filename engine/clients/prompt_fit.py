"""Makes the conversation of a request fit the model, and remembers what that cost it (docs/budgets.md)."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from engine.clients.base import ChatRequest
from engine.clients.failures import Place
from engine.completion import Chunk, ShortenedNotice
from engine.content import ThinkingPart
from engine.conversation import Conversation, Turn
from engine.errors import ContextTooLong
from engine.truncation import TextCounter, TurnCounter, input_budget, truncate

log = logging.getLogger(__name__)

COUNTED_AT_ONCE = 65_536
"""Characters of a prompt whose tokens are counted on the event loop."""


class PromptFit:
    """Shortens one request, before it is sent and after it was refused."""

    def __init__(self, request: ChatRequest, at_least: TextCounter) -> None:
        self.refused = False
        """The server found the prompt too long, and a shorter one could be made."""
        self._counter = TurnCounter(at_least, request.profile)
        self._notice: ShortenedNotice | None = None
        self._places: Sequence[int] = range(len(request.conversation.turns))
        """Where the turns that are left stood in the whole prompt."""
        self._asked_again = False

    async def fitting(self, request: ChatRequest) -> ChatRequest:
        """The request without the turns that do not fit; raises ContextTooLong when the rest is too much."""
        budget = self._budget(request)
        if not budget or _surely_fits(request.conversation.turns, budget):
            return request
        if sum(map(_length, request.conversation.turns)) > COUNTED_AT_ONCE:
            # Counting takes a second for some million characters.
            return await asyncio.to_thread(self._fit, request, budget)
        return self._fit(request, budget)

    def shorter(self, request: ChatRequest, error: Exception) -> ChatRequest | None:
        """After a refusal as too long, once: the request with three quarters of its tokens, if anything can go."""
        if not isinstance(error, ContextTooLong) or self._asked_again:
            return None
        self._asked_again = True
        budget = self._counter.list(request.conversation.turns) * 3 // 4
        try:
            fit = self._fit(request, budget, refused=True)
        except ContextTooLong:
            return None
        self.refused = fit is not request
        return fit if self.refused else None

    def take_notice(self) -> Chunk | None:
        """What the prompt lost, told once."""
        notice, self._notice = self._notice, None
        return None if notice is None else Chunk(shortened=notice)

    def _budget(self, request: ChatRequest) -> int:
        """Tokens the turns may have; 0 = no limit is known."""
        budget = input_budget(request.profile)
        if not budget or request.tools is None:
            return budget
        return max(1, budget - self._counter.tools(request.tools))

    def _fit(self, request: ChatRequest, budget: int, *, refused: bool = False) -> ChatRequest:
        profile = request.profile
        try:
            fit = truncate(request.conversation.turns, budget, self._counter)
        except ContextTooLong as error:
            error.facts.update(Place.of(profile, profile.url).facts())
            raise
        if not fit.changed:
            return request
        places, gone = self._places, set(fit.dropped)
        self._places = [place for number, place in enumerate(places) if number not in gone]
        self._notice = ShortenedNotice(
            before=fit.before,
            after=fit.after,
            budget=budget,
            dropped=tuple(places[number] for number in fit.dropped),
            shrunk=tuple(places[number] for number in fit.shrunk),
            context_too_small=fit.context_too_small,
            refused=refused,
        )
        log.warning("%s: %s", profile.name, self._notice.message)
        return replace(request, conversation=Conversation(fit.turns))


def _length(turn: Turn) -> int:
    """Characters of a turn that are counted, about."""
    kept = sum(len(part.text) for part in turn.kept if isinstance(part, ThinkingPart))
    return len(turn.text) + len(turn.reasoning) + kept + sum(len(call.arguments) for call in turn.tool_calls)


def _surely_fits(turns: Sequence[Turn], budget: int) -> bool:
    """Whether counting is not needed: no token is shorter than a byte."""
    if any(turn.images or turn.kept or turn.reasoning for turn in turns):
        return False
    texts = [text for turn in turns for text in (turn.text, turn.tool_call_id)]
    texts += [text for turn in turns for call in turn.tool_calls for text in (call.name, call.arguments)]
    return 16 * len(turns) + 16 + 4 * sum(map(len, texts)) <= budget
