"""The frame: menus, tool bar, rail, document tabs, docks and status bar. It decides nothing."""

from PySide6.QtCore import QByteArray, QEvent, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCloseEvent, QKeySequence
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QHBoxLayout,
    QLabel,
    QMainWindow,
    QMenu,
    QScrollArea,
    QSizePolicy,
    QStackedWidget,
    QTabBar,
    QTabWidget,
    QToolBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from workbench.actions import Actions
from workbench.explorer import Explorer
from workbench.log_dock import LogView, QtLogHandler
from workbench.menu_row import MenuRow
from workbench.problems_dock import ProblemsView
from workbench.replay_stripe import ReplayStripe
from workbench.status_line import StatusLine
from workbench.theme import theme
from workbench.widgets.action_box import ActionBox
from workbench.widgets.banner_stack import BannerStack
from workbench.widgets.elided import ElidedLabel, ElidedPushButton
from workbench.widgets.empty_place import EmptyPlace

WIDE = 1400
"""From this width the Explorer starts open and the docks have their full size."""


MAIN_BAR = ("run", "stop", "pause", "step", "run_from", "", "undo", "redo", "", "fit", "layout", "", "use_cache")
"""Actions of the tool bar; an empty name is a line between groups."""
LONGEST_TAB = 280
"""Design pixels of a tab's title."""
LEAST_HEIGHT = 60
"""Pixels that the documents and the content of each dock keep, at any text zoom."""


class DockTitle(QWidget):
    """A dock's head, 32 px: its name, perhaps what can be added to it, and a button that closes it."""

    def __init__(self, dock: QDockWidget, adding: QAction | None = None) -> None:
        super().__init__(dock)
        self._label = QLabel(dock.windowTitle(), self)
        self._close = QToolButton(self)
        closing = self.tr("Close %1").replace("%1", dock.windowTitle())
        self._close.setToolTip(closing)
        self._close.setAccessibleName(closing)
        self._close.clicked.connect(dock.close)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(theme.px(12), 0, theme.px(6), 0)
        layout.addWidget(self._label)
        layout.addStretch(1)
        if adding is not None:
            button = QToolButton(self)
            button.setDefaultAction(adding)
            layout.addWidget(button)
        layout.addWidget(self._close)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self.setFixedHeight(theme.px(32))
        self._label.setFont(theme.font(13, 600))
        self._close.setIcon(theme.icon("cross", 14))
        self._close.setIconSize(QSize(theme.px(14), theme.px(14)))


