"""Everything a run can tell. Events are plain snapshots: they can be shown, written as JSON, stored and replayed."""

from decimal import Decimal
from enum import StrEnum

import msgspec

from engine.completion import FinishReason, Phase, ReasoningAudit
from engine.content import KeptPart
from engine.conversation import ToolCall
from engine.errors import Attempted, CircuitOpen, ConnectFailed, LocalModelError
from engine.formed_request import FormedRequest
from engine.statistics import CompletionStatistics, CostProvenance, RequestStatistic


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as plain data."""

    type: str
    """`GENERAL` or `PARSING` (docs/running-flows.md)."""
    name: str
    """Class name, `ConnectFailed` for instance."""
    message: str
    hint: str = ""
    facts: dict[str, str] = {}
    partial: str = ""


class Statistics(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts (without overlap), money and time, of one call or of a whole run."""

    requests: int = 0
    cached_prompts: int = 0
    in_tokens: int = 0
    cached_in_tokens: int = 0
    out_tokens: int = 0
    reasoning_out_tokens: int = 0
    cost: Decimal = Decimal(0)
    provenance: CostProvenance = CostProvenance.FREE
    estimated: bool = False
    seconds: float = 0.0
    """Of one call: its wall time. Of a run: the sum over its requests."""
    effective_seconds: float = 0.0
    """Of a run: its wall time."""
    first_token: float | None = None

    @classmethod
    def of_call(cls, done: CompletionStatistics) -> "Statistics":
        """What one call used."""
        return cls(
            requests=done.requests,
            cached_prompts=int(done.cached),
            in_tokens=done.in_tokens,
            cached_in_tokens=done.cached_in_tokens,
            out_tokens=done.out_tokens,
            reasoning_out_tokens=done.reasoning_out_tokens,
            cost=done.cost,
            provenance=done.provenance,
            estimated=done.estimated,
            seconds=done.duration,
            first_token=done.first_token,
        )

    @classmethod
    def of_run(cls, total: RequestStatistic) -> "Statistics":
        """What a run, or one agent of it, used."""
        return cls(
            requests=total.requests,
            cached_prompts=total.cached_prompts,
            in_tokens=total.in_tokens,
            cached_in_tokens=total.cached_in_tokens,
            out_tokens=total.out_tokens,
            reasoning_out_tokens=total.reasoning_out_tokens,
            cost=total.cost,
            provenance=total.cost_provenance,
            estimated=CostProvenance.ESTIMATED in total.provenances,
            seconds=total.request_seconds,
            effective_seconds=total.effective_seconds,
        )


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of every event. (step, branch) names one branch of one agent execution; attempts happen inside it."""

    time: float
    """Seconds since the epoch."""
    run_id: str
    agent: str = ""
    step: int = 0
    """Number of the agent execution within the run, from 1; all splits of one execution share it."""
    branch: str = ""
    """Path of splits so far, `2/5` or `2/5.1/3`; empty before the first split."""


REPLAY = "replay"
"""The origin of a run for which nobody was asked: it played a wire tape."""


class RunStarted(Event, frozen=True, tag="run_started"):
    """A run begins."""

    flow: str
    profiles: dict[str, str] = {}
    """Agent name → name of the profile that will answer, as far as it is known."""
    prompts: dict[str, str] = {}
    """Prompt of the library → language and version of the text this run uses where it needs it."""
    origin: str = ""
    """How it came from a recorded run: `resume`, `from`, `repeat` or `replay`; empty: it did not."""
    parent: str = ""
    """That run."""
    kept: int = 0
    """How many of the events that follow are those of the recorded run: what it had finished."""
    edited: bool = False
    """Whether a recorded context was edited before it was used."""
    before: Statistics | None = None
    """What the runs it goes on from used; not part of its own figures."""


class AgentStarted(Event, frozen=True, tag="agent_started"):
    """An agent execution begins; `splits` follow in SplitStarted."""

    category: str = ""
    """As the trace shows it; empty for an agent that asks no model."""
    splits: int = 1
    from_step: int = 0
    """The execution whose route led here; 0 for the start."""
    within: int = 0
    """The execution this one happens inside of, that of a flow run as one node; `agent` is then `Node/Agent`."""


class SplitStarted(Event, frozen=True, tag="split_started"):
    """One branch of an execution begins; only sent when there are at least two."""

    index: int
    count: int
    label: str = ""
    """The value this branch got, shortened to 80 characters."""


class PromptReady(Event, frozen=True, tag="prompt_ready"):
    """What one attempt will send."""

    attempt: int
    profile: str
    turns: tuple[tuple[str, str], ...]
    """Role and text of each turn."""
    parameters: dict[str, object] = {}
    raw: str = ""
    """The raw prompt, when the profile speaks text completions."""
    raw_format: str = ""
    """The prompt format it is written in."""


class RequestFormed(Event, frozen=True, tag="request_formed"):
    """The request of an attempt goes out, or would if the cache had no answer; again when a part of it had to change.

    What PromptReady tells is what was asked for; this is what is on the wire.
    """

    attempt: int
    request: FormedRequest


class PhaseChanged(Event, frozen=True, tag="phase_changed"):
    """A call enters a phase."""

    phase: Phase
    attempt: int = 1


class ChunkReceived(Event, frozen=True, tag="chunk_received"):
    """Text arrived."""

    content: str = ""
    reasoning: str = ""
    attempt: int = 1


class CacheHit(Event, frozen=True, tag="cache_hit"):
    """The answer came from the cache, or from a recorded run."""

    frozen_from: str = ""
    """The run whose answer a frozen agent gives; empty: it is not frozen."""
    stale: tuple[str, ...] = ()
    """What has changed since it was frozen: `prompt`, `inputs`, `profile`, `engine`."""


class Retrying(Event, frozen=True, tag="retrying"):
    """A request failed before its first text and will be repeated."""

    attempt: int
    attempts: int
    delay: float
    reason: str
    profile: str = ""
    """The profile that is asked instead; empty: the same one."""


class PromptShortened(Event, frozen=True, tag="prompt_shortened"):
    """The prompt goes out without some of its turns: it had too many tokens. Places are those in PromptReady."""

    attempt: int = 1
    before: int = 0
    """Tokens of the whole prompt, tools aside."""
    after: int = 0
    """Tokens of what is sent."""
    budget: int = 0
    """Tokens it may have."""
    dropped: tuple[int, ...] = ()
    """Places of the turns that were left out, from 0."""
    shrunk: tuple[int, ...] = ()
    """Places of tool results that were replaced by a note."""
    message: str = ""
    """The same for people."""


class ToolCalled(Event, frozen=True, tag="tool_called"):
    """A tool ran."""

    name: str
    arguments: str
    output: str
    failed: bool = False
    call_id: str = ""
    seconds: float = 0.0


class CompletionFinished(Event, frozen=True, tag="completion_finished"):
    """One attempt was answered."""

    attempt: int
    profile: str
    model: str
    content: str
    reasoning: str
    finish_reason: FinishReason
    statistics: Statistics
    no_answer: bool = False
    finish_raw: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    kept: tuple[KeptPart, ...] = ()
    """What goes back to the provider unchanged, for a run that is resumed."""
    origin: str = ""
    attempts: tuple[Attempted, ...] = ()
    """Every attempt it took, in order, also those of profiles that were asked before."""
    provider: str = ""
    """The dialect of the profile."""
    skipped_chunks: int = 0
    """Malformed events of the stream that were passed over."""
    error: str = ""
    """What cut the answer off: a class of failure (docs/recovery.md), `cancelled`, the name of an error of our own."""
    memory: int = 0
    """Bytes of main memory the process had in use then; 0: unknown."""
    audit: ReasoningAudit | None = None
    """What its thinking did to the answer; None: nothing is wrong with it."""
    from_thinking: bool = False
    """A person took the thinking of the recorded run as the answer."""


class RequestFailed(Event, frozen=True, tag="request_failed"):
    """One attempt came to nothing: no text, no call. The branch fails, or says why not."""

    attempt: int
    profile: str
    model: str
    error: str
    """As in CompletionFinished."""
    statistics: Statistics
    """What answers cost that were empty."""
    attempts: tuple[Attempted, ...] = ()
    provider: str = ""
    memory: int = 0


class StopProof(StrEnum):
    """Whether a server stopped when its call was cut by a stop of the run."""

    STOPPED = "stopped"
    """No slot of the server works any more."""
    WORKING = "still working"
    """A slot still works, on this call or on another one."""
    CLOSED = "connection closed"
    """The connection is closed; the server cannot tell what it does."""
    SILENT = "no answer"
    """The connection is closed; the server was asked and did not answer."""


class StopProved(Event, frozen=True, tag="stop_proved"):
    """What is known of the server of a call that a stop of the run cut off."""

    attempt: int
    profile: str
    proof: StopProof
    busy: int = 0
    """Slots that work."""
    slots: int = 0
    """Slots the server has; 0: it did not say."""
    seconds: float = 0.0
    """How long it was asked."""


class HandlerFailed(Event, frozen=True, tag="handler_failed"):
    """The handler could not use the answer of an attempt."""

    attempt: int
    reason: str


class GradeOutcome(StrEnum):
    """What became of a grade. Without a verdict there is no rating either: it never counts as 0."""

    PASSED = "passed"
    FAILED = "failed"
    UNPARSABLE = "unparsable"
    """The grader answered, but gave no verdict that can be read."""
    UNANSWERED = "unanswered"
    """The grader did not answer."""


class Grade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a grader made of an answer."""

    outcome: GradeOutcome
    rating: float | None = None
    """0 to 100; None when the grader gives none, or gave none this time."""
    explanation: str = ""
    iteration: int = 0
    """Which attempt of the loop was judged, from 1."""
    sent_back: bool = False
    """Whether the answer goes back to be mended."""


