"""Flows and saved agents on their way from one view to another: what is dragged is where it comes from."""

from PySide6.QtCore import QMimeData

FLOW, AGENT = "application/x-workbench-flow", "application/x-workbench-agent"
"""What can be dragged: a flow by its path or the name of a sample, a saved agent by its file."""


def dragged(kind: str, source: str) -> QMimeData:
    """What to drag for a flow or a saved agent."""
    data = QMimeData()
    data.setData(kind, source.encode())
    return data


def is_dragged(data: QMimeData) -> bool:
    """Whether a flow or a saved agent is dragged."""
    return data.hasFormat(FLOW) or data.hasFormat(AGENT)


def source_of(data: QMimeData, kind: str) -> str:
    """Where what is dragged comes from, empty when it is nothing of this kind."""
    return bytes(data.data(kind).data()).decode("utf-8", "replace")
