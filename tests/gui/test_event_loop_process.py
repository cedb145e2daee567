"""Signals and quitting, on both classes of loop, each case in a process of its own."""

import os

import pytest

from tests.helpers.loop_process import run_script
from tests.helpers.qt_loop import both_loops
from workbench.event_loop import PortableLoop

unix_only = pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
LoopClass = type[PortableLoop]


@unix_only
@both_loops
def test_ctrl_c_cancels_main_of_an_idle_loop(loop_class: LoopClass) -> None:
    lines = run_script(
        loop_class,
        """
        async def main():
            print("ready")
            try:
                await asyncio.sleep(600)
            finally:
                await asyncio.sleep(0.01)
                print("cleaned up")
        try:
            run(main())
        except KeyboardInterrupt:
            print("KeyboardInterrupt")
        """,
        interrupt=True,
    )
    assert lines == ["cleaned up", "KeyboardInterrupt"]


@unix_only
@both_loops
def test_ctrl_c_without_a_runner(loop_class: LoopClass) -> None:
    lines = run_script(
        loop_class,
        """
        loop = Loop(app)
        async def main():
            print("ready")
            await asyncio.sleep(600)
        task = loop.create_task(main())
        try:
            loop.run_until_complete(task)
        except KeyboardInterrupt:
            print("KeyboardInterrupt", loop.is_running())
        task.cancel()
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            print("usable afterwards", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        loop.close()
        """,
        interrupt=True,
    )
    assert lines == ["KeyboardInterrupt False", "usable afterwards True"]


@both_loops
def test_quit_cancels_main_which_cleans_up(loop_class: LoopClass) -> None:
    lines = run_script(
        loop_class,
        """
        announced = []
        app.aboutToQuit.connect(lambda: announced.append(1))
        async def main():
            QTimer.singleShot(1, app.quit)
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
                print("cleaned up")
                return "result"
        print(run(main()), len(announced))
        """,
    )
    assert lines == ["cleaned up", "result 1"]


@both_loops
def test_quit_with_a_main_that_refuses(loop_class: LoopClass) -> None:
    lines = run_script(
        loop_class,
        """
        Loop.quit_grace = 0.3
        async def main():
            QTimer.singleShot(1, app.quit)
            for _ in range(2):
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    print("cancelled")
        try:
            run(main())
        except RuntimeError as error:
            print(error)
        """,
    )
    assert lines == ["cancelled", "cancelled", "Event loop stopped before Future completed."]


@both_loops
def test_about_to_quit_may_end_main(loop_class: LoopClass) -> None:
    lines = run_script(
        loop_class,
        """
        async def main():
            closing = asyncio.Event()
            app.aboutToQuit.connect(closing.set)
            QTimer.singleShot(1, app.quit)
            await closing.wait()
            return "normal end"
        print(run(main()))
        """,
    )
    assert lines == ["normal end"]


@both_loops
def test_system_exit_after_quit_comes_out(loop_class: LoopClass) -> None:
    lines = run_script(
        loop_class,
        """
        async def main():
            closing = asyncio.Event()
            app.aboutToQuit.connect(closing.set)
            QTimer.singleShot(1, app.quit)
            await closing.wait()
            raise SystemExit(7)
        try:
            run(main())
        except SystemExit as error:
            print("exit", error.code)
        """,
    )
    assert lines == ["exit 7"]


@both_loops
def test_run_application_returns_the_exit_code(loop_class: LoopClass) -> None:
    lines = run_script(
        loop_class,
        """
        from workbench.event_loop import run_application
        async def ends():
            await asyncio.sleep(0.001)
            return 3
        async def quits():
            QTimer.singleShot(1, app.quit)
            await asyncio.sleep(600)
        async def cancels_itself():
            raise asyncio.CancelledError
        print(run_application(app, ends()), run_application(app, quits()))
        try:
            run_application(app, cancels_itself())
        except asyncio.CancelledError:
            print("not hidden")
        """,
    )
    assert lines == ["3 0", "not hidden"]


@unix_only
@both_loops
def test_run_application_returns_130_after_ctrl_c(loop_class: LoopClass) -> None:
    lines = run_script(
        loop_class,
        """
        from workbench.event_loop import run_application
        async def main():
            print("ready")
            await asyncio.sleep(600)
        print(run_application(app, main()))
        """,
        interrupt=True,
    )
    assert lines == ["130"]
