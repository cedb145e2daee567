"""How numbers and outside text are written everywhere in the window, so that the same figure always looks the same."""

import html
import re
from collections.abc import Sequence, Set
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QLocale

from engine import number_text
from engine.completion import ReasoningAudit
from engine.statistics import CostProvenance

if TYPE_CHECKING:
    from engine.flow.run_plan import PlannedAgent


def audit_text(audit: ReasoningAudit) -> str:
    """What the thinking did to an answer, in words for a badge."""
    words = {
        ReasoningAudit.ANSWER_EMPTY: QCoreApplication.translate("ReasoningAudit", "only thinking, no answer"),
        ReasoningAudit.LIMIT_SPENT: QCoreApplication.translate("ReasoningAudit", "limit spent on thinking"),
        ReasoningAudit.ANSWER_INSIDE: QCoreApplication.translate("ReasoningAudit", "answer inside the thinking"),
    }
    return words[audit]


def seconds_text(seconds: float) -> str:
    """A duration with its unit: `0.04 s`, `2.1 s`, `1 min 5 s`, `2 h 3 min`."""
    seconds = max(0.0, seconds)
    if seconds < 0.005:
        return "0 s"
    if seconds < 0.0995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def clock_text(seconds: float) -> str:
    """A running clock in whole seconds: `0:08`, `12:40`, `1:02:05`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def tokens_text(count: int, estimated: bool = False) -> str:
    """A token count with thousands separators; `~` before an estimate."""
    return f"{'~' if estimated else ''}{count:,}"


def rate_text(per_second: float, estimated: bool = False) -> str:
    """Tokens per second, one decimal below ten: `58 tok/s`, `3.4 tok/s`, `~1,940 tok/s`."""
    return f"{plain_rate_text(per_second, estimated)} tok/s"


def plain_rate_text(per_second: float, estimated: bool = False) -> str:
    """A rate without its unit, for places whose label names it."""
    figure = f"{per_second:.1f}" if 0 < per_second < 9.95 else f"{per_second:,.0f}"
    return f"{'~' if estimated else ''}{figure}"


def cost_text(cost: Decimal, provenance: CostProvenance, *, lower_bound: bool = False) -> str:
    """Money and where it comes from (`engine.number_text`), in the words of the window's language."""
    return number_text.cost_text(
        cost,
        provenance,
        lower_bound=lower_bound,
        free=QCoreApplication.translate("text_format", "free"),
        unknown=QCoreApplication.translate("text_format", "unknown"),
    )


def calls_text(planned: "PlannedAgent") -> str:
    """How many calls are planned: `5 paid calls`, `≥ 2 calls` of a model that costs nothing."""
    paid = planned.cost is None or planned.cost > 0
    words = {
        (True, True): QCoreApplication.translate("text_format", "1 paid call"),
        (True, False): QCoreApplication.translate("text_format", "%1 paid calls"),
        (False, True): QCoreApplication.translate("text_format", "1 call"),
        (False, False): QCoreApplication.translate("text_format", "%1 calls"),
    }
    text = words[paid, planned.calls == 1].replace("%1", f"{planned.calls:,}")
    return f"≥ {text}" if planned.more else text


def planned_cost_text(planned: "PlannedAgent") -> str:
    """What they may cost: `~$0.012`, `≤ $0.04` when answers may get as long as they can, `unknown`, `free`."""
    if planned.cost is None:
        return cost_text(Decimal(0), CostProvenance.UNKNOWN)
    if not planned.cost:
        return cost_text(Decimal(0), CostProvenance.FREE)
    if planned.at_most and not planned.more:
        return f"≤ {number_text.money_text(planned.cost)}"
    return cost_text(planned.cost, CostProvenance.ESTIMATED)


def when_text(moment: float) -> str:
    """When something was (seconds since the epoch): the time, with the day unless that is today."""
    local = datetime.fromtimestamp(moment).astimezone()
    today = local.date() == datetime.now().astimezone().date()
    return local.strftime("%H:%M") if today else local.strftime("%d %b %H:%M")


def stale_text(reasons: Sequence[str]) -> str:
    """What has changed since an agent was frozen: `prompt and profile changed`."""
    words = {
        "prompt": QCoreApplication.translate("text_format", "prompt"),
        "inputs": QCoreApplication.translate("text_format", "inputs"),
        "profile": QCoreApplication.translate("text_format", "profile"),
        "engine": QCoreApplication.translate("text_format", "program version"),
    }
    *first, last = [words.get(reason, reason) for reason in reasons] or [""]
    changed = QCoreApplication.translate("text_format", "%1 changed")
    both = QCoreApplication.translate("text_format", "%1 and %2")
    names = both.replace("%2", last).replace("%1", ", ".join(first)) if first else last
    return changed.replace("%1", names)


CONTROL_MARKS = (
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI",
    "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US",
)  # fmt: skip
"""Names of the control characters from 0. Their pictures (U+2400…) are missing in many fixed fonts."""

NAMED_MARKS = {
    "\x7f": "DEL",
    "\u00ad": "SHY", "\u061c": "ALM", "\u180e": "MVS",
    "\u200b": "ZWSP", "\u200c": "ZWNJ", "\u200d": "ZWJ", "\u200e": "LRM", "\u200f": "RLM",
    "\u2028": "LSEP", "\u2029": "PSEP",
    "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO",
    "\u2060": "WJ", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI", "\ufeff": "BOM",
}  # fmt: skip
"""Invisible characters that have a usual short name."""

_INVISIBLE = re.compile(
    "\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_JOINED = re.compile("(?<=[\U0001f000-\U0001faff\u2190-\u2bff\ufe0f])\u200d(?=[\U0001f000-\U0001faff\u2190-\u2bff])")


def language_name(language: str) -> str:
    """The name of a language with its code; a variant as it is written."""
    code = language.partition("-")[0]
    found = QLocale.codeToLanguage(code)
    known = found not in (QLocale.Language.AnyLanguage, QLocale.Language.C)
    return f"{QLocale.languageToString(found)} ({language})" if known else language


def visible_text(text: str) -> str:
    """Outside text with unseen characters made visible: controls as `‹ESC›`, bidi and zero-width marks as `‹RLO›`.

    Line feeds and tabs stay, CR LF becomes LF, a lone surrogate becomes U+FFFD, and the joiner inside an emoji stays.
    """
    if text.isascii() and text.isprintable():
        return text
    joiners: Set[int] = {match.start() for match in _JOINED.finditer(text)} if "\u200d" in text else frozenset()
    return _INVISIBLE.sub(lambda match: _mark(match, joiners), text)


def _mark(match: re.Match[str], joiners: Set[int]) -> str:
    found = match.group()
    if found == "\r\n":
        return "\n"
    code = ord(found)
    if match.start() in joiners:
        return found
    if code < 0x20:
        return f"‹{CONTROL_MARKS[code]}›"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"‹{NAMED_MARKS.get(found, f'U+{code:04X}')}›"


def plain_tip(text: str) -> str:
    """A tip that shows outside text as it is, whatever it looks like."""
    return f"<p style='white-space: pre-wrap'>{html.escape(visible_text(text))}</p>" if text else ""


def clean_text(text: str) -> str:
    """Outside text for the clipboard: as it is, but what cannot be there (NUL, lone surrogates) becomes U+FFFD."""
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)
