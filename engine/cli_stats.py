"""`workbench stats`: what the dashboard shows, as tables."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

import typer

from engine.cli_input import usage
from engine.cli_options import Json, Options, finish, print_json
from engine.cli_text import DONE
from engine.dashboard_queries import Dashboard, Question, Share
from engine.number_text import cost_text
from engine.run_history import RunHistory
from engine.statistics import CostProvenance


def stats(
    context: typer.Context,
    since: Annotated[
        str | None, typer.Option(metavar="DAY|DAYS", help="From this day on (2026-11-30), or so many days.")
    ] = None,
    flow: Annotated[str, typer.Option(help="Only runs of this flow.")] = "",
    profile: Annotated[str, typer.Option(help="Only requests to this profile.")] = "",
    agent: Annotated[str, typer.Option(help="Only requests of this agent.")] = "",
    as_json: Json = False,
) -> None:
    """Show cost, tokens, speed and failures by day and profile; the last 14 days unless said otherwise."""
    options: Options = context.obj
    question = Question(since=_begin(since or "14"), until=datetime.now(UTC), flow=flow, profile=profile, agent=agent)

    async def show() -> int:
        found = await RunHistory(options.folders.history).dashboard(question)
        if as_json:
            print_json(_document(question, found))
            return DONE
        if not found.shares:
            options.terminal.result("No request is recorded within this time.")
            return DONE
        head = ("DAY", "PROFILE", "CALLS", "FAILED", "REUSED", "IN", "CACHED", "OUT", "THINKING", "COST")
        tail = ("FIRST P50", "P95", "TOK/S P50")
        rows = [(str(day), name, *_cells(share)) for (day, name), share in sorted(found.shares.items())]
        options.terminal.table([head + tail, *rows, ("all", "", *_cells(found.total))])
        return DONE

    finish(show())


def _begin(text: str) -> datetime:
    """Midnight of a day, or of the day so many days ago, the present one counted."""
    try:
        today = datetime.now().astimezone().date()
        day = today - timedelta(days=int(text) - 1) if text.isdecimal() else date.fromisoformat(text)
        return datetime.combine(day, time()).astimezone()
    except (ValueError, OverflowError):
        usage(f'--since: found "{text[:40]}", expected a day as 2026-11-30 or a number of days from 1 on.')


def _cells(share: Share) -> tuple[str, ...]:
    used, answers = share.used, share.answers
    counts = (used.requests, answers.failed, answers.reused, used.in_tokens, used.cached_in_tokens)
    cost = cost_text(used.cost, used.cost_provenance) if used.provenances else ""
    spreads = (answers.first_token.quantile(0.5), answers.first_token.quantile(0.95), answers.speed.quantile(0.5))
    return (
        *map(str, (*counts, used.out_tokens, used.reasoning_out_tokens)),
        cost,
        *("" if value is None else f"~{value:.2g}" if value < 10 else f"~{value:.0f}" for value in spreads),
    )


def _document(question: Question, found: Dashboard) -> dict[str, object]:
    saved = found.saved
    return {
        "since": question.since.isoformat(),
        "days": [{"day": str(day), "profile": name} | _plain(one) for (day, name), one in sorted(found.shares.items())],
        "total": _plain(found.total),
        "saved": {"cost": _money(saved.cost, saved.provenance), "cost_provenance": saved.provenance.value},
    }


def _money(cost: object, provenance: CostProvenance) -> str | None:
    """Exact; nothing known is no 0."""
    return None if provenance is CostProvenance.UNKNOWN and not cost else str(cost)


def _plain(share: Share) -> dict[str, object]:
    used, answers = share.used, share.answers
    known = bool(used.provenances)
    return {
        "requests": used.requests,
        "answered": answers.answered,
        "failed": answers.failed,
        "cut_off": answers.cut_off,
        "reused": answers.reused,
        "in_tokens": used.in_tokens,
        "cached_in_tokens": used.cached_in_tokens,
        "out_tokens": used.out_tokens,
        "reasoning_out_tokens": used.reasoning_out_tokens,
        "cost": _money(used.cost, used.cost_provenance) if known else None,
        "cost_provenance": used.cost_provenance.value if known else None,
        "first_token_p50": answers.first_token.quantile(0.5),
        "first_token_p95": answers.first_token.quantile(0.95),
        "tokens_per_second_p50": answers.speed.quantile(0.5),
        "seconds_p95": answers.seconds.quantile(0.95),
    }
