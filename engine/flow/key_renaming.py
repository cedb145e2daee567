"""Renames a context key inside texts that refer to it: placeholders, Jinja2 templates and expressions.

Only the name changes; blanks, comments and everything else of a text stay as they are.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from engine.errors import TemplateError
from engine.flow.expressions import PROVIDED, expression_names, template_names

if TYPE_CHECKING:
    from jinja2 import Environment

_WORD = re.compile(r"[^\W\d]\w*")
_UNSEEN = frozenset({"whitespace", "linecomment", "comment", "comment_begin", "comment_end"})


class CannotRename(ValueError):
    """A key cannot be renamed in an expression that uses it."""


def rename_in_template(text: str, old: str, new: str, *, jinja: bool = False) -> str:
    """Rename a key in a prompt; raises CannotRename when Jinja2 could not read the new name.

    A Jinja2 template that does not compile stays as it is.
    """
    if old not in text:
        return text
    if not jinja:
        return _rename_placeholders(text, old, new)
    try:
        used = template_names(text)
    except TemplateError:
        return text
    if old not in used.keys | used.optional | used.slots:
        return text
    return _rename_tokens(text, old, new, whole=True)


def rename_in_expression(source: str, old: str, new: str) -> str:
    """Rename a key in an expression; raises CannotRename when no expression could name it so.

    An expression that does not compile stays as it is.
    """
    if old not in source:
        return source
    try:
        used = expression_names(source)
    except TemplateError:
        return source
    return _rename_tokens(source, old, new, whole=False) if old in used.keys | used.optional else source


def _rename_placeholders(text: str, old: str, new: str) -> str:
    key = re.escape(old)
    pattern = rf"(\{{\{{\{{?){key}(\}}\}})|(\[\[){key}((?:\|hidden)?\]\])"
    return re.sub(pattern, lambda found: f"{found[1] or found[3]}{new}{found[2] or found[4]}", text)


def _rename_tokens(source: str, old: str, new: str, *, whole: bool) -> str:
    """Rename name tokens, and the strings in `all["key"]`; `whole` = a template, not one expression."""
    kinds = list(_tokens(source if whole else "{{" + source + "}}"))
    seen = [index for index, (kind, _) in enumerate(kinds) if kind not in _UNSEEN]
    parts = [text for _, text in kinds]
    for place, index in enumerate(seen):
        kind, text = kinds[index]
        before = [kinds[seen[at]][1] for at in range(max(0, place - 3), place)]
        after = kinds[seen[place + 1]][1] if place + 1 < len(seen) else ""
        if kind == "data":
            parts[index] = _rename_slots(text, old, new)
        elif kind == "name" and text == old and _is_key(before, after):
            parts[index] = _as_name(old, new)
        elif kind == "string" and text[1:-1] == old and before[-2:] == ["all", "["]:
            parts[index] = f"{text[0]}{new}{text[0]}"
    joined = "".join(parts)
    return joined if whole else joined[2:-2]


def _is_key(before: list[str], after: str) -> bool:
    """Whether a name is a key, and not an attribute, filter, test or the name of an argument."""
    last = before[-1] if before else ""
    if last == ".":
        return before[-2:-1] == ["all"] and before[-3:-2] != ["."]
    if last in ("|", "is", "{%", "{%-", "{%+") or before[-2:] == ["is", "not"]:
        return False
    return not (after == "=" and last in ("(", ","))


def _as_name(old: str, new: str) -> str:
    if not _WORD.fullmatch(new) or new in PROVIDED:
        raise CannotRename(f'"{old}" is used in an expression, where "{new}" cannot stand for it.')
    return new


def _rename_slots(text: str, old: str, new: str) -> str:
    return re.sub(rf"(\[\[){re.escape(old)}((?:\|hidden)?\]\])", lambda found: f"{found[1]}{new}{found[2]}", text)


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    for _line, kind, text in _environment().lexer.tokeniter(source, None):
        yield kind, text


@cache
def _environment() -> "Environment":
    from jinja2 import Environment  # takes longer to import than the rest of the engine

    return Environment(keep_trailing_newline=True, autoescape=False)  # noqa: S701 - only its lexer is used
