"""Batches over an engine whose model is scripted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine import Agent, AgentType, Context, Engine, Flow, ProfileStore, Run
from engine.batch import Batch
from engine.batch_store import BatchStore
from engine.batch_values import BatchJob, BatchOptions, RowResult
from engine.dataset import Dataset, check_dataset
from engine.flow.flow_spec import FlowSpec, InputSpec
from tests.helpers.scripted_completer import Answers, ScriptedCompleter

SPEC = FlowSpec(name="Echo", inputs=(InputSpec(key="text", type="text", required=True),), outputs=("response",))
ECHO = Agent("Echo", AgentType.COMPLETION, template="{{text}}")


class ScriptedEngine(Engine):
    """An engine whose runs ask a script."""

    def __init__(self, answers: Answers, folder: Path) -> None:
        super().__init__(profiles=ProfileStore(folder / "profiles"))
        self.completer = ScriptedCompleter(answers)

    def run(self, flow: Flow, context: Context, **given: Any) -> Run:
        return Run(flow, context, self.completer, allow_tool=given["allow_tool"])


class Bench:
    """A folder with a dataset, a flow and a store; each `batch` has a new engine and store, as after a restart."""

    def __init__(self, folder: Path, texts: Sequence[str], *agents: Agent, name: str = "data.csv") -> None:
        self.folder = folder
        self.path = folder / name
        self.path.write_text("text\n" + "".join(f"{json.dumps(text)}\n" for text in texts))
        self.flow = Flow(name="Echo", agents=agents or (ECHO,), inputs=SPEC.inputs, outputs=SPEC.outputs)
        self.store = BatchStore(folder / "batches.sqlite")
        self.flow_text = '{"name": "Echo", "agents": [{"name": "Echo", "template": "{{text}}"}]}'
        self.engine = ScriptedEngine(["unused"], folder)

    async def __aenter__(self) -> "Bench":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()

    async def batch(self, answers: Answers, resume: str = "", **options: Any) -> Batch:
        self.engine = ScriptedEngine(answers, self.folder)
        dataset = Dataset(self.path)
        check = check_dataset(dataset, SPEC, {})
        job = BatchJob(flow="Echo", flow_text=self.flow_text, dataset=str(self.path), dataset_digest=check.digest)
        parts: dict[str, Any] = {"flow": self.flow, "spec": SPEC, "dataset": dataset, "rows": check.rows}
        parts["options"] = BatchOptions(**options)
        if resume:
            return await Batch.resume(resume, self.engine, self.store, job, **parts)
        return await Batch.begin(self.engine, self.store, job, **parts)

    async def results(self, batch: Batch) -> list[RowResult]:
        return await self.store.results(batch.id, limit=100_000)

    @property
    def asked(self) -> list[str]:
        """What the model was asked by the last batch."""
        return [request.prompt for request in self.engine.completer.requests]
