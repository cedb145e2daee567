"""What the settings say about ways to a server and about masking holds for every profile and every kind of request."""

import ssl
from pathlib import Path

import pytest

from engine import Engine, EngineSettings
from engine.errors import ConnectFailed
from engine.profile import ModelProfile
from tests.helpers.asking import free_port, profile_for
from tests.helpers.connect_proxy import connect_proxy
from tests.helpers.fake_server import FakeServer, chat

TLS = Path(__file__).parents[1] / "fixtures" / "tls"
"""Self-signed, valid until 2120: `openssl req -x509 -newkey … -addext subjectAltName=DNS:…`."""


def server_tls(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / f"{certificate}.pem", TLS / "localhost.key")
    return context


async def said(profile: ModelProfile, settings: EngineSettings, text: str = "hello") -> str:
    async with Engine(settings=settings) as engine:
        return (await engine.complete(profile, text)).content


async def test_the_ca_file_of_the_settings_is_trusted_by_every_profile() -> None:
    with FakeServer(chat("ok"), tls=server_tls("localhost")) as server:
        settings = EngineSettings(ca_file=str(TLS / "localhost.pem"))
        assert await said(profile_for(server.url), settings) == "ok"
        besides = profile_for(server.url, ca_file=str(TLS / "other-host.pem"))
        assert await said(besides, settings) == "ok"
        with pytest.raises(ConnectFailed, match="certificate") as failed:
            await said(profile_for(server.url, max_retries=0), EngineSettings())
        assert "CA file in the settings" in failed.value.hint


@pytest.mark.parametrize(("name", "reason"), [("none.pem", "no certificate in PEM"), ("gone.pem", "No such file")])
async def test_a_ca_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(ConnectFailed, match=reason) as failed:
        await said(profile_for("https://127.0.0.1:1"), EngineSettings(ca_file=str(tmp_path / name)))
    assert name in str(failed.value)
    assert failed.value.hint == "Correct the CA file in the settings: it names a file in PEM format."


async def test_an_encrypted_request_goes_through_the_proxy_and_is_verified_at_its_end() -> None:
    with FakeServer(chat("far away"), tls=server_tls("other-host")) as server:
        async with connect_proxy(server.port) as proxy:
            settings = EngineSettings(proxy=proxy.url, ca_file=str(TLS / "other-host.pem"))
            assert await said(profile_for("https://example.org/v1"), settings) == "far away"
            with pytest.raises(ConnectFailed, match="certificate"):
                await said(profile_for("https://example.com/v1", max_retries=0), settings)
            assert proxy.asked == ["CONNECT example.org:443 HTTP/1.1", "CONNECT example.com:443 HTTP/1.1"]
        assert len(server.requests) == 1
        assert "proxy-authorization" not in server.requests[0].headers


async def test_the_proxy_can_be_tried() -> None:
    with FakeServer(chat("x")) as server:
        async with Engine(settings=EngineSettings(proxy=server.url)) as engine:
            await engine.check_proxy()
    async with Engine(settings=EngineSettings(proxy=f"http://127.0.0.1:{free_port()}")) as engine:
        with pytest.raises(ConnectFailed, match="No proxy answers"):
            await engine.check_proxy()
    async with Engine(settings=EngineSettings(proxy="http://proxy.example:3128"), offline=True) as engine:
        with pytest.raises(ConnectFailed, match="Offline mode"):
            await engine.check_proxy()


async def test_masking_of_the_settings_holds_where_a_profile_says_nothing() -> None:
    settings = EngineSettings(
        sensitive_scope="all",
        sensitive_style="stars",
        sensitive_email_domains=("a.org",),
        sensitive_patterns={"x1": "y"},
    )
    text = "ada@a.org, bob@b.org, cy@c.org, x1"
    with FakeServer(chat("ok")) as server:
        await said(profile_for(server.url), settings, text)
        own = profile_for(server.url, sensitive_style="partial", sensitive_allow_email_domains=("b.org",))
        await said(own, settings, text)
        await said(profile_for(server.url, sensitive_scope="off"), settings, text)
    sent = [request.json()["messages"][-1]["content"] for request in server.requests]
    assert sent == ["ada@a.org, ***, ***, y", "ada@a.org, bob@b.org, cy＠c.org, y", text]


@pytest.mark.parametrize(
    ("field", "value"),
    [("ca_file", "certificates.pem"), ("sensitive_scope", "some"), ("sensitive_style", "dots")],
)
def test_settings_that_cannot_be(field: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be"):
        EngineSettings(**{field: value})  # type: ignore[arg-type]
