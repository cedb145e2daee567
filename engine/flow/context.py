"""The state carried along one branch: keys with lists of values, the conversation, the trace, flags."""

import json
import math
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass, is_dataclass
from enum import StrEnum
from typing import Literal, TypeVar

from engine.checkpoints import Snapshot
from engine.completion import Completion
from engine.conversation import Conversation
from engine.errors import EngineError, FlowError, RequestError
from engine.events import ErrorInfo, Grade
from engine.flow.tools import Offer
from engine.flow.trace import EMPTY, Trace
from engine.redaction import SECRETS
from engine.statistics import RequestStatistic

T = TypeVar("T")


class Skip(StrEnum):
    """What an agent leaves out; a hook sets it on the context for the step it belongs to."""

    NO = "NO_SKIP"
    SETUP_CONVERSATION_ONLY = "SETUP_CONVERSATION_ONLY"
    """The turns are made, nothing is requested."""
    SKIP = "SKIP"
    """Neither turns nor request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchError:
    """Why a branch ended early."""

    kind: Literal["GENERAL", "PARSING"]
    exception: Exception
    """The original; an EngineError says what to do in `hint`."""
    agent: str = ""

    @property
    def info(self) -> ErrorInfo:
        """The same as plain data, for events."""
        exc = self.exception
        if isinstance(exc, EngineError):
            partial = exc.partial if isinstance(exc, RequestError) else ""
            return ErrorInfo(
                type=self.kind,
                name=type(exc).__name__,
                message=str(exc),
                hint=exc.hint,
                facts=exc.facts,
                partial=partial,
            )
        name = type(exc).__name__
        return ErrorInfo(type=self.kind, name=name, message=SECRETS.hide(f"{name}: {exc}" if str(exc) else name))


class Context(MutableMapping[str, list[object]]):
    """Keys with lists of values, and what else belongs to one branch.

    Branches share the lists: a hook that changes one assigns a new list (`context[key] = [*context[key], value]`).
    """

    __slots__ = (
        "_values",
        "always_skip_cache",
        "answered",
        "attempts",
        "branch",
        "conversation",
        "error",
        "grades",
        "last",
        "skip_cache",
        "skip_next",
        "split_count",
        "split_index",
        "statistic",
        "steps",
        "streaming",
        "tools",
        "trace",
    )

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        """Make a context of these keys; lists and tuples are the list of values, anything else is the single value."""
        self._values: dict[str, list[object]] = {
            key: list(value) if isinstance(value, list | tuple) else [value] for key, value in (values or {}).items()
        }
        self.conversation: Conversation | None = None
        self.last: Completion | None = None
        """The answer of the last request."""
        self.trace: Trace = EMPTY
        self.statistic = RequestStatistic()
        """Totals; all branches share the object."""
        self.error: BranchError | None = None
        self.streaming = True
        """Whether chunks become events."""
        self.skip_next: Skip | bool = Skip.NO
        """For the next split or request; True means SKIP."""
        self.skip_cache = False
        """The next request is not answered from the cache."""
        self.always_skip_cache = False
        """No request is."""
        self.branch = ""
        """Path of splits, `2/5` or `2/5.1/3`, as in the events."""
        self.split_index = 1
        """Number of this branch within its last split, from 1."""
        self.split_count = 1
        self.attempts = 0
        """Requests answered so far in the current or last step."""
        self.steps = 0
        """Agent executions on this path."""
        self.answered = False
        """Whether the last step ended with an answer that is not in the conversation yet."""
        self.grades: Mapping[str, Grade] = {}
        """The last grade of each grader by its name. Branches share it: assign a new one."""
        self.tools: Offer | None = None
        """The tools of an earlier agent of the same conversation."""

    def copy(self) -> "Context":
        """Copy for a branch: own keys and trace; value lists, turns and statistic are shared."""
        new = Context.__new__(Context)
        new._values = self._values.copy()
        new.conversation = self.conversation
        new.last = self.last
        new.trace = self.trace
        new.statistic = self.statistic
        new.error = self.error
        new.streaming = self.streaming
        new.skip_next = self.skip_next
        new.skip_cache = self.skip_cache
        new.always_skip_cache = self.always_skip_cache
        new.branch = self.branch
        new.split_index = self.split_index
        new.split_count = self.split_count
        new.attempts = self.attempts
        new.steps = self.steps
        new.answered = self.answered
        new.grades = self.grades
        new.tools = self.tools
        return new

    def snapshot(self, values: Mapping[str, list[object]] | None = None, *, trace: Trace | None = None) -> Snapshot:
        """Its state now; `values` and `trace` instead of its own when a copy is at hand or an earlier one is meant."""
        skip = self.skip_next
        return Snapshot(
            self._values.copy() if values is None else values,
            self.conversation,
            self.last,
            self.trace if trace is None else trace,
            self.branch,
            self.split_index,
            self.split_count,
            self.steps,
            self.attempts,
            self.answered,
            (skip if isinstance(skip, Skip) else Skip.SKIP if skip else Skip.NO).value,
            self.skip_cache,
            self.streaming,
            None if self.error is None else self.error.info,
            () if self.tools is None else self.tools.choice.names,
            self.grades,
        )

    @classmethod
    def of(cls, snapshot: Snapshot, statistic: RequestStatistic | None = None) -> "Context":
        """The context as it was, without its error; `statistic` is shared by the branches of a run."""
        new = cls()
        new._values = dict(snapshot.values)
        new.conversation = snapshot.conversation
        new.last = snapshot.last
        trace = snapshot.trace
        new.trace = trace if isinstance(trace, Trace) else Trace.of(trace.since(())[1])
        new.branch = snapshot.branch
        new.split_index = snapshot.split_index
        new.split_count = snapshot.split_count
        new.steps = snapshot.steps
        new.attempts = snapshot.attempts
        new.answered = snapshot.answered
        new.skip_next = Skip(snapshot.skip_next)
        new.skip_cache = snapshot.skip_cache
        new.streaming = snapshot.streaming
        new.grades = snapshot.grades
        if statistic is not None:
            new.statistic = statistic
        return new

    def text(self, key: str, default: str = "") -> str:
        """The first value as text; `default` when the key is missing or empty."""
        values = self._values.get(key)
        return text_of(values[0]) if values else default

    def texts(self, key: str) -> list[str]:
        """All values as texts; empty when the key is missing."""
        return [text_of(value) for value in self._values.get(key, ())]

    def value(self, key: str, kind: type[T]) -> T | None:
        """The first value, of this type; None when the key is missing or empty. Raises FlowError for another type."""
        values = self.values_of(key, kind)
        return values[0] if values else None

    def values_of(self, key: str, kind: type[T]) -> list[T]:
        """All values, of this type; empty when the key is missing. Raises FlowError for another type."""
        values = self._values.get(key, [])
        for number, value in enumerate(values, 1):
            if not isinstance(value, kind):
                raise FlowError(
                    f"Value {number} of the key {key} is of the type {type(value).__name__}, expected {kind.__name__}.",
                    hint="Values in answers of models are texts: convert them first.",
                    facts={"key": key, "value": text_of(value)[:200]},
                )
        return [value for value in values if isinstance(value, kind)]

    def set(self, key: str, *values: object) -> None:
        """Replace the values of a key."""
        self._values[key] = list(values)

    def remove(self, key: str) -> None:
        """Drop a key if it is there."""
        self._values.pop(key, None)

    def values_copy(self) -> dict[str, list[object]]:
        """A shallow copy of keys and lists."""
        return self._values.copy()

    def __getitem__(self, key: str) -> list[object]:
        return self._values[key]

    def __setitem__(self, key: str, value: list[object]) -> None:
        self._values[key] = value

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __repr__(self) -> str:
        return f"Context({self._values!r}, trace={self.trace.text()!r})"


def text_of(value: object) -> str:
    """A value as it appears in prompts: texts as they are, `true`, `2.5`, nothing for none, JSON for lists and maps."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple | dict) or is_dataclass(value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    return str(value)


def json_form(value: object) -> object:
    """What JSON writes for an object of a dataclass; raises TypeError for anything else it does not know."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _plain(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
