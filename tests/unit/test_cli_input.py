"""Flows and samples as they are named on the command line."""

from pathlib import Path

import pytest

from engine import FlowError
from engine.cli_input import open_flow, sample_named


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("thinking", "thinking"),
        ("release-announcement", "release-announcement"),
        ("Release announcement", "release-announcement"),
        (" release ANNOUNCEMENT ", "release-announcement"),
        ("release", None),
        ("", None),
    ],
)
def test_a_sample_has_a_name_and_a_title(name: str, sample: str | None) -> None:
    assert sample_named(name) == sample


def test_a_sample_is_opened_by_its_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_flow("Release announcement").spec == open_flow("release-announcement").spec


def test_a_file_wins_over_a_sample_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("thinking").write_text(
        '{"format": "workbench.flow", "version": 1, "name": "Mine", "start": "A", "agents": [{"name": "A"}]}', "utf-8"
    )
    assert open_flow("thinking").spec.name == "Mine"


def test_an_unknown_name_tells_the_names_of_the_samples() -> None:
    with pytest.raises(FlowError, match="no sample named") as raised:
        open_flow("Release note")
    assert "release-announcement" in raised.value.hint
