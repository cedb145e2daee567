"""What the banner says about a branch, an agent execution or a run that waits or did not end well."""

from dataclasses import dataclass, replace
from math import ceil

from PySide6.QtCore import QCoreApplication

from engine.completion import FinishReason, ReasoningAudit
from engine.events import ErrorInfo, GradeOutcome, StopProof
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import OPEN_STATES, Attempt, Branch, State, Step, grade_outcome
from workbench.text_format import seconds_text, stale_text, tokens_text
from workbench.token_estimate import CHARACTERS_PER_TOKEN
from workbench.widgets.banner import Message

translate = QCoreApplication.translate

LEAST_SENT = 4000
"""Characters of a prompt from which its tokens are compared: in short ones there is nothing to cut off."""
MOST_CHARACTERS = 8
"""Characters a token of the longest words stands for; with more of them a token, text must be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMessage(Message):
    """What the run panel says, and what may help."""

    profile: str = ""
    """The profile that may have to be edited; empty for no such button."""
    retry: bool = False
    """Whether running again may help."""
    fresh: bool = False
    """Whether to offer a run that asks everything anew."""
    paused: bool = False
    """Whether the run waits at a breakpoint: step, go on, edit the context."""
    audited: Attempt | None = None
    """The attempt whose thinking may be taken as its answer."""
    limited: bool = False
    """Whether a higher limit of tokens may help."""
    frozen: str = ""
    """The frozen agent that may be thawed or run again; empty for no such buttons."""


def branch_message(branch: Branch, now: float) -> RunMessage | None:
    """The trouble of one branch, None when there is none."""
    attempt = branch.attempt
    profile = attempt.profile if attempt is not None else ""
    if branch.error is not None:
        said = error_message(branch.error, branch.agent, branch.name if branch.count > 1 else "", profile)
        return said if attempt is None else _audited(said, attempt)
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
        if attempt.audit is ReasoningAudit.ANSWER_INSIDE:
            text = translate("RunPanel", "A part of the thinking says it is the answer.")
        return _audited(RunMessage(kind="warn", title=title, text=text, profile=profile, retry=True), attempt)
    if attempt.state is State.CUT_OFF:
        title = translate("RunPanel", "The answer was cut off at the token limit.")
        if attempt.audit is ReasoningAudit.LIMIT_SPENT:
            title = translate("RunPanel", "The answer was cut off: most of the token limit was spent on thinking.")
        text = translate("RunPanel", "Raise maxTokens in the profile or for this agent.")
        return _audited(RunMessage(kind="warn", title=title, text=text, profile=profile, retry=True), attempt)
    if attempt.from_thinking:
        title = translate("RunPanel", "This is no answer of the model: its thinking was taken as the answer.")
        return RunMessage(kind="accent", title=title, icon="reasoning")
    message = stop_message(attempt) or truncation_message(attempt) or grade_message(branch)
    if message is not None:
        return message
    return frozen_message(branch.agent, attempt)


def _audited(message: RunMessage, attempt: Attempt) -> RunMessage:
    """With what helps when thinking took the place of the answer, or the limit was too low."""
    limited = attempt.finish_reason is FinishReason.TOKEN_LIMIT_REACHED
    return replace(message, audited=attempt if attempt.audit is not None else None, limited=limited)


def stop_message(attempt: Attempt) -> RunMessage | None:
    """That the server works on although the call was stopped, None unless it said so."""
    told = attempt.proof
    if told is None or told.proof is not StopProof.WORKING:
        return None
    title = translate(
        "RunPanel", "The call was stopped, but its server still works: %1 of %2 slots were busy after %3."
    )
    for mark, value in (("%1", str(told.busy)), ("%2", str(told.slots)), ("%3", seconds_text(told.seconds))):
        title = title.replace(mark, value)
    text = translate("RunPanel", "Perhaps for somebody else. If not, it does not see that the connection was closed.")
    return RunMessage(kind="warn", title=title, text=text, profile=attempt.profile)


def truncation_message(attempt: Attempt) -> RunMessage | None:
    """That the server read clearly fewer tokens than were sent, None when it did not, or did not count itself."""
    used = attempt.statistics
    if used is None or used.estimated or attempt.cached or attempt.frozen_from:
        return None
    read = used.in_tokens + used.cached_in_tokens
    sent = len(attempt.raw) or sum(len(text) for _, text in attempt.turns)
    if not read or sent < LEAST_SENT or read * MOST_CHARACTERS > sent:
        return None
    title = translate(
        "RunPanel", "The server read %1 tokens only, but about %2 were sent: part of the prompt was cut off."
    )
    title = title.replace("%1", tokens_text(read)).replace("%2", tokens_text(sent // CHARACTERS_PER_TOKEN, True))
    text = translate("RunPanel", "Give the server a longer context, or the profile a limit that fits it.")
    return RunMessage(kind="warn", title=title, text=text, icon="cut-off", profile=attempt.profile)


def grade_message(branch: Branch) -> RunMessage | None:
    """That a grader gave no verdict, which is neither good nor bad, None unless it is so."""
    titles = {
        GradeOutcome.UNPARSABLE: translate("RunPanel", "%1 answered, but gave no verdict that can be read."),
        GradeOutcome.UNANSWERED: translate("RunPanel", "%1 gave no verdict: it did not answer."),
    }
    grade = branch.grade
    title = titles.get(grade_outcome(grade)) if grade is not None else None
    if title is None:
        return None
    text = translate("RunPanel", "It counts neither as passed nor as 0.")
    return RunMessage(kind="warn", title=title.replace("%1", branch.agent), text=text)


def frozen_message(agent: str, attempt: Attempt) -> RunMessage | None:
    """That the answer is a recorded one and what has changed since, None unless its agent is frozen."""
    if not attempt.frozen_from:
        return None
    if not attempt.stale:
        title = translate("RunPanel", "%1 is frozen: this is its answer of run %2, no model was asked.")
        title = title.replace("%2", attempt.frozen_from).replace("%1", agent)
        return RunMessage(kind="accent", title=title, icon="frozen", frozen=agent)
    title = translate("RunPanel", "%1 is frozen, and its answer is stale: %2 since.")
    return RunMessage(
        kind="warn",
        title=title.replace("%2", stale_text(attempt.stale)).replace("%1", agent),
        text=translate("RunPanel", "It is the answer of run %1.").replace("%1", attempt.frozen_from),
        icon="stale",
        frozen=agent,
    )


def empty_words(branch: Branch | None, attempt: Attempt | None) -> str:
    """What stands where an answer would be, when there is none and none is to come."""
    state = attempt.state if attempt is not None else branch.state if branch is not None else None
    if state is not State.STOPPED or (attempt is not None and attempt.content.length):
        return ""
    if attempt is not None and attempt.reasoning.length:
        return translate("RunPanel", "Stopped before the first word of the answer.")
    return translate("RunPanel", "Stopped before the first word.")


def wait_message(branch: Branch, now: float) -> RunMessage | None:
    """That a request failed and when it is repeated, None unless the branch waits for that."""
    attempt = branch.attempt
    if attempt is None or not attempt.retries:
        return None
    last = attempt.retries[-1]
    if last.profile and not attempt.content.length:
        text = translate("RunPanel", "%1 is asked instead.").replace("%1", last.profile)
        return RunMessage(kind="warn", title=last.reason, text=text, profile=last.profile)
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
        given = (one.attempt for one in step.branches.values() if one.attempt is not None and one.attempt.stale)
        stale = (frozen_message(step.agent, attempt) for attempt in given)
        return next((message for message in (*waiting, *stale) if message is not None), None)
    first = next((one for one in step.branches.values() if one.error is not None), None)
    message = branch_message(first, now) if first is not None else None
    if message is None or step.splits < 2:
        return message
    count = translate("RunPanel", "%1 of %2 branches failed.")
    count = count.replace("%1", str(failed)).replace("%2", str(max(step.splits, len(step.branches))))
    return replace(message, text=f"{message.text} {count}".strip())


def pause_message(model: RunModel) -> RunMessage:
    """Where a run waits, and what lets it go on."""
    agents = ", ".join(dict.fromkeys(one.agent for one in model.paused.values()))
    title = translate("RunPanel", "Paused before %1.").replace("%1", agents)
    text = translate("RunPanel", "F10 lets one step run, F5 all up to the next breakpoint.")
    return RunMessage(kind="accent", title=title, text=text, icon="pause", paused=True)


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
    return cached_message(model)


def cached_message(model: RunModel) -> RunMessage | None:
    """That no model was asked, None unless each answer of the run came from the cache."""
    total = model.statistics()
    if total.requests or not total.cached_prompts:
        return None
    title = translate("RunPanel", "Every answer came from the cache: no model was asked, nothing was paid.")
    if any(State.FROZEN in step.counts for step in model.steps.values()):
        title = translate("RunPanel", "Every answer was a kept one: no model was asked, nothing was paid.")
    return RunMessage(kind="accent", title=title, icon="cached", fresh=True)


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
