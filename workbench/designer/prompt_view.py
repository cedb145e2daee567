"""The prompt as a model would get it, with values put in, one split after the other."""

import asyncio
from collections.abc import Callable, Mapping

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPlainTextEdit, QToolButton, QVBoxLayout, QWidget

from engine import EngineError
from engine.flow.flow_spec import AgentSpec
from engine.flow.prompt_preview import PromptPreview, preview_prompt
from workbench.designer.fields import Choice
from workbench.designer.form_section import translate
from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.fault_note import FaultNote

LONGEST_SHOWN = 200_000
"""Characters of a prompt that are shown."""

Values = Mapping[str, object]
Sources = Callable[[str], Mapping[str, Values]]
"""Agent → name of a source → the values it has for the agent."""


class PromptView(QWidget):
    """Choice of the values, a stepper through the splits, and the text."""

    def __init__(self, agent: Callable[[], AgentSpec | None], sources: Sources, parent: QWidget) -> None:
        super().__init__(parent)
        self._agent, self._sources = agent, sources
        self._preview: PromptPreview | None = None
        self._index = 0
        self._task: asyncio.Task[None] | None = None
        self.source = ElidedComboBox(self)
        self.source.setAccessibleName(translate("Inspector", "Values of the preview"))
        self.source.activated.connect(self.start)
        self.back = self._button("chevron-left", translate("Inspector", "Previous split"), -1)
        self.forth = self._button("chevron-right", translate("Inspector", "Next split"), 1)
        self.place = QLabel(self)
        self.place.setProperty("role", "secondary")
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName(translate("Inspector", "Expanded prompt"))
        self.note = FaultNote(self)
        row = QHBoxLayout()
        row.addWidget(self.source, 1)
        for widget in (self.back, self.place, self.forth):
            row.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self.text)
        column.addWidget(self.note)
        theme.changed.connect(self._restyle)
        self._restyle()

    def stops(self) -> list[QWidget]:
        """What takes the focus."""
        return [self.source, self.back, self.forth, self.text]

    def start(self) -> None:
        """Expand the prompt of the agent as it is now."""
        agent = self._agent()
        if agent is None:
            return
        sources = self._sources(agent.name)
        chosen = self.source.currentText()
        self.source.clear()
        for name, values in sources.items():
            self.source.addItem(name, Choice(value=values, text=name))
        self.source.setCurrentIndex(max(0, self.source.findText(chosen)))
        if self._task is not None:
            self._task.cancel()
        data = self.source.currentData()
        self._task = asyncio.get_running_loop().create_task(self._expand(agent, data.value if data else {}))

    async def _expand(self, agent: AgentSpec, values: Values) -> None:
        fault = ""
        try:
            preview = await preview_prompt(agent, values)
        except EngineError as error:
            preview, fault = None, error.message
        except Exception as error:
            preview, fault = None, str(error) or type(error).__name__
        self._preview = preview
        self._index = min(self._index, preview.count - 1) if preview else 0
        self._show()
        if preview is None or preview.note:
            self.note.show_fault(fault or (preview.note if preview else ""), is_warning=not fault)
        else:
            self.note.show_fault("")

    def _step(self, step: int) -> None:
        if self._preview is not None:
            self._index = max(0, min(self._preview.count - 1, self._index + step))
            self._show()

    def _show(self) -> None:
        preview = self._preview
        count = preview.count if preview else 1
        self.place.setText(f"{self._index + 1} / {count}")
        self.back.setEnabled(self._index > 0)
        self.forth.setEnabled(self._index < count - 1)
        system, user = preview.prompt(self._index) if preview else ("", "")
        parts = [user]
        if system:
            heads = translate("Inspector", "— System —"), translate("Inspector", "— User —")
            parts = [heads[0], system, "", heads[1], user]
        text = "\n".join(parts)
        cut = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        self.text.setPlainText(visible_text(cut))

    def _button(self, icon: str, name: str, step: int) -> QToolButton:
        button = QToolButton(self)
        button.setProperty("icon_name", icon)
        button.setAccessibleName(name)
        button.setToolTip(name)
        button.clicked.connect(lambda: self._step(step))
        return button

    def _restyle(self) -> None:
        for button in (self.back, self.forth):
            button.setIcon(theme.icon(button.property("icon_name"), 14))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))
        self.place.setFont(theme.font(12))
        self.place.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.text.setFont(theme.font(12, mono=True))
        self.text.setMinimumHeight(theme.px(180))
