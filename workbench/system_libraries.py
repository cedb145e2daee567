"""Finds the system libraries Qt needs and this machine lacks, and on Debian and Ubuntu the packages that bring them.

Qt comes from its Python package, but links to libraries of the system (OpenGL, fonts, X11) that a bare machine has not.
Nothing here imports Qt: the dynamic loader itself is asked what it cannot find.

    python -m workbench.system_libraries            # prints what is missing; exit status 1 if something is
    python -m workbench.system_libraries --install  # installs it where it may, else prints the one command to type
"""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

PLUGINS = ("platforms/libqxcb.so", "platforms/libqoffscreen.so", "platforms/libqminimal.so", "imageformats/libqsvg.so")
"""Parts of Qt that are loaded at run time, so the loader does not reach them from the modules we import."""

MODULES = ("QtCore", "QtGui", "QtWidgets", "QtSvg")

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


def missing_libraries() -> list[str]:
    """Names (`libGL.so.1`) the loader cannot find for Qt's modules and platform plugins; empty on other systems."""
    spec = find_spec("PySide6")
    if sys.platform != "linux" or spec is None or not spec.submodule_search_locations:
        return []
    folder = Path(spec.submodule_search_locations[0])
    objects = [path for module in MODULES for path in folder.glob(f"{module}.*so")]
    objects += [path for plugin in PLUGINS if (path := folder / "Qt" / "plugins" / plugin).exists()]
    ldd = shutil.which("ldd")
    if ldd is None:
        return []
    missing: set[str] = set()
    for path in objects:
        listing = subprocess.run([ldd, str(path)], capture_output=True, text=True, check=False).stdout  # noqa: S603
        missing.update(re.findall(r"^\s*(\S+) => not found", listing, re.MULTILINE))
    return sorted(missing)


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
    if shutil.which("apt-get"):
        sudo = "" if os.geteuid() == 0 else "sudo "
        command = f"{sudo}apt-get install -y --no-install-recommends {' '.join(debian_packages())}"
        return f"Qt needs system libraries this machine lacks: {lacks}.\nTo install them, type:\n\n    {command}\n"
    return (
        f"Qt needs system libraries this machine lacks: {lacks}.\nInstall the packages of your system that hold them.\n"
    )


def install() -> bool:
    """Install what is missing where this user may; return whether nothing is missing any more."""
    # More than one round: a library that was missing hides what it needs itself.
    for _ in range(4):
        packages = debian_packages()
        if not packages:
            return True
        apt = shutil.which("apt-get")
        if apt is None or os.geteuid() != 0:
            return False
        print(f"Installing system libraries for Qt: {' '.join(packages)}", flush=True)  # noqa: T201
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        arguments = ["install", "-y", "-qq", "--no-install-recommends", *packages]
        for step in (["update", "-qq"], arguments):
            if subprocess.run([apt, *step], env=environment, stdout=subprocess.DEVNULL, check=False).returncode:  # noqa: S603
                return False
    return not debian_packages()


def main() -> int:
    """Report, or with `--install` mend."""
    if "--install" in sys.argv[1:]:
        install()
    text = explanation()
    if text:
        print(text, file=sys.stderr)  # noqa: T201
    return 1 if text else 0


if __name__ == "__main__":
    sys.exit(main())
