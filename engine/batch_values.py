"""What a batch does, how far it is, and what came of its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import msgspec

from engine.events import Statistics
from engine.flow.tools import AllowTool, refuse
from engine.statistics import weakest

CONCURRENCY = 4
"""Rows at a time, unless told otherwise."""
DISK_PATIENCE = 60.0
"""Seconds a batch waits for a disk that takes no results."""


class BatchJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch does; a batch that goes on must do the same."""

    flow: str
    """Name."""
    flow_text: str
    """The flow as a file."""
    flow_file: str = ""
    """Absolute path of that file; empty for a sample or a flow without one."""
    dataset: str
    """Absolute path."""
    dataset_digest: str
    delimiter: str = ""
    inputs: dict[str, object] = {}
    """The same for all rows."""
    mapping: dict[str, str] = {}
    """Category → profile."""
    profile: str = ""
    """For all agents; empty: each agent its own."""

    def differences(self, other: "BatchJob") -> list[str]:
        """What the other would do differently, one sentence without full stop each."""
        found = _flow_differences(self.flow_text, other.flow_text)
        if self.dataset_digest != other.dataset_digest:
            found.append(f"the dataset has changed: it is not the {self.dataset} that the batch began with")
        if self.delimiter != other.delimiter:
            found.append(f'the delimiter is "{other.delimiter}", it was "{self.delimiter}"')
        if self.profile != other.profile:
            found.append(f'the profile is "{other.profile}", it was "{self.profile}"')
        for kind, old, new in (("input", self.inputs, other.inputs), ("mapping", self.mapping, other.mapping)):
            keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
            found += [f'the {kind} of "{key}" has changed' for key in keys]
        return found


class RowError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a row failed."""

    type: str
    """`PARSING`, `GENERAL`, or `INPUT` for a faulty row."""
    message: str
    agent: str = ""
    name: str = ""
    """Class name."""


class RowResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one row."""

    row: int
    """From 1."""
    line: int
    status: str
    """finished, failed, budget (a limit of its run), invalid (the row is faulty), acting (begun, and tools acted)."""
    digest: str
    run_id: str = ""
    values: dict[str, object] = {}
    """The row by column."""
    outputs: dict[str, list[object]] = {}
    error: RowError | None = None
    statistics: Statistics = Statistics()
    effects: tuple[str, ...] = ()
    """Tools with side effects that ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A recorded batch."""

    id: str
    started: datetime
    """Aware, UTC."""
    status: str
    """running, finished, failed, stopped, budget, or crashed: its process died."""
    reason: str
    rows: int
    job: BatchJob
    done: Mapping[str, int]
    """Committed rows by status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How a batch is run this time; none of it changes what its rows are asked."""

    concurrency: int = CONCURRENCY
    """Rows at a time."""
    max_rows: int | None = None
    """Rows to run before it rests."""
    max_cost: Decimal | None = None
    """No row begins once the batch has cost this, earlier parts included; units of the profiles' prices."""
    retry_failed: bool = False
    """Run rows again that failed or met a limit of their run."""
    repeat_effects: bool = False
    """Run rows again whose tools have written, sent or paid for something; otherwise they are left."""
    use_cache: bool = True
    """Take answers from the cache, and keep them there."""
    allow_tool: AllowTool = refuse
    """Asked before a tool with side effects runs."""
    disk_patience: float = DISK_PATIENCE
    """Seconds to wait for a disk that takes no results; then the batch fails, and can go on later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """How far a batch is."""

    batch_id: str
    total: int
    """Rows of the dataset."""
    finished: int
    failed: int
    """Failed, or ended by a limit of their run."""
    invalid: int
    """Faulty rows, which are not run."""
    left: int
    """Rows still to run."""
    acted: int
    """Of those, rows that are not repeated because their tools have acted."""
    running: int
    seconds: float
    """Since this part of the batch began."""
    rate: float
    """Rows a second, in this part."""
    seconds_left: float | None
    """As far as can be told; None before the first row."""
    statistics: Statistics
    """Of all rows, earlier parts included."""
    fault: str = ""
    """Why results cannot be saved at the moment."""
    status: str = "running"
    """running; then finished, failed, stopped or budget."""
    reason: str = ""


def sum_of(one: Statistics, other: Statistics) -> Statistics:
    """The sum of what two runs used."""
    provenances = [used.provenance for used in (one, other) if used.requests]
    return msgspec.structs.replace(
        one,
        requests=one.requests + other.requests,
        cached_prompts=one.cached_prompts + other.cached_prompts,
        in_tokens=one.in_tokens + other.in_tokens,
        cached_in_tokens=one.cached_in_tokens + other.cached_in_tokens,
        out_tokens=one.out_tokens + other.out_tokens,
        reasoning_out_tokens=one.reasoning_out_tokens + other.reasoning_out_tokens,
        cost=one.cost + other.cost,
        provenance=weakest(provenances),
        estimated=one.estimated or other.estimated,
        seconds=one.seconds + other.seconds,
        effective_seconds=one.effective_seconds + other.effective_seconds,
    )


def _flow_differences(old_text: str, new_text: str) -> list[str]:
    """What is different in two flow files; where cards stand is not."""
    old, new = (msgspec.json.decode(text, type=dict[str, object]) for text in (old_text, new_text))
    keys = sorted({*old, *new} - {"agents", "editor"})
    found = [f'"{key}" of the flow has changed' for key in keys if old.get(key) != new.get(key)]
    agents = [{str(agent["name"]): agent for agent in _agents(flow)} for flow in (old, new)]
    for name in dict.fromkeys([*agents[0], *agents[1]]):
        if agents[0].get(name) != agents[1].get(name):
            what = "is new" if name not in agents[0] else "is gone" if name not in agents[1] else "has changed"
            found.append(f'the agent "{name}" of the flow {what}')
    return found


def _agents(flow: Mapping[str, object]) -> list[dict[str, object]]:
    return msgspec.convert(flow.get("agents", []), type=list[dict[str, object]])
