"""Tasks of the window end with what they were started for."""

import asyncio

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QLabel
from shiboken6 import isValid

from tests.helpers.qt_loop import run_qt
from workbench.tasks import Tasks

pytestmark = pytest.mark.usefixtures("qapp")


def test_a_task_ends_with_the_dialog_it_reads_for() -> None:
    async def story() -> list[str]:
        tasks, told = Tasks(QObject()), []
        label = QLabel()
        read = asyncio.Event()

        async def show() -> None:
            try:
                await read.wait()
                label.setText("read")  # raises when the label is gone
            finally:
                told.append("ended")

        tasks.start(show(), label)
        await asyncio.sleep(0)
        label.deleteLater()
        async with asyncio.timeout(10):
            while isValid(label):
                await asyncio.sleep(0.01)
            read.set()
            while not told:
                await asyncio.sleep(0.01)
        await tasks.close()
        return told

    assert run_qt(story()) == ["ended"]


def test_what_has_no_owner_goes_on() -> None:
    async def story() -> list[str]:
        tasks, told = Tasks(QObject()), []

        async def save() -> None:
            told.append("saved")

        tasks.start(save())
        async with asyncio.timeout(10):
            while not told:
                await asyncio.sleep(0.01)
        return told

    assert run_qt(story()) == ["saved"]


def test_at_the_end_what_saves_is_waited_for_and_the_rest_cancelled() -> None:
    async def story() -> list[str]:
        tasks, told = Tasks(QObject()), []
        written = asyncio.Event()

        async def save() -> None:
            await written.wait()
            told.append("saved")

        async def watch() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                told.append("watched no more")
                written.set()  # the disk is slower than the window

        tasks.start(save(), saves=True)
        tasks.start(watch())
        await asyncio.sleep(0)
        await tasks.close()
        return told

    assert run_qt(story()) == ["watched no more", "saved"]
