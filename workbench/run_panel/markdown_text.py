"""Markdown from a model in a text document: no HTML, no resource is ever loaded, fonts and colours of the design."""

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
HEADINGS = {1: 18, 2: 16, 3: 14}
"""Heading level → design px; deeper ones are 13."""


class ClosedDocument(QTextDocument):
    """A document that loads nothing: no file, no address."""

    def loadResource(self, kind: int, name: QUrl | str) -> object:  # noqa: N802
        """Give a blank picture for every resource."""
        return _blank_image()


def _blank_image() -> QImage:
    image = QImage(1, 1, QImage.Format.Format_ARGB32)
    image.fill(0)
    return image


def render_markdown(document: QTextDocument, text: str, color: str) -> None:
    """Fill a document with outside Markdown; `color` is the token of its text. Pictures become their addresses."""
    features = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML
    document.setMarkdown(visible_text(text), features)
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            _style_table(frame)
    block = document.begin()
    while block.isValid():
        _style_block(cursor, block, color)
        block = block.next()
    cursor.endEditBlock()


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
    looks = table.format()
    looks.setBorder(1)
    looks.setBorderCollapse(True)
    looks.setBorderBrush(theme.color("line.strong"))
    looks.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    looks.setCellPadding(theme.px(4))
    looks.setCellSpacing(0)
    table.setFormat(looks)


def _style_block(cursor: QTextCursor, block: QTextBlock, color: str) -> None:
    cursor.setPosition(block.position())
    layout = block.blockFormat()
    code = layout.hasProperty(QTextBlockFormat.Property.BlockCodeFence.value) or layout.hasProperty(
        QTextBlockFormat.Property.BlockCodeLanguage.value
    )
    layout.setLineHeight(CODE_LINE if code else PROSE_LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    level = layout.headingLevel()
    if code:
        layout.setBackground(theme.color("bg.hover"))
    elif cursor.currentTable():
        layout.setTopMargin(0)
        layout.setBottomMargin(0)
    elif block.textList() is None:
        layout.setTopMargin(theme.px(8) if level and block.position() else 0)
        layout.setBottomMargin(theme.px(7))
    cursor.setBlockFormat(layout)
    for start, length, given in reversed(_fragments(block)):
        cursor.setPosition(start)
        cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
        _style_fragment(cursor, given, code=code, level=level, color=color)


def _fragments(block: QTextBlock) -> list[tuple[int, int, QTextCharFormat]]:
    found = []
    iterator = block.begin()
    while not iterator.atEnd():
        fragment = iterator.fragment()
        found.append((fragment.position(), fragment.length(), fragment.charFormat()))
        iterator += 1
    return found


def _style_fragment(cursor: QTextCursor, given: QTextCharFormat, *, code: bool, level: int, color: str) -> None:
    looks = QTextCharFormat(given)
    if given.isImageFormat():
        looks = QTextCharFormat()
        looks.setForeground(theme.color("muted"))
        cursor.insertText(f"[{given.toImageFormat().name()}]", looks)
        return
    looks.setForeground(theme.color("accent" if given.isAnchor() else color))
    if level:
        looks.clearProperty(QTextCharFormat.Property.FontSizeAdjustment.value)
        looks.setProperty(QTextCharFormat.Property.FontPixelSize.value, theme.px(HEADINGS.get(level, 13)))
        looks.setFontWeight(QFont.Weight.DemiBold)
    if code or given.fontFixedPitch():
        mono = theme.font(12, mono=True)
        looks.setFontFamilies([mono.family()])
        looks.setProperty(QTextCharFormat.Property.FontPixelSize.value, mono.pixelSize())
    cursor.setCharFormat(looks)
