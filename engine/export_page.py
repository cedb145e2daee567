"""What exports share: text that stays text in Markdown and HTML, one page that needs nothing else, no keys."""

import html
import re
from collections.abc import Collection, Iterable, Sequence

from engine.errors import StorageError

KEY_SHAPE = re.compile(
    r"\b(?:sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|xox[abp]-[0-9A-Za-z-]{20,}"
    r"|AIza[0-9A-Za-z_-]{35}|hf_[A-Za-z0-9]{30,})"
)
FIND_IT = "Find it with `workbench runs show`, and take the key out of the prompt it came from."
_ACTING = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u00ad\\u061c\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff\\ud800-\\udfff"
    "\\U000e0000-\\U000e007f]"
)


def refuse_keys(text: str, secrets: Collection[str], what: str, *, hint: str = FIND_IT) -> None:
    """Raise StorageError for a text with one of `secrets`, or what looks like a key; `what` begins the message."""
    found = next((secret for secret in secrets if len(secret) >= 8 and secret in text), None)
    if found is not None or KEY_SHAPE.search(text):
        raise StorageError(
            f"{what}: it holds a text that {'is' if found else 'looks like'} a key.",
            hint=hint,
        )


def visible(text: str) -> str:
    """The text with characters that act on what shows it, or hide, as `⟨U+202E⟩`."""
    return _ACTING.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)


def inline(text: str) -> str:
    """The text within a line of Markdown, where it does nothing."""
    return re.sub(r"([\\`*_\[\]<>#|!&])", r"\\\1", visible(text).replace("\n", " "))


def fence(text: str) -> list[str]:
    """The lines of a fence around the text, longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return [f"{mark}text", visible(text), mark]


_STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1d1d1f;--dim:#6a6a70;--line:#e3e3e6;--accent:#3257d6;
--good:#1f7a4d;--bad:#b3261e;--soft:#f3f4f7}
@media (prefers-color-scheme:dark){:root{--bg:#16171a;--card:#1f2125;--ink:#e9e9ec;--dim:#9a9aa3;--line:#33353b;
--accent:#8aa4ff;--good:#5fc492;--bad:#ff8a80;--soft:#26282d}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.55 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}h1{font-size:1.7rem;margin:0 0 .3rem;line-height:1.2}
h2{font-size:1.05rem;margin:2.2rem 0 .7rem;color:var(--dim);font-weight:600}
.facts{display:flex;flex-wrap:wrap;gap:.35rem 1.4rem;color:var(--dim);margin:0 0 1rem;padding:0;list-style:none}
.facts b{color:var(--ink);font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;margin:.8rem 0;overflow:hidden}
.card>header{display:flex;flex-wrap:wrap;gap:.2rem .9rem;align-items:baseline;padding:.65rem 1rem;
border-bottom:1px solid var(--line)}.card>header b{font-size:1rem}.dim{color:var(--dim);font-size:.87rem}
details{border-top:1px solid var(--line)}details:first-of-type{border-top:0}
summary{cursor:pointer;padding:.45rem 1rem;color:var(--dim);font-size:.87rem}
pre{margin:0;padding:.75rem 1rem;white-space:pre-wrap;overflow-wrap:anywhere;font:13.5px/1.55 ui-monospace,monospace}
details pre{background:var(--soft);border-top:1px solid var(--line)}.role{padding:.4rem 1rem 0;font-size:.8rem;
color:var(--accent);background:var(--soft)}.role+pre{border:0;padding-top:.2rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}td,th{padding:.4rem .7rem;text-align:right;
border-bottom:1px solid var(--line)}td:first-child,th:first-child{text-align:left}th{color:var(--dim);font-weight:600}
.trace{font:14px/1.8 ui-monospace,monospace;overflow-wrap:anywhere}
@media print{body{background:#fff}main{max-width:none;padding:0}.card{break-inside:avoid-page}details>*{display:block}}
"""


def page(title: str, body: str) -> str:
    """A page that loads nothing, runs nothing, and reads well on paper, in light and in dark."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def escaped(text: str) -> str:
    """The text in HTML."""
    return html.escape(visible(text))


def card(title: str, note: str, body: str) -> str:
    """A box with a head; title and note are texts, the body is HTML."""
    return (
        f'<section class="card"><header><b>{escaped(title)}</b>'
        f'<span class="dim">{escaped(note)}</span></header>{body}</section>'
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts; the first column names its rows."""
    head = "".join(f"<th>{escaped(text)}</th>" for text in heads)
    cells = "".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{cells}</table>"
