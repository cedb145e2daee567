"""A recorded run as JSON, Markdown or one HTML page that needs nothing else.

Text of models stays text: it is escaped, and characters that would act or hide are shown. A run holds profile names
only; an export that would contain a known key, or what looks like one, is refused.
"""

import html
import re
from collections.abc import Collection

import msgspec

from engine.errors import StorageError
from engine.events import RunFinished, Statistics
from engine.history_queries import RecordedRun
from engine.number_text import cost_text
from engine.run_story import Attempt, Branch, story

FORMATS = ("json", "md", "html")

KEY_SHAPE = re.compile(
    r"\b(?:sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|xox[abp]-[0-9A-Za-z-]{20,}"
    r"|AIza[0-9A-Za-z_-]{35}|hf_[A-Za-z0-9]{30,})"
)
_ACTING = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u00ad\\u061c\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff\\ud800-\\udfff"
    "\\U000e0000-\\U000e007f]"
)


def export_run(run: RecordedRun, form: str, *, secrets: Collection[str] = ()) -> str:
    """The run in one of `FORMATS`; raises StorageError when it holds one of `secrets` or a key-shaped text."""
    text = {"json": run_json, "md": run_markdown, "html": run_html}[form](run)
    source = run_json(run)
    found = next((secret for secret in secrets if len(secret) >= 8 and secret in source), None)
    if found is not None or KEY_SHAPE.search(source):
        raise StorageError(
            f"The run {run.row.id} was not exported: it holds a text that {'is' if found else 'looks like'} a key.",
            hint="Find it with `workbench runs show`, and take the key out of the prompt it came from.",
        )
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


def visible(text: str) -> str:
    """The text with characters that act on what shows it, or hide, as `⟨U+202E⟩`."""
    return _ACTING.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)


# -- Markdown ---------------------------------------------------------------------------------------------------------


def run_markdown(run: RecordedRun) -> str:
    """A report in Markdown; texts of people and models stand in fences, where they do nothing."""
    lines = [f"# {_inline(run.row.flow)}", "", *(f"- {name}: {_inline(value)}" for name, value in _facts(run)), ""]
    for title, values in (("Inputs", run.inputs), ("Outputs", _ended(run).outputs)):
        if values:
            lines += [f"## {title}", ""]
            for key, value in values.items():
                lines += [f"**{_inline(key)}**", "", *_fence(_joined(value)), ""]
    for result in _ended(run).results:
        lines += ["## Trace", "", *_fence(result.trace_timed), ""]
    for branch in story(run.events):
        lines += [f"## {_inline(_title(branch))}", ""]
        for attempt in branch.attempts:
            lines += [f"*{_inline(_figures(attempt))}*", ""]
            for role, text in attempt.turns:
                lines += [f"{role}:", "", *_fence(text), ""]
            if attempt.reasoning:
                lines += ["thinking:", "", *_fence(attempt.reasoning), ""]
            for tool in attempt.tools:
                lines += [f"tool {_inline(tool.name)}:", "", *_fence(f"{tool.arguments}\n→ {tool.output}"), ""]
            lines += ["answer:", "", *_fence(attempt.content), ""]
        if branch.error is not None:
            lines += [f"**failed:** {_inline(branch.error.message)}", ""]
    return "\n".join(lines)


def _inline(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|!&])", r"\\\1", visible(text).replace("\n", " "))


def _fence(text: str) -> list[str]:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return [f"{mark}text", visible(text), mark]


# -- HTML -------------------------------------------------------------------------------------------------------------

_STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1d1d1f;--dim:#6a6a70;--line:#e3e3e6;--accent:#3257d6;
--good:#1f7a4d;--bad:#b3261e;--soft:#f3f4f7}
@media (prefers-color-scheme:dark){:root{--bg:#16171a;--card:#1f2125;--ink:#e9e9ec;--dim:#9a9aa3;--line:#33353b;
--accent:#8aa4ff;--good:#5fc492;--bad:#ff8a80;--soft:#26282d}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.55 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}h1{font-size:1.7rem;margin:0 0 .3rem;line-height:1.2}
h2{font-size:1.05rem;margin:2.2rem 0 .7rem;color:var(--dim);font-weight:600}
.facts{display:flex;flex-wrap:wrap;gap:.35rem 1.4rem;color:var(--dim);margin:0 0 1rem;padding:0;list-style:none}
.facts b{color:var(--ink);font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;margin:.8rem 0;overflow:hidden}
.card>header{display:flex;flex-wrap:wrap;gap:.2rem .9rem;align-items:baseline;padding:.65rem 1rem;
border-bottom:1px solid var(--line)}.card>header b{font-size:1rem}.dim{color:var(--dim);font-size:.87rem}
details{border-top:1px solid var(--line)}details:first-of-type{border-top:0}
summary{cursor:pointer;padding:.45rem 1rem;color:var(--dim);font-size:.87rem}
pre{margin:0;padding:.75rem 1rem;white-space:pre-wrap;overflow-wrap:anywhere;font:13.5px/1.55 ui-monospace,monospace}
details pre{background:var(--soft);border-top:1px solid var(--line)}.role{padding:.4rem 1rem 0;font-size:.8rem;
color:var(--accent);background:var(--soft)}.role+pre{border:0;padding-top:.2rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}td,th{padding:.4rem .7rem;text-align:right;
border-bottom:1px solid var(--line)}td:first-child,th:first-child{text-align:left}th{color:var(--dim);font-weight:600}
.trace{font:14px/1.8 ui-monospace,monospace;overflow-wrap:anywhere}
@media print{body{background:#fff}main{max-width:none;padding:0}.card{break-inside:avoid-page}details>*{display:block}}
"""


def run_html(run: RecordedRun) -> str:
    """A page that loads nothing, runs nothing, and reads well on paper, in light and in dark."""
    row, ended = run.row, _ended(run)
    tone = "good" if row.status == "finished" else "bad"
    facts = "".join(
        f"<li>{name} <b{f' class={tone}' if name == 'status' else ''}>{_escaped(value)}</b></li>"
        for name, value in _facts(run)
    )
    parts = [f'<h1>{_escaped(row.flow)}</h1><ul class="facts">{facts}</ul>']
    for title, values in (("Outputs", ended.outputs), ("Inputs", run.inputs)):
        if values:
            parts.append(f"<h2>{title}</h2>")
            parts += [_card(key, "", f"<pre>{_escaped(_joined(value))}</pre>") for key, value in values.items()]
    if ended.results:
        parts.append("<h2>Trace</h2>")
        parts += [f'<p class="trace">{_escaped(result.trace_timed)}</p>' for result in ended.results]
    if ended.agents:
        parts += ["<h2>Statistics</h2>", _table(ended)]
    parts.append("<h2>Calls</h2>")
    parts += [_branch_html(branch) for branch in story(run.events)]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_escaped(row.flow)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _escaped(text: str) -> str:
    return html.escape(visible(text))


def _card(title: str, note: str, body: str) -> str:
    return (
        f'<section class="card"><header><b>{_escaped(title)}</b>'
        f'<span class="dim">{_escaped(note)}</span></header>{body}</section>'
    )


def _branch_html(branch: Branch) -> str:
    body: list[str] = []
    notes: list[str] = []
    for attempt in branch.attempts:
        notes.append(_figures(attempt))
        turns = "".join(
            f'<div class="role">{_escaped(role)}</div><pre>{_escaped(text)}</pre>' for role, text in attempt.turns
        )
        if turns:
            body.append(f"<details><summary>Prompt</summary>{turns}</details>")
        if attempt.reasoning:
            body.append(f"<details><summary>Thinking</summary><pre>{_escaped(attempt.reasoning)}</pre></details>")
        for tool in attempt.tools:
            shown = _escaped(f"{tool.arguments}\n→ {tool.output}")
            body.append(f"<details><summary>Tool {_escaped(tool.name)}</summary><pre>{shown}</pre></details>")
        if attempt.content:
            body.append(f"<pre>{_escaped(attempt.content)}</pre>")
    if branch.error is not None:
        body.append(f'<pre class="bad">{_escaped(branch.error.message)}</pre>')
    return _card(_title(branch), "; ".join(notes), "".join(body))


def _table(ended: RunFinished) -> str:
    rows = [*ended.agents.items(), ("Total", ended.statistics)]
    cells = "".join(
        f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in _row(name, one))}</tr>" for name, one in rows
    )
    heads = "".join(f"<th>{head}</th>" for head in ("Agent", "Requests", "Tokens in", "Tokens out", "Seconds", "Cost"))
    return f"<table><tr>{heads}</tr>{cells}</table>"


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
