"""Plug-ins: named functions and classes of packages, and functions of the folder beside a flow (docs/plugins.md).

Listing names imports nothing. A package's plug-in is imported when a run first needs it and runs in this process; code
of a folder runs in a process of its own, and only after the flow was trusted.
"""

import asyncio
import base64
import functools
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from engine.code_process import CodeWorkers
from engine.daemon_thread import call_in_thread
from engine.errors import CodeError, PluginError
from engine.plugin_folder import FolderPlugin, PluginFolder

KINDS = (
    "functions",
    "merges",
    "handlers",
    "tools",
    "prompt_strategies",
    "tokenizers",
    "clients",
    "interceptors",
)
"""Kinds of plug-ins; each has its group of entry points, `flow_workbench.functions` and so on."""
GROUP = "flow_workbench."
CALL_SECONDS = 30.0
"""What one call may take."""


def entry_points(kind: str) -> dict[str, metadata.EntryPoint]:
    """The plug-ins of installed packages by name, as their metadata says; nothing is imported."""
    return _entry_points(kind, tuple(sys.path))


@functools.lru_cache(maxsize=32)
def _entry_points(kind: str, _path: tuple[str, ...]) -> dict[str, metadata.EntryPoint]:
    # Reading the metadata of all packages takes some 20 ms, and they change only with the path.
    return {point.name: point for point in metadata.entry_points(group=GROUP + kind)}


def installed(kind: str, name: str, expected: type, *, what: str) -> object | None:
    """The plug-in of a package under this name, imported, a class made into an object; None when there is none.

    Raises PluginError when it cannot be loaded, or is no `expected`, which `what` says in words.
    """
    point = entry_points(kind).get(name)
    if point is None:
        return None
    found = load_entry_point(kind, point)
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:
            raise Plugin(kind=kind, name=name, point=point).error(_words(error)) from error
    if not isinstance(found, expected):
        raise Plugin(kind=kind, name=name, point=point).error(f"a {type(found).__name__} is no {what}")
    return found


