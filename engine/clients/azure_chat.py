"""Client for deployments of Azure OpenAI. Source: Azure OpenAI REST API reference, chat completions."""

import re

from engine.clients.openai_chat import OpenAIChatClient
from engine.profile import ModelProfile


class AzureChatClient(OpenAIChatClient):
    """Speaks chat completions under the name of a deployment, with a version in the address; stateless."""

    auth = "api-key"

    def url(self, profile: ModelProfile, path: str) -> str:
        """The address of an interface: that of the deployment for chats, that of the resource for the list."""
        base, own = profile.url.rstrip("/"), profile.options.interface_url
        if path == "/models":
            address = re.sub(r"/openai(/deployments(/.*)?)?$", "", base) + "/openai/models"
        elif own:
            address = f"{base}/{own.lstrip('/')}"
        elif base.endswith(path):
            address = base
        elif re.search(r"/openai/deployments/[^/]+$", base):
            address = base + path
        else:
            address = f"{base.removesuffix('/openai')}/openai/deployments/{profile.model}{path}"
        version = profile.options.api_version
        return f"{address}?api-version={version}" if version else address
