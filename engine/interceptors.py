"""What stands around completions: interceptors above the cache, guards below it (docs/interceptors.md)."""

import json
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from engine.completion import Completion
from engine.conversation import Conversation, Turn
from engine.errors import PluginError
from engine.plugins import installed
from engine.profile import ModelProfile
from engine.redaction import SECRETS

log = logging.getLogger(__name__)

current_run: ContextVar[str] = ContextVar("current_run", default="")
"""Id of the run a request belongs to; empty outside of runs."""


@runtime_checkable
class Interceptor(Protocol):
    """Sees each completion from outside, also one from the cache.

    All `before` are called in the order of registration, then the request is made, then all `after` in the same order.
    What one raises fails the request. After a request that failed `after` is not called.
    """

    async def before(self, profile: ModelProfile, conversation: Conversation) -> Conversation:
        """The conversation to send, and to look for in the cache."""
        ...

    async def after(self, profile: ModelProfile, conversation: Conversation, completion: Completion) -> Completion:
        """The completion to give back; its chunks have passed already."""
        ...


class PluggedInterceptor:
    """An interceptor of an installed package, by name; imported by the first request.

    While it cannot be loaded no request is made: what it was switched on for may be a filter.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._loaded: Interceptor | None = None

    async def before(self, profile: ModelProfile, conversation: Conversation) -> Conversation:
        """As the plug-in says; raises PluginError when there is none."""
        return await self._found().before(profile, conversation)

    async def after(self, profile: ModelProfile, conversation: Conversation, completion: Completion) -> Completion:
        """As the plug-in says."""
        return await self._found().after(profile, conversation, completion)

    def _found(self) -> Interceptor:
        if self._loaded is None:
            found = installed("interceptors", self.name, Interceptor, what="interceptor")
            if not isinstance(found, Interceptor):
                raise PluginError(
                    f'The settings switch on the interceptor "{self.name}", which no installed package has.',
                    hint="Install its package, or take it out of the settings.",
                    facts={"plug-in": self.name, "kind": "interceptors"},
                )
            self._loaded = found
        return self._loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that the cache could not answer."""

    profile: ModelProfile
    conversation: Conversation
    run_id: str
    """Empty outside of runs."""

    @property
    def endpoint(self) -> tuple[str, str, str]:
        """Provider, address and model: what profiles of the same server share."""
        return (self.profile.provider, self.profile.url, self.profile.model)


@runtime_checkable
class Guard(Protocol):
    """Stands between cache and server: sees only requests that go out, and how they end, failures too.

    An interceptor may be a guard as well. Guards are asked in the order of registration.
    """

    def enter_now(self, call: Call) -> bool:
        """Let a call pass if it need not wait; raises to refuse it."""
        ...

    async def enter(self, call: Call) -> None:
        """Wait until the call may pass (it is shown as queued meanwhile); raises to refuse it."""
        ...

    def leave(self, call: Call, completion: Completion, error: BaseException | None) -> None:
        """Called once for each call that passed: what came and what it cost, also when it failed or was cancelled."""
        ...


class Passage:
    """One call on its way through the guards: `blocked`, `wait`, and so on until none blocks; then `leave`."""

    def __init__(self, guards: Sequence[Guard], call: Call) -> None:
        self._guards = guards
        self._call = call
        self._passed = 0

    def blocked(self) -> bool:
        """Pass guards until one wants the call to wait; raises what one refuses it with."""
        while self._passed < len(self._guards):
            if not self._guards[self._passed].enter_now(self._call):
                return True
            self._passed += 1
        return False

    async def wait(self) -> None:
        """Wait for the guard that blocks."""
        await self._guards[self._passed].enter(self._call)
        self._passed += 1

    def leave(self, completion: Completion, error: BaseException | None) -> None:
        """Tell the guards that were passed how the call ended."""
        passed, self._passed = self._guards[: self._passed], 0
        for guard in passed:
            try:
                guard.leave(self._call, completion, error)
            except Exception:  # the answer is there, and the others must be told, too
                log.exception("%s raised at the end of a request", type(guard).__name__)


LOGGED_CHARACTERS = 2000
"""Of each text, at the level DEBUG."""


