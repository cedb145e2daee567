"""What is said and done about missing system libraries, with stand-ins for the loader and the package manager."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench import system_libraries
from workbench.system_libraries import (
    debian_package,
    debian_packages,
    explanation,
    has_fonts,
    install,
    main,
    missing_libraries,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the loader of Linux")

AddCommand = Callable[[str, str], Path]


@pytest.fixture
def add_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddCommand:
    """Put a shell script onto an otherwise empty PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)

    def add(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return add


@pytest.fixture
def fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder in which fonts are looked for; it holds a font."""
    folder = tmp_path / "fonts"
    (folder / "truetype").mkdir(parents=True)
    (folder / "truetype" / "some.ttf").touch()
    monkeypatch.setattr(system_libraries, "FONT_FOLDERS", (str(folder),))
    return folder


def _loader(modules: str = "", plugin: str = "") -> str:
    """A script in the manner of ldd: `modules` are missing for QtGui, `plugin` for the X11 plugin."""
    listing = r'printf "\tlinux-vdso.so.1 (0x0000700000000000)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f0000000000)\n"'
    lines = ["case $1 in"]
    for pattern, names in (("*/QtGui.*", modules), ("*/libqxcb.so", plugin)):
        missing = "".join(rf'; printf "\t{name} => not found\n"' for name in names.split())
        lines.append(f"{pattern}) {listing}{missing};;")
    return "\n".join([*lines, f"*) {listing};;", "esac"])


@pytest.mark.parametrize(
    ("library", "package"),
    [
        ("libGL.so.1", "libgl1"),
        ("libEGL.so.1", "libegl1"),
        ("libglib-2.0.so.0", "libglib2.0-0"),
        ("libgthread-2.0.so.0", "libglib2.0-0"),
        ("libxcb-icccm.so.4", "libxcb-icccm4"),
        ("libxcb-render-util.so.0", "libxcb-render-util0"),
        ("libX11-xcb.so.1", "libx11-xcb1"),
        ("libX11.so.6", "libx11-6"),
        ("libdbus-1.so.3", "libdbus-1-3"),
        ("libxkbcommon-x11.so.0", "libxkbcommon-x11-0"),
        ("libfontconfig.so.1", "libfontconfig1"),
        ("libgomp.so.1", "libgomp1"),
        ("libwayland-cursor.so.0", "libwayland-cursor0"),
    ],
)
def test_debian_names(library: str, package: str) -> None:
    assert debian_package(library) == package


def test_nothing_is_missing(add_command: AddCommand, fonts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_command("ldd", _loader())
    assert (missing_libraries(), debian_packages(), explanation(), main()) == ([], [], "", 0)
    assert capsys.readouterr() == ("", "")


def test_missing_libraries_are_named_once_with_the_command(add_command: AddCommand, fonts: Path) -> None:
    add_command("ldd", _loader("libGL.so.1 libEGL.so.1", "libxcb-icccm.so.4 libGL.so.1"))
    add_command("apt-get", "exit 0")
    add_command("sudo", "exit 0")
    assert missing_libraries() == ["libEGL.so.1", "libGL.so.1", "libxcb-icccm.so.4"]
    text = explanation()
    assert "libEGL.so.1, libGL.so.1, libxcb-icccm.so.4." in text
    assert "apt-get install -y --no-install-recommends libegl1 libgl1 libxcb-icccm4\n" in text


@pytest.mark.parametrize(
    ("user", "sudo", "start", "end"),
    [
        (0, True, "apt-get update && apt-get install", " libgl1"),
        (1000, True, "sudo apt-get update && sudo apt-get install", " libgl1"),
        (1000, False, "su -c 'apt-get update && apt-get install", " libgl1'"),
    ],
)
def test_the_command_fits_the_user(
    add_command: AddCommand, fonts: Path, monkeypatch: pytest.MonkeyPatch, user: int, sudo: bool, start: str, end: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    add_command("ldd", _loader("libGL.so.1"))
    add_command("apt-get", "exit 0")
    if sudo:
        add_command("sudo", "exit 0")
    command = explanation().splitlines()[-1].strip()
    assert command.startswith(start)
    assert command.endswith(end)


def test_other_systems_are_told_in_words(add_command: AddCommand, fonts: Path) -> None:
    add_command("ldd", _loader("libGL.so.1"))
    assert explanation().endswith("need: libGL.so.1.\nInstall the packages of your system that hold them.\n")


def test_without_ldd_nothing_is_claimed(add_command: AddCommand, fonts: Path) -> None:
    assert missing_libraries() == []
    assert explanation() == ""


def test_a_machine_without_fonts_is_told(add_command: AddCommand, fonts: Path) -> None:
    add_command("ldd", _loader())
    add_command("apt-get", "exit 0")
    assert has_fonts()
    (fonts / "truetype" / "some.ttf").unlink()
    assert not has_fonts()
    assert debian_packages() == ["fonts-dejavu-core"]
    assert "need: a font." in explanation()
    assert main() == 0


@pytest.mark.parametrize(("display", "status"), [("", 0), (":0", 1)])
def test_libraries_of_windows_matter_where_there_is_a_display(
    add_command: AddCommand, fonts: Path, monkeypatch: pytest.MonkeyPatch, display: str, status: int
) -> None:
    add_command("ldd", _loader(plugin="libxcb-icccm.so.4"))
    monkeypatch.setenv("DISPLAY", display)
    assert missing_libraries() == ["libxcb-icccm.so.4"]
    assert main() == status


def test_root_gets_them_installed(
    add_command: AddCommand,
    fonts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "argv", ["system_libraries", "--install"])
    loader, calls = add_command("ldd", _loader("libGL.so.1")), tmp_path / "calls"
    healthy = add_command("healthy", _loader())
    replace = f"[ \"$1\" = install ] && {sys.executable} -c \"import os; os.replace('{healthy}', '{loader}')\""
    add_command("apt-get", f'echo "$DEBIAN_FRONTEND $@" >> {calls}\n{replace}\nexit 0')
    assert main() == 0
    update, installation = calls.read_text(encoding="utf-8").splitlines()
    assert update == "noninteractive update -qq"
    assert installation.startswith("noninteractive install -y -qq --no-install-recommends")
    assert installation.endswith(" libgl1")
    assert capsys.readouterr() == ("Installing system libraries: libgl1\n", "")


def test_a_failed_installation_is_told(
    add_command: AddCommand, fonts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "argv", ["system_libraries", "--install"])
    add_command("ldd", _loader("libGL.so.1"))
    add_command("apt-get", 'echo "E: no space left" >&2; exit 100')
    assert main() == 1
    errors = capsys.readouterr().err
    assert "E: no space left" in errors
    assert "apt-get update && apt-get install" in errors


def test_without_root_nothing_is_installed(
    add_command: AddCommand, fonts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    add_command("ldd", _loader("libGL.so.1"))
    add_command("apt-get", f"echo called > {tmp_path / 'calls'}")
    assert install() is False
    assert not (tmp_path / "calls").exists()


def test_a_package_that_does_not_help_is_not_tried_for_ever(
    add_command: AddCommand, fonts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    add_command("ldd", _loader("libGL.so.1"))
    add_command("apt-get", f'echo "$1" >> {tmp_path / "calls"}')
    assert install() is False
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines() == ["update", "install"]
