"""Random edits with undo and redo: document, scene, outline and file agree after each."""

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from engine import flow_text, read_flow
from engine.flow.flow_spec import FlowSpec, RouteSpec
from tests.helpers.canvas import check_agreement
from tests.helpers.sample_flows import agent, chain, grid, sample
from workbench.designer.agent_kinds import additions
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import change_agent, rename_agent
from workbench.designer.flow_document import FlowDocument
from workbench.designer.frame_edits import frames_of
from workbench.designer.key_edits import CannotRename, rename_key
from workbench.designer.link_edits import links_of, routes_of
from workbench.designer.outline import Outline
from workbench.designer.view import FlowView
from workbench.theme import theme

PARTS = [addition.part for addition in additions() if addition.part is not None]
STARTS = (
    FlowSpec(name="Empty"),
    chain("A", "B", "C"),
    sample("draft-grade-improve"),
    sample("sort-messages"),
    grid(9, 3),
)
COMMANDS = ("delete", "delete_heal", "cut", "copy", "paste", "paste_linked", "duplicate", "mute", "bypass", "set_start",
            "layout", "frame")  # fmt: skip
number = st.integers(0, 1_000_000)


@pytest.fixture(autouse=True)
def still(qapp: QApplication) -> Iterator[None]:
    """Nothing travels, so that places are known at once."""
    theme.set_reduced_motion(True)
    yield
    theme.set_reduced_motion(False)


class Editing(RuleBasedStateMachine):
    """A person who does anything in any order."""

    @initialize(start=st.sampled_from(STARTS))
    def begin(self, start: FlowSpec) -> None:
        self.editor = FlowEditor(FlowDocument(start))
        self.outline = Outline(self.editor)
        self.start = flow_text(start)
        self.texts = [self.start]
        """The file after each step of undo, as far as there are steps."""

    def teardown(self) -> None:
        if hasattr(self, "editor"):
            self.outline.deleteLater()
            self.editor.deleteLater()

    def _name(self, which: int) -> str:
        agents = self.editor.document.spec.agents
        return agents[which % len(agents)].name

    def _did(self) -> None:
        """One step more, or none when nothing was to be done."""
        stack = self.editor.undo_stack
        if stack.index() == len(self.texts):
            self.texts.append(flow_text(self.editor.document.spec))
        assert stack.index() == len(self.texts) - 1, "an action was more than one step"

    @property
    def has_agents(self) -> bool:
        return bool(self.editor.document.spec.agents)

    @rule(chosen=st.sets(number, max_size=4))
    def select(self, chosen: set[int]) -> None:
        if self.has_agents:
            self.editor.select({self._name(which) for which in chosen})

    @rule(which=number)
    def select_link_or_frame(self, which: int) -> None:
        marks: list[tuple[str, int] | int] = [(source, port) for source, port, _ in links_of(self.editor.document.spec)]
        marks += [frame.index for frame in frames_of(self.editor.document.spec)]
        if marks:
            self.editor.mark(marks[which % len(marks)])

    @rule(command=st.sampled_from(COMMANDS))
    def command(self, command: str) -> None:
        if len(self.editor.scene.agents) < 60 or command not in ("paste", "paste_linked", "duplicate"):
            self.editor.commands.perform(command)
            self._did()

    @precondition(lambda self: len(self.editor.scene.agents) < 60)
    @rule(which=number, x=st.integers(-500, 500), y=st.integers(-500, 500))
    def insert(self, which: int, x: int, y: int) -> None:
        self.editor.commands.insert(PARTS[which % len(PARTS)], QPointF(x, y))
        self._did()

    @precondition(lambda self: self.has_agents)
    @rule(which=number, port=number, end=number)
    def link(self, which: int, port: int, end: int) -> None:
        source = self._name(which)
        found = self.editor.document.spec.agent(source)
        assert found is not None
        self.editor.commands.link(source, port % (len(routes_of(found)) or 1), self._name(end))
        self._did()

    @precondition(lambda self: self.has_agents)
    @rule(which=number, name=st.sampled_from(["A", "Writer", "New", "B 2", "Ä"]))
    def rename(self, which: int, name: str) -> None:
        spec = self.editor.document.spec
        if spec.agent(name) is None:
            self.editor.edit("Rename", rename_agent(spec, self._name(which), name))
            self._did()

    @rule(old=st.sampled_from(["response", "draft", "message", "it"]), new=st.sampled_from(["one", "two", "it"]))
    def rename_key(self, old: str, new: str) -> None:
        try:
            self.editor.edit("Rename key", rename_key(self.editor.document.spec, old, new))
        except CannotRename:
            return
        self._did()

    @precondition(lambda self: self.has_agents)
    @rule(which=number, routes=st.lists(st.sampled_from(["x > 1", None]), max_size=3))
    def routes(self, which: int, routes: list[str | None]) -> None:
        spec = self.editor.document.spec
        changed = tuple(RouteSpec(when=when, to=self._name(which + place)) for place, when in enumerate(routes))
        self.editor.edit("Routes", change_agent(spec, self._name(which), routes=changed))
        self._did()

    @precondition(lambda self: self.has_agents)
    @rule(which=number, x=st.integers(-500, 500))
    def move(self, which: int, x: int) -> None:
        view: FlowView = self.editor.view
        view.agents_moved.emit({self._name(which): (float(x), 0.0)}, False)
        self._did()

    @rule(steps=st.integers(1, 4))
    def undo(self, steps: int) -> None:
        for _ in range(min(steps, len(self.texts) - 1)):
            self.editor.undo_stack.undo()
            self.texts.pop()
            assert flow_text(self.editor.document.spec) == self.texts[-1]

    @rule()
    def undo_and_redo(self) -> None:
        """As far as it goes back, and forth again."""
        done = len(self.texts) - 1
        for _ in range(done):
            self.editor.undo_stack.undo()
        assert flow_text(self.editor.document.spec) == self.start
        assert not self.editor.document.is_modified
        for text in self.texts[1:]:
            self.editor.undo_stack.redo()
            assert flow_text(self.editor.document.spec) == text

    @invariant()
    def all_agree(self) -> None:
        if not hasattr(self, "editor"):
            return
        check_agreement(self.editor)
        spec = self.editor.document.spec
        assert sorted(self.outline.agents()) == sorted(one.name for one in spec.agents)
        text = flow_text(spec)
        assert read_flow(text).spec == spec
        assert {target for _, _, target in links_of(spec)} <= {one.name for one in spec.agents}
        chosen = {index.data(Qt.ItemDataRole.UserRole + 1).agent for index in self.outline.tree.selectedIndexes()}
        assert chosen == set(self.editor.selected())


