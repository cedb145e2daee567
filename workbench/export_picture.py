"""The canvas of a flow as an SVG or PNG file, drawn offscreen with the colours of a theme."""

from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRectF, QSize, QSizeF, qInstallMessageHandler
from PySide6.QtGui import QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QGraphicsItem

from engine import FlowSpec, LoadedFlow
from engine.atomic_file import write_atomically
from engine.errors import StorageError
from workbench.app import log_qt, make_application
from workbench.designer.run_overlay import RunOverlay
from workbench.designer.scene import FlowScene
from workbench.theme import theme

_MARGIN = 32.0
_SCALE = 2.0
"""Device pixels of a PNG for each unit of the canvas."""
_LARGEST = 16_000
"""Device pixels a side of a PNG has at most; larger flows are drawn smaller."""


def export_picture(loaded: LoadedFlow, form: str, output: Path, scheme: str) -> int:
    """Draw a flow into a file; the exit status."""
    make_application()
    # The offscreen platform notes what it cannot do; that is no news for a terminal.
    qInstallMessageHandler(log_qt)
    theme.install(scheme)
    data = svg(loaded.spec) if form == "svg" else png(loaded.spec)
    try:
        write_atomically(output.absolute(), data)
    except StorageError as error:
        print(f"error: {error}")  # noqa: T201
        return 1
    return 0


def svg(spec: FlowSpec) -> bytes:
    """The canvas as SVG."""
    scene, area = _scene(spec)
    buffer = _buffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setTitle(spec.name)
    generator.setSize(area.size().toSize())
    generator.setViewBox(QRectF(0.0, 0.0, area.width(), area.height()))
    _paint(scene, area, generator, area.size())
    return bytes(buffer.data().data())


def png(spec: FlowSpec) -> bytes:
    """The canvas as PNG, in twice its size, or smaller when it is very large."""
    scene, area = _scene(spec)
    scale = min(_SCALE, _LARGEST / max(area.width(), area.height()))
    size = QSize(round(area.width() * scale), round(area.height() * scale))
    image = QImage(size, QImage.Format.Format_RGB32)
    _paint(scene, area, image, QSizeF(size))
    buffer = _buffer()
    QImageWriter(buffer, QByteArray(b"PNG")).write(image)
    return bytes(buffer.data().data())


def _scene(spec: FlowSpec) -> tuple[FlowScene, QRectF]:
    scene = FlowScene(spec, RunOverlay())
    area = scene.extent().adjusted(-_MARGIN, -_MARGIN, _MARGIN, _MARGIN)
    scene.lay(area)
    for item in scene.items():
        item.setCacheMode(QGraphicsItem.CacheMode.NoCache)  # drawn as lines and letters, not as a picture of them
    return scene, area


def _paint(scene: FlowScene, area: QRectF, device: QImage | QSvgGenerator, size: QSizeF) -> None:
    painter = QPainter(device)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    target = QRectF(0.0, 0.0, size.width(), size.height())
    painter.fillRect(target, theme.color("bg.canvas"))
    scene.render(painter, target, area)
    painter.end()


def _buffer() -> QBuffer:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    return buffer
