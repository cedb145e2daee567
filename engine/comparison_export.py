"""Writes a comparison as CSV for spreadsheets, JSONL, Markdown, or one HTML page that needs nothing else."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from engine.atomic_file import written_atomically
from engine.comparison_store import ComparisonStore
from engine.comparison_summary import ComparisonSummary, ProfileFigures
from engine.comparison_values import Cell, CellResult, CompareRow, ComparisonRecord, Mark
from engine.csv_text import Cell as CsvCell
from engine.csv_text import CsvWriter, unique_names
from engine.errors import ComparisonError
from engine.export_page import card, escaped, fence, inline, page, refuse_keys, table
from engine.flow.context import text_of
from engine.number_text import cost_text

FORMATS = (".csv", ".jsonl", ".md", ".html")
SHOWN_INPUT = 2_000
"""Characters of an input in reports for people."""

_HEAD = ("row", "profile", "repeat", "status", "error")
_TAIL = (
    "score", "thumb", "stars", "note", "run_id", "model", "finish", "requests", "in_tokens", "out_tokens",
    "reasoning_tokens", "cost", "cost_provenance", "seconds", "first_token", "out_tps",
)  # fmt: skip
_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def check_output(path: Path) -> None:
    """Raise ComparisonError for a file whose name says no format."""
    if path.suffix.lower() not in FORMATS:
        expected = ", ".join(FORMATS)
        raise ComparisonError(f'{path}: found a file that ends with "{path.suffix}", expected one of {expected}.')


class ComparisonExport:
    """A comparison as it is written; for a thread. Everything raises StorageError."""

    def __init__(
        self,
        store: ComparisonStore,
        record: ComparisonRecord,
        rows: Sequence[CompareRow],
        marks: Mapping[Cell, Mark],
        *,
        secrets: Collection[str] = (),
    ) -> None:
        """Take what was read of a comparison; the cells are read one by one.

        Args:
            secrets: texts that must not get into a file; one that holds such a text, or what looks like a key, is not
                written.
        """
        self._store = store
        self._record = record
        self._rows = {row.row: row for row in rows}
        self._marks = marks
        self._secrets = secrets

    @classmethod
    async def of(
        cls, store: ComparisonStore, comparison_id: str, *, secrets: Collection[str] = ()
    ) -> "ComparisonExport":
        """Read what is needed; raises ComparisonError for an unknown comparison."""
        record = await store.comparison(comparison_id)
        rows, marks = await store.rows(comparison_id), await store.marks(comparison_id)
        return cls(store, record, rows, marks, secrets=secrets)

    def write(self, path: Path, *, exact: bool = False) -> int:
        """Write the committed cells into a file that is whole or not there; how many cells.

        In CSV, texts that a spreadsheet would run as formulas are guarded unless `exact`.
        """
        check_output(path)
        forms: dict[str, Callable[[BinaryIO], int]] = {
            ".csv": lambda file: self._csv(file, exact=exact),
            ".jsonl": self._jsonl,
            ".md": self._markdown,
            ".html": self._html,
        }
        with written_atomically(path) as file:
            return forms[path.suffix.lower()](file)

    def figures(self) -> list[ProfileFigures]:
        """The summary."""
        summary = ComparisonSummary(self._record.job.profiles)
        for result in self._results():
            summary.add(result)
        for cell, mark in self._marks.items():
            summary.mark(cell, mark)
        return summary.figures()

    def _results(self) -> Iterator[CellResult]:
        for result in self._store.each_result(self._record.id):
            refuse_keys(result.content + result.reasoning, self._secrets, "The comparison was not exported")
            yield result

    # -- for programs -------------------------------------------------------------------------------------------------

    def _jsonl(self, file: BinaryIO) -> int:
        count = 0
        for result in self._results():
            file.write(_ENCODER.encode(self._with_row(result)) + b"\n")
            count += 1
        return count

    def _with_row(self, result: CellResult) -> dict[str, object]:
        row = self._rows.get(result.row)
        mark = self._marks.get(result.cell)
        document = cell_json(result)
        document["input"] = row.values if row else {}
        document["mark"] = None if mark is None else msgspec.to_builtins(mark)
        return document

    def _csv(self, file: BinaryIO, *, exact: bool) -> int:
        inputs = list(dict.fromkeys(key for row in self._rows.values() for key in row.values))
        graders = [grader.name for grader in self._record.job.graders]
        own = (*_HEAD, "content", "reasoning", *_TAIL)
        input_names = unique_names(inputs, own, "input.")
        grader_names = unique_names(graders, (*own, *input_names), "grade.")
        writer = CsvWriter(file, exact=exact)
        writer.row([*_HEAD, *input_names, "content", "reasoning", *grader_names, *_TAIL])
        count = 0
        for result in self._results():
            writer.row(self._cells(result, inputs, graders))
            count += 1
        return count

    def _cells(self, result: CellResult, inputs: Sequence[str], graders: Sequence[str]) -> list[CsvCell]:
        used, mark = result.statistics, self._marks.get(result.cell, Mark())
        row = self._rows.get(result.row, CompareRow(row=result.row))
        given = {grade.grader: grade.rating for grade in result.grades}
        return [
            result.row,
            result.profile,
            result.repeat,
            result.status.value,
            "" if result.error is None else result.error.message,
            *(text_of(row.values.get(key, "")) for key in inputs),
            result.content,
            result.reasoning,
            *(_number(given.get(grader)) for grader in graders),
            _number(result.score),
            mark.thumb,
            mark.stars,
            mark.note,
            result.run_id,
            result.model,
            result.finish,
            used.requests,
            used.in_tokens + used.cached_in_tokens,
            used.out_tokens + used.reasoning_out_tokens,
            used.reasoning_out_tokens,
            used.cost,
            used.provenance.value,
            round(used.effective_seconds, 3),
            _number(used.first_token),
            _number(result.out_tps),
        ]

    # -- for people ---------------------------------------------------------------------------------------------------

    def _markdown(self, file: BinaryIO) -> int:
        job = self._record.job
        lines = [f"# {inline(job.title)}", "", *(f"- {inline(fact)}" for fact in self._facts()), ""]
        heads = SUMMARY_HEADS
        lines += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        lines += [f"| {' | '.join(map(inline, summary_row(one)))} |" for one in self.figures()]
        file.write("\n".join([*lines, "", ""]).encode())
        count = 0
        for number, results in groupby(self._results(), attrgetter("row")):
            part = [f"## Row {number}", ""]
            for key, value in self._inputs(number):
                part += [f"**{inline(key)}**", "", *fence(value), ""]
            for result in results:
                count += 1
                part += [f"### {inline(_cell_title(result))}", "", f"*{inline(_cell_note(result))}*", ""]
                part += fence(_shown(result))
                part += ["", *(f"- {inline(text)}" for text in self._verdicts(result)), ""]
            file.write("\n".join([*part, ""]).encode("utf-8", "replace"))
        return count

    def _html(self, file: BinaryIO) -> int:
        facts = "".join(f"<li>{escaped(fact)}</li>" for fact in self._facts())
        body = [f'<h1>{escaped(self._record.job.title)}</h1><ul class="facts">{facts}</ul>']
        body.append(table(SUMMARY_HEADS, map(summary_row, self.figures())))
        count = 0
        for number, results in groupby(self._results(), attrgetter("row")):
            body.append(f"<h2>Row {number}</h2>")
            body += [card(key, "", f"<pre>{escaped(value)}</pre>") for key, value in self._inputs(number)]
            for result in results:
                count += 1
                body.append(card(_cell_title(result), _cell_note(result), self._cell_html(result)))
        file.write(page(self._record.job.title, "".join(body)).encode("utf-8", "replace"))
        return count

    def _cell_html(self, result: CellResult) -> str:
        parts = []
        if result.reasoning:
            parts.append(f"<details><summary>Thinking</summary><pre>{escaped(result.reasoning)}</pre></details>")
        tone = ' class="bad"' if result.error is not None and not result.content else ""
        parts.append(f"<pre{tone}>{escaped(_shown(result))}</pre>")
        verdicts = "\n".join(self._verdicts(result))
        if verdicts:
            parts.append(f"<details><summary>Grades</summary><pre>{escaped(verdicts)}</pre></details>")
        return "".join(parts)

    def _facts(self) -> list[str]:
        record, job = self._record, self._record.job
        facts = [
            f"started {record.started.strftime('%Y-%m-%d %H:%M UTC')}",
            f"{record.status}, {record.done} of {record.cells} cells",
            f"{record.rows} rows, {len(job.profiles)} profiles, {job.repeats} repeats",
        ]
        if job.dataset:
            facts.append(f"dataset {Path(job.dataset).name}")
        return facts

    def _inputs(self, number: int) -> list[tuple[str, str]]:
        row = self._rows.get(number)
        texts = [(key, text_of(value)) for key, value in (row.values.items() if row else ())]
        return [(key, text if len(text) <= SHOWN_INPUT else f"{text[:SHOWN_INPUT]}…") for key, text in texts]

    def _verdicts(self, result: CellResult) -> list[str]:
        texts = []
        for grade in result.grades:
            rating = "" if grade.rating is None else f" {grade.rating:g}"
            explanation = f": {grade.explanation}" if grade.explanation else ""
            texts.append(f"{grade.grader}: {grade.outcome.value}{rating}{explanation}")
        mark = self._marks.get(result.cell)
        if mark is not None:
            texts.append(mark_text(mark))
        return texts


SUMMARY_HEADS = ("Profile", "Score", "Answered", "Errors", "Cost", "p50 s", "p95 s", "First token s", "Tokens/s")


def summary_row(figures: ProfileFigures) -> tuple[str, ...]:
    """The figures of a profile as texts below SUMMARY_HEADS; what was not measured is a dash."""
    return (
        figures.name,
        _figure(figures.score, ".0f"),
        f"{figures.answered}/{figures.cells}",
        str(figures.errors),
        cost_text(figures.cost, figures.provenance),
        _figure(figures.latency_p50, ".1f"),
        _figure(figures.latency_p95, ".1f"),
        _figure(figures.first_token_p50, ".2f"),
        _figure(figures.out_tps, ".0f"),
    )


def profile_json(figures: ProfileFigures) -> dict[str, object]:
    """The figures of a profile as `compare --json` prints them."""
    return {
        "name": figures.name,
        "score": figures.score,
        "cost": float(figures.cost),
        "cost_provenance": figures.provenance.value,
        "latency_p50": figures.latency_p50,
        "latency_p95": figures.latency_p95,
        "first_token_p50": figures.first_token_p50,
        "out_tps": figures.out_tps,
        "errors": figures.errors,
        "answered": figures.answered,
        "no_answer": figures.no_answer,
        "cut_off": figures.cut_off,
        "cells": figures.cells,
        "in_tokens": figures.in_tokens,
        "out_tokens": figures.out_tokens,
        "reasoning_out_tokens": figures.reasoning_tokens,
        "grades": dict(figures.by_grader),
        "thumbs": figures.thumbs,
        "stars": figures.stars,
    }


def cell_json(result: CellResult) -> dict[str, object]:
    """A cell as `compare --json` and JSONL files have it."""
    used = result.statistics
    return {
        "row": result.row,
        "profile": result.profile,
        "repeat": result.repeat,
        "status": result.status.value,
        "content": result.content,
        "reasoning": result.reasoning,
        "error": None if result.error is None else {"type": result.error.type, "message": result.error.message},
        "score": result.score,
        "grades": [
            {
                "grader": grade.grader,
                "outcome": grade.outcome.value,
                "rating": grade.rating,
                "explanation": grade.explanation,
            }
            for grade in result.grades
        ],
        "run_id": result.run_id,
        "model": result.model,
        "finish": result.finish,
        "prompt": result.prompt,
        "statistics": {
            "requests": used.requests,
            "cached_prompts": used.cached_prompts,
            "in_tokens": used.in_tokens,
            "cached_in_tokens": used.cached_in_tokens,
            "out_tokens": used.out_tokens,
            "reasoning_out_tokens": used.reasoning_out_tokens,
            "cost": float(used.cost),
            "cost_provenance": used.provenance.value,
            "seconds": round(used.effective_seconds, 3),
            "first_token": used.first_token,
            "out_tps": result.out_tps,
        },
    }


def mark_text(mark: Mark) -> str:
    """What a person said: `👍 ★★★ note`."""
    thumb = {1: "👍", -1: "👎"}.get(mark.thumb, "")
    return " ".join(part for part in (thumb, "★" * mark.stars, mark.note) if part)


def _cell_title(result: CellResult) -> str:
    return result.profile if result.repeat == 1 else f"{result.profile}, repeat {result.repeat}"


def _cell_note(result: CellResult) -> str:
    used = result.statistics
    parts = [result.status.value.replace("_", " ")]
    if result.score is not None:
        parts.append(f"score {result.score:.0f}")
    if used.cached_prompts and not used.requests:
        parts.append("from the cache")
    elif used.requests:
        sign = "~" if used.estimated else ""
        tokens = used.out_tokens + used.reasoning_out_tokens
        parts.append(f"{used.effective_seconds:.1f} s, {sign}{tokens} tokens, {cost_text(used.cost, used.provenance)}")
    return ", ".join(parts)


def _shown(result: CellResult) -> str:
    return result.content or (result.error.message if result.error else "")


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _number(value: float | None) -> float | str:
    return "" if value is None else round(value, 3)
