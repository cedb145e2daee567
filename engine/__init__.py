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
    from engine.alarms import AlarmLimits
    from engine.batch import Batch
    from engine.batch_output import write_results
    from engine.batch_store import BatchStore
    from engine.batch_values import BatchJob, BatchOptions, BatchProgress, BatchRecord, RowResult
    from engine.cache import CachedAnswer, CacheEntry, CacheInfo, CompletionCache, MemoryCache
    from engine.clients.base import Capabilities
    from engine.clients.tape_file import RecordedTape
    from engine.clients.tape_replay import ReplayTransport
    from engine.clients.wire_tape import WireTape
    from engine.comparison import Comparison
    from engine.comparison_export import ComparisonExport
    from engine.comparison_rows import dataset_rows, prompt_flow, typed_rows
    from engine.comparison_store import ComparisonStore
    from engine.comparison_summary import ComparisonSummary, ProfileFigures
    from engine.comparison_values import (
        Cell,
        CellGrade,
        CellResult,
        CellStatus,
        CompareJob,
        CompareOptions,
        CompareProgress,
        CompareRow,
        ComparisonRecord,
        GraderColumn,
        Mark,
    )
    from engine.completion import Chunk, Completer, Completion, FinishReason, Phase, Stream
    from engine.content import CallExtraPart, OutputItemPart, RedactedThinkingPart, ThinkingPart
    from engine.conversation import (
        Conversation,
        ImagePart,
        Role,
        ToolCall,
        ToolChoice,
        ToolDefinition,
        ToolResult,
        ToolUse,
        Turn,
    )
    from engine.dataset import Dataset, check_dataset
    from engine.embedded_server import EmbeddedServer, ServerState, ServerStatus
    from engine.engine import Engine
    from engine.engine_settings import EngineSettings
    from engine.errors import (
        BatchError,
        BudgetExceeded,
        CircuitOpen,
        ComparisonError,
        DatasetInvalid,
        EngineError,
        FlowError,
        FlowFileError,
        FlowInvalid,
        HandlerError,
        LocalModelError,
        NotOnTape,
        NotTrusted,
        PluginError,
        Problem,
        ProfileError,
        ProfileInvalid,
        ProfileNotFound,
        RequestError,
        StorageError,
    )
    from engine.events import Grade
    from engine.flow.agent import Agent, Next, merge_contexts
    from engine.flow.breakpoints import Breakpoints
    from engine.flow.context import Context, Skip
    from engine.flow.csv_handlers import CsvHandler, CsvRowsHandler
    from engine.flow.expressions import evaluate, holds, render
    from engine.flow.flow import Flow, Limits
    from engine.flow.flow_build import build_flow, merge_of
    from engine.flow.flow_check import check_flow
    from engine.flow.flow_file import LoadedFlow, flow_text, load_flow, read_flow, save_flow
    from engine.flow.flow_inputs import inputs_context
    from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, InputSpec, MergeSpec
    from engine.flow.frozen import Frozen, freeze, stale_reasons
    from engine.flow.graders import AnswerGrader, AnswerGrader2, AnswerGraderBinary
    from engine.flow.handlers import AccumulateHandler, Handler, JsonHandler, TextHandler, ToolCallingHandler
    from engine.flow.subflow import SubflowAgent
    from engine.flow.tools import Tool, allow_named, outside_text
    from engine.flow.voting import Grader, Grader2
    from engine.folders import Folders, data_folders
    from engine.guards import Budget, CircuitBreaker, RateLimit, Spending
    from engine.interceptors import Call, Guard, Interceptor, LoggingInterceptor, SensitiveFilter
    from engine.offline_test import write_offline_test
    from engine.plugins import Plugins
    from engine.profile import Category, ModelProfile, Overrides, ProfileRef, Provider
    from engine.profile_store import ProfileEntry, ProfileStore
    from engine.prompt_library import (
        Prompt,
        PromptChanged,
        PromptEntry,
        PromptError,
        PromptFile,
        PromptLibrary,
        PromptSnapshot,
    )
    from engine.prompt_strategies import PromptStrategy, register_strategy
    from engine.recorded_runs import resume_point, start_point, visits
    from engine.run import Run
    from engine.run_comparison import compare_runs
    from engine.run_export import export_run
    from engine.run_history import HourOfUse, RecordedRun, RunHistory, RunRow
    from engine.sqlite_cache import SqliteCache
    from engine.statistics import CompletionStatistics, CostProvenance, RequestStatistic
    from engine.timers import Timing, listening, timed, timer
    from engine.tokenizers import TokenCount, Tokenizer, register_tokenizer

