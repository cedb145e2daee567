"""What went wrong with an answer because of its thinking, and the answer that may stand inside the thinking."""

import re

from engine.completion import Completion, FinishReason, ReasoningAudit

MOST_SPENT = 0.75
"""Share of the tokens from which on an answer that was cut off counts as spent on thinking."""

_END_TAG = re.compile(r"</(?:think|thinking|thought|reasoning|reflection)>", re.IGNORECASE)
_MARK = re.compile(
    r"^[ \t>#*_]*(?:the\s+)?(?:final\s+answer|answer|final\s+response|最终答案|答案)[ \t*_]*[:：][ \t*_]*",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"```[^\n`]*\n(?P<inside>.*?)\n```\s*\Z", re.DOTALL)


def audit(completion: Completion) -> ReasoningAudit | None:
    """What the thinking did to an answer that ended by itself; None when nothing is wrong with it."""
    thinking = completion.reasoning.strip()
    if not thinking or completion.tool_calls or completion.from_thinking:
        return None
    if completion.finish_reason not in (FinishReason.DONE, FinishReason.TOKEN_LIMIT_REACHED):
        return None
    limit = completion.finish_reason is FinishReason.TOKEN_LIMIT_REACHED
    if completion.content.strip():
        return ReasoningAudit.LIMIT_SPENT if limit and _share(completion) >= MOST_SPENT else None
    if answer_inside(thinking):
        return ReasoningAudit.ANSWER_INSIDE
    return ReasoningAudit.LIMIT_SPENT if limit else ReasoningAudit.ANSWER_EMPTY


def answer_inside(thinking: str) -> str:
    """The part of a thinking that says it is the answer; empty when none does.

    It stands behind the last closing tag, behind `Final answer:` at the beginning of a line, or in a fenced block that
    ends the thinking.
    """
    for pattern in (_END_TAG, _MARK):
        found = [*pattern.finditer(thinking)]
        if found and (answer := thinking[found[-1].end() :].strip()):
            return answer
    fenced = _FENCE.search(thinking)
    return fenced["inside"].strip() if fenced is not None else ""


def thinking_as_answer(thinking: str) -> str:
    """What of a thinking is taken as the answer: the part that says it is, else all of it."""
    return answer_inside(thinking.strip()) or thinking.strip()


def _share(completion: Completion) -> float:
    used = completion.statistics
    total = used.out_tokens + used.reasoning_out_tokens
    return used.reasoning_out_tokens / total if total else 0.0
