"""Model servers on this machine: asked on their usual ports, with a profile for each that answers."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from engine import bundled
from engine.engine import Engine
from engine.errors import AuthenticationFailed, EngineError
from engine.profile_edit import with_property
from engine.profile_store import SUFFIX

CONNECT_SECONDS = 0.5
"""Until a port of this machine counts as closed."""
ANSWER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class UsualPort:
    """Where a server of some kind usually listens."""

    kind: str
    port: int
    template: str
    """The bundled profile that fits it."""
    path: str = "/v1"


USUAL_PORTS = (
    UsualPort("Ollama", 11434, "ollama", ""),
    UsualPort("LM Studio", 1234, "lm-studio"),
    UsualPort("llama.cpp", 8080, "llama-server"),
    UsualPort("vLLM", 8000, "vllm"),
    UsualPort("KoboldCpp", 5001, "local-chatcompletion"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server that answered as its kind does."""

    kind: str
    url: str
    template: str
    models: tuple[str, ...] = ()
    needs_key: bool = False
    """It lists its models only to who has a key."""

    def profile_text(self, model: str = "") -> bytes:
        """The text of a profile for it; without a model the first that it lists is asked."""
        text = bundled.read_bytes("profiles", self.template + SUFFIX)
        for key, value in (("url", self.url), ("modelName", model), ("category", None)):
            text = with_property(text, key, value)
        return text


async def find_servers(engine: Engine, ports: Sequence[UsualPort] = USUAL_PORTS) -> list[FoundServer]:
    """Ask all ports of this machine at once; those that answer otherwise, or not in time, are left out."""
    found = await asyncio.gather(*(_ask(engine, usual) for usual in ports))
    return [server for server in found if server is not None]


async def _ask(engine: Engine, usual: UsualPort) -> FoundServer | None:
    # First whether anything listens: a failed request would count against the address.
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection("127.0.0.1", usual.port)
        writer.close()
        return await _listed(engine, usual)
    return None


async def _listed(engine: Engine, usual: UsualPort) -> FoundServer | None:
    server = FoundServer(kind=usual.kind, url=f"http://127.0.0.1:{usual.port}{usual.path}", template=usual.template)
    entry = await asyncio.to_thread(engine.profiles.check_text, usual.template, server.profile_text())
    if entry.profile is None:
        return None
    profile = replace(entry.profile, options=replace(entry.profile.options, max_retries=0))
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            models = await engine.model_names(profile, force_reload=True)
    except AuthenticationFailed:
        return replace(server, needs_key=True)
    except (EngineError, TimeoutError):
        return None
    return replace(server, models=tuple(models))
