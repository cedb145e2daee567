"""The wire tape: what a server sent comes again through the real client, byte by byte, without keys and without it."""

from pathlib import Path

import pytest

from engine.clients.recovery import Requests
from engine.clients.transport import Transport
from engine.clients.wire_tape import ReplayTransport, WireTape
from engine.completion import Completion
from engine.errors import ConnectFailed, StorageError
from tests.helpers.asking import profile_for, stream_of
from tests.helpers.fake_server import DONE, Answer, FakeServer, chat, delta, failure

KEY = "secret-key-0123"


async def asked(transport: Transport, url: str, prompt: str = "hi") -> tuple[list[str], Completion]:
    async with stream_of(Requests(transport), profile_for(url, retry_base_delay=0.0), prompt) as stream:
        texts = [chunk.content async for chunk in stream if chunk.content]
    return texts, stream.completion


@pytest.mark.parametrize("speed", [0.0, 1.0, 50.0])
async def test_a_recorded_call_is_played_again_without_its_server(speed: float, tmp_path: Path) -> None:
    path, tape, transport = tmp_path / "tape.jsonl", WireTape(), Transport()
    transport.tape = tape
    slow = Answer(pieces=[delta("Hel"), 0.02, delta("lo 你"), 0.02, delta(KEY, finish="stop"), DONE], framing="chunked")
    with FakeServer(failure(503), slow, chat("second")) as server:
        first = await asked(transport, server.url)
        await asked(transport, server.url, "other")
    await transport.aclose()
    tape.save(path)
    assert KEY.encode() not in path.read_bytes()
    assert [call.status for call in tape.calls] == [503, 200, 200]
    replay = ReplayTransport(WireTape.load(path), speed=speed)
    second = await asked(replay, server.url)
    assert second[0] == [text.replace(KEY, "***") for text in first[0]]
    assert [one.outcome for one in second[1].attempts] == [one.outcome for one in first[1].attempts]
    assert second[1].finish_reason == first[1].finish_reason
    assert (await asked(replay, server.url, "other"))[1].content == "second"
    with pytest.raises(ConnectFailed, match="no further call"):
        await asked(replay, server.url)
    await replay.aclose()


def test_a_file_that_is_no_tape_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text('{"method": 1}\n')
    with pytest.raises(StorageError, match="line 1"):
        WireTape.load(path)
