"""Which profile answers for which category."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QFormLayout, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.section import Section
from workbench.widgets.words import Words


class CategoryMap(QWidget):
    """A line for each category; its owner writes what was chosen."""

    chosen = Signal(str, str)
    """Category, and the profile for it; empty: the bundled choice, a category of one's own goes."""
    new_wanted = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.combos: dict[str, QComboBox] = {}
        self._section = Section(self.tr("Categories"), self)
        add = self._section.add_button("plus", self.tr("New category"))
        add.clicked.connect(self.new_wanted)
        self._form = QFormLayout()
        self._form.setHorizontalSpacing(theme.px(8))
        self._form.setVerticalSpacing(theme.px(4))
        self._section.body.addLayout(self._form)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._section)

    def profile_of(self, label: str) -> str:
        """The profile on show for a category; empty when there is none."""
        combo = self.combos.get(label)
        return combo.currentData() or "" if combo is not None else ""

    def show_map(self, mapping: Mapping[str, str], profiles: Sequence[str]) -> None:
        """Show all categories with their profiles."""
        if list(mapping) != list(self.combos):
            self._build(list(mapping))
        for label, name in mapping.items():
            combo = self.combos[label]
            names = [*profiles] if name in profiles else [*profiles, name]
            if [combo.itemData(n) for n in range(combo.count())] != ["", *names]:
                combo.clear()
                combo.addItem(self.tr("(reset)"), "")
                for one in names:
                    combo.addItem(one, one)
            combo.setCurrentIndex(combo.findData(name))

    def _build(self, labels: Sequence[str]) -> None:
        while self._form.rowCount():
            self._form.removeRow(0)
        self.combos = {}
        for label in labels:
            combo = ElidedComboBox(self)
            combo.setAccessibleName(self.tr("Profile for %1").replace("%1", label))
            combo.activated.connect(
                lambda _index, label=label, combo=combo: self.chosen.emit(label, combo.currentData() or "")
            )
            words = Words(label, self, role="secondary")
            words.setBuddy(combo)
            self._form.addRow(words, combo)
            self.combos[label] = combo
