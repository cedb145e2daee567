"""The names of asyncio and qasync that are not documented and that the event loop uses: all must exist."""

import ast
import asyncio
from pathlib import Path

import pytest
from qasync import QEventLoop

import workbench.qasync_loop
from workbench.qasync_loop import Handle, QasyncLoop


def declared_names() -> dict[str, set[str]]:
    """Every name that the typed classes declare, by class."""
    tree = ast.parse(Path(workbench.qasync_loop.__file__).read_text(encoding="utf-8"))
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names = {
                item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and hasattr(item.target, "id")
            }
            found[node.name] = names | {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    return found


def missing(names: set[str], thing: object) -> set[str]:
    return {name for name in names if not hasattr(thing, name)}


def test_the_base_class_is_qasyncs() -> None:
    assert QasyncLoop is QEventLoop
    assert Handle is asyncio.Handle


@pytest.mark.usefixtures("qapp")
def test_every_undocumented_name_exists() -> None:
    declared = declared_names()
    assert {len(declared[name]) > 0 for name in ("Handle", "TimerHandle", "QasyncLoop")} == {True}
    loop = QEventLoop()
    timer = loop.call_later(0, print)
    handle = asyncio.TimerHandle(0.0, print, (), loop)
    assert missing(declared["Handle"] | declared["TimerHandle"], handle) == set()
    assert missing(declared["QasyncLoop"], loop) == set()
    assert "no_such_name" in missing({"no_such_name"}, loop)
    timer.cancel()
    loop.close()


def test_names_used_outside_the_loop_class_exist() -> None:
    assert callable(asyncio.base_events._format_handle)  # type: ignore[attr-defined]
    assert callable(asyncio.tasks._enter_task)
    assert callable(asyncio.tasks._leave_task)
    assert callable(asyncio.events._set_running_loop)
