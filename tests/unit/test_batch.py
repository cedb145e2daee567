"""A batch commits each row once, whatever ends it, and goes on where it was."""

import asyncio
import os
import sqlite3
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from engine import batch as module
from engine.batch_store import BatchStore
from engine.batch_values import BatchProgress, RowResult
from engine.conversation import ToolCall, ToolDefinition
from engine.errors import BatchError, BudgetExceeded, ConnectFailed, DatasetInvalid, ServerError, StorageError
from engine.flow.agent import Agent, Next
from engine.flow.flow_spec import AgentType
from engine.flow.tools import Tool
from engine.process_identity import start_mark
from tests.helpers.batches import Bench
from tests.helpers.scripted_completer import Reply, Request

TEXTS = [f"text {number}" for number in range(1, 31)]


def echo(request: Request) -> str:
    return f"so: {request.prompt}"


def statuses(results: list[RowResult]) -> dict[int, str]:
    return {result.row: result.status for result in results}


async def test_each_row_is_run_once_by_few_workers(tmp_path: Path) -> None:
    told: list[tuple[BatchProgress, RowResult | None]] = []
    gate = asyncio.Event()
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(lambda request: Reply(content=echo(request), gate=gate), concurrency=3)
        task = asyncio.create_task(batch.run(lambda how, row: told.append((how, row))))
        while bench.engine.completer.running < 3:
            await asyncio.sleep(0.001)
        gate.set()
        progress = await task
        results = await bench.results(batch)
    assert Counter(bench.asked) == Counter(TEXTS)
    assert bench.engine.completer.peak == 3
    assert [result.outputs for result in results] == [{"response": [f"so: {text}"]} for text in TEXTS]
    assert {result.status for result in results} == {"finished"}
    assert [(result.row, result.line) for result in results] == [(row, row + 1) for row in range(1, 31)]
    assert (progress.status, progress.finished, progress.left, progress.running) == ("finished", 30, 0, 0)
    assert (progress.statistics.requests, progress.statistics.in_tokens) == (30, 300)
    assert sorted(row.row for _, row in told if row) == list(range(1, 31))
    assert [how.total - how.left for how, row in told if row] == list(range(1, 31))
    assert told[-1] == (progress, None)
    assert (await bench.store.batch(batch.id)).done == {"finished": 30}


async def test_300_rows_hold_little(tmp_path: Path) -> None:
    running: list[int] = []
    async with Bench(tmp_path, [f"{number} {'x' * 1000}" for number in range(300)]) as bench:
        batch = await bench.batch(echo, concurrency=4)
        await batch.run(lambda how, _: running.append(len(asyncio.all_tasks())))
    assert max(running) <= 4 * 3 + 4  # a run has two tasks at most, the store one


async def test_faulty_and_failing_rows_are_results_and_others_go_on(tmp_path: Path) -> None:
    def answer(request: Request) -> str | Exception:
        return ServerError("The server is tired.") if request.prompt == "b" else echo(request)

    async with Bench(tmp_path, ["a", "b", "", "d"]) as bench:
        batch = await bench.batch(answer)
        progress = await batch.run()
        results = await bench.results(batch)
    assert statuses(results) == {1: "finished", 2: "failed", 3: "invalid", 4: "finished"}
    assert (progress.status, progress.finished, progress.failed, progress.invalid) == ("failed", 2, 1, 1)
    failed, invalid = results[1].error, results[2].error
    assert failed is not None
    assert (failed.type, failed.agent, failed.message) == ("GENERAL", "Echo", "The server is tired.")
    assert invalid is not None
    assert (invalid.type, invalid.message) == ("INPUT", 'The input "text": found nothing, expected a text')


async def test_stopping_keeps_what_is_done_and_resuming_runs_the_rest(tmp_path: Path) -> None:
    gate = asyncio.Event()

    def answer(request: Request) -> str | Reply:
        number = TEXTS.index(request.prompt)
        return Reply(content="late", gate=gate) if number >= 10 else echo(request)

    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(answer, concurrency=4)
        progress = await batch.run(lambda how, row: batch.stop() if how.finished == 10 else None)
        assert (progress.status, progress.finished, progress.left) == ("stopped", 10, 20)
        assert (await bench.store.batch(batch.id)).status == "stopped"
        again = await bench.batch(echo, resume=batch.id)
        assert again.progress().left == 20
        progress = await again.run()
        assert Counter(bench.asked) == Counter(TEXTS[10:])
        assert (progress.status, progress.finished) == ("finished", 30)
        assert progress.statistics.requests == 30
        assert statuses(await bench.results(batch)) == dict.fromkeys(range(1, 31), "finished")


