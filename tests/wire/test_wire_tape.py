"""The wire tape: what a server sent comes again through the real client, byte by byte, without keys and without it."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.clients.failures import Place
from engine.clients.recovery import Requests
from engine.clients.tape_file import RecordedTape
from engine.clients.tape_lines import CallPiece
from engine.clients.tape_replay import ReplayClock, ReplayTransport, first_difference
from engine.clients.transport import Transport
from engine.clients.wire_tape import KeyRemover, WireTape
from engine.completion import Completion
from engine.errors import AnswerIncomplete, ConnectFailed, NotOnTape, RequestTimeout, ServerError, StorageError
from tests.helpers.asking import profile_for, stream_of
from tests.helpers.fake_server import DONE, JSON, Answer, FakeServer, chat, delta, failure

KEY = "secret-key-0123"
PLACE = Place("tested", "http://host/v1", secrets=(KEY,))


async def asked(transport: Transport, url: str, prompt: str = "hi", **options: object) -> tuple[list[str], Completion]:
    sender = Requests(transport)
    if isinstance(transport, ReplayTransport):
        sender = Requests(transport, sleep=transport.clock.sleep, clock=transport.clock.now)
    profile = profile_for(url, **({"retry_base_delay": 0.0} | options))
    async with stream_of(sender, profile, prompt) as stream:
        texts = [chunk.content async for chunk in stream if chunk.content]
    return texts, stream.completion


class Recording:
    """A transport that records, and the tape it leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def __aenter__(self) -> Transport:
        self.transport = Transport()
        self.transport.tape = WireTape(self.path)
        return self.transport

    async def __aexit__(self, *_: object) -> None:
        await self.transport.aclose()
        assert self.transport.tape is not None
        self.transport.tape.close()


