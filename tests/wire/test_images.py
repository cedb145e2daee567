"""Pictures in turns: their headers, their places between texts, and the form of chat completions."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Agent, AgentSpec, AgentType, Context, Engine, FlowSpec, InputSpec, ProfileStore, build_flow
from engine.clients.openai_chat import chat_messages
from engine.conversation import Conversation, ImagePart, Role, ToolCall, ToolResult, Turn
from engine.errors import FlowError
from engine.events import PromptReady
from engine.flow.flow_inputs import inner_values, input_values, inputs_context
from engine.flow.flow_spec import ModelSpec
from engine.image_header import ImageHeader, read_header
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import FakeServer, chat


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 2, 0, 0, 0)


def jpeg(width: int, height: int) -> bytes:
    application = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9)
    table = b"\xff\xc4" + struct.pack(">H", 5) + b"\xff\xc0\x00"  # looks like a frame, is none
    frame = b"\xff\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + bytes(3)
    return b"\xff\xd8" + application + table + frame


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(3)


def webp(kind: bytes, rest: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(rest) + 12) + b"WEBP" + kind + struct.pack("<I", len(rest)) + rest


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x10\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width | 0x4000, height) + bytes(4))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + bytes(8))


def webp_extended(width: int, height: int) -> bytes:
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    return webp(b"VP8X", bytes(4) + size)


@pytest.mark.parametrize(
    ("make", "media_type"),
    [
        (png, "image/png"),
        (jpeg, "image/jpeg"),
        (gif, "image/gif"),
        (webp_lossy, "image/webp"),
        (webp_lossless, "image/webp"),
        (webp_extended, "image/webp"),
    ],
)
@given(width=st.integers(1, 16_000), height=st.integers(1, 16_000))
def test_every_format_tells_its_size(make, media_type, width, height):
    data = make(width, height)
    assert read_header(data) == ImageHeader(media_type=media_type, width=width, height=height)


@given(st.binary(max_size=64))
def test_no_bytes_break_the_reading(data):
    for start in (
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"GIF89a",
        b"RIFF\0\0\0\0WEBPVP8X",
        b"RIFF\0\0\0\0WEBPVP8L",
    ):
        header = read_header(start + data)
        assert header is None or (header.width > 0) == (header.height > 0)


def test_a_cut_header_has_no_size():
    assert read_header(png(3, 4)[:20]) == ImageHeader(media_type="image/png")
    assert read_header(jpeg(3, 4)[:30]) == ImageHeader(media_type="image/jpeg")
    assert read_header(b"<svg/>") is None


def test_parts_keep_their_order():
    first, second = ImagePart(url="https://a.example/1.png"), ImagePart(url="https://a.example/2.png")
    turn = Turn.of_parts(Role.USER, [first, "left ", "and", second])
    assert [part if isinstance(part, str) else part.url for part in turn.parts] == [
        "https://a.example/1.png",
        "left and",
        "https://a.example/2.png",
    ]
    behind = Turn(role=Role.USER, text="look", images=(ImagePart(url="https://a.example/3.png"),))
    assert behind.parts[0] == "look"


def test_changed_text_keeps_the_pictures_between_the_pieces():
    picture = ImagePart(url="https://a.example/1.png")
    turn = Turn.of_parts(Role.USER, ["ab", picture, "cd"])
    changed = turn.changed(lambda text: text * 2)
    assert [part if isinstance(part, str) else "picture" for part in changed.parts] == ["abab", "picture", "cdcd"]
    assert turn.changed(str) is turn


def test_a_picture_is_made_of_bytes_and_addresses():
    picture = ImagePart.of_bytes(png(640, 480), detail="low")
    assert (picture.media_type, picture.width, picture.height, picture.detail) == ("image/png", 640, 480, "low")
    assert ImagePart.of_url(picture.address, detail="low") == picture
    assert ImagePart.of_url("https://a.example/x.png").source is None
    assert picture.shown.startswith("[image PNG, 640 × 480, 29 bytes, ")
    assert picture.shown != ImagePart.of_bytes(png(640, 481)).shown
    assert "base64" not in repr(picture) + picture.shown
    for bad in ("file:///etc/passwd", "data:image/png;base64,%%", "data:text/html;base64,AAAA", "x.png"):
        with pytest.raises(ValueError, match="found"):
            ImagePart.of_url(bad)


def test_chat_messages_hold_pictures_and_those_of_tools_follow_their_results():
    picture = ImagePart(media_type="image/jpg", data="iVBORw0KGgo=", detail="high")
    conversation = Conversation().add_user("See", [picture])
    call = ToolCall(id="s1", name="shot", arguments="{}")
    conversation = conversation.add_tool_round("", [call], [ToolResult(call_id="s1", output="done", images=(picture,))])
    shown, address = {"type": "text", "text": "See"}, {"url": "data:image/jpeg;base64,iVBORw0KGgo=", "detail": "high"}
    messages = chat_messages(conversation.turns)
    assert messages[0] == {"role": "user", "content": [shown, {"type": "image_url", "image_url": address}]}
    assert messages[2] == {"role": "tool", "tool_call_id": "s1", "content": "done"}
    note = {"type": "text", "text": "[image from tool call s1]"}
    assert messages[3] == {"role": "user", "content": [note, {"type": "image_url", "image_url": address}]}
    assert not conversation.without_images().has_images
    assert conversation.without_images().turns[0].text == "See\n[image omitted]"


def test_base64_of_a_picture_is_its_bytes():
    data = gif(2, 3)
    assert base64.b64decode(ImagePart.of_bytes(data).data) == data


def test_an_input_is_the_address_of_a_picture(tmp_path):
    item = InputSpec(key="picture", type="image")
    file = tmp_path / "a.png"
    file.write_bytes(png(3, 4))
    (address,) = input_values(item, str(file))
    assert ImagePart.of_url(address) == ImagePart.of_bytes(png(3, 4))
    assert input_values(item, address) == [address]
    assert input_values(item, "https://a.example/b.png") == ["https://a.example/b.png"]
    assert input_values(item, "") == []
    file.write_text("text", encoding="utf-8")
    with pytest.raises(ValueError, match="found no PNG"):
        input_values(item, file)
    with pytest.raises(ValueError, match="expected a picture"):
        inner_values(item, str(file))


async def test_an_agent_shows_its_pictures_to_the_model(tmp_path):
    (tmp_path / "a.png").write_bytes(png(3, 4))
    spec = FlowSpec(
        name="See",
        inputs=(InputSpec(key="picture", type="image"),),
        agents=(
            AgentSpec(
                name="Look",
                type=AgentType.COMPLETION,
                template="What is it?",
                images=("picture",),
                model=ModelSpec(category="M"),
            ),
        ),
    )
    with FakeServer(chat("A cat.")) as server:
        flow = build_flow(spec)
        flow.agents[0].profile = profile_for(server.url)
        context = inputs_context(spec, {"picture": str(tmp_path / "a.png")})
        async with Engine(profiles=ProfileStore()) as engine, engine.run(flow, context) as run:
            events = [event async for event in run]
    content = server.requests[0].json()["messages"][0]["content"]
    assert content[0] == {"type": "text", "text": "What is it?"}
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")
    (prompt,) = [event for event in events if isinstance(event, PromptReady)]
    assert "[image PNG, 3 × 4, 29 bytes" in prompt.turns[0][1]


def test_what_is_no_picture_is_said():
    agent = Agent("Look", AgentType.COMPLETION, images=["picture"])
    with pytest.raises(FlowError, match="cannot show the key picture"):
        agent.pictures(Context({"picture": "a cat"}))
    part = ImagePart.of_bytes(gif(1, 1))
    assert agent.pictures(Context({"picture": part})) == (part,)
