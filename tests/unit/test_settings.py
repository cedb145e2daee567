"""What the window remembers, and what it makes of a damaged file."""

from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray

from workbench.settings import Settings


def _reopened(settings: Settings, path: Path) -> Settings:
    settings.sync()
    return Settings(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "settings.ini"


def test_the_first_start_has_defaults(path: Path) -> None:
    settings = Settings(path)
    assert (settings.theme, settings.zoom, settings.reduced_motion) == ("system", 1.0, False)
    assert (settings.open_documents, settings.recent, settings.inputs("flow")) == ([], [], {})
    assert (settings.has_run, settings.offline, settings.model_file) == (False, False, "")
    assert settings.window() == (QByteArray(), QByteArray())


def test_everything_comes_back_at_the_next_start(path: Path) -> None:
    settings = Settings(path)
    settings.theme, settings.zoom, settings.reduced_motion = "dark", 1.25, True
    settings.open_documents = ["release-announcement", "/tmp/a, b.flow.json"]
    settings.has_run, settings.offline, settings.model_file = True, True, "/models/ü.gguf"
    settings.set_window(QByteArray(b"\0geometry"), QByteArray(b"\xffstate"))
    after = _reopened(settings, path)
    assert (after.theme, after.zoom, after.reduced_motion) == ("dark", 1.25, True)
    assert after.open_documents == ["release-announcement", "/tmp/a, b.flow.json"]
    assert (after.has_run, after.offline, after.model_file) == (True, True, "/models/ü.gguf")
    assert after.window() == (QByteArray(b"\0geometry"), QByteArray(b"\xffstate"))
    after.forget_window()
    assert _reopened(after, path).window() == (QByteArray(), QByteArray())


@pytest.mark.parametrize("documents", [[], ["one"], ["one", "two"]])
def test_lists_of_any_length_come_back(path: Path, documents: list[str]) -> None:
    settings = Settings(path)
    settings.open_documents = documents
    assert _reopened(settings, path).open_documents == documents


def test_recent_flows_are_unique_newest_first_and_ten(path: Path) -> None:
    settings = Settings(path)
    for number in range(12):
        settings.add_recent(f"/{number}.flow.json")
    settings.add_recent("/5.flow.json")
    assert _reopened(settings, path).recent == [f"/{n}.flow.json" for n in (5, 11, 10, 9, 8, 7, 6, 4, 3, 2)]


def test_inputs_belong_to_their_flow(path: Path) -> None:
    settings = Settings(path)
    settings.set_inputs("/home/a/one.flow.json", {"product": "Lamp = 5 %", "n/m": "a\nb", "empty": "", "list": "x, y"})
    settings.set_inputs("/home/a/two.flow.json", {"product": "Chair"})
    settings.set_inputs("/home/a/two.flow.json", {"other": "Table"})
    after = _reopened(settings, path)
    assert after.inputs("/home/a/one.flow.json") == {
        "product": "Lamp = 5 %",
        "n/m": "a\nb",
        "empty": "",
        "list": "x, y",
    }
    assert after.inputs("/home/a/two.flow.json") == {"other": "Table"}


@pytest.mark.parametrize("text", ["[look]\nzoom=large\nreduced_motion=7\ntheme=\n", "\0\0\0 not an ini file [[["])
def test_damage_falls_back_to_defaults(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    settings = Settings(path)
    assert (settings.zoom, settings.reduced_motion) == (1.0, False)
    assert settings.theme in ("system", "dark", "light")


@pytest.mark.parametrize(("text", "zoom"), [("nan", 1.0), ("inf", 1.0), ("-3", 1.0), ("1.5", 1.5)])
def test_a_zoom_that_is_none_is_not_used(path: Path, text: str, zoom: float) -> None:
    path.parent.mkdir()
    path.write_text(f"[look]\nzoom={text}\n", encoding="utf-8")
    assert Settings(path).zoom == zoom
