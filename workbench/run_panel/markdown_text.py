"""Markdown from a model in a text document: no HTML, no resource is ever loaded, fonts and colours of the design."""

from collections.abc import Iterator

from PySide6.QtCore import QUrl
from PySide6.QtGui import (
    QFont,
    QImage,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFrameFormat,
    QTextTable,
)

from workbench.text_format import visible_text
from workbench.theme import theme

PROSE_LINE, CODE_LINE = 127.0, 115.0
"""Per cent of the font's own line height, which is about 1.17 of its size: 1.5 for prose, 1.35 for code."""
HEADINGS = {1: 2, 2: 1}
"""Heading level → steps above the text's size: 1.5 and 1.2 times; deeper ones are bold only."""
BLOCKS_A_STEP = 40
PICTURE = "\ufffc"
"""What stands for a picture in a document's text."""
_FENCE = QTextBlockFormat.Property.BlockCodeFence.value
_LANGUAGE = QTextBlockFormat.Property.BlockCodeLanguage.value


class ClosedDocument(QTextDocument):
    """A document that loads nothing: no file, no address."""

    def loadResource(self, kind: int, name: QUrl | str) -> object:  # noqa: N802
        """Give a blank picture for every resource."""
        return _blank_image()


def _blank_image() -> QImage:
    image = QImage(1, 1, QImage.Format.Format_ARGB32)
    image.fill(0)
    return image


def rendering(document: QTextDocument, text: str) -> Iterator[None]:
    """Fill a document that is not shown yet with outside Markdown, step by step: go on until it ends.

    Pictures become their addresses. Text and link colours are the palette's. Only headings, code, tables and pictures
    are touched one by one, and a step is a few of them: the window must not wait for a long answer.
    """
    document.setDefaultFont(theme.font(13))
    document.setDocumentMargin(theme.px(4))
    document.setUndoRedoEnabled(False)
    features = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML
    document.setMarkdown(visible_text(text), features)
    yield
    cursor = QTextCursor(document)
    cursor.select(QTextCursor.SelectionType.Document)
    layout = _line_height(PROSE_LINE)
    layout.setTopMargin(0)
    layout.setBottomMargin(theme.px(7))
    cursor.mergeBlockFormat(layout)
    block, number = document.begin(), 0
    while block.isValid():
        _style_block(cursor, block)
        block, number = block.next(), number + 1
        if number % BLOCKS_A_STEP == 0:
            yield
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            _style_table(frame)
    _name_pictures(document)


def _line_height(percent: float) -> QTextBlockFormat:
    layout = QTextBlockFormat()
    layout.setLineHeight(percent, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    return layout


def _style_table(table: QTextTable) -> None:
    first = table.cellAt(0, 0).firstCursorPosition()
    if not first.block().text() and first.block() != table.cellAt(0, 0).lastCursorPosition().block():
        first.deleteChar()  # Qt puts an empty line into the first cell of a table that follows code
    bold = QTextCharFormat()
    bold.setFontWeight(QFont.Weight.DemiBold)
    for column in range(table.columns()):
        head = table.cellAt(0, column).firstCursorPosition()
        head.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        head.mergeCharFormat(bold)
    cells = table.firstCursorPosition()
    cells.setPosition(table.lastPosition(), QTextCursor.MoveMode.KeepAnchor)
    flat = QTextBlockFormat()
    flat.setBottomMargin(0)
    cells.mergeBlockFormat(flat)
    looks = table.format()
    looks.setBorder(1)
    looks.setBorderCollapse(True)
    looks.setBorderBrush(theme.color("line.strong"))
    looks.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    looks.setCellPadding(theme.px(4))
    looks.setCellSpacing(0)
    table.setFormat(looks)


def _style_block(cursor: QTextCursor, block: QTextBlock) -> None:
    layout = block.blockFormat()
    level = layout.headingLevel()
    if not level and not layout.hasProperty(_FENCE) and not layout.hasProperty(_LANGUAGE):
        return
    cursor.setPosition(block.position())
    cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
    if level:
        looks = QTextCharFormat()
        looks.setProperty(QTextCharFormat.Property.FontSizeAdjustment.value, HEADINGS.get(level, 0))
        looks.setFontWeight(QFont.Weight.DemiBold)
        cursor.mergeCharFormat(looks)
    else:
        code = _line_height(CODE_LINE)
        following = block.next().blockFormat()
        more = following.hasProperty(_FENCE) or following.hasProperty(_LANGUAGE)
        code.setBottomMargin(0 if more else theme.px(7))
        code.setBackground(theme.color("bg.hover"))
        cursor.mergeBlockFormat(code)


def _name_pictures(document: QTextDocument) -> None:
    looks = QTextCharFormat()
    looks.setForeground(theme.color("muted"))
    found = document.find(PICTURE)
    while not found.isNull():
        given = found.charFormat()
        name = given.toImageFormat().name() if given.isImageFormat() else ""
        found.insertText(f"[{name}]", looks)
        found = document.find(PICTURE, found)
