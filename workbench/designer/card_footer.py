"""The bottom line of a card: the state in words and its figures."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from engine.completion import Phase
from workbench.designer.card_content import CardContent
from workbench.designer.run_overlay import AgentRun, CardState
from workbench.text_format import cost_text, seconds_text, tokens_text, visible_text

translate = QCoreApplication.translate


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """Icon and label on the left, figures on the right; figures are dropped from the end when there is no room."""

    icon: str
    icon_color: str
    label: str
    label_color: str = "text2"
    strong: bool = False
    figures: tuple[str, ...] = ()
    tint: str = "bg.dock"
    progress: float | None = None
    """Share of finished branches while running."""


def card_footer(content: CardContent, run: AgentRun, elapsed: float) -> Footer | None:
    """The footer of a card, None when there is nothing to say."""
    if run.state in _BY_STATE:
        return _BY_STATE[run.state](run, elapsed)
    if content.muted:
        return Footer(icon="mute", icon_color="text2", label=translate("card_footer", "muted"))
    if content.disabled:
        return Footer(icon="bypass", icon_color="text2", label=translate("card_footer", "disabled, passed through"))
    if content.bypassed:
        return Footer(icon="bypass", icon_color="text2", label=translate("card_footer", "bypassed"))
    return None


def _running(run: AgentRun, elapsed: float) -> Footer:
    if run.total > 1:
        label = f"{run.done}/{run.total}"
    else:
        label = _phase_word(run.phase) if run.phase is not None else translate("card_footer", "running")
    live = run.streamed > 0
    figures = [seconds_text(elapsed)]
    if run.live_tokens:
        figures.append(f"{tokens_text(run.live_tokens, live or run.estimated)} t")
    if run.answers:
        cost = cost_text(run.cost, run.provenance)
        figures.append(f"~{cost}" if live and cost.startswith("$") else cost)
    return Footer(
        icon="spinner",
        icon_color="run",
        label=label,
        label_color="run",
        strong=True,
        figures=tuple(figures),
        tint="tint.run",
        progress=run.done / run.total if run.total else 0.0,
    )


def _finished(run: AgentRun, elapsed: float) -> Footer:
    return Footer(icon="ok", icon_color="ok", label=seconds_text(elapsed), figures=_totals(run))


def _warning(run: AgentRun, elapsed: float) -> Footer:
    if run.retries:
        several = translate("card_footer", "%1 retries").replace("%1", str(run.retries))
        label = translate("card_footer", "1 retry") if run.retries == 1 else several
        figures = (seconds_text(elapsed), *_cost(run))
    else:
        label, figures = visible_text(run.reason), ()
    return Footer(
        icon="warning",
        icon_color="warn",
        label=label,
        label_color="warn",
        strong=True,
        figures=figures,
        tint="tint.warn",
    )


def _failed(run: AgentRun, elapsed: float) -> Footer:
    return Footer(
        icon="failed",
        icon_color="err",
        label=visible_text(run.reason) or translate("card_footer", "failed"),
        label_color="err",
        strong=True,
        tint="tint.err",
    )


def _cached(run: AgentRun, elapsed: float) -> Footer:
    return Footer(icon="cached", icon_color="text2", label=translate("card_footer", "cached"), figures=_totals(run))


def _stopped(run: AgentRun, elapsed: float) -> Footer:
    figures = [seconds_text(elapsed)]
    if run.live_tokens:
        figures.append(f"{tokens_text(run.live_tokens, run.streamed > 0 or run.estimated)} t")
    return Footer(
        icon="stop", icon_color="text2", label=translate("card_footer", "stopped"), figures=(*figures, *_cost(run))
    )


def _paused(run: AgentRun, elapsed: float) -> Footer:
    return Footer(icon="pause", icon_color="text", label=translate("card_footer", "paused"), label_color="text")


def _totals(run: AgentRun) -> tuple[str, ...]:
    if not run.answers:
        return ()
    tokens = f"{tokens_text(run.in_tokens, run.estimated)} → {tokens_text(run.out_tokens)}"
    return (tokens, *_cost(run))


def _cost(run: AgentRun) -> tuple[str, ...]:
    return (cost_text(run.cost, run.provenance),) if run.answers else ()


def _phase_word(phase: Phase) -> str:
    words = {
        Phase.QUEUED: translate("card_footer", "queued"),
        Phase.CONNECTING: translate("card_footer", "connecting"),
        Phase.LOADING_MODEL: translate("card_footer", "loading model"),
        Phase.READING_PROMPT: translate("card_footer", "reading prompt"),
        Phase.THINKING: translate("card_footer", "thinking"),
        Phase.ANSWERING: translate("card_footer", "answering"),
    }
    return words[phase]


_BY_STATE = {
    CardState.RUNNING: _running,
    CardState.FINISHED: _finished,
    CardState.WARNING: _warning,
    CardState.FAILED: _failed,
    CardState.CACHED: _cached,
    CardState.STOPPED: _stopped,
    CardState.PAUSED: _paused,
}
