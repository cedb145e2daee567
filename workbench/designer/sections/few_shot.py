"""Earlier exchanges that a model is shown before the question."""

import json
from collections.abc import Sequence
from typing import Any

from PySide6.QtWidgets import QWidget

from engine.flow.flow_spec import AgentSpec, ShotSpec
from workbench.designer.fields import Field, TextField, bound
from workbench.designer.form_section import FormSection, ListPart, RowFields, asks_model, translate
from workbench.designer.json_field import placed_text
from workbench.designer.targets import AgentTarget, RowTarget
from workbench.widgets.template_edit import TemplateEdit


class FewShotSection(FormSection):
    """A row for each exchange."""

    def __init__(self, target: AgentTarget, parent: QWidget) -> None:
        super().__init__("few_shot", translate("Inspector", "Examples"), target, parent, is_open=False)
        self.say(translate("Inspector", "Exchanges put before the question, as if they had happened."))
        self.part = ListPart(
            *(self, target, "few_shot"),
            title=self.head.text(),
            kind=translate("Inspector", "Example %1"),
            make=_shot_row,
            steps=(
                translate("Inspector", "Add example to %1"),
                translate("Inspector", "Remove example of %1"),
                translate("Inspector", "Reorder examples of %1"),
            ),
        )
        self.body.addWidget(self.part.list)
        self.plus = self.add_button("plus", translate("Inspector", "Add an example"))
        self.plus.clicked.connect(lambda: self.part.add(ShotSpec(user="", assistant="")))

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """One agent that asks a model."""
        return len(agents) == 1 and asks_model(agents[0]) and agents[0].pattern is None

    def all_fields(self) -> list[Field]:
        """Those of all examples."""
        return self.part.fields()

    def stops(self) -> list[QWidget]:
        """Head, button, rows."""
        return [self.head, self.plus, *self.part.stops()]

    def refresh(self) -> None:
        """Show the examples as they are now."""
        self.part.refresh()
        count = len(self.part.entries())
        self.set_note(str(count) if count else "")


def _shot_row(target: RowTarget, parent: QWidget) -> RowFields:
    row = RowFields(target, parent)
    step = translate("Inspector", "Edit example of %1")
    texts = (
        ("user", translate("Inspector", "Question"), translate("Inspector", "What the user says")),
        ("assistant", translate("Inspector", "Answer"), translate("Inspector", "What the model answered")),
        ("reasoning", translate("Inspector", "Thinking"), translate("Inspector", "What the model thought before")),
    )
    for field, label, help_line in texts:
        editor = TemplateEdit(label, row, least_lines=1, most_lines=6)
        row.add(TextField(bound(target, field, step), label, help_line, row, editor=editor))
    calls = translate("Inspector", "Calls of tools")
    row.add(
        TextField(
            bound(target, "tool_calls", step),
            calls,
            translate("Inspector", "A list of objects with name and arguments, as JSON"),
            row,
            editor=TemplateEdit(calls, row, least_lines=1, most_lines=6),
            parse=_calls,
            show=_list_text,
        )
    )
    results = translate("Inspector", "Results of the calls")
    row.add(
        TextField(
            bound(target, "tool_results", step),
            results,
            translate("Inspector", "A list of texts as JSON, one for each call"),
            row,
            editor=TemplateEdit(results, row, least_lines=1, most_lines=6),
            parse=_results,
            show=_list_text,
        )
    )
    return row


def _list_text(value: Sequence[Any]) -> str:
    return json.dumps(list(value), ensure_ascii=False) if value else ""


def _list(text: str) -> list[Any]:
    if not text.strip():
        return []
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(placed_text(text, error.pos, f"{error.msg}.")) from None
    except RecursionError:
        value = None
    if not isinstance(value, list):
        raise ValueError(translate("Inspector", "Expected a list, in [ ]."))
    return value


def _calls(text: str) -> tuple[dict[str, Any], ...]:
    entries = _list(text)
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(translate("Inspector", "Expected objects with name and arguments."))
    return tuple(entries)


def _results(text: str) -> tuple[str, ...]:
    entries = _list(text)
    if not all(isinstance(entry, str) for entry in entries):
        raise ValueError(translate("Inspector", "Expected texts."))
    return tuple(entries)
