"""What tests of the command line share: a data folder, and no handlers left behind."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def quiet_engine() -> Iterator[None]:
    """Take away the handlers a command adds, which would write to a stream that is gone."""
    yield
    logging.getLogger("engine").handlers = []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The data folder, as WORKBENCH_HOME says."""
    return tmp_path / "home"
