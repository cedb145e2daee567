"""Token counts: exact with the shipped vocabularies, without any network; else the deterministic estimate."""

import asyncio
import socket
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import bundled, fallback_tokenizer, profile_keys, tokenizers
from engine.errors import ConnectFailed, ProfileInvalid, StorageError
from engine.fallback_tokenizer import (
    count_slices,
    fallback_count,
    fallback_decode,
    fallback_encode,
    fallback_pieces,
)
from engine.profile import ModelProfile, ProfileOptions, Provider
from engine.profile_builder import inline_profile
from engine.profile_keys import ENCODINGS
from engine.tokenizers import (
    FallbackTokenizer,
    ServerTokenizer,
    TokenCount,
    Tokenizers,
    VocabularyTokenizer,
    load_encoding,
    register_tokenizer,
)


def profile(tokenizer: str = "", encoding: str = "", scale: float = 1.0) -> ModelProfile:
    options = ProfileOptions(token_scale=scale)
    return ModelProfile(
        name="p", category="M", provider=Provider.OPENAI_CHAT, tokenizer=tokenizer, encoding=encoding, options=options
    )


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(tokenizers, "_loaded", {})


@pytest.mark.parametrize(
    ("encoding", "text", "tokens"),
    [
        ("cl100k_base", "hello world", [15339, 1917]),
        ("o200k_base", "hello world", [24912, 2375]),
        ("o200k_harmony", "hello world", [24912, 2375]),
        ("p50k_base", "hello world", [31373, 995]),
        ("p50k_edit", "hello world", [31373, 995]),
        ("r50k_base", "hello world", [31373, 995]),
        ("cl100k_base", "你好，世界", None),
        ("cl100k_base", "<|endoftext|>", None),
    ],
)
async def test_known_tokens(encoding: str, text: str, tokens: list[int] | None, no_sockets: None) -> None:
    tokenizer = VocabularyTokenizer(encoding)
    found = await tokenizer.encode(text)
    assert len(found) == 6 if tokens is None and "你" in text else found == (tokens or found)
    assert 100257 not in found  # text that looks like a special token is ordinary text
    assert await tokenizer.decode(found) == text


def test_every_encoding_that_profiles_may_name_is_there() -> None:
    for name in ENCODINGS:
        assert load_encoding(name) is load_encoding(name)


def test_unknown_and_damaged_vocabularies(monkeypatch: pytest.MonkeyPatch, no_sockets: None) -> None:
    with pytest.raises(StorageError, match="no vocabulary"):
        load_encoding("made_up")
    import lzma

    for data, message in ((b"not xz", "cannot be read"), (lzma.compress(b"YQ== 0\n"), "not the one")):
        monkeypatch.setattr(bundled, "read_bytes", lambda *parts, data=data: data)
        with pytest.raises(StorageError, match=message):
            load_encoding("r50k_base")


async def test_a_damaged_vocabulary_leads_to_an_estimate_and_one_warning(
    monkeypatch: pytest.MonkeyPatch, no_sockets: None, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bundled, "read_bytes", lambda *parts: b"damaged")
    counter = Tokenizers()
    for _ in range(2):
        assert await counter.count(profile(encoding="r50k_base"), "Hello world") == TokenCount(
            tokens=5, approximate=True
        )
    await counter.load(profile(encoding="r50k_base"))
    assert len(caplog.records) == 1


