"""Profiles from JoyAgent-JDGenie's llm block: names, providers, keys that stay out, and clear errors."""

import json
from pathlib import Path

import pytest

from engine import ProfileStore, cli
from engine.errors import ProfileInvalid
from engine.profile_import import import_llm_block

SETTINGS = {
    "claude-sonnet": {
        "model": "claude-3-7-sonnet",
        "max_tokens": 8192,
        "max_input_tokens": 128000,
        "base_url": "https://api.anthropic.example",
        "interface_url": "/v1/messages",
        "apikey": "sk-ant-0123456789",
        "ext_params": {"top_k": 5},
    },
    "claude behind a gateway": {
        "model": "claude-3-5",
        "base_url": "https://gateway.example",
        "interface_url": "/chat/completions",
        "apikey": "<input llm key here>",
        "function_call_type": "struct_parse",
        "top_secret_mode": True,
    },
    "azure-4o": {
        "model": "gpt-4o",
        "base_url": "https://me.openai.azure.example",
        "api_type": "azure",
        "api_version": "2024-10-21",
        "temperature": 0.5,
    },
}
YAML = f"""spring:
  application: {{name: genie}}
llm:
  default:
    base_url: 'https://api.example/v1'
    apikey: 'sk-default-0123456789'
    interface_url: '/chat/completions'
    model: gpt-4.1
    max_tokens: 16384
  settings: '{json.dumps(SETTINGS)}'
"""


def test_each_entry_becomes_a_profile_that_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {one.name: one for one in import_llm_block(YAML.encode(), "application.yml")}
    assert list(found) == ["default", "claude-sonnet", "claude-behind-a-gateway", "azure-4o"]
    for one in found.values():
        if one.variable:
            monkeypatch.setenv(one.variable, "sk-from-outside")
    store = ProfileStore()
    profiles = {name: store.check_text(name, one.text).profile for name, one in found.items()}
    read = {
        name: (one.provider, one.model, one.url, one.max_tokens, one.temperature, one.api_key)
        for name, one in profiles.items()
        if one is not None
    }
    assert read == {
        "default": ("OAI_CHAT_COMPLETION", "gpt-4.1", "https://api.example/v1", 16384, 0.0, "sk-from-outside"),
        "claude-sonnet": (
            "ANTHROPIC_MESSAGES", "claude-3-7-sonnet", "https://api.anthropic.example", 8192, 0.0, "sk-from-outside",
        ),
        "claude-behind-a-gateway": ("OAI_CHAT_COMPLETION", "claude-3-5", "https://gateway.example", 4096, 0.0, ""),
        "azure-4o": ("AZURE_CHAT_COMPLETION", "gpt-4o", "https://me.openai.azure.example", 4096, 0.5, ""),
    }  # fmt: skip
    sonnet = profiles["claude-sonnet"]
    assert sonnet is not None
    assert (sonnet.options.ext_params, sonnet.options.max_input_tokens) == ({"top_k": 5}, 128000)
    assert found["claude-behind-a-gateway"].left_out == ("top_secret_mode",)
    assert b"0123456789" not in b"".join(one.text for one in found.values())
    assert found["claude-sonnet"].variable == "CLAUDE_SONNET_KEY"


def test_keys_are_written_only_when_asked_for() -> None:
    found = import_llm_block(YAML.encode(), "application.yml", keys=True)
    assert b"apiKey=sk-ant-0123456789" in found[1].text
    assert found[1].variable == ""


def test_settings_may_be_an_object_and_the_block_stand_alone() -> None:
    (one,) = import_llm_block(
        json.dumps({"settings": {"a": {"model": "m", "base_url": "http://x/v1"}}}).encode(), "a.json"
    )
    assert one.name == "a"
    assert ProfileStore().check_text("a", one.text).profile is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "found no YAML and no JSON"),
        ("a: 1", "found no llm block, expected llm with default and settings"),
        ("llm: {settings: '{\"a\": '}", "llm.settings: found no JSON object"),
        ("llm: {settings: [1]}", "llm.settings: found list, expected an object"),
        ("llm: {settings: {a: 5}}", "llm.settings.a: found int, expected an object"),
        ("!!python/object/apply:os.system ['true']", "found no YAML and no JSON"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(text: str, said: str) -> None:
    with pytest.raises(ProfileInvalid) as error:
        import_llm_block(text.encode(), "x.yml")
    assert str(error.value).startswith("x.yml: ")
    assert said in str(error.value)


def test_the_command_writes_and_replaces_only_when_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "application.yml"
    file.write_text(YAML)
    home = ["--data-dir", str(tmp_path / "home")]
    assert cli.main([*home, "profiles", "import", str(file), "--json"]) == 0
    told = capsys.readouterr()
    assert [one["name"] for one in json.loads(told.out)][:2] == ["default", "claude-sonnet"]
    assert "claude-sonnet: set the environment variable CLAUDE_SONNET_KEY to its key." in told.err
    assert "0123456789" not in told.out + told.err
    written = tmp_path / "home" / "profiles" / "azure-4o.properties"
    written.write_text("mine\n")
    assert cli.main([*home, "profiles", "import", str(file)]) == 2
    assert "azure-4o" in capsys.readouterr().err
    assert written.read_text() == "mine\n"
    assert cli.main([*home, "profiles", "import", str(file), "--force"]) == 0
    assert "modelName=gpt-4o" in written.read_text()
