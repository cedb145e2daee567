"""The inputs a flow declares, and what it gives back."""

from collections.abc import Callable, Sequence
from typing import Any, get_args, get_type_hints

from msgspec.structs import replace
from PySide6.QtWidgets import QWidget

from engine.flow.flow_spec import InputSpec
from workbench.designer.fields import Binding, Choice, ChoiceField, Field, LineField, TextField, TickField, bound
from workbench.designer.form_section import FormSection, ListPart, RowFields, translate
from workbench.designer.json_field import json_or_text
from workbench.designer.schema_table import free_name
from workbench.designer.targets import FlowTarget, RowTarget
from workbench.widgets.input_fields import default_text
from workbench.widgets.template_edit import TemplateEdit

TYPES: tuple[str, ...] = get_args(get_type_hints(InputSpec)["type"])


class DeclaredInputs(FormSection):
    """A row for each input."""

    target: FlowTarget

    def __init__(self, target: FlowTarget, rename_key: Callable[[str, str], None], parent: QWidget) -> None:
        """`rename_key` renames a key wherever it is used."""
        super().__init__("declared", translate("Inspector", "Declared inputs"), target, parent, is_open=False)
        self._rename_key = rename_key
        self.part = ListPart(
            *(self, target, "inputs"),
            title=self.head.text(),
            kind=translate("Inspector", "Input %1"),
            make=self._make,
            steps=(
                translate("Inspector", "Add input"),
                translate("Inspector", "Remove input"),
                translate("Inspector", "Reorder inputs"),
            ),
        )
        self.body.addWidget(self.part.list)
        self._empty = self.say(translate("Inspector", "A run asks for nothing yet."))
        self.plus = self.add_button("plus", translate("Inspector", "Add an input"))
        self.plus.clicked.connect(self._add)

    def all_fields(self) -> list[Field]:
        """Those of all inputs."""
        return self.part.fields()

    def stops(self) -> list[QWidget]:
        """Head, button, rows."""
        return [self.head, self.plus, *self.part.stops()]

    def refresh(self) -> None:
        """Show the inputs as they are now."""
        self.part.refresh()
        count = len(self.part.entries())
        self.set_note(str(count) if count else translate("Inspector", "none"))
        self._empty.setVisible(not count)

    def _add(self) -> None:
        taken = [item.key for item in self.part.entries()]
        self.part.add(InputSpec(key=free_name(taken, "input")))

    def _make(self, target: RowTarget, parent: QWidget) -> RowFields:
        return _Input(target, self._rename_key, parent)


class _Input(RowFields):
    """Key, type, default, help, whether it is required, choices."""

    def __init__(self, target: RowTarget, rename_key: Callable[[str, str], None], parent: QWidget) -> None:
        super().__init__(target, parent)
        step = translate("Inspector", "Change input")

        def take_key(key: str) -> None:
            items = target.items()
            if not items:
                return
            if any(item.key == key for item in target.outer.items()[0].inputs):
                fault = translate("Inspector", "There is another input with the key “%1”.")
                raise ValueError(fault.replace("%1", key))
            rename_key(items[0].key, key)

        self.add(
            LineField(
                bound(target, "key", step),
                translate("Inspector", "Key"),
                translate("Inspector", "The key of the context; everything that names it follows"),
                self,
                name=translate("Inspector", "Key of the input"),
                parse=_key,
                take=take_key,
            )
        )
        self.add(
            ChoiceField(
                bound(target, "type", step),
                translate("Inspector", "Type"),
                translate("Inspector", "Which field asks for it"),
                self,
                choices=_types,
                name=translate("Inspector", "Type of the input"),
            )
        )
        self.choices = self.add(
            TextField(
                bound(target, "choices", step),
                translate("Inspector", "Choices"),
                translate("Inspector", "One a line"),
                self,
                editor=TemplateEdit(translate("Inspector", "Choices"), self, least_lines=2, most_lines=8),
                parse=lambda text: tuple(line for line in text.split("\n") if line.strip()),
                show="\n".join,
            )
        )
        default = translate("Inspector", "Default")
        self.default = TextField(
            Binding(target=target, path=".default", read=default_text, write=_with_default, step=step),
            default,
            translate("Inspector", "What it is when nothing is typed"),
            self,
            editor=TemplateEdit(translate("Inspector", "Default of the input"), self, least_lines=1, most_lines=8),
        )
        self.default.edit.show_known_keys(None)
        self.add(self.default)
        self.add(
            LineField(
                bound(target, "help", step),
                translate("Inspector", "Help"),
                translate("Inspector", "A line below its field"),
                self,
                name=translate("Inspector", "Help of the input"),
            )
        )
        self.add(
            TickField(
                bound(target, "required", step),
                translate("Inspector", "Required"),
                translate("Inspector", "No run begins without a value"),
                self,
            )
        )

    def refresh(self) -> None:
        """Show what this type of input has."""
        super().refresh()
        items = self.target.items()
        self.choices.setVisible(bool(items) and (items[0].type == "choice" or bool(items[0].choices)))


def _types() -> Sequence[Choice]:
    words = {
        "text": translate("Inspector", "Text"),
        "number": translate("Inspector", "Number"),
        "boolean": translate("Inspector", "Yes or no"),
        "choice": translate("Inspector", "Choice"),
        "list": translate("Inspector", "List, one value a line"),
        "json": translate("Inspector", "JSON"),
        "file": translate("Inspector", "Text of a file"),
        "image": translate("Inspector", "Image"),
    }
    return [Choice(value=kind, text=words.get(kind, kind)) for kind in TYPES]


def _key(text: str) -> str:
    if not text:
        raise ValueError(translate("Inspector", "An input needs a key."))
    return text


def _with_default(item: InputSpec, text: str) -> InputSpec:
    return replace(item, default=typed_default(item.type, text))


def typed_default(kind: str, text: str) -> Any:
    """The default that is meant; what does not fit the type stays a text, and the check says so."""
    if not text:
        return None
    if kind == "list" and not text.lstrip().startswith("["):
        return [line for line in text.split("\n") if line.strip()]
    if kind in ("number", "boolean", "json", "list"):
        value = json_or_text(text.strip())
        fits = {"number": (int, float), "boolean": (bool,), "list": (list,)}.get(kind, (object,))
        return value if isinstance(value, fits) and not (kind == "number" and isinstance(value, bool)) else text
    return text