class MainWindow(QMainWindow):
    """The one window."""

    closing = Signal()
    """The person wants to close it; `allow_close` lets it go."""
    tab_changed = Signal(object)
    """The editor widget of the tab that is now in front, None when there is none."""
    run_hovered = Signal(bool)
    """The mouse came to the Run button, or left it."""
    sample_wanted = Signal(object)
    """The person wants to choose a sample; the button pressed for it."""
    tab_close_requested = Signal(object)
    """The editor widget whose tab should go."""

    def __init__(self, log: QtLogHandler) -> None:
        super().__init__()
        self.setWindowTitle("Flow Workbench")
        self.setObjectName("main_window")
        self.setDockNestingEnabled(True)
        self._may_close = False
        self._docks_beside_flow: QByteArray | None = None
        """Where the docks were before a page took their room; None while they are there."""
        self._zoom = theme.zoom
        self._widths: dict[QDockWidget, float] = {}
        """Width of a side dock at 100 %, as designed or as the person chose it."""
        self._run_button: QToolButton | None = None
        self.actions_by_id = Actions(self)
        self.menus: dict[str, QMenu] = self.actions_by_id.fill(self.menuBar())
        self._palette_field = self._build_palette_field()
        self.replay_stripe = ReplayStripe(self)
        self._build_menu_row()
        self.status = StatusLine(self)
        self.setStatusBar(self.status)
        self.main_bar = self._build_main_bar()
        self.banners = BannerStack(self)
        self.tabs = self._build_tabs()
        self.welcome = QStackedWidget(self)
        """Nothing while the program starts, then the tabs, or what to do while no flow is open."""
        for page in (QWidget(self), self.tabs, self._build_empty()):
            self.welcome.addWidget(page)
        self._build_center()
        self.inspectors, self.run_panels = QStackedWidget(self), QStackedWidget(self)
        self.outlines = QStackedWidget(self)
        self.outlines.addWidget(
            EmptyPlace(
                "outline", self.tr("No flow in front"), self.tr("The agents of a flow appear here as a tree."), self
            )
        )
        self.inspectors.addWidget(
            EmptyPlace("sliders", self.tr("No flow in front"), self.tr("What you select appears here."), self)
        )
        self.run_panels.addWidget(
            EmptyPlace("run", self.tr("No flow in front"), self.tr("The answers of a flow appear here."), self)
        )
        self.explorer, self.problems = Explorer(self), ProblemsView(self)
        self.docks: dict[str, QDockWidget] = {}
        self._rail = self._build_rail()
        for corner in (Qt.Corner.BottomLeftCorner, Qt.Corner.BottomRightCorner):
            self.setCorner(corner, Qt.DockWidgetArea.BottomDockWidgetArea)
        self.setTabPosition(Qt.DockWidgetArea.BottomDockWidgetArea, QTabWidget.TabPosition.North)
        self._build_docks(log)
        theme.changed.connect(self._restyle)
        self._restyle()

    # -- building ---------------------------------------------------------------------------------------------------

    def _build_palette_field(self) -> ElidedPushButton:
        action = self.actions_by_id["palette"]
        button = ElidedPushButton("", self)

        def show_key() -> None:
            key = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            button.setText(f"{self.tr('Search actions, flows, agents, runs')}     {key}".rstrip())

        self.actions_by_id.keys_changed.connect(show_key)
        show_key()
        button.setAccessibleName(self.tr("Command palette"))
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.clicked.connect(action.trigger)
        return button

    def _build_menu_row(self) -> None:
        """The stripe of replays over all; the menus at the left, the palette field in the middle of the same row."""
        bar = self.menuBar()
        head = QWidget(self)
        rows = QVBoxLayout(head)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        rows.addWidget(self.replay_stripe)
        if not bar.isNativeMenuBar():
            rows.addWidget(MenuRow(bar, self._palette_field, self))
        self.setMenuWidget(head)

    def _build_main_bar(self) -> QToolBar:
        bar = QToolBar(self.tr("Main"), self)
        bar.setObjectName("main")
        bar.setMovable(False)
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        for action_id in MAIN_BAR:
            if action_id == "use_cache":
                bar.addWidget(ActionBox(self.actions_by_id[action_id], bar))
            elif action_id:
                own = action_id in ("run", "stop")  # with icons of their own colours
                bar.addAction(self.actions_by_id[action_id] if own else self.actions_by_id.on_bar(action_id))
            else:
                bar.addSeparator()
        for action_id, style in (("run", "primary"), ("stop", "text")):
            button = bar.widgetForAction(self.actions_by_id[action_id])
            if isinstance(button, QToolButton):
                button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
                button.setProperty("primary", style == "primary")
                if action_id == "run":
                    self._run_button = button
                    button.installEventFilter(self)
        space = QWidget(bar)
        space.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        bar.addWidget(space)
        self.run_hint = ElidedLabel(bar)
        self.run_hint.setProperty("role", "secondary")
        self.run_hint.setAccessibleName(self.tr("What a run would do"))
        bar.addWidget(self.run_hint)
        bar.addAction(self.actions_by_id.on_bar("theme_toggle"))
        bar.addAction(self.actions_by_id.on_bar("settings"))
        self.addToolBar(Qt.ToolBarArea.TopToolBarArea, bar)
        return bar

    def _build_tabs(self) -> QTabWidget:
        tabs = QTabWidget(self)
        tabs.setDocumentMode(True)
        tabs.setMovable(True)
        for part in (tabs, tabs.tabBar()):
            part.setAccessibleName(self.tr("Open flows and pages"))
        tabs.currentChanged.connect(lambda index: self.tab_changed.emit(tabs.widget(index)))
        return tabs

    def _build_empty(self) -> QWidget:
        text = self.tr("A flow is a few agents linked by routes. Open yours, begin a new one, or start from a sample.")
        place = EmptyPlace("flow", self.tr("No flow open"), text, self)
        sample = place.add_button(self.tr("Open a sample"), primary=True)
        sample.clicked.connect(lambda: self.sample_wanted.emit(sample))
        self._open_sample = sample
        place.add_button(self.tr("New flow"), "plus").clicked.connect(self.actions_by_id["new"].trigger)
        place.add_button(self.tr("Open a file…"), "folder").clicked.connect(self.actions_by_id["open"].trigger)
        return place

    def _build_center(self) -> None:
        center = QWidget(self)
        layout = QVBoxLayout(center)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banners)
        layout.addWidget(self.welcome)
        self.welcome.setMinimumSize(2 * LEAST_HEIGHT, LEAST_HEIGHT)
        self.setCentralWidget(center)

    def _build_rail(self) -> QToolBar:
        rail = QToolBar(self.tr("Docks"), self)
        rail.setObjectName("rail")
        rail.setMovable(False)
        rail.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.addToolBar(Qt.ToolBarArea.LeftToolBarArea, rail)
        return rail

    def _build_docks(self, log: QtLogHandler) -> None:
        left, right, bottom = (
            Qt.DockWidgetArea.LeftDockWidgetArea,
            Qt.DockWidgetArea.RightDockWidgetArea,
            Qt.DockWidgetArea.BottomDockWidgetArea,
        )
        self._add_dock("explorer", self.tr("Explorer"), self.explorer, left, "folder")
        self._add_dock("outline", self.tr("Outline"), self.outlines, left, "outline")
        # It shares its side with the explorer, and both fit on a small screen with large text.
        self.outlines.setMinimumSize(LEAST_HEIGHT, LEAST_HEIGHT // 2)
        self._add_dock("inspector", self.tr("Inspector"), self.inspectors, right, "sliders")
        self._add_dock("run", self.tr("Run"), _scrolling(self.run_panels, self), bottom, "run")
        self._add_dock("problems", self.tr("Problems"), self.problems, bottom, "warning")
        self._add_dock("log", self.tr("Log"), LogView(log, self), bottom, "history")

    def _add_dock(self, name: str, title: str, widget: QWidget, area: Qt.DockWidgetArea, icon: str) -> None:
        """Put a widget into a dock with a toggle on the rail and in the View menu."""
        dock = QDockWidget(title, self)
        dock.setObjectName(f"dock_{name}")
        # A dock may get lower than its content would like: no content makes the window grow.
        widget.setMinimumHeight(LEAST_HEIGHT)
        dock.setWidget(widget)
        if area is not Qt.DockWidgetArea.BottomDockWidgetArea:
            adding = self.actions_by_id.on_bar("new") if name == "explorer" else None
            dock.setTitleBarWidget(DockTitle(dock, adding))
        else:
            # Bottom docks are named by their tabs.
            dock.setTitleBarWidget(QWidget(dock))
        self.addDockWidget(area, dock)
        toggle: QAction = dock.toggleViewAction()
        tip = self.tr("Show or hide %1").replace("%1", title)
        toggle.setToolTip(tip)
        self.menus["View"].addAction(toggle)
        # Its own action: the dock's would also close a dock that is only behind another.
        opener = QAction(title, self)
        opener.setToolTip(tip)
        opener.setCheckable(True)
        opener.setProperty("icon_name", icon)
        opener.triggered.connect(lambda: self._press_rail(dock, opener))
        dock.visibilityChanged.connect(opener.setChecked)
        self._rail.addAction(opener)
        self.docks[name] = dock

    def _press_rail(self, dock: QDockWidget, opener: QAction) -> None:
        """Hide a dock that can be seen; bring any other to the front."""
        seen = dock.isVisible() and not dock.visibleRegion().isEmpty()
        if seen:
            dock.hide()
        else:
            dock.show()
            dock.raise_()
        # The click toggled the button, which shows whether the dock can be seen.
        opener.setChecked(not seen)

    def arrange(self) -> None:
        """Give docks their designed places and sizes (visual design, width rules)."""
        for dock in self.docks.values():
            dock.setFloating(False)
            dock.show()
        bottom = [self.docks[name] for name in ("run", "problems", "log")]
        for dock in bottom:
            self.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
        for dock in bottom[1:]:
            self.tabifyDockWidget(bottom[0], dock)
        bottom[0].raise_()
        self.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, self.docks["explorer"])
        self.splitDockWidget(self.docks["explorer"], self.docks["outline"], Qt.Orientation.Vertical)
        self.docks["outline"].hide()
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.docks["inspector"])
        wide = self.width() >= theme.px(WIDE)
        self.docks["explorer"].setVisible(wide)
        self._widths = {self.docks["explorer"]: 226.0, self.docks["inspector"]: 308.0 if wide else 280.0}
        self._set_sides(list(self._widths))
        self.resizeDocks([bottom[0]], [theme.px(372 if wide else 312)], Qt.Orientation.Vertical)
        self._name_dock_tabs()

    def _scale_sides(self) -> None:
        """Give the docks beside the documents the width they had, at the present text zoom."""
        before, self._zoom = self._zoom, theme.zoom
        if before == theme.zoom or not self.isVisible():
            return
        docks = [self.docks[name] for name in ("explorer", "inspector") if self.docks[name].isVisible()]
        docks = [dock for dock in docks if not dock.isFloating()]
        for dock in docks:
            self._widths.setdefault(dock, dock.width() / before)
        # The contents have their new sizes only after the layouts did their work.
        QTimer.singleShot(0, self, lambda: self._set_sides(docks))

    def _set_sides(self, docks: list[QDockWidget]) -> None:
        most = self.width() // 3
        self.resizeDocks(docks, [min(most, theme.px(self._widths[dock])) for dock in docks], Qt.Orientation.Horizontal)

    # -- showing ----------------------------------------------------------------------------------------------------

    def show_dock(self, name: str) -> None:
        """Open a dock and bring it to the front."""
        self.docks[name].show()
        self.docks[name].raise_()

    def add_tab(self, editor: QWidget, inspector: QWidget, run_panel: QWidget, title: str) -> None:
        """Open a document with the inspector and run panel that belong to it."""
        self.inspectors.addWidget(inspector)
        self.run_panels.addWidget(run_panel)
        self.tabs.addTab(editor, "")
        self.tabs.setCurrentWidget(editor)
        self._name_close_button(self.tabs.indexOf(editor), title)
        self.show_tabs()

    def bring_to_front(self, editor: QWidget, inspector: QWidget, run_panel: QWidget) -> None:
        """Show the dock contents of a tab."""
        self.inspectors.setCurrentWidget(inspector)
        self.run_panels.setCurrentWidget(run_panel)
        self.tabs.setCurrentWidget(editor)

    def remove_tab(self, editor: QWidget, inspector: QWidget, run_panel: QWidget) -> None:
        """Close a document."""
        self.tabs.removeTab(self.tabs.indexOf(editor))
        self.inspectors.removeWidget(inspector)
        self.run_panels.removeWidget(run_panel)
        self.show_tabs()
        self.focus_documents()

    def add_page(self, page: QWidget, title: str) -> None:
        """Open a document that has neither inspector nor run panel, behind the one in front."""
        self.tabs.addTab(page, "")
        self._name_close_button(self.tabs.indexOf(page), title)
        self.show_tabs()

    def remove_page(self, page: QWidget) -> None:
        """Close such a document."""
        self.tabs.removeTab(self.tabs.indexOf(page))
        self.show_tabs()
        self.focus_documents()

    def make_room(self, for_page: bool) -> None:
        """Give a page the room of docks and tool bar, which belong to flows, or bring them back."""
        if for_page == (self._docks_beside_flow is not None):
            return
        self.main_bar.setVisible(not for_page)
        for stack in (self.inspectors, self.run_panels):
            if for_page:
                stack.setCurrentIndex(0)
        if for_page:
            self._docks_beside_flow = self.saveState()
            for dock in self.docks.values():
                if not dock.isFloating():
                    dock.hide()
        elif self._docks_beside_flow is not None:
            state, self._docks_beside_flow = self._docks_beside_flow, None
            self.restoreState(state)
            self._name_dock_tabs()

    def set_tab_title(self, editor: QWidget, title: str, tip: str, icon: str) -> None:
        """Rename a tab; `tip` is its path."""
        index = self.tabs.indexOf(editor)
        self.tabs.tabBar().setTabData(index, icon)
        self.tabs.setTabIcon(index, theme.icon(icon, 16))
        # The end tells a run's time or that something is unsaved: a long name loses its middle.
        shown = self.tabs.fontMetrics().elidedText(title, Qt.TextElideMode.ElideMiddle, theme.px(LONGEST_TAB))
        self.tabs.setTabText(index, shown.replace("&", "&&"))
        self.tabs.setTabToolTip(index, tip if shown == title else f"{title}\n{tip}")
        self._name_close_button(index, title)

    def _name_close_button(self, index: int, title: str) -> None:
        bar: QTabBar = self.tabs.tabBar()
        button = bar.tabButton(index, QTabBar.ButtonPosition.RightSide)
        if not isinstance(button, QToolButton):
            button = QToolButton(bar)
            editor = self.tabs.widget(index)
            button.clicked.connect(lambda: self.tab_close_requested.emit(editor))
            button.setObjectName("close_tab")
            bar.setTabButton(index, QTabBar.ButtonPosition.RightSide, button)
        button.setIcon(theme.icon("cross", 12))
        button.setIconSize(QSize(theme.px(12), theme.px(12)))
        button.setAccessibleName(self.tr("Close %1").replace("%1", title))
        button.setToolTip(self.tr("Close %1").replace("%1", title))

    def show_tabs(self) -> None:
        """Show the open flows, or what to do without one."""
        self.welcome.setCurrentIndex(1 if self.tabs.count() else 2)
        if not self.tabs.count():
            self.focus_documents()

    def focus_documents(self) -> None:
        """Give the keyboard to the flow in front, or to what may be done without one."""
        editor = self.tabs.currentWidget()
        (self._open_sample if editor is None else editor).setFocus()

    def layout_state(self) -> tuple[QByteArray, QByteArray]:
        """Geometry and dock places, for the settings."""
        return self.saveGeometry(), self._docks_beside_flow or self.saveState()

    def restore_layout(self, geometry: QByteArray, state: QByteArray) -> None:
        """Bring back what `layout_state` gave; anything unreadable is passed over."""
        if not geometry.isEmpty():
            self.restoreGeometry(geometry)
        if not state.isEmpty():
            self.restoreState(state)
        self._name_dock_tabs()

    def _name_dock_tabs(self) -> None:
        """Tell screen readers what the tabs of docks are; Qt makes them as it needs them."""
        for bar in self.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly):
            bar.setAccessibleName(self.tr("Docks"))

    def allow_close(self) -> None:
        """From now on the window closes without asking."""
        self._may_close = True

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Tell when the mouse is on the Run button."""
        if watched is self._run_button and event.type() in (QEvent.Type.Enter, QEvent.Type.Leave):
            self.run_hovered.emit(event.type() == QEvent.Type.Enter)
        return super().eventFilter(watched, event)

    def event(self, event: QEvent) -> bool:
        """Remember how wide the person dragged the docks; hints are tool tips and never replace the status text."""
        if event.type() is QEvent.Type.StatusTip:
            return True
        done = super().event(event)
        if event.type() is QEvent.Type.MouseButtonRelease:
            self._widths.clear()
        return done

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask the owner first."""
        if self._may_close:
            super().closeEvent(event)
        else:
            event.ignore()
            self.closing.emit()

    def _restyle(self) -> None:
        for bar, size in ((self.main_bar, 18), (self._rail, 18)):
            bar.setIconSize(QSize(theme.px(size), theme.px(size)))
        self._rail.setFixedWidth(theme.px(42))
        run, stop = self.actions_by_id["run"], self.actions_by_id["stop"]
        run.setIcon(theme.icon("run", 16, "on.fill", checked=None))
        stop.setIcon(theme.icon("stop", 16, "err", checked=None))
        self._palette_field.setIcon(theme.icon("search", 14))
        self._palette_field.setIconSize(QSize(theme.px(14), theme.px(14)))
        for opener in self._rail.actions():
            opener.setIcon(theme.icon(str(opener.property("icon_name")), 18))
        for index in range(self.tabs.count()):
            self.tabs.setTabIcon(index, theme.icon(str(self.tabs.tabBar().tabData(index)), 16))
            self._name_close_button(index, self.tabs.tabText(index))
        self._scale_sides()


def _scrolling(widget: QWidget, parent: QWidget) -> QScrollArea:
    """The widget in an area that scrolls where it does not fit."""
    area = QScrollArea(parent)
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setViewport(viewport := QWidget(area))  # to ask for Qt's own takes PySide 30 ms, once
    area.setWidget(widget)
    for part in (widget, viewport):  # the dock's own background
        part.setAutoFillBackground(False)
    return area
