"""Turns a wire tape into a test that needs nobody: a pytest file with the tape and the flow beside it."""

import shutil
from importlib.metadata import version
from pathlib import Path
from pprint import pformat
from string import Template

from engine.atomic_file import write_atomically
from engine.clients.tape_file import RecordedTape
from engine.clients.tape_lines import TapeEnd
from engine.errors import FlowFileError, StorageError
from engine.flow.abilities import inner_flows, needs_folder
from engine.flow.flow_file import flow_text, read_flow
from engine.flow.subflow_files import FlowFiles, origin_path
from engine.plugin_folder import FOLDER_NAME, PluginFolder

WIDTH = 110


def write_offline_test(tape: RecordedTape, folder: Path, name: str) -> Path:
    """Write `test_NAME.py`, `NAME.tape.jsonl`, `NAME.flow.json` and what the flow needs beside it; the test's path.

    `name` is a Python name. Files of the same names are replaced. Raises StorageError for a tape that breaks off or a
    folder that cannot be written, FlowError for a flow that cannot be read.
    """
    end = tape.end
    if end is None:
        raise StorageError(
            f"The tape {tape.path.name} breaks off: what the run came to is not on it.",
            hint="Record the run again and let it end.",
            facts={"path": str(tape.path)},
        )
    files = _flow_files(tape, name)
    files[f"test_{name}.py"] = _source(tape, end, name).encode()
    copy = folder / f"{name}.tape.jsonl"
    try:
        for place in files:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or not copy.samefile(tape.path):
            shutil.copyfile(tape.path, copy)
    except OSError as error:
        raise StorageError(
            f"The test cannot be written into {folder}: {error.strerror or error}.",
            hint="Choose another folder.",
            facts={"path": str(folder)},
        ) from error
    for place, data in files.items():
        write_atomically(folder / place, data)
    return folder / f"test_{name}.py"


def _flow_files(tape: RecordedTape, name: str) -> dict[str, bytes]:
    """The flow as it was run, and beside it the flows and plug-ins it uses, as they are now."""
    start = tape.start
    spec = read_flow(start.flow_text, name=start.flow).spec
    inner = inner_flows(spec, FlowFiles(start.flow_origin))
    files = {f"{name}.flow.json": start.flow_text.encode()}
    for place, one in inner.items():
        if Path(place).is_absolute() or ".." in Path(place).parts:
            raise FlowFileError(
                f'The flow runs "{place}", which does not lie beside it, so that the test would not find it.',
                hint="Put that file beside the flow, or below, and record the run again.",
            )
        files[place] = flow_text(one).encode()
    path = origin_path(start.flow_origin)
    if path is not None and any(map(needs_folder, (spec, *inner.values()))):
        beside = PluginFolder.beside(path)
        files |= {f"{FOLDER_NAME}/{file}": data for file, data in (beside.files if beside else {}).items()}
    return files


def _source(tape: RecordedTape, end: TapeEnd, name: str) -> str:
    results = [(one.trace, one.error) for one in end.results]
    return Template(_TEST).substitute(
        flow=" ".join(tape.start.flow.replace("\\", "").replace('"', "'").split()),
        run=tape.start.run_id,
        recorded=tape.start.recorded,
        version=version("flow-workbench"),
        name=name,
        status=repr(end.status),
        outputs=_literal(end.outputs),
        results=_literal(results),
    )


def _literal(value: object) -> str:
    return pformat(value, width=WIDTH, sort_dicts=False)


_TEST = '''"""Plays run $run of the flow "$flow", recorded $recorded: no model is called, the tape answers.

Made by Flow Workbench $version; run it with `pytest`.
"""

import asyncio
import json
from pathlib import Path

from engine import Engine, RecordedTape, load_flow

HERE = Path(__file__).parent
FLOW = HERE / "$name.flow.json"
TAPE = HERE / "$name.tape.jsonl"

STATUS = $status
OUTPUTS = $outputs
RESULTS = $results
"""Trace and error of each context at the end."""


async def played():
    """The last event of the run."""
    async with Engine() as engine, await engine.replaying(RecordedTape(TAPE)) as player:
        flow = engine.access.build(load_flow(FLOW).spec, FLOW, once=True)
        async with player.replay(flow) as run:
            async for _ in run:
                pass
        return run.finished


def test_$name():
    finished = asyncio.run(played())
    outputs = json.loads(json.dumps(finished.outputs, default=str))
    results = [(one.trace, one.error.message if one.error else "") for one in finished.results]
    assert (finished.status, outputs, results) == (STATUS, OUTPUTS, RESULTS)
'''