@pytest.mark.parametrize("speed", [0.0, 1.0, 50.0])
async def test_a_recorded_call_is_played_again_without_its_server(speed: float, tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    slow = Answer(pieces=[delta("Hel"), 0.02, delta("lo 你"), 0.02, delta(KEY, finish="stop"), DONE], framing="chunked")
    with FakeServer(failure(503), slow, chat("second")) as server:
        async with Recording(path) as transport:
            first = await asked(transport, server.url)
            await asked(transport, server.url, "other")
    assert KEY.encode() not in path.read_bytes()
    tape = RecordedTape(path)
    assert len(tape.calls) == 3
    assert b'"content":"hi"' in tape.body(tape.calls[0])
    replay = ReplayTransport(tape, speed=speed)
    second = await asked(replay, server.url)
    assert second[0] == [text.replace(KEY, "***") for text in first[0]]
    assert [one.outcome for one in second[1].attempts] == [one.outcome for one in first[1].attempts]
    assert second[1].finish_reason == first[1].finish_reason
    assert (await asked(replay, server.url, "other"))[1].content == "second"
    with pytest.raises(NotOnTape, match="given as often as it was recorded"):
        await asked(replay, server.url)
    await replay.aclose()


async def test_a_key_on_the_border_of_two_pieces_stays_off_the_tape(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    whole = delta(f"the key {KEY} came back", finish="stop")
    middle = whole.index(KEY.encode()) + 5
    answer = Answer(pieces=[whole[:middle], 0.05, whole[middle:], DONE])
    with FakeServer(answer) as server:
        async with Recording(path) as transport:
            texts, _ = await asked(transport, server.url, f"say {KEY}")
    assert "".join(texts) == f"the key {KEY} came back"
    assert b"secret-key" not in path.read_bytes()
    assert "".join((await asked(ReplayTransport(path), server.url, f"say {KEY}"))[0]) == "the key *** came back"


@given(data=st.binary(max_size=60), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_keys_are_removed_wherever_the_pieces_end(data: bytes, cuts: list[int]) -> None:
    data = data[:20] + KEY.encode() + data[20:]
    remover = KeyRemover(PLACE)
    borders = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = [data[one:other] for one, other in pairwise(borders)]
    cleaned = b"".join(remover.clean(piece) for piece in pieces) + remover.clean(b"", last=True)
    assert cleaned == KeyRemover(PLACE).clean(data, last=True)
    assert KEY.encode() not in cleaned


async def test_failures_come_again_with_their_time(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    broken = Answer(pieces=[delta("Half"), 0.02], end="cut", framing="chunked")
    stalled = Answer(pieces=[delta("Half")], end="stall")
    with FakeServer(broken, stalled, failure(500)) as server:
        async with Recording(path) as transport:
            for prompt, kind in (("a", AnswerIncomplete), ("b", RequestTimeout), ("c", ServerError)):
                with pytest.raises(kind):
                    await asked(transport, server.url, prompt, max_retries=0, idle_timeout=0.3)
            url = server.url
    async with Recording(tmp_path / "none.jsonl") as transport:
        with pytest.raises(ConnectFailed) as first:
            await asked(transport, url, "nobody there", max_retries=0)
    replay = ReplayTransport(path)
    for prompt, kind in (("a", AnswerIncomplete), ("b", RequestTimeout), ("c", ServerError)):
        with pytest.raises(kind):
            await asked(replay, url, prompt, max_retries=0)
    with pytest.raises(ConnectFailed) as again:
        await asked(ReplayTransport(tmp_path / "none.jsonl"), url, "nobody there", max_retries=0)
    assert str(again.value) == str(first.value)
    assert again.value.hint == first.value.hint


async def test_a_pause_before_a_retry_passes_at_the_speed_of_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    busy = Answer(status=429, headers={**JSON, "Retry-After": "30"}, pieces=[b'{"error": {"message": "busy"}}'])
    with FakeServer(busy, chat("at last")) as server:
        async with Recording(path) as transport:
            sender = Requests(transport, sleep=sleep, clock=lambda: time.monotonic() + sum(waits))
            async with stream_of(sender, profile_for(server.url)) as stream:
                assert [chunk.content async for chunk in stream if chunk.content] == ["at last"]
    assert max(waits) >= 29
    replay = ReplayTransport(path)
    assert (await asked(replay, server.url))[0] == ["at last"]
    assert replay.clock.now() - time.monotonic() >= 29, "the pause was not made, and counts as over"


async def test_a_clock_at_once_skips_what_is_slept() -> None:
    clock = ReplayClock(0.0)
    before = clock.now()
    await clock.sleep(1000)
    assert clock.now() - before >= 1000


async def test_what_was_asked_before_the_tape_began_is_on_it(tmp_path: Path) -> None:
    """The second run of a program does not ask for the models again; its tape has them all the same."""
    path = tmp_path / "tape.jsonl"
    models = Answer(headers=JSON, pieces=[b'{"data": [{"id": "the-model"}]}'])
    with FakeServer(chat("one"), chat("two"), get=models) as server:
        transport = Transport()
        sender, profile = Requests(transport), profile_for(server.url, model="")
        async with stream_of(sender, profile, "before") as stream:
            assert [chunk async for chunk in stream]
        transport.tape = WireTape(path)
        async with stream_of(sender, profile, "taped") as stream:
            assert [chunk async for chunk in stream]
        transport.tape.close()
        await transport.aclose()
        assert len(server.gets) == 1
    assert [call.known for call in RecordedTape(path).calls] == [True, False]
    replay = ReplayTransport(path)
    for _ in range(2):  # who remembers asks once, others ask again
        assert await Requests(replay).models.chosen(stream._client, profile) == "the-model"


async def test_a_request_that_is_not_on_the_tape_says_where_it_differs(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    with FakeServer(chat("x")) as server:
        async with Recording(path) as transport:
            await asked(transport, server.url, "Tell me of owls")
    with pytest.raises(NotOnTape) as failed:
        await asked(ReplayTransport(path), server.url, "Tell me of cats")
    assert str(failed.value) == (
        "The tape tape.jsonl has no answer to this POST /v1/chat/completions: at $.messages[0].content, character 12 "
        'it has "owls", and asked was "cats".'
    )
    assert not failed.value.retryable


@pytest.mark.parametrize(
    ("taped", "sent", "found"),
    [
        (b'{"a":1,"b":2}', b'{"a":1,"b":3}', "at $.b it has 2, and asked was 3"),
        (b'{"a":[1,2]}', b'{"a":[1]}', "at $.a it has 2 entries, and asked was 1"),
        (b'{"a":1}', b'{"a":1,"t":0.5}', "at $.t it has nothing, and asked was 0.5"),
        (b'{"a":"ab"}', b'{"a":"abc"}', 'at $.a, character 3 it has "" (it ends there), and asked was "c"'),
        (b"no json", b"no jam", 'at byte 4 it has "son", and asked was "am"'),
    ],
)
def test_the_first_difference(taped: bytes, sent: bytes, found: str) -> None:
    assert first_difference(taped, sent) == found


async def test_a_full_disk_ends_the_tape_and_not_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tape.jsonl"
    with FakeServer(chat("x")) as server:
        async with Recording(path) as transport:
            tape = transport.tape
            assert tape is not None

            monkeypatch.setattr(tape, "_file", FullDisk(tape._file))
            assert (await asked(transport, server.url))[0] == ["x"]
    assert tape.error is not None
    assert "No space left" in str(tape.error)
    with pytest.raises(StorageError, match="cannot be written"):
        WireTape(tmp_path / "tape.jsonl" / "below")


class FullDisk:
    """A file on a disk without room."""

    closed = False

    def __init__(self, file: object) -> None:
        self._file = file

    def write(self, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    def close(self) -> None:
        self.closed = True
        self._file.close()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with two calls of several pieces, one of them with half a character at its end."""
    path = tmp_path_factory.mktemp("tapes") / "tape.jsonl"
    asyncio.run(_record(path))
    return path


async def _record(path: Path) -> None:
    tape = WireTape(path)
    half = "你".encode()
    for number, pieces in enumerate(([b"one", half[:2], half[2:]], [b"two", b"\xff\x00"]), start=1):
        call = tape.call("POST", "http://host/v1/x?key=1", b'{"n":%d}' % number, PLACE)
        call.answered(200, {"content-type": "text/plain", "set-cookie": "no"})
        for piece in [*pieces, b""]:
            call.arrived(piece)
    tape.close()


def _bytes(tape: RecordedTape) -> list[bytes]:
    return [
        b"".join(line.text.encode() or line.data for line in tape.answer(call) if isinstance(line, CallPiece))
        for call in tape.calls
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(share=st.floats(0, 1))
def test_a_tape_that_is_cut_off_anywhere_is_read_up_to_there(recorded: Path, share: float) -> None:
    data, whole = recorded.read_bytes(), _bytes(RecordedTape(recorded))
    cut = recorded.with_name("cut.jsonl")
    size = round(share * len(data))
    cut.write_bytes(data[:size])
    first = data.index(b"\n")
    if size < first:
        with pytest.raises(StorageError, match=r"cut\.jsonl, line 1: this is no wire tape"):
            RecordedTape(cut)
        return
    found = _bytes(RecordedTape(cut))
    assert len(found) <= len(whole)
    assert all(full.startswith(part) for part, full in zip(found, whole, strict=False))
    assert found[:-1] == whole[: max(0, len(found) - 1)]


def test_a_damaged_tape_names_its_line(recorded: Path) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    path = recorded.with_name("damaged.jsonl")
    for text, reason in (
        (b'{"method": 1}\n', "line 1"),
        (lines[0] + lines[1][:10] + b"\n" + lines[2], "line 2"),
        (lines[0] + lines[2], "line 2: this is no wire tape: found call 1, of which there is no request"),
        (lines[0] + lines[0], "line 2: this is no wire tape: found a second beginning"),
        (lines[1], 'line 1: this is no wire tape: found "request", expected "tape"'),
        (lines[0].replace(b'"version":1', b'"version":9'), "found version 9, expected 1"),
        (b"", "line 1: this is no wire tape: the file is empty"),
    ):
        path.write_bytes(text)
        with pytest.raises(StorageError, match=reason):
            RecordedTape(path)
    with pytest.raises(StorageError, match="Cannot read"):
        RecordedTape(recorded.with_name("missing.jsonl"))
