"""The examples of docs/providers.md: each profile is valid and sends the request that stands below it."""

import json
import re
from pathlib import Path

import pytest

from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.conversation import Conversation
from engine.profile_builder import build_profile
from engine.profile_file import read_file

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
EXAMPLES = re.findall(r"```properties\n(.*?)```\n\n```http\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("properties", "http"), EXAMPLES, ids=[re.findall(r"modelProvider=(\w+)", example[0])[0] for example in EXAMPLES]
)
def test_the_profile_sends_the_request(properties: str, http: str, tmp_path: Path) -> None:
    path = tmp_path / "example.properties"
    path.write_text(properties, "utf-8")
    built = build_profile("example", read_file(path), environ={}, secrets=lambda _: None)
    assert built.profile is not None, built.problems
    assert not built.problems
    request = ChatRequest.create(built.profile, Conversation.create("Be brief.", "Hello"))
    wire = client_for(built.profile).form(request, built.profile.model)
    head, body = http.split("\n\n", 1)
    first, *lines = head.split("\n")
    assert first == f"POST {wire.url}"
    headers = dict(line.split(": ", 1) for line in lines)
    for name, value in headers.items():
        assert wire.headers[name] == value or value == "…"
    keys = {"authorization", "x-api-key", "api-key"}
    assert keys.intersection(map(str.lower, wire.headers)) == keys.intersection(map(str.lower, headers))
    assert json.loads(json.dumps(wire.body)) == json.loads(body)


def test_that_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3
    assert len(EXAMPLES) == PAGE.read_text("utf-8").count("```http\n")
