"""Clients: one per wire dialect, on one transport and below one retry loop."""

from engine.clients.base import Client
from engine.clients.openai_chat import OpenAIChatClient
from engine.errors import ProfileError
from engine.profile import ModelProfile, Provider

CLIENTS: dict[str, type[Client]] = {Provider.OPENAI_CHAT: OpenAIChatClient}
"""Provider → client."""


def client_for(profile: ModelProfile) -> Client:
    """The client that speaks the profile's dialect; raises ProfileError when there is none."""
    if (kind := CLIENTS.get(profile.provider)) is None:
        raise ProfileError(
            f"This version cannot talk to {profile.provider} yet, which the profile {profile.name} asks for.",
            hint=f"Choose a profile with modelProvider={Provider.OPENAI_CHAT}.",
            facts={"profile": profile.name, "key": "modelProvider", "value": profile.provider},
        )
    return kind()
