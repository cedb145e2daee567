"""What the network can do wrong before an answer comes: refused, unknown, unverified, redirected, in somebody's way."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from engine.clients import transport_faults
from engine.completion import Phase
from engine.errors import (
    AnswerIncomplete,
    ConnectFailed,
    ProtocolError,
    RequestTimeout,
    ServerError,
)
from tests.helpers.asking import ask, free_port, profile_for, requests, stream_of
from tests.helpers.fake_server import DONE, EVENT_STREAM, Answer, FakeServer, chat, delta, failure

TLS = Path(__file__).parents[1] / "fixtures" / "tls"


async def test_a_refused_connection_names_what_to_start() -> None:
    port = free_port()
    outcome = await ask(profile_for(f"http://127.0.0.1:{port}"))
    assert type(outcome.failure) is ConnectFailed
    assert outcome.failure.facts["attempts"] == "3"
    assert outcome.so_far is not None
    assert outcome.so_far.statistics.requests == 0
    assert f"127.0.0.1:{port}" in str(outcome.failure)
    assert "Start the server" in outcome.failure.hint
    assert outcome.waits == [0.5, 1.0]
    assert outcome.phases == [Phase.CONNECTING] * 3


async def test_a_known_port_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setitem(transport_faults.START_COMMANDS, port, "ollama serve")
    outcome = await ask(profile_for(f"http://localhost:{port}", max_retries=0))
    assert "`ollama serve`" in outcome.failure.hint


async def test_an_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
    outcome = await ask(profile_for("http://nowhere.invalid:80", api_key="", max_retries=0))
    assert type(outcome.failure) is ConnectFailed
    assert "nowhere.invalid is unknown" in str(outcome.failure)


async def test_offline_mode_refuses_before_the_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise AssertionError("looked up")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
    outcome = await ask(profile_for("https://api.example.com/v1"), offline=True)
    assert type(outcome.failure) is ConnectFailed
    assert "tested wants api.example.com" in str(outcome.failure)
    assert outcome.waits == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_offline_mode_lets_this_machine_through(host: str) -> None:
    with FakeServer(chat("ok")) as server:
        outcome = await ask(profile_for(server.url.replace("127.0.0.1", host)), offline=True)
    assert outcome.done.content == "ok"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "127.0.0.1:80", ""])
async def test_an_address_that_is_none(url: str) -> None:
    outcome = await ask(profile_for(url, max_retries=0))
    assert type(outcome.failure) is ConnectFailed
    assert "no http or https address" in str(outcome.failure)


METADATA_SPELLINGS = [
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[fe80::1]",
    "[fd00:ec2::254]",
]


@pytest.mark.parametrize("host", METADATA_SPELLINGS)
async def test_link_local_and_metadata_addresses_are_not_asked(host: str) -> None:
    outcome = await ask(profile_for(f"http://{host}:80/v1"))
    assert type(outcome.failure) is ConnectFailed
    assert "is not asked" in str(outcome.failure) or "is no http or https address" in str(outcome.failure)
    assert outcome.waits == []


async def test_a_name_that_leads_to_a_metadata_address_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    outcome = await ask(profile_for("http://model.example:80/v1", api_key=""))
    assert type(outcome.failure) is ConnectFailed
    assert "model.example is not asked: 169.254.169.254 is an address of the machine's own" in str(outcome.failure)
    assert outcome.waits == []


@pytest.mark.parametrize("key", ["canary\nX: y", "canary\r", "canary\x00", "canaryé"])
async def test_a_key_that_cannot_be_sent(key: str) -> None:
    with FakeServer(chat("ok")) as server:
        outcome = await ask(profile_for(server.url, api_key=key))
    assert type(outcome.failure) is ConnectFailed
    assert "Authorization" in str(outcome.failure)
    assert "canary" not in f"{outcome.failure} {outcome.failure.hint} {outcome.failure.facts}"
    assert outcome.waits == []
    assert server.requests == []


async def test_a_password_in_the_address_is_not_shown() -> None:
    outcome = await ask(profile_for(f"http://user:canary@127.0.0.1:{free_port()}/v1?key=canary", max_retries=0))
    assert "canary" not in f"{outcome.failure} {outcome.failure.hint} {outcome.failure.facts}"


def server_tls(certificate: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / f"{certificate}.pem", TLS / "localhost.key")
    return context


@pytest.mark.parametrize(
    ("certificate", "trusted"),
    [("localhost", ""), ("expired", ""), ("other-host", ""), ("expired", "expired"), ("other-host", "other-host")],
)
async def test_a_certificate_that_cannot_be_verified_is_refused(certificate: str, trusted: str) -> None:
    """Of one's own making, expired, and of another host; for the last two even when its maker is trusted."""
    with FakeServer(chat("ok"), tls=server_tls(certificate)) as server:
        ca_file = str(TLS / f"{trusted}.pem") if trusted else ""
        outcome = await ask(profile_for(server.url, ca_file=ca_file))
    assert type(outcome.failure) is ConnectFailed
    assert "certificate" in str(outcome.failure)
    assert not outcome.failure.retryable
    assert outcome.waits == []
    assert server.requests == []


