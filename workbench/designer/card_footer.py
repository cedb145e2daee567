"""The bottom line of a card: the state in words and its figures."""

from dataclasses import dataclass, replace
from decimal import Decimal

from PySide6.QtCore import QCoreApplication

from engine.completion import Phase
from engine.events import GradeOutcome
from engine.number_text import money_text
from workbench.designer.agent_run import AgentRun, CardState, FrozenMark
from workbench.designer.card_content import CardContent
from workbench.text_format import (
    audit_text,
    calls_text,
    cost_text,
    planned_cost_text,
    seconds_text,
    stale_text,
    tokens_text,
    visible_text,
    when_text,
)

translate = QCoreApplication.translate

ZERO = Decimal(0)


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


def card_footer(content: CardContent, run: AgentRun, elapsed: float, mark: FrozenMark | None = None) -> Footer | None:
    """The footer of a card, None when there is nothing to say; `mark` when its agent is frozen."""
    if run.state in _BY_STATE:
        footer = _BY_STATE[run.state](run, elapsed)
        if footer is None or run.passes < 2:
            return footer
        return replace(footer, label=f"{run.own_pass}/{run.passes} · {footer.label}")
    if mark is not None:
        return _marked(mark)
    if content.muted:
        return Footer(icon="mute", icon_color="text2", label=translate("card_footer", "muted"))
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


def _graded(run: AgentRun, elapsed: float) -> Footer:
    """Of a grader: its last verdict, which may be that there is none."""
    outcome = next(reversed(run.grades))
    icon, color = _GRADES[outcome]
    label = _grade_word(outcome)
    if len(run.grades) == 1 and run.grades[outcome] > 1:
        label = f"{run.grades[outcome]} {label}"
    if run.rating is not None and sum(run.grades.values()) == 1:
        label = f"{label} {run.rating:g}"
    elif len(run.grades) > 1:
        order = (one for one in GradeOutcome if one in run.grades)
        label = ", ".join(f"{run.grades[one]} {_grade_word(one)}" for one in order)
    return Footer(
        icon=icon,
        icon_color=color,
        label=label,
        label_color=color,
        strong=True,
        figures=(seconds_text(elapsed), *_cost(run)),
    )


def _grade_word(outcome: GradeOutcome) -> str:
    words = {
        GradeOutcome.PASSED: translate("card_footer", "passed"),
        GradeOutcome.FAILED: translate("card_footer", "failed"),
        GradeOutcome.UNPARSABLE: translate("card_footer", "unparsable"),
        GradeOutcome.UNANSWERED: translate("card_footer", "unanswered"),
    }
    return words[outcome]


def _finished(run: AgentRun, elapsed: float) -> Footer:
    if run.grades:
        return _graded(run, elapsed)
    return Footer(icon="ok", icon_color="ok", label=seconds_text(elapsed), figures=_totals(run))


def _warning(run: AgentRun, elapsed: float) -> Footer:
    if run.retries:
        several = translate("card_footer", "%1 retries").replace("%1", str(run.retries))
        label = translate("card_footer", "1 retry") if run.retries == 1 else several
        figures = (seconds_text(elapsed), *_cost(run))
    elif run.audit is not None and not run.reason:
        label, figures = audit_text(run.audit), ()
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
    reason = visible_text(run.reason)
    outcome = next(reversed(run.grades), None)
    if outcome in (GradeOutcome.UNPARSABLE, GradeOutcome.UNANSWERED):
        # That there is no verdict must not look like a bad one.
        reason = f"{_grade_word(outcome)}: {reason}" if reason else _grade_word(outcome)
    return Footer(
        icon="failed",
        icon_color="err",
        label=reason or translate("card_footer", "failed"),
        label_color="err",
        strong=True,
        tint="tint.err",
    )


def _cached(run: AgentRun, elapsed: float) -> Footer:
    tokens = _totals(run)[:1]
    # Nothing was paid, whatever the model costs: that is not the same as a free model.
    return Footer(
        icon="cached", icon_color="text2", label=translate("card_footer", "cached"), figures=(*tokens, money_text(ZERO))
    )


def _marked(mark: FrozenMark) -> Footer:
    """Of a frozen agent that has not run."""
    if mark.stale:
        return _stale_footer(mark.stale, ())
    since = when_text(mark.since) if mark.since else ""
    word = translate("card_footer", "frozen")
    return Footer(icon="frozen", icon_color="ice", label=word, label_color="ice", figures=(since,) if since else ())


def _frozen(run: AgentRun, elapsed: float) -> Footer:
    word = translate("card_footer", "frozen")
    return Footer(icon="frozen", icon_color="ice", label=word, label_color="ice", figures=_kept(run), tint="tint.ice")


def _stale(run: AgentRun, elapsed: float) -> Footer:
    return _stale_footer(run.stale, _kept(run))


def _stale_footer(reasons: tuple[str, ...], figures: tuple[str, ...]) -> Footer:
    word = translate("card_footer", "stale: %1").replace("%1", stale_text(reasons))
    return Footer(
        icon="stale", icon_color="warn", label=word, label_color="warn", strong=True, figures=figures, tint="tint.warn"
    )


def _kept(run: AgentRun) -> tuple[str, ...]:
    """The figures of answers that nobody paid for."""
    return (money_text(ZERO),)


def _stopped(run: AgentRun, elapsed: float) -> Footer:
    figures = [seconds_text(elapsed)]
    if run.live_tokens:
        figures.append(f"{tokens_text(run.live_tokens, run.streamed > 0 or run.estimated)} t")
    return Footer(
        icon="stop", icon_color="text2", label=translate("card_footer", "stopped"), figures=(*figures, *_cost(run))
    )


def _paused(run: AgentRun, elapsed: float) -> Footer:
    return Footer(icon="pause", icon_color="text", label=translate("card_footer", "paused"), label_color="text")


def _planned(run: AgentRun, elapsed: float) -> Footer | None:
    planned = run.planned
    if planned is None or not (planned.calls or planned.more):
        return None
    return Footer(
        icon="cost",
        icon_color="text2",
        label=calls_text(planned),
        figures=(planned_cost_text(planned),),
        tint="tint.accent",
    )


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


_GRADES = {
    GradeOutcome.PASSED: ("check", "ok"),
    GradeOutcome.FAILED: ("cross", "err"),
    GradeOutcome.UNPARSABLE: ("warning", "warn"),
    GradeOutcome.UNANSWERED: ("chat", "warn"),
}
"""What a grader made of an answer → (icon, colour token)."""

_BY_STATE = {
    CardState.PLANNED: _planned,
    CardState.RUNNING: _running,
    CardState.FINISHED: _finished,
    CardState.WARNING: _warning,
    CardState.FAILED: _failed,
    CardState.CACHED: _cached,
    CardState.FROZEN: _frozen,
    CardState.STALE: _stale,
    CardState.STOPPED: _stopped,
    CardState.PAUSED: _paused,
}
