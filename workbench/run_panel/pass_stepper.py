"""Which pass of the whole run is shown: `‹ 3 / 7 ›`. A pass is one execution of one of the flow's own agents."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from workbench.run_panel.labels import Figures
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Step
from workbench.text_format import visible_text
from workbench.theme import theme


class PassStepper(QWidget):
    """Follows the run until somebody steps away; *latest* brings it back. There only while there is a choice."""

    chosen = Signal(int)
    """The step of the pass to show; 0: the run as it stands."""
    changed = Signal()
    """It can go where it could not before, or the other way round."""

    def __init__(self, model: RunModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._place: int | None = None
        self._ways = (False, False, False)
        self._back = self._button(self.tr("Previous pass"), lambda: self.step(-1))
        self._on = self._button(self.tr("Next pass"), lambda: self.step(1))
        self._latest = self._button(self.tr("Latest pass"), self.show_latest)
        self._figures = Figures(12, 400, "text2", self)
        self._figures.setAlignment(Qt.AlignmentFlag.AlignCenter)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        for widget in (self._back, self._figures, self._on, self._latest):
            row.addWidget(widget)
        model.step_started.connect(self._refresh)
        model.run_started.connect(self.reset)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _button(self, name: str, then: object) -> QToolButton:
        button = QToolButton(self)
        button.setAccessibleName(name)
        button.clicked.connect(then)
        return button

    def set_tips(self, back: str, on: str, latest: str) -> None:
        """Say what the buttons do, with their keys."""
        for button, tip in ((self._back, back), (self._on, on), (self._latest, latest)):
            button.setToolTip(tip)

    # -- asking -----------------------------------------------------------------------------------------------------

    @property
    def step_shown(self) -> Step | None:
        """The execution that is shown; None: the run as it stands."""
        return None if self._place is None else self._model.steps[self._model.passes[self._place]]

    @property
    def can_go_back(self) -> bool:
        """Whether there is a pass before the one on show."""
        return self._number > 1

    @property
    def can_go_on(self) -> bool:
        """Whether there is a pass after the one on show."""
        return self._place is not None and self._number < len(self._model.passes)

    @property
    def is_away(self) -> bool:
        """Whether one pass is shown instead of the run as it stands."""
        return self._place is not None

    @property
    def _number(self) -> int:
        return len(self._model.passes) if self._place is None else self._place + 1

    def text(self) -> str:
        """`3 / 7`."""
        return f"{self._number} / {len(self._model.passes)}"

    def words(self) -> str:
        """The pass on show in words, with that of its agent when it has several; empty for the run as it stands."""
        step = self.step_shown
        if step is None:
            return ""
        own = [number for number in self._model.passes if self._model.steps[number].agent == step.agent]
        text = self.tr("Pass %1: %2")
        if len(own) > 1:
            text = self.tr("Pass %1: %2, its pass %3 of %4")
            text = text.replace("%3", str(own.index(step.number) + 1)).replace("%4", str(len(own)))
        return text.replace("%1", self.text()).replace("%2", visible_text(step.agent))

    # -- choosing ---------------------------------------------------------------------------------------------------

    def step(self, by: int) -> None:
        """Show the next pass (1) or the one before (-1), if there is one."""
        if self.can_go_on if by > 0 else self.can_go_back:
            self._show(self._number - 1 + by)

    def choose(self, number: int) -> None:
        """Show the pass that a step is, or happens inside of."""
        place = self._model.passes.index(self._model.pass_of(number))
        if place != self._place:
            self._show(place)

    def show_latest(self) -> None:
        """Show the run as it stands, and follow it."""
        if self._place is not None:
            self._show(None)

    def reset(self) -> None:
        """Another run begins."""
        self.show_latest()
        self._refresh()

    def _show(self, place: int | None) -> None:
        self._place = place
        self._refresh()
        self.chosen.emit(0 if place is None else self._model.passes[place])

    def _refresh(self) -> None:
        self._figures.setText(self.text())
        self._figures.setToolTip(self.words())
        self._figures.setAccessibleName(self.words() or self.tr("Pass %1, the latest").replace("%1", self.text()))
        self._figures.set_color("text2" if self._place is None else "text")
        ways = (self.can_go_back, self.can_go_on, self.is_away)
        if ways != self._ways:
            self._ways = ways
            for button, can in zip((self._back, self._on, self._latest), ways, strict=True):
                button.setEnabled(can)
            self.changed.emit()
        self.setVisible(len(self._model.passes) > 1)

    def _restyle(self) -> None:
        icons = ((self._back, "chevron-left"), (self._on, "chevron-right"), (self._latest, "jump-end"))
        for button, icon in icons:
            button.setIcon(theme.icon(icon, 14))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))
            button.setEnabled(False)
        self._ways = (False, False, False)
        self._figures.setMinimumWidth(self._figures.fontMetrics().horizontalAdvance("88 / 88"))
        self._refresh()
