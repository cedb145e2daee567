"""Context menus as a person uses them."""

from PySide6.QtCore import QPoint, QPointF
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QMenu, QTreeView, QWidget

from tests.helpers.window import Workbench
from workbench.explorer import ITEM_ROLE


async def menu_at(bench: Workbench, target: QWidget, place: QPoint, *, by_key: bool = False) -> QMenu:
    reason = QContextMenuEvent.Reason.Keyboard if by_key else QContextMenuEvent.Reason.Mouse
    QApplication.sendEvent(target, QContextMenuEvent(reason, place, target.mapToGlobal(place)))
    await bench.until(lambda: isinstance(QApplication.activePopupWidget(), QMenu))
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    return menu


def offers(menu: QMenu) -> list[str]:
    return [action.text().replace("&", "") for action in menu.actions() if not action.isSeparator()]


async def choose(bench: Workbench, menu: QMenu, text: str) -> None:
    action = next(action for action in menu.actions() if action.text().replace("&", "") == text)
    assert action.isEnabled()
    action.setParent(bench.window)  # closing deletes the menu
    menu.close()
    await bench.reactivate()
    action.trigger()
    await bench.settle()


def agent_place(bench: Workbench, name: str) -> QPoint:
    card = bench.tab.editor.scene.agents[name].card_rect()
    return bench.tab.editor.view.mapFromScene(QPointF(card.center().x(), card.top() + 14))


async def agent_menu(bench: Workbench, name: str) -> QMenu:
    return await menu_at(bench, bench.tab.editor.view.viewport(), agent_place(bench, name))


def explorer_place(tree: QTreeView, kind: str, item_id: str) -> QPoint:
    model = tree.model()
    for group in range(model.rowCount()):
        head = model.index(group, 0)
        for line in range(model.rowCount(head)):
            index = model.index(line, 0, head)
            item = index.data(ITEM_ROLE)
            if item is not None and (item.kind, item.id) == (kind, item_id):
                tree.scrollTo(index)
                return tree.visualRect(index).center()
    raise AssertionError(f"the explorer does not list {item_id}")


async def explorer_menu(bench: Workbench, kind: str, item_id: str) -> QMenu:
    tree = bench.window.explorer.findChild(QTreeView)
    assert isinstance(tree, QTreeView)
    return await menu_at(bench, tree.viewport(), explorer_place(tree, kind, item_id))
