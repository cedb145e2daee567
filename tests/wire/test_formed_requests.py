"""A request that is copied sends the very bytes that were sent: as a command of a shell, and as a program in Python."""

import itertools
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cli import main
from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.conversation import Conversation
from engine.errors import RequestError
from engine.formed_request import FormedRequest, curl_command, python_program
from engine.profile import ModelProfile, Provider
from tests.helpers.asking import profile_for, requests, words
from tests.helpers.fake_server import Answer, FakeServer, Received, chat, failure
from tests.helpers.model_answers import flow_file
from tests.helpers.tested_profile import write_tested

ODD = 'It\'s $HOME `id` \\ "quoted" %s\n\t!x 你好 é 😀 \u2028 \x7f'
SECRET = "very-secret-key"
TEAM = "own-header-value"
ENVIRONMENT = {"SERVICE_KEY": SECRET, "HEADER_X_TEAM": TEAM}
CHANGED = {"user-agent", "accept-encoding", "connection", "host", "content-length"}
"""Headers that a connection has of its own, or that are looked at by themselves."""

DIALECTS = {
    "chat": (Provider.OPENAI_CHAT, ""),
    "text": (Provider.OPENAI_TEXT, "chatml"),
    "responses": (Provider.OPENAI_RESPONSES, ""),
    "openrouter": (Provider.OPENROUTER, ""),
    "ollama": (Provider.OLLAMA, ""),
    "anthropic": (Provider.ANTHROPIC, ""),
    "azure": (Provider.AZURE, ""),
    "llama.cpp": (Provider.OPENAI_CHAT, ""),
}


def profile(url: str, dialect: str) -> ModelProfile:
    provider, prompts = DIALECTS[dialect]
    asked = profile_for(url, headers={"X-Team": TEAM}, max_retries=0, api_version="2024-10-21")
    tokenizer = "llamaServer" if dialect == "llama.cpp" else asked.tokenizer
    return replace(
        asked, provider=provider, prompt_strategy=prompts, tokenizer=tokenizer, api_key=SECRET,
        key_variable="SERVICE_KEY", temperature=1e-7,
    )  # fmt: skip


async def sent_by(server: FakeServer, asked: ModelProfile, text: str = ODD) -> tuple[FormedRequest, Received]:
    """The copy of the last request that went out, and what the server got."""
    copies = []
    async with requests() as sender:
        request = ChatRequest.create(asked, Conversation.create("Be brief.", text))
        async with sender.stream(client_for(asked), request, count=words) as stream:
            with suppress(RequestError):  # the server refuses it
                async for chunk in stream:
                    copies += [chunk.formed] if chunk.formed is not None else []
    (copy,) = copies
    return copy, server.requests[-1]


