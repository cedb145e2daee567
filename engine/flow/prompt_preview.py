"""Shows what an agent would ask, for every split of a context; neither a model nor a plug-in is called."""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from engine.flow.agent import Agent
from engine.flow.context import Context
from engine.flow.evaluator import IN_PROCESS
from engine.flow.flow_build import build_agent
from engine.flow.flow_spec import AgentSpec
from engine.flow.template import Parts, fill, literal, narrowed, split_count, split_keys
from engine.plugins import Plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPreview:
    """The prompt of an agent for one context."""

    count: int
    """How many branches it would make; 1 when it is not split."""
    note: str
    """What the preview leaves out, or why nothing is split."""
    system: Parts
    text: Parts
    keys: tuple[str, ...]
    context: Context

    def prompt(self, index: int) -> tuple[str, str]:
        """System prompt and user turn of a split, from 0."""
        if not self.keys:
            return literal(self.system), literal(self.text)
        branch = narrowed(self.context, self.keys, index, self.count)
        return fill(self.system, branch), fill(self.text, branch)


async def preview_prompt(spec: AgentSpec, values: Mapping[str, object]) -> PromptPreview:
    """Expand the prompt of an agent in a thread; raises what its `before` or its templates raise."""
    return await asyncio.to_thread(lambda: asyncio.run(_preview(spec, values)))


async def _preview(spec: AgentSpec, values: Mapping[str, object]) -> PromptPreview:
    calls = [op.call for op in spec.before if op.call is not None]
    plain = replace(
        spec,
        before=tuple(op for op in spec.before if op.call is None),
        after=(),
        merge=None,
        tools=(),
        handler=None,
        response_format=None,
        routes=(),
        state=None,
        gather=False,
    )
    agent = build_agent(plain, plugins=Plugins(), evaluator=IN_PROCESS)
    context = Context(values)
    system, text = await _expanded(agent, context)
    keys = split_keys(text, system)
    note = f"Functions of plug-ins are not called here: {', '.join(calls)}." if calls else ""
    empty = [key for key in keys if not context[key]]
    if empty:
        note = f"It is not split: there is no value of {', '.join(empty)}."
        keys = ()
    return PromptPreview(
        count=split_count(keys, context) or 1, note=note, system=system, text=text, keys=keys, context=context
    )


async def _expanded(agent: Agent, context: Context) -> tuple[Parts, Parts]:
    if agent.has_before:
        done = agent.before(context)
        if isinstance(done, Awaitable):
            await done
        if context.error is not None:
            raise context.error.exception
    prompt = agent.prompt(context)
    return prompt if isinstance(prompt, tuple) else await prompt