class Graded(Event, frozen=True, tag="graded"):
    """A route carried a verdict, or a grader gave none."""

    passed: bool
    outcome: GradeOutcome | None = None
    """None in records of older versions."""
    rating: float | None = None
    """0 to 100, of graders that rate."""
    explanation: str = ""
    iteration: int = 0
    """Which attempt of a loop was judged, from 1; 0 when no grader did."""


class Merged(Event, frozen=True, tag="merged"):
    """Branches became fewer contexts."""

    inputs: int
    outputs: int


class AgentFinished(Event, frozen=True, tag="agent_finished"):
    """One context leaves an agent execution without error (after its merge)."""

    to: str | None = None
    """The agent it goes to, None when the flow ends here."""
    values: dict[str, list[object]] = {}
    """The context's keys after this step."""


class BranchFailed(Event, frozen=True, tag="branch_failed"):
    """A branch ended with an error; the others go on."""

    error: ErrorInfo


class PlanChanged(Event, frozen=True, tag="plan_changed"):
    """An agent changed its plan."""

    steps: list[dict[str, object]]


class FileProduced(Event, frozen=True, tag="file_produced"):
    """An agent made a file."""

    path: str


class Warned(Event, frozen=True, tag="warned"):
    """Something a person should know; the run goes on."""

    message: str


