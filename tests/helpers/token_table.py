"""Contrast of colours, and the table of colour tokens in docs/visual-design.md.

python -m tests.helpers.token_table     # writes the table anew after theme.py has changed
"""

import re
from pathlib import Path

from workbench.theme import TOKENS

DOCUMENT = Path(__file__).parents[2] / "docs" / "visual-design.md"
BEGIN, END = "<!-- tokens: written by tests/helpers/token_table.py -->\n", "<!-- end of tokens -->\n"

BACKGROUNDS = tuple(token for token in TOKENS if token.startswith("bg."))


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two `#RRGGBB`, 1 to 21. Source: WCAG 2.2, definitions."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def measured(token: str) -> tuple[str, str]:
    """What a token's contrast is told for: the backgrounds it must stand out from, or the text that stands on it."""
    family, _, name = token.partition(".")
    if family == "bg":
        return "under `text`", "text"
    if family == "category":
        return "on its tint", f"tint.{name}"
    if family == "tint":
        return "under its text", f"category.{name}" if f"category.{name}" in TOKENS else name
    if family in ("diff", "mark"):
        return "under `text`", "text"
    if family == "series":
        return "on `bg.card`", "bg.card"
    if token in ("edge", "breakpoint"):
        return "on `bg.canvas`", "bg.canvas"
    if token in ("line", "line.strong", "line.control", "disabled"):
        return "on `bg.dock`", "bg.dock"
    if token in ("accent.fill", "on.fill"):
        return "with each other", "on.fill" if token == "accent.fill" else "accent.fill"
    return "on every background", ""


def table() -> str:
    """The table as Markdown: token, both values, the lowest contrast in both schemes and with what."""
    lines = ["| token | dark | light | contrast dark | light | measured |", "|---|---|---|---|---|---|"]
    for token, colors in TOKENS.items():
        label, other = measured(token)
        others = [other] if other else BACKGROUNDS
        ratios = [min(contrast(color, TOKENS[o][scheme]) for o in others) for scheme, color in enumerate(colors)]
        figures = " | ".join(f"{ratio:.1f}" for ratio in ratios)
        lines.append(f"| `{token}` | `{colors[0]}` | `{colors[1]}` | {figures} | {label} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table into the document."""
    text = DOCUMENT.read_text("utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    DOCUMENT.write_text(pattern.sub(lambda _: f"{BEGIN}\n{table()}\n{END}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
