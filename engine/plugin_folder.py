"""The folder `plugins` beside a flow: read as data, never imported here (docs/plugins.md).

A module offers what its `PLUGINS` says, a literal dict of kind → name → function, found in the syntax tree.
"""

import ast
import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.atomic_file import read_limited
from engine.errors import PluginError, StorageError

FOLDER_NAME = "plugins"
FOLDER_KINDS = ("functions", "merges", "handlers", "tools")
"""What a folder can offer; the other kinds see keys or every request, so only installed packages have them."""
MAX_FILES = 500
MAX_BYTES = 10_000_000
_MAX_MODULE = 500_000
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPlugin:
    """A function of the folder, as its source says."""

    kind: str
    name: str
    file: str
    help: str = ""
    """The first paragraph of its docstring."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """JSON schema of its arguments, from its annotations."""

    @property
    def module(self) -> str:
        """What to import."""
        return self.file.removesuffix(".py")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFolder:
    """What was in the folder when it was read. Exactly this runs, whatever happens to the folder later."""

    path: Path
    files: Mapping[str, bytes]
    """Name within the folder → content."""
    plugins: Mapping[tuple[str, str], FolderPlugin]
    """By kind and name."""
    faults: tuple[str, ...] = ()
    """Modules that cannot be read, kinds that do not exist, names given twice."""

    @classmethod
    def beside(cls, flow: Path) -> "PluginFolder | None":
        """Read the folder beside a flow file; None when there is none, PluginError when it cannot be read."""
        path = flow.parent / FOLDER_NAME
        if path.is_symlink() or not path.is_dir():
            return None
        return cls.read(path)

    @classmethod
    def read(cls, path: Path) -> "PluginFolder":
        """Read a folder; raises PluginError when it is too large or not readable."""
        try:
            files = dict(_files(path))
        except (OSError, StorageError) as error:
            raise PluginError(f"Cannot read the plug-ins in {path}: {error}", facts={"path": str(path)}) from error
        plugins: dict[tuple[str, str], FolderPlugin] = {}
        faults: list[str] = []
        for name in sorted(files):
            if name.endswith(".py") and "/" not in name:
                for plugin in _offered(name, files[name], faults):
                    known = plugins.setdefault((plugin.kind, plugin.name), plugin)
                    if known is not plugin:
                        faults.append(f'{name}: "{plugin.name}" is also in {known.file}, which is used.')
        return cls(path=path, files=files, plugins=plugins, faults=tuple(faults))

    @property
    def digest(self) -> str:
        """SHA-256 of names and contents."""
        whole = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            for part in (name.encode("utf-8", "surrogateescape"), content):
                whole.update(len(part).to_bytes(8) + part)
        return whole.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    count = size = 0
    for folder, folders, names in os.walk(path, followlinks=False):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            file = Path(folder, name)
            if file.is_symlink():
                continue
            content = read_limited(file, MAX_BYTES)
            count, size = count + 1, size + len(content)
            if count > MAX_FILES or size > MAX_BYTES:
                raise PluginError(
                    f"The folder {path} is too large: plug-ins may have {MAX_FILES} files and {MAX_BYTES:,} bytes.",
                    facts={"path": str(path)},
                )
            yield file.relative_to(path).as_posix(), content


def _offered(file: str, source: bytes, faults: list[str]) -> Iterator[FolderPlugin]:
    """What the `PLUGINS` of a module names."""
    if len(source) > _MAX_MODULE:
        faults.append(f"{file}: it is longer than {_MAX_MODULE:,} bytes.")
        return
    try:
        tree = ast.parse(source, file)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        faults.append(f"{file}{line}: {error.msg if isinstance(error, SyntaxError) else error}.")
        return
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for kind, entries in _entries(_table(tree)):
        if kind not in FOLDER_KINDS:
            faults.append(f'{file}: a folder has no "{kind}", only {", ".join(FOLDER_KINDS)}.')
            continue
        for name, value in _entries(entries):
            node = functions.get(value.id) if isinstance(value, ast.Name) else None
            if node is None:
                faults.append(f'{file}: "{name}" is not the name of a function of the module.')
                continue
            text = (ast.get_docstring(node) or "").split("\n\n")[0]
            yield FolderPlugin(kind=kind, name=name, file=file, help=text, parameters=_schema(node))


def _table(tree: ast.Module) -> ast.expr | None:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "PLUGINS" for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)  # noqa: S101
            return node.value
    return None


def _entries(node: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def _schema(function: ast.FunctionDef) -> dict[str, object]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    properties = {argument.arg: _type_schema(argument.annotation) for argument in (*positional, *given.kwonlyargs)}
    required = [argument.arg for argument in positional[: len(positional) - len(given.defaults)]]
    required += [arg.arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return {"type": "object", "properties": properties, "required": required}


def _type_schema(annotation: ast.expr | None) -> dict[str, object]:
    if isinstance(annotation, ast.Name) and annotation.id in _TYPES:
        return {"type": _TYPES[annotation.id]}
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        base = _type_schema(annotation.value)
        if base.get("type") == "array":
            base["items"] = _type_schema(annotation.slice)
        return base
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        with contextlib.suppress(SyntaxError):
            return _type_schema(ast.parse(annotation.value, mode="eval").body)
    return {}