__all__ = [
    "AccumulateHandler",
    "Agent",
    "AgentSpec",
    "AgentType",
    "AlarmLimits",
    "AnswerGrader",
    "AnswerGrader2",
    "AnswerGraderBinary",
    "Batch",
    "BatchError",
    "BatchJob",
    "BatchOptions",
    "BatchProgress",
    "BatchRecord",
    "BatchStore",
    "Breakpoints",
    "Budget",
    "BudgetExceeded",
    "CacheEntry",
    "CacheInfo",
    "CachedAnswer",
    "Call",
    "CallExtraPart",
    "Capabilities",
    "Category",
    "Cell",
    "CellGrade",
    "CellResult",
    "CellStatus",
    "Chunk",
    "CircuitBreaker",
    "CircuitOpen",
    "CompareJob",
    "CompareOptions",
    "CompareProgress",
    "CompareRow",
    "Comparison",
    "ComparisonError",
    "ComparisonExport",
    "ComparisonRecord",
    "ComparisonStore",
    "ComparisonSummary",
    "Completer",
    "Completion",
    "CompletionCache",
    "CompletionStatistics",
    "Context",
    "Conversation",
    "CostProvenance",
    "CsvHandler",
    "CsvRowsHandler",
    "Dataset",
    "DatasetInvalid",
    "EmbeddedServer",
    "Engine",
    "EngineError",
    "EngineSettings",
    "FinishReason",
    "Flow",
    "FlowError",
    "FlowFileError",
    "FlowInvalid",
    "FlowSpec",
    "Folders",
    "Frozen",
    "Grade",
    "Grader",
    "Grader2",
    "GraderColumn",
    "Guard",
    "Handler",
    "HandlerError",
    "HourOfUse",
    "ImagePart",
    "InputSpec",
    "Interceptor",
    "JsonHandler",
    "Limits",
    "LoadedFlow",
    "LocalModelError",
    "LoggingInterceptor",
    "Mark",
    "MemoryCache",
    "MergeSpec",
    "ModelProfile",
    "Next",
    "NotOnTape",
    "NotTrusted",
    "OutputItemPart",
    "Overrides",
    "Phase",
    "PluginError",
    "Plugins",
    "Problem",
    "ProfileEntry",
    "ProfileError",
    "ProfileFigures",
    "ProfileInvalid",
    "ProfileNotFound",
    "ProfileRef",
    "ProfileStore",
    "Prompt",
    "PromptChanged",
    "PromptEntry",
    "PromptError",
    "PromptFile",
    "PromptLibrary",
    "PromptSnapshot",
    "PromptStrategy",
    "Provider",
    "RateLimit",
    "RecordedRun",
    "RecordedTape",
    "RedactedThinkingPart",
    "ReplayTransport",
    "RequestError",
    "RequestStatistic",
    "Role",
    "RowResult",
    "Run",
    "RunHistory",
    "RunRow",
    "SensitiveFilter",
    "ServerState",
    "ServerStatus",
    "Skip",
    "Spending",
    "SqliteCache",
    "StorageError",
    "Stream",
    "SubflowAgent",
    "TextHandler",
    "ThinkingPart",
    "Timing",
    "TokenCount",
    "Tokenizer",
    "Tool",
    "ToolCall",
    "ToolCallingHandler",
    "ToolChoice",
    "ToolDefinition",
    "ToolResult",
    "ToolUse",
    "Turn",
    "WireTape",
    "allow_named",
    "build_flow",
    "check_dataset",
    "check_flow",
    "compare_runs",
    "data_folders",
    "dataset_rows",
    "evaluate",
    "export_run",
    "flow_text",
    "freeze",
    "holds",
    "inputs_context",
    "listening",
    "load_flow",
    "merge_contexts",
    "merge_of",
    "outside_text",
    "prompt_flow",
    "read_flow",
    "register_strategy",
    "register_tokenizer",
    "render",
    "resume_point",
    "save_flow",
    "stale_reasons",
    "start_point",
    "timed",
    "timer",
    "typed_rows",
    "visits",
    "write_offline_test",
    "write_results",
]

