"""What a fault report needs to know of this copy and this machine: versions and states, no keys, paths or texts."""

import locale
import os
import platform
from importlib.metadata import PackageNotFoundError, version

from PySide6.QtCore import qVersion
from PySide6.QtGui import QGuiApplication

from engine import Engine
from engine.folders import Folders
from workbench.theme import theme

PACKAGES = (
    "PySide6-Essentials",
    "qasync",
    "httpx",
    "aiohttp",
    "msgspec",
    "tiktoken",
    "jinja2",
    "pyqtgraph",
    "xllamacpp",
)


def diagnostics_text(engine: Engine, folders: Folders) -> str:
    """Lines of `name: value`, in English whatever the window speaks."""
    entries = engine.profiles.profiles()
    faulty = sum(entry.profile is None for entry in entries)
    keyless = sum(bool(entry.missing) for entry in entries if entry.profile is not None)
    screens = ", ".join(
        f"{screen.size().width()}x{screen.size().height()} at {screen.devicePixelRatio():g}"
        for screen in QGuiApplication.screens()
    )
    lines = {
        "flow-workbench": _version("flow-workbench"),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "qt": str(qVersion()),
        **{name: _version(name) for name in PACKAGES},
        "system": platform.platform(),
        "processors": str(os.cpu_count()),
        "locale": ".".join(part or "?" for part in locale.getlocale()),
        "window system": QGuiApplication.platformName(),
        "screens": screens,
        "look": f"{'dark' if theme.dark else 'light'}, {theme.preference}, {theme.zoom:.0%}",
        "reduced motion": _yes(theme.reduced_motion),
        "embedded model": engine.server.status.state.value,
        "offline lock": _yes(engine.offline),
        "profiles": f"{len(entries)}, {faulty} faulty, {keyless} without a key",
        "runs are recorded": _yes(engine.history is not None),
        "data folder writable": _yes(os.access(folders.root, os.W_OK)),
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
