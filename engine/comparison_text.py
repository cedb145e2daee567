"""A comparison of two runs as lines for a terminal, and as a document."""

from collections.abc import Iterator

from engine.history_queries import RunRow
from engine.number_text import cost_text
from engine.run_comparison import Pair, RunComparison, figures
from engine.run_story import Branch


def comparison_lines(compared: RunComparison) -> Iterator[str]:
    """What differs, agent by agent."""
    for mark, row in (("A", compared.first.row), ("B", compared.second.row)):
        yield f"{mark}  {_run(row)}"
    if compared.flow_changed:
        yield "the flow differs"
    if compared.changed_inputs:
        yield f"inputs differ: {', '.join(compared.changed_inputs)}"
    for pair in compared.pairs:
        yield from _pair(pair)
    for key, lines in compared.output_difference.items():
        yield ""
        yield f"output {key}"
        yield from (f"  {line}" for line in lines)


def _run(row: RunRow) -> str:
    seconds = "" if row.seconds is None else f", {row.seconds:.1f} s"
    tokens = f"{row.in_tokens + row.cached_in_tokens} → {row.out_tokens + row.reasoning_out_tokens} tokens"
    return f"{row.id}  {row.flow}  {row.status}, {tokens}{seconds}, {cost_text(row.cost, row.provenance)}"


def _pair(pair: Pair) -> Iterator[str]:
    again = f" pass {pair.visit}" if pair.visit > 1 else ""
    place = f"{pair.agent} {pair.branch}".rstrip() + again
    if pair.first is None or pair.second is None:
        yield f"{place}: only in {'A' if pair.second is None else 'B'}"
        return
    left, right = figures(pair.first), figures(pair.second)
    changed = [
        text for text, holds in (("prompt", pair.prompt_changed), ("answer", bool(pair.answer_difference))) if holds
    ]
    changed += [f"key {key}" for key in pair.changed_keys]
    figure = f"{left.out_tokens} → {right.out_tokens} tokens out, {left.seconds:.1f} → {right.seconds:.1f} s"
    yield f"{place}: {', '.join(changed) if changed else 'same'} ({figure})"
    yield from (f"  {line}" for line in pair.answer_difference)


def comparison_json(compared: RunComparison) -> dict[str, object]:
    """The document of `runs compare --json` (docs/runs.md)."""
    return {
        "runs": [compared.first.row.id, compared.second.row.id],
        "flow_changed": compared.flow_changed,
        "changed_inputs": list(compared.changed_inputs),
        "pairs": [_pair_json(pair) for pair in compared.pairs],
        "output_difference": {key: list(lines) for key, lines in compared.output_difference.items()},
    }


def _pair_json(pair: Pair) -> dict[str, object]:
    return {
        "agent": pair.agent,
        "pass": pair.visit,
        "branch": pair.branch,
        "only_in": 1 if pair.second is None else 2 if pair.first is None else None,
        "prompt_changed": pair.prompt_changed,
        "changed_keys": list(pair.changed_keys),
        "answer_difference": list(pair.answer_difference),
        "figures": [_figures(pair.first), _figures(pair.second)],
    }


def _figures(branch: Branch | None) -> dict[str, object]:
    used = figures(branch)
    return {
        "requests": used.requests,
        "in_tokens": used.in_tokens,
        "out_tokens": used.out_tokens,
        "cost": str(used.cost),
        "seconds": round(used.seconds, 3),
    }
