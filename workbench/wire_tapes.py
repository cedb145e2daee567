"""Wire tapes in the window: recorded with each run, saved, played again, made a test; and the stripe that says so."""

import asyncio
import logging
import re
import shutil
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog

from engine import Engine, RecordedTape, StorageError, read_flow, write_offline_test
from engine.events import REPLAY
from engine.folders import Folders
from engine.run_tape import prune_tapes, tape_file
from workbench.documents import REPLAYED, Documents, slug
from workbench.flow_tab import FlowTab
from workbench.main_window import MainWindow
from workbench.replay_form import ReplayForm, recorded_text
from workbench.run_controller import Playing
from workbench.settings import Settings
from workbench.tasks import Tasks
from workbench.text_format import visible_text
from workbench.widgets.banner import Banner, BannerButton, Message

logger = logging.getLogger(__name__)

MOST_TAPES = 20
"""Runs whose tapes are kept; the oldest go first."""
MOST_BYTES = 200_000_000
"""Of all of them."""
KIND = "*.jsonl"


class WireTapes(QObject):
    """Follows the open flows and the actions about tapes."""

    banner_made = Signal(object)
    """A Banner to show."""

    def __init__(
        self,
        window: MainWindow,
        engine: Engine,
        documents: Documents,
        settings: Settings,
        folders: Folders,
        tasks: Tasks,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._documents = documents
        self._settings = settings
        self._folder = folders.tapes
        self._tasks = tasks
        actions = window.actions_by_id
        actions["record_tape"].setChecked(settings.record_tapes)
        actions["record_tape"].toggled.connect(self._record)
        actions["save_tape"].triggered.connect(lambda: self._with_tape(self._ask_where_to_save))
        actions["replay_tape"].triggered.connect(self._ask_what_to_play)
        actions["make_test"].triggered.connect(lambda: self._with_tape(self._ask_where_to_test))
        documents.tab_added.connect(self._follow)
        documents.tab_removed.connect(lambda _tab: self._show())
        window.tab_changed.connect(lambda _editor: self._show())
        self._show()

    def _follow(self, tab: FlowTab) -> None:
        tab.tapes = self._ready
        tab.run_changed.connect(self._show)
        tab.runs.running_changed.connect(self._run_ended)

    # -- recording ----------------------------------------------------------------------------------------------------

    def _record(self, wanted: bool) -> None:
        self._settings.record_tapes = wanted

    def _ready(self) -> Path | None:
        """The folder the next run is recorded in; None when it is not."""
        if not self._settings.record_tapes:
            return None
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            logger.warning("The run has no wire tape: %s", error)
            return None
        return self._folder

    def _run_ended(self, running: bool) -> None:
        if not running and self._folder.is_dir():
            prune = partial(prune_tapes, self._folder, most=MOST_TAPES, most_bytes=MOST_BYTES)
            self._tasks.start(asyncio.to_thread(prune))

    def tape_of(self, tab: FlowTab) -> Path | None:
        """The tape of the run on show, that of the run it plays for a replay; None when there is none."""
        if tab.is_running or not tab.run_id:
            return None
        model = tab.panel.model
        if model.origin == REPLAY:
            found = [tab.played.path] if tab.played is not None else [tape_file(self._folder, model.origin_run)]
        else:
            found = [tape_file(self._folder, tab.run_id)]
        return next((path for path in found if path.is_file()), None)

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        tab, actions = self._documents.current, self._window.actions_by_id
        there = tab is not None and self.tape_of(tab) is not None
        reason = self.tr("The run on show has no wire tape: it went on from another one, or none was kept.")
        if tab is None or not tab.run_id:
            reason = self.tr("Run the flow once: its calls are recorded.")
        elif tab.is_running:
            reason = self.tr("A run is going on.")
        for action_id in ("save_tape", "make_test"):
            actions[action_id].setEnabled(there)
            actions.explain(action_id, "" if there else reason)
        self._window.replay_stripe.say(self._sentence(tab))

    def _sentence(self, tab: FlowTab | None) -> str:
        """What the stripe says; empty while real servers may be called from what is in front."""
        running = [one for one in self._documents.tabs if one.is_running]
        if tab is None and running and all(one.is_replay for one in running):
            tab = running[0]  # a page is in front
        if tab is None or not tab.is_replay:
            return ""
        name = "" if tab.played is None else self._name(tab.played)
        if not tab.is_running:
            text = self.tr("Replay – nothing was called. This is a played tape, not a new run.")
            if name:
                text = self.tr("Replay – nothing was called. The answers came from %1.")
        else:
            text = self.tr("Replay – nothing is called. The answers come from %1.")
        if any(not one.is_replay for one in running):
            text += " " + self.tr("Another flow calls models meanwhile.")
        return text.replace("%1", name)

    def _name(self, tape: RecordedTape) -> str:
        """A tape as a person knows it: by its file, or by the run when it lies among those that are kept."""
        if tape.path.parent == self._folder:
            return self.tr("the run of %1").replace("%1", recorded_text(tape))
        return self.tr("the tape %1").replace("%1", visible_text(tape.path.name))

    def _with_tape(self, ask: Callable[[FlowTab, Path], None]) -> None:
        tab = self._documents.current
        path = None if tab is None else self.tape_of(tab)
        if tab is not None and path is not None:
            ask(tab, path)
        else:
            self._show()  # it has gone meanwhile

    # -- saving -------------------------------------------------------------------------------------------------------

    def _ask_where_to_save(self, tab: FlowTab, tape: Path) -> None:
        place = str(Path.home() / f"{slug(tab.document.title)}.tape.jsonl")
        dialog = self._dialog(self.tr("Save wire tape as"), place, QFileDialog.AcceptMode.AcceptSave)
        dialog.fileSelected.connect(lambda chosen: self._tasks.start(self.save(tape, Path(chosen))))
        dialog.open()

    def _dialog(self, title: str, place: str, mode: QFileDialog.AcceptMode) -> QFileDialog:
        kinds = self.tr("Wire tapes") + f" ({KIND})"
        dialog = QFileDialog(self._window, title, place, kinds)
        dialog.setAcceptMode(mode)
        dialog.setDefaultSuffix("tape.jsonl")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return dialog

    async def save(self, tape: Path, path: Path) -> None:
        """Copy a tape; raises StorageError."""

        def copy() -> None:
            if not (path.exists() and path.samefile(tape)):
                shutil.copyfile(tape, path)

        try:
            await asyncio.to_thread(copy)
        except OSError as error:
            raise StorageError(
                self.tr("The tape cannot be saved as %1: %2.")
                .replace("%2", error.strerror or str(error))
                .replace("%1", str(path)),
                hint=self.tr("Choose another folder."),
                facts={"path": str(path)},
            ) from error
        title = self.tr("The wire tape was saved as %1.").replace("%1", path.name)
        text = self.tr("Keys are not on it. Prompts and answers are: treat it like the conversation itself.")
        self._tell(title, text, path)

    def _tell(self, title: str, text: str, path: Path) -> None:
        button = BannerButton(self.tr("Show folder"), partial(_open, path.parent))
        message = Message(kind="accent", title=visible_text(title), text=visible_text(text), icon="tape")
        self.banner_made.emit(Banner(message, [button]))

    # -- playing ------------------------------------------------------------------------------------------------------

    def _ask_what_to_play(self) -> None:
        tab = self._documents.current
        tape = None if tab is None else self.tape_of(tab)
        if tape is None:
            self._choose_file()
        else:
            self._tasks.start(self.offer(tape))

    def _choose_file(self) -> None:
        dialog = self._dialog(self.tr("Replay wire tape"), str(Path.home()), QFileDialog.AcceptMode.AcceptOpen)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda chosen: self._tasks.start(self.offer(Path(chosen))))
        dialog.open()

    async def offer(self, path: Path) -> None:
        """Read a tape and ask how fast to play it; raises StorageError."""
        tape = await asyncio.to_thread(RecordedTape, path)
        form = ReplayForm(tape, self._name(tape), self._window)
        form.chosen.connect(lambda speed: self._tasks.start(self.play(tape, speed)))
        form.other_wanted.connect(self._choose_file)
        form.open()

    async def play(self, tape: RecordedTape, speed: float) -> None:
        """Open a tab that shows a replay as the run itself looked; raises EngineError."""
        start = tape.start
        loaded = await asyncio.to_thread(
            read_flow, start.flow_text, name=start.flow or tape.path.name, origin=start.flow_origin
        )
        name = f"{REPLAYED}{tape.path}"
        tab = next((tab for tab in self._documents.tabs if tab.source == name and not tab.is_running), None)
        if tab is None:
            title = self.tr("%1, replay").replace("%1", loaded.spec.name)
            tab = self._documents.add(loaded, name, None, run_title=title)
        self._window.tabs.setCurrentWidget(tab.editor)
        player = await self._engine.replaying(tape, speed=speed)
        self._window.show_dock("run")
        if not tab.replay(Playing(engine=player, tape=tape)):
            await player.close()

    # -- a test -------------------------------------------------------------------------------------------------------

    def _ask_where_to_test(self, tab: FlowTab, tape: Path) -> None:
        dialog = QFileDialog(self._window, self.tr("Folder for the offline test"), str(Path.home()))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        title = tab.document.title
        dialog.fileSelected.connect(lambda chosen: self._tasks.start(self.make_test(tape, Path(chosen), title)))
        dialog.open()

    async def make_test(self, tape: Path, folder: Path, title: str) -> None:
        """Write a test that plays a tape, named after a flow; raises EngineError."""
        test = await asyncio.to_thread(lambda: write_offline_test(RecordedTape(tape), folder, test_name(title)))
        done = self.tr("The offline test %1 was written.").replace("%1", test.name)
        text = self.tr("Run it with pytest: it plays the tape beside it and calls nobody. It compares %1.")
        kept = self.tr("status, outputs, traces and errors")
        self._tell(done, text.replace("%1", kept) + "\n" + str(test), test)


def test_name(title: str) -> str:
    """The name of a flow as part of a Python name."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_") or "flow"


def _open(path: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))
