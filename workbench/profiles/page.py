"""The page *Profiles* as a whole: opens, checks, saves and tests one profile at a time; unsaved ones stay."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QMenu, QMessageBox, QVBoxLayout

from engine import Engine, EngineError
from engine.api_keys import has_keyring, keep_secret
from engine.errors import StorageError
from engine.profile_probe import probe
from engine.profile_store import SUFFIX, ProfileEntry
from engine.recovery_files import RecoveryFiles
from engine.server_finder import USUAL_PORTS, FoundServer, find_servers
from workbench.drafts import Draft, Drafts
from workbench.error_presenter import error_banner
from workbench.folder_watch import FolderWatch
from workbench.page import Page
from workbench.profiles.document import ProfileDocument, encoding_of, with_keys, without_keys
from workbench.profiles.files import ProfileFiles
from workbench.profiles.page_view import ProfilesView
from workbench.tasks import Tasks
from workbench.text_format import visible_text
from workbench.widgets.banner import Banner, BannerButton, Message
from workbench.widgets.difference_dialog import DifferenceDialog
from workbench.widgets.name_dialog import NameDialog

LOOK_MILLISECONDS = 120
"""After the last change until a text is checked."""
KIND = "profile"
MOST_MODELS = 30
"""Of a server that are offered."""
TEMPLATE = """# docs/profiles.md
modelProvider=OAI_CHAT_COMPLETION
url=http://127.0.0.1:8080/v1
maxTokens=1024
temperature=0.7
topP=1.0
"""


class ProfilesPage(Page):
    """Shows one profile at a time."""

    def __init__(self, engine: Engine, folder: Path, recovery: Path, tasks: Tasks) -> None:
        """`folder` is the one of the person's profiles, which is watched; `recovery` is for unsaved texts."""
        super().__init__()
        self._engine = engine
        self._files = ProfileFiles(folder)
        self.used: Callable[[str], str] = lambda _name: ""
        """What the requests of a profile have used since the start, in words."""
        self._tasks = tasks
        self.drafts = Drafts(RecoveryFiles(recovery), tasks, self)
        self.drafts.written = without_keys
        self._watch = FolderWatch(folder, f"*{SUFFIX}", tasks, self)
        self.entries: Sequence[ProfileEntry] = ()
        self.document: ProfileDocument | None = None
        self.entry: ProfileEntry | None = None
        """What the check of the text on show found."""
        self.ports = USUAL_PORTS
        """Where servers of this machine are looked for."""
        self._wanted = ""
        self._begun = self._recovered = self._closed = self._can_keep = False
        self._models: dict[str, tuple[str, ...]] = {}
        self._looked = 0
        self._test: asyncio.Task[object] | None = None
        self.view = ProfilesView(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.view)
        self.setFocusProxy(self.view)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(LOOK_MILLISECONDS)
        self._timer.timeout.connect(self._look_soon)
        self._connect()

    def _connect(self) -> None:
        view = self.view
        view.chosen.connect(self.open_profile)
        view.save.clicked.connect(lambda: self._start(self.save()))
        view.revert.clicked.connect(self._revert)
        view.new.clicked.connect(lambda: self._ask_name(self.tr("New profile"), "my-model", TEMPLATE.encode()))
        view.duplicate.clicked.connect(self._duplicate)
        view.delete.clicked.connect(self._ask_to_delete)
        view.find_here.clicked.connect(lambda: self._start(self._find()))
        view.compare.clicked.connect(lambda: self._start(self._compare()))
        view.categories.chosen.connect(lambda label, name: self._start(self._map(label, name)))
        view.categories.new_wanted.connect(self._ask_category)
        view.form.keyring_wanted.connect(lambda name, key: self._start(self._keep_key(name, key)))
        view.test.wanted.connect(self._begin_test)
        view.test.stop_wanted.connect(self._end_test)
        self.drafts.changed.connect(self._drafts_changed)
        self._watch.changed.connect(lambda: self._start(self._read_again()))

    def _start(self, work: Coroutine[object, object, object]) -> None:
        self._tasks.start(work, self)

    # -- reading ------------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Read the profiles when somebody first looks."""
        super().showEvent(event)
        if not self._begun:
            self._begun = True
            self._start(self._begin())

    async def _begin(self) -> None:
        self._watch.begin()
        self._can_keep = await asyncio.to_thread(has_keyring)
        recovered = await self.drafts.recover()
        self._recovered = True
        await self._list()
        if recovered:
            title = self.tr("Unsaved changes of %1 are back. Save keeps them.")
            edited = ", ".join(name for name, _kind in self.drafts.places)
            self._say("accent", title.replace("%1", edited), icon="history")
        if self.document is None:
            names = [entry.name for entry in self.entries]
            own = [entry.name for entry in self.entries if not entry.bundled]
            usual = self.view.categories.profile_of("M")
            first = next((name for name in (self._wanted, *own, usual, *names) if name in names), "")
            if first:
                await self._open(first)

    async def _list(self) -> None:
        try:
            self.entries = await asyncio.to_thread(self._engine.profiles.profiles)
            mapping = await asyncio.to_thread(self._engine.profiles.categories)
        except EngineError as error:
            self._tell(error)
            return
        if not self._closed:
            self._show_list()
            self.view.categories.show_map(mapping, [entry.name for entry in self.entries])

    def _show_list(self) -> None:
        current = self.document.name if self.document is not None else ""
        self.view.show_list(self.entries, [name for name, _kind in self.drafts.places], current)

    async def _read_again(self) -> None:
        """Something in the folder was changed."""
        await self._list()
        document = self.document
        if document is None or self._closed:
            return
        data, is_bundled = await asyncio.to_thread(self._files.read, document.name)
        if data == document.saved or document is not self.document:
            return
        if document.is_modified:
            self._ask_whose(document, data, is_bundled)
        else:
            self._take(document, data, is_bundled)

    def _ask_whose(self, document: ProfileDocument, data: bytes, is_bundled: bool) -> None:
        """The file was changed by another program, and here, too."""
        text = self.tr("The file of %1 was changed by another program, and here, too.").replace("%1", document.name)
        take = BannerButton(self.tr("Reload"), lambda: self._take(document, data, is_bundled))
        keep = BannerButton(self.tr("Keep mine"), lambda: self._rebase(document, data))
        self._say("warn", text, [take, keep])

    def _take(self, document: ProfileDocument, data: bytes, is_bundled: bool) -> None:
        document.is_bundled = is_bundled
        document.take(data)
        self._edited()

    def _rebase(self, document: ProfileDocument, data: bytes) -> None:
        """Keep what was edited here; saving replaces what the other program wrote."""
        document.take(data, document.text)
        self._edited()

    def open_profile(self, name: str) -> None:
        """Show a profile."""
        self._wanted = name
        if not self._recovered:
            return  # it opens once its unsaved text is known
        if self.document is None or self.document.name != name:
            self._start(self._open(name))
        else:
            self._show_head()

    async def _open(self, name: str) -> None:
        self._wanted = name
        try:
            data, is_bundled = await asyncio.to_thread(self._files.read, name)
        except EngineError as error:
            self._tell(error)
            return
        if name == self._wanted and not self._closed:
            self._show(ProfileDocument(name, data, is_bundled=is_bundled, parent=self))

    def _show(self, document: ProfileDocument) -> None:
        self._end_test()
        old, self.document, self.entry = self.document, document, None
        draft = self.drafts.get((document.name, KIND))
        if draft is not None:
            document.take(document.saved, with_keys(draft.text, document.values))
            if draft.base != digest_of(document.saved):
                self._ask_whose(document, document.saved, document.is_bundled)
        self.view.source.setDocument(document.source)
        self.view.test.clear()
        document.changed.connect(self._edited)
        if old is not None:
            old.deleteLater()
        self._show_list()
        self._edited()

    # -- editing ------------------------------------------------------------------------------------------------------

    def _edited(self) -> None:
        document = self.document
        if document is None:
            return
        place = (document.name, KIND)
        draft = Draft(document.text, digest_of(document.saved)) if document.is_modified else None
        self.drafts.set(place, draft)
        self._show_head()
        self._timer.start()

    def _show_head(self) -> None:
        document, view = self.document, self.view
        if document is None:
            return
        view.title.setText(f"{document.name} •" if document.is_modified else document.name)
        view.chip.say(self.tr("with the workbench") if document.is_bundled else "")
        text = self.tr("Form and source edit the same text. Comments, order and unknown keys stay as they are.")
        if document.is_bundled:
            text = self.tr("This one comes with the workbench. Saving makes a file of your own, which replaces it.")
        view.info.setText("\n".join(filter(None, (text, self.used(document.name)))))
        for button in (view.revert, view.save):
            button.setEnabled(document.is_modified)
        view.delete.setEnabled(not document.is_bundled)

    def _look_soon(self) -> None:
        self._start(self._look())

    async def _look(self) -> None:
        """Check the text as it is now."""
        document = self.document
        if document is None:
            return
        self._looked += 1
        number = self._looked
        data = document.text.encode("utf-8")
        entry = await asyncio.to_thread(self._engine.profiles.check_text, document.name, data)
        if number != self._looked or document is not self.document or self._closed:
            return
        self.entry = entry
        models = self._models.get(document.name, ())
        self.view.form.show_document(document, entry, can_keep=self._can_keep, models=models)
        others = [problem for problem in entry.problems if problem.path not in self.view.form.rows]
        self.view.problems.setText(visible_text("\n".join(problem.message for problem in others)))
        self.view.problems.setVisible(bool(others))

    def _revert(self) -> None:
        if self.document is not None:
            self._take(self.document, self.document.saved, self.document.is_bundled)

    async def _keep_key(self, name: str, key: str) -> None:
        document = self.document
        try:
            await asyncio.to_thread(keep_secret, name, key)
        except StorageError as error:
            self._tell(error)
            return
        if document is not None and document is self.document:
            document.set_value("apiKey", f"${{{name}}}")
            self._say("accent", self.tr("The key is in the system's keychain as %1.").replace("%1", name), icon="key")

    # -- saving -------------------------------------------------------------------------------------------------------

    @property
    def is_modified(self) -> bool:
        """Whether any profile has unsaved changes."""
        return len(self.drafts) > 0

    def _drafts_changed(self) -> None:
        self.changed.emit()
        if self._begun:
            self._show_list()

    async def save(self) -> bool:
        """Save all profiles with unsaved changes; whether that was possible."""
        for name, _kind in self.drafts.places:
            draft = self.drafts.get((name, KIND))
            if draft is None:
                continue
            try:
                if not await self._save(name, draft):
                    return False
            except EngineError as error:
                self._tell(error)
                return False
        await self._list()
        return True

    async def _save(self, name: str, draft: Draft) -> bool:
        """Whether it was; else it is on show, with the question what is to become of it."""
        data, is_bundled = await asyncio.to_thread(self._files.read, name)
        shown = self.document if self.document is not None and self.document.name == name else None
        if digest_of(data) != draft.base:
            if shown is None:
                await self._open(name)
            if self.document is not None and self.document.name == name:
                self._ask_whose(self.document, data, is_bundled)
            return False
        document = shown or ProfileDocument(name, data, is_bundled=is_bundled, parent=self)
        if shown is None:
            document.take(data, with_keys(draft.text, document.values))
        new = document.data
        await asyncio.to_thread(self._files.write, name, new)
        self._engine.profiles.reload()
        if shown is None:
            document.deleteLater()
            self.drafts.set((name, KIND), None)
            return True
        document.is_bundled = False
        document.take(new, document.text)
        self._edited()
        return True

    def discard(self) -> None:
        """Forget all unsaved changes."""
        self.drafts.forget_all()

    async def close_page(self) -> None:
        """End the test; unsaved changes are in their recovery files."""
        self._closed = True
        self._watch.close()
        self._timer.stop()
        self._end_test()
        await self.drafts.settle()

    # -- making and deleting ------------------------------------------------------------------------------------------

    def _duplicate(self) -> None:
        if self.document is not None:
            self._ask_name(self.tr("Duplicate"), f"{self.document.name}-copy", self.document.text.encode("utf-8"))

    def _ask_name(self, title: str, value: str, data: bytes) -> None:
        dialog = NameDialog(title, value, self.tr("Create"), self._check_name, self.window())
        dialog.named.connect(lambda name: self._start(self._make(name, data)))
        dialog.open()

    def _check_name(self, name: str) -> tuple[str, bool]:
        names = [entry.name for entry in self.entries]
        if not name or name in ("categories", "default"):
            return self.tr("Give it a name of its own."), False
        if name.startswith(".") or not all(part.isalnum() or part in "-_.+" for part in name):
            return self.tr("Letters, digits and - _ . + only: it is the name of a file."), False
        return (self.tr("There is a profile of this name."), False) if name in names else ("", True)

    async def _make(self, name: str, data: bytes) -> None:
        try:
            await asyncio.to_thread(self._files.write, name, data)
        except EngineError as error:
            self._tell(error)
            return
        self._engine.profiles.reload()
        await self._list()
        await self._open(name)

    def _ask_to_delete(self) -> None:
        document = self.document
        if document is None or document.is_bundled:
            return
        question = QMessageBox(self.window())
        question.setText(self.tr("Delete the profile %1?").replace("%1", document.name))
        question.setInformativeText(self.tr("Its file goes to the folder of deleted profiles beside the others."))
        delete = question.addButton(self.tr("Delete"), QMessageBox.ButtonRole.DestructiveRole)
        question.addButton(self.tr("Cancel"), QMessageBox.ButtonRole.RejectRole)
        delete.clicked.connect(lambda: self._start(self._delete(document.name)))
        question.finished.connect(question.deleteLater)
        question.open()

    async def _delete(self, name: str) -> None:
        try:
            await asyncio.to_thread(self._files.set_aside, name)
        except EngineError as error:
            self._tell(error)
            return
        self.drafts.set((name, KIND), None)
        self.document = None
        self._engine.profiles.reload()
        await self._list()
        if self.entries:
            await self._open(self.entries[0].name)

    # -- other profiles and servers -----------------------------------------------------------------------------------

    async def _compare(self) -> None:
        """Show how the profile on show differs from another one; keys are left out."""
        document = self.document
        names = [entry.name for entry in self.entries]
        if document is None or len(names) < 2:
            return
        files = await asyncio.to_thread(lambda: {name: self._files.read(name)[0] for name in names})
        texts = {name: without_keys(data.decode(encoding_of(data))) for name, data in files.items()}
        texts[document.name] = without_keys(document.text)
        title = self.tr("Compare profiles")
        DifferenceDialog(title, texts, document.name, self.window()).open()

    async def _find(self) -> None:
        """Offer a profile for each model of the servers on this machine."""
        self.view.find_here.setEnabled(False)
        try:
            found = await find_servers(self._engine, self.ports)
        finally:
            self.view.find_here.setEnabled(True)
        if not found:
            ports = ", ".join(f"{usual.kind} {usual.port}" for usual in self.ports)
            text = self.tr("No server answers on its usual port on this computer: %1.").replace("%1", ports)
            self._say("accent", text, icon="server")
            return
        menu = QMenu(self)
        menu.setObjectName("found")
        for server in found:
            menu.addSection(f"{server.kind}, {visible_text(server.url)}")
            for model in server.models[:MOST_MODELS] or ("",):
                name = visible_text(model) or (self.tr("needs a key") if server.needs_key else self.tr("no model"))
                menu.addAction(name.replace("&", "&&"), partial(self._offer, server, model))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.view.find_here.mapToGlobal(self.view.find_here.rect().bottomLeft()))

    def _offer(self, server: FoundServer, model: str) -> None:
        name = re.sub(r"[^\w.+-]+", "-", f"{server.template}-{model}".strip("-"))[:60]
        taken = {entry.name for entry in self.entries}
        free = next(one for one in chain([name], (f"{name}-{n}" for n in count(2))) if one not in taken)
        self._ask_name(self.tr("New profile"), free, server.profile_text(model))

    # -- categories ---------------------------------------------------------------------------------------------------

    async def _map(self, label: str, name: str) -> None:
        try:
            await asyncio.to_thread(self._engine.profiles.map_category, label, name or None)
        except EngineError as error:
            self._tell(error)
        await self._list()

    def _ask_category(self) -> None:
        def check(label: str) -> tuple[str, bool]:
            return ("", True) if label.isidentifier() else (self.tr("Letters and digits, JUDGE for instance."), False)

        first = self.document.name if self.document is not None else ""
        dialog = NameDialog(self.tr("New category"), "JUDGE", self.tr("Create"), check, self.window())
        dialog.named.connect(lambda label: self._start(self._map(label, first)))
        dialog.open()

    # -- the test -----------------------------------------------------------------------------------------------------

    def _begin_test(self) -> None:
        entry = self.entry
        if entry is None:
            return
        if entry.profile is None:
            self._say("err", self.tr("The profile has errors: mend them first."))
            return
        self.view.test.show_running(True)
        self._test = asyncio.get_running_loop().create_task(self._run_test(entry))

    async def _run_test(self, entry: ProfileEntry) -> None:
        assert entry.profile is not None  # noqa: S101 - checked before
        panel = self.view.test
        try:
            found = await probe(self._engine, entry.profile, panel.show_check)
            panel.show_probe(found)
            if found.models:
                self._models[entry.name] = found.models
                self._timer.start()
        except EngineError as error:
            self._tell(error)
        finally:
            if self._test is asyncio.current_task():
                self._test = None
                panel.show_running(False)

    def _end_test(self) -> None:
        if self._test is not None:
            self._test.cancel()

    # -- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, error: EngineError) -> None:
        self.view.banners.push(error_banner(error))

    def _say(self, kind: str, title: str, buttons: Sequence[BannerButton] = (), *, icon: str = "") -> None:
        self.view.banners.push(Banner(Message(kind=kind, title=visible_text(title), icon=icon), list(buttons)))


def digest_of(data: bytes) -> str:
    """Names the state of a file a text was made from."""
    return hashlib.sha256(data).hexdigest()
