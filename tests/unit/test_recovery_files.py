"""Unsaved changes survive the program and never touch the user's file."""

import logging
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import StorageError
from engine.recovery_files import RecoveryFiles


def test_keeps_lists_and_discards(tmp_path: Path) -> None:
    user_file = tmp_path / "my.flow.json"
    user_file.write_text("saved")
    files = RecoveryFiles(tmp_path / "recovery")
    assert files.found() == []
    files.keep(str(user_file), "first", path=str(user_file), base_digest="abc")
    files.keep(str(user_file), "second\nline\r\n", path=str(user_file), base_digest="abc")
    files.keep("untitled 1", "new")
    newest, oldest = RecoveryFiles(tmp_path / "recovery").found()
    assert (newest.document, newest.path, newest.text) == ("untitled 1", "", "new")
    assert (oldest.path, oldest.base_digest, oldest.text) == (str(user_file), "abc", "second\nline\r\n")
    assert newest.saved >= oldest.saved > 1_600_000_000
    assert user_file.read_text() == "saved"
    files.discard("untitled 1")
    files.discard("untitled 1")
    assert [document.document for document in files.found()] == [str(user_file)]


def test_only_the_user_can_read_them(tmp_path: Path) -> None:
    RecoveryFiles(tmp_path / "recovery").keep("../../evil\0name", "text")
    (file,) = (tmp_path / "recovery").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_damaged_file_is_set_aside_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = RecoveryFiles(tmp_path)
    files.keep("good", "text")
    files.keep("bad", "text")
    bad = files._file("bad")
    bad.write_bytes(bad.read_bytes()[:-1])
    (tmp_path / "empty.recovery").write_bytes(b"")
    (tmp_path / "folder.recovery").mkdir()
    with caplog.at_level(logging.WARNING):
        assert [document.document for document in files.found()] == ["good"]
    assert len(caplog.records) == 3
    caplog.clear()
    assert [document.document for document in files.found()] == ["good"]
    assert not caplog.records
    assert bad.with_suffix(".damaged").is_file()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_changed_byte_never_stops_the_start(tmp_path: Path, position: int, byte: int) -> None:
    files = RecoveryFiles(tmp_path / "recovery")
    files.keep("document", "text " * 20, path="/a/file")
    file = files._file("document")
    data = bytearray(file.read_bytes())
    data[position % len(data)] = byte
    file.write_bytes(data)
    found = files.found()
    assert all((document.text, document.path) == ("text " * 20, "/a/file") for document in found)


def test_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="recovery files"):
        RecoveryFiles(tmp_path / "file" / "folder").keep("document", "text")
