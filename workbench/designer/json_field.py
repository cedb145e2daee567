"""A field for JSON: the text, checked while it is typed, with the place of what is wrong."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from PySide6.QtWidgets import QWidget

from engine.flow.json_places import positions
from workbench.designer.fields import Binding, TextField, translate
from workbench.widgets.template_edit import TemplateEdit

Faults = Callable[[object], Iterator[tuple[str, str]]]


class JsonField(TextField):
    """An object; an empty text is none. `faults` are named at their place and may stay."""

    def __init__(
        self,
        binding: Binding,
        label: str,
        help_line: str,
        parent: QWidget,
        *,
        name: str = "",
        faults: Faults | None = None,
    ) -> None:
        editor = TemplateEdit(name or label, parent, least_lines=3, most_lines=14)
        super().__init__(binding, label, help_line, parent, editor=editor, parse=parse_object, show=object_text)
        self._faults = faults

    def _mark(self) -> None:
        if self._faults is not None and not self._refused:
            self._problem = (self._first_fault(self._faults), False)
        super()._mark()

    def _first_fault(self, faults: Faults) -> str:
        text = self.edit.toPlainText()
        try:
            value = parse_object(text)
        except ValueError:
            return ""
        path, message = next(faults(value), ("", "")) if value is not None else ("", "")
        if not path:
            return ""
        place = positions(text, [path]).get(path, 0)
        return placed_text(text, place, message)


def parse_object(text: str) -> dict[str, Any] | None:
    """A JSON object; raises ValueError with line and column."""
    if not text.strip():
        return None
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(placed_text(text, error.pos, f"{error.msg}.")) from None
    except RecursionError:
        raise ValueError(translate("Inspector", "It is too deep.")) from None
    if not isinstance(value, dict):
        raise ValueError(translate("Inspector", "Expected an object, in { }."))
    return value


def object_text(value: dict[str, Any]) -> str:
    """An object as it is typed."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def placed_text(text: str, position: int, message: str) -> str:
    """A message with line and column."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    words = translate("Inspector", "Line %1, column %2: %3")
    return words.replace("%1", str(line)).replace("%2", str(column)).replace("%3", message)


def json_or_text(text: str) -> Any:
    """What is meant by a typed value: JSON if it is a number, true, false, a list, an object or quoted; else a text."""
    if text[:1] in '[{"-0123456789tf' and text:
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return text
        return text if value is None else value
    return text


def value_text(value: Any) -> str:
    """A value as it is typed, so that `json_or_text` gives it back."""
    if isinstance(value, str) and json_or_text(value.strip()) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _no_constant(name: str) -> Any:
    raise ValueError(translate("Inspector", "%1 is no JSON.").replace("%1", name))
