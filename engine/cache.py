"""Answers kept for later: what a cache is, what is kept in it, and the key of a request (docs/cache.md)."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from time import time
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from engine.completion import Completion, FinishReason
from engine.content import KeptPart
from engine.conversation import Conversation, Role, ToolCall
from engine.profile import ModelProfile
from engine.statistics import CompletionStatistics, CostProvenance, weakest

DEFAULT_MAX_BYTES = 200 * 1_000_000
DEFAULT_MAX_AGE = 30 * 86_400.0
"""Seconds."""
FIRST_WORDS = 80
"""Characters of the question shown in a list."""
ENTRY_OVERHEAD = 200
"""Bytes an entry is counted with beside its text: key, columns and their indexes."""

STORED_FINISHES = (FinishReason.DONE, FinishReason.TOOL_CALLS)


class CacheEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A complete answer, with what a list shows of its request."""

    content: str
    reasoning: str = ""
    finish_reason: FinishReason = FinishReason.DONE
    finish_raw: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    model: str = ""
    """The model that answered, as the server named it."""
    profile: str = ""
    """Name of the profile that asked first."""
    words: str = ""
    """The first words of the question."""
    in_tokens: int = 0
    cached_in_tokens: int = 0
    out_tokens: int = 0
    reasoning_out_tokens: int = 0
    estimated: bool = False
    cost: Decimal = Decimal(0)
    """What the answer cost when it was paid."""
    provenance: CostProvenance = CostProvenance.UNKNOWN
    """Where that cost comes from."""
    kept: tuple[KeptPart, ...] = ()
    """What goes back to the provider unchanged."""
    origin: str = ""
    created: float
    """Seconds since the epoch."""

    @classmethod
    def of(cls, completion: Completion, conversation: Conversation, profile: ModelProfile) -> "CacheEntry | None":
        """The entry of an answer; None for one that must not be given again: broken, cut, filtered, empty."""
        if completion.finish_reason not in STORED_FINISHES or completion.no_answer or completion.skipped_chunks:
            return None
        used = completion.statistics
        return cls(
            content=completion.content,
            reasoning=completion.reasoning,
            finish_reason=completion.finish_reason,
            finish_raw=completion.finish_raw,
            tool_calls=completion.tool_calls,
            kept=completion.kept,
            origin=completion.origin,
            model=completion.model,
            profile=profile.name,
            words=_first_words(conversation),
            in_tokens=used.in_tokens,
            cached_in_tokens=used.cached_in_tokens,
            out_tokens=used.out_tokens,
            reasoning_out_tokens=used.reasoning_out_tokens,
            estimated=used.estimated,
            cost=used.cost,
            provenance=used.provenance,
            created=time(),
        )

    def completion(self, profile: str) -> Completion:
        """The answer again, for which nothing was requested or paid."""
        return Completion(
            content=self.content,
            reasoning=self.reasoning,
            tool_calls=self.tool_calls,
            kept=self.kept,
            origin=self.origin,
            finish_reason=self.finish_reason,
            finish_raw=self.finish_raw,
            statistics=CompletionStatistics(
                requests=0,
                in_tokens=self.in_tokens,
                cached_in_tokens=self.cached_in_tokens,
                out_tokens=self.out_tokens,
                reasoning_out_tokens=self.reasoning_out_tokens,
                provenance=CostProvenance.FREE,
                estimated=self.estimated,
                cached=True,
            ),
            model=self.model,
            profile=profile,
        )

    @property
    def size(self) -> int:
        """Bytes it is counted with."""
        texts = [self.content, self.reasoning, self.words]
        texts += [text for call in self.tool_calls for text in (call.id, call.name, call.arguments)]
        kept = len(msgspec.json.encode(self.kept)) if self.kept else 0
        return ENTRY_OVERHEAD + kept + sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAnswer:
    """A kept answer in a list."""

    key: str
    entry: CacheEntry
    hits: int
    used: float
    """When it was stored or last given; seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInfo:
    """How much a cache holds."""

    entries: int
    stored_bytes: int
    """What the limit of size is compared with."""
    disk_bytes: int
    """Size of its files; 0 for one in memory."""
    hits: int
    """How often the answers it holds were given."""
    saved: Decimal
    """What these hits would have cost, in currency units of the profiles' prices."""
    provenance: CostProvenance = CostProvenance.FREE
    """The weakest of theirs; `unknown`: the sum is a lower bound."""


