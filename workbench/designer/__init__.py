"""The flow designer: a document, its undoable edits, and the canvas that shows both."""
