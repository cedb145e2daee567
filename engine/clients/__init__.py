"""Clients: one per wire dialect, on one transport and below one retry loop. Each is loaded when it is asked for."""

from importlib import import_module

from engine.clients.base import Client
from engine.errors import ProfileError
from engine.plugins import installed
from engine.profile import ModelProfile, Provider

CLIENTS: dict[str, tuple[str, str]] = {
    Provider.OPENAI_CHAT: ("openai_chat", "OpenAIChatClient"),
    Provider.OPENAI_TEXT: ("openai_text", "OpenAITextClient"),
    Provider.ANTHROPIC: ("anthropic", "AnthropicClient"),
    Provider.OLLAMA: ("ollama", "OllamaClient"),
    Provider.OPENAI_RESPONSES: ("openai_responses", "OpenAIResponsesClient"),
    Provider.AZURE: ("azure_chat", "AzureChatClient"),
    Provider.OPENROUTER: ("openrouter", "OpenRouterClient"),
}
"""Provider → module and class of its client."""


def client_for(profile: ModelProfile) -> Client:
    """The client that speaks the profile's dialect; raises ProfileError, and PluginError for a bad plug-in."""
    place = CLIENTS.get(profile.provider)
    if place is None and isinstance(plugged := installed("clients", profile.provider, Client, what="Client"), Client):
        return plugged
    if place is None:
        raise ProfileError(
            f"This version cannot talk to {profile.provider} yet, which the profile {profile.name} asks for.",
            hint=f"Choose a profile with modelProvider={Provider.OPENAI_CHAT}.",
            facts={"profile": profile.name, "key": "modelProvider", "value": profile.provider},
        )
    module, name = place
    client: Client = getattr(import_module(f"{__name__}.{module}"), name)()
    return client
