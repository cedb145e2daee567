"""The end of a message about an unknown name."""

import difflib
from collections.abc import Collection

_MOST = 500
"""Names to compare with; more take too long for a guess."""


def did_you_mean(name: str, known: Collection[str]) -> str:
    """`; did you mean "…"?`, or nothing when no known name is similar."""
    if len(known) > _MOST or len(name) > 100:
        return ""
    by_lower = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(name.strip().lower(), by_lower, 1)
    return f'; did you mean "{by_lower[near[0]]}"?' if near else ""
