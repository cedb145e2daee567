"""What the banner says about a branch, an agent execution or a run that did not end well."""

from PySide6.QtCore import QCoreApplication

from engine.completion import FinishReason
from engine.events import ErrorInfo
from workbench.run_panel.banner import Message
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import Branch, State, Step
from workbench.text_format import tokens_text

translate = QCoreApplication.translate


def branch_message(branch: Branch) -> Message | None:
    """The trouble of one branch, None when there is none."""
    attempt = branch.attempt
    profile = attempt.profile if attempt is not None else ""
    if branch.error is not None:
        return error_message(branch.error, branch.agent, branch.name if branch.count > 1 else "", profile)
    if attempt is None:
        return None
    limit = attempt.finish_reason is FinishReason.TOKEN_LIMIT_REACHED
    if attempt.state is State.NO_ANSWER:
        thought, estimated = attempt.reasoning_tokens()
        if thought:
            title = translate("RunPanel", "The answer is empty, but %1 tokens of thinking were spent.")
            title = title.replace("%1", tokens_text(thought, estimated))
        else:
            title = translate("RunPanel", "The model answered nothing.")
        text = translate("RunPanel", "The limit was spent on thinking: raise maxTokens.") if limit and thought else ""
        return Message(kind="warn", title=title, text=text, profile=profile, retry=True)
    if attempt.state is State.CUT_OFF:
        return Message(
            kind="warn",
            title=translate("RunPanel", "The answer was cut off at the token limit."),
            text=translate("RunPanel", "Raise maxTokens in the profile or for this agent."),
            profile=profile,
            retry=True,
        )
    return None


def step_message(step: Step) -> Message | None:
    """The trouble of an agent execution: its first failed branch, with the number of the others."""
    failed = [branch for branch in step.branches.values() if branch.error is not None]
    if not failed:
        return None
    message = branch_message(failed[0])
    if message is None or step.splits < 2:
        return message
    count = translate("RunPanel", "%1 of %2 branches failed.")
    count = count.replace("%1", str(len(failed))).replace("%2", str(max(step.splits, len(step.branches))))
    return Message(
        kind=message.kind,
        title=message.title,
        text=f"{message.text} {count}".strip(),
        details=message.details,
        profile=message.profile,
        retry=message.retry,
    )


def run_message(model: RunModel) -> Message | None:
    """Why a run ended that no branch tells about."""
    if model.running:
        return None
    if not model.failed_branches():
        for result in model.results:
            if result.error is not None:
                return error_message(result.error, result.error_agent)
    if model.reason:
        return Message(kind="warn", title=model.reason, retry=True)
    return None


def error_message(error: ErrorInfo, agent: str = "", branch: str = "", profile: str = "") -> Message:
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
    return Message(
        kind="err",
        title=error.message,
        text=" ".join(part for part in (error.hint, place) if part),
        details="\n".join(part for part in (error.name, facts) if part),
        profile=profile,
        retry=True,
    )
