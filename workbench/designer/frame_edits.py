"""Comment frames around agents: how a flow file keeps them, and their edits as pure functions.

A frame is an entry of `editor.frames`: `title`, `comment`, `color` and `rect` (x, y, width, height in scene units).
What else an entry holds is kept.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from engine.flow.flow_spec import FlowSpec
from workbench.designer.card_content import CARD_WIDTH, FOOTER_HEIGHT, card_content
from workbench.designer.placement import placed

COLORS = ("accent", "ok", "warn", "err", "reason", "ice")
"""Names of colours a frame can have; the first is that of new ones, and stands in for unknown ones."""
TITLE_HEIGHT = 28.0
MARGIN = 24.0
_SMALLEST = (120.0, 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame that can be shown."""

    index: int
    """Its place in the file's list."""
    title: str
    comment: str
    color: str
    rect: tuple[float, float, float, float]


def frames_of(spec: FlowSpec) -> tuple[Frame, ...]:
    """The frames of a flow that have a rectangle."""
    frames = []
    for index, entry in enumerate(spec.editor.frames):
        rect = _rect(entry.get("rect"))
        if rect is not None:
            color = str(entry.get("color", ""))
            frames.append(
                Frame(
                    index=index,
                    title=str(entry.get("title", "")),
                    comment=str(entry.get("comment", "")),
                    color=color if color in COLORS else COLORS[0],
                    rect=rect,
                )
            )
    return tuple(frames)


def frame_around(spec: FlowSpec, names: Collection[str], title: str) -> FlowSpec:
    """Put a frame around agents."""
    places = placed(spec)
    cards = [(places[one.name], card_content(spec, one).body_height) for one in spec.agents if one.name in names]
    if not cards:
        return spec
    left, top = min(x for (x, _), _ in cards) - MARGIN, min(y for (_, y), _ in cards) - MARGIN - TITLE_HEIGHT
    right = max(x for (x, _), _ in cards) + CARD_WIDTH + MARGIN
    bottom = max(y + height for (_, y), height in cards) + FOOTER_HEIGHT + MARGIN
    return add_frame(spec, title, (left, top, right - left, bottom - top))


def add_frame(spec: FlowSpec, title: str, rect: tuple[float, float, float, float]) -> FlowSpec:
    """Add a frame."""
    entry: dict[str, object] = {"title": title, "color": COLORS[0], "rect": _tidy(rect)}
    return _with_frames(spec, (*spec.editor.frames, entry))


def change_frame(spec: FlowSpec, index: int, **fields: object) -> FlowSpec:
    """Give a frame another title, comment, colour or rectangle."""
    rect = _rect(fields.get("rect"))
    if rect is not None:
        x, y, width, height = rect
        fields["rect"] = _tidy((x, y, max(_SMALLEST[0], width), max(_SMALLEST[1], height)))
    frames = tuple({**entry, **fields} if number == index else entry for number, entry in enumerate(spec.editor.frames))
    return _with_frames(spec, frames)


def remove_frame(spec: FlowSpec, index: int) -> FlowSpec:
    """Take a frame away; the agents in it stay."""
    return _with_frames(spec, tuple(one for number, one in enumerate(spec.editor.frames) if number != index))


def agents_inside(spec: FlowSpec, frame: Frame) -> tuple[str, ...]:
    """Names of the agents whose card begins inside a frame: they move along with it."""
    x, y, width, height = frame.rect
    places: Mapping[str, tuple[float, float]] = placed(spec)
    return tuple(
        name
        for name, (left, top) in places.items()
        if x <= left <= x + width - CARD_WIDTH / 2 and y <= top < y + height
    )


def _with_frames(spec: FlowSpec, frames: tuple[dict[str, object], ...]) -> FlowSpec:
    return replace(spec, editor=replace(spec.editor, frames=frames))


def _rect(value: object) -> tuple[float, float, float, float] | None:
    if not isinstance(value, list | tuple) or len(value) != 4:
        return None
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in value):
        return None
    x, y, width, height = (float(number) for number in value)
    return (x, y, width, height) if width > 0 and height > 0 else None


def _tidy(rect: tuple[float, float, float, float]) -> list[int]:
    return [round(number) for number in rect]
