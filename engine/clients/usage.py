"""Token and cost accounting of one answer: what the server reported, else estimates, times the prices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from engine.clients.json_parts import object_of
from engine.statistics import CompletionStatistics, CostProvenance, Prices

MOST = 10**9
"""Counts and costs beyond this are nonsense and count as not reported."""

TextCounter = Callable[[str], int]
"""Tokens of a text, for what the server did not report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The counts of a `usage` object, None where it says nothing usable."""

    prompt: int | None = None
    """With the cached part."""
    cached: int | None = None
    completion: int | None = None
    """With reasoning."""
    reasoning: int | None = None


def account(
    usage: Mapping[str, object] | None,
    timings: Mapping[str, object] | None,
    *,
    prompt: str | None,
    content: str,
    reasoning: str,
    prices: Prices,
    count: TextCounter,
) -> CompletionStatistics:
    """Work out tokens, cost and their provenance; `timings` are llama.cpp's, `prompt` is counted only when given."""
    told = read_usage(usage)
    tokens_in, cached, out, thought = 0, 0, 0, 0
    if told.prompt:
        cached = min(told.cached or 0, told.prompt)
        thought = told.reasoning or 0
        tokens_in, out = told.prompt - cached, (told.completion or 0) - thought
    tokens_in, cached, out = _with_timings(timings, tokens_in, cached, out, thought)
    estimated = tokens_in + cached + out + thought <= 0
    if tokens_in <= 0 and cached <= 0 and prompt:
        tokens_in, estimated = count(prompt), True
    if thought <= 0 and reasoning.strip():
        thought, estimated = count(reasoning), True
        out -= thought
    if out <= 0 and content.strip():
        out, estimated = count(content), True
    out = max(out, 0)
    cost = _reported_cost(usage)
    return CompletionStatistics(
        in_tokens=tokens_in,
        cached_in_tokens=cached,
        out_tokens=out,
        reasoning_out_tokens=thought,
        cost=_cost(prices, tokens_in, cached, out, thought) if cost is None else cost,
        provenance=CostProvenance.MEASURED if cost is not None else _provenance(prices, estimated=estimated),
        estimated=estimated,
    )


def read_usage(usage: Mapping[str, object] | None) -> Reported:
    """Read a `usage` object in the spelling of chat completions or of responses."""
    if not usage:
        return Reported()
    prompt_details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    output_details = usage.get("completion_tokens_details", usage.get("output_tokens_details"))
    return Reported(
        prompt=_tokens(usage.get("prompt_tokens", usage.get("input_tokens"))),
        cached=_tokens(prompt_details.get("cached_tokens")) if isinstance(prompt_details, Mapping) else None,
        completion=_tokens(usage.get("completion_tokens", usage.get("output_tokens"))),
        reasoning=_tokens(output_details.get("reasoning_tokens")) if isinstance(output_details, Mapping) else None,
    )


def _with_timings(
    timings: Mapping[str, object] | None, tokens_in: int, cached: int, out: int, thought: int
) -> tuple[int, int, int]:
    if not timings:
        return tokens_in, cached, out
    reused = _tokens(timings.get("cache_n")) or 0
    if tokens_in <= 0 and cached <= 0:
        tokens_in, cached = _tokens(timings.get("prompt_n")) or 0, reused
    elif cached <= 0 and reused:
        cached = min(reused, tokens_in)
        tokens_in -= cached
    if out <= 0 and thought <= 0:
        out = _tokens(timings.get("predicted_n")) or 0
    return tokens_in, cached, out


def _tokens(value: object) -> int | None:
    if type(value) is int:  # nearly always
        return value if 0 <= value <= MOST else None
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return Decimal(str(value)) if 0 <= value <= MOST else None  # false for NaN, too


def _reported_cost(usage: Mapping[str, object] | None) -> Decimal | None:
    """The provider's own cost if positive: `cost`, else the upstream total, else the sum of the upstream parts."""
    if not usage or ("cost" not in usage and "cost_details" not in usage):  # nearly always
        return None
    parts = object_of(usage.get("cost_details"))
    upstream = _number(parts.get("upstream_inference_cost"))
    if upstream is None:
        names = ("prompt", "completions", "input", "output")
        upstream = sum(
            (_number(parts.get(f"upstream_inference_{name}_cost")) or Decimal(0) for name in names), Decimal(0)
        )
    return _number(usage.get("cost")) or upstream or None


def _cost(prices: Prices, tokens_in: int, cached: int, out: int, thought: int) -> Decimal:
    zero = Decimal(0)
    price_in = prices.input or zero
    price_cached = price_in if prices.cached_input is None else prices.cached_input
    return (
        tokens_in * price_in
        + cached * price_cached
        + out * (prices.output or zero)
        + thought * (prices.reasoning or zero)
    )


def _provenance(prices: Prices, *, estimated: bool) -> CostProvenance:
    if prices.input is None or prices.output is None:
        return CostProvenance.UNKNOWN
    if not any((prices.input, prices.output, prices.cached_input, prices.reasoning)):
        return CostProvenance.FREE
    return CostProvenance.ESTIMATED if estimated else CostProvenance.MEASURED
