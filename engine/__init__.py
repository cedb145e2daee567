"""Flow engine: profiles, completions, agents and flows, on plain asyncio and without a window.

import asyncio
from engine import Agent, AgentType, Context, Engine, Flow

greet = Agent("Greet", AgentType.COMPLETION, template="Say hello to {{name}} in five words.")

async def main() -> None:
    async with Engine() as engine, engine.run(Flow(name="Hello", agents=(greet,)), Context({"name": "Ada"})) as run:
        async for event in run:
            print(event)
        print(run.contexts[0].text("response"))

asyncio.run(main())
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.clients.base import Capabilities
    from engine.completion import Chunk, Completer, Completion, FinishReason, Phase, Stream
    from engine.conversation import Conversation, Role, ToolCall, Turn
    from engine.embedded_server import EmbeddedServer, ServerState, ServerStatus
    from engine.engine import Engine, Run
    from engine.errors import (
        EngineError,
        FlowError,
        FlowFileError,
        FlowInvalid,
        HandlerError,
        LocalModelError,
        Problem,
        ProfileError,
        ProfileInvalid,
        ProfileNotFound,
        RequestError,
        StorageError,
    )
    from engine.flow.agent import Agent, Next, merge_contexts
    from engine.flow.context import Context, Skip
    from engine.flow.flow import Flow, Limits
    from engine.flow.flow_build import build_flow
    from engine.flow.flow_check import check_flow
    from engine.flow.flow_file import LoadedFlow, flow_text, load_flow, read_flow, save_flow
    from engine.flow.flow_inputs import inputs_context
    from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec
    from engine.flow.handlers import AccumulateHandler, Handler, JsonHandler, TextHandler
    from engine.folders import Folders, data_folders
    from engine.profile import Category, ModelProfile, Overrides, ProfileRef, Provider
    from engine.profile_store import ProfileEntry, ProfileStore
    from engine.run_history import RecordedRun, RunHistory, RunRow
    from engine.statistics import CompletionStatistics, CostProvenance, RequestStatistic
    from engine.tokenizers import TokenCount

__all__ = [
    "AccumulateHandler",
    "Agent",
    "AgentSpec",
    "AgentType",
    "Capabilities",
    "Category",
    "Chunk",
    "Completer",
    "Completion",
    "CompletionStatistics",
    "Context",
    "Conversation",
    "CostProvenance",
    "EmbeddedServer",
    "Engine",
    "EngineError",
    "FinishReason",
    "Flow",
    "FlowError",
    "FlowFileError",
    "FlowInvalid",
    "FlowSpec",
    "Folders",
    "Handler",
    "HandlerError",
    "JsonHandler",
    "Limits",
    "LoadedFlow",
    "LocalModelError",
    "ModelProfile",
    "Next",
    "Overrides",
    "Phase",
    "Problem",
    "ProfileEntry",
    "ProfileError",
    "ProfileInvalid",
    "ProfileNotFound",
    "ProfileRef",
    "ProfileStore",
    "Provider",
    "RecordedRun",
    "RequestError",
    "RequestStatistic",
    "Role",
    "Run",
    "RunHistory",
    "RunRow",
    "ServerState",
    "ServerStatus",
    "Skip",
    "StorageError",
    "Stream",
    "TextHandler",
    "TokenCount",
    "ToolCall",
    "Turn",
    "build_flow",
    "check_flow",
    "data_folders",
    "flow_text",
    "inputs_context",
    "load_flow",
    "merge_contexts",
    "read_flow",
    "save_flow",
]

_MODULES = {
    "engine.clients.base": ("Capabilities",),
    "engine.completion": ("Chunk", "Completer", "Completion", "FinishReason", "Phase", "Stream"),
    "engine.conversation": ("Conversation", "Role", "ToolCall", "Turn"),
    "engine.embedded_server": ("EmbeddedServer", "ServerState", "ServerStatus"),
    "engine.engine": ("Engine", "Run"),
    "engine.errors": (
        "EngineError",
        "FlowError",
        "FlowFileError",
        "FlowInvalid",
        "HandlerError",
        "LocalModelError",
        "Problem",
        "ProfileError",
        "ProfileInvalid",
        "ProfileNotFound",
        "RequestError",
        "StorageError",
    ),
    "engine.flow.agent": ("Agent", "Next", "merge_contexts"),
    "engine.flow.context": ("Context", "Skip"),
    "engine.flow.flow": ("Flow", "Limits"),
    "engine.flow.flow_build": ("build_flow",),
    "engine.flow.flow_check": ("check_flow",),
    "engine.flow.flow_file": ("LoadedFlow", "flow_text", "load_flow", "read_flow", "save_flow"),
    "engine.flow.flow_inputs": ("inputs_context",),
    "engine.flow.flow_spec": ("AgentSpec", "AgentType", "FlowSpec"),
    "engine.flow.handlers": ("AccumulateHandler", "Handler", "JsonHandler", "TextHandler"),
    "engine.folders": ("Folders", "data_folders"),
    "engine.profile": ("Category", "ModelProfile", "Overrides", "ProfileRef", "Provider"),
    "engine.profile_store": ("ProfileEntry", "ProfileStore"),
    "engine.run_history": ("RecordedRun", "RunHistory", "RunRow"),
    "engine.statistics": ("CompletionStatistics", "CostProvenance", "RequestStatistic"),
    "engine.tokenizers": ("TokenCount",),
}
"""Names by module. A module is imported when one of its names is first used: `import engine` costs nothing."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
