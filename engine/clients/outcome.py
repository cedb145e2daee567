"""From what was read of an answer to the completion: texts, finish reason, the sum of what it used."""

from collections.abc import Sequence
from dataclasses import replace

from engine.clients.base import Answer
from engine.completion import Completion, FinishReason
from engine.profile import ModelProfile
from engine.statistics import CompletionStatistics

FINISH_REASONS = {
    "stop": FinishReason.DONE,
    "length": FinishReason.TOKEN_LIMIT_REACHED,
    "content_filter": FinishReason.CONTENT_FILTERED,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "error": FinishReason.ERROR,
    "insufficient_system_resource": FinishReason.ERROR,
    "max_tokens": FinishReason.TOKEN_LIMIT_REACHED,
    "model_context_window_exceeded": FinishReason.TOKEN_LIMIT_REACHED,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTERED,
}
"""In the words of all services; all other reasons count as DONE."""


def completed(answers: Sequence[Answer], used: CompletionStatistics, profile: ModelProfile) -> Completion:
    """The completion of an answer that came in one part or, when the service paused, in several."""
    last = answers[-1]
    content = "".join(answer.text for answer in answers)
    calls = tuple(call for answer in answers for call in answer.calls)
    kept = tuple(part for answer in answers for part in answer.kept)
    blank = not content.strip() and not calls
    finish = FINISH_REASONS.get(last.finish or "", FinishReason.DONE)
    if finish is FinishReason.DONE and calls:
        finish = FinishReason.TOOL_CALLS
    if blank and last.refusal:
        finish = FinishReason.CONTENT_FILTERED
    return Completion(
        content=content,
        reasoning="".join(answer.thoughts for answer in answers),
        tool_calls=calls,
        finish_reason=finish,
        finish_raw=last.finish or "",
        statistics=used,
        refusal=last.refusal if blank else "",
        no_answer=blank and finish is not FinishReason.CONTENT_FILTERED,
        skipped_chunks=sum(answer.skipped for answer in answers),
        model=last.model or profile.model,
        profile=profile.name,
        provider=profile.provider,
        kept=kept,
        origin=profile.origin if kept else "",
    )


def summed(parts: Sequence[CompletionStatistics]) -> CompletionStatistics:
    """The last one with the tokens, money and time of those before."""
    last = parts[-1]
    for part in parts[:-1]:
        last = replace(
            last,
            requests=last.requests + part.requests,
            duration=last.duration + part.duration,
            in_tokens=last.in_tokens + part.in_tokens,
            cached_in_tokens=last.cached_in_tokens + part.cached_in_tokens,
            out_tokens=last.out_tokens + part.out_tokens,
            reasoning_out_tokens=last.reasoning_out_tokens + part.reasoning_out_tokens,
            cost=last.cost + part.cost,
            estimated=last.estimated or part.estimated,
        )
    first = next((part.first_token for part in parts if part.first_token is not None), None)
    return replace(last, first_token=first)
