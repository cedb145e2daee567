"""Small words beside fields that follow the text zoom."""

from PySide6.QtWidgets import QLabel, QWidget

from workbench.theme import theme


class Words(QLabel):
    """A label of 12 px in the colour of a role, `muted` or `secondary`."""

    def __init__(self, text: str, parent: QWidget, *, role: str = "muted", wrap: bool = False) -> None:
        super().__init__(text, parent)
        self.setProperty("role", role)
        self.setWordWrap(wrap)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self.setFont(theme.font(12))
