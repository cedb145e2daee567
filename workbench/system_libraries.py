"""Finds the system libraries that Qt and the model server need and this machine lacks, and installs them on Debian.

Both come as Python packages, but link to libraries of the system (OpenGL, fonts, X11, OpenMP) that a bare machine has
not. Nothing here imports either: the dynamic loader itself is asked what it cannot find.

    python -m workbench.system_libraries            # prints what is missing
    python -m workbench.system_libraries --install  # installs it where it may, else prints the one command to type

The exit status is 1 when something is missing without which nothing starts here; a missing font, or a library for
windows on a machine without a display, is only told.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

MODULES = ("QtCore.*so", "QtGui.*so", "QtWidgets.*so", "QtSvg.*so")
PLUGINS = ("Qt/plugins/platforms/libqoffscreen.so", "Qt/plugins/imageformats/libqsvg.so")
"""Parts of Qt that are loaded at run time, so the loader does not reach them from the modules we import."""

X11_PLUGINS = ("Qt/plugins/platforms/libqxcb.so",)
WAYLAND_PLUGINS = ("Qt/plugins/platforms/libqwayland*.so", "Qt/plugins/wayland-shell-integration/libxdg-shell.so")

IRREGULAR_PACKAGES = {
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libOpenGL.so.0": "libopengl0",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libgio-2.0.so.0": "libglib2.0-0",
    "libgobject-2.0.so.0": "libglib2.0-0",
}
"""Debian packages whose names do not follow from the library's."""

FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")
FONT_PACKAGE = "fonts-dejavu-core"


def missing_libraries(*, for_any_display: bool = True) -> list[str]:
    """Names (`libGL.so.1`) the loader cannot find for Qt and the model server; empty on systems other than Linux.

    With `for_any_display` also those of X11 windows that this machine may show one day, else only what is used now.
    """
    ldd = shutil.which("ldd")
    if sys.platform != "linux" or ldd is None:
        return []
    patterns = [*MODULES, *PLUGINS]
    if for_any_display or os.environ.get("DISPLAY"):
        patterns += X11_PLUGINS
    if os.environ.get("WAYLAND_DISPLAY"):
        patterns += WAYLAND_PLUGINS
    missing: set[str] = set()
    for path in [*_files("PySide6", *patterns), *_files("xllamacpp", "*.so")]:
        listing = subprocess.run([ldd, str(path)], capture_output=True, text=True, check=False).stdout  # noqa: S603
        missing.update(re.findall(r"^\s*(\S+) => not found", listing, re.MULTILINE))
    return sorted(missing)


def _files(package: str, *patterns: str) -> list[Path]:
    """Files in the folder of an installed package, which is not imported; none if it is not there."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return [path for folder in folders or () for pattern in patterns for path in Path(folder).glob(pattern)]


def has_fonts() -> bool:
    """Whether any font is installed; without one Qt draws no text."""
    patterns = ("*.ttf", "*.otf", "*.ttc", "*.pfb")
    folders = [Path(folder).expanduser() for folder in FONT_FOLDERS]
    return sys.platform != "linux" or any(next(f.rglob(p), None) for f in folders if f.is_dir() for p in patterns)


def debian_package(library: str) -> str:
    """The Debian package of a shared library: by Debian's naming rule, with the exceptions Qt meets.

    Source: Debian policy 8.1, "the shared library package is named after the soname": libxcb-icccm.so.4 is in
    libxcb-icccm4, and a name that ends in a digit takes a hyphen before the version.
    """
    if library in IRREGULAR_PACKAGES:
        return IRREGULAR_PACKAGES[library]
    name, _, version = library.partition(".so.")
    name = name.lower().replace("_", "-")
    return f"{name}-{version}" if name[-1:].isdigit() else f"{name}{version}"


def debian_packages() -> list[str]:
    """The packages that would bring everything that is missing."""
    packages = {debian_package(library) for library in missing_libraries()}
    if not has_fonts():
        packages.add(FONT_PACKAGE)
    return sorted(packages)


def explanation() -> str:
    """What is missing and the one command that helps, as text for a terminal; empty when nothing is."""
    libraries, fonts = missing_libraries(), has_fonts()
    if not libraries and fonts:
        return ""
    lacks = ", ".join([*libraries, *([] if fonts else ["a font"])])
    text = f"This machine lacks system libraries that Qt or the model server need: {lacks}.\n"
    if shutil.which("apt-get"):
        return f"{text}To install them, type:\n\n    {_command(debian_packages())}\n"
    return f"{text}Install the packages of your system that hold them.\n"


def _command(packages: list[str]) -> str:
    install = f"apt-get install -y --no-install-recommends {' '.join(packages)}"
    if os.geteuid() == 0:
        return f"apt-get update && {install}"
    if shutil.which("sudo"):
        return f"sudo apt-get update && sudo {install}"
    return f"su -c {shlex.quote(f'apt-get update && {install}')}"


def install() -> bool:
    """Install what is missing where this user may; return whether nothing is missing any more."""
    apt = shutil.which("apt-get")
    tried: list[str] = []
    # More than one round: a library that was missing hides what it needs itself.
    while (packages := debian_packages()) and packages != tried:
        if apt is None or os.geteuid() != 0:
            return False
        print(f"Installing system libraries: {' '.join(packages)}", flush=True)  # noqa: T201
        if not _install_packages(apt, packages):
            return False
        tried = packages
    return not packages


def _install_packages(apt: str, packages: list[str]) -> bool:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    # One stale source fails the update although the others are fresh, so only the installation decides.
    subprocess.run([apt, "update", "-qq"], env=environment, capture_output=True, check=False)  # noqa: S603
    options = ("-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Use-Pty=0")
    done = subprocess.run(  # noqa: S603
        [apt, "install", *options, *packages], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)  # noqa: T201
    return done.returncode == 0


def main() -> int:
    """Report, or with `--install` mend."""
    if "--install" in sys.argv[1:]:
        install()
    text = explanation()
    if text:
        print(text, file=sys.stderr)  # noqa: T201
    return 1 if missing_libraries(for_any_display=False) else 0


if __name__ == "__main__":
    sys.exit(main())
