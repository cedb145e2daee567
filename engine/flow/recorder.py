"""Tells the history what a walk has reached, one checkpoint each."""

from collections.abc import Callable, Sequence

from engine.checkpoints import Checkpoint, Position, Reached, Stage
from engine.flow.context import Context
from engine.flow.gathering import Arrival
from engine.flow.steps import Step
from engine.flow.trace import Trace

Keep = Callable[[Checkpoint], None]
"""Takes a checkpoint; never raises."""


class Recorder:
    """Makes the checkpoints of one run."""

    def __init__(self, run_id: str, keep: Keep) -> None:
        self._run_id = run_id
        self.keep = keep

    def arrived(self, agent: str, number: int, context: Context) -> None:
        """The run begins with this context."""
        self.keep(Checkpoint(self._run_id, Reached.ARRIVED, number, agent, (context.snapshot(),), ((),), 0, (0,)))

    def split(self, step: Step) -> None:
        """A step is about to run its splits."""
        snapshots = (step.context.snapshot(),)
        number, name = step.number, step.agent.name
        self.keep(
            Checkpoint(
                self._run_id,
                Reached.SPLIT,
                number,
                name,
                snapshots,
                (step.position,),
                count=step.count,
                skip=step.skip.value,
            )
        )

    def done(self, step: Step, context: Context, index: int) -> None:
        """A split waits for the others to be merged."""
        snapshots, positions = (context.snapshot(),), (step.place(index),)
        self.keep(Checkpoint(self._run_id, Reached.DONE, step.number, step.agent.name, snapshots, positions, index))

    def merged(self, step: Step, contexts: Sequence[Context], positions: Sequence[Position]) -> None:
        """The splits of a step became these contexts."""
        snapshots = tuple([context.snapshot() for context in contexts])
        self.keep(Checkpoint(self._run_id, Reached.MERGED, step.number, step.agent.name, snapshots, tuple(positions)))

    def left(
        self,
        step: Step,
        context: Context,
        values: dict[str, list[object]],
        position: Position,
        index: int,
        to: str | None,
        to_step: int,
    ) -> None:
        """A context goes on, or has come to the end; `values` is a copy of its own."""
        self.keep(
            Checkpoint(
                self._run_id,
                Reached.LEFT,
                step.number,
                step.agent.name,
                (context.snapshot(values),),
                (position,),
                index,
                to=to,
                to_step=to_step,
            )
        )

    def failed(
        self, step: Step, context: Context, position: Position, index: int, stage: Stage, trace: Trace | None
    ) -> None:
        """A branch ended with an error; `trace` is the one to go on with when it is tried again."""
        snapshots = (context.snapshot(trace=trace),)
        self.keep(
            Checkpoint(
                self._run_id,
                Reached.FAILED,
                step.number,
                step.agent.name,
                snapshots,
                (position,),
                index,
                stage=stage,
            )
        )

    def gathered(self, agent: str, number: int, begins: Sequence[tuple[Step, int]], arrived: Sequence[Arrival]) -> None:
        """Waiting contexts became the beginnings of steps, the first of which has this number."""
        self.keep(
            Checkpoint(
                self._run_id,
                Reached.GATHERED,
                number,
                agent,
                tuple([step.context.snapshot() for step, _ in begins]),
                tuple([step.position for step, _ in begins]),
                sources=tuple([source for _, source in begins]),
                takes=tuple([(arrival.from_step, arrival.output) for arrival in arrived]),
            )
        )
