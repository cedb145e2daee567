"""What is kept of answers, under which key, for how long, and what happens to the file of the cache."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from time import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache import CacheEntry, CompletionCache, MemoryCache, cache_key
from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.completion import Completion, FinishReason
from engine.conversation import Conversation, ToolCall, ToolChoice, ToolDefinition, ToolResult, ToolUse
from engine.errors import StorageError
from engine.profile import ModelProfile, Overrides, ProfileOptions, Provider
from engine.sqlite_cache import SqliteCache
from engine.statistics import CompletionStatistics, CostProvenance, Prices

PROFILE = ModelProfile(
    name="tested",
    category="M",
    provider=Provider.OPENAI_CHAT,
    model="m",
    url="http://127.0.0.1:9/v1",
    api_key="canary-secret-0123",
    options=ProfileOptions(headers={"X-Other": "canary-header-0123"}),
)
TURNS = Conversation.create("Be brief.", "What is blue?")
ROUND = (ToolCall(id="a", name="look", arguments='{"at": 1}'),)
LOOK = ToolDefinition(name="look", description="Looks.", parameters={"type": "object"})


def key_of(
    profile: ModelProfile = PROFILE,
    turns: Conversation = TURNS,
    overrides: Overrides | None = None,
    tools: ToolChoice | None = None,
) -> str:
    request = ChatRequest.create(profile, turns, overrides, tools)
    wire = client_for(replace(request.profile, provider=Provider.OPENAI_CHAT)).form(request, request.profile.model)
    key = cache_key(request.profile, wire.url, wire.body)
    assert key is not None
    assert len(key) == 64
    return key


def with_options(**options: Any) -> ModelProfile:
    return replace(PROFILE, options=replace(PROFILE.options, **options))


CHANGES: dict[str, Callable[[], str]] = {
    "url": lambda: key_of(replace(PROFILE, url="http://127.0.0.1:10/v1")),
    "provider": lambda: key_of(replace(PROFILE, provider="MY_PROVIDER")),
    "model": lambda: key_of(replace(PROFILE, model="n")),
    "maxTokens": lambda: key_of(replace(PROFILE, max_tokens=11)),
    "temperature": lambda: key_of(replace(PROFILE, temperature=0.5)),
    "topP": lambda: key_of(replace(PROFILE, top_p=0.5)),
    "reasoningEffort": lambda: key_of(replace(PROFILE, reasoning_effort="high")),
    "extParams": lambda: key_of(with_options(ext_params={"seed": 1})),
    "prompts": lambda: key_of(replace(PROFILE, prompt_strategy="chatml")),
    "thinkTags": lambda: key_of(with_options(think_tags="off")),
    "stop": lambda: key_of(overrides={"stop": ["."]}),
    "responseFormat": lambda: key_of(overrides={"responseFormat": {"type": "object"}}),
    "system": lambda: key_of(turns=Conversation.create("Be long.", "What is blue?")),
    "user": lambda: key_of(turns=Conversation.create("Be brief.", "What is red?")),
    "role": lambda: key_of(turns=Conversation.create("Be brief.", "").add_assistant("What is blue?")),
    "tools": lambda: key_of(tools=ToolChoice.auto([LOOK])),
    "tool choice": lambda: key_of(tools=ToolChoice(tools=(LOOK,), use=ToolUse.REQUIRED)),
    "calls": lambda: key_of(turns=TURNS.add_tool_round("", ROUND, [ToolResult(call_id="a", output="a wall")])),
}


def test_every_change_that_could_change_the_answer_changes_the_key() -> None:
    keys = {name: change() for name, change in CHANGES.items()}
    assert len(keys) >= 15
    assert len({key_of(), *keys.values()}) == len(keys) + 1


def test_fields_cannot_run_into_each_other() -> None:
    one = key_of(replace(PROFILE, max_tokens=1, max_context=11))
    other = key_of(with_options(ext_params={"n": 1, "k": 11}))
    swapped = key_of(with_options(ext_params={"n": 11, "k": 1}))
    assert len({one, other, swapped}) == 3
    assert key_of(replace(PROFILE, max_tokens=1, temperature=1.1)) != key_of(
        replace(PROFILE, max_tokens=11, temperature=1.0)
    )
    assert key_of(turns=Conversation.create("ab", "c")) != key_of(turns=Conversation.create("a", "bc"))
    assert key_of(with_options(ext_params={"n": 1, "k": 11})) == key_of(with_options(ext_params={"k": 11, "n": 1}))


@pytest.mark.parametrize(
    "profile",
    [
        replace(PROFILE, api_key="another-secret-0123"),
        replace(PROFILE, category="XL"),
        replace(PROFILE, name="renamed"),
        replace(PROFILE, prices=Prices(input=Decimal(1))),
        replace(PROFILE, max_context=4096),
        with_options(headers={}),
        with_options(stream_usage=False),
        with_options(max_retries=7),
    ],
    ids=["key", "category", "name", "prices", "context", "headers", "stream_options", "retries"],
)
def test_what_cannot_change_the_answer_is_not_in_the_key(profile: ModelProfile) -> None:
    assert key_of(profile) == key_of()


def test_an_address_is_taken_without_password_and_key() -> None:
    body = {"model": "m"}
    plain = cache_key(PROFILE, "https://x.example/v1/chat/completions?version=1", body)
    assert cache_key(PROFILE, "https://me:word@x.example/v1/chat/completions?version=1", body) == plain
    assert cache_key(PROFILE, "https://x.example/v1/chat/completions?version=2", body) != plain
    keys = {
        cache_key(replace(PROFILE, api_key=secret), f"https://x.example/?key={secret}", body)
        for secret in ("canary-secret-0123", "canary-secret-4567")
    }
    assert len(keys) == 1


def test_a_request_that_is_no_json_has_no_key() -> None:
    assert cache_key(PROFILE, "http://x", {"messages": "\ud800"}) is None
    assert cache_key(PROFILE, "http://x", {"seed": object()}) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)
bodies = st.dictionaries(st.text("abc", min_size=1, max_size=3), json_values, max_size=4)


@given(bodies, bodies)
def test_two_bodies_have_one_key_only_when_they_are_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    def marked(value: Any) -> Any:
        # Python takes True for 1; JSON does not.
        if isinstance(value, dict):
            return {name: marked(inner) for name, inner in value.items()}
        return [marked(inner) for inner in value] if isinstance(value, list) else (type(value).__name__, value)

    same = cache_key(PROFILE, "http://x", one) == cache_key(PROFILE, "http://x", other)
    assert same == (marked(one) == marked(other))
    backwards = dict(reversed(one.items())) | {"stream": True, "stream_options": {"include_usage": True}}
    assert cache_key(PROFILE, "http://x", one) == cache_key(PROFILE, "http://x", backwards)


USED = CompletionStatistics(
    duration=2.5,
    in_tokens=7,
    cached_in_tokens=2,
    out_tokens=3,
    reasoning_out_tokens=1,
    cost=Decimal("0.25"),
    provenance=CostProvenance.MEASURED,
    first_token=0.5,
)
ANSWER = Completion(content="Cyan.", reasoning="Hm.", finish_raw="stop", statistics=USED, model="m-1", profile="tested")


def test_an_answer_comes_back_as_it_was_and_costs_nothing() -> None:
    given = replace(ANSWER, finish_reason=FinishReason.TOOL_CALLS, tool_calls=ROUND)
    entry = CacheEntry.of(given, TURNS, PROFILE)
    assert entry is not None
    assert (entry.words, entry.profile, entry.cost) == ("What is blue?", "tested", Decimal("0.25"))
    hit = entry.completion("other")
    assert hit == replace(
        given,
        profile="other",
        statistics=CompletionStatistics(
            requests=0,
            in_tokens=7,
            cached_in_tokens=2,
            out_tokens=3,
            reasoning_out_tokens=1,
            provenance=CostProvenance.FREE,
            cached=True,
        ),
    )


@pytest.mark.parametrize(
    "answer",
    [
        replace(ANSWER, finish_reason=FinishReason.TOKEN_LIMIT_REACHED),
        replace(ANSWER, finish_reason=FinishReason.CONTENT_FILTERED),
        replace(ANSWER, finish_reason=FinishReason.ERROR),
        replace(ANSWER, finish_reason=FinishReason.STOPPED),
        replace(ANSWER, content="", no_answer=True),
        replace(ANSWER, skipped_chunks=1),
    ],
    ids=["cut", "filtered", "failed", "stopped", "empty", "words missing"],
)
def test_only_complete_answers_are_kept(answer: Completion) -> None:
    assert CacheEntry.of(answer, TURNS, PROFILE) is None


def test_the_first_words_of_a_long_question_are_one_short_line() -> None:
    question = Conversation.create("", "  Tell\n me\tall: " + "word " * 100_000)
    entry = CacheEntry.of(ANSWER, question, PROFILE)
    assert entry is not None
    assert entry.words.startswith("Tell me all: word word")
    assert len(entry.words) == 80
    broken = CacheEntry.of(ANSWER, Conversation.create("", "half \ud800"), PROFILE)
    assert broken is not None
    assert broken.words == "half ?"


def entry_of(content: str, *, age: float = 0.0, cost: str = "0.5") -> CacheEntry:
    return CacheEntry(content=content, created=time() - age, cost=Decimal(cost), provenance=CostProvenance.MEASURED)


Make = Callable[..., CompletionCache]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "memory":
        return MemoryCache
    return lambda **limits: SqliteCache(tmp_path / "cache.sqlite", **limits)


async def test_answers_are_found_listed_counted_and_forgotten(make: Make) -> None:
    cache = make()
    assert await cache.get("a") is None
    await cache.put("a", entry_of("first", age=2))
    await cache.put("b", entry_of("second", age=1))
    assert (await cache.get("a")) == (await cache.get("a"))
    found = await cache.get("b")
    assert found is not None
    assert found.content == "second"
    assert [(kept.key, kept.hits) for kept in await cache.entries()] == [("b", 1), ("a", 2)]
    assert [kept.key for kept in await cache.entries(limit=1)] == ["b"]
    info = await cache.info()
    assert (info.entries, info.hits, info.saved, info.provenance) == (2, 3, Decimal("1.5"), CostProvenance.MEASURED)
    assert info.stored_bytes > 400
    assert [await cache.delete("a"), await cache.delete("a")] == [True, False]
    assert await cache.get("a") is None
    assert await cache.clear() == 1
    empty = await cache.info()
    assert (empty.entries, empty.stored_bytes, empty.hits, empty.saved) == (0, 0, 0, Decimal(0))
    await cache.close()


async def test_a_newer_answer_replaces_the_older_one(make: Make) -> None:
    cache = make()
    await cache.put("a", entry_of("old"))
    await cache.get("a")
    await cache.put("a", entry_of("new"))
    found = await cache.get("a")
    assert found is not None
    assert found.content == "new"
    assert [kept.hits for kept in await cache.entries()] == [2]
    assert (await cache.info()).entries == 1
    await cache.close()


async def test_what_was_not_used_for_longest_goes_first(make: Make) -> None:
    cache = make(max_bytes=3500)
    for key in "abc":
        await cache.put(key, entry_of("x" * 700))
    await cache.get("a")
    await cache.put("d", entry_of("x" * 700))  # b is now the one nobody asked for longest
    assert [key for key in "abcd" if await cache.get(key)] == ["a", "c", "d"]
    await cache.put("e", entry_of("x" * 2500))
    assert [key for key in "acde" if await cache.get(key)] == ["e"]
    assert (await cache.info()).stored_bytes <= 3500
    await cache.close()


async def test_an_answer_larger_than_the_cache_drives_nothing_out(make: Make) -> None:
    cache = make(max_bytes=2000)
    await cache.put("a", entry_of("small"))
    await cache.put("b", entry_of("x" * 3000))
    await cache.put("a", entry_of("y" * 3000))  # and the older answer is no longer the right one
    assert [key for key in "ab" if await cache.get(key)] == []
    await cache.close()


async def test_old_answers_are_not_given(make: Make) -> None:
    cache = make(max_age=60)
    await cache.put("a", entry_of("old", age=61))
    await cache.put("b", entry_of("young", age=50))
    assert [key for key in "ab" if await cache.get(key)] == ["b"]
    assert [kept.key for kept in await cache.entries()] == ["b"]
    await cache.close()


async def test_without_a_limit_of_age_all_are_given(make: Make) -> None:
    cache = make(max_age=None)
    await cache.put("a", entry_of("ancient", age=1e9))
    assert await cache.get("a") is not None
    await cache.close()


# -- the file ---------------------------------------------------------------------------------------------------------


async def test_answers_outlive_the_program_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "cache.sqlite"
    first = SqliteCache(path)
    await first.put("a", entry_of("kept"))
    await first.close()
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    second = SqliteCache(path)
    assert await second.get("a") is not None
    await second.close()
    assert await second.get("a") is not None  # it opens again by itself
    await second.close()


async def test_two_programs_share_one_file(tmp_path: Path) -> None:
    caches = [SqliteCache(tmp_path / "cache.sqlite", max_bytes=40_000) for _ in range(2)]

    async def use(cache: SqliteCache, name: str) -> None:
        for number in range(40):
            await cache.put(f"{name}{number}", entry_of(f"{name} {number}"))
            await cache.get(f"{name}{number // 2}")

    await asyncio.gather(*(use(cache, name) for cache, name in zip(caches, "ab", strict=True)))
    assert [cache.error for cache in caches] == [None, None]
    for cache in caches:
        found = await cache.get("a39"), await cache.get("b39")
        assert [entry.content for entry in found if entry] == ["a 39", "b 39"]
    infos = [await cache.info() for cache in caches]
    assert infos[0].entries == infos[1].entries == 80
    for cache in caches:
        await cache.close()
    with sqlite3.connect(tmp_path / "cache.sqlite") as connection:
        counted = connection.execute("SELECT count(*), sum(size) FROM answers").fetchone()
        assert counted == connection.execute("SELECT entries, bytes FROM totals").fetchone()
    connection.close()


def _foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE answers (something)")
    connection.commit()
    connection.close()


def _foreign_with_version(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 1")
    connection.execute("CREATE TABLE other (something)")
    connection.commit()
    connection.close()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("this is no database, it only looks like a file " * 100),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "half": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "scrambled": lambda path: path.write_bytes(path.read_bytes()[:100] + os.urandom(len(path.read_bytes()) - 100)),
    "foreign": lambda path: (path.unlink(), _foreign(path)),
    "foreign with a version": lambda path: (path.unlink(), _foreign_with_version(path)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
async def test_a_damaged_file_is_moved_aside(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    path = tmp_path / "cache.sqlite"
    cache = SqliteCache(path)
    for number in range(50):
        await cache.put(f"{number}", entry_of("kept" * 100))
    await cache.close()
    damage(path)
    assert await cache.get("1") is None
    await cache.put("1", entry_of("new"))
    found = await cache.get("1")
    assert found is not None
    assert found.content == "new"
    assert cache.error is None
    await cache.close()
    assert len(list(tmp_path.glob("cache.sqlite.damaged-*"))) == 1


async def test_an_empty_file_becomes_a_cache(tmp_path: Path) -> None:
    (tmp_path / "cache.sqlite").touch()
    cache = SqliteCache(tmp_path / "cache.sqlite")
    await cache.put("a", entry_of("kept"))
    assert await cache.get("a") is not None
    await cache.close()
    assert not list(tmp_path.glob("*.damaged-*"))


async def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 101")
    connection.close()
    before = path.read_bytes()
    cache = SqliteCache(path)
    assert await cache.get("a") is None
    await cache.put("a", entry_of("new"))
    with pytest.raises(StorageError, match="version 101"):
        await cache.entries()
    await cache.close()
    assert path.read_bytes() == before


async def test_a_folder_that_cannot_be_used_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = SqliteCache(tmp_path / "file" / "cache.sqlite")
    assert await cache.get("a") is None
    await cache.put("a", entry_of("lost"))
    assert cache.error is not None
    assert str(tmp_path) in cache.error.hint
    assert len(caplog.records) == 1  # told once
    with pytest.raises(StorageError):
        await cache.info()
    (tmp_path / "file").unlink()
    assert (await cache.info()).entries == 0  # who asks for it tries again at once
    await cache.put("a", entry_of("kept"))
    assert await cache.get("a") is not None
    assert cache.error is None
    await cache.close()


WRITER = """
import asyncio, sys, time
from decimal import Decimal
from pathlib import Path
from engine.cache import CacheEntry
from engine.sqlite_cache import SqliteCache

