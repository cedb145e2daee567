"""The engine as a flow sees it."""

from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING

from engine.completion import Stream
from engine.conversation import Conversation, ToolChoice
from engine.errors import ProfileError
from engine.profile import ModelProfile, Overrides, ProfileRef
from engine.profile_store import ProfileStore
from engine.run_tape import RunTape

if TYPE_CHECKING:
    from engine.engine import Engine


class RunCompleter:
    """The engine as a flow sees it, with the profiles of one run."""

    def __init__(self, engine: "Engine", profiles: ProfileStore, *, use_cache: bool, skip_cache: bool) -> None:
        """Take the engine; the switches are those of `Engine.run`."""
        self._engine = engine
        self._profiles = profiles
        self._use_cache = use_cache
        self._skip_cache = skip_cache
        self.tape: RunTape | None = None
        """Where it is noted which profiles were found."""

    def resolve(self, profile: ProfileRef) -> ModelProfile:
        """Find a profile; raises ProfileError."""
        found = self._profiles.resolve(profile)
        if self.tape is not None:
            self.tape.resolved(profile, found)
            for name in found.options.fallback_profiles:
                with suppress(ProfileError):  # it may never be asked
                    self.tape.resolved(name, self._profiles.get(name))
        return found

    def stream(
        self,
        profile: ProfileRef,
        conversation: Conversation,
        *,
        overrides: Overrides | None = None,
        tools: ToolChoice | None = None,
        skip_cache: bool = False,
    ) -> AbstractAsyncContextManager[Stream]:
        """Ask for a completion, as `Engine.stream`."""
        return self._engine.stream(
            self.resolve(profile),
            conversation,
            overrides=overrides,
            tools=tools,
            skip_cache=skip_cache or self._skip_cache,
            use_cache=self._use_cache,
        )
