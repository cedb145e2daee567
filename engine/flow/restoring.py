"""From what a run had reached to where it goes on (docs/runs.md).

Failed branches are tried again, whatever the failure; so is what was under way. Everything else is kept, unless it was
made without a branch that is tried again: a merge of the others, and what followed from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.checkpoints import Checkpoint, Position, Reached, Snapshot, Stage
from engine.conversation import ToolUse
from engine.errors import FlowError
from engine.flow.context import Context, Skip
from engine.flow.flow import Flow
from engine.flow.gathering import Arrival, reaches
from engine.flow.restart import BeginStep, ChooseNext, OpenStep, Restart
from engine.statistics import RequestStatistic


@dataclass(slots=True)
class _Step:
    """What is recorded of one step."""

    number: int
    agent: str
    begun: Snapshot
    position: Position
    from_step: int
    parent: int
    """The step it hangs on; 0 for the start."""
    gathered: int = -1
    """The gathering it began with, by its place in the record."""
    split: Checkpoint | None = None
    done: dict[int, Checkpoint] = field(default_factory=dict)
    merged: Checkpoint | None = None
    left: dict[int, Checkpoint] = field(default_factory=dict)
    failed: dict[tuple[Stage, int], Checkpoint] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.split.count if self.split else 1

    def outputs(self, merges: bool) -> list[int]:
        """The numbers of the contexts that leave it when it is done."""
        if self.merged is not None:
            return list(range(len(self.merged.contexts)))
        return sorted(self.done) if merges else list(range(self.count))

    def failed_splits(self) -> list[int]:
        """Splits whose own work failed, so that a merge went without them."""
        return [index for stage, index in self.failed if stage in (Stage.SPLIT, Stage.PREPARE)]


class _Record:
    """The checkpoints of a run, put in order."""

    def __init__(self, flow: Flow, checkpoints: Sequence[Checkpoint]) -> None:
        self.flow = flow
        self.steps: dict[int, _Step] = {}
        self.waiting: dict[tuple[int, int], Checkpoint] = {}
        """Contexts that came to gathering agents, by (step, index) they left."""
        self.gathered: dict[int, Checkpoint] = {}
        self.ended: list[Checkpoint] = []
        for place, checkpoint in enumerate(checkpoints):
            self._add(place, checkpoint)

    def _add(self, place: int, found: Checkpoint) -> None:
        step = self.steps.get(found.step)
        match found.reached:
            case Reached.ARRIVED:
                if found.step:
                    self.steps[found.step] = _Step(found.step, found.agent, found.contexts[0], found.positions[0], 0, 0)
                else:
                    self.waiting[0, found.index] = found
            case Reached.GATHERED:
                self.gathered[place] = found
                for index, snapshot in enumerate(found.contexts):
                    number, source = found.step + index, found.sources[index]
                    self.steps[number] = _Step(
                        number, found.agent, snapshot, found.positions[index], source, source, place
                    )
            case Reached.SPLIT if step:
                step.split = found
            case Reached.DONE if step:
                step.done[found.index] = found
            case Reached.MERGED if step:
                step.merged = found
            case Reached.FAILED if step:
                step.failed[found.stage, found.index] = found
            case Reached.LEFT if step:
                self._leave(step, found)

    def _leave(self, step: _Step, found: Checkpoint) -> None:
        step.left[found.index] = found
        if found.to is None:
            self.ended.append(found)
        elif found.to_step:
            self.steps[found.to_step] = _Step(
                found.to_step, found.to, found.contexts[0], found.positions[0], step.number, step.number
            )
        else:
            self.waiting[step.number, found.index] = found

    # -- what has to be done again ------------------------------------------------------------------------------------

    def merges(self, step: _Step) -> bool:
        agent = self.flow.agent(step.agent)
        return agent.merges and not agent.gather

    def settle(self) -> None:
        """Take back what was made without a branch that is tried again, until nothing of that is left."""
        while True:
            pending = [step for step in self.steps.values() if self.is_open(step)]
            again = [place for place, gathered in self.gathered.items() if self._is_early(gathered, pending)]
            reopened = [
                step
                for step in self.steps.values()
                if self.merges(step) and step.failed_splits() and (step.merged or step.left)
            ]
            if not again and not reopened:
                return
            for place in again:
                del self.gathered[place]
                self._remove({step.number for step in self.steps.values() if step.gathered == place})
            for step in reopened:
                if step.number in self.steps:
                    step.merged = None
                    self._take_back(step)

    def is_open(self, step: _Step) -> bool:
        """Whether something of a step is still to be done."""
        if self.merges(step) and step.merged is None and len(step.done) < step.count:
            return True
        outputs = step.outputs(self.merges(step))
        return any(index not in step.left for index in outputs)

    def _is_early(self, gathered: Checkpoint, pending: Sequence[_Step]) -> bool:
        if any(key not in self.waiting for key in gathered.takes):
            return True
        return any(
            step.agent == gathered.agent or self._leads(step, gathered)
            for step in pending
            if self._came_before(step, gathered)
        )

    def _leads(self, step: _Step, gathered: Checkpoint) -> bool:
        return reaches(self.flow, step.agent, gathered.agent)

    def _came_before(self, step: _Step, gathered: Checkpoint) -> bool:
        """Whether a step is not one of those that follow from this gathering."""
        place = next(place for place, other in self.gathered.items() if other is gathered)
        known: _Step | None = step
        while known is not None:
            if known.gathered == place:
                return False
            known = self.steps.get(known.parent)
        return True

    def _take_back(self, step: _Step) -> None:
        """Forget what left a step, and all that followed."""
        step.left.clear()
        self.ended = [left for left in self.ended if left.step != step.number]
        for key in [key for key in self.waiting if key[0] == step.number]:
            del self.waiting[key]
        self._remove(
            {other.number for other in self.steps.values() if other.parent == step.number and other.gathered < 0}
        )

    def _remove(self, numbers: set[int]) -> None:
        for number in numbers:
            step = self.steps.pop(number, None)
            if step is not None:
                self._take_back(step)


def restored(flow: Flow, checkpoints: Sequence[Checkpoint], parent: str) -> Restart:
    """What a run that reached these checkpoints still has to do.

    Raises FlowError when the flow has no agent the record names.
    """
    statistic = RequestStatistic()
    record = _Record(flow, checkpoints)
    for step in record.steps.values():
        flow.agent(step.agent)
    record.settle()
    restart = Restart(origin="resume", parent=parent, statistic=statistic)
    numbers = [checkpoint.step for checkpoint in checkpoints] + [checkpoint.to_step for checkpoint in checkpoints]
    numbers += [found.step + len(found.contexts) - 1 for found in checkpoints if found.reached is Reached.GATHERED]
    restart.next_number = max(numbers, default=0) + 1
    rest = _Rest(restart, record, statistic)
    for step in record.steps.values():
        rest.add(step)
    taken = {key for gathered in record.gathered.values() for key in gathered.takes}
    for key, found in record.waiting.items():
        if key not in taken:
            context = context_of(flow, found.contexts[0], statistic)
            agent = flow.agent(found.to or found.agent)
            restart.waiting.append((agent, Arrival(found.positions[0], context, key[0], key[1])))
    restart.ended = [(found.positions[0], context_of(flow, found.contexts[0], statistic)) for found in record.ended]
    restart.checkpoints = _kept(record, checkpoints)
    restart.alive = frozenset(record.steps)
    return restart


def context_of(flow: Flow, snapshot: Snapshot, statistic: RequestStatistic) -> Context:
    """The context as it was; the tools of an earlier agent are those of the flow with the same names."""
    context = Context.of(snapshot, statistic)
    if snapshot.tools:
        for agent in flow.agents:
            offer = agent.offer(context)
            if offer is not None and offer.choice.names == snapshot.tools:
                context.tools = offer.choosing(ToolUse.AUTO)
                break
    return context


class _Rest:
    """Adds what is left of each step to a restart."""

    def __init__(self, restart: Restart, record: _Record, statistic: RequestStatistic) -> None:
        self._restart = restart
        self._record = record
        self._statistic = statistic

    def add(self, step: _Step) -> None:
        """Add what is left of one step."""
        if not self._record.merges(step):
            self._add_splits(step)
        elif step.merged is not None:
            for index, snapshot in enumerate(step.merged.contexts):
                if index not in step.left:
                    self._choose(step, index, snapshot, step.merged.positions[index])
        elif len(step.done) == step.count and step.left:  # its merge leaves the contexts as they are
            for index in sorted(step.done.keys() - step.left.keys()):
                self._choose(step, index, step.done[index].contexts[0], step.done[index].positions[0])
        elif step.split is None and not step.done:
            self._begin(step)
        else:
            todo = [index for index in range(step.count) if index not in step.done]
            self._open(step, todo, {index: self._context(found.contexts[0]) for index, found in step.done.items()})

    def _add_splits(self, step: _Step) -> None:
        todo = [index for index in range(step.count) if index not in step.left]
        for index in list(todo):
            failure = step.failed.get((Stage.CHOOSE, index))
            if failure is not None:
                self._choose(step, index, failure.contexts[0], failure.positions[0])
                todo.remove(index)
        if todo and step.split is None:
            self._begin(step)
        elif todo:
            self._open(step, todo, {})

    def _context(self, snapshot: Snapshot) -> Context:
        return context_of(self._record.flow, snapshot, self._statistic)

    def _begin(self, step: _Step) -> None:
        begun = BeginStep(
            step=step.number,
            agent=self._record.flow.agent(step.agent),
            context=self._context(step.begun),
            position=step.position,
            from_step=step.from_step,
        )
        self._restart.begins.append(begun)

    def _open(self, step: _Step, todo: list[int], done: dict[int, Context]) -> None:
        split = step.split
        opened = OpenStep(
            step=step.number,
            agent=self._record.flow.agent(step.agent),
            context=self._context(split.contexts[0] if split else step.begun),
            position=step.position,
            count=step.count,
            skip=Skip(split.skip if split else "NO_SKIP"),
            done=done,
            todo=todo,
        )
        self._restart.steps.append(opened)

    def _choose(self, step: _Step, index: int, snapshot: Snapshot, position: Position) -> None:
        chosen = ChooseNext(
            step=step.number,
            agent=self._record.flow.agent(step.agent),
            context=self._context(snapshot),
            position=position,
            index=index,
        )
        self._restart.chooses.append(chosen)


def _kept(record: _Record, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints that stay true, in order; those of steps that begin anew are left out."""
    return [
        found
        for place, found in enumerate(checkpoints)
        if (
            found.reached is Reached.ARRIVED
            or (found.reached is Reached.GATHERED and place in record.gathered)
            or (found.reached not in (Reached.FAILED, Reached.GATHERED) and _is_kept(record, found))
        )
    ]


