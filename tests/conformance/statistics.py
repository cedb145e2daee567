"""Vectors about numbers: `usage` of one answer, `aggregate` over a run, `tokenizer` for the fallback tokenizer."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from engine.clients.usage import account
from engine.fallback_tokenizer import fallback_count, fallback_decode, fallback_encode, fallback_pieces
from engine.profile_builder import inline_profile
from engine.statistics import CompletionStatistics, RequestStatistic
from tests.conformance.cases import Case

# Prices go through the reader of profiles, as those of a person's file do.
_PRICE_KEYS = {
    "in": "cost1MInTokens",
    "cached_in": "cost1MCachedInTokens",
    "out": "cost1MOutTokens",
    "reasoning_out": "cost1MReasoningOutTokens",
}
_PROFILE = {
    "modelProvider": "OAI_CHAT_COMPLETION",
    "url": "http://localhost/v1",
    "maxTokens": 1,
    "temperature": 0,
    "topP": 1,
}


def usage(case: Case) -> object:
    """Token counts and cost of one answer, by the accounting of the clients."""
    given: Mapping[str, Any] = case.given
    costs = {_PRICE_KEYS[name]: cost for name, cost in given.get("cost_per_1m", {}).items()}
    done = account(
        given.get("usage"),
        given.get("timings"),
        prompt=given.get("prompt"),
        content=given.get("response", ""),
        reasoning=given.get("reasoning", ""),
        prices=inline_profile("vector", _PROFILE | costs).prices,
        count=fallback_count,
    )
    return {
        "requests": done.requests,
        "in_tokens": done.in_tokens,
        "cached_in_tokens": done.cached_in_tokens,
        "out_tokens": done.out_tokens,
        "reasoning_out_tokens": done.reasoning_out_tokens,
        "cost": plain(done.cost),
        "cached": done.cached,
    }


def aggregate(case: Case) -> object:
    """Totals of several completions, with throughput by the request duration."""
    given: Mapping[str, Any] = case.given
    total = RequestStatistic()
    for item in given["completions"]:
        total.add(
            CompletionStatistics(
                requests=item.get("requests", 1),
                duration=item["duration_ms"] / 1000,
                in_tokens=item.get("in", 0),
                cached_in_tokens=item.get("cached_in", 0),
                out_tokens=item.get("out", 0),
                reasoning_out_tokens=item.get("reasoning_out", 0),
                cost=Decimal(item.get("cost", "0")),
                cached=item.get("cached", False),
            )
        )
    return {
        "requests": total.requests,
        "cached_prompts": total.cached_prompts,
        "in_tokens": total.in_tokens,
        "cached_in_tokens": total.cached_in_tokens,
        "out_tokens": total.out_tokens,
        "reasoning_out_tokens": total.reasoning_out_tokens,
        "request_duration_ms": round(total.request_seconds * 1000),
        "cost": plain(total.cost),
        "tps": total.tps(total.request_seconds),
        "out_tps": total.out_tps(total.request_seconds),
    }


def tokenizer(case: Case) -> object:
    """Pieces, count and ids of the fallback tokenizer; the ids must also lead back to the text."""
    text = str(case.given["text"])
    tokens = fallback_encode(text)
    if fallback_decode(tokens) != text:
        raise AssertionError("the tokens do not lead back to the text")
    return {"tokens": tokens, "count": fallback_count(text), "pieces": list(fallback_pieces(text))}


def plain(amount: Decimal) -> str:
    """A decimal without exponent and trailing zeros."""
    return format(amount.normalize(), "f")


KINDS = {"usage": usage, "aggregate": aggregate, "tokenizer": tokenizer}
