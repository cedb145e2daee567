"""The symbol trace as entries: read from its text, or put together while the run goes on; each entry explained."""

import re
from dataclasses import dataclass, replace

from PySide6.QtCore import QCoreApplication

from engine.events import Graded
from engine.flow import trace
from engine.flow.trace import Kind
from workbench.run_panel.labels import GRADE_LOOKS, grade_sentence
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import State, Step, grade_outcome
from workbench.text_format import seconds_text

translate = QCoreApplication.translate

_SINGLE = {
    trace.WALK: Kind.WALK,
    trace.SKIPPED: Kind.SKIPPED,
    trace.TOKEN_LIMIT: Kind.FINISH,
    trace.FILTERED: Kind.FINISH,
    trace.TOOL_CALLS: Kind.FINISH,
    trace.ERROR: Kind.FINISH,
    trace.RETRY: Kind.RETRY,
    trace.FATAL: Kind.FATAL,
    trace.FROZEN: Kind.FINISH,
    trace.PASSED: Kind.GRADE,
    trace.FAILED: Kind.GRADE,
    trace.COMPLETION: Kind.NEXT,
    trace.NEW_CONVERSATION: Kind.NEXT,
    trace.CONVERSATION: Kind.NEXT,
}
_SPLIT = re.compile(r"⇉ (\d+)/(\d+)")
_MERGE = re.compile(r"(\d+)↣(\d+)")
_DURATION = re.compile(r"\((\d+) ms\)")

ICONS = {
    trace.TOKEN_LIMIT: ("cut-off", "warn"),
    trace.FILTERED: ("error", "err"),
    trace.TOOL_CALLS: ("tool", "text2"),
    trace.ERROR: ("cross", "err"),
    trace.RETRY: ("warning", "warn"),
    trace.FATAL: ("failed", "err"),
    trace.FROZEN: ("frozen", "ice"),
    trace.PASSED: ("check", "ok"),
    trace.FAILED: ("cross", "err"),
    trace.COMPLETION: ("arrow-next", "text2"),
    trace.NEW_CONVERSATION: ("chat", "text2"),
    trace.CONVERSATION: ("continue", "text2"),
    trace.WALK: ("pause", "text2"),
    trace.SKIPPED: ("bypass", "text2"),
}
"""Symbol → (icon, colour token): many system fonts lack the symbols."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a trace."""

    kind: Kind
    text: str
    agent: str = ""
    """The agent the entry belongs to."""
    grade: Graded | None = None
    """Of a ✓ or ✗, what the grader made of the answer."""

    @property
    def shown(self) -> str:
        """Text to paint; empty where an icon stands for it."""
        if self.kind is Kind.DURATION:
            found = _DURATION.fullmatch(self.text)
            return seconds_text(int(found.group(1)) / 1000) if found else self.text
        if self.kind is Kind.SPLIT:
            return self.text.removeprefix("⇉ ")
        if self.kind is Kind.MERGE:
            return self.text.replace("↣", " → ")
        return self.text if self.kind in (Kind.CATEGORY, Kind.AGENT) else ""

    @property
    def icon(self) -> tuple[str, str] | None:
        """Icon and colour token, None for plain text."""
        if self.kind is Kind.SPLIT:
            return ("split", "accent")
        if self.kind is Kind.MERGE:
            return ("merge", "text2")
        if self.grade is not None:
            return GRADE_LOOKS[grade_outcome(self.grade)]
        return ICONS.get(self.text) if self.kind not in (Kind.CATEGORY, Kind.AGENT) else None

    def explanation(self) -> str:
        """What the entry means, in a sentence."""
        if self.kind is Kind.SPLIT and (found := _SPLIT.fullmatch(self.text)):
            text = translate(
                "Trace", "Branch %1 of %2: the template was split by a list, every element ran on its own."
            )
            return text.replace("%1", found.group(1)).replace("%2", found.group(2))
        if self.kind is Kind.MERGE and (found := _MERGE.fullmatch(self.text)):
            text = translate("Trace", "Merge: %1 branches became %2.")
            return text.replace("%1", found.group(1)).replace("%2", found.group(2))
        if self.kind is Kind.CATEGORY:
            return translate("Trace", "Model category or profile %1 was asked.").replace("%1", self.text)
        if self.kind is Kind.AGENT:
            return translate("Trace", "Agent %1.").replace("%1", self.text)
        if self.kind is Kind.DURATION:
            return translate("Trace", "The request took %1.").replace("%1", self.shown)
        if self.grade is not None:
            return translate("Trace", "Graded: %1").replace("%1", grade_sentence(self.grade))
        return _explanations().get(self.text, self.text)


