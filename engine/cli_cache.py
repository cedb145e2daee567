"""`workbench cache`: what is kept, how much, and forgetting it."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from engine.cache import CachedAnswer, CacheInfo
from engine.cli_input import usage
from engine.cli_options import Json, Options, finish, print_json
from engine.cli_text import DONE, Terminal
from engine.engine_settings import EngineSettings
from engine.number_text import cost_text, counted
from engine.sqlite_cache import SqliteCache

SHORT_KEY = 12
"""Characters of a key that are enough to tell answers apart."""

cache_app = typer.Typer(help="Answers kept for later.", no_args_is_help=True)


@cache_app.command("list")
def cache_list(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List the kept answers."""
    options: Options = context.obj

    async def show(cache: SqliteCache) -> int:
        answers = await cache.entries(limit)
        if as_json:
            print_json([_answer_json(answer) for answer in answers])
        else:
            _print_answers(answers, options.terminal)
        return DONE

    finish(_with_cache(options, show))


@cache_app.command("info")
def cache_info(context: typer.Context, as_json: Json = False) -> None:
    """Show how much is kept, and what it saved."""
    options: Options = context.obj

    async def show(cache: SqliteCache) -> int:
        info = await cache.info()
        if as_json:
            print_json(
                {**asdict(info), "saved": float(info.saved), "max_bytes": cache.max_bytes, "file": str(cache.path)}
            )
        else:
            _print_info(info, cache, options.terminal)
        return DONE

    finish(_with_cache(options, show))


@cache_app.command("clear")
def cache_clear(
    context: typer.Context,
    key: Annotated[str | None, typer.Argument(help="The key of one answer, or its beginning; none: all.")] = None,
) -> None:
    """Forget one answer, or all."""
    options: Options = context.obj

    async def clear(cache: SqliteCache) -> int:
        if key is None:
            options.terminal.note(f"{_answers(await cache.clear())} forgotten.")
            return DONE
        found = await cache.keys(key)
        if len(found) != 1:
            usage(f"{key}: found {_answers(len(found))} with this key, expected 1; `workbench cache list` shows them.")
        await cache.delete(found[0])
        options.terminal.note("1 answer forgotten.")
        return DONE

    finish(_with_cache(options, clear))


async def _with_cache(options: Options, work: Callable[[SqliteCache], Awaitable[int]]) -> int:
    settings = EngineSettings.load(options.folders.engine_settings)
    max_bytes = settings.cache_megabytes * 1_000_000
    cache = SqliteCache(options.folders.cache, max_bytes=max_bytes, max_age=settings.max_age)
    try:
        return await work(cache)
    finally:
        await cache.close()


def _answers(count: int) -> str:
    return counted(count, "answer")


def _print_answers(answers: list[CachedAnswer], terminal: Terminal) -> None:
    table = [("KEY", "CREATED", "PROFILE", "MODEL", "TOKENS IN", "OUT", "HITS", "QUESTION")]
    for answer in answers:
        entry = answer.entry
        sign = "~" if entry.estimated else ""
        table.append(
            (
                answer.key[:SHORT_KEY],
                _date(entry.created),
                entry.profile,
                entry.model,
                f"{sign}{entry.in_tokens + entry.cached_in_tokens}",
                f"{sign}{entry.out_tokens + entry.reasoning_out_tokens}",
                str(answer.hits),
                entry.words,
            )
        )
    terminal.table(table)


def _print_info(info: CacheInfo, cache: SqliteCache, terminal: Terminal) -> None:
    terminal.table(
        [
            ("answers", str(info.entries)),
            ("size", f"{info.stored_bytes / 1e6:.1f} of {cache.max_bytes / 1e6:.0f} MB"),
            ("on disk", f"{info.disk_bytes / 1e6:.1f} MB"),
            ("given again", str(info.hits)),
            ("saved", cost_text(info.saved, info.provenance)),
            ("file", str(cache.path)),
        ]
    )


def _answer_json(answer: CachedAnswer) -> dict[str, object]:
    entry = answer.entry
    return {
        "key": answer.key,
        "created": _date(entry.created),
        "profile": entry.profile,
        "model": entry.model,
        "question": entry.words,
        "in_tokens": entry.in_tokens,
        "cached_in_tokens": entry.cached_in_tokens,
        "out_tokens": entry.out_tokens,
        "reasoning_out_tokens": entry.reasoning_out_tokens,
        "hits": answer.hits,
    }


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