def run_machine(edits: int, walks: int) -> None:
    """So many edits in each of so many walks."""
    quiet = settings(
        max_examples=walks,
        stateful_step_count=edits,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Editing, settings=quiet)


def test_200_random_edits() -> None:
    QGuiApplication.clipboard().setText("")
    run_machine(40, 5)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_1000_random_edits() -> None:
    QGuiApplication.clipboard().setText("")
    run_machine(1000, 1)


def fluid(editor: FlowEditor, act: Callable[[], object]) -> int:
    """How many links are drawn anew while something is done."""
    drawn = 0
    original = type(editor.scene)._draw_link

    def counted(scene: object, link: object) -> None:
        nonlocal drawn
        drawn += 1
        original(scene, link)  # type: ignore[arg-type]

    try:
        type(editor.scene)._draw_link = counted  # type: ignore[method-assign, assignment]
        act()
    finally:
        type(editor.scene)._draw_link = original  # type: ignore[method-assign]
    return drawn


def test_an_edit_among_a_thousand_agents_touches_only_its_own_links(qapp: QApplication) -> None:
    editor = FlowEditor(FlowDocument(grid(1000)))
    some = f"Agent{random.Random(1).randrange(100, 900)}"
    items = dict(editor.scene.agents)
    editor.select([some])
    own = len(editor.scene.links_of(some))
    editor.view.agents_moved.emit({some: (1.0, 1.0)}, False)  # what can be seen is drawn once, whatever happens
    assert fluid(editor, lambda: editor.view.agents_moved.emit({some: (5.0, 5.0)}, False)) == own
    assert fluid(editor, lambda: editor.commands.perform("mute")) <= own
    assert fluid(editor, lambda: editor.commands.perform("duplicate")) <= 2 * own
    editor.commands.perform("delete")
    editor.select([some])
    assert fluid(editor, lambda: editor.commands.perform("delete")) <= 2 * 3
    kept = [name for name in editor.scene.agents if editor.scene.agents[name] is items[name]]
    assert len(kept) == 999
    editor.edit("Add", FlowSpec(name="x", agents=(*editor.document.spec.agents, agent("New", "Agent0"))))
    check_agreement(editor)
    editor.deleteLater()
