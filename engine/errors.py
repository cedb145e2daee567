"""Every error the engine raises: `str(error)` is one sentence a person understands, `hint` says what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from engine.redaction import SECRETS


class EngineError(Exception):
    """Base of all errors of the engine."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        facts: Mapping[str, str] | None = None,
        problems: Sequence["Problem"] = (),
    ) -> None:
        message = SECRETS.hide(message)
        super().__init__(message)
        self.message = message
        self.hint = SECRETS.hide(hint)
        """What the person can do about it; may be empty."""
        self.facts: dict[str, str] = {key: SECRETS.hide(value) for key, value in (facts or {}).items()}
        """Details for the fold: address, status, excerpt. Never a key."""
        self.problems = tuple(problems)
        """All that is wrong with a file, each with its place; empty where the message says it all."""

    def __str__(self) -> str:
        return self.message


class ProfileError(EngineError):
    """Something about a profile; `facts` names file, key and value."""


class ProfileNotFound(ProfileError):
    """No profile of that name, or no mapping for that category."""


class ProfileInvalid(ProfileError):
    """A profile file with faults; `problems` lists all of them."""


class FlowError(EngineError):
    """Something about a flow; `facts` names agent or link."""


class FlowInvalid(FlowError):
    """A flow that cannot run; `problems` lists why, each with its place."""

    @classmethod
    def of(cls, problems: Sequence["Problem"]) -> "FlowInvalid":
        """The error for these problems; its message is that of the first one that is an error."""
        errors = [problem for problem in problems if problem.severity == "error"]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return cls(f"{errors[0].message}{more}", problems=problems)


class FlowFileError(FlowError):
    """A flow file that cannot be read or written; the message holds file and line or JSON path.

    `problems` lists all values of a wrong shape.
    """


class NotTrusted(FlowError):
    """A flow from elsewhere needs trust before it runs; `facts["abilities"]` lists what it can do."""


class DatasetInvalid(EngineError):
    """A dataset that no batch can run over; the message names file and line, `problems` lists all faults of columns."""


class BatchError(EngineError):
    """A batch that cannot begin or go on: unknown, running elsewhere, or of another flow or dataset."""


class ComparisonError(EngineError):
    """A comparison that cannot begin or go on: unknown, running elsewhere, or without anything to compare."""


class TemplateError(FlowError):
    """A template or expression that raised; `facts` holds it and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One attempt of a request."""

    profile: str
    host: str
    outcome: str
    """`done`, or the class of its failure (docs/recovery.md)."""
    status: int = 0
    """Of the answer; 0 when there was none."""
    seconds: float = 0.0
    waited: float = 0.0
    """Seconds before it: for a cool-down, or before a repeat."""
    sent: int = 0
    """Bytes of the body of the request."""
    received: int = 0
    """Bytes of the body of the answer."""

    def __str__(self) -> str:
        status = f" {self.status}" if self.status else ""
        return f"{self.profile} at {self.host}: {self.outcome}{status}, {self.seconds:.1f} s"


class RequestDetails(TypedDict, total=False):
    """What every RequestError may be given beside its sentence."""

    hint: str
    facts: Mapping[str, str] | None
    partial: str
    partial_reasoning: str


class RequestError(EngineError):
    """A request to a model server failed; `facts` holds profile and url, never a key."""

    retryable: bool = False
    """Whether the same request may succeed later (class transient, throttled or loading)."""

    def __init__(self, message: str, **details: Unpack[RequestDetails]) -> None:
        super().__init__(message, hint=details.get("hint", ""), facts=details.get("facts"))
        self.partial = details.get("partial", "")
        """The content that had arrived before the failure."""
        self.partial_reasoning = details.get("partial_reasoning", "")
        """The reasoning that had arrived before the failure."""
        self.begun = False
        """Whether anything of the answer had arrived: then nobody but a person asks again."""
        self.attempts: tuple[Attempted, ...] = ()
        """Every attempt, in order."""


