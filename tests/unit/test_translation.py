"""Every text of the window goes through tr() or translate(), so that one catalogue can turn all of them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench

SOURCE = Path(workbench.__file__).parent
ELSEWHERE = {
    *("actions.py", "__main__.py", "commands.py", "qt_ready.py", "system_libraries.py", "event_loop.py"),
    *("screenshot.py", "log_dock.py"),
}
"""A table that is translated as a whole (tested with the window), and texts of terminals, programmers and logs."""
SENTENCE = re.compile(r"[A-Z][a-z]+[,.:]? [a-z]+")
WORD = re.compile(r"[^\W\d_]{2}")
NAMES = {"Flow Workbench", "[*] – Flow Workbench"}
"""What is the same in every language."""
SHOWING = {
    *("setText", "setPlainText", "setToolTip", "setStatusTip", "setWindowTitle", "setTitle", "setPlaceholderText"),
    *("setAccessibleName", "setAccessibleDescription", "addMenu", "addRow", "addItem", "addTab", "addAction"),
    *("setHorizontalHeaderLabels", "set_note", "show_idle", "show_text", "edit", "QLabel", "QPushButton", "QCheckBox"),
    *("QToolBar", "QStandardItem", "QUndoCommand", "Section", "TemplateEdit", "BannerButton", "IconText", "Figure"),
}
"""Functions whose first argument a person reads."""


def texts(node: ast.AST) -> Iterator[str]:
    """Literals of an expression, but for those that are translated, logged, looked up, or document the code."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name.endswith(("tr", "translate", "on_bar", "getLogger", "TypeError", "re.compile")) or name.startswith(
            ("logger.", "theme.")
        ):
            return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    for child in [node.value] if isinstance(node, ast.Subscript) else ast.iter_child_nodes(node):
        yield from texts(child)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_texts_are_translated(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [] if path.name in ELSEWHERE else [text for text in texts(tree) if SENTENCE.search(text)]
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args):
        name = ast.unparse(call.func).rpartition(".")[2]
        if name in SHOWING:
            found += [text for text in texts(call.args[0]) if WORD.search(text)]
        if name in ("tr", "translate") and path.name not in ELSEWHERE:  # what is put together is in no catalogue
            found += [ast.unparse(each) for each in call.args if isinstance(each, ast.JoinedStr | ast.BinOp | ast.Name)]
    assert not set(found) - NAMES