def _is_kept(record: _Record, found: Checkpoint) -> bool:
    step = record.steps.get(found.step)
    if step is None:
        return False
    match found.reached:
        case Reached.SPLIT:
            return step.split is found
        case Reached.DONE:
            return step.done.get(found.index) is found
        case Reached.MERGED:
            return step.merged is found
        case _:
            return step.left.get(found.index) is found


def begins_at(flow: Flow, checkpoints: Sequence[Checkpoint], agent: str, visit: int | None = None) -> list[Checkpoint]:
    """The arrivals at an agent in one pass of a run (missing: the last), one checkpoint with one context each.

    A pass counts how often the path of a context has been at the agent, from 1. At a gathering agent they are the
    contexts that waited there. Raises FlowError when there are none.
    """
    flow.agent(agent)
    found = arrivals(checkpoints, agent)
    if not found:
        raise FlowError(
            f'The recorded run never came to "{agent}".', hint="Choose an agent it came to, or run the whole flow."
        )
    passes = sorted({pass_of(arrival) for arrival in found})
    wanted = passes[-1] if visit is None else visit
    chosen = [arrival for arrival in found if pass_of(arrival) == wanted]
    if not chosen:
        known = ", ".join(map(str, passes))
        raise FlowError(f'The recorded run has no pass {wanted} of "{agent}".', hint=f"Its passes are: {known}.")
    return chosen


