"""A pane: a head with name and figures above one streaming text."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from workbench.run_panel.labels import Figures
from workbench.run_panel.run_state import Attempt, StreamedText
from workbench.run_panel.stream_text import PaneFlusher, StreamText
from workbench.text_format import seconds_text, tokens_text
from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel


class FollowButton(QToolButton):
    """Says whether the end is followed, and brings it back."""

    def __init__(self, text: StreamText, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = text
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.clicked.connect(text.jump_to_end)
        text.following_changed.connect(self._show)
        text.verticalScrollBar().rangeChanged.connect(self._show)
        text.ended.connect(self._show)
        theme.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        following = self._text.following
        self.setText(self.tr("following") if following else self.tr("jump to end"))
        self.setToolTip(
            self.tr("The newest text stays in sight; scroll up to stop")
            if following
            else self.tr("Scroll to the newest text and follow it (Ctrl+End)")
        )
        self.setFont(theme.font(11, 600))
        self.setIcon(theme.icon("jump-end", 12, "run" if following else "text2"))
        self.setIconSize(QSize(theme.px(12), theme.px(12)))
        fill, ink = ("tint.run", "run") if following else ("bg.press", "text")
        self.setStyleSheet(
            f"QToolButton {{ background: {theme.hex(fill)}; color: {theme.hex(ink)}; padding: 1px {theme.px(6)}px; }}"
        )
        scrolls = self._text.verticalScrollBar().maximum() > 0
        self.setVisible(self._text.live if following else scrolls)


class StreamPane(QWidget):
    """Reasoning or content of one attempt."""

    folded = Signal()
    """The person wants it out of the way."""

    def __init__(self, flusher: PaneFlusher, *, reasoning: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reasoning = reasoning
        self.text = StreamText(flusher, "text2" if reasoning else "text", self)
        self._icon = IconLabel("reasoning" if reasoning else "content", "reason" if reasoning else "text2", 14, self)
        self._name = Figures(12, 600, "text", self)
        self._name.setText(self.tr("Reasoning") if reasoning else self.tr("Content"))
        self._name.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self._figures = Figures(11, parent=self)
        self._mark = Figures(11, 600, "warn", self)
        self._mark.hide()
        self.setAccessibleName(self._name.text())
        self.text.setAccessibleName(self._name.text())
        head = QHBoxLayout()
        head.setSpacing(theme.px(8))
        for widget in (self._icon, self._name, self._figures, self._mark):
            head.addWidget(widget)
        head.addStretch(1)
        if reasoning:
            head.addWidget(self._fold_button())
        head.addWidget(FollowButton(self.text, self))
        self._head = QWidget(self)
        self._head.setLayout(head)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._head)
        layout.addWidget(self.text, 1)
        theme.changed.connect(self._resize)
        self._resize()

    def _fold_button(self) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(self.tr("Fold the reasoning to one line"))
        button.setAccessibleName(self.tr("Fold reasoning"))
        button.clicked.connect(self.folded)
        self._fold = button
        return button

    def _resize(self) -> None:
        self._head.setFixedHeight(theme.px(28))
        margin = theme.px(12)
        layout = self._head.layout()
        if layout is not None:
            layout.setContentsMargins(margin, 0, margin, 0)
        if self._reasoning:
            self._fold.setIcon(theme.icon("chevron-down", 14))
            self._fold.setIconSize(QSize(theme.px(14), theme.px(14)))

    def show_text(self, source: StreamedText | None, *, live: bool, whole: bool) -> None:
        """Show this text from now on."""
        self.text.bind(source, live=live, whole=whole)

    def show_words(self, words: str) -> None:
        """Say this where there is no text."""
        if words != self.text.placeholderText():
            self.text.setPlaceholderText(words)

    def show_figures(self, attempt: Attempt | None, seconds: float) -> None:
        """Bring tokens, time and the mark of an incomplete text up to date."""
        if attempt is None:
            self._figures.setText("")
            self._mark.hide()
            return
        count, estimated = attempt.reasoning_tokens() if self._reasoning else attempt.content_tokens()
        tokens = self.tr("%1 tok").replace("%1", tokens_text(count, estimated))
        self._figures.setText(f"{tokens}  {seconds_text(seconds)}")
        mark = self.tr("incomplete") if attempt.incomplete else ""
        self._mark.setText(mark)
        self._mark.setVisible(bool(mark) and not self._reasoning)
