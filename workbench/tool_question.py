"""Asks before a tool with side effects runs: once, or for the rest of the run."""

import asyncio
import json
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QMessageBox, QWidget
from shiboken6 import isValid

from engine import Tool, ToolCall, outside_text
from workbench.text_format import visible_text

LONGEST_ARGUMENTS = 4000
"""Characters of the arguments that are shown at once; of longer ones all stand under *Show details*."""
KEY_PAUSE = 500
"""Milliseconds in which no key acts: who is typing when the question comes has not read it."""

translate = QCoreApplication.translate


class ToolQuestion:
    """What one run may use; call it as an `AllowTool`. A run that is stopped takes its question away."""

    def __init__(self, window: QWidget, flow: str, changed: Callable[[], object] = lambda: None) -> None:
        """`changed` is called when another tool is allowed for the run, or one no more."""
        self._window = window
        self._flow = flow
        self._changed = changed
        self._allowed: set[str] = set()
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, tool: Tool, call: ToolCall) -> bool:
        """Whether the tool may run with these arguments."""
        async with self._one_at_a_time:
            if tool.name in self._allowed and not outside_text.get():
                return True
            answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            question = self._ask(tool, call, answer)
            try:
                chosen = await answer
            finally:
                if isValid(question):  # an answer closes it; this is a run that was stopped
                    question.close()
            if chosen == "run":
                self._allowed.add(tool.name)
                self._changed()
            return chosen != "no"

    @property
    def allowed(self) -> tuple[str, ...]:
        """The tools that are no longer asked about in this run."""
        return tuple(sorted(self._allowed))

    def take_back(self, name: str) -> None:
        """Ask again before a tool."""
        self._allowed.discard(name)
        self._changed()

    def _ask(self, tool: Tool, call: ToolCall, answer: "asyncio.Future[str]") -> QMessageBox:
        question = QMessageBox(self._window)
        question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        question.setIcon(QMessageBox.Icon.NoIcon)
        question.setTextFormat(Qt.TextFormat.PlainText)
        text = translate("ToolQuestion", "%1 wants to use the tool %2, which changes something outside of the flow.")
        text = text.replace("%1", visible_text(self._flow)).replace("%2", visible_text(tool.name))
        question.setText(text)
        arguments = visible_text(_readable(call.arguments))
        shown = arguments
        if len(arguments) > LONGEST_ARGUMENTS:
            question.setDetailedText(arguments)
            cut = translate("ToolQuestion", "… %1 characters in all: see the details.")
            shown = f"{arguments[:LONGEST_ARGUMENTS]}\n{cut.replace('%1', f'{len(arguments):,}')}"
        if outside_text.get():
            why = translate(
                "ToolQuestion",
                "A tool has brought a text into this conversation, which may have told the model to do this. "
                "Therefore each call is asked about.",
            )
            shown = f"{why}\n\n{shown}"
        question.setInformativeText(shown)
        once = question.addButton(translate("ToolQuestion", "Allow once"), QMessageBox.ButtonRole.AcceptRole)
        always = question.addButton(translate("ToolQuestion", "Allow in this run"), QMessageBox.ButtonRole.AcceptRole)
        never = question.addButton(translate("ToolQuestion", "Refuse"), QMessageBox.ButtonRole.RejectRole)
        question.setDefaultButton(never)
        question.setEscapeButton(never)

        def answered() -> None:
            pressed = question.clickedButton()
            chosen = "once" if pressed is once else "run" if pressed is always else "no"
            if not answer.done():
                answer.set_result(chosen)

        question.finished.connect(answered)
        KeyPause(question)
        question.open()
        return question


class KeyPause(QObject):
    """Lets no key act on a dialog at first, nor one that has been held since."""

    def __init__(self, dialog: QMessageBox) -> None:
        super().__init__(dialog)
        self._over = False
        for widget in (dialog, *dialog.findChildren(QWidget)):
            widget.installEventFilter(self)
        QTimer.singleShot(KEY_PAUSE, self, self.end)

    def end(self) -> None:
        """Let keys act from now."""
        self._over = True

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Swallow keys, and shortcuts such as Alt and a letter."""
        if event.type() not in (
            QEvent.Type.KeyPress,
            QEvent.Type.KeyRelease,
            QEvent.Type.Shortcut,
            QEvent.Type.ShortcutOverride,
        ):
            return False
        return not self._over or (isinstance(event, QKeyEvent) and event.isAutoRepeat())


def _readable(arguments: str) -> str:
    """The arguments, one a line where they are JSON."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False, indent=2) if arguments.strip() else ""
    except (ValueError, RecursionError):
        return arguments
