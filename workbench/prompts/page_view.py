"""What the page *Prompts* looks like: the widgets and where they are."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QSplitter,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from engine import Problem
from workbench.prompts.preview import Preview
from workbench.prompts.prompt_edit import PromptEdit
from workbench.prompts.prompt_head import PromptHead
from workbench.prompts.prompt_tree import PromptTree
from workbench.prompts.versions_view import VersionsView
from workbench.text_format import language_name, visible_text
from workbench.theme import theme
from workbench.widgets.banner import Banner
from workbench.widgets.banner_stack import BannerStack
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.empty_place import EmptyPlace
from workbench.widgets.icon_label import IconText
from workbench.widgets.row_delegate import RowDelegate

MOST_PROBLEMS = 4
"""Lines of problems that are seen at once."""
PROBLEM_ROLE = Qt.ItemDataRole.UserRole + 1


class PromptsView(QWidget):
    """Fills its parent."""

    language_wanted = Signal()
    """The person wants the prompt in a further language."""
    run_language_chosen = Signal(str)
    """Runs shall use prompts in this language."""

    def __init__(self, page: QWidget) -> None:
        super().__init__(page)
        self.tree = PromptTree(self)
        self.add_language = QToolButton(self)
        self.add_language.setToolTip(self.tr("Add a language to this prompt"))
        self.add_language.setAccessibleName(self.add_language.toolTip())
        self.add_language.clicked.connect(self.language_wanted)
        self.run_language = ElidedComboBox(self)
        self.run_language.setAccessibleName(self.tr("Language of the prompts in runs"))
        self.run_language.activated.connect(
            lambda index: self.run_language_chosen.emit(self.run_language.itemData(index))
        )
        self._list_title, self._run_label = QLabel(self.tr("Prompts"), self), QLabel(self.tr("Runs use"), self)
        self._run_label.setBuddy(self.run_language)
        self.banners, self.changed = BannerStack(self), Banner(parent=self)
        self.changed.closed.connect(lambda: self.changed.show_message(None))
        self.head = PromptHead(self)
        self.edit, self.versions, self.preview = PromptEdit(self), VersionsView(self), Preview(self)
        self.problems = QListWidget(self)
        self.problems.setAccessibleName(self.tr("Problems of this prompt"))
        self.problems.setItemDelegate(RowDelegate(24, self.problems))
        self.problems.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        for used in (self.problems.itemActivated, self.problems.itemClicked):
            used.connect(lambda item: self.edit.go_to(item.data(PROBLEM_ROLE)))
        self.version = IconText(self.tr("Version"), self)
        self._unreadable = EmptyPlace("warning", self.tr("This text cannot be read"), "", self)
        self._pages = QStackedWidget(self)
        self.head.views.currentChanged.connect(self._pages.setCurrentIndex)
        self._lay_out()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self)
        page.setFocusProxy(self.tree)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _lay_out(self) -> None:
        text = QWidget(self)
        column = QVBoxLayout(text)
        column.setContentsMargins(theme.px(8), 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.edit, 1)
        column.addWidget(self.problems)
        foot = QHBoxLayout()
        foot.setContentsMargins(theme.px(8), 0, theme.px(12), 0)
        foot.addWidget(self.version)
        column.addLayout(foot)
        for page in (text, self.versions, self._unreadable):
            self._pages.addWidget(page)
        self._work = QSplitter(Qt.Orientation.Horizontal, self)
        self._work.addWidget(self._pages)
        self._work.addWidget(self.preview)
        middle = QWidget(self)
        inner = QVBoxLayout(middle)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(0)
        for part in (self.banners, self.head, self.changed):
            inner.addWidget(part)
        inner.addWidget(self._work, 1)
        whole = QSplitter(Qt.Orientation.Horizontal, self)
        whole.addWidget(self._build_side())
        whole.addWidget(middle)
        whole.setStretchFactor(1, 1)
        whole.setSizes([theme.px(248), theme.px(1100)])
        self._work.setSizes([theme.px(700), theme.px(380)])
        self._work.setStretchFactor(0, 1)
        for splitter in (whole, self._work):
            splitter.setHandleWidth(1)
            splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(whole)

    def _build_side(self) -> QWidget:
        side = QWidget(self)
        head, foot = QHBoxLayout(), QHBoxLayout()
        head.setContentsMargins(theme.px(12), theme.px(8), theme.px(8), 0)
        head.addWidget(self._list_title)
        head.addStretch(1)
        head.addWidget(self.add_language)
        foot.setContentsMargins(theme.px(12), theme.px(8), theme.px(12), theme.px(10))
        foot.setSpacing(theme.px(8))
        foot.addWidget(self._run_label)
        foot.addWidget(self.run_language, 1)
        column = QVBoxLayout(side)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(head)
        column.addWidget(self.tree, 1)
        column.addLayout(foot)
        return side

    def show_prompt(self, title: str) -> None:
        """Show the editor, or the versions, of a prompt that can be read."""
        self.head.title.setText(title)
        self.head.views.setEnabled(True)
        self.preview.setVisible(True)
        self._pages.setCurrentIndex(self.head.views.currentIndex())

    def show_unreadable(self, title: str, reason: str) -> None:
        """Say why there is no text to edit."""
        self.head.title.setText(title)
        self.head.views.setEnabled(False)
        self.preview.setVisible(False)
        self._unreadable.say(visible_text(reason))
        self._pages.setCurrentIndex(2)

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """List and underline these."""
        self.edit.colors.show_problems(problems)
        self.problems.clear()
        for problem in problems:
            icon, color = ("error", "err") if problem.severity == "error" else ("warning", "warn")
            line = self.tr("Line %1: ").replace("%1", str(problem.line)) if problem.line else ""
            item = QListWidgetItem(theme.icon(icon, 16, color, checked=None), line + visible_text(problem.message))
            item.setToolTip(item.text())
            item.setData(PROBLEM_ROLE, problem)
            self.problems.addItem(item)
        self._fit_problems()

    def _fit_problems(self) -> None:
        count = self.problems.count()
        self.problems.setVisible(count > 0)
        self.problems.setFixedHeight(theme.px(24) * min(count, MOST_PROBLEMS) + theme.px(4))

    def show_run_languages(self, languages: Sequence[str], current: str) -> None:
        """Offer these languages for runs."""
        offered = list(dict.fromkeys([*languages, current]))
        if offered != [self.run_language.itemData(index) for index in range(self.run_language.count())]:
            self.run_language.clear()
            for language in offered:
                self.run_language.addItem(visible_text(language_name(language)), language)
        self.run_language.setCurrentIndex(self.run_language.findData(current))

    def say_version(self, text: str, icon: str) -> None:
        """Say which version this is, or is running."""
        self.version.show_text(text, icon, "run" if icon == "run" else "text2", text)

    def _restyle(self) -> None:
        self.preview.restyle()
        self._list_title.setFont(theme.font(13, 600))
        self._run_label.setFont(theme.font(12))
        self.problems.setFont(theme.font(12))
        self.add_language.setIcon(theme.icon("plus", 16))
        self.add_language.setIconSize(QSize(theme.px(16), theme.px(16)))
        self.version.setFixedHeight(theme.px(26))
        self._fit_problems()
