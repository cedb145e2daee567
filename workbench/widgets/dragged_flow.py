"""A flow on its way from one view to another: what is dragged is where it comes from."""

from PySide6.QtCore import QMimeData

_FORMAT = "application/x-workbench-flow"


def dragged_flow(source: str) -> QMimeData:
    """What to drag for a flow: the path of its file, or the name of a sample."""
    data = QMimeData()
    data.setData(_FORMAT, source.encode())
    return data


def has_flow(data: QMimeData) -> bool:
    """Whether a flow is dragged."""
    return data.hasFormat(_FORMAT)


def source_of(data: QMimeData) -> str:
    """Where a dragged flow comes from, empty when none is dragged."""
    return bytes(data.data(_FORMAT).data()).decode("utf-8", "replace")