class ConnectFailed(RequestError):
    """No connection: refused, unknown host, reset before an answer."""

    retryable = True


class RequestTimeout(RequestError):
    """A time limit passed; `facts["limit"]` says which."""

    retryable = True


class AuthenticationFailed(RequestError):
    """401 or 403."""


class RequestRejected(RequestError):
    """A remaining 4xx: the request is wrong, not the server."""

    def __init__(self, message: str, *, status: int, **details: Unpack[RequestDetails]) -> None:
        super().__init__(message, **details)
        self.status = status
        self.retryable = status in (408, 409, 425)


class RateLimited(RequestError):
    """429: too many requests, or the quota is used up (then `quota` is true and it is not retried)."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        quota: bool = False,
        **details: Unpack[RequestDetails],
    ) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after
        """Seconds the server asked to wait, if it did."""
        self.quota = quota
        self.retryable = not quota


class ContextTooLong(RequestError):
    """The prompt does not fit the context of the model."""


class ContentFiltered(RequestError):
    """The request itself was refused by a content filter."""


class ServerError(RequestError):
    """5xx, or an error object inside a 200 answer; `loading` is true while the server loads its model."""

    retryable = True

    def __init__(
        self, message: str, *, status: int = 0, loading: bool = False, **details: Unpack[RequestDetails]
    ) -> None:
        super().__init__(message, **details)
        self.status = status
        self.loading = loading


class ProtocolError(RequestError):
    """The answer was not what the protocol promises; `facts` says what was expected and shows an excerpt."""

    retryable = True


class AnswerIncomplete(RequestError):
    """The answer ended before its end was announced; `partial` holds the text so far."""

    retryable = True


class NotOnTape(RequestError):
    """The wire tape that is played has no answer to this request; `facts["differs"]` says where it differs."""


class HandlerError(EngineError):
    """A handler could not use the completion; the error type is PARSING."""


class CodeError(EngineError):
    """Code in a process of its own raised, or was ended; `facts` shows what it printed."""

    def __init__(self, message: str, *, kind: str = "", hint: str = "", facts: Mapping[str, str] | None = None) -> None:
        super().__init__(message, hint=hint, facts=facts)
        self.kind = kind
        """`raised`, `import`, `again`, `no data`, `timeout`, `memory`, `processes`, `output`, `size` or `ended`."""


class PluginError(EngineError):
    """A plug-in cannot be loaded, raised, or took too long; `facts` names plug-in, file and function."""

    again = ""
    """What a handler said is wrong with an answer, so that the model is asked again."""


class ToolError(EngineError):
    """A tool call failed or was malformed."""


class BudgetExceeded(EngineError):
    """A limit of the run was reached; `facts` names limit and amount spent."""


class CircuitOpen(RequestError):
    """The endpoint failed repeatedly and is not asked until it had time to recover."""


class LocalModelError(EngineError):
    """The embedded server cannot start or has ended: package or file missing, or its own last words."""


class StorageError(EngineError):
    """A file or database could not be read or written; `facts["path"]` names it."""


class DatabaseDamaged(StorageError):
    """The file of a database is none, or not a whole one."""


class RunNotFound(StorageError):
    """No recorded run has this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault of a file under edit, with its place."""

    severity: str
    """`error` stops a run, `warning` does not."""
    message: str
    """One sentence: what is wrong, what was found, what was expected."""
    file: str = ""
    path: str = ""
    """JSON path in a flow (`$.agents[1].routes[0].to`), key in a profile."""
    line: int = 0
    """1-based line, 0 when unknown."""
    column: int = 0
    """1-based, 0 when unknown."""
    agent: str = ""
    """Agent concerned, for marks on the canvas."""

    def __str__(self) -> str:
        path = "" if self.message.startswith(f"{self.path}:") else self.path
        place = ":".join(str(part) for part in (self.file, self.line or "", self.column or "", path) if part)
        return f"{place}: {self.severity}: {self.message}" if place else f"{self.severity}: {self.message}"


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One error of a group, which is enough to tell when all workers meet the same."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
