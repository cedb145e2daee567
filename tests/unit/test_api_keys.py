"""Placeholders: where their values come from, and what is not one."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from engine.api_keys import expand, is_reference, keyring_secret


def expanded(text: str, own: dict[str, str] | None = None, environ: dict[str, str] | None = None, **stored: str) -> str:
    result = expand(text, key="apiKey", own=own or {}, environ=environ or {}, secrets=stored.get)
    assert not result.malformed
    assert not result.missing
    return result.text


def test_same_file_wins_over_environment_over_keyring_over_default() -> None:
    assert expanded("${K:d}", {"K": "file"}, {"K": "env"}, K="ring") == "file"
    assert expanded("${K:d}", {}, {"K": "env"}, K="ring") == "env"
    assert expanded("${K:d}", {}, {}, K="ring") == "ring"
    assert expanded("${K:d}") == "d"
    assert expanded("${K:}") == ""


def test_an_empty_value_counts_as_not_set() -> None:
    assert expanded("${K:d}", {"K": "  "}, {"K": ""}) == "d"


def test_environment_also_in_upper_case_with_underscores() -> None:
    assert expanded("${my.api-key}", environ={"MY_API_KEY": "1"}) == "1"
    assert expanded("${my.api-key}", environ={"MY_API_KEY": "1", "my.api-key": "2"}) == "2"


def test_inserted_text_is_not_looked_at_again() -> None:
    assert expanded("${A}", {"A": "${B}", "B": "no"}) == "${B}"


def test_defaults_may_hold_colons_and_several_placeholders_stand_together() -> None:
    assert expanded("${U:http://localhost:1/v1}/${P:x}") == "http://localhost:1/v1/x"


def test_a_key_never_stands_for_itself() -> None:
    own = {"apiKey": "${apiKey}"}
    assert expanded("${apiKey}", own, {"APIKEY": "env"}) == "env"
    assert expand("${apiKey}", key="apiKey", own=own, environ={}, secrets=lambda _: None).missing == ("apiKey",)


@pytest.mark.parametrize("text", ["${", "${A", "x${}", "${ }", "${A:${B}}", "${A${B}}", "${:d}"])
def test_malformed(text: str) -> None:
    result = expand(text, key="url", own={"A": "a", "B": "b"}, environ={}, secrets=lambda _: None)
    assert result.malformed
    assert result.text == text


@pytest.mark.parametrize("text", ["plain", "$A", "{A}", "$$", "a}b"])
def test_no_placeholder(text: str) -> None:
    assert expanded(text) == text


def test_the_text_is_not_in_the_repr() -> None:
    assert "CANARY" not in repr(expand("${A}", key="apiKey", own={}, environ={"A": "CANARY"}, secrets=lambda _: None))


def test_only_a_bare_name_is_shown() -> None:
    assert is_reference("${OPENAI_API_KEY}")
    assert is_reference("${KEY:}")
    assert not is_reference("${KEY:secret}")
    assert not is_reference("secret${KEY}")


def fake_keyring(monkeypatch: pytest.MonkeyPatch, backend: object) -> None:
    module = ModuleType("keyring")
    module.__spec__ = SimpleNamespace(name="keyring")  # type: ignore[assignment]
    module.get_keyring = lambda: backend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", module)


class Backend:
    priority = 5.0

    def get_password(self, service: str, name: str) -> str | None:
        return f"{service}/{name}"


class PlaintextKeyring(Backend):
    pass


class Nothing(Backend):
    priority = -1.0


class Locked(Backend):
    def get_password(self, service: str, name: str) -> str | None:
        raise RuntimeError(f"locked: {name} CANARY")


def test_keyring(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    fake_keyring(monkeypatch, Backend())
    assert keyring_secret("K") == "flow-workbench/K"
    for unsafe in (PlaintextKeyring(), Nothing(), Locked()):
        fake_keyring(monkeypatch, unsafe)
        assert keyring_secret("K") is None
    assert "RuntimeError" in caplog.text
    assert "CANARY" not in caplog.text


def test_without_the_keyring_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert keyring_secret("K") is None
