"""What import contracts cannot see: Qt's widgets stay out of documents and edits, data packages hold no code, files
stay short, and nothing names the machine it was written on."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LONGEST = 500
WITHOUT_WIDGETS = re.compile(r"(.*_document|.*(?<!local)_model|commands|(.*_)?edits)\.py")


def _sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _imported(source: str) -> set[str]:
    """Full names of all that a module imports, also inside functions: `PySide6.QtGui.QPen`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _uses_widgets(source: str) -> bool:
    return any(re.match(r"PySide6\.QtWidgets\b", name) for name in _imported(source))


def _replaces(source: str) -> list[int]:
    """Lines that call the one mutator of a document, `….document.replace(…)`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "replace"
        and re.search(r"document$", ast.unparse(call.func.value))
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from PySide6.QtWidgets import QLabel", True),
        ("def f():\n    import PySide6.QtWidgets as w", True),
        ("from PySide6 import QtWidgets", True),
        ("from PySide6.QtGui import QUndoCommand", False),
    ],
)
def test_a_forbidden_import_is_noticed(source: str, found: bool) -> None:
    assert _uses_widgets(source) is found


def test_a_forbidden_edit_is_noticed() -> None:
    assert _replaces("x = 1\nself._document.replace(flow)\n'a'.replace('a', 'b')") == [2]


def test_documents_models_and_edits_know_no_widgets() -> None:
    modules = [path for path in _sources("workbench") if WITHOUT_WIDGETS.fullmatch(path.name)]
    assert {"flow_document.py", "run_model.py", "commands.py", "edits.py"} <= {path.name for path in modules}
    assert [str(path) for path in modules if _uses_widgets(path.read_text("utf-8"))] == []


def test_only_commands_change_a_document() -> None:
    calls = {path.name for path in _sources("workbench") if _replaces(path.read_text("utf-8"))}
    assert calls == {"commands.py"}


def test_data_packages_hold_no_code() -> None:
    assert [path.relative_to(ROOT).as_posix() for path in _sources("profiles", "resources")] == [
        "profiles/__init__.py",
        "resources/__init__.py",
    ]
    for path in _sources("profiles", "resources"):
        (docstring,) = ast.parse(path.read_text("utf-8")).body
        assert isinstance(docstring, ast.Expr)
        assert isinstance(docstring.value, ast.Constant)


def test_no_file_is_too_long() -> None:
    assert [
        path.relative_to(ROOT).as_posix()
        for path in _sources("engine", "workbench")
        if len(path.read_text("utf-8").splitlines()) > LONGEST
    ] == []


def test_nothing_names_a_machine() -> None:
    # Written in pieces, so that this file does not find itself.
    forbidden = re.compile(
        "|".join(["/" + "work/", "/" + "root/", "/" + "opt/", "extra-index" + "-url", "pypi" + r"\.org"])
    )
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listing.stdout.decode().split("\0")):
        path = ROOT / name
        if path.is_file():
            assert not forbidden.search(path.read_bytes().decode("utf-8", "replace")), name
