"""Pictures of a request in the run dock: found in every dialect, decoded only when their header allows it."""

import base64
import struct
import zlib
from pathlib import Path

import pytest
from PySide6.QtCore import QBuffer, QByteArray
from PySide6.QtGui import QColor, QImage

from engine.conversation import ImagePart
from engine.sent_images import MOST, SentImage, sent_images
from tests.helpers.fake_server import chat
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import opened_on
from workbench.run_panel.sent_pictures import SentPictures, thumbnail

pytestmark = pytest.mark.usefixtures("qapp")


def picture(width: int = 40, height: int = 20, form: str = "PNG") -> bytes:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor("#336699"))
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    assert image.save(buffer, form)
    return bytes(data.data())


def bomb(width: int, height: int) -> bytes:
    """A small PNG that says it is large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body)) + bytes(64)


def test_pictures_are_found_in_every_dialect() -> None:
    address, data = ImagePart.of_bytes(picture()).address, ImagePart.of_bytes(picture()).data
    remote = "https://example.com/a.png"
    own = {"type": "base64", "media_type": "image/png", "data": data}
    bodies: list[tuple[dict[str, object], list[str]]] = [
        ({"messages": [{"content": [{"type": "image_url", "image_url": {"url": address}}]}]}, [address]),
        ({"input": [{"content": [{"type": "input_image", "image_url": remote}]}]}, [remote]),
        ({"messages": [{"content": [{"type": "image", "source": own}]}]}, [address]),
        ({"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": remote}}]}]}, [remote]),
        ({"messages": [{"role": "user", "images": [data]}]}, [f"data:image/any;base64,{data}"]),
        ({"messages": [{"content": f"![x]({address})"}], "images": 3}, []),
    ]
    for body, wanted in bodies:
        assert [image.address for image in sent_images(body)] == wanted
    many: dict[str, object] = {"images": [data] * (MOST + 5)}
    assert len(sent_images(many)) == MOST
    assert sent_images(bodies[4][0])[0].read().width == 40


def test_what_the_header_forbids_is_not_decoded() -> None:
    small = thumbnail(picture(400, 200), 64)
    assert small is not None
    assert (small.width(), small.height()) == (64, 32)
    assert thumbnail(picture(form="JPG"), 64) is not None
    forbidden = [bomb(60_000, 60_000), bomb(9_000, 1_000), bomb(40, 20), picture(form="BMP")]
    for data in (*forbidden, b"", b"\x89PNG\r\n\x1a\n", b"<svg/>"):
        assert thumbnail(data, 64) is None


def test_a_row_tells_size_and_tokens_and_loads_no_address(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(chat("Blue."), tmp_path) as (bench, _server):
            row = SentPictures(bench.window)
            images = [
                SentImage(ImagePart.of_bytes(picture()).address),
                SentImage("https://example.com/a.png"),
                SentImage("data:image/png;base64,AAAA"),
                SentImage(f"data:image/gif;base64,{base64.b64encode(b'GIF89a' + struct.pack('<HH', 10, 20)).decode()}"),
            ]
            row.show_images(images)
            await bench.until(lambda: all(row.item(place).text() != "reading…" for place in range(row.count())))
            texts = [row.item(place).text() for place in range(row.count())]
            assert texts[0].startswith("PNG 40 × 20\n")
            assert texts[0].endswith("~255 tok")
            assert texts[1:3] == ["by address, not loaded", "unreadable"]
            assert texts[3].startswith("GIF 10 × 20\n")
            row.show_images([])
            assert not row.isVisible()

    run_qt(story(), 60)


def test_the_prompt_tab_shows_what_was_sent(tmp_path: Path) -> None:
    (tmp_path / "sky.png").write_bytes(picture())
    flow = flow_file(
        tmp_path / "look.flow.json",
        {"name": "Look", "template": "Which colour?", "images": ["sky"]},
        inputs=[{"key": "sky", "type": "image"}],
    )

    async def story() -> None:
        async with opened_on(chat("Blue. ![x](file:///etc/passwd)"), tmp_path / "home", [flow]) as (bench, server):
            bench.tab.inspector.flow_form.show_values({"sky": str(tmp_path / "sky.png")})
            assert await bench.run_to_end() == "finished"
            bench.tab.panel.show_tab("Prompt")
            pictures = bench.tab.panel.findChild(SentPictures)
            assert isinstance(pictures, SentPictures)
            await bench.until(lambda: pictures.count() == 1 and pictures.item(0).text().startswith("PNG 40 × 20"))
            assert pictures.isVisible()
            assert ImagePart.of_bytes(picture()).data in server.requests[0].body.decode()
            bench.tab.editor.select(["Look"])
            assert bench.tab.inspector.agent_form.isVisible()

    run_qt(story(), 60)
