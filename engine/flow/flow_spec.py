"""The declarative form of a flow, field for field what a `*.flow.json` file holds (docs/flow-format.md).

All values are immutable: an edit makes a changed copy with `msgspec.structs.replace`, which shares the rest. Fields a
file has beyond these are kept in `extra` and written back.
"""

from enum import StrEnum
from typing import Literal

import msgspec

FORMAT = "workbench.flow"
VERSION = 1


class AgentType(StrEnum):
    """What an agent does with the conversation that reaches it."""

    COMPLETION = "COMPLETION"
    """One prompt, no memory."""
    START_CONVERSATION = "START_CONVERSATION"
    """A new conversation."""
    START_CONVERSATION_WITH_SYSTEM_PROMPT = "START_CONVERSATION_WITH_SYSTEM_PROMPT"
    """A new conversation with a role."""
    CONVERSATION = "CONVERSATION"
    """Goes on in the same conversation; a system turn becomes part of the first user turn."""
    CONVERSATION_WITH_SYSTEM_PROMPT = "CONVERSATION_WITH_SYSTEM_PROMPT"
    """Goes on in the same conversation and keeps its system turn."""
    PROCESSING_ONLY = "PROCESSING_ONLY"
    """Asks no model, works on the context."""


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Base of all parts of a file."""

    extra: dict[str, object] = {}
    """Fields this version does not know, kept for saving."""


class InputSpec(Spec, frozen=True):
    """One declared input of a flow."""

    key: str
    type: Literal["text", "number", "boolean", "choice", "list", "json", "file", "image"] = "text"
    help: str = ""
    default: object = None
    required: bool = False
    choices: tuple[str, ...] = ()


class LimitsSpec(Spec, frozen=True):
    """Limits of one run; None = the default of the settings."""

    max_steps: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    max_tool_calls: int | None = None


class ModelSpec(Spec, frozen=True):
    """Which model an agent asks: exactly one of category, profile, inline."""

    category: str | None = None
    profile: str | None = None
    inline: dict[str, object] | None = None
    overrides: dict[str, object] = {}


class ShotSpec(Spec, frozen=True):
    """An earlier exchange put before the user turn."""

    user: str
    assistant: str
    reasoning: str = ""
    tool_calls: tuple[dict[str, object], ...] = ()
    tool_results: tuple[str, ...] = ()


class HandlerSpec(Spec, frozen=True):
    """How the answer becomes context keys: `text`, `accumulate`, `json`, `csv`, `tools`, or a plug-in's name."""

    type: str = "text"
    key: str | None = None
    prefix: str | None = None
    schema: dict[str, object] | None = None
    headings: tuple[str, ...] = ()
    separator: str | None = None
    then: "HandlerSpec | None" = None


class OperationSpec(Spec, frozen=True):
    """One context operation of `before` or `after`: exactly one of set (with to), delete, skip, call."""

    set: str | None = None
    to: str | None = None
    delete: str | None = None
    skip: Literal["SKIP", "SETUP_CONVERSATION_ONLY"] | None = None
    call: str | None = None
    when: str | None = None


class MergeSpec(Spec, frozen=True):
    """How the contexts of a step become fewer: `concat`, `first`, `vote`, `join`, `best`, or a plug-in's name."""

    type: str
    key: str | None = None
    keys: tuple[str, ...] = ()
    template: str | None = None
    separator: str | None = None
    header: str | None = None
    sort_by: str | None = None
    by: str | None = None


class RouteSpec(Spec, frozen=True):
    """Where a context goes next. Routes are tried in order; the first whose `when` holds (or has none) is taken."""

    when: str | None = None
    to: str | None = None
    """Agent name; None ends the flow."""
    graded: bool | None = None


class AgentSpec(Spec, frozen=True):
    """One agent. `type` is missing for graders, patterns and sub-flows."""

    name: str
    type: AgentType | None = None
    grader: str | None = None
    pattern: str | None = None
    flow: str | None = None
    state: Literal["bypass", "mute"] | None = None
    notes: str = ""
    """For people; it never changes what a run does."""
    model: ModelSpec | None = None
    """None = category M."""
    with_: dict[str, object] = msgspec.field(default_factory=dict, name="with")
    system_prompt: str = ""
    few_shot: tuple[ShotSpec, ...] = ()
    before: tuple[OperationSpec, ...] = ()
    syntax: Literal["jinja"] | None = None
    template: str = ""
    images: tuple[str, ...] = ()
    response_format: Literal["json_schema"] | None = None
    stop: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    max_tool_call_rounds: int | None = None
    handler: HandlerSpec | None = None
    """None = text with key `response`."""
    after: tuple[OperationSpec, ...] = ()
    merge: MergeSpec | None = None
    gather: bool = False
    retry_on_parsing_error: int = 0
    stream: bool = True
    skip_cache: bool = False
    timeout: float | None = None
    """Seconds for one request."""
    outputs: dict[str, str] = {}
    routes: tuple[RouteSpec, ...] = ()


class EditorSpec(Spec, frozen=True):
    """What only the designer needs; it never changes what a run does."""

    frames: tuple[dict[str, object], ...] = ()
    breakpoints: tuple[str, ...] = ()
    positions: dict[str, tuple[float, float]] = {}


class FlowSpec(Spec, frozen=True, kw_only=True):
    """A whole file."""

    schema_: str | None = msgspec.field(default=None, name="$schema")
    """Where an editor finds the JSON Schema of the format; kept, without effect."""
    name: str
    description: str = ""
    notes: str = ""
    """For people; they never change what a run does."""
    inputs: tuple[InputSpec, ...] = ()
    outputs: tuple[str, ...] = ()
    limits: LimitsSpec | None = None
    start: str = ""
    agents: tuple[AgentSpec, ...] = ()
    editor: EditorSpec = EditorSpec()

    def agent(self, name: str) -> AgentSpec | None:
        """The agent of this name."""
        return next((agent for agent in self.agents if agent.name == name), None)
