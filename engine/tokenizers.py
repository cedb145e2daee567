"""Counts tokens: the shipped vocabularies, a deterministic estimate, or the model server's own tokenizer."""

import asyncio
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from engine import bundled
from engine.errors import EngineError, PluginError, ProfileInvalid, StorageError
from engine.fallback_tokenizer import count_slices, fallback_count, fallback_decode, fallback_encode
from engine.plugins import entry_points, installed
from engine.profile import ModelProfile
from engine.profile_keys import add_tokenizer_name, tokenizer_names

if TYPE_CHECKING:
    from tiktoken import Encoding

FALLBACK = "fallback"
VOCABULARY = "jTokkit"
SERVER = "llamaServer"

_AT_ONCE = 2_000
"""Characters that are encoded where they are; a longer text goes to a thread, so that no window waits for it."""
_ESTIMATED_AT_ONCE = {True: 16_384, False: 4_096}
"""The same for estimates, which are faster; by whether the text is ASCII."""
_LONGEST_COUNTED = 8_000_000

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """How many tokens a text has."""

    tokens: int
    approximate: bool = False
    """Estimated; shown with `~`."""


@runtime_checkable
class Tokenizer(Protocol):
    """Turns text into the token ids of one model, and back."""

    @property
    def name(self) -> str:
        """As profiles name it."""
        ...

    async def encode(self, text: str) -> list[int]:
        """The token ids; special tokens in the text are ordinary text."""
        ...

    async def decode(self, tokens: Sequence[int]) -> str:
        """The text of token ids."""
        ...


ServerEncode = Callable[[ModelProfile, str], Awaitable[Sequence[int]]]
"""Asks the server of a profile for the token ids of a text."""
ServerDecode = Callable[[ModelProfile, Sequence[int]], Awaitable[str]]
"""Asks the server of a profile for the text of token ids."""


