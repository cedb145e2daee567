"""What a walk has reached, recorded so that it can go on from there: each arrival, finished split, merge and end.

A checkpoint holds references to values nobody changes, so making one costs the walk about as much as an event; what it
takes to store them is the business of the history's thread (context_rows.py).
"""

from collections.abc import Container, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from engine.completion import Completion
from engine.conversation import Conversation
from engine.events import ErrorInfo, Grade

Position = tuple[int, ...]
"""Where a context stands among all branches, in the order of the results."""


TraceEntry = list[object]
"""Kind and text, and when other traces are folded into it, the list of those: lists of entries."""


class TraceLike(Protocol):
    """The trace of a branch, as far as recording it goes."""

    def since(self, known: Container[int]) -> tuple[object | None, list[TraceEntry]]:
        """The last earlier state whose id is known, and the entries added after it, oldest first."""
        ...


class Snapshot(NamedTuple):
    """A context at one moment. The values are shared with the context and never changed."""

    values: Mapping[str, list[object]]
    conversation: Conversation | None
    last: Completion | None
    trace: TraceLike
    branch: str = ""
    split_index: int = 1
    split_count: int = 1
    steps: int = 0
    attempts: int = 0
    answered: bool = False
    skip_next: str = "NO_SKIP"
    skip_cache: bool = False
    streaming: bool = True
    error: ErrorInfo | None = None
    tools: tuple[str, ...] = ()
    """Names of the tools of an earlier agent of the same conversation."""
    grades: Mapping[str, Grade] = MappingProxyType({})
    """The last grade of each grader by its name."""


class Reached(StrEnum):
    """What a checkpoint tells."""

    ARRIVED = "arrived"
    """A context that begins the run stands before its first agent: in `step`, or waiting when that is 0."""
    SPLIT = "split"
    """A step was prepared and has `count` splits."""
    DONE = "done"
    """A split has ended well and waits for the others to be merged."""
    MERGED = "merged"
    """The splits of a step became `contexts`."""
    LEFT = "left"
    """A context leaves a step for `to`: as step `to_step`, or waiting there when that is 0; None: the flow ends."""
    FAILED = "failed"
    """A branch ended with an error, at `stage`."""
    GATHERED = "gathered"
    """The waiting contexts `takes` became `contexts`, which begin the steps from `step` on."""


class Stage(StrEnum):
    """Where in a step a branch failed: what has to be done again for it."""

    PREPARE = "prepare"
    SPLIT = "split"
    MERGE = "merge"
    CHOOSE = "choose"
    GATHER = "gather"


class Checkpoint(msgspec.Struct, frozen=True):
    """One thing a walk has reached."""

    run_id: str
    reached: Reached
    step: int
    agent: str
    contexts: tuple[Snapshot, ...] = ()
    positions: tuple[Position, ...] = ()
    """Of the contexts."""
    index: int = 0
    """Number of the split, or of the context after a merge, within its step, from 0."""
    sources: tuple[int, ...] = ()
    """For each context the step it came from; 0 for the start."""
    to: str | None = None
    to_step: int = 0
    count: int = 1
    skip: str = "NO_SKIP"
    stage: Stage = Stage.SPLIT
    takes: tuple[tuple[int, int], ...] = ()
    """Waiting contexts by (step, index) they left."""
