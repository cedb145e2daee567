"""Where the clients of OpenAI's kind send their requests."""

from dataclasses import replace

import pytest

from engine.clients.azure_chat import AzureChatClient
from engine.clients.openai_chat import OpenAIChatClient
from engine.clients.openai_responses import OpenAIResponsesClient
from engine.profile import ModelProfile, ProfileOptions
from engine.profile_builder import inline_profile

PROFILE = ModelProfile(name="p", category="M", provider="x", model="dep", api_key="k", options=ProfileOptions())


def at(url: str, interface_url: str = "", api_version: str = "") -> ModelProfile:
    options = ProfileOptions(interface_url=interface_url, api_version=api_version)
    return replace(PROFILE, url=url, options=options)


@pytest.mark.parametrize(
    ("url", "interface_url", "responses", "models"),
    [
        ("https://api.openai.com/v1", "", "https://api.openai.com/v1/responses", "https://api.openai.com/v1/models"),
        ("http://h:1/", "", "http://h:1/v1/responses", "http://h:1/v1/models"),
        ("http://h/v1/chat/completions", "", "http://h/v1/responses", "http://h/v1/models"),
        ("http://h/v1/responses", "", "http://h/v1/responses", "http://h/v1/models"),
        ("https://g/api/", "/own/responses", "https://g/api/own/responses", "https://g/api/own/models"),
        ("https://g/api", "own", "https://g/api/own", "https://g/api/v1/models"),
    ],
)
def test_responses(url: str, interface_url: str, responses: str, models: str) -> None:
    client, profile = OpenAIResponsesClient(), at(url, interface_url)
    assert client.url(profile, "/responses") == responses
    assert client.models_request(profile)[0] == models


def test_gemini() -> None:
    profile = at("https://g/v1beta/openai", "/chat/completions")
    assert OpenAIChatClient().url(profile, "/chat/completions") == "https://g/v1beta/openai/chat/completions"
    assert OpenAIChatClient().models_request(profile)[0] == "https://g/v1beta/openai/models"


@pytest.mark.parametrize(
    ("url", "interface_url", "version", "expected"),
    [
        ("https://n.azure.com/", "", "1", "https://n.azure.com/openai/deployments/dep/chat/completions?api-version=1"),
        (
            "https://n.azure.com/openai",
            "",
            "1",
            "https://n.azure.com/openai/deployments/dep/chat/completions?api-version=1",
        ),
        ("https://n/openai/deployments/d2", "", "1", "https://n/openai/deployments/d2/chat/completions?api-version=1"),
        ("https://n/x/chat/completions", "", "1", "https://n/x/chat/completions?api-version=1"),
        ("https://gw", "/azure/chat", "2", "https://gw/azure/chat?api-version=2"),
        ("https://n", "", "", "https://n/openai/deployments/dep/chat/completions"),
    ],
)
def test_azure(url: str, interface_url: str, version: str, expected: str) -> None:
    assert AzureChatClient().url(at(url, interface_url, version), "/chat/completions") == expected


def test_azure_models_and_keys() -> None:
    for url in ("https://n/", "https://n/openai", "https://n/openai/deployments/d2"):
        address, headers = AzureChatClient().models_request(at(url, api_version="1"))
        assert address == "https://n/openai/models?api-version=1"
        assert headers["api-key"] == "k"
        assert "Authorization" not in headers


def test_what_providers_have_by_default() -> None:
    keys = {"url": "https://h", "modelName": "m", "maxTokens": 9, "temperature": 0, "topP": 1}
    assert inline_profile("p", keys | {"modelProvider": "AZURE_CHAT_COMPLETION"}).options.api_version == "2024-10-21"
    assert inline_profile("p", keys | {"modelProvider": "OAI_RESPONSES"}).options.system_role == "developer"
    own = inline_profile("p", keys | {"modelProvider": "OAI_RESPONSES", "systemRole": "system"})
    assert own.options.system_role == "system"
