"""What the process of a flow's plug-ins does: it writes their files to its folder, imports them and calls functions."""

import base64
import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from engine.code_child import Answer, Refused, serve


def main() -> None:
    """Answer calls until the parent is gone."""
    serve(_unpacked)


def _unpacked(files: object) -> Answer:
    """Write the files, given as name → base64; importing them waits until one is called."""
    assert isinstance(files, dict)  # noqa: S101
    folder = Path.cwd() / "plugins"
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(content))
    sys.path.insert(0, str(folder))
    return _Calls(folder)


class _Calls:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, request: object) -> object:
        """Call `name` of `kind` in `module` with the arguments."""
        assert isinstance(request, dict)  # noqa: S101
        module, kind, name = request["module"], request["kind"], request["name"]
        function = self._function(self._module(module), kind, name)
        try:
            if kind == "tools":  # a model gives arguments by name
                return function(**request["arguments"][0])
            return function(*request["arguments"])
        except MemoryError:
            raise
        except BaseException as error:
            again = kind == "handlers" and isinstance(error, ValueError)
            text = str(error) if again else _words(error)
            raise Refused("again" if again else "raised", text, **self._place(error)) from None

    def _module(self, name: str) -> ModuleType:
        try:
            return importlib.import_module(name)
        except MemoryError:
            raise
        except BaseException as error:
            sys.modules.pop(name, None)
            raise Refused("import", _words(error), **self._place(error)) from None

    @staticmethod
    def _function(module: ModuleType, kind: str, name: str) -> Callable[..., object]:
        plugins = getattr(module, "PLUGINS", None)
        function = plugins.get(kind, {}).get(name) if isinstance(plugins, dict) else None
        if not callable(function):
            raise Refused("import", f"PLUGINS[{kind!r}][{name!r}] is no function")
        return function  # type: ignore[no-any-return]

    def _place(self, error: BaseException) -> dict[str, object]:
        """The last line of the plug-in's own that was reached."""
        frames = traceback.extract_tb(error.__traceback__)
        for frame in reversed(frames):
            if Path(frame.filename).is_relative_to(self._folder):
                return {"line": f"{Path(frame.filename).relative_to(self._folder)}:{frame.lineno}"}
        if isinstance(error, SyntaxError) and error.filename and error.lineno:
            return {"line": f"{Path(error.filename).name}:{error.lineno}"}
        return {}


def _words(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}"[:2000] if text else type(error).__name__
