"""The one undo command: a flow before and after an edit. Flows share what they have in common, so this is cheap."""

from PySide6.QtGui import QUndoCommand

from engine.flow.flow_spec import FlowSpec
from workbench.designer.flow_document import FlowDocument

_MERGEABLE = 1
_NEVER_MERGED = -1


class EditFlow(QUndoCommand):
    """Replace the document's flow; edits that follow each other with the same merge key become one step."""

    def __init__(self, document: FlowDocument, text: str, after: FlowSpec, merge_key: str | None = None) -> None:
        super().__init__(text)
        self._document = document
        self._before = document.spec
        self._after = after
        self._merge_key = merge_key

    def id(self) -> int:
        """Tell Qt whether merging may be tried."""
        return _NEVER_MERGED if self._merge_key is None else _MERGEABLE

    def mergeWith(self, other: QUndoCommand) -> bool:
        """Take in the next edit of the same field or selection."""
        if not isinstance(other, EditFlow) or other._merge_key != self._merge_key:
            return False
        self._after = other._after
        self.setObsolete(self._after == self._before)
        return True

    def redo(self) -> None:
        """Show the flow after the edit."""
        self._document.replace(self._after)

    def undo(self) -> None:
        """Show the flow before the edit."""
        self._document.replace(self._before)