def plain(request: Received) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name not in CHANGED}


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment whose `curl` writes down what it is given."""
    fake = tmp_path / "bin" / "curl"
    fake.parent.mkdir()
    fake.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "body = sys.stdin.buffer.read() if '@-' in sys.argv else os.fsencode(sys.argv[-1])\n"
        f"open({str(tmp_path / 'got')!r}, 'wb').write(json.dumps(sys.argv).encode() + b'\\n' + body)\n",
        "utf-8",
    )
    fake.chmod(0o755)
    return {**os.environ, **ENVIRONMENT, "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"}


def run_shell(command: str, shell: dict[str, str], folder: Path) -> tuple[list[str], bytes]:
    """Arguments and body the fake curl got."""
    script = folder / "command.sh"  # a command line has a limit
    script.write_text(command, "utf-8")
    subprocess.run(["sh", str(script)], env=shell, check=True, stdin=subprocess.DEVNULL, timeout=60)
    arguments, _, body = (folder / "got").read_bytes().partition(b"\n")
    return json.loads(arguments), body


def given(arguments: list[str], option: str) -> list[str]:
    return [value for name, value in itertools.pairwise(arguments) if name == option]


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_shell_gives_curl_what_was_sent(dialect: str, shell: dict[str, str], tmp_path: Path) -> None:
    with FakeServer(failure(401)) as server:
        copy, received = await sent_by(server, profile(server.url, dialect))
    arguments, body = run_shell(curl_command(copy), shell, tmp_path)
    assert body == received.body
    assert f"{server.url}{received.path}" in arguments
    headers = dict(line.split(": ", 1) for line in given(arguments, "--header"))
    assert {name.lower(): value for name, value in headers.items()}.items() <= received.headers.items()
    assert plain(received).keys() <= {name.lower() for name in headers}
    assert SECRET not in curl_command(copy)
    assert TEAM not in curl_command(copy)


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
async def test_a_body_too_long_for_an_argument_goes_through_a_pipe(shell: dict[str, str], tmp_path: Path) -> None:
    with FakeServer(failure(401)) as server:
        copy, received = await sent_by(server, profile(server.url, "chat"), ODD * 5_000)
    _, body = run_shell(curl_command(copy), shell, tmp_path)
    assert len(body) > 250_000
    assert body == received.body


@pytest.mark.parametrize("size", [1, 5_000])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_program_sends_the_same_bytes(
    dialect: str, size: int, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with FakeServer(failure(401), chat("Hello.")) as server:
        copy, received = await sent_by(server, profile(server.url, dialect), ODD * size)
        program = python_program(copy)
        assert SECRET not in program
        exec(compile(program, "copied.py", "exec"), {})
        again = server.requests[-1]
    assert len(server.requests) == 2
    assert (again.method, again.path, again.body) == (received.method, received.path, received.body)
    assert plain(again) == plain(received)
    assert again.headers["user-agent"] == received.headers["user-agent"]
    assert b"Hello." in capfdbinary.readouterr().out


async def test_a_request_that_is_adapted_is_told_again_and_a_repeated_one_is_not() -> None:
    refused = failure(400, "Unsupported parameter: 'stream_options'", param="stream_options")
    with FakeServer(failure(503), refused, chat("Hello.")) as server:
        asked = replace(profile_for(server.url, max_retries=1, retry_base_delay=0.0), api_key=SECRET)
        async with requests() as sender:
            request = ChatRequest.create(asked, Conversation.create("", "Hello?"))
            async with sender.stream(client_for(asked), request, count=words) as stream:
                copies = [chunk.formed async for chunk in stream if chunk.formed is not None]
    assert [copy.data for copy in copies] == [server.requests[0].body, server.requests[2].body]
    assert copies[0].headers["Authorization"] == "Bearer ${API_KEY}"


async def test_keys_in_addresses_and_in_extra_parameters_are_not_kept() -> None:
    with FakeServer(failure(401)) as server:
        url = f"http://me:password@127.0.0.1:{server.port}"
        options = {"interface_url": f"/own?key={SECRET}&v=2", "ext_params": {"secret": SECRET}}
        asked = replace(profile_for(url, **options), api_key=SECRET)
        async with requests() as sender:
            request = ChatRequest.create(asked, Conversation.create("", "x"))
            stream = sender.stream(client_for(asked), request, count=words)
            await stream.prepare()
            copy = stream.formed()
    assert copy is not None
    assert copy.url == f"http://${{LOGIN}}@127.0.0.1:{server.port}/own?key=${{API_KEY}}&v=2"
    for text in (str(copy), curl_command(copy), python_program(copy)):
        assert SECRET not in text
        assert "password" not in text


def recorded_run(home: Path, folder: Path, capsys: pytest.CaptureFixture[str], answer: Answer) -> tuple[str, bytes]:
    """Id of a run whose prompt is ODD, long enough to be kept apart, and the body its server got."""
    flow = flow_file(folder / "flow.json", {"name": "Only", "template": "{{text}}"}, inputs=[{"key": "text"}])
    (folder / "text").write_text(ODD * 30, "utf-8")
    with FakeServer(answer) as server:
        write_tested(home, server.url, apiKey="${SERVICE_KEY}", category="M", **{"header.X-Team": TEAM})
        main(["run", str(flow), "-i", f"text=@{folder / 'text'}", "--profile", "tested", "--json"])
        received = server.requests[-1]
    return json.loads(capsys.readouterr().out)["run_id"], received.body


def test_a_recorded_request_is_written_by_the_command_and_runs_by_itself(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVICE_KEY", SECRET)
    run_id, body = recorded_run(home, tmp_path, capsys, chat("Hello."))
    assert main(["runs", "show", run_id]) == 0
    assert "Only (request 1)" in capsys.readouterr().out
    assert main(["runs", "show", run_id, "--request", "1", "--as", "python"]) == 0
    program = capsys.readouterr().out
    assert SECRET not in program
    assert TEAM not in program
    with FakeServer(chat("Again.")) as server:
        lines = [
            "url = " + repr(f"{server.url}/v1") if line.startswith("url = ") else line for line in program.split("\n")
        ]
        (tmp_path / "copied.py").write_text("\n".join(lines), "utf-8")
        command = [sys.executable, str(tmp_path / "copied.py")]
        done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, timeout=60)
        (again,) = server.requests
    assert (done.returncode, again.body) == (0, body), done.stderr
    assert b"Again." in done.stdout
    assert again.headers["authorization"] == f"Bearer {SECRET}"


def test_the_command_says_which_requests_there_are(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVICE_KEY", SECRET)
    run_id, _ = recorded_run(home, tmp_path, capsys, failure(401))
    assert main(["runs", "show", run_id, "--request", "1", "--as", "curl"]) == 0
    assert "curl --no-buffer" in capsys.readouterr().out
    for wrong, said in (
        (["--request", "2", "--as", "curl"], "found 2, expected 1 to 1"),
        (["--request", "1"], "go together"),
        (["--request", "1", "--as", "wget"], 'found "wget", expected one of curl, python'),
        (["--request", "1", "--as", "curl", "--json"], "leave one of them out"),
    ):
        assert main(["runs", "show", run_id, *wrong]) == 2
        assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