def load_entry_point(kind: str, point: metadata.EntryPoint) -> object:
    """Import a package's plug-in; raises PluginError whatever goes wrong."""
    try:
        return point.load()
    except Exception as error:
        raise PluginError(
            f'The plug-in "{point.name}" cannot be loaded from {point.value}: {_words(error)}.',
            hint=f"Update or remove the package {_package(point)}.",
            facts=_facts(kind, point.name, point.value, _package(point)),
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plug-in that was found; nothing of it has run."""

    kind: str
    name: str
    point: metadata.EntryPoint | None = None
    """Of a package."""
    source: FolderPlugin | None = None
    """Of a folder."""
    given: object = None
    """Registered by a program."""
    workers: CodeWorkers | None = None

    @property
    def origin(self) -> str:
        """Where it is from, for people."""
        if self.source is not None:
            return f"plugins/{self.source.file}"
        return f"the package {_package(self.point)}" if self.point is not None else "this program"

    def load(self) -> object:
        """The function or class itself; raises PluginError. Code of a folder never gets into this process."""
        if self.point is not None:
            return load_entry_point(self.kind, self.point)
        if self.source is not None:
            raise self.error("it belongs to a folder and only runs in a process of its own")
        return self.given

    async def call(self, *arguments: object) -> object:
        """Call it with plain data; raises PluginError that names plug-in, file and function."""
        if self.source is not None:
            return await self._call_folder(self.source, arguments)
        function = self.load()
        if not callable(function):
            raise self.error("it is no function")
        try:
            async with asyncio.timeout(CALL_SECONDS) as limit:
                if inspect.iscoroutinefunction(function):
                    return await function(*arguments)
                name = f"plug-in {getattr(function, '__name__', '')}"
                return await call_in_thread(functools.partial(function, *arguments), name)
        except TimeoutError as error:
            raise self.error(_too_long() if limit.expired() else _words(error)) from error
        except Exception as error:
            raise self.error(_words(error), again=_again(self.kind, error)) from error

    async def _call_folder(self, source: FolderPlugin, arguments: tuple[object, ...]) -> object:
        if self.workers is None:
            raise self.error("the flow is not trusted")
        request = {"module": source.module, "kind": self.kind, "name": self.name, "arguments": arguments}
        try:
            return await self.workers.call(request, CALL_SECONDS)
        except CodeError as error:
            text = _too_long() if error.kind == "timeout" else error.message
            raise self.error(text, again=error.message if error.kind == "again" else "", facts=error.facts) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise self.error(f"the values are no plain data ({error})") from error

    def error(self, reason: str, *, again: str = "", facts: Mapping[str, str] | None = None) -> PluginError:
        """What to raise when it failed for this reason."""
        place = self.source.file if self.source else self.point.value if self.point else ""
        line = (facts or {}).get("line", "")
        where = f" ({line})" if line else ""
        found = PluginError(
            f'The plug-in "{self.name}" of {self.origin} failed{where}: {reason.rstrip(".")}.',
            facts=_facts(self.kind, self.name, place, self.origin) | dict(facts or {}),
        )
        found.again = again
        return found


class Plugins:
    """What one flow may use, by kind and name: registered by a program, of its folder, of installed packages."""

    def __init__(self, folder: PluginFolder | None = None, workers: CodeWorkers | None = None) -> None:
        """Look up nothing yet; without `workers` the folder's plug-ins are known, but do not run."""
        self.folder = folder
        self._workers = workers
        self._given: dict[tuple[str, str], Plugin] = {}
        self._points: dict[str, dict[str, metadata.EntryPoint]] = {}

    def register(self, kind: str, name: str, plugin: object) -> None:
        """Add a plug-in of the program that runs the flow."""
        if kind not in KINDS:
            raise ValueError(f"found the kind {kind!r}, expected one of {', '.join(KINDS)}")
        self._given[kind, name] = Plugin(kind=kind, name=name, given=plugin)

    def names(self, kind: str) -> list[str]:
        """The names there are; imports nothing."""
        own = self.folder.plugins if self.folder else {}
        found = {name for own_kind, name in (*self._given, *own) if own_kind == kind}
        return sorted(found | self._entry_points(kind).keys())

    def find(self, kind: str, name: str) -> Plugin | None:
        """A plug-in by name; imports nothing."""
        if (kind, name) in self._given:
            return self._given[kind, name]
        source = self.folder.plugins.get((kind, name)) if self.folder else None
        if source is not None:
            return Plugin(kind=kind, name=name, source=source, workers=self._workers)
        point = self._entry_points(kind).get(name)
        return None if point is None else Plugin(kind=kind, name=name, point=point)

    def get(self, kind: str, name: str) -> Plugin:
        """A plug-in by name; raises PluginError when there is none."""
        found = self.find(kind, name)
        if found is None:
            raise PluginError(f'There is no plug-in "{name}" among the {kind}.', facts={"kind": kind, "plug-in": name})
        return found

    def _entry_points(self, kind: str) -> dict[str, metadata.EntryPoint]:
        if kind not in self._points:
            self._points[kind] = entry_points(kind)
        return self._points[kind]


def folder_workers(folder: PluginFolder) -> CodeWorkers:
    """The processes that run the code of a folder, as it was when it was read; none starts before a call."""
    files = {name: base64.b64encode(content).decode("ascii") for name, content in folder.files.items()}
    return CodeWorkers("engine.plugin_child", files)


def _again(kind: str, error: Exception) -> str:
    return str(error) if kind == "handlers" and isinstance(error, ValueError) else ""


def _too_long() -> str:
    return f"it took longer than {CALL_SECONDS:g} seconds"


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _package(point: metadata.EntryPoint | None) -> str:
    return point.dist.name if point is not None and point.dist is not None else "unknown"


def _facts(kind: str, name: str, place: str, origin: str) -> dict[str, str]:
    return {"plug-in": name, "kind": kind, "file": place, "from": origin}
