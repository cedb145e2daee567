"""The pictures in a request as it went out, whatever the dialect of its server."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from engine.conversation import ImagePart
from engine.image_tokens import pixel_tokens, tile_tokens
from engine.profile import ProfileOptions

MOST, DEEPEST = 50, 12
"""Pictures of a request that are looked for, and how deep inside of its body."""


@dataclass(frozen=True, slots=True)
class SentImage:
    """A picture of a request. `address` holds all its bytes, or says where the server finds it."""

    address: str
    by_pixels: bool = False
    """Whether its service counts pixels instead of tiles."""

    def read(self) -> ImagePart:
        """The picture with the size its header tells; raises ValueError for what is none."""
        return ImagePart.of_url(self.address)

    def tokens(self, image: ImagePart) -> int:
        """About what it costs, by the usual figures of its service."""
        return (pixel_tokens if self.by_pixels else tile_tokens)(image, ProfileOptions())


def sent_images(body: Mapping[str, object]) -> list[SentImage]:
    """The pictures of a request's body, in order."""
    return list(islice(_found(body, 0), MOST))


def _found(value: object, depth: int) -> Iterator[SentImage]:
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        if (image := _image(value)) is not None:
            yield image
            return
        pictures = value.get("images")  # Ollama
        if isinstance(pictures, list):
            yield from (SentImage(f"data:image/any;base64,{one}") for one in pictures if isinstance(one, str))
    if isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _found(part, depth + 1)


def _image(part: Mapping[str, object]) -> SentImage | None:
    """The picture that a part of a message is, None when it is none."""
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            return SentImage(url)
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return SentImage(f"data:{kind};base64,{data}", by_pixels=True)
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return SentImage(url, by_pixels=True)
    return None
