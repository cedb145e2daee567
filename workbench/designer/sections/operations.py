"""What happens to the context before and after an agent's work."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from engine.flow.flow_spec import AgentSpec, OperationSpec
from workbench.designer.fields import Binding, Choice, ChoiceField, Field, LineField, bound
from workbench.designer.form_section import ExpressionField, FormSection, ListPart, RowFields, translate
from workbench.designer.key_renamer import KeyRenamer, renamed_with
from workbench.designer.targets import AgentTarget, RowTarget
from workbench.theme import theme

Names = Callable[[], Sequence[str]]


class OperationsSection(FormSection):
    """Two ordered lists of operations."""

    target: AgentTarget

    def __init__(self, target: AgentTarget, functions: Names, renamer: KeyRenamer, parent: QWidget) -> None:
        """`functions` are the plug-in functions there are."""
        super().__init__("operations", translate("Inspector", "Before and after"), target, parent, is_open=False)
        self._functions, self._renamer = functions, renamer
        self.parts: list[ListPart] = []
        self.pluses: list[QToolButton] = []
        self._heads: list[QLabel] = []
        words = (
            ("before", translate("Inspector", "Before its prompt is made"), translate("Inspector", "Add before")),
            ("after", translate("Inspector", "After its answer came"), translate("Inspector", "Add after")),
        )
        for field, title, add in words:
            self._add_part(field, title, add)
        theme.changed.connect(self._restyle_heads)
        self._restyle_heads()

    def _add_part(self, field: str, title: str, add: str) -> None:
        head, plus = QLabel(title, self), QToolButton(self)
        head.setProperty("role", "secondary")
        plus.setAccessibleName(add)
        plus.setToolTip(add)
        row = QHBoxLayout()
        row.addWidget(head, 1)
        row.addWidget(plus)
        self.body.addLayout(row)
        part = ListPart(
            *(self, self.target, field),
            title=title,
            kind=translate("Inspector", "Operation %1"),
            make=self._make,
            steps=(
                translate("Inspector", "Add operation to %1"),
                translate("Inspector", "Remove operation of %1"),
                translate("Inspector", "Reorder operations of %1"),
            ),
        )
        plus.clicked.connect(lambda: part.add(OperationSpec(set="key", to="''")))
        self.body.addWidget(part.list)
        self.parts.append(part)
        self.pluses.append(plus)
        self._heads.append(head)

    def all_fields(self) -> list[Field]:
        """Those of all operations."""
        return [field for part in self.parts for field in part.fields()]

    def stops(self) -> list[QWidget]:
        """Head, and each list with its button."""
        stops: list[QWidget] = [self.head]
        for plus, part in zip(self.pluses, self.parts, strict=True):
            stops += [plus, *part.stops()]
        return stops

    def refresh(self) -> None:
        """Show the operations as they are now."""
        for part in self.parts:
            part.refresh()
        count = sum(len(part.entries()) for part in self.parts)
        self.set_note(str(count) if count else "")
        self.show_keys(self.keys)

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """One agent."""
        return len(agents) == 1

    def _make(self, target: RowTarget, parent: QWidget) -> RowFields:
        return _Operation(target, self._functions, self._renamer, parent)

    def _restyle_heads(self) -> None:
        for head, plus in zip(self._heads, self.pluses, strict=True):
            head.setFont(theme.font(12))
            plus.setIcon(theme.icon("plus", 14))
            plus.setIconSize(QSize(theme.px(14), theme.px(14)))


class _Operation(RowFields):
    """One operation: what it does, with what, and when."""

    def __init__(self, target: RowTarget, functions: Names, renamer: KeyRenamer, parent: QWidget) -> None:
        super().__init__(target, parent)
        step = translate("Inspector", "Edit operation of %1")
        self._functions = functions
        self.add(
            ChoiceField(
                Binding(target=target, path="", read=_kind, write=_with_kind, step=step),
                translate("Inspector", "Do"),
                translate("Inspector", "What is done with the context"),
                self,
                choices=_kinds,
                name=translate("Inspector", "Kind of operation"),
            )
        )
        key = Binding(
            target=target, path=".set", read=lambda one: one.set or one.delete or "", write=_with_key, step=step
        )

        def rename(old: str, new: str) -> bool:
            """A key that is deleted is another's: there another one is meant."""
            return target.items()[0].set is not None and renamer.made_once(old, new)

        self._key = self.add(
            LineField(
                key,
                translate("Inspector", "Key"),
                translate("Inspector", "Name of the key in the context"),
                self,
                take=renamed_with(key, rename),
            )
        )
        self._to = self.add(
            ExpressionField(
                bound(target, "to", step),
                translate("Inspector", "Value"),
                translate("Inspector", "An expression, `all.feature | unique | list` for instance"),
                self,
            )
        )
        self._call = self.add(
            ChoiceField(
                bound(target, "call", step),
                translate("Inspector", "Function"),
                translate("Inspector", "A function of a plug-in; it is given the context"),
                self,
                choices=lambda: [Choice(value=name, text=name) for name in self._functions()],
                unknown=translate("Inspector", "%1 (missing)"),
            )
        )
        self.add(
            ExpressionField(
                bound(target, "when", step),
                translate("Inspector", "When"),
                translate("Inspector", "A condition; empty: always"),
                self,
                name=translate("Inspector", "Condition of the operation"),
            )
        )

    def refresh(self) -> None:
        """Show what this kind of operation has."""
        super().refresh()
        items = self.target.items()
        kind = _kind(items[0]) if items else ""
        self._key.setVisible(kind in ("set", "delete"))
        self._to.setVisible(kind == "set")
        self._call.setVisible(kind == "call")


def _kind(one: OperationSpec) -> str:
    if one.set is not None or one.to is not None:
        return "set"
    if one.delete is not None:
        return "delete"
    return "call" if one.call is not None else one.skip or ""


def _kinds() -> Sequence[Choice]:
    return [
        Choice(value="set", text=translate("Inspector", "Set a key")),
        Choice(value="delete", text=translate("Inspector", "Delete a key")),
        Choice(value="SKIP", text=translate("Inspector", "Skip the model")),
        Choice(value="SETUP_CONVERSATION_ONLY", text=translate("Inspector", "Only add the turns")),
        Choice(value="call", text=translate("Inspector", "Call a function")),
    ]


def _with_kind(one: OperationSpec, kind: str) -> OperationSpec:
    key = one.set or one.delete or "key"
    fields: dict[str, Any] = dict.fromkeys(("set", "to", "delete", "skip", "call"))
    if kind == "set":
        fields |= {"set": key, "to": one.to or "''"}
    elif kind in ("delete", "call"):
        fields[kind] = key if kind == "delete" else one.call or ""
    else:
        fields["skip"] = kind
    return replace(one, **fields)


def _with_key(one: OperationSpec, key: str) -> OperationSpec:
    return replace(one, **{"delete" if one.delete is not None else "set": key})
