"""The page *Prompts* as a whole: tree, editor, versions, preview; saving, taking back, and what others change."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QInputDialog, QWidget

from engine import Engine, EngineError, Problem
from engine.errors import TemplateError
from engine.prompt_library import PromptChanged, PromptEntry
from engine.recovery_files import RecoveryFiles
from workbench.drafts import Draft, Drafts, Place
from workbench.engine_options import EngineOptions
from workbench.error_presenter import error_banner
from workbench.folder_watch import FolderWatch
from workbench.page import Page
from workbench.prompts.page_view import PromptsView
from workbench.prompts.prompt_tree import group_names, prompt_name
from workbench.prompts.text_source import Findings, Source, examine, read_source
from workbench.tasks import Tasks
from workbench.text_format import language_name, visible_text
from workbench.widgets.banner import Banner, BannerButton, Message

logger = logging.getLogger(__name__)

LOOK_MILLISECONDS = 150
"""After the last key until a text is checked."""


class PromptsPage(Page):
    """Shows one prompt at a time; unsaved texts of the others stay."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        recovery: Path,
        options: EngineOptions,
        tasks: Tasks,
        parent: QWidget | None = None,
    ) -> None:
        """`folder` is the one of the person's prompts, which is watched; `recovery` is for unsaved texts."""
        super().__init__(parent)
        self._library = engine.prompts
        self._options = options
        self.uses: Callable[[str, str], list[tuple[str, str]]] = lambda _key, _current: []
        """Which flows that are running use which text of a prompt, and in what version (running_prompts.py)."""
        self._tasks = tasks
        self.drafts = Drafts(RecoveryFiles(recovery), tasks, self)
        self._watch = FolderWatch(folder, "*.md*", tasks, self)
        self.entries: Sequence[PromptEntry] = ()
        self.place: Place | None = None
        """The text on show."""
        self.source: Source | None = None
        """It as it is saved; None while it cannot be read."""
        self.findings: Findings | None = None
        self._begun = self._closed = False
        self._asked = self._looked = 0
        """How often a text was asked for, and looked at: only the last one is shown."""
        self.view = PromptsView(self)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(LOOK_MILLISECONDS)
        self._timer.timeout.connect(lambda: self._start(self._look()))
        self._connect()

    def _connect(self) -> None:
        view = self.view
        view.tree.chosen.connect(self.open_text)
        view.edit.edited.connect(self._edited)
        view.preview.values_changed.connect(self._timer.start)
        view.versions.wanted.connect(self._restore)
        view.head.save.clicked.connect(lambda: self._start(self.save()))
        view.head.reset.clicked.connect(lambda: self._start(self._reset()))
        view.language_wanted.connect(self._ask_language)
        view.run_language_chosen.connect(lambda language: self._options.change(prompt_language=language))
        self._options.changed.connect(self._show_run_language)
        self.drafts.changed.connect(self._drafts_changed)
        self._watch.changed.connect(lambda: self._start(self._read_again()))

    def _start(self, work: Coroutine[object, object, object]) -> None:
        self._tasks.start(work, self)

    # -- reading ------------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Read the prompts when somebody first looks."""
        super().showEvent(event)
        if not self._begun:
            self._begun = True
            self._start(self._begin())

    async def _begin(self) -> None:
        self._watch.begin()
        recovered = await self.drafts.recover()
        await self._list()
        if recovered:
            text = self.tr("Unsaved texts of %1 prompts are back. Save keeps them.")
            if recovered == 1:
                text = self.tr("The unsaved text of a prompt is back. Save keeps it.")
            title = text.replace("%1", str(recovered))
            self.view.banners.push(Banner(Message(kind="accent", title=title, icon="history")))
        if self.place is None:
            first = next(iter(self.drafts.places), None) or next(
                ((entry.key, entry.language) for entry in self.entries if entry.key.startswith("planner.system")), None
            )
            if first is not None:
                self.view.tree.choose(first)

    async def _list(self) -> None:
        try:
            self.entries = await asyncio.to_thread(self._library.entries)
        except EngineError as error:
            self._tell(error)
        if not self._closed:
            self._show_tree()

    async def _read_again(self) -> None:
        """Something in the folder was changed."""
        await self._list()
        if self.place is not None and not self._closed:
            await self._open(self.place)

    def open_text(self, place: Place) -> None:
        """Show the text of a prompt."""
        if place != self.place:
            self._start(self._open(place))

    async def _open(self, place: Place) -> None:
        self._asked += 1
        number = self._asked
        try:
            source = await asyncio.to_thread(read_source, self._library, place)
        except EngineError as error:
            if number == self._asked:
                self._show_unreadable(place, error)
            return
        if number == self._asked:
            self._show(place, source)

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show(self, place: Place, source: Source) -> None:
        draft = self.drafts.get(place)
        same = place == self.place and self.source is not None
        before = self.source
        self.place, self.source = place, source
        text = source.prompt.text if draft is None else draft.text
        if same:
            self.view.edit.replace(text)
        else:
            self.view.edit.load(text)
        self.view.show_prompt(self._title(place))
        self.view.edit.completion.offer(source.names)
        if draft is not None and draft.base != source.prompt.version:
            self._tell_changed(place)
        elif before is None or before.prompt != source.prompt:
            self.view.changed.show_message(None)
        self._show_state()
        self._start(self._look())

    def _show_unreadable(self, place: Place, error: EngineError) -> None:
        self.place, self.source, self.findings = place, None, None
        self.view.show_unreadable(self._title(place), error.message)
        entry = self._entry(place)
        resettable = entry is not None and entry.own
        self.view.head.show_state(unsaved=False, differs=False, resettable=resettable, savable=bool(self.drafts))

    def _title(self, place: Place) -> str:
        group = place[0].partition(".")[0]
        name = f"{group_names().get(group, group)}, {prompt_name(place[0])}, {language_name(place[1])}"
        return visible_text(name)

    def _entry(self, place: Place) -> PromptEntry | None:
        return next((one for one in self.entries if (one.key, one.language) == place), None)

    def _show_tree(self) -> None:
        preferred = self._options.current.prompt_language
        self.view.tree.show_entries(self.entries, self.drafts.places, preferred)
        self._show_run_language()

    def _show_run_language(self) -> None:
        languages = sorted({entry.language for entry in self.entries})
        self.view.show_run_languages(languages, self._options.current.prompt_language)

    def _show_state(self) -> None:
        """Chips, buttons, versions and foot, as text and drafts are now."""
        source, place = self.source, self.place
        if source is None or place is None:
            return
        text, shipped = self.view.edit.toPlainText(), source.shipped
        self.view.head.show_state(
            unsaved=place in self.drafts,
            differs=shipped is not None and shipped.text != text,
            resettable=not source.prompt.shipped or (shipped is not None and shipped.text != text),
            savable=bool(self.drafts),
        )
        self.view.versions.show_texts(source.known, text)
        self.show_running()

    def show_running(self) -> None:
        """The version, and which one runs that go on use."""
        if self.source is None or self.place is None:
            return
        prompt = self.source.prompt
        uses = self.uses(prompt.key, f"{prompt.language} {prompt.version}")
        if not uses:
            text = self.tr("Version %1. Edits hold from the next run, once they are saved.")
            self.view.say_version(text.replace("%1", prompt.version), "info")
            return
        flow, used = uses[0]
        language, _, version = used.partition(" ")
        if language != prompt.language:
            text = self.tr("“%1” is running with the text in %2, version %3.").replace("%2", language_name(language))
        elif version == prompt.version:
            text = self.tr("“%1” is running with this text as it is saved, version %3.")
        else:
            text = self.tr("“%1” is running with an earlier text, version %3.")
        self.view.say_version(text.replace("%3", version).replace("%1", visible_text(flow)), "run")

    # -- editing ------------------------------------------------------------------------------------------------------

    def _edited(self, text: str) -> None:
        place, source = self.place, self.source
        if place is None or source is None:
            return
        before = self.drafts.get(place)
        base = source.prompt.version if before is None else before.base
        is_new = self._entry(place) is None
        self.drafts.set(place, None if text == source.prompt.text and not is_new else Draft(text, base))
        self._show_state()
        self._timer.start()

    async def _look(self) -> None:
        """Check the text in the editor and show it with its sample values."""
        self._looked += 1
        number, source, text = self._looked, self.source, self.view.edit.toPlainText()
        if source is None:
            return
        findings = await asyncio.to_thread(examine, self._library, source.prompt, text)
        if number != self._looked or source is not self.source:
            return
        self.findings = findings
        self.view.show_problems(findings.problems)
        if findings.samples or not any(problem.severity == "error" for problem in findings.problems):
            self.view.preview.show_variables(findings.samples)
        await self._preview(number, source, text)

    async def _preview(self, number: int, source: Source, text: str) -> None:
        shown: Callable[[str], object] = self.view.preview.show_text
        try:
            values = self.view.preview.values()
            said = await asyncio.to_thread(self._library.preview, replace(source.prompt, text=text), values)
        except (ValueError, TemplateError) as error:
            said, shown = str(error), self.view.preview.show_fault
        if number == self._looked:
            shown(said)

    def go_to(self, problem: Problem) -> None:
        """Put the cursor where a problem is."""
        self.view.edit.go_to(problem)

    def _restore(self, text: str) -> None:
        """Put an earlier text into the editor; saving and taking back are up to the person."""
        self.view.edit.replace(text)
        self.view.head.views.setCurrentIndex(0)
        self.view.edit.setFocus()

    def _ask_language(self) -> None:
        place = self.place
        if place is None:
            return
        dialog = QInputDialog(self)
        dialog.setWindowTitle(self.tr("Add a language"))
        dialog.setLabelText(self.tr("Language or variant, for example fr, zh-CN or default:"))
        dialog.textValueSelected.connect(lambda language: self._add_language(place[0], language.strip()))
        dialog.open()

    def _add_language(self, key: str, language: str) -> None:
        try:
            self._library.check_name(key, language)
        except EngineError as error:
            self._tell(error)
            return
        place = (key, language)
        if self._entry(place) is None and place not in self.drafts and self.source is not None:
            base = self._library.find(key, language)
            self.drafts.set(place, Draft(base.text, base.version))
        self.view.tree.choose(place)

    # -- saving -------------------------------------------------------------------------------------------------------

    @property
    def is_modified(self) -> bool:
        """Whether a text is not saved."""
        return bool(self.drafts)

    async def save(self) -> bool:
        """Save all changed texts; what cannot be saved stays as it is, with a banner that says why."""
        saved = [await self._save(place) for place in self.drafts.places]
        await self._read_again()
        return all(saved)

    async def _save(self, place: Place) -> bool:
        draft = self.drafts.get(place)
        if draft is None:
            return True
        try:
            prompt = await asyncio.to_thread(self._library.save, *place, draft.text, replaces=draft.base)
        except PromptChanged:
            self.view.tree.choose(place)  # there it is told with what can be done
            return False
        except EngineError as error:
            self._tell(error)
            return False
        if place == self.place and self.source is not None:  # what is typed from here on is based on it
            self.source = replace(self.source, prompt=prompt)
        now = self.drafts.get(place)
        if now is not None:  # what was typed while it was saved is based on what is saved now
            self.drafts.set(place, None if now.text == draft.text else Draft(now.text, prompt.version))
        return True

    async def _reset(self) -> None:
        place = self.place
        if place is None:
            return
        try:
            await asyncio.to_thread(self._library.reset, *place)
        except EngineError as error:
            self._tell(error)
            return
        self.drafts.set(place, None)
        await self._read_again()

    def _tell_changed(self, place: Place) -> None:
        title = self.tr("This text was changed elsewhere since you began to edit it.")
        buttons = [
            BannerButton(self.tr("Show difference"), lambda: self.view.head.views.setCurrentIndex(1)),
            BannerButton(self.tr("Take theirs"), lambda: self._decide(place, mine=False)),
            BannerButton(self.tr("Keep mine"), lambda: self._decide(place, mine=True)),
        ]
        text = self.tr("Yours is not saved. “Saved text” among the versions is theirs.")
        self.view.changed.show_message(Message(kind="warn", title=title, text=text), buttons)

    def _decide(self, place: Place, *, mine: bool) -> None:
        draft = self.drafts.get(place)
        if draft is None or self.source is None or place != self.place:
            return
        self.drafts.set(place, Draft(draft.text, self.source.prompt.version) if mine else None)
        if not mine:
            self.view.edit.replace(self.source.prompt.text)
        self.view.changed.show_message(None)
        self._show_state()

    def _drafts_changed(self) -> None:
        self.changed.emit()
        self._show_tree()

    def discard(self) -> None:
        """Forget all unsaved texts."""
        self.drafts.forget_all()

    async def close_page(self) -> None:
        """Stop watching; what is not saved is in its recovery files afterwards."""
        self._closed = True
        self._asked += 1  # what is being read is no longer wanted
        self._watch.close()
        try:
            await self.drafts.settle()
        except EngineError as error:
            self._tell(error)

    def _tell(self, error: EngineError) -> None:
        if self._closed:
            logger.warning("%s", error)
            return
        self.view.banners.push(error_banner(error))
