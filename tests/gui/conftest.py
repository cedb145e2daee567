"""Every test of the window has a heartbeat: where the window was not alive is told at the end."""

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication

from tests.helpers.heartbeat import LATE, Heartbeat

late: dict[str, tuple[float, str]] = {}
"""Test → how late its worst beat was, in seconds, and where the window's thread was then."""


@pytest.fixture(autouse=True)
def heartbeat(request: pytest.FixtureRequest) -> Iterator[None]:
    """Beat during the test, unless it counts the turns of the loop itself."""
    if request.path.name.startswith("test_event_loop") or "qapp" not in request.fixturenames:
        yield
        return
    assert isinstance(request.getfixturevalue("qapp"), QApplication)
    heart = Heartbeat()
    yield
    heart.stop()
    if heart.dumps:
        late[request.node.nodeid] = (heart.percentile(1), heart.dumps[0])
        request.node.add_report_section("call", "heartbeat", "\n".join(heart.dumps))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell of the worst."""
    if late:
        name, (seconds, _) = max(late.items(), key=lambda item: item[1][0])
        worst = f"at most {seconds * 1000:.0f} ms: {name}"
        terminalreporter.write_line(f"heartbeat: over {LATE * 1000:.0f} ms late in {len(late)} tests, {worst}")
