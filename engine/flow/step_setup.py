"""Prepares a step: its `before`, its prompt, its splits, and the profile it asks."""

from engine.flow.context import Context, Skip
from engine.flow.deadline import Deadline, in_time, settled
from engine.flow.flow_spec import AgentType
from engine.flow.profile_resolver import ProfileResolver
from engine.flow.steps import Step
from engine.flow.template import narrowed, split_count, split_keys
from engine.profile import ModelProfile


class StepSetup:
    """Prepares the steps of one walk."""

    def __init__(self, profiles: ProfileResolver, deadline: Deadline | None) -> None:
        self._profiles = profiles
        self._deadline = deadline

    async def prepare(self, step: Step) -> None:
        """Run `before` and find out what is to be done; raises what either raises."""
        agent, context = step.agent, step.context
        if self._deadline is not None:
            self._deadline.check()
        if agent.has_before:
            await settled(agent.before(context), self._deadline)
            if context.error is not None:
                raise context.error.exception
        skip = context.skip_next
        step.skip = skip if isinstance(skip, Skip) else Skip.SKIP if skip else Skip.NO
        context.skip_next = Skip.NO
        await self.shape(step)

    async def shape(self, step: Step) -> None:
        """Expand the prompt and find the splits and the model."""
        agent, context = step.agent, step.context
        prompt = agent.prompt(context)
        step.system, step.text = prompt if isinstance(prompt, tuple) else await in_time(prompt, self._deadline)
        keys = split_keys(step.text, step.system)
        if keys:
            step.count = split_count(keys, context) or 1
            if all(context[key] for key in keys):
                step.keys = keys
            else:
                empty = ", ".join(key for key in keys if not context[key])
                step.warning = f'"{agent.name}" is not split: there is no value of {empty}.'
        step.left = step.splits = step.count
        first = narrowed(context, step.keys, 0, step.count) if step.keys and agent.varies else context
        step.kind, step.profile, step.label = self.asked(step, first)
        if agent.merges and not agent.gather:
            step.done = [None] * step.count

    def asked(self, step: Step, context: Context) -> tuple[AgentType, ModelProfile | None, str]:
        """What a branch does with the conversation, which profile it asks if any, and how the trace names that."""
        kind = step.agent.agent_type(context)
        if kind is AgentType.PROCESSING_ONLY or step.skip is not Skip.NO:
            return kind, None, ""
        return kind, *self._profiles.resolve(step.agent.model(context))
