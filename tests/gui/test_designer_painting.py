"""What the canvas paints, looked at pixel by pixel where a person would see a mistake."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QColor, QFontMetricsF, QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.errors import Problem
from engine.flow.flow_spec import FlowSpec, ModelSpec
from tests.helpers.run_events import Script, simple_run
from tests.helpers.sample_flows import agent, chain, grid
from workbench.designer.agent_run import CardState
from workbench.designer.card_content import CARD_WIDTH, card_content
from workbench.designer.card_layout import CardLayout, scene_font
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import change_agent
from workbench.designer.flow_document import FlowDocument
from workbench.theme import DARK, LIGHT, TOKENS, theme


@pytest.fixture(autouse=True)
def still(qapp: QApplication) -> Iterator[None]:
    theme.set_reduced_motion(True)
    yield
    theme.choose(DARK)
    theme.set_reduced_motion(False)


def shown(qtbot: QtBot, spec: FlowSpec) -> FlowEditor:
    editor = FlowEditor(FlowDocument(spec))
    qtbot.addWidget(editor)
    editor.resize(900, 400)
    editor.show()
    qtbot.waitExposed(editor)
    QApplication.processEvents()
    return editor


def picture(editor: FlowEditor, name: str) -> QImage:
    """The canvas around one card."""
    card = editor.view.mapFromScene(editor.scene.agents[name].card_rect()).boundingRect()
    return editor.grab(card.adjusted(-12, -12, 12, 12)).toImage()


def has(image: QImage, token: str, area: QRect | None = None) -> bool:
    """Whether a colour appears."""
    wanted = QColor(theme.hex(token)).rgb()
    box = area or image.rect()
    return any(
        image.pixel(x, y) | 0xFF000000 == wanted
        for y in range(box.top(), box.bottom() + 1)
        for x in range(box.left(), box.right() + 1)
    )


@pytest.mark.parametrize("scheme", [DARK, LIGHT])
def test_cards_have_the_colours_of_their_state(qtbot: QtBot, scheme: str) -> None:
    theme.choose(scheme)
    # A category of its own colour: that of M is also the accent.
    editor = shown(qtbot, change_agent(chain("Writer", "Next"), "Writer", model=ModelSpec(category="L")))
    assert has(picture(editor, "Writer"), "bg.card")
    assert not has(picture(editor, "Writer"), "accent")
    editor.select(["Writer"])
    assert has(picture(editor, "Writer"), "accent")
    editor.select([])
    events = [*simple_run(Script())]
    for event in events[:-2]:
        editor.apply_event(event)
    qtbot.waitUntil(lambda: editor.scene.agents["Writer"].look.state is CardState.RUNNING)
    assert has(picture(editor, "Writer"), "run")
    assert has(picture(editor, "Writer"), "tint.run")
    for event in events[-2:]:
        editor.apply_event(event)
    qtbot.waitUntil(lambda: editor.scene.agents["Writer"].look.state is CardState.FINISHED)
    finished = picture(editor, "Writer")
    assert not has(finished, "tint.run")
    assert has(finished, "ok")


def test_another_scheme_repaints_everything(qtbot: QtBot) -> None:
    theme.choose(DARK)
    editor = shown(qtbot, chain("A", "B"))
    dark = editor.grab().toImage()
    theme.choose(LIGHT)
    QApplication.processEvents()
    light = editor.grab().toImage()
    theme.choose(DARK)
    QApplication.processEvents()
    assert editor.grab().toImage() == dark
    assert light.pixelColor(450, 13) == QColor(TOKENS["bg.canvas"][1])


def test_muted_bypassed_and_faulty_agents_say_so(qtbot: QtBot) -> None:
    spec = chain("A", "B", "C")
    spec = change_agent(change_agent(spec, "A", state="mute"), "B", state="bypass")
    editor = shown(qtbot, spec)
    labels = [item.look.footer.label if item.look.footer else "" for item in editor.scene.agents.values()]
    assert labels == ["muted", "bypassed", ""]
    editor.show_problems([Problem(severity="error", message="no", agent="C")])
    assert has(picture(editor, "C"), "err")


@pytest.mark.parametrize("zoom", [1.0, 0.45, 0.2])
def test_every_level_of_detail_paints_every_agent(qtbot: QtBot, zoom: float) -> None:
    editor = shown(qtbot, grid(12, columns=4))
    editor.view.zoom_to(zoom)
    editor.view.centerOn(editor.scene.extent().center())
    QApplication.processEvents()
    image = editor.view.viewport().grab().toImage()
    for item in editor.scene.agents.values():
        at = editor.view.mapFromScene(item.resting_rect().center())
        if image.rect().contains(at):
            box = QRect(at - QPoint(8, 8), at + QPoint(8, 8)) & image.rect()
            colors = {image.pixel(x, y) for x in range(box.left(), box.right()) for y in range(box.top(), box.bottom())}
            assert colors != {QColor(theme.hex("bg.canvas")).rgb()}


@pytest.mark.parametrize(
    ("name", "template", "badge"),
    [
        ("A", "", "M"),
        ("AnAgentWithANameThatIsFarTooLongForItsCard", "word " * 60, "a-very-long-profile-name-indeed"),
        ("日本語の名前のエージェント", "絵文字 🙂🙂🙂 " * 20, "XL"),
        ("x" * 90, "y" * 300 + " [[aaaaaaaaaaaaaaaaaaaa]] [[bbbbbbbbbbbbbbbbbbbb]] [[cccccccccccc]]", "S"),
    ],
)
def test_no_text_leaves_its_card(qapp: QApplication, name: str, template: str, badge: str) -> None:
    one = agent(name, None, template=template, model=ModelSpec(category=badge), tools=("a", "b"))
    layout = CardLayout(card_content(FlowSpec(name="x", start=name, agents=(one,)), one))
    inner = CARD_WIDTH - 9.0

    def end(text: str, x: float, size: float, weight: int = 400) -> float:
        return x + QFontMetricsF(scene_font(size, weight)).horizontalAdvance(text)

    assert end(layout.name.text, layout.name.at.x(), 14, 600) <= layout.badge_rect.left()
    assert layout.badge_rect.right() <= inner
    assert all(end(line.text, line.at.x(), 12) <= inner + 1.0 for line in layout.preview)
    assert all(chip.rect.right() <= inner for chip in layout.chips)
    assert all(end(chip.text.text, chip.text.at.x(), 11, 500) <= chip.rect.right() for chip in layout.chips)
    assert all(row.text.at.x() >= 9.0 for row in layout.rows)
    assert all(end(line.text, line.at.x(), 25, 600) <= inner + 1.0 for line in layout.title)
    assert len(layout.preview) <= 2
