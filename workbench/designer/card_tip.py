"""What the tip below a card says: what went wrong, else the beginning of the last output."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from engine.errors import Problem
from workbench.designer.agent_run import AgentRun, CardState, FrozenMark
from workbench.text_format import audit_text, stale_text

translate = QCoreApplication.translate


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTip:
    """A head and a text below it."""

    head: str
    text: str
    whole: bool = True
    """Whether the text is shown to its end, or only its beginning."""


def card_tip(run: AgentRun, problem: Problem | None, mark: FrozenMark | None) -> CardTip | None:
    """What there is to say of an agent, None when nothing is; `mark` when it is frozen."""
    if run.reason and run.state in (CardState.FAILED, CardState.WARNING):
        head = translate("card_tip", "Failed") if run.failures else translate("card_tip", "Warning")
        return CardTip(head=head, text=run.reason)
    if run.audit is not None and run.state is CardState.WARNING:
        text = translate("card_tip", "The panel of the run offers what helps.")
        said = audit_text(run.audit)
        return CardTip(head=f"{said[:1].upper()}{said[1:]}", text=text)
    if problem is not None:
        head = translate("card_tip", "Error") if problem.severity == "error" else translate("card_tip", "Warning")
        return CardTip(head=head, text=problem.message)
    if mark is not None and (run.stale or mark.stale):
        reasons = stale_text(mark.stale or run.stale)
        text = translate(
            "card_tip", "%1 since its answer was recorded. The menu of the card thaws it or runs it again."
        )
        return CardTip(
            head=translate("card_tip", "Frozen and stale"),
            text=text.replace("%1", reasons[:1].upper() + reasons[1:]),
        )
    if run.grades and run.explanation:
        return CardTip(head=translate("card_tip", "Last verdict"), text=run.explanation, whole=False)
    if run.output:
        head = ", ".join(part for part in (translate("card_tip", "Last output"), run.output_branch) if part)
        return CardTip(head=head, text=run.output, whole=False)
    return None