class LoggingInterceptor:
    """Logs each completion as one line without any of its text, and each failure; at the level DEBUG also the texts.

    Texts are cut to LOGGED_CHARACTERS, and known secrets and what looks like one are taken out.
    """

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO) -> None:
        self._log = logger or log
        self._level = level

    async def before(self, profile: ModelProfile, conversation: Conversation) -> Conversation:
        """Changes nothing."""
        for turn in conversation.turns if self._log.isEnabledFor(logging.DEBUG) else ():
            self._debug(profile, turn.role.value, turn.text)
        return conversation

    def _debug(self, profile: ModelProfile, what: str, text: str) -> None:
        # A secret that is cut in two would no longer be known.
        shown = SECRETS.clean(text[: 2 * LOGGED_CHARACTERS])[:LOGGED_CHARACTERS]
        self._log.debug("%s%s: %s: %s", _run_prefix(current_run.get()), profile.name, what, shown)

    async def after(self, profile: ModelProfile, conversation: Conversation, completion: Completion) -> Completion:
        """Log what came."""
        if self._log.isEnabledFor(logging.DEBUG):
            self._debug(profile, "thinking", completion.reasoning)
            self._debug(profile, "answer", completion.content)
        used = completion.statistics
        self._log.log(
            self._level,
            "%s%s: %d turns, %s%d tokens in, %d out, %.1f s, %s%s",
            _run_prefix(current_run.get()),
            profile.name,
            len(conversation.turns),
            "~" if used.estimated else "",
            used.in_tokens + used.cached_in_tokens,
            used.out_tokens + used.reasoning_out_tokens,
            used.duration,
            completion.finish_reason,
            ", from the cache" if used.cached else "",
        )
        return completion

    def enter_now(self, call: Call) -> bool:
        """Lets all pass."""
        return True

    async def enter(self, call: Call) -> None:
        """Lets all pass."""

    def leave(self, call: Call, completion: Completion, error: BaseException | None) -> None:
        """Log a failure."""
        if isinstance(error, Exception):
            prefix = _run_prefix(call.run_id)
            # Its message may quote the prompt; who asked is told it.
            self._log.log(self._level, "%s%s: %s", prefix, call.profile.name, type(error).__name__)


def _run_prefix(run_id: str) -> str:
    return f"run {run_id}, " if run_id else ""


MAX_REMEMBERED = 100_000
"""Masked values whose originals a filter remembers."""


class SensitiveFilter:
    """Replaces what matches the patterns by marks like `[EMAIL_1]` before a text leaves, and puts it back afterwards.

    The same value has the same mark as long as the filter lives. Chunks show the marks; the completion has the values.
    """

    def __init__(self, patterns: Mapping[str, str | re.Pattern[str]], *, restore: bool = True) -> None:
        """Take the patterns by the name their marks get (letters, digits and `_`); raises ValueError or re.error.

        Without `restore` the marks stay in the answer.
        """
        if odd := [name for name in patterns if not re.fullmatch(r"\w+", name)]:
            raise ValueError(f"the name of a pattern must be letters, digits and _, found {odd[0]!r}")
        self._patterns = [(name, re.compile(pattern)) for name, pattern in patterns.items()]
        self._restore = restore
        self._marks: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._values: dict[str, str] = {}
        self._counts = dict.fromkeys(patterns, 0)
        self._mark = re.compile(rf"\[(?:{'|'.join(map(re.escape, patterns)) or '(?!)'})_\d+\]")

    def mask(self, text: str) -> str:
        """The text with marks."""
        for name, pattern in self._patterns:
            text = pattern.sub(self._replacer(name), text)
        return text

    def unmask(self, text: str) -> str:
        """The text with the values that marks of this filter stand for."""
        return self._mark.sub(lambda found: self._values.get(found.group(), found.group()), text)

    async def before(self, profile: ModelProfile, conversation: Conversation) -> Conversation:
        """Mask all turns."""
        turns = tuple(map(self._masked, conversation.turns))
        return conversation if turns == conversation.turns else Conversation(turns)

    async def after(self, profile: ModelProfile, conversation: Conversation, completion: Completion) -> Completion:
        """Put the values back into text, reasoning and the arguments of calls."""
        if not self._restore or not self._values:
            return completion
        calls = tuple(replace(call, arguments=self._unmask_json(call.arguments)) for call in completion.tool_calls)
        return replace(
            completion,
            content=self.unmask(completion.content),
            reasoning=self.unmask(completion.reasoning),
            tool_calls=calls,
        )

    def _masked(self, turn: Turn) -> Turn:
        calls = tuple(replace(call, arguments=self.mask(call.arguments)) for call in turn.tool_calls)
        return replace(turn.changed(self.mask), reasoning=self.mask(turn.reasoning), tool_calls=calls)

    def _replacer(self, name: str) -> Callable[[re.Match[str]], str]:
        def mark(found: re.Match[str]) -> str:
            value = found.group()
            return self._mark_of(name, value) if value and not self._mark.fullmatch(value) else value

        return mark

    def _mark_of(self, name: str, value: str) -> str:
        mark = self._marks.get((name, value))
        if mark is None:
            self._counts[name] += 1
            mark = self._marks[name, value] = f"[{name}_{self._counts[name]}]"
            self._values[mark] = value
            if len(self._marks) > MAX_REMEMBERED:
                _, oldest = self._marks.popitem(last=False)
                del self._values[oldest]
        else:
            self._marks.move_to_end((name, value))
        return mark

    def _unmask_json(self, text: str) -> str:
        """Values inside JSON text are escaped as JSON wants it."""
        return self._mark.sub(lambda found: _inside_json(self._values.get(found.group(), found.group())), text)


def _inside_json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


def sorted_out(given: Sequence[Interceptor | Guard]) -> tuple[tuple[Interceptor, ...], tuple[Guard, ...]]:
    """Interceptors and guards; one may be both."""
    for one in given:
        if isinstance(one, type) or not isinstance(one, Interceptor | Guard):
            name = getattr(one, "__name__", type(one).__name__)
            raise TypeError(f"{name} is no interceptor: it needs before and after, or enter_now, enter and leave")
    return (
        tuple(one for one in given if isinstance(one, Interceptor)),
        tuple(one for one in given if isinstance(one, Guard)),
    )
