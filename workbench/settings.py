"""What the window remembers between starts, typed."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from PySide6.QtCore import QByteArray, QSettings

from workbench.theme import DARK, LARGEST_ZOOM, LIGHT, SMALLEST_ZOOM, SYSTEM

T = TypeVar("T", str, int, float, bool)


class Settings:
    """A typed face of one INI file; a damaged or missing value is its default."""

    def __init__(self, path: Path) -> None:
        with suppress(OSError):  # then nothing is remembered; who keeps more than settings there will tell
            path.parent.mkdir(parents=True, exist_ok=True)
        self._store = QSettings(str(path), QSettings.Format.IniFormat)

    def _read(self, key: str, default: T) -> T:
        value = self._store.value(key)
        if value is None:
            return default
        try:
            if isinstance(default, bool):
                return str(value).lower() == "true"
            return type(default)(value)
        except (TypeError, ValueError):
            return default

    def _read_list(self, key: str) -> list[str]:
        value = self._store.value(key)
        if isinstance(value, list):
            return [str(item) for item in value]
        return [str(value)] if value else []

    # -- look -------------------------------------------------------------------------------------------------------

    @property
    def theme(self) -> str:
        """`system`, `dark` or `light`."""
        value = self._read("look/theme", SYSTEM)
        return value if value in (SYSTEM, DARK, LIGHT) else SYSTEM

    @theme.setter
    def theme(self, value: str) -> None:
        self._store.setValue("look/theme", value)

    @property
    def zoom(self) -> float:
        """Text zoom, 1.0 = 100 %."""
        value = self._read("look/zoom", 1.0)
        return value if SMALLEST_ZOOM <= value <= LARGEST_ZOOM else 1.0

    @zoom.setter
    def zoom(self, value: float) -> None:
        self._store.setValue("look/zoom", value)

    @property
    def reduced_motion(self) -> bool:
        """Nothing on screen moves by itself."""
        return self._read("look/reduced_motion", False)

    @reduced_motion.setter
    def reduced_motion(self, value: bool) -> None:
        self._store.setValue("look/reduced_motion", value)

    # -- keys -------------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> dict[str, list[str]]:
        """The keys of the actions that have others than at first, as `Ctrl+K`."""
        try:
            values = json.loads(self._read("keys/changed", "{}"))
        except ValueError:
            return {}
        pairs = values.items() if isinstance(values, dict) else ()
        return {name: [str(key) for key in keys] for name, keys in pairs if isinstance(keys, list)}

    @keys.setter
    def keys(self, value: Mapping[str, Sequence[str]]) -> None:
        self._store.setValue("keys/changed", json.dumps({name: list(keys) for name, keys in value.items()}))

    # -- window -----------------------------------------------------------------------------------------------------

    def window(self) -> tuple[QByteArray, QByteArray]:
        """Geometry and dock state of the main window; empty at the first start."""
        geometry, state = self._store.value("window/geometry"), self._store.value("window/state")
        return (
            geometry if isinstance(geometry, QByteArray) else QByteArray(),
            state if isinstance(state, QByteArray) else QByteArray(),
        )

    def set_window(self, geometry: QByteArray, state: QByteArray) -> None:
        """Remember geometry and dock state."""
        self._store.setValue("window/geometry", geometry)
        self._store.setValue("window/state", state)

    def forget_window(self) -> None:
        """Go back to the designed layout at the next start."""
        self._store.remove("window")

    @property
    def open_documents(self) -> list[str]:
        """Paths and sample names of the tabs, in order."""
        return self._read_list("documents/open")

    @open_documents.setter
    def open_documents(self, value: list[str]) -> None:
        self._store.setValue("documents/open", value)

    @property
    def open_pages(self) -> list[str]:
        """Ids of the pages that have a tab, in order."""
        return self._read_list("documents/pages")

    @open_pages.setter
    def open_pages(self, value: list[str]) -> None:
        self._store.setValue("documents/pages", value)

    @property
    def recent(self) -> list[str]:
        """Paths of the flows opened last, newest first."""
        return self._read_list("documents/recent")

    def add_recent(self, path: str) -> None:
        """Put a flow in front of the recent ones; ten are kept."""
        self._store.setValue("documents/recent", [path, *(p for p in self.recent if p != path)][:10])

    @property
    def folded(self) -> list[str]:
        """Kinds of the explorer's groups that are folded."""
        return self._read_list("window/folded")

    @folded.setter
    def folded(self, value: list[str]) -> None:
        self._store.setValue("window/folded", value)

    @property
    def sections(self) -> dict[str, bool]:
        """Sections of the inspector that a person opened or closed."""
        marks = [mark.rpartition("=") for mark in self._read_list("inspector/sections")]
        return {key: state == "open" for key, _, state in marks if key}

    @sections.setter
    def sections(self, value: dict[str, bool]) -> None:
        marks = [f"{key}={'open' if is_open else 'folded'}" for key, is_open in value.items()]
        self._store.setValue("inspector/sections", marks)

    # -- running ----------------------------------------------------------------------------------------------------

    def inputs(self, flow: str) -> dict[str, str]:
        """The inputs last typed for a flow."""
        try:
            values = json.loads(self._read(_inputs_key(flow), "{}"))
        except ValueError:
            return {}
        return {str(key): str(value) for key, value in values.items()} if isinstance(values, dict) else {}

    def set_inputs(self, flow: str, values: dict[str, str]) -> None:
        """Remember the inputs typed for a flow."""
        self._store.setValue(_inputs_key(flow), json.dumps(values, ensure_ascii=False))

    @property
    def has_run(self) -> bool:
        """Whether a run was ever started; the first-start hint goes then."""
        return self._read("running/has_run", False)

    @has_run.setter
    def has_run(self, value: bool) -> None:
        self._store.setValue("running/has_run", value)

    @property
    def record_tapes(self) -> bool:
        """Whether the bytes of each run's calls are kept for a while."""
        return self._read("running/record_tapes", True)

    @record_tapes.setter
    def record_tapes(self, value: bool) -> None:
        self._store.setValue("running/record_tapes", value)

    @property
    def model_file(self) -> str:
        """A chosen .gguf file for the embedded server; empty = the one that is installed."""
        return self._read("server/model_file", "")

    @model_file.setter
    def model_file(self, value: str) -> None:
        self._store.setValue("server/model_file", value)

    @property
    def offline(self) -> bool:
        """The offline lock: only this machine may be reached."""
        return self._read("network/offline", False)

    @offline.setter
    def offline(self, value: bool) -> None:
        self._store.setValue("network/offline", value)

    def sync(self) -> None:
        """Write to disk now."""
        self._store.sync()


def _inputs_key(flow: str) -> str:
    """Where the inputs of a flow are kept; a path would be taken for nested groups."""
    return "inputs/" + quote(flow, safe="")
