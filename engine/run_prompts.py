"""The prompts of the library that hold for one run: read when it begins, whatever is edited meanwhile."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from engine.errors import EngineError
from engine.prompt_library import Prompt, PromptLibrary

TOOL_FORMAT = "struct_parse.tool_system_prompt"
"""How a model calls tools in its text (docs/tools.md)."""


@dataclass(frozen=True, slots=True)
class RunPrompts:
    """By key the prompt, or why it cannot be read: that matters only when it is used."""

    found: Mapping[str, Prompt | EngineError]

    @classmethod
    def take(cls, library: PromptLibrary, language: str) -> "RunPrompts":
        """Read what runs use."""
        found: dict[str, Prompt | EngineError] = {}
        try:
            found[TOOL_FORMAT] = library.find(TOOL_FORMAT, language)
        except EngineError as error:
            found[TOOL_FORMAT] = error
        return cls(found)

    def text(self, key: str) -> str:
        """The text of a prompt; raises what kept it from being read."""
        prompt = self.found[key]
        if isinstance(prompt, EngineError):
            raise prompt
        return prompt.text.rstrip("\n")

    @property
    def versions(self) -> dict[str, str]:
        """By key the language and the version, for the record: `en 3f09a1c2d4e5`."""
        return {key: f"{one.language} {one.version}" for key, one in self.found.items() if isinstance(one, Prompt)}


current_prompts: ContextVar[RunPrompts | None] = ContextVar("current_prompts", default=None)
"""Those of the run under way; None outside of runs."""
