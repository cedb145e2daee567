"""Makes a list of turns fit a budget of tokens, by leaving out whole exchanges, the oldest first (docs/budgets.md)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.content import CallExtraPart, KeptPart, OutputItemPart, RedactedThinkingPart, ThinkingPart
from engine.conversation import ImagePart, Role, ToolChoice, Turn
from engine.errors import ContextTooLong
from engine.image_tokens import image_tokens
from engine.profile import ModelProfile

FORMAT_TOKENS, TURN_TOKENS = 2, 4
"""What a list and each of its turns cost beside their texts."""
SPARE_TOKENS = 15
"""Tokens of the context that neither the prompt nor the answer may have."""

ENCRYPTED = ("encrypted_content", "data", "signature")
"""Members of kept items that only their provider reads."""

TextCounter = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class TurnCounter:
    """Counts turns: their texts, and their pictures by the formula of the profile's service."""

    text: TextCounter
    profile: ModelProfile

    def list(self, turns: Sequence[Turn]) -> int:
        """Tokens of a list of turns."""
        return FORMAT_TOKENS + sum(map(self.turn, turns))

    def turn(self, turn: Turn) -> int:
        """Tokens of one turn."""
        texts = [turn.role.value, turn.text, turn.tool_call_id]
        texts += [text for call in turn.tool_calls for text in (call.name, call.arguments)]
        if self.profile.sends_reasoning:
            texts.append(turn.reasoning)
        said = sum(self.text(text) for text in texts if text)
        # What another model signed or encrypted stays behind.
        kept = turn.kept if turn.origin in ("", self.profile.origin) else ()
        return TURN_TOKENS + said + sum(map(self._kept, kept)) + sum(map(self.image, turn.images))

    def _kept(self, part: KeptPart) -> int:
        """Tokens of what goes back as it came, beside the text and the calls of its turn."""
        match part:
            case ThinkingPart(text=text):
                return self.text(text) if text else 0
            case RedactedThinkingPart(data=data):
                return _unreadable(data)
            case CallExtraPart(extra=extra):
                return _unreadable(_compact(extra))
            case OutputItemPart(item=item) if item.get("type") not in ("message", "function_call"):
                shown = {name: value for name, value in item.items() if name not in ENCRYPTED}
                return self.text(_compact(shown)) + sum(_unreadable(str(item.get(name) or "")) for name in ENCRYPTED)
        return 0

    def image(self, image: ImagePart) -> int:
        """Tokens of a picture."""
        return image_tokens(image, self.profile)

    def tools(self, choice: ToolChoice) -> int:
        """Tokens of the definitions of tools."""
        definitions = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in choice.tools
        ]
        return self.text(_compact(definitions))


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)


