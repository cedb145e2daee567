"""Trust on the command line: shown, asked for, taken back; a run that lacks it says which command gives it."""

import json
import re
import shutil
from pathlib import Path

import pytest

from engine.cli import main
from engine.plugin_folder import PluginFolder

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def flow(tmp_path: Path) -> str:
    shutil.copytree(DOCS / "examples" / "plugins", tmp_path / "foreign")
    return str(tmp_path / "foreign" / "slogan.flow.json")


def test_a_run_that_needs_trust_names_the_command(flow: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", flow]) == 2
    told = capsys.readouterr().err
    assert 'needs your trust: Runs the function "word_count" of plugins/words.py (and 2 more)' in told
    assert "workbench trust FLOW" in told
    assert "--trust" in told
    assert main(["validate", flow]) == 0


def test_showing_trusting_and_taking_back(flow: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", flow, "--show"]) == 0
    shown = capsys.readouterr().out
    for part in ("was not made or trusted here", '! code: Runs the merge "shortest"', "words.py (", "with your rights"):
        assert part in shown
    assert main(["trust", flow]) == 2  # nobody to ask
    assert "--yes" in capsys.readouterr().err
    assert main(["trust", flow, "--yes", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["restricted"]) == ("trusted", False)
    assert "PLUGINS" in document["parts"]["plugins/words.py"]
    words = Path(flow).parent / "plugins" / "words.py"
    words.write_text(words.read_text().replace("expected one", "expected a single one"))
    assert main(["trust", flow, "--show"]) == 0
    shown = capsys.readouterr().out
    assert "has changed since it was trusted" in shown
    assert "+        raise ValueError" in shown
    assert main(["trust", flow, "--yes"]) == 0
    assert main(["trust", flow, "--revoke"]) == 0
    assert "taken back" in capsys.readouterr().err
    assert main(["trust", flow, "--revoke"]) == 0
    assert "was not trusted" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "status", "state"), [("y", 0, "trusted"), ("n", 1, "foreign"), ("", 1, "foreign")])
def test_the_question(
    flow: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    status: int,
    state: str,
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self, *_: object) -> str:
            return f"{answer}\n"

    monkeypatch.setattr("sys.stdin", Terminal())
    assert main(["trust", flow]) == status
    capsys.readouterr()
    assert main(["trust", flow, "--show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == state


def test_samples_need_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "sort-messages", "--show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["restricted"] is False


@pytest.mark.parametrize("options", [["--show", "--revoke"], ["--yes", "--show"], ["--json"]])
def test_wrong_usage(flow: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", flow, *options]) == 2
    assert capsys.readouterr().err


def test_a_folder_that_is_too_large_is_a_problem(flow: str, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(501):
        (Path(flow).parent / "plugins" / f"{number}.txt").touch()
    assert main(["validate", flow]) == 2
    assert "too large" in capsys.readouterr().out
    assert main(["run", flow]) != 0
    assert "too large" in capsys.readouterr().err


def test_the_page_about_plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, program = re.findall(r"```python\n(.*?)```", (DOCS / "plugins.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "words.py").write_text(folder)
    read = PluginFolder.read(tmp_path / "plugins")
    assert (list(read.plugins), read.faults) == ([("functions", "word_count")], ())
    monkeypatch.chdir(DOCS.parent)
    names: dict[str, object] = {}
    exec(program, names)
    assert "flow" in names
