"""Counts tokens: the shipped vocabularies, a deterministic estimate, or the model server's own tokenizer."""

import asyncio
import logging
import math
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from types import FunctionType
from typing import TYPE_CHECKING, Protocol, TypeVar

from engine import bundled
from engine.errors import EngineError, ProfileInvalid, StorageError
from engine.profile import ModelProfile

if TYPE_CHECKING:
    from tiktoken import Encoding

FALLBACK = "fallback"
VOCABULARY = "jTokkit"
SERVER = "llamaServer"

_SMALL = 20_000
"""Characters that are counted at once; a longer text goes to a thread."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """How many tokens a text has."""

    tokens: int
    approximate: bool = False
    """Estimated; shown with `~`."""


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
        if kind == VOCABULARY:
            return VocabularyTokenizer(profile.encoding)
        if kind == SERVER and self._server_encode and self._server_decode:
            return ServerTokenizer(profile, self._server_encode, self._server_decode)
        return FallbackTokenizer()

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
            if kind == VOCABULARY:
                encoding = await asyncio.to_thread(load_encoding, profile.encoding)
                return _scaled(profile, await _in_thread_if_long(_count_encoded(encoding), text), exact=True)
            if kind == SERVER and self._server_encode is not None:
                return _scaled(profile, len(await self._server_encode(profile, text)), exact=True)
        except EngineError as error:
            self._warn(profile.encoding if kind == VOCABULARY else profile.name, error)
        return _scaled(profile, await _in_thread_if_long(fallback_count, text), exact=False)

    def count_now(self, profile: ModelProfile, text: str) -> TokenCount:
        """Count without waiting: exact when the vocabulary is loaded already, else an estimate."""
        encoding = _loaded.get(profile.encoding) if _kind(profile) == VOCABULARY else None
        if encoding is not None:
            return _scaled(profile, _count_encoded(encoding)(text), exact=True)
        return _scaled(profile, fallback_count(text), exact=False)

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
        encoding = await asyncio.to_thread(load_encoding, self.encoding)
        return await _in_thread_if_long(encoding.encode_ordinary, text)

    async def decode(self, tokens: Sequence[int]) -> str:
        """The text of token ids; incomplete UTF-8 becomes U+FFFD."""
        encoding = await asyncio.to_thread(load_encoding, self.encoding)
        return encoding.decode(tokens)


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
    if wanted in ("", VOCABULARY.lower(), "tiktoken"):
        return VOCABULARY if profile.encoding not in ("", "none") else FALLBACK
    for kind in (SERVER, FALLBACK):
        if wanted == kind.lower():
            return kind
    raise ProfileInvalid(
        f'Profile {profile.name} names the unknown tokenizer "{profile.tokenizer}".',
        hint=f"Use {VOCABULARY}, {SERVER} or {FALLBACK}.",
    )


def _scaled(profile: ModelProfile, tokens: int, *, exact: bool) -> TokenCount:
    scale = profile.options.token_scale
    if scale == 1:
        return TokenCount(tokens=tokens, approximate=not exact)
    return TokenCount(tokens=math.ceil(tokens * scale), approximate=True)


async def _in_thread_if_long(work: Callable[[str], T], text: str) -> T:
    return work(text) if len(text) <= _SMALL else await asyncio.to_thread(work, text)


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
    return lambda text: len(encoding.encode_ordinary(text))


# --- The fallback: pieces of fixed sizes by kind of character ---------------------------------------------------------

_SPACE_SIZE = 6
_DIGIT_SIZE = 3
_LETTER_SIZE = 4
_BYTE_SIZE = 6

_RUN = re.compile(r"\s+|[^\W_]+|.", re.DOTALL)
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]+")


def fallback_pieces(text: str) -> Iterator[str]:
    """Cut text into the pieces of the fallback tokenizer, one token each; joined they are the text."""
    for match in _RUN.finditer(text):
        run = match[0]
        if run.isspace():
            yield from _sized(run, _SPACE_SIZE) if run.isascii() else _by_bytes(run)
        elif run.isascii() or len(run) == 1:
            yield from _word_pieces(run)
        else:
            # `\w` knows more numbers (², Ⅷ) than letters and decimal digits: those stand alone.
            yield from _split_other_numbers(run)


def fallback_encode(text: str) -> list[int]:
    """Token ids of the fallback tokenizer: the length of a piece in bytes, then its UTF-8 bytes, least byte first."""
    encoded = (piece.encode("utf-8", "surrogatepass") for piece in fallback_pieces(text))
    return [int.from_bytes(bytes((len(data),)) + data, "little") for data in encoded]


def fallback_decode(tokens: Sequence[int]) -> str:
    """The text of ids made by `fallback_encode`; raises ValueError for others."""
    data = bytearray()
    for token in tokens:
        try:
            data += (token >> 8).to_bytes(token & 0xFF, "little")
        except OverflowError:
            raise ValueError(f"{token} is no token of the fallback tokenizer") from None
    return data.decode("utf-8", "surrogatepass")


def fallback_count(text: str) -> int:
    """How many tokens the fallback tokenizer makes of the text, without making them: a word costs about 0.1 µs."""
    words = _WORD.findall(text)
    plain = list(filter(str.isascii, words))
    spaces = _SPACE.findall(text)
    blanks = list(filter(str.isascii, spaces))
    letters = Counter(map(len, filter(str.isalpha, plain)))
    digits = Counter(map(len, filter(str.isdecimal, plain)))
    mixed = Counter(map(len, plain)) - letters - digits
    return (
        _groups(letters, _LETTER_SIZE)
        + _groups(digits, _DIGIT_SIZE)
        + _groups(mixed, _BYTE_SIZE)
        + _groups(Counter(map(len, blanks)), _SPACE_SIZE)
        + sum(map(_count_wide, filterfalse(str.isascii, words)))
        + sum(sum(1 for _ in _by_bytes(space)) for space in filterfalse(str.isascii, spaces))
        + len(text)
        - sum(map(len, words))
        - sum(map(len, spaces))
    )


def _groups(lengths: Counter[int], size: int) -> int:
    return sum(-(-length // size) * times for length, times in lengths.items())


def _count_wide(run: str) -> int:
    if run.isalpha() and min(run) >= "\u0800" and max(run) <= "\uffff":
        return -(-len(run) // (_BYTE_SIZE // 3))  # three bytes each, as in Chinese or Japanese
    return sum(1 for _ in _split_other_numbers(run))


def _word_pieces(run: str) -> Iterator[str]:
    if run.isascii() and run.isdecimal():
        return _sized(run, _DIGIT_SIZE)
    if run.isascii() and run.isalpha():
        return _sized(run, _LETTER_SIZE)
    return _by_bytes(run)


def _split_other_numbers(run: str) -> Iterator[str]:
    start = 0
    for index, character in enumerate(run):
        if not (character.isalpha() or character.isdecimal()):
            if start < index:
                yield from _word_pieces(run[start:index])
            yield character
            start = index + 1
    if start < len(run):
        yield from _word_pieces(run[start:])


def _sized(run: str, size: int) -> Iterator[str]:
    return (run[start : start + size] for start in range(0, len(run), size))


def _by_bytes(run: str) -> Iterator[str]:
    piece, size = "", 0
    for character in run:
        width = len(character.encode("utf-8", "surrogatepass"))
        if piece and size + width > _BYTE_SIZE:
            yield piece
            piece, size = "", 0
        piece += character
        size += width
    if piece:
        yield piece
