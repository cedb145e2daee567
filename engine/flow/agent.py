"""Agents: one step of a flow each. Fill the fields, or subclass and override the methods of the same names."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.conversation import ImagePart, ToolDefinition, ToolUse, Turn
from engine.errors import FlowError
from engine.flow.context import Context, text_of
from engine.flow.flow_spec import AgentType
from engine.flow.handlers import Handler, TextHandler, ToolCallingHandler
from engine.flow.template import Parts, expand, is_long
from engine.flow.tools import Offer, Tool
from engine.profile import Category, Overrides, ProfileRef

if TYPE_CHECKING:
    from engine.flow.subflow import Subflow

__all__ = ["Agent", "AgentType", "Hook", "Merge", "Next", "merge_contexts"]

MAX_TOOL_ROUNDS = 8
"""How often an agent may call tools before its final answer, unless it says otherwise."""

Hook = Callable[[Context], Awaitable[None] | None]
Merged = list[Context] | None
Merge = Callable[[list[Context]], Awaitable[Merged] | Merged]


@dataclass(frozen=True, slots=True)
class Next:
    """Where a context goes, and the verdict the trace shows."""

    agent: str | None = None
    """None ends the flow."""
    graded: bool | None = None
    """True ✓, False ✗, None no mark."""

    @classmethod
    def end(cls, _context: Context | None = None, *, graded: bool | None = None) -> "Next":
        """End the flow here; usable as a `choose_next`."""
        return cls(None, graded)

    @classmethod
    def to(cls, agent: str, *, graded: bool | None = None) -> "Next":
        """Go on with this agent."""
        return cls(agent, graded)


class Agent:
    """One step: which model, what it is asked, what its answer becomes, where the context goes.

    Callables may be plain or async. They get the context of their own branch, except `before` and `prompt`, which get
    it before it is split.
    """

    subflow: "Subflow | None" = None
    """A flow that runs in place of a request (subflow.py)."""

    def __init__(
        self,
        name: str,
        type: AgentType,  # noqa: A002 - the word of the flow format
        *,
        category: Category | str = Category.MEDIUM,
        profile: ProfileRef | None = None,
        system_prompt: str = "",
        template: str = "",
        few_shot: Sequence[Turn] = (),
        images: Sequence[str] = (),
        handler: Callable[[Context], Handler] | None = None,
        before: Hook | None = None,
        after: Hook | None = None,
        merge: Merge | None = None,
        choose_next: Callable[[Context], Awaitable[Next | None] | Next | None] | None = None,
        targets: Sequence[str] | None = None,
        gather: bool = False,
        retry_on_parsing_error: int = 0,
        overrides: Overrides | None = None,
        stop: Sequence[str] = (),
        response_schema: Mapping[str, object] | None = None,
        timeout: float | None = None,
        tools: Sequence[Tool | ToolDefinition] = (),
        tool_use: ToolUse = ToolUse.AUTO,
        forced_tool: str = "",
        max_tool_rounds: int = MAX_TOOL_ROUNDS,
        stream: bool = True,
        skip_cache: bool = False,
        render: Callable[[str, Context], Parts] | None = None,
    ) -> None:
        """Define an agent; only name and type are required.

        Args:
            category: used when there is no profile; a text is a label (`M`) or the name of an own category.
            profile: wins over the category.
            few_shot: earlier turns, put before the user turn.
            images: keys whose values are pictures (ImagePart, or `data:` or http(s) addresses) for the user turn.
            handler: makes a new handler for each attempt; missing: the answer goes to the key `response`.
            choose_next: missing or None as result: the flow ends.
            targets: every name `choose_next` may return, if that is known; lets a gathering agent start earlier.
            gather: wait for all branches of the run that may still arrive, merge them, then run once.
            retry_on_parsing_error: how often the two attempts are repeated when both answers were unusable.
            stop: texts that end the answer.
            response_schema: JSON schema the server is asked to keep to, if it can.
            timeout: seconds for one request.
            tools: what the model may call; of a ToolDefinition the handler runs the calls.
            tool_use: whether it calls one; after the first round it decides itself.
            forced_tool: the one tool it calls first.
            max_tool_rounds: how often it may call tools before its final answer.
            stream: whether chunks become events and the keys of the handler fill up while they arrive.
            render: another template language: text and context to parts (see template.py).
        """
        self.name = name
        self.type = type
        self.category = Category.named(category) if isinstance(category, str) else category
        self.profile = profile
        self.system_prompt = system_prompt
        self.template = template
        self.few_shot = tuple(few_shot)
        self.images = tuple(images)
        self.gather = gather
        self.retry_on_parsing_error = retry_on_parsing_error
        self.max_tool_rounds = max_tool_rounds
        self.stream = stream
        self.skip_cache = skip_cache
        self.overrides = _overrides(overrides, stop, response_schema, timeout)
        """What a request changes about the profile, `stop`, `responseFormat` and `timeout` included."""
        self._offer = Offer.of(tools, tool_use, forced_tool) if tools else None
        self._handler = handler
        self._before = before
        self._after = after
        self._merge = merge
        self._choose_next = choose_next
        self._render = render
        ends = choose_next is None and self._inherits("choose_next")
        self.targets: tuple[str, ...] | None = () if ends else None if targets is None else tuple(targets)
        """Names this agent may go to; None = not known."""
        self.merges = merge is not None or not self._inherits("merge")
        """Whether the branches of a step meet here before they go on."""
        self.varies = not (self._inherits("agent_type") and self._inherits("model"))
        """Whether each branch may do something else, or ask another model."""
        self.has_before = before is not None or not self._inherits("before")
        self.has_after = after is not None or not self._inherits("after")

    def _inherits(self, method: str) -> bool:
        return getattr(self.__class__, method) is getattr(Agent, method)

    def agent_type(self, context: Context) -> AgentType:
        """What to do with the conversation."""
        return self.type

    def model(self, context: Context) -> ProfileRef:
        """Which profile or category to ask."""
        return self.category if self.profile is None else self.profile

    def prompt(self, context: Context) -> Awaitable[tuple[Parts, Parts]] | tuple[Parts, Parts]:
        """System prompt and text of the user turn, with the keys that split it still open."""
        if self._render is None and (is_long(self.template, context) or is_long(self.system_prompt, context)):
            return asyncio.to_thread(self._prompt, context)
        return self._prompt(context)

    def _prompt(self, context: Context) -> tuple[Parts, Parts]:
        render = self._render or expand
        system = render(self.system_prompt, context) if self.system_prompt else ()
        return system, render(self.template, context) if self.template else ()

    def pictures(self, context: Context) -> tuple[ImagePart, ...]:
        """The pictures of the user turn; raises FlowError for a value that is none."""
        return tuple(_picture(self.name, key, value) for key in self.images for value in context.get(key, ()))

    def handler(self, context: Context) -> Handler:
        """A handler for one attempt."""
        if self._handler is not None:
            return self._handler(context)
        return TextHandler("response") if self._offer is None else ToolCallingHandler()

    @property
    def has_tools(self) -> bool:
        """Whether it offers tools, as far as that is known before it runs."""
        return self._offer is not None

    def offer(self, context: Context) -> Offer | None:
        """The tools of this step."""
        return self._offer

    def before(self, context: Context) -> Awaitable[None] | None:
        """Prepare the context, before the template is expanded."""
        return None if self._before is None else self._before(context)

    def after(self, context: Context) -> Awaitable[None] | None:
        """Work on a branch whose answer was handled."""
        return None if self._after is None else self._after(context)

    def merge(self, contexts: list[Context]) -> Awaitable[Merged] | Merged:
        """Make fewer of the branches that succeeded, in split order; None leaves them as they are."""
        return None if self._merge is None else self._merge(contexts)

    def choose_next(self, context: Context) -> Awaitable[Next | None] | Next | None:
        """Decide where the context goes."""
        return None if self._choose_next is None else self._choose_next(context)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.name!r}, {self.type.value})"


def _picture(agent: str, key: str, value: object) -> ImagePart:
    if isinstance(value, ImagePart):
        return value
    try:
        return ImagePart.of_url(text_of(value))
    except ValueError as error:
        raise FlowError(
            f'"{agent}" cannot show the key {key} to the model: {error}.',
            hint="Fill it from an input of the type image.",
            facts={"key": key, "agent": agent},
        ) from None


def _overrides(
    overrides: Overrides | None, stop: Sequence[str], schema: Mapping[str, object] | None, timeout: float | None
) -> dict[str, object]:
    merged = dict(overrides or {})
    if stop:
        merged["stop"] = list(stop)
    if schema is not None:
        merged["responseFormat"] = dict(schema)
    if timeout is not None:
        merged["timeout"] = timeout
    return merged


def merge_contexts(keys: Sequence[str], contexts: list[Context]) -> list[Context]:
    """Keep the first context and give it, for each key, the values of all contexts in order; the key always exists."""
    first = contexts[0]
    for key in keys:
        first[key] = [value for context in contexts for value in context.get(key, ())]
    return [first]
