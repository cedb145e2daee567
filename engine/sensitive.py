"""Masks personal data in what a model is sent (docs/sensitive-data.md)."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.conversation import Conversation, Role, Turn

PIECE = 100_000
"""Characters of a text that own expressions see at once; it is cut at line ends."""
LONG = 20_000
"""Characters of a conversation from which on it is masked in a thread."""
FLOWER = "✿"
SCOPES = ("off", "tool_results", "all")
STYLES = ("partial", "stars")

_AT = re.compile(r"@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?![0-9A-Za-z_])")
_LOCAL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-")
_IDENTITY = re.compile(
    r"(?<![0-9A-Za-z_])(?:[1-6][1-7]|50|71|81|82)[0-9]{4}(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"[0-9]{3}[0-9Xx](?![0-9A-Za-z_])"
)
_MOBILE = re.compile(r"(?<![0-9A-Za-z_])(\+?86[ -]?)?(1[3-9][0-9]{9})(?![0-9A-Za-z_])")
_CARD = re.compile(r"(?<![0-9A-Za-z_])62[0-9]{14,17}(?![0-9A-Za-z_])")
_MAYBE = re.compile(r"@|[0-9]{11}")
"""What a text has in which any of the above can be found."""
_BOUNDED = re.compile(r"\(\?:\[\^((?:[^\]\\]|\\.)*)\]\|\^\)(.+)\[\^((?:[^\]\\]|\\.)*)\]", re.DOTALL)

Rule = Callable[[str], str]


def mask(
    text: str,
    *,
    style: str = "partial",
    allow_email_domains: Sequence[str] = (),
    patterns: Mapping[str, str] | None = None,
) -> str:
    """The text with addresses, numbers of identity cards, phones and bank cards masked, then one's own patterns.

    `style` is `partial` or `stars`. Raises re.error for a pattern that is no expression.
    """
    return Masking(style=style, allow_email_domains=tuple(allow_email_domains)).with_patterns(patterns or {}).text(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Masking:
    """What is masked, and how."""

    style: str = "partial"
    allow_email_domains: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = field(default=(), repr=False)
    """One's own patterns, ready to use."""

    def with_patterns(self, patterns: Mapping[str, str]) -> "Masking":
        """With one's own patterns after the built-in kinds; raises re.error for one that is no expression."""
        return replace(self, rules=tuple(custom_rule(pattern, value) for pattern, value in patterns.items()))

    def text(self, text: str) -> str:
        """The text, masked."""
        if _MAYBE.search(text):
            stars = self.style == "stars"
            text = self._mails(text, stars)
            text = _IDENTITY.sub(lambda found: "*" * 18 if stars else _hidden(found[0], 6, 4), text)
            text = _MOBILE.sub(lambda found: (found[1] or "") + ("*" * 11 if stars else _hidden(found[2], 3, 4)), text)
            text = _CARD.sub(lambda found: _card(found[0], stars), text)
        for rule in self.rules:
            text = rule(text)
        return text

    def value(self, value: object) -> object:
        """JSON data with its texts and whole numbers masked; a number that is one to hide becomes a text."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, int) and not isinstance(value, bool):
            masked = self.text(str(value))
            return value if masked == str(value) else masked
        return value

    def output(self, text: str) -> str:
        """A result of a tool: of JSON the values, so that it stays JSON; of anything else the text."""
        if text[:1] in ("{", "["):
            try:
                data = json.loads(text)
                masked = self.value(data)
            except (ValueError, RecursionError):
                return self.text(text)
            return text if masked == data else json.dumps(masked, ensure_ascii=False)
        return self.text(text)

    def _mails(self, text: str, stars: bool) -> str:
        parts, done = [], 0
        for found in _AT.finditer(text):
            start = found.start()
            if start == done or text[start - 1] not in _LOCAL or self._allowed(found[0][1:]):
                continue
            if not stars:
                parts += [text[done:start], "＠"]
                done = start + 1
                continue
            begin = start
            while begin > done and text[begin - 1] in _LOCAL:
                begin -= 1
            parts += [text[done:begin], "***"]
            done = found.end()
        return "".join([*parts, text[done:]]) if parts else text

    def _allowed(self, domain: str) -> bool:
        domain = domain.lower()
        entries = (entry.lower().lstrip("@") for entry in self.allow_email_domains)
        return any(domain == entry or domain.endswith(f".{entry}") for entry in entries if entry)


def _hidden(number: str, first: int, last: int) -> str:
    return f"{number[:first]}{FLOWER * (len(number) - first - last)}{number[-last:]}"


def _card(number: str, stars: bool) -> str:
    if not _luhn(number):
        return number
    return "*" * len(number) if stars else _hidden(number, 6, 4)


def _luhn(number: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(number)):
        double = int(digit) * (1 + place % 2)
        total += double - 9 if double > 9 else double
    return total % 10 == 0


def custom_rule(pattern: str, replacement: str) -> Rule:
    """A pattern of one's own: `re:` and an expression, a word between classes of neighbours, or a literal text.

    Raises re.error for what is no expression.
    """
    if pattern.startswith("re:"):
        expression = re.compile(pattern.removeprefix("re:"))
    elif bounded := _BOUNDED.fullmatch(pattern):
        before, word, behind = bounded.groups()
        first, last = (f"(?<![{before}])" if before else "(?<!.)", f"(?![{behind}])" if behind else "(?!.)")
        expression = re.compile(first + re.escape(word) + last, re.DOTALL)
    elif pattern:
        return lambda text: text.replace(pattern, replacement)
    else:
        raise re.error("an empty pattern would be found everywhere")
    return lambda text: "".join(expression.sub(lambda _: replacement, piece) for piece in pieces(text))


def pieces(text: str) -> list[str]:
    """The text in pieces of at most PIECE characters, cut at line ends where there are any."""
    found, begin = [], 0
    while len(text) - begin > PIECE:
        end = text.rfind("\n", begin, begin + PIECE) + 1 or begin + PIECE
        found.append(text[begin:end])
        begin = end
    return [*found, text[begin:]]


def masked(conversation: Conversation, scope: str, masking: Masking) -> Conversation:
    """The conversation as it is sent: results of tools masked, or what the user and the system say, too."""
    turns = tuple(_masked(turn, scope, masking) for turn in conversation.turns)
    same = all(turn is before for turn, before in zip(turns, conversation.turns, strict=True))
    return conversation if same else Conversation(turns)


def _masked(turn: Turn, scope: str, masking: Masking) -> Turn:
    if turn.role is Role.TOOL:
        return turn.changed(masking.output)
    return turn.changed(masking.text) if scope == "all" and turn.role in (Role.USER, Role.SYSTEM) else turn


def concerns(conversation: Conversation, scope: str) -> bool:
    """Whether anything in a conversation may have to be masked."""
    return scope == "all" or (scope == "tool_results" and any(turn.role is Role.TOOL for turn in conversation.turns))
