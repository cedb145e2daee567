"""Flows that run as one node of another flow (docs/flow-format.md, Sub-flows).

What a node is given and what it gives back goes through mappings; nothing else passes between the two flows.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from engine.errors import FlowError
from engine.flow.agent import Agent, Hook, Merge, Next
from engine.flow.context import Context
from engine.flow.evaluator import IN_PROCESS, Evaluator, at_once
from engine.flow.flow import Flow
from engine.flow.flow_inputs import inner_values
from engine.flow.flow_spec import AgentType
from engine.flow.results import Results
from engine.flow.template import Parts, Slot, expand, fill, literal
from engine.flow.trace import Kind

_ONE_KEY = re.compile(r"\{\{\{?\s*([^{}]+?)\s*\}?\}\}")
_LISTS = frozenset(["list", "json", "image"])
"""Types of inputs that take values as they are."""


class Given(tuple[str | Slot, ...]):
    """All parts of the values a node is given, one value after the other; `values` has them by input."""

    values: Mapping[str, "Parts | Values"]


class Values(list[object]):
    """Values that are passed on as they are."""


class Subflow:
    """A flow inside a node, and the way in and out."""

    def __init__(
        self,
        name: str,
        flow: Flow,
        inputs: Mapping[str, object],
        outputs: Mapping[str, str],
        *,
        jinja: bool = False,
        evaluator: Evaluator = IN_PROCESS,
    ) -> None:
        self.flow = flow
        self._name = name
        self._inputs = inputs
        self._outputs = outputs or {key: key for key in flow.outputs}
        self._types = {item.key: item.type for item in flow.inputs}
        self._jinja = jinja
        self._evaluator = evaluator

    async def given(self, context: Context) -> Given:
        """What the inputs are given, with the keys that split the node still open."""
        values = {key: await self._given(key, value, context) for key, value in self._inputs.items()}
        given = Given(part for parts in values.values() if not isinstance(parts, Values) for part in parts)
        given.values = values
        return given

    async def _given(self, key: str, value: object, context: Context) -> "Parts | Values":
        if not isinstance(value, str):
            return Values(value if isinstance(value, list) else [value])
        only = _ONE_KEY.fullmatch(value)
        if only is not None and only[1] in context and self._takes_values(key):
            return Values(context[only[1]])
        return await self._evaluator.render(value, context) if self._jinja else expand(value, context)

    def _takes_values(self, key: str) -> bool:
        return self._types.get(key, "list") in _LISTS

    def enter(self, given: Parts, context: Context) -> Context:
        """The context the flow inside begins with; raises FlowError for a value its input does not take."""
        values = given.values if isinstance(given, Given) else {}
        inner = Context()
        found = {key: self._value(key, parts, context) for key, parts in values.items()}
        for item in self.flow.inputs:
            try:
                inner[item.key] = inner_values(item, found.pop(item.key, None))
            except ValueError as error:
                message = f'"{self._name}" cannot give the input "{item.key}": {error}.'
                raise FlowError(message, hint="Look at `with`.", facts={"input": item.key}) from error
        for key, rest in found.items():
            inner[key] = list(rest) if isinstance(rest, list) else [rest]
        return inner

    def _value(self, key: str, parts: "Parts | Values", context: Context) -> object:
        if isinstance(parts, Values):
            plain = list(parts)
            return plain if len(plain) != 1 or self._takes_values(key) else plain[0]
        if len(parts) == 1 and isinstance(slot := parts[0], Slot) and len(context[slot.key]) == 1 and not slot.hidden:
            element = context[slot.key][0]
            return [element] if self._takes_values(key) else element
        narrow = all(len(context[part.key]) == 1 for part in parts if isinstance(part, Slot))
        return fill(parts, context) if narrow else literal(parts)

    async def walk(
        self, given: Parts, context: Context, set_out: Callable[[Context, Agent], Awaitable[None]], results: Results
    ) -> list[Context]:
        """Walk the flow inside; what failed, as contexts outside. Raises the first error when nothing ended well."""
        inner = self.enter(given, context)
        inner.branch, inner.steps, inner.statistic = context.branch, context.steps, context.statistic
        inner.streaming = context.streaming
        try:
            await set_out(inner, self.flow.agent(self.flow.first))
        finally:
            ended = results.contexts
            context.trace = context.trace.fold(Kind.AGENT, self._name, [result.trace for result in ended])
            context.steps = max([context.steps, *(result.steps for result in ended)])
        failed: list[Context] = []
        for result in ended:
            if result.error is not None:
                lost = context.copy()
                lost.error = replace(result.error, agent=f"{self._name}/{result.error.agent}")
                failed.append(lost)
        if failed and len(failed) == len(ended) and failed[0].error is not None:
            context.error = failed[0].error
            raise context.error.exception
        return failed

    async def leave(self, context: Context, ended: Sequence[Context]) -> None:
        """Bring the outputs of the contexts that ended well back, one after the other."""
        for key, source in self._outputs.items():
            values = [value for inner in ended for value in await self._taken(source, inner)]
            if values:
                context[key] = values
            else:
                context.remove(key)

    async def _taken(self, source: str, inner: Context) -> Sequence[object]:
        """The values of a key, or of an expression, in a context; none when there is no such key."""
        if source in inner:
            return inner[source]
        if source.isidentifier():
            return ()
        value = await self._evaluator.evaluate(source, inner)
        return value if isinstance(value, list) else () if value is None else (value,)


class SubflowAgent(Agent):
    """An agent that runs a flow as one node."""

    def __init__(
        self,
        name: str,
        flow: Flow,
        *,
        inputs: Mapping[str, object] | None = None,
        outputs: Mapping[str, str] | None = None,
        before: Hook | None = None,
        after: Hook | None = None,
        merge: Merge | None = None,
        choose_next: Callable[[Context], Awaitable[Next | None] | Next | None] | None = None,
        targets: Sequence[str] | None = None,
        gather: bool = False,
        jinja: bool = False,
        evaluator: Evaluator = IN_PROCESS,
    ) -> None:
        """Make a node of a flow.

        Args:
            inputs: what each input of the flow is given: a template, or any other value as it is.
            outputs: key here → key there, or an expression over the keys there; missing: the outputs of the flow.
            jinja: whether templates among the inputs are Jinja2.
            evaluator: where expressions and Jinja2 are evaluated.
        """
        super().__init__(
            name,
            AgentType.PROCESSING_ONLY,
            before=before,
            after=after,
            merge=merge,
            choose_next=choose_next,
            targets=targets,
            gather=gather,
        )
        subflow = self.subflow = Subflow(name, flow, inputs or {}, outputs or {}, jinja=jinja, evaluator=evaluator)

        async def given(context: Context) -> tuple[Parts, Parts]:
            return (), await subflow.given(context)

        self._given = given if evaluator.suspends else at_once(given)

    def prompt(self, context: Context) -> Awaitable[tuple[Parts, Parts]] | tuple[Parts, Parts]:
        """No prompt: the values of the inputs, which may split the node."""
        return self._given(context)


def named_agents(flow: Flow, prefix: str = "") -> Iterator[tuple[str, Agent]]:
    """All agents by the names events have: those inside of nodes as `Node/Agent`."""
    for agent in flow.agents:
        yield prefix + agent.name, agent
        if agent.subflow is not None:
            yield from named_agents(agent.subflow.flow, f"{prefix}{agent.name}/")