async def test_a_cancelled_batch_is_recorded_as_stopped(tmp_path: Path) -> None:
    started = asyncio.Event()
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch([Reply(content="x", started=started, gate=asyncio.Event())])
        task = asyncio.create_task(batch.run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        record = await bench.store.batch(batch.id)
    assert (record.status, record.done) == ("stopped", {})


async def test_nothing_left_to_do(tmp_path: Path) -> None:
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(echo)
        await batch.run()
        again = await bench.batch(echo, resume=batch.id)
        assert (await again.run()).status == "finished"
        assert bench.asked == []


async def test_another_flow_or_dataset_does_not_go_on(tmp_path: Path) -> None:
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(echo, max_rows=2)
        await batch.run()
        bench.path.write_text("text\nother\n")
        agents = '[{"name": "Echo", "template": "{{text}}!"}, {"name": "New"}]'
        bench.flow_text = f'{{"name": "Echo", "agents": {agents}, "editor": {{"x": 1}}}}'
        with pytest.raises(BatchError) as caught:
            await bench.batch(echo, resume=batch.id)
        assert (
            'the agent "Echo" of the flow has changed; the agent "New" of the flow is new; the dataset has changed'
            in str(caught.value)
        )
        assert '"editor"' not in str(caught.value)
        with pytest.raises(BatchError, match="There is no batch 00000000"):
            await bench.batch(echo, resume="00000000")


async def test_a_batch_that_runs_elsewhere_is_left_alone(tmp_path: Path) -> None:
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(echo)
        await bench.store.close()
        bench.store = BatchStore(tmp_path / "batches.sqlite")
        with sqlite3.connect(tmp_path / "batches.sqlite") as connection:
            parent = os.getppid()
            connection.execute("UPDATE batches SET pid = ?, process_mark = ?", (parent, start_mark(parent)))
        connection.close()
        with pytest.raises(BatchError, match=f"is running, in the process {parent}"):
            await bench.batch(echo, resume=batch.id)
        with sqlite3.connect(tmp_path / "batches.sqlite") as connection:
            connection.execute("UPDATE batches SET process_mark = 'of one that died'")
        connection.close()
        assert (await bench.store.batch(batch.id)).status == "crashed"
        assert (await (await bench.batch(echo, resume=batch.id)).run()).status == "finished"


async def test_failed_rows_are_run_again_when_asked_for(tmp_path: Path) -> None:
    async with Bench(tmp_path, TEXTS[:3]) as bench:
        batch = await bench.batch(lambda request: ServerError("No.") if request.prompt != "text 2" else "good")
        assert (await batch.run()).failed == 2
        assert (await (await bench.batch(echo, resume=batch.id)).run()).failed == 2
        again = await bench.batch(echo, resume=batch.id, retry_failed=True)
        progress = await again.run()
        assert sorted(set(bench.asked)) == ["text 1", "text 3"]
        assert (progress.status, progress.finished, progress.failed, progress.left) == ("finished", 3, 0, 0)


async def test_the_budget_is_overshot_by_the_rows_under_way_at_most(tmp_path: Path) -> None:
    price = Decimal("0.10")
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch([Reply(content="x", cost=price)], concurrency=4, max_cost=Decimal("0.50"))
        progress = await batch.run()
    assert progress.status == "budget"
    assert progress.reason.endswith("of the 0.50 it may cost.")
    assert 5 <= len(bench.asked) <= 5 + 4
    assert progress.finished == len(bench.asked)  # what was under way was paid for and is kept


async def test_a_batch_rests_after_so_many_rows(tmp_path: Path) -> None:
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(echo, concurrency=8, max_rows=5)
        progress = await batch.run()
        assert (progress.status, len(bench.asked)) == ("budget", 5)
        progress = await (await bench.batch(echo, resume=batch.id, max_rows=25)).run()
        assert (progress.status, progress.finished) == ("finished", 30)


async def test_the_limit_of_the_day_ends_a_batch_and_its_rows_are_run_another_day(tmp_path: Path) -> None:
    full = BudgetExceeded("This day has used 1 of the 1 it may cost.", facts={"limit": "day_cost"})
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(["good", full], concurrency=2)
        progress = await batch.run()
        assert (progress.status, progress.finished, progress.failed) == ("budget", 1, 0)
        assert progress.reason == str(full)
        assert len(bench.asked) <= 1 + 2
        assert (await (await bench.batch(echo, resume=batch.id)).run()).finished == 30


async def test_a_batch_without_a_server_gives_up_and_goes_on_later(tmp_path: Path) -> None:
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch([ConnectFailed("Nobody is there.")], concurrency=2)
        progress = await batch.run()
        assert batch.reached_nobody
        assert (progress.status, progress.failed, progress.left) == ("failed", 0, 30)
        assert progress.reason.endswith(" rows found no model server and are left: Nobody is there.")
        assert len({*bench.asked}) in (6, 7)
        again = await bench.batch(echo, resume=batch.id)
        assert (await again.run()).finished == 30


async def test_rows_that_find_no_server_now_and_then_are_left(tmp_path: Path) -> None:
    def answer(request: Request) -> str | Exception:
        return ConnectFailed("Nobody is there.") if request.prompt in ("text 3", "text 9") else echo(request)

    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(answer)
        progress = await batch.run()
        assert (progress.status, progress.finished, progress.left) == ("failed", 28, 2)
        assert progress.reason == "2 rows found no model server and are left: Nobody is there."
        assert not batch.reached_nobody
        again = await bench.batch(echo, resume=batch.id)
        assert (await again.run()).status == "finished"
        assert sorted(bench.asked) == ["text 3", "text 9"]


async def test_a_dataset_that_grows_meanwhile(tmp_path: Path) -> None:
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(echo)
        with bench.path.open("a") as file:
            file.write("one more\n")
        with pytest.raises(DatasetInvalid, match="more than 30 rows; the file has changed"):
            await batch.run()


# -- limits of each run ---------------------------------------------------------------------------------------------


async def test_a_flow_that_never_ends_meets_the_limit_of_steps_in_each_row(tmp_path: Path) -> None:
    loop = Agent(
        "Echo", AgentType.COMPLETION, template="{{text}}", choose_next=lambda _: Next("Echo"), targets=["Echo"]
    )
    async with Bench(tmp_path, TEXTS[:3], loop) as bench:
        batch = await bench.batch(echo)
        progress = await batch.run()
        results = await bench.results(batch)
    assert Counter(bench.asked) == Counter(dict.fromkeys(TEXTS[:3], 200))
    assert {result.status for result in results} == {"budget"}
    assert (progress.status, progress.failed) == ("failed", 3)
    assert results[0].error is not None
    assert "200" in results[0].error.message


def stubborn(request: Request) -> Reply:
    """A model that always calls the tool."""
    number = len(request.conversation.turns)
    return Reply(tool_calls=(ToolCall(id=f"c{number}", name="send", arguments=f'{{"text": "{number}"}}'),))


def sender(sent: list[str], *, side_effects: bool) -> Tool:
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    definition = ToolDefinition(name="send", description="Sends a text.", parameters=parameters)
    return Tool(definition=definition, function=lambda text: sent.append(text) or "sent", side_effects=side_effects)


async def test_a_model_that_always_calls_tools_meets_the_limit_of_calls_in_each_row(tmp_path: Path) -> None:
    sent: list[str] = []
    agent = Agent(
        "Echo",
        AgentType.COMPLETION,
        template="{{text}}",
        tools=[sender(sent, side_effects=False)],
        max_tool_rounds=1000,
    )
    async with Bench(tmp_path, TEXTS[:2], agent) as bench:
        batch = await bench.batch(stubborn)
        progress = await batch.run()
        results = await bench.results(batch)
    assert len(sent) == 2 * 100
    assert {result.status for result in results} == {"budget"}
    assert progress.failed == 2


# -- tools that act ---------------------------------------------------------------------------------------------------


def acts_once(request: Request) -> Reply | str:
    return "done" if any(turn.role.value == "tool" for turn in request.conversation.turns) else stubborn(request)


async def test_a_row_whose_tools_acted_is_not_repeated_unasked(tmp_path: Path) -> None:
    sent: list[str] = []
    agent = Agent("Echo", AgentType.COMPLETION, template="{{text}}", tools=[sender(sent, side_effects=True)])
    hanging = asyncio.Event()

    def dies_after_acting(request: Request) -> Reply | str:
        answer = acts_once(request)
        if answer == "done" and request.conversation.turns[0].text == "text 2":
            hanging.set()
            return Reply(content="never", gate=asyncio.Event())
        return answer

    async with Bench(tmp_path, TEXTS[:3], agent) as bench:
        batch = await bench.batch(dies_after_acting, concurrency=1, allow_tool=lambda *_: True)
        task = asyncio.create_task(batch.run())
        await hanging.wait()
        task.cancel()
        await asyncio.wait([task])
        assert len(sent) == 2
        assert statuses(await bench.results(batch)) == {1: "finished", 2: "acting"}

        again = await bench.batch(acts_once, resume=batch.id, allow_tool=lambda *_: True)
        assert again.acted == [2]
        progress = await again.run()
        assert (progress.status, progress.finished, progress.left, progress.acted) == ("stopped", 2, 1, 1)
        assert progress.reason == "1 row was left: tools with side effects have already run there."
        assert len(sent) == 3

        last = await bench.batch(acts_once, resume=batch.id, allow_tool=lambda *_: True, repeat_effects=True)
        progress = await last.run()
        assert (progress.status, progress.finished) == ("finished", 3)
        assert len(sent) == 4
        results = await bench.results(batch)
    assert [result.effects for result in results] == [("send",)] * 3


async def test_a_tool_does_not_act_when_that_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    agent = Agent("Echo", AgentType.COMPLETION, template="{{text}}", tools=[sender(sent, side_effects=True)])
    async with Bench(tmp_path, TEXTS[:1], agent) as bench:
        batch = await bench.batch(acts_once, allow_tool=lambda *_: True)
        commit = bench.store.commit

        async def failing(batch_id: str, result: RowResult) -> None:
            if result.status == "acting":
                raise StorageError("The disk is full.")
            await commit(batch_id, result)

        monkeypatch.setattr(bench.store, "commit", failing)
        assert (await batch.run()).finished == 1
    assert sent == []


async def test_a_tool_that_is_not_allowed_leaves_no_mark(tmp_path: Path) -> None:
    sent: list[str] = []
    agent = Agent("Echo", AgentType.COMPLETION, template="{{text}}", tools=[sender(sent, side_effects=True)])
    async with Bench(tmp_path, TEXTS[:1], agent) as bench:
        batch = await bench.batch(acts_once)
        await batch.run()
        assert [(result.status, result.effects) for result in await bench.results(batch)] == [("finished", ())]
    assert sent == []


# -- a disk that fails ------------------------------------------------------------------------------------------------


class FailingDisk:
    """Lets transactions fail while `full`."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.failed = 0
        self._work = bench.store._transaction
        monkeypatch.setattr(bench.store, "_transaction", self.transaction)
        monkeypatch.setattr(module, "DISK_PAUSE", 0.01)

    def transaction(self, work: object) -> None:
        if self.full:
            self.failed += 1
            raise StorageError("The database batches.sqlite cannot be used: database or disk is full.")
        self._work(work)  # type: ignore[arg-type]


async def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[str] = []
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(echo, concurrency=3)
        disk = FailingDisk(bench, monkeypatch)

        def told(how: BatchProgress, row: RowResult | None) -> None:
            if how.finished == 5 and not disk.failed:
                disk.full = True
            if how.fault:
                faults.append(how.fault)

        task = asyncio.create_task(batch.run(told))
        while disk.failed < 5:
            await asyncio.sleep(0.005)
        assert len(bench.asked) <= batch.progress().finished + 3  # nobody asks for more than can be kept
        disk.full = False
        progress = await task
        assert (progress.status, progress.finished, progress.fault) == ("finished", 30, "")
        assert "disk is full" in faults[0]
        assert len(await bench.results(batch)) == 30
    assert Counter(bench.asked) == Counter(TEXTS)


async def test_a_disk_that_stays_full_ends_the_batch_which_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Bench(tmp_path, TEXTS) as bench:
        batch = await bench.batch(echo, concurrency=3, disk_patience=0.05)
        disk = FailingDisk(bench, monkeypatch)

        def told(how: BatchProgress, row: RowResult | None) -> None:
            disk.full = disk.full or how.finished == 5

        with pytest.raises(StorageError, match="disk is full"):
            await batch.run(told)
        disk.full = False
        progress = await (await bench.batch(echo, resume=batch.id)).run()
        assert progress.finished == 30
        assert len(bench.asked) <= 25


async def test_a_batch_that_cannot_be_recorded_does_not_begin(tmp_path: Path) -> None:
    async with Bench(tmp_path, TEXTS) as bench:
        (tmp_path / "batches.sqlite").mkdir()
        with pytest.raises(StorageError):
            await bench.batch(echo)
    assert bench.asked == []


async def test_half_characters_of_a_model_are_kept_as_marks(tmp_path: Path) -> None:
    async with Bench(tmp_path, ["a"]) as bench:
        batch = await bench.batch(["half \ud83d"])
        await batch.run()
        assert (await bench.results(batch))[0].outputs == {"response": ["half \ufffd"]}
