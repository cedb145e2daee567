"""Tokens and price of a prompt, counted while it is typed."""

import asyncio
from collections.abc import Callable
from decimal import Decimal

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from engine import Engine, ModelProfile
from engine.flow.flow_spec import AgentSpec
from engine.statistics import CostProvenance
from workbench.designer.form_section import translate
from workbench.text_format import cost_text, tokens_text
from workbench.theme import theme
from workbench.widgets.elided import ElidedLabel

QUIET_MS = 250
"""After the last keystroke, as an exact count may take longer than one; long texts are counted in a thread."""


class PromptFoot(ElidedLabel):
    """`~312 tok before values   ~$0.0009`; `~` where they are not known exactly."""

    def __init__(
        self,
        engine: Engine,
        agent: Callable[[], AgentSpec | None],
        profile: Callable[[AgentSpec], ModelProfile | None],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.setProperty("role", "muted")
        self.setToolTip(translate("Inspector", "Of both texts, before keys are replaced by their values"))
        self._engine, self._agent, self._profile = engine, agent, profile
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(QUIET_MS)
        self._timer.timeout.connect(self._start)
        self._task: asyncio.Task[None] | None = None
        theme.changed.connect(self._restyle)
        self._restyle()

    def count_soon(self) -> None:
        """Count once nothing was typed for a moment."""
        self._timer.start()

    def _start(self) -> None:
        agent = self._agent()
        if agent is None:
            return
        if self._task is not None:
            self._task.cancel()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._task = loop.create_task(self._count(agent))

    async def _count(self, agent: AgentSpec) -> None:
        profile = self._profile(agent)
        if profile is None:
            self.setText(translate("Inspector", "No profile answers for this model."))
            return
        counted = await self._engine.count_tokens(profile, f"{agent.system_prompt}{agent.template}")
        if agent is not self._agent():
            return
        price = profile.prices.input
        tokens = tokens_text(counted.tokens, counted.approximate)
        text = translate("Inspector", "%1 tok before values").replace("%1", tokens)
        if price is not None:
            provenance = CostProvenance.ESTIMATED if price else CostProvenance.FREE
            text += f"   {cost_text(Decimal(counted.tokens) * price, provenance)}"
        self.setText(text)

    def _restyle(self) -> None:
        self.setFont(theme.font(11))
