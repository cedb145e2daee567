"""The phases of an answer whose first event holds nothing, as llama.cpp sends it."""

from engine.completion import Phase
from tests.helpers.asking import ask, profile_for
from tests.helpers.fake_server import DONE, Answer, FakeServer, delta


async def test_thinking_begins_with_the_first_thought() -> None:
    thoughts = [delta(reasoning_content="Let me"), delta(reasoning_content=" see.")]
    pieces = [delta(role="assistant"), *thoughts, delta("Paris."), delta(finish="stop"), DONE]
    with FakeServer(Answer(pieces=pieces)) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.phases == [Phase.CONNECTING, Phase.READING_PROMPT, Phase.THINKING, Phase.ANSWERING]
    assert (outcome.reasoning, outcome.text) == ("Let me see.", "Paris.")
