"""Turns and conversations, the one message model for every provider."""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from engine.content import KeptPart
from engine.image_header import read_header


class Role(StrEnum):
    """Who speaks in a turn."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A model's request to run a tool."""

    id: str
    name: str
    arguments: str
    """The arguments as the JSON text the model wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came of one call."""

    call_id: str
    output: str
    failed: bool = False
    images: "tuple[ImagePart, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """What a model is told about a tool."""

    name: str
    description: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """JSON schema of the arguments, an object; empty: the tool takes none."""
    strict: bool | None = None
    """Whether the server must keep to the schema; None leaves it to the server."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError("a tool needs a name")

    @classmethod
    def of_texts(cls, name: str, description: str, parameters: Mapping[str, str]) -> "ToolDefinition":
        """Define a tool whose arguments are all texts and all required: argument name → description."""
        return cls(
            name=name,
            description=description,
            parameters={
                "type": "object",
                "properties": {key: {"type": "string", "description": text} for key, text in parameters.items()},
                "required": list(parameters),
                "additionalProperties": False,
            },
        )


class ToolUse(StrEnum):
    """Whether a model calls tools."""

    AUTO = "auto"
    """As it likes."""
    REQUIRED = "required"
    """At least one."""
    NONE = "none"
    """It knows them, because earlier turns use them, but calls none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """The tools of a request, and which of them the model may or must call."""

    tools: tuple[ToolDefinition, ...]
    use: ToolUse = ToolUse.AUTO
    forced: str = ""
    """Name of the one tool the model must call; wins over `use`."""
    parallel: bool | None = None
    """Whether one answer may have several calls; None = as the profile says."""

    def __post_init__(self) -> None:
        if self.forced and self.forced not in self.names:
            raise ValueError(f'the forced tool "{self.forced}" is not among the tools')

    @classmethod
    def auto(cls, tools: Iterable[ToolDefinition]) -> "ToolChoice":
        """Let the model decide."""
        return cls(tools=tuple(tools))

    @classmethod
    def required(cls, tools: Iterable[ToolDefinition]) -> "ToolChoice":
        """Make the model call at least one."""
        return cls(tools=tuple(tools), use=ToolUse.REQUIRED)

    @classmethod
    def none(cls, tools: Iterable[ToolDefinition]) -> "ToolChoice":
        """Show the tools, but have none called."""
        return cls(tools=tuple(tools), use=ToolUse.NONE)

    @classmethod
    def force(cls, tools: Iterable[ToolDefinition], name: str) -> "ToolChoice":
        """Make the model call this one; raises ValueError for a name that is not among them."""
        return cls(tools=tuple(tools), forced=name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools, in order."""
        return tuple(tool.name for tool in self.tools)

    def choosing(self, use: ToolUse) -> "ToolChoice":
        """The same tools with another choice, none forced."""
        return self if self.use is use and not self.forced else replace(self, use=use, forced="")