async def test_which_tokenizer_counts() -> None:
    async def encode(of: ModelProfile, text: str) -> Sequence[int]:
        return range(len(text))

    async def decode(of: ModelProfile, tokens: Sequence[int]) -> str:
        return "x" * len(tokens)

    counter = Tokenizers(encode, decode)
    text = "Hello world"
    assert await counter.count(profile(), text) == TokenCount(tokens=5, approximate=True)
    assert await counter.count(profile(encoding="none"), text) == TokenCount(tokens=5, approximate=True)
    assert await counter.count(profile(encoding="cl100k_base"), text) == TokenCount(tokens=2)
    assert await counter.count(profile("tiktoken", "cl100k_base"), text) == TokenCount(tokens=2)
    assert await counter.count(profile("jTokkit"), text) == TokenCount(tokens=5, approximate=True)
    assert await counter.count(profile("fallback", "cl100k_base"), text) == TokenCount(tokens=5, approximate=True)
    assert await counter.count(profile("llamaServer"), text) == TokenCount(tokens=11)
    assert await counter.count(profile(encoding="cl100k_base", scale=1.25), text) == TokenCount(
        tokens=3, approximate=True
    )
    with pytest.raises(ProfileInvalid, match="magic"):
        await counter.count(profile("magic"), text)
    server = counter.find(profile("llamaServer"))
    assert isinstance(server, ServerTokenizer)
    assert await server.decode(await server.encode("abc")) == "xxx"
    assert isinstance(Tokenizers().find(profile("llamaServer")), FallbackTokenizer)
    assert isinstance(counter.find(profile(encoding="cl100k_base")), VocabularyTokenizer)


async def test_an_unreachable_server_leads_to_an_estimate() -> None:
    async def encode(of: ModelProfile, text: str) -> Sequence[int]:
        raise ConnectFailed("The server does not answer.")

    assert await Tokenizers(encode).count(profile("llamaServer"), "Hello") == TokenCount(tokens=2, approximate=True)


async def test_counting_without_waiting(no_sockets: None) -> None:
    counter, of = Tokenizers(), profile(encoding="r50k_base")
    assert counter.count_now(of, "Hello world") == TokenCount(tokens=5, approximate=True)
    await counter.load(of)
    assert counter.count_now(of, "Hello world") == TokenCount(tokens=2)


async def test_a_vocabulary_is_built_once_for_all_who_wait(monkeypatch: pytest.MonkeyPatch, no_sockets: None) -> None:
    built: list[str] = []
    build = tokenizers._build_encoding

    def counted(name: str) -> object:
        built.append(name)
        return build(name)

    monkeypatch.setattr(tokenizers, "_build_encoding", counted)
    counter = Tokenizers()
    await asyncio.gather(*(counter.count(profile(encoding="r50k_base"), "x") for _ in range(8)))
    assert built == ["r50k_base"]


@pytest.mark.parametrize("text", ["The quick brown fox. " * 5000, "half \ud83d a pair", "<|endoftext|> 你好", ""])
async def test_counts_are_those_of_the_encoding(text: str) -> None:
    expected = len(load_encoding("cl100k_base").encode_ordinary(text))
    assert await Tokenizers().count(profile(encoding="cl100k_base"), text) == TokenCount(tokens=expected)


@pytest.mark.parametrize("text", ["The quick brown fox. " * 5000, "天气不错。\n" * 5000])
async def test_a_long_estimate_is_the_same_in_a_thread(text: str) -> None:
    expected = len(list(fallback_pieces(text)))
    assert await Tokenizers().count(profile(), text) == TokenCount(tokens=expected, approximate=True)


@pytest.mark.parametrize(
    ("of", "text", "tokens"),
    [
        (profile(), "天气不错", 4),  # the estimate is 2
        (profile(), "word " * 8, 16),  # the estimate is more than 40 / 4
        (profile(), "........", 8),
        (profile("fallback", scale=2.0), "天气不错", 4),
        (profile(encoding="cl100k_base"), "Hello world", 2),
    ],
)
async def test_budgets_count_rather_too_many(of: ModelProfile, text: str, tokens: int) -> None:
    counter = Tokenizers()
    await counter.load(of)
    assert counter.at_least(of, text) == tokens


class Letters:
    """A tokenizer of one's own: one token a letter."""

    name = "letters"

    async def encode(self, text: str) -> list[int]:
        if not text.isalpha():
            raise RuntimeError("letters only")
        return [ord(letter) for letter in text]

    async def decode(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "_registered", {})
    monkeypatch.setattr(profile_keys, "_tokenizers", dict(profile_keys._tokenizers))
    register_tokenizer("letters", lambda of: Letters())