def arrivals(checkpoints: Sequence[Checkpoint], agent: str) -> list[Checkpoint]:
    """Every context that came to an agent, in order, as it was before the agent began."""
    return [
        found
        for found in checkpoints
        if (found.reached is Reached.ARRIVED and found.agent == agent)
        or (found.reached is Reached.LEFT and found.to == agent)
    ]


def pass_of(arrival: Checkpoint) -> int:
    """How often the context has been at the agent when it leaves it, from 1."""
    agent = arrival.agent if arrival.reached is Reached.ARRIVED else arrival.to
    return 1 + sum(entry[:2] == ["agent", agent] for entry in arrival.contexts[0].trace.since(())[1])


def started_from(
    flow: Flow, chosen: Sequence[Checkpoint], contexts: Sequence[Context], parent: str, *, edited: bool
) -> Restart:
    """A walk that begins with these contexts at the agent the checkpoints name."""
    restart = Restart(origin="from", parent=parent, edited=edited, statistic=contexts[0].statistic)
    first = chosen[0]
    agent = flow.agent(first.agent if first.reached is Reached.ARRIVED else first.to or "")
    checkpoints: list[Checkpoint] = []
    for index, (found, context) in enumerate(zip(chosen, contexts, strict=True)):
        position = found.positions[0] if len(chosen) > 1 else ()
        number = 0 if agent.gather else index + 1
        checkpoints.append(
            Checkpoint("", Reached.ARRIVED, number, agent.name, (context.snapshot(),), (position,), index, (0,))
        )
        if agent.gather:
            restart.waiting.append((agent, Arrival(position, context, 0, index)))
        else:
            restart.begins.append(BeginStep(step=number, agent=agent, context=context, position=position, from_step=0))
    restart.next_number = 1 if agent.gather else len(chosen) + 1
    restart.checkpoints = checkpoints
    return restart
