"""The frozen agents of one open flow: kept beside the history under the flow's path, and compared with the flow now."""

import asyncio
import time
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from engine import Engine, EngineError, build_flow
from engine.flow.agent import Agent
from engine.flow.context import Context
from engine.flow.flow_spec import FlowSpec
from engine.flow.frozen import Frozen, freeze, stale_reasons
from engine.history_queries import RecordedRun
from engine.plugins import Plugins
from engine.profile import ModelProfile
from engine.recorded_runs import recorded_flow
from workbench.designer.agent_run import FrozenMark
from workbench.designer.edits import renamed_agents
from workbench.designer.flow_document import FlowDocument


class FrozenAgents(QObject):
    """Which agents are frozen, and what has changed since."""

    changed = Signal()
    """Look at `marks`."""

    def __init__(
        self,
        engine: Engine,
        document: FlowDocument,
        source: str,
        plugins: Callable[[FlowSpec], Plugins],
        parent: QObject,
    ) -> None:
        """Begin with none; `load` takes what is kept.

        Args:
            engine: has the profiles and keeps the answers.
            document: the flow.
            source: what the flow goes by: its path, or the name of a sample.
            plugins: those a flow can name.
            parent: its owner.
        """
        super().__init__(parent)
        self._plugins = plugins
        self._engine = engine
        self._document = document
        self._source = source
        self._frozen: dict[str, Frozen] = {}
        self._stale: dict[str, tuple[str, ...]] = {}
        self._shown: dict[str, FrozenMark] = {}
        self._writing = asyncio.Lock()
        document.spec_changed.connect(self._follow_names)

    def __contains__(self, agent: object) -> bool:
        return agent in self._frozen

    def source_of(self, agent: str) -> str:
        """The run that the kept answers of an agent are from."""
        return self._frozen[agent].run_id

    def given(self, *, without: str = "") -> tuple[Frozen, ...]:
        """What a run gets; `without` is asked in spite of it."""
        return tuple(one for name, one in self._frozen.items() if name != without)

    def marks(self) -> dict[str, FrozenMark]:
        """What cards show."""
        return {name: FrozenMark(one.since, self._stale.get(name, ())) for name, one in self._frozen.items()}

    async def load(self) -> None:
        """Take what is kept for this flow. Raises StorageError."""
        if self._engine.history is not None:
            self._take(await self._engine.history.frozen(self._source))

    def _take(self, kept: dict[str, str]) -> None:
        for agent, data in kept.items():
            if self._document.spec.agent(agent) is None:
                continue
            try:
                self._frozen[agent] = msgspec.json.decode(data, type=Frozen)
            except msgspec.MsgspecError:
                continue  # of another version of the program
        self.check()

    async def freeze(self, run: RecordedRun, agents: Iterable[str]) -> None:
        """Keep what agents answered in a run. Raises FlowError when there is nothing to keep, and StorageError."""
        spec = recorded_flow(run).spec
        for name in agents:
            agent, profile = self._built(spec, name)
            kept = replace(freeze(run.events, run.row.id, agent, profile), since=time.time())
            await self._keep(kept)
            self._frozen[name] = kept
        self.check()

    async def thaw(self, agents: Iterable[str]) -> None:
        """Ask agents again from the next run on. Raises StorageError."""
        for name in agents:
            self._frozen.pop(name, None)
            async with self._writing:
                await self._engine.recorded.thaw(self._source, name)
        self.check()

    async def saved(self, source: str) -> None:
        """The flow is saved under this path: so are its frozen agents, by their names now. Raises StorageError.

        Under a path it had before they stay as they are, as its file does.
        """
        self._source = source
        history = self._engine.history
        if history is None:
            return
        async with self._writing:
            kept = await history.frozen(source)
            for name in kept.keys() - self._frozen.keys():
                await history.thaw(source, name)
            for name, one in list(self._frozen.items()):
                data = msgspec.json.encode(one).decode()
                if kept.get(name) != data:
                    await history.keep_frozen(source, name, data)

    async def _keep(self, kept: Frozen) -> None:
        async with self._writing:
            await self._engine.recorded.keep_frozen(self._source, kept.agent, msgspec.json.encode(kept).decode())

    def check(self) -> None:
        """Compare with the flow and the profiles as they are now."""
        spec, stale = self._document.spec, dict(self._stale)
        for name, one in self._frozen.items():
            if spec.agent(name) is None:
                continue
            try:
                stale[name] = stale_reasons(one, *self._built(spec, name))
            except EngineError:
                continue  # what is wrong is told elsewhere; what was known last still holds
        self._stale = {name: stale[name] for name in self._frozen if name in stale}
        if self._shown != self.marks():
            self._shown = self.marks()
            self.changed.emit()

    def _built(self, spec: FlowSpec, name: str) -> tuple[Agent, ModelProfile]:
        """An agent as it runs, with the profile it asks; raises EngineError."""
        found = spec.agent(name)
        plugins = self._plugins(spec)
        try:
            # Only what an answer comes of: faults of other agents, and of its ways on, do not matter here.
            bare = (
                replace(found, before=(), after=(), routes=(), merge=None, gather=False, state=None) if found else None
            )
            flow = build_flow(replace(spec, agents=(bare,) if bare else (), start=name), plugins=plugins)
        except EngineError:
            flow = build_flow(spec, origin=self._document.origin, plugins=plugins)
        agent = flow.agent(name)
        return agent, self._engine.resolve(agent.model(Context({})))

    def _follow_names(self, before: FlowSpec, after: FlowSpec) -> None:
        for old, new in renamed_agents(before, after).items():
            if old in self._frozen:
                kept = replace(self._frozen.pop(old), agent=new)
                self._frozen[new] = kept
                self._stale[new] = self._stale.pop(old, ())
        self.check()
