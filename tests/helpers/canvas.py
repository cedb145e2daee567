"""Hands for a FlowEditor on its own: places on the canvas, clicks, drags, keys."""

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine import flow_text
from engine.flow.flow_spec import FlowSpec
from workbench.designer.editor import FlowEditor
from workbench.widgets.search_palette import SearchPalette

NONE = Qt.KeyboardModifier.NoModifier


def middle(editor: FlowEditor, name: str) -> QPoint:
    """Where an agent's header is, in the viewport."""
    rect = editor.scene.agents[name].card_rect()
    return editor.view.mapFromScene(rect.center().x(), rect.top() + 17.0)


def out_port(editor: FlowEditor, name: str, port: int = 0) -> QPoint:
    """Where an out-port is, in the viewport."""
    return editor.view.mapFromScene(editor.scene.agents[name].out_port(port))


def in_port(editor: FlowEditor, name: str) -> QPoint:
    """Where the in-port is, in the viewport."""
    return editor.view.mapFromScene(editor.scene.agents[name].in_port())


def before_port(editor: FlowEditor, name: str, units: float = 30.0) -> QPoint:
    """On the end of the link that leads straight to an agent."""
    return editor.view.mapFromScene(editor.scene.agents[name].in_port() - QPointF(units, 0.0))


def drag(editor: FlowEditor, start: QPoint, end: QPoint, *, release: bool = True) -> None:
    """Drag with the left button, in a few steps."""
    canvas = editor.view.viewport()
    QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=start)
    for share in (0.3, 0.6, 1.0):
        QTest.mouseMove(canvas, start + (end - start) * share)
    if release:
        QTest.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=end)


def key(editor: FlowEditor, what: Qt.Key, modifier: Qt.KeyboardModifier = NONE) -> None:
    """Press and release a key on the canvas."""
    QTest.keyClick(editor.view, what, modifier)


def palette(editor: FlowEditor) -> SearchPalette:
    """The list that is open on the canvas."""
    found = editor.commands.palettes.open_palette
    assert found is not None, "no list is open"
    return found


def choose(editor: FlowEditor, typed: str) -> None:
    """Type into the list that is open, and press Enter."""
    shown = palette(editor)
    QTest.keyClicks(shown.field, typed)
    assert shown.rows, f"nothing is found for {typed!r}"
    QTest.keyClick(shown.field, Qt.Key.Key_Return)
    QApplication.processEvents()


def links(spec: FlowSpec) -> set[tuple[str, str]]:
    """Source and target of every link of a flow."""
    from workbench.designer.link_edits import links_of

    return {(source, target) for source, _, target in links_of(spec)}


def check_agreement(editor: FlowEditor) -> None:
    """Document and scene show the same agents, places, links and frames."""
    from workbench.designer.card_content import card_content
    from workbench.designer.frame_edits import frames_of
    from workbench.designer.link_edits import links_of
    from workbench.designer.placement import placed

    spec, scene = editor.document.spec, editor.scene
    assert list(scene.agents) == [agent.name for agent in spec.agents]
    places = placed(spec)
    for agent in spec.agents:
        item = scene.agents[agent.name]
        assert item.content == card_content(spec, agent)
        assert (item.x(), item.y()) == tuple(places[agent.name])
    shown = {(link.source, link.index, link.target) for name in scene.agents for link in scene.links_of(name)}
    assert shown == {link for link in links_of(spec) if link[2] in scene.agents}
    for name in scene.agents:
        for link in scene.links_of(name):
            assert name in (link.source, link.target)
            assert scene.links_of(name).count(link) == 1
    assert [item.frame for item in scene.frames.items()] == list(frames_of(spec))
    assert set(editor.selected()) <= set(scene.agents)


def check_undo(editor: FlowEditor, before: str, steps: int = 1) -> None:
    """Do, undo, redo: the file is the same as before, and then as after; each was `steps` steps."""
    after = flow_text(editor.document.spec)
    assert after != before, "nothing was done"
    check_agreement(editor)
    for _ in range(steps):
        editor.undo_stack.undo()
    assert flow_text(editor.document.spec) == before
    assert not editor.undo_stack.canUndo()
    check_agreement(editor)
    for _ in range(steps):
        editor.undo_stack.redo()
    assert flow_text(editor.document.spec) == after
    check_agreement(editor)
