"""Model servers on this machine are found by what they answer on their usual ports."""

import json
import socket
from pathlib import Path

import pytest

from engine import Engine, ProfileStore, cli, server_finder
from engine.server_finder import UsualPort, find_servers
from tests.helpers.fake_server import Answer, FakeServer, chat, failure

JSON = {"content-type": "application/json"}


def listing(document: object) -> Answer:
    return Answer(headers=JSON, pieces=[json.dumps(document).encode()])


def port_of(server: FakeServer) -> int:
    return int(server.url.rpartition(":")[2])


async def test_servers_are_told_apart_and_the_rest_is_left_out() -> None:
    openai, ollama = listing({"data": [{"id": "a"}, {"id": "b"}]}), listing({"models": [{"name": "llama3.2:1b"}]})
    with (
        socket.socket() as closed,
        FakeServer(chat("x"), get=openai) as studio,
        FakeServer(chat("x"), get=ollama) as tags,
        FakeServer(chat("x"), get=failure(401, "who are you?")) as locked,
        FakeServer(chat("x"), get=failure(404, "a web server")) as web,
    ):
        closed.bind(("127.0.0.1", 0))
        ports = (
            UsualPort("Ollama", port_of(tags), "ollama", ""),
            UsualPort("LM Studio", port_of(studio), "lm-studio"),
            UsualPort("vLLM", port_of(locked), "vllm"),
            UsualPort("llama.cpp", port_of(web), "llama-server"),
            UsualPort("KoboldCpp", closed.getsockname()[1], "local-chatcompletion"),
        )
        async with Engine(profiles=ProfileStore()) as engine:
            found = await find_servers(engine, ports)
        assert [(server.kind, server.models, server.needs_key) for server in found] == [
            ("Ollama", ("llama3.2:1b",), False),
            ("LM Studio", ("a", "b"), False),
            ("vLLM", (), True),
        ]
        entry = ProfileStore().check_text("new", found[0].profile_text("llama3.2:1b"))
        assert entry.profile is not None
        assert (entry.profile.model, entry.profile.url) == ("llama3.2:1b", f"http://127.0.0.1:{port_of(tags)}")


def test_the_command_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(chat("x"), get=listing({"data": [{"id": "tiny"}]})) as server:
        ports = (UsualPort("LM Studio", port_of(server), "lm-studio"),)
        monkeypatch.setattr(server_finder.find_servers, "__defaults__", (ports,))
        assert cli.main(["--data-dir", str(tmp_path), "models", "found", "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert (found["kind"], found["models"], found["template"]) == ("LM Studio", ["tiny"], "lm-studio")
        assert cli.main(["--data-dir", str(tmp_path), "models", "found"]) == 0
        assert "LM Studio" in capsys.readouterr().out
    monkeypatch.setattr(server_finder.find_servers, "__defaults__", ((),))
    assert cli.main(["--data-dir", str(tmp_path), "models", "found"]) == 0
    assert "No server answers" in capsys.readouterr().err
