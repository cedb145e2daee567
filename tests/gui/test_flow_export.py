"""File ▸ Export in the window: the flow in front as it is now, in the form the name of the file says."""

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog

from engine.folders import Folders
from tests.helpers.model_answers import flow_file, write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import choose_file, opened
from workbench.designer.edits import change_agent

pytestmark = pytest.mark.usefixtures("qapp")

KEY = "sk-proj-abcdefghijklmnopqrstuvwx0123456789"


def test_a_flow_is_written_as_picture_diagram_and_script_as_it_is_now(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "Write."})

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.tab.editor.edit("Rename", change_agent(bench.tab.document.spec, "Writer", template="Write, now."))
            for name in ("flow.png", "flow.svg", "flow.mmd", "flow.py"):
                bench.trigger("export_flow")
                dialog = await bench.dialog(QFileDialog)
                assert dialog.selectedFiles()[0].endswith(".png")
                assert len(dialog.nameFilters()) == 4
                await choose_file(bench, tmp_path / name)
                await bench.until(lambda name=name: f"The flow was exported as {name}." in bench.banner_texts())

    run_qt(story())
    image = QImage(str(tmp_path / "flow.png"))
    assert image.width() > 200
    assert "Writer" in (tmp_path / "flow.svg").read_text()
    assert (tmp_path / "flow.mmd").read_text().count("Writer") == 1
    script = (tmp_path / "flow.py").read_text()
    assert "Write, now." in script
    assert subprocess.run([sys.executable, "-m", "py_compile", str(tmp_path / "flow.py")], check=False).returncode == 0


def test_a_flow_with_a_key_or_an_error_is_not_written(tmp_path: Path) -> None:
    write_profile(Folders(tmp_path / "home"), "mine", "http://127.0.0.1:9", apiKey=KEY)
    secret = flow_file(tmp_path / "secret.flow.json", {"name": "Writer", "template": f"The key is {KEY}."})
    faulty = flow_file(tmp_path / "faulty.flow.json", {"name": "Writer", "template": "x", "routes": [{"to": "Nobody"}]})

    async def story() -> None:
        async with opened(tmp_path / "home", [secret, faulty]) as bench:
            refused = "The flow was not exported: it holds a text"
            for place, name, said in ((0, "secret.svg", refused), (1, "faulty.py", "Nobody")):
                bench.window.tabs.setCurrentIndex(place)
                bench.trigger("export_flow")
                await choose_file(bench, tmp_path / name)
                await bench.until(lambda said=said: any(said in text for text in bench.banner_texts()))
                assert not (tmp_path / name).exists()

    run_qt(story())
