"""Format and size of a picture, read from its first bytes. Sources: the specifications of PNG, JPEG, GIF and WebP."""

from dataclasses import dataclass

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What models take."""

_NO_SIZE = frozenset({0x01, *range(0xD0, 0xDA)})
"""JPEG markers that stand alone."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that begin a frame, which has the size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageHeader:
    """What the first bytes of a picture say."""

    media_type: str
    width: int = 0
    """Pixels; 0: not found."""
    height: int = 0


def read_header(data: bytes) -> ImageHeader | None:
    """The header of a PNG, JPEG, GIF or WebP picture; None for anything else. A damaged one has no size."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        known = data[12:16] == b"IHDR" and len(data) >= 24
        return _header("image/png", (_big(data[16:20]), _big(data[20:24])) if known else (0, 0))
    if data.startswith((b"GIF87a", b"GIF89a")):
        known = len(data) >= 10
        return _header("image/gif", (_little(data[6:8]), _little(data[8:10])) if known else (0, 0))
    if data.startswith(b"\xff\xd8\xff"):
        return _header("image/jpeg", _jpeg(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _header("image/webp", _webp(data))
    return None


def _header(media_type: str, size: tuple[int, int]) -> ImageHeader:
    width, height = size if min(size) > 0 else (0, 0)
    return ImageHeader(media_type=media_type, width=width, height=height)


def _jpeg(data: bytes) -> tuple[int, int]:
    """Width and height from the first frame; segments before it are passed over by their lengths."""
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:  # fill
            place += 1
        elif marker in _NO_SIZE:
            place += 2
        elif marker in _FRAMES:
            return (
                (_big(data[place + 7 : place + 9]), _big(data[place + 5 : place + 7]))
                if place + 9 <= len(data)
                else (0, 0)
            )
        else:
            place += 2 + max(2, _big(data[place + 2 : place + 4]))
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    """Width and height of its three forms: lossy, lossless, extended."""
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return _little(data[24:27]) + 1, _little(data[27:30]) + 1
    if kind == b"VP8L" and len(data) >= 25 and data[20] == 0x2F:
        bits = _little(data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and len(data) >= 30 and data[23:26] == b"\x9d\x01\x2a":
        return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    return 0, 0


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