_MODULES = {
    "engine.batch": ("Batch",),
    "engine.batch_output": ("write_results",),
    "engine.batch_store": ("BatchStore",),
    "engine.batch_values": ("BatchJob", "BatchOptions", "BatchProgress", "BatchRecord", "RowResult"),
    "engine.comparison": ("Comparison",),
    "engine.comparison_export": ("ComparisonExport",),
    "engine.comparison_rows": (
        "dataset_rows",
        "prompt_flow",
        "typed_rows",
    ),
    "engine.comparison_store": ("ComparisonStore",),
    "engine.comparison_summary": (
        "ComparisonSummary",
        "ProfileFigures",
    ),
    "engine.comparison_values": (
        "Cell",
        "CellGrade",
        "CellResult",
        "CellStatus",
        "CompareJob",
        "CompareOptions",
        "CompareProgress",
        "CompareRow",
        "ComparisonRecord",
        "GraderColumn",
        "Mark",
    ),
    "engine.dataset": ("Dataset", "check_dataset"),
    "engine.cache": (
        "CachedAnswer",
        "CacheEntry",
        "CacheInfo",
        "CompletionCache",
        "MemoryCache",
    ),
    "engine.clients.base": ("Capabilities",),
    "engine.completion": ("Chunk", "Completer", "Completion", "FinishReason", "Phase", "Stream"),
    "engine.content": ("CallExtraPart", "OutputItemPart", "RedactedThinkingPart", "ThinkingPart"),
    "engine.conversation": (
        "Conversation",
        "ImagePart",
        "Role",
        "ToolCall",
        "ToolChoice",
        "ToolDefinition",
        "ToolResult",
        "ToolUse",
        "Turn",
    ),
    "engine.embedded_server": ("EmbeddedServer", "ServerState", "ServerStatus"),
    "engine.engine": ("Engine",),
    "engine.alarms": ("AlarmLimits",),
    "engine.engine_settings": ("EngineSettings",),
    "engine.errors": (
        "BatchError",
        "ComparisonError",
        "DatasetInvalid",
        "BudgetExceeded",
        "CircuitOpen",
        "EngineError",
        "FlowError",
        "FlowFileError",
        "FlowInvalid",
        "HandlerError",
        "LocalModelError",
        "NotOnTape",
        "NotTrusted",
        "PluginError",
        "Problem",
        "ProfileError",
        "ProfileInvalid",
        "ProfileNotFound",
        "RequestError",
        "StorageError",
    ),
    "engine.flow.agent": ("Agent", "Next", "merge_contexts"),
    "engine.flow.expressions": ("evaluate", "holds", "render"),
    "engine.events": ("Grade",),
    "engine.flow.breakpoints": ("Breakpoints",),
    "engine.flow.context": ("Context", "Skip"),
    "engine.flow.flow": ("Flow", "Limits"),
    "engine.flow.flow_build": ("build_flow", "merge_of"),
    "engine.flow.flow_check": ("check_flow",),
    "engine.flow.flow_file": ("LoadedFlow", "flow_text", "load_flow", "read_flow", "save_flow"),
    "engine.flow.flow_inputs": ("inputs_context",),
    "engine.flow.flow_spec": ("AgentSpec", "AgentType", "FlowSpec", "InputSpec", "MergeSpec"),
    "engine.flow.csv_handlers": ("CsvHandler", "CsvRowsHandler"),
    "engine.flow.graders": ("AnswerGrader", "AnswerGrader2", "AnswerGraderBinary"),
    "engine.flow.tools": ("Tool", "allow_named", "outside_text"),
    "engine.flow.voting": ("Grader", "Grader2"),
    "engine.flow.handlers": ("AccumulateHandler", "Handler", "JsonHandler", "TextHandler", "ToolCallingHandler"),
    "engine.flow.subflow": ("SubflowAgent",),
    "engine.folders": ("Folders", "data_folders"),
    "engine.guards": (
        "Budget",
        "CircuitBreaker",
        "RateLimit",
        "Spending",
    ),
    "engine.interceptors": (
        "Call",
        "Guard",
        "Interceptor",
        "LoggingInterceptor",
        "SensitiveFilter",
    ),
    "engine.offline_test": ("write_offline_test",),
    "engine.plugins": ("Plugins",),
    "engine.profile": ("Category", "ModelProfile", "Overrides", "ProfileRef", "Provider"),
    "engine.profile_store": ("ProfileEntry", "ProfileStore"),
    "engine.prompt_library": (
        "Prompt",
        "PromptChanged",
        "PromptEntry",
        "PromptError",
        "PromptFile",
        "PromptLibrary",
        "PromptSnapshot",
    ),
    "engine.clients.tape_file": ("RecordedTape",),
    "engine.clients.tape_replay": ("ReplayTransport",),
    "engine.clients.wire_tape": ("WireTape",),
    "engine.timers": ("Timing", "listening", "timed", "timer"),
    "engine.run": ("Run",),
    "engine.run_comparison": ("compare_runs",),
    "engine.run_export": ("export_run",),
    "engine.recorded_runs": ("resume_point", "start_point", "visits"),
    "engine.flow.frozen": ("Frozen", "freeze", "stale_reasons"),
    "engine.run_history": ("HourOfUse", "RecordedRun", "RunHistory", "RunRow"),
    "engine.sqlite_cache": ("SqliteCache",),
    "engine.statistics": ("CompletionStatistics", "CostProvenance", "RequestStatistic"),
    "engine.prompt_strategies": ("PromptStrategy", "register_strategy"),
    "engine.tokenizers": ("TokenCount", "Tokenizer", "register_tokenizer"),
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
