"""A recorded run as JSON, Markdown or one HTML page that needs nothing else.

Text of models stays text: it is escaped, and characters that would act or hide are shown. A run holds profile names
only; an export that would contain a known key, or what looks like one, is refused.
"""

from collections.abc import Collection

import msgspec

from engine.events import RunFinished, Statistics
from engine.export_page import card, escaped, fence, inline, page, refuse_keys, table
from engine.history_queries import RecordedRun
from engine.number_text import cost_text
from engine.run_story import Attempt, Branch, story

FORMATS = ("json", "md", "html")


def export_run(run: RecordedRun, form: str, *, secrets: Collection[str] = ()) -> str:
    """The run in one of `FORMATS`; raises StorageError when it holds one of `secrets` or a key-shaped text."""
    text = {"json": run_json, "md": run_markdown, "html": run_html}[form](run)
    refuse_keys(run_json(run), secrets, f"The run {run.row.id} was not exported")
    return text


def run_json(run: RecordedRun) -> str:
    """Everything recorded, as one JSON document."""
    row = run.row
    document = {
        "format": "workbench.run",
        "version": 1,
        "run": msgspec.to_builtins(row, enc_hook=str),
        "inputs": run.inputs,
        "profiles": run.profiles,
        "flow": msgspec.Raw(run.flow_text.encode()) if run.flow_text else None,
        "branches": [_branch_json(branch) for branch in story(run.events)],
        "results": _ended(run).results if _ended(run) else [],
        "outputs": _ended(run).outputs if _ended(run) else {},
    }
    return msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2).decode()


def _branch_json(branch: Branch) -> dict[str, object]:
    return {
        "agent": branch.agent,
        "step": branch.step,
        "pass": branch.visit,
        "branch": branch.branch,
        "attempts": [msgspec.to_builtins(attempt, enc_hook=str) for attempt in branch.attempts],
        "values": branch.values,
        "error": branch.error,
    }


def _ended(run: RecordedRun) -> RunFinished:
    return next(
        (event for event in reversed(run.events) if isinstance(event, RunFinished)),
        RunFinished(time=0.0, run_id=run.row.id, status=run.row.status),
    )


# -- Markdown ---------------------------------------------------------------------------------------------------------


def run_markdown(run: RecordedRun) -> str:
    """A report in Markdown; texts of people and models stand in fences, where they do nothing."""
    lines = [f"# {inline(run.row.flow)}", "", *(f"- {name}: {inline(value)}" for name, value in _facts(run)), ""]
    for title, values in (("Inputs", run.inputs), ("Outputs", _ended(run).outputs)):
        if values:
            lines += [f"## {title}", ""]
            for key, value in values.items():
                lines += [f"**{inline(key)}**", "", *fence(_joined(value)), ""]
    for result in _ended(run).results:
        lines += ["## Trace", "", *fence(result.trace_timed), ""]
    for branch in story(run.events):
        lines += [f"## {inline(_title(branch))}", ""]
        for attempt in branch.attempts:
            lines += [f"*{inline(_figures(attempt))}*", ""]
            for role, text in attempt.turns:
                lines += [f"{role}:", "", *fence(text), ""]
            if attempt.reasoning:
                lines += ["thinking:", "", *fence(attempt.reasoning), ""]
            for tool in attempt.tools:
                lines += [f"tool {inline(tool.name)}:", "", *fence(f"{tool.arguments}\n→ {tool.output}"), ""]
            lines += ["answer:", "", *fence(attempt.content), ""]
        if branch.error is not None:
            lines += [f"**failed:** {inline(branch.error.message)}", ""]
    return "\n".join(lines)


# -- HTML -------------------------------------------------------------------------------------------------------------


