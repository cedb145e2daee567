"""What the banner says about a branch, an agent execution or a run that waits or did not end well."""

from dataclasses import dataclass, replace
from math import ceil

from PySide6.QtCore import QCoreApplication

from engine.completion import FinishReason
from engine.events import ErrorInfo
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import OPEN_STATES, Branch, State, Step
from workbench.text_format import tokens_text
from workbench.widgets.banner import Message

translate = QCoreApplication.translate


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMessage(Message):
    """What the run panel says, and what may help."""

    profile: str = ""
    """The profile that may have to be edited; empty for no such button."""
    retry: bool = False
    """Whether running again may help."""


def branch_message(branch: Branch, now: float) -> RunMessage | None:
    """The trouble of one branch, None when there is none."""
    attempt = branch.attempt
    profile = attempt.profile if attempt is not None else ""
    if branch.error is not None:
        return error_message(branch.error, branch.agent, branch.name if branch.count > 1 else "", profile)
    if attempt is None:
        return None
    if attempt.state in OPEN_STATES:
        return wait_message(branch, now)
    limit = attempt.finish_reason is FinishReason.TOKEN_LIMIT_REACHED
    if attempt.state is State.NO_ANSWER:
        thought, estimated = attempt.reasoning_tokens()
        if thought:
            title = translate("RunPanel", "The answer is empty, but %1 tokens of thinking were spent.")
            title = title.replace("%1", tokens_text(thought, estimated))
        else:
            title = translate("RunPanel", "The model answered nothing.")
        text = translate("RunPanel", "The limit was spent on thinking: raise maxTokens.") if limit and thought else ""
        return RunMessage(kind="warn", title=title, text=text, profile=profile, retry=True)
    if attempt.state is State.CUT_OFF:
        return RunMessage(
            kind="warn",
            title=translate("RunPanel", "The answer was cut off at the token limit."),
            text=translate("RunPanel", "Raise maxTokens in the profile or for this agent."),
            profile=profile,
            retry=True,
        )
    return None


def wait_message(branch: Branch, now: float) -> RunMessage | None:
    """That a request failed and when it is repeated, None unless the branch waits for that."""
    attempt = branch.attempt
    if attempt is None or not attempt.retries:
        return None
    last = attempt.retries[-1]
    left = last.time + last.delay - now
    if left <= 0:
        return None
    text = translate("RunPanel", "Attempt %1 of %2 in %3 s. Stop ends the waiting.")
    for mark, value in (("%1", last.attempt), ("%2", last.attempts), ("%3", ceil(left))):
        text = text.replace(mark, str(value))
    return RunMessage(kind="warn", title=last.reason, text=text, profile=attempt.profile)


def step_message(step: Step, now: float) -> RunMessage | None:
    """The trouble of an agent execution: its first failed branch, with the number of the others; else who waits."""
    failed = step.counts.get(State.FAILED, 0)
    if not failed and not step.troubled:
        return None
    if not failed:
        waiting = (wait_message(branch, now) for branch in step.branches.values() if branch.state in OPEN_STATES)
        return next((message for message in waiting if message is not None), None)
    first = next((one for one in step.branches.values() if one.error is not None), None)
    message = branch_message(first, now) if first is not None else None
    if message is None or step.splits < 2:
        return message
    count = translate("RunPanel", "%1 of %2 branches failed.")
    count = count.replace("%1", str(failed)).replace("%2", str(max(step.splits, len(step.branches))))
    return replace(message, text=f"{message.text} {count}".strip())


def run_message(model: RunModel) -> RunMessage | None:
    """Why a run ended that no branch tells about, else what it warned of."""
    if model.running:
        return None
    if not model.failed_branches():
        for result in model.results:
            if result.error is not None:
                return error_message(result.error, result.error_agent)
    if model.reason:
        return RunMessage(kind="warn", title=model.reason, retry=True)
    if model.warnings:
        first, *others = dict.fromkeys(model.warnings)
        return RunMessage(kind="warn", title=first, details="\n".join(others))
    return None


def error_message(error: ErrorInfo, agent: str = "", branch: str = "", profile: str = "") -> RunMessage:
    """An error in words, with what to do and the facts below."""
    profile = error.facts.get("profile", profile)
    places = (
        (translate("RunPanel", "profile"), profile),
        (translate("RunPanel", "agent"), agent),
        (translate("RunPanel", "branch"), branch),
    )
    place = ", ".join(f"{name} {value}" for name, value in places if value)
    place = f"{place[:1].upper()}{place[1:]}." if place else ""
    facts = "\n".join(f"{name}: {value}" for name, value in error.facts.items() if name != "profile")
    return RunMessage(
        kind="err",
        title=error.message,
        text=" ".join(part for part in (error.hint, place) if part),
        details="\n".join(part for part in (error.name, facts) if part),
        profile=profile,
        retry=True,
    )
