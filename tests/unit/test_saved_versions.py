"""The last five saved versions of a flow come back."""

import os
from pathlib import Path

import pytest

from engine.errors import StorageError
from engine.saved_versions import SavedVersions


def save(versions: SavedVersions, path: Path, text: str) -> None:
    versions.keep(path)
    path.write_text(text)


def texts(versions: SavedVersions, path: Path) -> list[str]:
    return [version.read().decode() for version in versions.of(path)]


def test_of_seven_saves_the_five_before_the_last_are_kept(tmp_path: Path) -> None:
    versions, path, other = SavedVersions(tmp_path / "versions"), tmp_path / "a.flow.json", tmp_path / "b.flow.json"
    for number in range(1, 8):
        save(versions, path, f"version {number}")
    assert texts(versions, path) == [f"version {number}" for number in (6, 5, 4, 3, 2)]
    assert texts(versions, other) == []
    times = [version.saved for version in versions.of(path)]
    assert times == sorted(times, reverse=True)
    assert len(list((tmp_path / "versions").rglob("*.version"))) == 5


def test_what_is_the_same_is_kept_once(tmp_path: Path) -> None:
    versions, path = SavedVersions(tmp_path / "versions"), tmp_path / "a.flow.json"
    for text in ("one", "two", "two", "two", "three"):
        save(versions, path, text)
    assert texts(versions, path) == ["two", "one"]


def test_a_clock_set_back_does_not_mix_up_the_order(tmp_path: Path) -> None:
    versions, path = SavedVersions(tmp_path / "versions"), tmp_path / "a.flow.json"
    save(versions, path, "one")
    save(versions, path, "two")
    os.utime(path, (0, 0))
    save(versions, path, "three")
    assert texts(versions, path) == ["two", "one"]


def test_only_the_person_can_read_them(tmp_path: Path) -> None:
    versions, path = SavedVersions(tmp_path / "versions"), tmp_path / "a.flow.json"
    save(versions, path, "one")
    save(versions, path, "two")
    (kept,) = versions.of(path)
    assert kept.file.stat().st_mode & 0o777 == 0o600
    assert kept.file.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "versions").write_text("a file in its place")
    path = tmp_path / "a.flow.json"
    path.write_text("one")
    versions = SavedVersions(tmp_path / "versions")
    assert versions.of(path) == []
    with pytest.raises(StorageError, match="versions"):
        versions.keep(path)