class Paused(Event, frozen=True, tag="paused"):
    """A branch waits at a breakpoint."""


class RunResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One final context of a run."""

    trace: str
    """The symbol trace without durations."""
    trace_timed: str
    context: dict[str, list[object]]
    error: ErrorInfo | None = None
    error_agent: str = ""
    """`Node/Agent` for one inside a flow that ran as one node."""
    trace_unfolded: str = ""
    """The trace with those of flows run as one node, in braces behind its name; empty without any."""


class RunFinished(Event, frozen=True, tag="run_finished"):
    """A run is over."""

    status: str
    """finished, failed, stopped or budget."""
    results: tuple[RunResult, ...] = ()
    outputs: dict[str, list[object]] = {}
    statistics: Statistics = Statistics()
    agents: dict[str, Statistics] = {}
    """Totals by agent name."""
    reason: str = ""
    """Why it stopped, when a limit ended it."""
    before: Statistics | None = None
    """What the runs it goes on from used; the other figures are what is new."""


AnyEvent = (
    RunStarted
    | AgentStarted
    | SplitStarted
    | PromptReady
    | RequestFormed
    | PhaseChanged
    | ChunkReceived
    | CacheHit
    | Retrying
    | PromptShortened
    | ToolCalled
    | CompletionFinished
    | RequestFailed
    | StopProved
    | HandlerFailed
    | Graded
    | Merged
    | AgentFinished
    | BranchFailed
    | PlanChanged
    | FileProduced
    | Warned
    | Paused
    | RunFinished
)
"""Every event, for `match` statements that end in `assert_never`."""


def reached_no_server(event: RunFinished) -> bool:
    """Whether a run failed because there was nobody to ask: nothing was answered, and that is all that is wrong."""
    names = {result.error.name if result.error else "" for result in event.results}
    unreached = {ConnectFailed.__name__, LocalModelError.__name__, CircuitOpen.__name__}
    return event.status == "failed" and bool(names) and names <= unreached


def day_limit(event: RunFinished) -> str:
    """The limit of the day that ended a run; empty when none did."""
    for result in event.results:
        if result.error is not None and result.error.facts.get("limit", "").startswith("day_"):
            return result.error.message
    return ""


_encoder = msgspec.json.Encoder(enc_hook=str)


def event_json(event: Event) -> bytes:
    """One line of JSON without a line feed; decimals, and context values JSON does not know, as text."""
    return _encoder.encode(event)


def read_event(data: bytes | str) -> AnyEvent:
    """The event from its JSON; raises msgspec.ValidationError with the path of what is wrong."""
    return msgspec.json.decode(data, type=AnyEvent)