def run_html(run: RecordedRun) -> str:
    """A page that loads nothing, runs nothing, and reads well on paper, in light and in dark."""
    row, ended = run.row, _ended(run)
    tone = "good" if row.status == "finished" else "bad"
    facts = "".join(
        f"<li>{name} <b{f' class={tone}' if name == 'status' else ''}>{escaped(value)}</b></li>"
        for name, value in _facts(run)
    )
    parts = [f'<h1>{escaped(row.flow)}</h1><ul class="facts">{facts}</ul>']
    for title, values in (("Outputs", ended.outputs), ("Inputs", run.inputs)):
        if values:
            parts.append(f"<h2>{title}</h2>")
            parts += [card(key, "", f"<pre>{escaped(_joined(value))}</pre>") for key, value in values.items()]
    if ended.results:
        parts.append("<h2>Trace</h2>")
        parts += [f'<p class="trace">{escaped(result.trace_timed)}</p>' for result in ended.results]
    if ended.agents:
        parts += ["<h2>Statistics</h2>", _table(ended)]
    parts.append("<h2>Calls</h2>")
    parts += [_branch_html(branch) for branch in story(run.events)]
    return page(row.flow, "".join(parts))


def _branch_html(branch: Branch) -> str:
    body: list[str] = []
    notes: list[str] = []
    for attempt in branch.attempts:
        notes.append(_figures(attempt))
        turns = "".join(
            f'<div class="role">{escaped(role)}</div><pre>{escaped(text)}</pre>' for role, text in attempt.turns
        )
        if turns:
            body.append(f"<details><summary>Prompt</summary>{turns}</details>")
        if attempt.reasoning:
            body.append(f"<details><summary>Thinking</summary><pre>{escaped(attempt.reasoning)}</pre></details>")
        for tool in attempt.tools:
            shown = escaped(f"{tool.arguments}\n→ {tool.output}")
            body.append(f"<details><summary>Tool {escaped(tool.name)}</summary><pre>{shown}</pre></details>")
        if attempt.content:
            body.append(f"<pre>{escaped(attempt.content)}</pre>")
    if branch.error is not None:
        body.append(f'<pre class="bad">{escaped(branch.error.message)}</pre>')
    return card(_title(branch), "; ".join(notes), "".join(body))


def _table(ended: RunFinished) -> str:
    rows = [_row(name, one) for name, one in [*ended.agents.items(), ("Total", ended.statistics)]]
    return table(("Agent", "Requests", "Tokens in", "Tokens out", "Seconds", "Cost"), rows)


def _row(name: str, used: Statistics) -> tuple[str, ...]:
    sign = "~" if used.estimated else ""
    return (
        name,
        str(used.requests),
        f"{sign}{used.in_tokens + used.cached_in_tokens}",
        f"{sign}{used.out_tokens + used.reasoning_out_tokens}",
        f"{used.seconds:.1f}",
        cost_text(used.cost, used.provenance),
    )


# -- both -------------------------------------------------------------------------------------------------------------


def _facts(run: RecordedRun) -> list[tuple[str, str]]:
    row = run.row
    facts = [
        ("run", row.id),
        ("status", row.status),
        ("started", row.started.strftime("%Y-%m-%d %H:%M:%S UTC")),
        ("seconds", "" if row.seconds is None else f"{row.seconds:.1f}"),
        ("requests", str(row.requests)),
        ("tokens", f"{row.in_tokens + row.cached_in_tokens} in, {row.out_tokens + row.reasoning_out_tokens} out"),
        ("cost", cost_text(row.cost, row.provenance)),
    ]
    if row.origin:
        facts.append((row.origin, f"of run {row.parent}{', edited' if row.edited else ''}"))
    return [fact for fact in facts if fact[1]]


def _title(branch: Branch) -> str:
    again = f" (pass {branch.visit})" if branch.visit > 1 else ""
    return f"{branch.agent} {branch.branch}".rstrip() + again


def _figures(attempt: Attempt) -> str:
    used = attempt.statistics
    if used is None:
        return f"{attempt.profile}: no answer"
    if attempt.cached:
        return f"{attempt.model or attempt.profile}: from the cache"
    sign = "~" if used.estimated else ""
    tokens = f"{sign}{used.in_tokens + used.cached_in_tokens} → {sign}{used.out_tokens} tokens"
    return (
        f"{attempt.model or attempt.profile}: {used.seconds:.1f} s, {tokens}, {cost_text(used.cost, used.provenance)}"
    )


def _joined(values: list[object]) -> str:
    return "\n\n".join(
        value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode() for value in values
    )
