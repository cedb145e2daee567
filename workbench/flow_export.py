"""The flow in front as a file for others: a picture of its canvas, a Mermaid diagram, a Python script."""

import asyncio
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog

from engine import Engine, LoadedFlow
from engine.atomic_file import write_atomically
from engine.flow_export import export_text, refuse_keys_in
from workbench.documents import Documents, slug
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.tasks import Tasks
from workbench.text_format import visible_text
from workbench.widgets.banner import Banner, BannerButton, Message

FORMS = {".png": "png", ".svg": "svg", ".mmd": "mermaid", ".py": "python"}
"""The end of a file name → what is written."""


class FlowExport(QObject):
    """Owns the action; asks for a file, whose name says in which form."""

    def __init__(self, window: MainWindow, engine: Engine, documents: Documents, tasks: Tasks) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._documents = documents
        self._tasks = tasks
        window.actions_by_id["export_flow"].triggered.connect(self._ask)

    def _ask(self) -> None:
        tab = self._documents.current
        if tab is None:
            return
        folder = tab.document.path.parent if tab.document.path is not None else Path.home()
        kinds = {
            self.tr("Picture (*.png)"): "png",
            self.tr("Picture of lines and letters (*.svg)"): "svg",
            self.tr("Mermaid diagram (*.mmd)"): "mmd",
            self.tr("Python script (*.py)"): "py",
        }
        place = str(folder / f"{slug(tab.document.title)}.png")
        dialog = QFileDialog(self._window, self.tr("Export flow as"), place, ";;".join(kinds))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("png")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filterSelected.connect(lambda kind: dialog.setDefaultSuffix(kinds[kind]))
        dialog.fileSelected.connect(lambda chosen: self._tasks.start(self.export(tab, Path(chosen))))
        dialog.open()

    async def export(self, tab: FlowTab, path: Path) -> None:
        """Write a flow as it is now, in the form the name of the file says. Raises EngineError."""
        form = FORMS.get(path.suffix.lower(), "png")
        loaded = LoadedFlow(spec=tab.document.spec, origin=tab.document.origin)
        await asyncio.to_thread(lambda: refuse_keys_in(loaded, self._engine.profiles.secrets()))
        if form in ("png", "svg"):
            from workbench.export_picture import png, svg

            data = (svg if form == "svg" else png)(loaded.spec)
        else:
            data = (await asyncio.to_thread(export_text, loaded, form)).encode("utf-8")
        await asyncio.to_thread(write_atomically, path, data)
        title = self.tr("The flow was exported as %1.").replace("%1", visible_text(path.name))
        shown = BannerButton(
            self.tr("Show folder"), partial(QDesktopServices.openUrl, QUrl.fromLocalFile(str(path.parent)))
        )
        self._window.banners.push(Banner(Message(kind="accent", title=title), [shown]))