class Tokenizers:
    """Finds the tokenizer of a profile and counts with it. One object serves all profiles.

    The server's tokenizer comes in as callables, since requests are the clients' work.
    """

    def __init__(self, server_encode: ServerEncode | None = None, server_decode: ServerDecode | None = None) -> None:
        self._server_encode = server_encode
        self._server_decode = server_decode
        self._warned: set[str] = set()

    def find(self, profile: ModelProfile) -> Tokenizer:
        """The tokenizer the profile names, else its vocabulary, else the fallback; raises ProfileInvalid."""
        kind = _kind(profile)
        if kind in _registered:
            return _registered[kind](profile)
        if kind == VOCABULARY:
            return VocabularyTokenizer(profile.encoding)
        if kind == SERVER and self._server_encode and self._server_decode:
            return ServerTokenizer(profile, self._server_encode, self._server_decode)
        return FallbackTokenizer() if kind in (SERVER, FALLBACK) else _plugged(kind)

    async def load(self, profile: ModelProfile) -> None:
        """Get the vocabulary of the profile ready in a thread, so that later counts are exact at once."""
        if _kind(profile) == VOCABULARY:
            try:
                await asyncio.to_thread(load_encoding, profile.encoding)
            except StorageError as error:
                self._warn(profile.encoding, error)

    async def count(self, profile: ModelProfile, text: str) -> TokenCount:
        """Count the tokens of a text, times the profile's `tokenScale`; what cannot be counted is estimated."""
        kind = _kind(profile)
        try:
            if kind in _registered:
                return _scaled(profile, await _count_registered(_registered[kind], profile, text), exact=True)
            if kind == VOCABULARY:
                encoding = await _encoding(profile.encoding)
                return _scaled(profile, await _in_thread_if_long(_count_encoded(encoding), text), exact=True)
            if kind == SERVER and self._server_encode is not None:
                return _scaled(profile, len(await self._server_encode(profile, text)), exact=True)
            if kind not in (SERVER, FALLBACK):
                return _scaled(profile, len(await _encoded(_plugged(kind), text)), exact=True)
        except EngineError as error:
            self._warn(profile.encoding if kind == VOCABULARY else profile.name, error)
        if len(text) <= _ESTIMATED_AT_ONCE[text.isascii()]:
            return _scaled(profile, fallback_count(text), exact=False)
        return _scaled(profile, await asyncio.to_thread(_estimate, text), exact=False)

    def count_now(self, profile: ModelProfile, text: str) -> TokenCount:
        """Count without waiting: exact when the vocabulary is loaded already, else an estimate.

        Of more characters than any model takes only the first million are counted, the rest is estimated by them.
        """
        if len(text) > _LONGEST_COUNTED:
            start = self.count_now(profile, text[:1_000_000]).tokens
            return TokenCount(tokens=start * len(text) // 1_000_000, approximate=True)
        encoding = _loaded.get(profile.encoding) if _kind(profile) == VOCABULARY else None
        if encoding is not None:
            return _scaled(profile, _count_encoded(encoding)(text), exact=True)
        return _scaled(profile, fallback_count(text), exact=False)

    def at_least(self, profile: ModelProfile, text: str) -> int:
        """Count for a budget, without waiting: where tokens are only estimated, rather too many than too few."""
        counted = self.count_now(profile, text)
        if not counted.approximate or profile.options.token_scale != 1:
            return counted.tokens
        ascii_only = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
        return max(counted.tokens, -(-ascii_only // 4) + len(text) - ascii_only)

    def _warn(self, what: str, error: EngineError) -> None:
        if what not in self._warned:
            self._warned.add(what)
            _log.warning("Token counts are estimates: %s", error)


class VocabularyTokenizer:
    """One of the shipped vocabularies, as `tokenEncoding` names it; raises StorageError when it cannot be loaded."""

    name = VOCABULARY

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding

    async def encode(self, text: str) -> list[int]:
        """The token ids; special tokens in the text are ordinary text."""
        encoding = await _encoding(self.encoding)
        return await _in_thread_if_long(encoding.encode_ordinary, text)

    async def decode(self, tokens: Sequence[int]) -> str:
        """The text of token ids; incomplete UTF-8 becomes U+FFFD."""
        return (await _encoding(self.encoding)).decode(tokens)


class FallbackTokenizer:
    """The deterministic estimator: no model's real tokens, but a stable and reversible approximation."""

    name = FALLBACK

    async def encode(self, text: str) -> list[int]:
        """One id per piece."""
        return await _in_thread_if_long(fallback_encode, text)

    async def decode(self, tokens: Sequence[int]) -> str:
        """The text of ids made by `encode`; raises ValueError for others."""
        return fallback_decode(tokens)


class ServerTokenizer:
    """The tokenizer of a profile's llama.cpp server."""

    name = SERVER

    def __init__(self, profile: ModelProfile, encode: ServerEncode, decode: ServerDecode) -> None:
        self._profile = profile
        self._encode = encode
        self._decode = decode

    async def encode(self, text: str) -> list[int]:
        """The token ids as the server tells them; raises RequestError."""
        return list(await self._encode(self._profile, text))

    async def decode(self, tokens: Sequence[int]) -> str:
        """The text as the server tells it; raises RequestError."""
        return await self._decode(self._profile, tokens)


def _kind(profile: ModelProfile) -> str:
    wanted = profile.tokenizer.lower()
    if profile.tokenizer in _registered:
        return profile.tokenizer
    if wanted in ("", VOCABULARY.lower(), "tiktoken"):
        return VOCABULARY if profile.encoding not in ("", "none") else FALLBACK
    for kind in (SERVER, FALLBACK):
        if wanted == kind.lower():
            return kind
    if profile.tokenizer in entry_points("tokenizers"):
        return profile.tokenizer
    raise ProfileInvalid(
        f'Profile {profile.name} names the unknown tokenizer "{profile.tokenizer}".',
        hint=f"Use one of: {', '.join(tokenizer_names())}.",
    )


def _plugged(name: str) -> Tokenizer:
    found = installed("tokenizers", name, Tokenizer, what="Tokenizer")
    if not isinstance(found, Tokenizer):
        raise PluginError(f'There is no plug-in "{name}" among the tokenizers.', facts={"plug-in": name})
    return found


async def _encoded(tokenizer: Tokenizer, text: str) -> Sequence[int]:
    try:
        return await tokenizer.encode(text)
    except EngineError:
        raise
    except Exception as error:
        raise PluginError(f'The tokenizer "{tokenizer.name}" failed: {type(error).__name__}: {error}.') from error


def _scaled(profile: ModelProfile, tokens: int, *, exact: bool) -> TokenCount:
    scale = profile.options.token_scale
    if scale == 1:
        return TokenCount(tokens=tokens, approximate=not exact)
    return TokenCount(tokens=math.ceil(tokens * scale), approximate=True)


async def _in_thread_if_long(work: Callable[[str], T], text: str) -> T:
    return work(text) if len(text) <= _AT_ONCE else await asyncio.to_thread(work, text)


def _estimate(text: str) -> int:
    return sum(map(fallback_count, count_slices(text)))


# --- Tokenizers of one's own ------------------------------------------------------------------------------------------

TokenizerFactory = Callable[[ModelProfile], Tokenizer]
"""Makes the tokenizer of a profile; its counts are taken as exact."""

_registered: dict[str, TokenizerFactory] = {}


def register_tokenizer(name: str, make: TokenizerFactory) -> None:
    """Make a tokenizer known under a name for `tokenizer` in profiles; raises ValueError when it is taken."""
    add_tokenizer_name(name)
    _registered[name] = make


async def _count_registered(make: TokenizerFactory, profile: ModelProfile, text: str) -> int:
    try:
        return len(await make(profile).encode(text))
    except EngineError:
        raise
    except Exception as error:
        raise ProfileInvalid(f"The tokenizer {profile.tokenizer} failed: {type(error).__name__}: {error}") from error


# --- The shipped vocabularies -----------------------------------------------------------------------------------------

_loaded: dict[str, "Encoding"] = {}
_loading = threading.Lock()


def load_encoding(name: str) -> "Encoding":
    """Unpack a shipped vocabulary and keep it; takes up to half a second the first time, so call it in a thread.

    Raises StorageError for an unknown name and for a missing or damaged file; never asks the network.
    """
    found = _loaded.get(name)
    if found is not None:
        return found
    with _loading:
        if name not in _loaded:
            _loaded[name] = _build_encoding(name)
        return _loaded[name]


async def _encoding(name: str) -> "Encoding":
    found = _loaded.get(name)
    return await asyncio.to_thread(load_encoding, name) if found is None else found


def _build_encoding(name: str) -> "Encoding":
    import tiktoken
    from tiktoken_ext import openai_public

    # tiktoken's own definitions (patterns, special tokens) run here with one name exchanged: the function that fetches
    # a vocabulary reads ours. They are copied into a namespace of their own, so tiktoken itself stays as it is.
    namespace = dict(vars(openai_public))
    for key, value in vars(openai_public).items():
        if isinstance(value, FunctionType) and value.__globals__ is vars(openai_public):
            namespace[key] = FunctionType(value.__code__, namespace, key, value.__defaults__)
    namespace["load_tiktoken_bpe"] = _read_ranks
    define = namespace.get(name) if name in openai_public.ENCODING_CONSTRUCTORS else None
    if define is None:
        known = ", ".join(openai_public.ENCODING_CONSTRUCTORS)
        raise StorageError(f'There is no vocabulary "{name}".', hint=f"Known are {known}.")
    return tiktoken.Encoding(**define())


def _read_ranks(address: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """The ranks of the shipped copy of the vocabulary that tiktoken would fetch from this address."""
    import base64
    import hashlib
    import lzma

    name = address.rpartition("/")[2] + ".xz"
    try:
        data = lzma.decompress(bundled.read_bytes("resources", "tokenizers", name))
    except (OSError, lzma.LZMAError) as error:
        raise StorageError(f"The vocabulary {name} cannot be read: {error}.", facts={"path": name}) from error
    if hashlib.sha256(data).hexdigest() != expected_hash:
        raise StorageError(f"The vocabulary {name} is not the one tiktoken expects.", facts={"path": name})
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}


def _count_encoded(encoding: "Encoding") -> Callable[[str], int]:
    def count(text: str) -> int:
        try:
            # The buffer is not made a list: a long text would hold up the other threads for that long.
            return memoryview(encoding._core_bpe.encode_to_tiktoken_buffer(text, set())).nbytes // 4
        except UnicodeEncodeError:  # lone halves of surrogate pairs
            return len(encoding.encode_ordinary(text))

    return count
