"""Every error the engine raises: `str(error)` is one sentence a person understands, `hint` says what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack


class EngineError(Exception):
    """Base of all errors of the engine."""

    def __init__(self, message: str, *, hint: str = "", facts: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """What the person can do about it; may be empty."""
        self.facts: dict[str, str] = dict(facts or {})
        """Details for the fold: address, status, excerpt. Never a key."""

    def __str__(self) -> str:
        return self.message


class ProfileError(EngineError):
    """Something about a profile; `facts` names file, key and value."""


class ProfileNotFound(ProfileError):
    """No profile of that name, or no mapping for that category."""


class ProfileInvalid(ProfileError):
    """A profile file with faults; `problems` lists all of them."""

    def __init__(self, message: str, *, problems: Sequence["Problem"] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class FlowError(EngineError):
    """Something about a flow; `facts` names agent or link."""


class FlowInvalid(FlowError):
    """A flow that cannot run; `problems` lists why, each with its place."""

    def __init__(self, message: str, *, problems: Sequence["Problem"] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)

    @classmethod
    def of(cls, problems: Sequence["Problem"]) -> "FlowInvalid":
        """The error for these problems; its message is that of the first one that is an error."""
        errors = [problem for problem in problems if problem.severity == "error"]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return cls(f"{errors[0].message}{more}", problems=problems)


class FlowFileError(FlowError):
    """A flow file that cannot be read or written; the message holds file and line or JSON path."""


class TemplateError(FlowError):
    """A template or expression that raised; `facts` holds it and the value."""


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


class HandlerError(EngineError):
    """A handler could not use the completion; the error type is PARSING."""


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
    agent: str = ""
    """Agent concerned, for marks on the canvas."""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line or "", self.path) if part)
        return f"{place}: {self.severity}: {self.message}" if place else f"{self.severity}: {self.message}"
