"""The picture of a canvas as a file."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication

from engine.flow.flow_spec import FlowSpec
from tests.helpers.sample_flows import chain, sample
from workbench.export_picture import png, svg
from workbench.theme import DARK, LIGHT, theme


@pytest.mark.parametrize("scheme", [DARK, LIGHT])
def test_a_png_shows_the_cards_in_the_colours_of_the_theme(qapp: QApplication, scheme: str) -> None:
    theme.choose(scheme)
    image = QImage.fromData(png(sample("release-announcement")))
    assert image.width() > image.height() > 200
    seen = {image.pixelColor(x, y).name() for x in range(0, image.width(), 7) for y in range(0, image.height(), 7)}
    assert {QColor(theme.hex(token)).name() for token in ("bg.canvas", "bg.card")} <= seen
    theme.choose(DARK)


def test_an_svg_holds_names_as_text(qapp: QApplication) -> None:
    root = ElementTree.fromstring(svg(chain("Writer <1>", "Next")))
    assert root.tag.endswith("svg")
    texts = list(root.itertext())
    assert "Writer <1>" in texts
    assert "Next" in texts
    assert not list(root.iter("{http://www.w3.org/2000/svg}image"))


@pytest.mark.parametrize("form", [png, svg])
def test_a_flow_without_agents_is_an_empty_picture(qapp: QApplication, form: object) -> None:
    assert callable(form)
    assert len(form(FlowSpec(name="Empty"))) > 50


def test_a_very_long_flow_is_drawn_smaller(qapp: QApplication) -> None:
    image = QImage.fromData(png(chain(*map("A{}".format, range(60)))))
    assert 15_990 <= image.width() <= 16_000


def test_the_command_writes_both(tmp_path: Path) -> None:
    for form, mark in (("svg", b"<?xml"), ("png", b"\x89PNG")):
        path = tmp_path / f"flow.{form}"
        command = [sys.executable, "-m", "workbench", "export", "thinking", "--to", form, "-o", str(path)]
        subprocess.run(command, check=True, timeout=120)
        assert path.read_bytes().startswith(mark)