def _unreadable(data: str) -> int:
    """Tokens behind what only the provider reads: its letters are no words, and four of them hardly hide one token."""
    return -(-len(data) // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """Turns that fit a budget."""

    turns: tuple[Turn, ...]
    before: int
    """Tokens of all turns."""
    after: int
    """Tokens of those that stay."""
    dropped: tuple[int, ...] = ()
    """Places of the turns that were left out, from 0."""
    shrunk: tuple[int, ...] = ()
    """Places of tool results that were replaced by a note."""
    context_too_small: bool = False
    """Even what came right before the question had to go."""

    @property
    def changed(self) -> bool:
        """Whether anything was left out or replaced."""
        return bool(self.dropped or self.shrunk)


def input_budget(profile: ModelProfile) -> int:
    """Tokens a prompt may have; 0 = no limit is known."""
    context = profile.max_context - profile.max_tokens - SPARE_TOKENS if profile.max_context else 0
    return min((limit for limit in (profile.options.max_input_tokens, context) if limit > 0), default=0)


def truncate(turns: Sequence[Turn], budget: int, counter: TurnCounter) -> Truncated:
    """Leave out the oldest exchanges until the rest fits.

    System and pinned turns stay, and all from the last user turn on. No text is cut, but old tool results may become a
    note. Raises ContextTooLong when even that is too much.
    """
    units = _units(turns)
    tokens = [sum(counter.turn(turns[place]) for place in unit) for unit in units]
    before = FORMAT_TOKENS + sum(tokens)
    if budget <= 0 or (before <= budget and not any(_is_orphan(turns, unit) for unit in units)):
        return Truncated(turns=tuple(turns), before=before, after=before)
    cut = _Cut(turns, units, tokens, budget, counter)
    cut.shrink()
    cut.add()
    left = [place for number in sorted(cut.kept) for place in units[number]]
    return Truncated(
        turns=tuple(cut.turns[place] for place in left),
        before=before,
        after=cut.total,
        dropped=tuple(sorted(set(range(len(turns))).difference(left))),
        shrunk=tuple(place for place in left if cut.turns[place] is not turns[place]),
        context_too_small=cut.tail > 0 and cut.tail - 1 not in cut.kept,
    )


def _units(turns: Sequence[Turn]) -> list[list[int]]:
    """Places of turns that stay together: an assistant turn with calls and the results behind it; else one each."""
    units: list[list[int]] = []
    for place, turn in enumerate(turns):
        if turn.role is Role.TOOL and units and turns[units[-1][0]].tool_calls:
            units[-1].append(place)
        else:
            units.append([place])
    return units


def _is_orphan(turns: Sequence[Turn], unit: Sequence[int]) -> bool:
    return turns[unit[0]].role is Role.TOOL


class _Cut:
    """Which units stay, and what they cost."""

    def __init__(
        self, turns: Sequence[Turn], units: list[list[int]], tokens: list[int], budget: int, counter: TurnCounter
    ) -> None:
        self.turns = list(turns)
        self._units = units
        self._tokens = tokens
        self._budget = budget
        self._counter = counter
        users = [number for number in range(len(units)) if self._role(number) is Role.USER]
        self.tail = users[-1] if users else len(units) - 1
        self.kept = {number for number in range(len(units)) if number >= self.tail or self._always(number)}
        self.total = FORMAT_TOKENS + sum(tokens[number] for number in self.kept)

    def _role(self, number: int) -> Role:
        return self.turns[self._units[number][0]].role

    def _always(self, number: int) -> bool:
        return self._role(number) is Role.SYSTEM or any(self.turns[place].pinned for place in self._units[number])

    def shrink(self) -> None:
        """Replace tool results of what always stays by notes, oldest first; raises ContextTooLong if it is too much."""
        for place in (place for number in sorted(self.kept) for place in self._units[number]):
            if self.total <= self._budget:
                return
            turn = self.turns[place]
            if turn.role is not Role.TOOL or turn.images:
                continue
            had = self._counter.text(turn.text) if turn.text else 0
            note = f"[tool result omitted: {had} tokens]"
            saved = had - self._counter.text(note)
            if saved > 0:
                self.turns[place] = replace(turn, text=note)
                self.total -= saved
        if self.total > self._budget:
            raise ContextTooLong(
                f"The prompt has {self.total} tokens, but only {self._budget} fit.",
                hint="Shorten the prompt, lower maxTokens, or choose a profile with a longer context.",
                facts={"tokens": str(self.total), "limit": str(self._budget)},
            )

    def add(self) -> None:
        """Add earlier units, the newest first, as long as they fit; a user turn comes first in the end."""
        added: list[int] = []
        for number in range(self.tail - 1, -1, -1):
            if number in self.kept or self._role(number) is Role.TOOL:
                continue
            if self.total + self._tokens[number] > self._budget:
                break
            self.total += self._tokens[number]
            added.append(number)
        self.kept.update(added)
        for number in sorted(self.kept):
            if self._role(number) is Role.SYSTEM:
                continue
            if number not in added or self._role(number) is Role.USER:
                return
            self.kept.remove(number)
            self.total -= self._tokens[number]
