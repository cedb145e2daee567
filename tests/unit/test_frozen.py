"""A frozen agent is not asked; what has changed since is told."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from engine.errors import FlowError
from engine.events import CacheHit
from engine.flow.agent import Agent, AgentType, Next
from engine.flow.flow import Flow
from engine.flow.frozen import Frozen, fingerprint, freeze, stale_reasons
from engine.flow.handlers import TextHandler
from engine.profile import ModelProfile
from engine.run_history import RunHistory
from tests.helpers.recorded import RecordedWalk
from tests.helpers.scripted_completer import ScriptedCompleter

PROFILE = ScriptedCompleter(()).resolve("M")


def flow_of(template: str = "draft [[topic]]") -> Flow:
    draft = Agent("Draft", AgentType.COMPLETION, template=template, handler=lambda _: TextHandler("draft"),
                  choose_next=lambda _: Next.to("Use"))  # fmt: skip
    return Flow(name="two", agents=(draft, Agent("Use", AgentType.COMPLETION, template="use {{draft}}")))


async def walked(
    flow: Flow, topics: list[str], frozen: tuple[Frozen, ...] = ()
) -> tuple[RecordedWalk, list[str], list[CacheHit]]:
    completer = ScriptedCompleter(lambda request: f"<{request.prompt}>")
    walk = RecordedWalk(flow, completer, {"topic": topics}, frozen=frozen)
    await walk.to_end()
    asked = [request.prompt for request in completer.requests]
    return walk, asked, [event for event in walk.events if isinstance(event, CacheHit)]


async def frozen_draft() -> Frozen:
    walk, _, _ = await walked(flow_of(), ["sea", "sky"])
    return freeze(walk.events, "run", flow_of().agent("Draft"), PROFILE)


async def test_a_frozen_agent_is_not_asked_and_gives_what_it_gave() -> None:
    frozen = await frozen_draft()
    walk, asked, hits = await walked(flow_of(), ["sky", "sea"], (frozen,))
    assert asked == ["use <draft sky>", "use <draft sea>"]  # by what is asked, not by number
    assert [(hit.agent, hit.frozen_from, hit.stale) for hit in hits] == [("Draft", "run", ())] * 2
    assert "❄" in walk.contexts[0].trace.text()
    assert walk.walk.statistic.requests == 2


async def test_it_says_what_has_changed_and_is_used_all_the_same() -> None:
    frozen = await frozen_draft()
    _, asked, hits = await walked(flow_of(), ["sun", "sea"], (frozen,))
    assert asked == ["use <draft sea>", "use <draft sea>"]  # the first by its place, the second by what is asked
    assert [hit.stale for hit in hits] == [("inputs",), ()]
    _, asked, hits = await walked(flow_of("write [[topic]]"), ["sea", "sky"], (frozen,))
    assert asked == ["use <draft sea>", "use <draft sky>"]
    assert [hit.stale for hit in hits] == [("prompt",)] * 2


async def test_a_branch_without_a_kept_answer_is_asked() -> None:
    frozen = await frozen_draft()
    _, asked, hits = await walked(flow_of(), ["sea", "sky", "sun"], (frozen,))
    assert "draft sun" in asked
    assert len(hits) == 2


async def test_the_reasons_before_a_run() -> None:
    frozen = await frozen_draft()
    agent = flow_of().agent("Draft")
    assert stale_reasons(frozen, agent, PROFILE) == ()
    assert stale_reasons(frozen, agent, replace(PROFILE, temperature=0.5)) == ("profile",)
    assert stale_reasons(frozen, flow_of("x [[topic]]").agent("Draft"), PROFILE) == ("prompt",)
    old = msgspec.structs.replace(frozen.fingerprint, engine="0.0.1")
    assert stale_reasons(msgspec.structs.replace(frozen, fingerprint=old), agent, PROFILE) == ("engine",)


def test_a_fingerprint_does_not_depend_on_the_key() -> None:
    agent = flow_of().agent("Draft")
    keyed: ModelProfile = replace(PROFILE, api_key="secret")
    assert fingerprint(agent, keyed) == fingerprint(agent, PROFILE)


async def test_frozen_agents_are_kept_beside_the_history(tmp_path: Path) -> None:
    frozen = await frozen_draft()
    history = RunHistory(tmp_path / "history.sqlite")
    assert await history.frozen("two.flow.json") == {}
    await history.keep_frozen("two.flow.json", "Draft", msgspec.json.encode(frozen).decode())
    kept = await history.frozen("two.flow.json")
    assert msgspec.json.decode(kept["Draft"], type=Frozen) == frozen
    await history.thaw("two.flow.json", "Draft")
    assert await history.frozen("two.flow.json") == {}
    await history.close()


async def test_an_agent_that_answered_nothing_cannot_be_frozen() -> None:
    walk, _, _ = await walked(flow_of(), ["sea"])
    with pytest.raises(FlowError, match="no answer"):
        freeze(walk.events, "run", Agent("Else", AgentType.COMPLETION), PROFILE)
