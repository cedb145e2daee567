"""Large texts are stored once a run, however often inputs, values, turns, requests, answers and results tell them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from engine import Agent, AgentType, Context, Engine, Flow, Next, ProfileStore
from engine.events import AgentFinished, CompletionFinished, PromptReady, RunFinished
from engine.run_history import RunHistory
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import FakeServer, chat

SIZE = 1_000_000
ODD = "\x01" * 3 + "1" + "\x017"
"""Looks like the number of a stored text."""


def text(name: str) -> str:
    """A text of that name, like no other one."""
    return (name * SIZE)[:SIZE]


async def test_each_large_text_is_stored_once_and_comes_back_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    large, answer = text("word "), text("said ")
    prompt = f"Say {large}"
    history = RunHistory(path)
    with FakeServer(lambda _: chat(answer)) as server:
        profile = profile_for(server.url)
        first = Agent(
            "A", AgentType.COMPLETION, profile=profile, template="Say [[x]]", choose_next=lambda _: Next.to("B")
        )
        second = Agent("B", AgentType.COMPLETION, profile=profile, template="And {{odd}}")
        async with Engine(profiles=ProfileStore(), history=history) as engine:
            values: dict[str, object] = {"x": [large, large], "odd": ODD}
            async with engine.run(
                Flow(name="F", agents=(first, second), outputs=("response",)), Context(values)
            ) as run:
                told = [event async for event in run]
            reached = await history.reached(run.id)
    recorded = reached.run
    assert recorded.unreadable == 0
    assert recorded.inputs == {"x": [large, large], "odd": [ODD]}
    for kind in (PromptReady, CompletionFinished, AgentFinished, RunFinished):
        assert [event for event in recorded.events if isinstance(event, kind)] == [
            event for event in told if isinstance(event, kind)
        ]
    contexts = [context for checkpoint in reached.checkpoints for context in checkpoint.contexts]
    assert f"And {ODD}" in {turn.text for one in contexts if one.conversation for turn in one.conversation.turns}
    assert {value for one in contexts for value in one.values["x"]} == {large}
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        blobs = connection.execute("SELECT count(*) FROM blobs WHERE length(data) > 100000").fetchone()[0]
    assert blobs == len({large, prompt, answer})
    assert path.stat().st_size < 3.3 * SIZE