def _explanations() -> dict[str, str]:
    return {
        trace.WALK: translate("Trace", "A further walk on the same context."),
        trace.SKIPPED: translate("Trace", "No model was asked in this step."),
        trace.TOKEN_LIMIT: translate("Trace", "The answer was cut off at the token limit."),
        trace.FILTERED: translate("Trace", "A content filter stopped the answer."),
        trace.TOOL_CALLS: translate("Trace", "The model called tools."),
        trace.ERROR: translate("Trace", "The model ended with an error."),
        trace.RETRY: translate("Trace", "The handler could not use the answer."),
        trace.FATAL: translate("Trace", "The step was given up."),
        trace.FROZEN: translate("Trace", "The agent is frozen: its recorded answer was used, no model was asked."),
        trace.PASSED: translate("Trace", "Graded: passed."),
        trace.FAILED: translate("Trace", "Graded: not passed."),
        trace.COMPLETION: translate("Trace", "On to the next agent, without the conversation."),
        trace.NEW_CONVERSATION: translate("Trace", "On to the next agent, which starts a new conversation."),
        trace.CONVERSATION: translate("Trace", "On to the next agent, in the same conversation."),
    }


def parse_trace(text: str) -> list[Entry]:
    """The entries of a trace's text."""
    entries: list[Entry] = []
    agent = ""
    for part in text.split(", ") if text else []:
        after = entries[-1].kind if entries else None
        if after in (Kind.CATEGORY, Kind.SKIPPED):
            kind, agent = Kind.AGENT, part
        elif part in _SINGLE:
            kind = _SINGLE[part]
        elif _SPLIT.fullmatch(part):
            kind = Kind.SPLIT
        elif _MERGE.fullmatch(part):
            kind = Kind.MERGE
        elif _DURATION.fullmatch(part):
            kind = Kind.DURATION
        else:
            kind = Kind.CATEGORY
        entries.append(Entry(kind, part, agent))
    return entries


def with_grades(entries: list[Entry], model: RunModel) -> list[Entry]:
    """The entries of a result's trace, each ✓ and ✗ with the grade it stands for, as far as that is certain."""
    if all(entry.kind is not Kind.GRADE for entry in entries):
        return entries
    path: list[str] = []
    taken: dict[tuple[str, str], int] = {}
    told = []
    for entry in entries:
        if entry.kind is Kind.SPLIT:
            path.append(entry.text.removeprefix("⇉ "))
        elif entry.kind is Kind.MERGE:
            outputs = entry.text.partition("↣")[2]
            path = path[:-1] if outputs == "1" else [*path[:-1], "?"]
        elif entry.kind is Kind.GRADE:
            place = (entry.agent, ".".join(path))
            number = taken[place] = taken.get(place, -1) + 1
            grades = model.grades_of(*place)
            # A branch that stopped before the end of the run has fewer marks than grades; never more.
            entry = replace(entry, grade=grades[number] if number < len(grades) else None)
        told.append(entry)
    return told


def trace_text(entries: list[Entry], *, timed: bool = True) -> str:
    """The entries as text, with the symbols."""
    return ", ".join(entry.text for entry in entries if timed or entry.kind is not Kind.DURATION)


def live_trace(model: RunModel) -> list[Entry]:
    """What can be told of the trace while the run goes on: the executions so far, one after the other."""
    entries: list[Entry] = []
    for step in model.steps.values():
        if entries:
            entries.append(Entry(Kind.NEXT, trace.COMPLETION, step.agent))
        entries.extend(_live_step(step))
    return entries


def _live_step(step: Step) -> list[Entry]:
    entries = []
    branches = list(step.branches.values())
    count = max(step.splits, len(branches))
    if count > 1:
        entries.append(Entry(Kind.SPLIT, f"⇉ {step.done_count}/{count}", step.agent))
    kind, text = (Kind.CATEGORY, step.category) if step.category else (Kind.SKIPPED, trace.SKIPPED)
    entries.append(Entry(kind, text, step.agent))
    entries.append(Entry(Kind.AGENT, step.agent, step.agent))
    for branch in branches:
        for attempt in branch.attempts:
            if count == 1 and attempt.statistics is not None and not attempt.cached:
                entries.append(Entry(Kind.DURATION, f"({attempt.statistics.seconds * 1000:.0f} ms)", step.agent))
            if attempt.frozen_from:
                entries.append(Entry(Kind.FINISH, trace.FROZEN, step.agent))
            if attempt.state is State.CUT_OFF:
                entries.append(Entry(Kind.FINISH, trace.TOKEN_LIMIT, step.agent))
            if attempt.state is State.REJECTED:
                entries.append(Entry(Kind.RETRY, trace.RETRY, step.agent))
        if branch.error is not None and branch.error.type == "PARSING":
            entries.append(Entry(Kind.FATAL, trace.FATAL, step.agent))
        if (grade := branch.grade) is not None:
            text = trace.PASSED if grade.passed else trace.FAILED
            entries.append(Entry(Kind.GRADE, text, step.agent, grade))
    if step.merged is not None:
        entries.append(Entry(Kind.MERGE, f"{step.merged[0]}↣{step.merged[1]}", step.agent))
    return entries
