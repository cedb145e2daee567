"""Whether Qt can be loaded on this machine."""

import sys


def has_qt() -> bool:
    """Whether Qt can be loaded; if not, say what is missing and the command that brings it."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as error:
        from workbench.system_libraries import explanation

        print(explanation() or f"error: Qt cannot be loaded: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True
