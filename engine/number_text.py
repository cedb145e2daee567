"""How money and counts are written, in the window and on the command line alike."""

from decimal import ROUND_HALF_UP, Decimal

from engine.statistics import CostProvenance


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 request`, `1,200 requests`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def money_text(amount: Decimal) -> str:
    """Dollars, at least two decimals and up to two significant digits: `$12.30`, `$0.38`, `$0.0031`; zero is `$0`."""
    if not amount:
        return "$0"
    decimals = max(2, 1 - amount.adjusted())
    digits = f"{amount.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,f}"
    whole, _, fraction = digits.partition(".")
    return f"${whole}.{fraction.rstrip('0').ljust(2, '0')}"


def cost_text(
    cost: Decimal,
    provenance: CostProvenance,
    *,
    lower_bound: bool = False,
    free: str = "free",
    unknown: str = "unknown",
) -> str:
    """Money and where it comes from: `$0.0031`, `~$0.0031`, `free`, `unknown`; a sum with unknown parts `≥ $0.0031`.

    An unknown price is never shown as 0. With `lower_bound` more is to come. `free` and `unknown` are the words of the
    reader's language.
    """
    if not cost and provenance in (CostProvenance.UNKNOWN, CostProvenance.FREE):
        return unknown if provenance is CostProvenance.UNKNOWN else free
    if provenance is CostProvenance.UNKNOWN or lower_bound:
        return f"≥ {money_text(cost)}"
    return f"~{money_text(cost)}" if provenance is CostProvenance.ESTIMATED else money_text(cost)
