"""The choice how an answer is shown: rendered, raw, JSON."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QToolButton, QWidget

from workbench.run_panel.stream_text import View
from workbench.theme import theme

ICONS = {View.RENDERED: "rendered", View.RAW: "raw", View.JSON: "json"}


class ViewButtons(QWidget):
    """A segmented control; without room it shows icons only."""

    chosen = Signal(object)
    """A View."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("views")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(self)
        row.setContentsMargins(1, 1, 1, 1)
        row.setSpacing(0)
        group = QButtonGroup(self)
        self._buttons: dict[View, QToolButton] = {}
        names = {
            View.RENDERED: (self.tr("Rendered"), self.tr("Show the answer as formatted text")),
            View.RAW: (self.tr("Raw"), self.tr("Show the answer exactly as it came")),
            View.JSON: (self.tr("JSON"), self.tr("Lay the answer out as JSON")),
        }
        for view, (name, tip) in names.items():
            button = QToolButton(self)
            button.setText(name)
            button.setToolTip(tip)
            button.setAccessibleName(name)
            button.setCheckable(True)
            button.clicked.connect(lambda _checked, view=view: self.chosen.emit(view))
            group.addButton(button)
            row.addWidget(button)
            self._buttons[view] = button

    def show_view(self, view: View) -> None:
        """Mark how it is shown."""
        self._buttons[view].setChecked(True)

    def restyle(self, *, icons_only: bool) -> None:
        """Take the colours and sizes of now."""
        style = Qt.ToolButtonStyle.ToolButtonIconOnly if icons_only else Qt.ToolButtonStyle.ToolButtonTextOnly
        for view, button in self._buttons.items():
            button.setFont(theme.font(12))
            button.setToolButtonStyle(style)
            button.setIcon(theme.icon(ICONS[view], 16))
            button.setIconSize(QSize(theme.px(16), theme.px(16)))
        self.setStyleSheet(
            f"#views {{ border: 1px solid {theme.hex('line.strong')}; border-radius: 4px; }}"
            f" QToolButton {{ padding: {theme.px(3)}px {theme.px(9)}px; }}"
        )