async def test_a_certificate_of_ones_own_organisation_is_trusted_by_its_file() -> None:
    with FakeServer(chat("ok"), tls=server_tls()) as server:
        outcome = await ask(profile_for(server.url, ca_file=str(TLS / "localhost.pem")))
        assert outcome.done.content == "ok"
        other = await ask(profile_for(server.url))
        assert "certificate" in str(other.failure)
        assert "caFile" in other.failure.hint


async def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("empty.pem", "missing.pem"):
        outcome = await ask(profile_for("https://127.0.0.1:1", ca_file=str(tmp_path / name)))
        assert name in str(outcome.failure)
        assert "caFile" in outcome.failure.hint
        assert outcome.waits == []


@pytest.mark.parametrize("options", [{}, {"auth_scheme": "x-api-key"}, {"api_key": "", "headers": {"API-Key": "abc"}}])
async def test_a_key_is_not_sent_unencrypted_to_another_machine_unless_confirmed(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    with FakeServer(chat("ok")) as server:
        url = server.url.replace("127.0.0.1", "model.example")
        outcome = await ask(profile_for(url, **options))
        assert type(outcome.failure) is ConnectFailed
        assert "unencrypted" in str(outcome.failure)
        assert "keyOverHttp=true" in outcome.failure.hint
        assert outcome.waits == []
        assert server.connections == 0
        confirmed = await ask(profile_for(url, **options, key_over_http=True))
        assert confirmed.done.content == "ok"
        without = await ask(profile_for(url, api_key=""))
        assert without.done.content == "ok"


async def test_http_on_an_https_address() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        outcome = await ask(profile_for(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    assert type(outcome.failure) is ConnectFailed
    assert "http://" in outcome.failure.hint
    assert outcome.waits == []


async def test_a_server_that_hangs_up_without_an_answer() -> None:
    with FakeServer(Answer(raw=b""), Answer(raw=b""), chat("ok")) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.content == "ok"
    assert len(outcome.waits) == 2


FAILING = {
    "hangs up": (Answer(raw=b""), ConnectFailed, 3),
    "hangs up in the head": (Answer(raw=b"HTTP/1.1 200 OK\r\nContent-"), ConnectFailed, 3),
    "is cut before its first text": (Answer(pieces=[], framing="chunked", end="cut"), AnswerIncomplete, 3),
    "resets before its first text": (Answer(pieces=[delta(role="assistant")], end="reset"), AnswerIncomplete, 3),
    "is silent": (Answer(pieces=[], end="stall"), RequestTimeout, 3),
    "is no HTTP": (Answer(raw=b"SSH-2.0-OpenSSH_9.2\r\n"), ProtocolError, 2),
}


@pytest.mark.parametrize("name", FAILING)
async def test_how_often_a_failing_connection_is_tried(name: str) -> None:
    answer, kind, attempts = FAILING[name]
    with FakeServer(answer) as server:
        outcome = await ask(profile_for(server.url, first_token_timeout=0.3))
    assert type(outcome.failure) is kind
    assert len(server.requests) == server.connections == attempts
    assert outcome.failure.facts["attempts"] == str(attempts)


async def test_how_often_an_unknown_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    async def fail(host: object, *_: object, **__: object) -> None:
        asked.append(host)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
    outcome = await ask(profile_for("http://nowhere.invalid:80", api_key=""))
    assert type(outcome.failure) is ConnectFailed
    assert asked == ["nowhere.invalid"] * 3


@pytest.mark.parametrize(
    "raw", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nBad header\r\n\r\n"]
)
async def test_what_is_no_http_answer(raw: bytes) -> None:
    with FakeServer(Answer(raw=raw)) as server:
        outcome = await ask(profile_for(server.url, max_retries=0))
    assert type(outcome.failure) is ProtocolError


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["same host", "other port", "other host", "lower scheme"])
async def test_redirects_are_not_followed(status: int, to: str) -> None:
    secure = to == "lower scheme"
    with FakeServer(chat("stolen")) as target:
        elsewhere = f"{target.url}/v1/chat/completions"
        if to == "same host":
            elsewhere = "/elsewhere"
        elif to == "other host":
            elsewhere = elsewhere.replace("127.0.0.1", "localhost")
        redirect = failure(status, headers={"Location": elsewhere})
        with FakeServer(redirect, chat("wrong"), tls=server_tls() if secure else None) as server:
            outcome = await ask(profile_for(server.url, ca_file=str(TLS / "localhost.pem")))
    assert type(outcome.failure) is ServerError
    assert elsewhere in str(outcome.failure)
    assert not outcome.failure.retryable
    assert len(server.requests) == 1
    assert target.connections == 0


async def test_the_environment_does_not_redirect_requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    with FakeServer(chat("trapped")) as trap, FakeServer(chat("ok")) as server:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, trap.url)
        monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        outcome = await ask(profile_for(server.url, api_key=""))
    assert outcome.done.content == "ok"
    assert trap.connections == 0
    assert "authorization" not in server.requests[0].headers


async def test_a_proxy_is_asked_for_all_but_this_machine() -> None:
    with FakeServer(chat("through the proxy")) as proxy, FakeServer(chat("here")) as server:
        async with requests() as sender:
            sender.transport.proxy = proxy.url
            for url, said in ((server.url, "here"), ("http://model.example:81", "through the proxy")):
                async with stream_of(sender, profile_for(url, api_key="")) as stream:
                    assert "".join([chunk.content async for chunk in stream]) == said
    assert [request.path for request in proxy.requests] == ["http://model.example:81/v1/chat/completions"]
    assert len(server.requests) == 1


async def test_a_proxy_that_does_not_answer_is_named() -> None:
    async with requests() as sender:
        sender.transport.proxy = f"http://127.0.0.1:{free_port()}"
        with pytest.raises(ConnectFailed, match=r"proxy does not lead to model\.example") as failed:
            async with stream_of(sender, profile_for("https://model.example/v1", max_retries=0)) as stream:
                _ = [chunk async for chunk in stream]
    assert "setting proxy" in failed.value.hint


async def test_cookies_are_neither_kept_nor_sent() -> None:
    answer = Answer(headers={**EVENT_STREAM, "Set-Cookie": "a=b; Path=/"}, pieces=[delta("x", finish="stop"), DONE])
    with FakeServer(answer) as server:
        async with requests() as sender:
            for _ in range(2):
                async with stream_of(sender, profile_for(server.url)) as stream:
                    assert [chunk.content async for chunk in stream if chunk.content] == ["x"]
    assert len(server.requests) == 2
    assert all("cookie" not in request.headers for request in server.requests)
