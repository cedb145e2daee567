"""The page about recorded runs tells the truth."""

import re
from pathlib import Path

from engine.cli_runs import runs_app

PAGE = (Path(__file__).parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")


def test_it_names_every_command_but_the_plain_ones() -> None:
    commands = {command.name for command in runs_app.registered_commands} - {"list", "show"}
    assert commands == set(re.findall(r"workbench runs (\w+)", PAGE)) - {"list", "show"}