async def main():
    cache = SqliteCache(Path(sys.argv[1]), max_bytes=60_000)
    for number in range(1_000_000):
        text = f"{number} " * 100
        await cache.put(f"key {number}", CacheEntry(content=text, created=time.time(), cost=Decimal(1)))
        print(number, flush=True)

asyncio.run(main())
"""


def _killed_writer(path: Path, after: int) -> int:
    """Start a writer, kill it right after it stored an answer; the number of the last one it told."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        last = -1
        for line in writer.stdout:
            last = int(line)
            if last >= after:
                break
        writer.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        rest = writer.stdout.read().split()
        return int(rest[-1]) if rest and rest[-1].isdecimal() else last


async def _check_after_kill(path: Path, last: int) -> None:
    cache = SqliteCache(path, max_bytes=60_000)
    found = await cache.get(f"key {last}")
    assert found is not None
    assert found.content == f"{last} " * 100
    await cache.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    counted = connection.execute("SELECT count(*), sum(size) FROM answers").fetchone()
    assert counted == connection.execute("SELECT entries, bytes FROM totals").fetchone()
    connection.close()
    assert not list(path.parent.glob("*.damaged-*"))


async def test_a_program_killed_while_it_stores_leaves_a_good_file(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    for after in (0, 3, 150):
        last = await asyncio.to_thread(_killed_writer, path, after)
        await _check_after_kill(path, last)


@pytest.mark.soak
async def test_a_program_killed_200_times_leaves_a_good_file(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    for round_ in range(200):
        last = await asyncio.to_thread(_killed_writer, path, round_ % 130)
        await _check_after_kill(path, last)
