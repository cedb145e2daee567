"""What stands in the place of profiles, embedded server and cache while a wire tape is played."""

from pathlib import Path
from typing import TypeVar

import msgspec

from engine.cache import CacheEntry, MemoryCache
from engine.clients.tape_file import RecordedTape
from engine.clients.tape_lines import TapedModel
from engine.conversation import ToolCall
from engine.embedded_server import EmbeddedServer, Endpoint, ServerState
from engine.errors import StorageError
from engine.flow.frozen import Frozen
from engine.flow.tool_rounds import Replayed
from engine.flow.tools import Outcome
from engine.profile import ModelProfile, ProfileRef
from engine.profile_store import ProfileStore
from engine.prompt_library import Prompt
from engine.run_prompts import RunPrompts
from engine.run_tape import ref_name

T = TypeVar("T")

NOWHERE = "http://127.0.0.1/v1"
"""Address of the embedded server in a replay, where nothing is sent to any address."""


class TapedProfiles(ProfileStore):
    """The profiles as the recorded run found them; what it did not look for is found among the bundled ones."""

    def __init__(self, tape: RecordedTape) -> None:
        """Read them; raises StorageError."""
        super().__init__(None, {}, secrets=lambda _name: None)
        self._taped = {line.ref: _decoded(tape, line.profile, ModelProfile) for line in tape.profiles}
        for profile in self._taped.values():
            self.add(profile)
        labels = {name.removeprefix("category:"): profile.name for name, profile in self._taped.items()}
        self._mapped = {label: name for label, name in labels.items() if not label.startswith("name:")}

    def resolve(self, ref: ProfileRef) -> ModelProfile:
        """As the recorded run did."""
        return self._taped.get(ref_name(ref)) or super().resolve(ref)


class ReplayedServer(EmbeddedServer):
    """The embedded server as the recorded run found it; nothing is started."""

    def __init__(self, models: list[TapedModel]) -> None:
        super().__init__(data_dir=Path())
        self._models = models

    @property
    def state(self) -> ServerState:
        """Ready at once."""
        return ServerState.READY

    @property
    def endpoint(self) -> Endpoint | None:
        """An address that is never asked."""
        return Endpoint(url=NOWHERE, api_key="", model=self._models[0].alias if self._models else "", slots=4)

    def find_model(self) -> Path | None:
        """None: no model is loaded."""
        return None

    def served_model(self) -> tuple[str, str] | None:
        """What was served then."""
        return (self._models[0].identity, self._models[0].alias) if self._models else None

    async def ensure(self) -> Endpoint:
        """The address."""
        return Endpoint(url=NOWHERE, api_key="", model="", slots=4)


async def taped_cache(tape: RecordedTape) -> MemoryCache:
    """A cache with the answers that were kept before the recorded run began, and that it used."""
    cache = MemoryCache()
    for line in tape.hits:
        await cache.put(line.key, _decoded(tape, line.entry, CacheEntry))
    return cache


def replayed(tape: RecordedTape) -> Replayed:
    """What the run is that plays a tape."""
    results = [
        (ToolCall(id=line.id, name=line.name, arguments=line.arguments), Outcome(line.output, line.failed))
        for line in tape.tools
    ]
    return Replayed(run_id=tape.start.run_id, results=results)


def taped_frozen(tape: RecordedTape) -> tuple[Frozen, ...]:
    """The agents that were not asked."""
    return tuple(_decoded(tape, tape.start.frozen, list[Frozen]))


def taped_prompts(tape: RecordedTape) -> RunPrompts:
    """Those of the prompt library as they were."""
    return RunPrompts(_decoded(tape, tape.start.prompts, dict[str, Prompt]))


def _decoded(tape: RecordedTape, data: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"{tape.path.name}: a {getattr(kind, '__name__', 'part')} on this tape cannot be read: {error}.",
            hint="Record it again.",
            facts={"path": str(tape.path)},
        ) from error
