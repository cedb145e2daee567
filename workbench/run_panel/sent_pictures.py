"""The pictures of a request as thumbnails. Only PNG and JPEG of a sensible size are decoded, in a thread."""

import asyncio
import base64
from collections.abc import Sequence

from PySide6.QtCore import QBuffer, QByteArray, QSize, Qt
from PySide6.QtGui import QIcon, QImage, QImageReader, QPixmap
from PySide6.QtWidgets import QFrame, QListView, QListWidget, QListWidgetItem, QWidget

from engine.conversation import ImagePart
from engine.image_header import read_header
from engine.sent_images import SentImage
from workbench.tasks import Tasks
from workbench.text_format import plain_tip, tokens_text, visible_text
from workbench.theme import theme

MOST_PIXELS = 8_000_000
FORMATS = {"image/png": QByteArray(b"png"), "image/jpeg": QByteArray(b"jpeg")}
"""What is decoded; anything else is an icon with its size."""
SIDE = 64
"""Design pixels of a thumbnail."""


def thumbnail(data: bytes, side: int) -> QImage | None:
    """A small picture of at most so many pixels a side; None for what is not decoded. Its header is judged first."""
    header = read_header(data)
    if header is None or header.media_type not in FORMATS or not 0 < header.width * header.height <= MOST_PIXELS:
        return None
    buffer = QBuffer()
    buffer.setData(QByteArray(data))
    buffer.open(QBuffer.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer, FORMATS[header.media_type])
    reader.setAutoDetectImageFormat(False)
    size = reader.size()
    if not 0 < size.width() * size.height() <= MOST_PIXELS:
        return None
    reader.setScaledSize(size.scaled(side, side, Qt.AspectRatioMode.KeepAspectRatio).expandedTo(QSize(1, 1)))
    image = reader.read()
    return None if image.isNull() else image


class SentPictures(QListWidget):
    """A row of thumbnails with format, size and tokens; hidden when the request has none."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._images: Sequence[SentImage] = ()
        self._tasks = Tasks(self)
        self._shown = 0
        """How often pictures were shown: thumbnails of earlier ones come too late."""
        self.setAccessibleName(self.tr("Pictures of the prompt"))
        self.setViewMode(QListView.ViewMode.IconMode)
        self.setFlow(QListView.Flow.LeftToRight)
        self.setMovement(QListView.Movement.Static)
        self.setWrapping(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.hide()
        theme.changed.connect(self._fill)

    def show_images(self, images: Sequence[SentImage]) -> None:
        """Show these."""
        if list(images) != list(self._images):
            self._images = list(images)
            self._fill()

    def _fill(self) -> None:
        self._shown += 1
        self.clear()
        self.setVisible(bool(self._images))
        self.setIconSize(QSize(theme.px(SIDE), theme.px(SIDE)))
        self.setFixedHeight(theme.px(SIDE + 54))
        self.setFont(theme.font(11))
        for image in self._images:
            item = QListWidgetItem(theme.icon("image", 32), self.tr("reading…"), self)
            item.setSizeHint(QSize(theme.px(132), theme.px(SIDE + 40)))
            item.setTextAlignment(Qt.AlignmentFlag.AlignHCenter)
            self._tasks.start(self._read(self._shown, item, image), self)

    async def _read(self, shown: int, item: QListWidgetItem, image: SentImage) -> None:
        side = round(theme.px(SIDE) * self.devicePixelRatioF())
        words, tip, small = await asyncio.to_thread(self._described, image, side)
        if shown != self._shown:
            return
        item.setText(words)
        item.setToolTip(plain_tip(tip))
        if small is not None:
            item.setIcon(QIcon(QPixmap.fromImage(small)))

    def _described(self, image: SentImage, side: int) -> tuple[str, str, QImage | None]:
        """What stands below a picture, its tip, and its thumbnail. Reads and decodes: in a thread."""
        try:
            part = image.read()
        except ValueError as error:
            return self.tr("unreadable"), visible_text(str(error)), None
        if part.source is None:
            return self.tr("by address, not loaded"), visible_text(part.url), None
        data = base64.b64decode(part.data)
        small = thumbnail(data, side)
        tokens = tokens_text(image.tokens(part), estimated=True)
        return _words(part, len(data), tokens), part.shown, small


def _words(part: ImagePart, size: int, tokens: str) -> str:
    kind = part.media_type.removeprefix("image/").upper()
    pixels = f" {part.width} × {part.height}" if part.width else ""
    return f"{kind}{pixels}\n{size:,} B, {tokens} tok"
