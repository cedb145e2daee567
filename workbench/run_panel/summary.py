"""A run as text: what came out, its traces, its figures."""

from PySide6.QtCore import QCoreApplication

from engine.events import Statistics
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import GOOD_STATES
from workbench.text_format import cost_text, rate_text, seconds_text, tokens_text

translate = QCoreApplication.translate


def summary_text(model: RunModel) -> str:
    """Answers, symbol traces and the statistics line, with empty lines between."""
    parts = [_outputs(model), _errors(model), _traces(model), statistics_text(model.statistics())]
    if model.before is not None:
        parts.append(translate("Summary", "Before: %1").replace("%1", statistics_text(model.before)))
    return "\n\n".join(part for part in parts if part)


def _outputs(model: RunModel) -> str:
    if model.outputs:
        texts = []
        for key, values in model.outputs.items():
            joined = "\n\n".join(value if isinstance(value, str) else str(value) for value in values)
            texts.append(f"{key}:\n{joined}")
        return "\n\n".join(texts)
    last = next(reversed(model.steps.values()), None)
    if last is None:
        return ""
    attempts = [branch.attempt for branch in last.branches.values() if branch.state in GOOD_STATES]
    return "\n\n".join(attempt.content.text for attempt in attempts if attempt is not None)


def _errors(model: RunModel) -> str:
    lines = []
    for branch in model.failed_branches():
        place = f"{branch.agent} {branch.index}/{branch.count}" if branch.count > 1 else branch.agent
        lines.append(f"{place}: {branch.error.message if branch.error is not None else ''}")
    return "\n".join(lines)


def _traces(model: RunModel) -> str:
    return "\n".join(result.trace for result in model.results if result.trace)


def statistics_text(done: Statistics) -> str:
    """One line of figures."""
    seconds = done.effective_seconds or done.seconds
    produced = done.out_tokens + done.reasoning_out_tokens
    pairs = [
        (translate("Summary", "Requests"), f"{done.requests:,}"),
        (translate("Summary", "From cache"), f"{done.cached_prompts:,}" if done.cached_prompts else ""),
        (translate("Summary", "Time"), seconds_text(seconds)),
        (translate("Summary", "In"), tokens_text(done.in_tokens, done.estimated)),
        (translate("Summary", "Cached in"), tokens_text(done.cached_in_tokens) if done.cached_in_tokens else ""),
        (translate("Summary", "Out"), tokens_text(done.out_tokens, done.estimated)),
        (translate("Summary", "Reasoning"), tokens_text(done.reasoning_out_tokens, done.estimated)),
        (translate("Summary", "Speed"), rate_text(produced / seconds, done.estimated) if seconds > 0 else ""),
        (translate("Summary", "Cost"), cost_text(done.cost, done.provenance)),
    ]
    return ", ".join(f"{name} {value}" for name, value in pairs if value)
