"""Prompts on the command line: listed, shown, compared, taken back."""

import json
from pathlib import Path

import pytest

from engine.cli import main
from engine.prompt_library import PromptLibrary

KEY = "react.base_prompt"


def run(home: Path, capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["--data-dir", str(home), "prompts", *arguments]) == status
    told = capsys.readouterr()
    return told.out if status == 0 else told.err


def test_prompts_are_listed_shown_compared_and_reset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = PromptLibrary(tmp_path / "prompts")
    library.save(KEY, "en", "Be brief. {{nobody}}\n")
    listed = json.loads(run(tmp_path, capsys, "list", "--json"))
    assert [entry["language"] for entry in listed if entry["differs"]] == ["en"]
    assert f"{KEY}" in run(tmp_path, capsys, "list")
    assert run(tmp_path, capsys, "show", KEY) == "Be brief. {{nobody}}\n"
    shown = json.loads(run(tmp_path, capsys, "show", KEY, "--json"))
    assert (shown["shipped"], shown["version"]) == (False, library.find(KEY).version)
    assert (shown["problems"][0]["line"], shown["problems"][0]["column"]) == (1, 11)
    assert "+Be brief. {{nobody}}" in run(tmp_path, capsys, "diff", KEY)
    assert json.loads(run(tmp_path, capsys, "diff", KEY, "--language", "zh", "--json"))["differs"] is False
    assert json.loads(run(tmp_path, capsys, "reset", KEY, "--json"))["reset"] is True
    assert library.find(KEY).shipped
    assert run(tmp_path, capsys, "diff", KEY) == ""
    assert run(tmp_path, capsys, "reset", KEY) == ""


def test_an_unknown_prompt_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("show", "diff", "reset"):
        assert 'found "nobody.prompt", expected one that' in run(tmp_path, capsys, command, "nobody.prompt", status=2)