async def test_a_tokenizer_of_ones_own(letters: None) -> None:
    values = {"modelProvider": "OAI_CHAT_COMPLETION", "url": "http://h", "maxTokens": 1, "temperature": 0, "topP": 1}
    own = inline_profile("p", {**values, "tokenizer": "Letters"})
    counter = Tokenizers()
    assert own.tokenizer == "letters"
    assert await counter.count(own, "abc") == TokenCount(tokens=3)
    assert await counter.find(own).decode([72, 105]) == "Hi"
    assert counter.count_now(own, "abcde") == TokenCount(tokens=2, approximate=True)
    for taken in ("LETTERS", "jTokkit", "tiktoken", " "):
        with pytest.raises(ValueError, match="cannot be called"):
            register_tokenizer(taken, lambda of: Letters())


async def test_one_that_raises_leads_to_an_estimate(letters: None, caplog: pytest.LogCaptureFixture) -> None:
    assert await Tokenizers().count(profile("letters"), "a b") == TokenCount(tokens=3, approximate=True)
    assert "The tokenizer letters failed: RuntimeError: letters only" in caplog.text


# --- The fallback -----------------------------------------------------------------------------------------------------


def pieces_by_the_book(text: str) -> list[str]:
    """The fallback tokenizer as its description reads, character by character."""

    def kind(character: str) -> str:
        category = unicodedata.category(character)
        return "space" if character.isspace() else "word" if category[0] == "L" or category == "Nd" else "other"

    found: list[str] = []
    start = 0
    while start < len(text):
        end = start + 1
        while kind(text[start]) != "other" and end < len(text) and kind(text[end]) == kind(text[start]):
            end += 1
        run = text[start:end]
        start = end
        size = 6 if kind(run[0]) == "space" else 3 if run.isdigit() else 4 if run.isalpha() else 0
        if kind(run[0]) == "other":
            found.append(run)
        elif run.isascii() and size:
            found += [run[at : at + size] for at in range(0, len(run), size)]
        else:
            piece = ""
            for character in run:
                if piece and len((piece + character).encode("utf-8", "surrogatepass")) > 6:
                    found.append(piece)
                    piece = ""
                piece += character
            found.append(piece)
    return found


TEXT = st.text(st.one_of(st.sampled_from("aZ09 \n\t_-²Ⅷ½٣é中文　\u2003\x1f😀"), st.characters()), max_size=60)


@given(TEXT)
def test_fallback_as_described_reversible_and_counted(text: str) -> None:
    pieces = list(fallback_pieces(text))
    assert pieces == pieces_by_the_book(text)
    tokens = fallback_encode(text)
    assert fallback_decode(tokens) == text
    assert all(1 <= token & 0xFF <= 7 and token < 2**64 for token in tokens)
    assert fallback_count(text) == len(tokens) == len(pieces)


@given(st.lists(TEXT, max_size=12), st.integers(1, 30))
def test_slices_are_counted_as_the_whole(parts: list[str], size: int) -> None:
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fallback_tokenizer, "_SLICE", size)
        slices = list(count_slices(text))
    assert "".join(slices) == text
    assert sum(map(fallback_count, slices)) == fallback_count(text)


async def test_fallback_tokenizer_object() -> None:
    tokenizer = FallbackTokenizer()
    assert tokenizer.name == "fallback"
    assert await tokenizer.decode(await tokenizer.encode("naïve 日本")) == "naïve 日本"


@pytest.mark.parametrize("token", [-1, 0x0100_01, 0x41_00])
def test_foreign_ids_are_refused(token: int) -> None:
    with pytest.raises(ValueError, match="no token"):
        fallback_decode([token])


def test_what_no_model_takes_is_estimated_by_its_beginning() -> None:
    counter = Tokenizers()
    text = "word " * 2_000_000
    million = counter.count_now(profile(), text[:1_000_000])
    assert counter.count_now(profile(), text) == TokenCount(tokens=million.tokens * 10, approximate=True)