_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]+);base64,", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """A picture in a turn: its data, or the address where the server finds it."""

    media_type: str = ""
    """`image/png`, `image/jpeg`, `image/gif` or `image/webp`; empty for an address."""
    data: str = field(default="", repr=False)
    """The bytes in base64."""
    url: str = ""
    """An http(s) address; there is either this or data."""
    detail: str = ""
    """How closely the model looks: `low`, `high`, `medium`, `auto`; empty leaves it to the server."""
    width: int = 0
    """Pixels; 0: not known."""
    height: int = 0
    at: int | None = None
    """Characters of the turn's text that come before the picture; None: all of them."""

    @classmethod
    def of_bytes(cls, data: bytes, *, detail: str = "") -> "ImagePart":
        """A picture from the bytes of its file; raises ValueError when it is none that models take."""
        header = read_header(data)
        if header is None:
            raise ValueError("found no PNG, JPEG, GIF or WebP picture")
        return cls(
            media_type=header.media_type,
            data=base64.b64encode(data).decode("ascii"),
            detail=detail,
            width=header.width,
            height=header.height,
        )

    @classmethod
    def of_url(cls, url: str, *, detail: str = "") -> "ImagePart":
        """A picture from a `data:` or http(s) address, which is not fetched; raises ValueError for another address."""
        if found := _DATA_URL.match(url):
            try:
                data = base64.b64decode(url[found.end() :], validate=True)
            except binascii.Error:
                raise ValueError("found a data: address whose base64 is damaged") from None
            return cls.of_bytes(data, detail=detail)
        if not re.match(r"https?://[^\s/]", url, re.IGNORECASE):
            shown = url if len(url) <= 60 else f"{url[:59]}…"
            raise ValueError(f"found {shown!r}, expected a picture as a data: or http(s) address")
        return cls(url=url, detail=detail)

    @property
    def source(self) -> tuple[str, str] | None:
        """Media type, as services spell it, and base64; None for an address elsewhere."""
        kind, data = self.media_type, self.data
        if self.url:
            found = _DATA_URL.match(self.url)
            if found is None:
                return None
            kind, data = found.group(1), self.url[found.end() :]
        kind = kind.lower()
        return "image/jpeg" if kind == "image/jpg" else kind, data

    @property
    def address(self) -> str:
        """The picture as one address: http(s), or `data:` with all its bytes."""
        source = self.source
        return self.url if source is None else f"data:{source[0]};base64,{source[1]}"

    @property
    def shown(self) -> str:
        """One line for people that differs for different pictures."""
        source = self.source
        if source is None:
            return f"[image {self.url}]"
        kind, data = source
        mark = hashlib.sha256(data.encode("ascii", "replace")).hexdigest()[:8]
        size = f", {self.width} × {self.height}" if self.width else ""
        length = len(data) * 3 // 4 - data[-2:].count("=")
        return f"[image {kind.removeprefix('image/').upper()}{size}, {length:,} bytes, {mark}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One immutable turn of a conversation."""

    role: Role
    text: str = ""
    reasoning: str = ""
    """Thinking in the example of a flow; the thinking of real answers is never sent back."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """The call this TOOL turn answers."""
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()
    """Pictures of a USER turn, or of what a tool gave."""
    pinned: bool = False
    """Stays when old turns are left out: the task everything else is about."""
    name: str = ""
    """Who speaks, where several do in one role."""
    kept: tuple[KeptPart, ...] = ()
    """Of an answer: what its provider wants back unchanged."""
    origin: str = ""
    """`ModelProfile.origin` of an answer: what was signed or encrypted there means nothing elsewhere."""

    @classmethod
    def of_parts(cls, role: Role, parts: Iterable["str | ImagePart"]) -> "Turn":
        """A turn of texts and pictures in this order; neighbouring texts become one."""
        text, images = "", []
        for part in parts:
            if isinstance(part, str):
                text += part
            else:
                images.append(replace(part, at=len(text)))
        return cls(role=role, text=text, images=tuple(images))

    @property
    def parts(self) -> "list[str | ImagePart]":
        """Text and pictures in their order; no part is empty."""
        parts: list[str | ImagePart] = []
        begin = 0
        for image in sorted(self.images, key=self._place):
            end = self._place(image)
            parts += [self.text[begin:end]] if end > begin else []
            parts.append(image)
            begin = end
        return [*parts, self.text[begin:]] if begin < len(self.text) else parts

    def _place(self, image: ImagePart) -> int:
        return len(self.text) if image.at is None else min(max(image.at, 0), len(self.text))

    def changed(self, change: "Callable[[str], str]") -> "Turn":
        """With every piece of text changed; pictures keep their places between the pieces."""
        if not self.images:
            text = change(self.text)
            return self if text == self.text else replace(self, text=text)
        parts = (change(part) if isinstance(part, str) else part for part in self.parts)
        other = Turn.of_parts(self.role, parts)
        return self if other.text == self.text else replace(self, text=other.text, images=other.images)

    @property
    def shown(self) -> str:
        """The turn for people: its text, what it calls, a line for each picture."""
        if not self.images and not self.tool_calls:
            return self.text
        calls = [f"{call.name}({call.arguments})" for call in self.tool_calls]
        return "\n".join(filter(None, [self.text, *calls, *(image.shown for image in self.images)]))


@dataclass(frozen=True, slots=True)
class Conversation:
    """An immutable list of turns; the methods return a changed copy, so branches share what they have in common."""

    turns: tuple[Turn, ...] = ()

    @property
    def text(self) -> str:
        """The texts of all turns, for counting."""
        return "\n".join(turn.text for turn in self.turns)

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """Role and text of each turn, for people; a picture is a line that tells it from others."""
        return tuple([(turn.role.value, turn.shown) for turn in self.turns])

    @property
    def has_images(self) -> bool:
        """Whether any turn has a picture."""
        return any(turn.images for turn in self.turns)

    def without_images(self, note: str = "[image omitted]") -> "Conversation":
        """With a note in the place of every picture, for a model that takes none."""
        return Conversation(tuple(_noted(turn, note) if turn.images else turn for turn in self.turns))

    @classmethod
    def create(cls, system: str, user: str) -> "Conversation":
        """Start with a system and a user turn; an empty text adds no turn."""
        turns = (Turn(role=Role.SYSTEM, text=system), Turn(role=Role.USER, text=user))
        return cls(tuple(turn for turn in turns if turn.text))

    def add(self, *turns: Turn) -> "Conversation":
        """Append turns."""
        return Conversation(self.turns + turns)

    def add_user(self, text: str, images: Iterable[ImagePart] = ()) -> "Conversation":
        """Append a user turn; the pictures stand behind the text."""
        return self.add(Turn(role=Role.USER, text=text, images=tuple(images)))

    def add_assistant(self, text: str) -> "Conversation":
        """Append an assistant turn."""
        return self.add(Turn(role=Role.ASSISTANT, text=text))

    def replace_last(self, turn: Turn) -> "Conversation":
        """Replace the last turn, or add the turn when there is none."""
        return Conversation((*self.turns[:-1], turn))

    def rewind(self) -> "Conversation":
        """Drop the last two turns when there are at least two."""
        return Conversation(self.turns[:-2]) if len(self.turns) >= 2 else self

    def add_tool_round(
        self,
        text: str,
        calls: Sequence[ToolCall],
        results: Sequence[ToolResult],
        *,
        kept: Sequence[KeptPart] = (),
        origin: str = "",
    ) -> "Conversation":
        """Append an assistant turn with calls, then one TOOL turn per result.

        `kept` and `origin` are those of the completion: what its provider wants back unchanged.
        """
        answer = Turn(role=Role.ASSISTANT, text=text, tool_calls=tuple(calls), kept=tuple(kept), origin=origin)
        outputs = tuple(
            Turn(
                role=Role.TOOL,
                text=result.output,
                tool_call_id=result.call_id,
                is_error=result.failed,
                images=result.images,
            )
            for result in results
        )
        return self.add(answer, *outputs)


def _noted(turn: Turn, note: str) -> Turn:
    parts = [part if isinstance(part, str) else note for part in turn.parts]
    return replace(turn, text="\n".join(parts), images=())
