"""The right end of a prompt's foot: how many problems the prompt has, and what mends them."""

from functools import partial

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QToolButton, QWidget

from workbench.designer.fields import Problems
from workbench.designer.form_section import translate
from workbench.designer.prompt_fixes import TEXTS, PromptFix, fixed, prompt_fixes
from workbench.designer.targets import AgentTarget
from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel


class PromptProblems(QWidget):
    """Icon, number, and *Fix*; hidden while the prompt has no problems."""

    def __init__(self, target: AgentTarget, parent: QWidget) -> None:
        super().__init__(parent)
        self._target = target
        self._icon = IconLabel("warning", "warn", 14, self)
        self.count = QLabel(self)
        self.fix = QToolButton(self)
        self.fix.setAccessibleName(translate("Inspector", "Fix"))
        self.fix.clicked.connect(self._mend)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(theme.px(4))
        for part in (self._icon, self.count, self.fix):
            row.addWidget(part)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.hide()

    def stops(self) -> list[QWidget]:
        """What takes the focus."""
        return [self.fix]

    def show_problems(self, problems: Problems) -> None:
        """Count what the check found in the texts of the prompt."""
        places = [f"{place}.{text}" for place in self._target.places() for text in TEXTS]
        found = [problem for place in places for problem in problems.get(place, ())]
        has_error = any(problem.severity == "error" for problem in found)
        self._icon.show_icon(*(("error", "err") if has_error else ("warning", "warn")))
        self.count.setText(str(len(found)))
        words = translate("Inspector", "%1 problems in the prompt").replace("%1", str(len(found)))
        one = translate("Inspector", "1 problem in the prompt")
        self.count.setAccessibleName(one if len(found) == 1 else words)
        self.count.setToolTip("\n".join(problem.message for problem in found))
        self._show_fixes()
        self.setVisible(bool(found))

    def _fixes(self) -> tuple[PromptFix, ...]:
        names = self._target.names
        return prompt_fixes(self._target.editor.document.spec, names[0]) if len(names) == 1 else ()

    def _show_fixes(self) -> None:
        fixes = self._fixes()
        self.fix.setVisible(bool(fixes))
        self.fix.setText(translate("Inspector", "Fix…") if len(fixes) > 1 else translate("Inspector", "Fix"))
        several = translate("Inspector", "Choose which key of the prompt to mend")
        tip = several if len(fixes) > 1 else "".join(map(_words, fixes))
        self.fix.setToolTip(tip)
        self.fix.setAccessibleName(self.fix.text())
        self.fix.setAccessibleDescription(tip)

    def _mend(self) -> None:
        """Mend the only key, or ask which."""
        fixes = self._fixes()
        if len(fixes) == 1:
            self._apply(fixes[0])
        elif fixes:
            menu = QMenu(self)
            menu.setObjectName("fixes")
            for fix in fixes:
                menu.addAction(_words(fix).replace("&", "&&"), partial(self._apply, fix))
            menu.aboutToHide.connect(menu.deleteLater)
            menu.popup(self.fix.mapToGlobal(self.fix.rect().bottomLeft()))

    def _apply(self, fix: PromptFix) -> None:
        editor, name = self._target.editor, self._target.names[0]
        editor.edit(_words(fix), fixed(editor.document.spec, name, fix))

    def _restyle(self) -> None:
        self.count.setFont(theme.font(11, 600))
        self.fix.setFont(theme.font(12, 500))
        self.fix.setStyleSheet(f"QToolButton {{ color: {theme.hex('accent')}; }}")
        self.setFixedHeight(theme.px(26))
        self.fix.setMinimumSize(QSize(theme.px(24), theme.px(24)))


def _words(fix: PromptFix) -> str:
    if fix.near:
        return translate("Inspector", "Correct %1 to %2").replace("%2", fix.near).replace("%1", fix.key)
    return translate("Inspector", "Declare the input %1").replace("%1", fix.key)
