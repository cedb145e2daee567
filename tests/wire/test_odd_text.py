"""Half characters and NUL from a server: mended or kept, and nothing behind them is lost, wherever an answer goes."""

import json
from pathlib import Path

import pytest

from engine import Agent, AgentType, Context, Engine, Flow, ProfileStore, SqliteCache
from engine.events import CompletionFinished
from engine.run_export import export_run
from engine.run_history import RunHistory
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import DONE, Answer, FakeServer

SENT = [r"nul\u0000 then", r" \ud83d", r"\ude00", r" lone\ud800 and", r" \udc00end\ud83d"]
READ = "nul\x00 then \U0001f600 lone\ufffd and \ufffdend\ufffd"


def answer() -> Answer:
    pieces = [f'data: {{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}\n\n'.encode() for text in SENT]
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    return Answer(pieces=[*pieces, end, DONE])


@pytest.mark.parametrize("form", ["json", "md", "html"])
async def test_odd_characters_survive_history_cache_and_export(form: str, tmp_path: Path) -> None:
    history, cache = RunHistory(tmp_path / "history.db"), SqliteCache(tmp_path / "cache.db")
    with FakeServer(answer()) as server:
        agent = Agent("A", AgentType.COMPLETION, profile=profile_for(server.url), template="Say")
        flow = Flow(name="F", agents=(agent,), outputs=("response",))
        async with Engine(profiles=ProfileStore(), history=history, cache=cache) as engine:
            for _ in range(2):
                async with engine.run(flow, Context()) as run:
                    told = [event.content async for event in run if isinstance(event, CompletionFinished)]
                assert told == [READ]
                assert run.finished is not None
                assert run.finished.outputs == {"response": [READ]}
            recorded = await history.run(run.id)
        assert len(server.requests) == 1  # the second one came from the cache
    stored = [event.content for event in recorded.events if isinstance(event, CompletionFinished)]
    assert stored == [READ]
    text = export_run(recorded, form)
    assert text.encode("utf-8").decode("utf-8") == text
    if form == "json":
        assert json.loads(text)["branches"][0]["attempts"][0]["content"] == READ
    else:
        assert "nul⟨U+0000⟩ then \U0001f600 lone\ufffd and \ufffdend\ufffd" in text