class CompletionCache(Protocol):
    """Keeps answers. A fault of its own never ends a request: then it has nothing, and stores nothing."""

    async def get(self, key: str) -> CacheEntry | None:
        """The answer to this request, counted as a hit."""
        ...

    async def put(self, key: str, entry: CacheEntry) -> None:
        """Keep an answer, instead of an older one."""
        ...

    async def entries(self, limit: int = 100) -> Sequence[CachedAnswer]:
        """What is kept, newest first."""
        ...

    async def delete(self, key: str) -> bool:
        """Forget one answer; whether there was one."""
        ...

    async def clear(self) -> int:
        """Forget all; how many there were."""
        ...

    async def info(self) -> CacheInfo:
        """How much it holds."""
        ...

    async def close(self) -> None:
        """Finish what was begun."""
        ...


class MemoryCache:
    """A cache that lasts as long as the process; the answers not used for longest go first."""

    def __init__(self, *, max_bytes: int = DEFAULT_MAX_BYTES, max_age: float | None = None) -> None:
        self.max_bytes = max_bytes
        self.max_age = max_age
        """Seconds; None = answers do not grow old."""
        self._kept: OrderedDict[str, CachedAnswer] = OrderedDict()
        self._bytes = 0

    async def get(self, key: str) -> CacheEntry | None:
        """The answer to this request, counted as a hit."""
        found = self._kept.get(key)
        if found is None:
            return None
        if self.max_age is not None and found.entry.created < time() - self.max_age:
            self._drop(key)
            return None
        self._kept[key] = CachedAnswer(key=key, entry=found.entry, hits=found.hits + 1, used=time())
        self._kept.move_to_end(key)
        return found.entry

    async def put(self, key: str, entry: CacheEntry) -> None:
        """Keep an answer, instead of an older one; one that is larger than the whole cache is not kept."""
        old = self._drop(key)
        if entry.size > self.max_bytes:
            return
        self._kept[key] = CachedAnswer(key=key, entry=entry, hits=old.hits if old else 0, used=time())
        self._bytes += entry.size
        while self._bytes > self.max_bytes:
            self._drop(next(iter(self._kept)))

    async def entries(self, limit: int = 100) -> Sequence[CachedAnswer]:
        """What is kept, newest first."""
        return sorted(self._kept.values(), key=lambda kept: kept.entry.created, reverse=True)[:limit]

    async def delete(self, key: str) -> bool:
        """Forget one answer; whether there was one."""
        return self._drop(key) is not None

    async def clear(self) -> int:
        """Forget all; how many there were."""
        count, self._bytes = len(self._kept), 0
        self._kept.clear()
        return count

    async def info(self) -> CacheInfo:
        """How much it holds."""
        kept = self._kept.values()
        given = [one for one in kept if one.hits]
        return CacheInfo(
            entries=len(kept),
            stored_bytes=self._bytes,
            disk_bytes=0,
            hits=sum(one.hits for one in given),
            saved=sum((one.entry.cost * one.hits for one in given), Decimal(0)),
            provenance=weakest({one.entry.provenance for one in given}),
        )

    async def close(self) -> None:
        """Nothing to finish."""

    def _drop(self, key: str) -> CachedAnswer | None:
        old = self._kept.pop(key, None)
        if old is not None:
            self._bytes -= old.entry.size
        return old


def cache_key(profile: ModelProfile, url: str, body: Mapping[str, object]) -> str | None:
    """SHA-256, in hexadecimal, over everything that makes the answer what it is, as JSON with sorted names.

    `body` is the finished request. How it travels (`stream`, `stream_options`), headers, key, prices, limits of time
    and the category are no part of it. None when the request is no JSON, so that it cannot be sent either.
    """
    request = {
        "format": 1,
        "provider": profile.provider,
        "url": _plain_url(url, profile),
        "promptStrategy": profile.prompt_strategy,
        "thinkTags": profile.options.think_tags,
        "body": {name: value for name, value in body.items() if name not in ("stream", "stream_options")},
    }
    try:
        return hashlib.sha256(msgspec.json.encode(request, order="sorted")).hexdigest()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _plain_url(url: str, profile: ModelProfile) -> str:
    """The address without name, password and key."""
    parts = urlsplit(url)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
    return plain.replace(profile.api_key, "") if len(profile.api_key) >= 8 else plain


def _first_words(conversation: Conversation) -> str:
    last = next((turn.text for turn in reversed(conversation.turns) if turn.role is Role.USER), conversation.text)
    # A long text is not split as a whole for its beginning.
    words = " ".join(last[: 8 * FIRST_WORDS].split()).encode("utf-8", "replace").decode()
    return words if len(words) <= FIRST_WORDS else f"{words[: FIRST_WORDS - 1]}…"
