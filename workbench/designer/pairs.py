"""Names with values as rows: overrides of a model, what a flow inside is given and gives back."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from PySide6.QtWidgets import QWidget

from engine.flow.json_places import member
from workbench.designer.fields import Binding, LineField, TextField, translate
from workbench.designer.form_section import FormSection, ListPart, RowFields
from workbench.designer.json_field import json_or_text, value_text
from workbench.designer.key_renamer import Rename, renamed_with
from workbench.designer.schema_table import free_name
from workbench.designer.targets import PartTarget, RowTarget, Target
from workbench.widgets.template_edit import TemplateEdit


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A name and its value."""

    key: str
    value: Any


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of an object, in its order."""

    entries: tuple[Pair, ...] = ()


class PairTarget(RowTarget):
    """One entry of an object: its place in the file is named by its key."""

    def path(self) -> str:
        """Below that of the object."""
        items = self.items()
        return member(self.outer.path(), items[0].key) if items else self.outer.path()


class PairsPart(ListPart):
    """The entries of an object as rows."""

    def __init__(
        self,
        section: FormSection,
        target: Target,
        field: str,
        *,
        read: Callable[[Any], Mapping[str, Any] | None],
        write: Callable[[Any, dict[str, Any]], Any],
        title: str,
        step: str,
        hidden: frozenset[str] = frozenset(),
        value_help: str = "",
        values_are_text: bool = False,
        wanted: str = "key",
        rename: Rename | None = None,
    ) -> None:
        """`field` is the path of the object in the file; `hidden` are keys that have fields of their own.

        `step` is the name of every edit; `values_are_text`: no value is read as JSON.
        `rename`: the names are keys that are renamed wherever they are used.
        """
        self._rename = rename
        self._hidden, self._help, self._step, self._wanted = hidden, value_help, step, wanted
        self._are_text = values_are_text
        self._title = title

        def pairs(item: Any) -> Pairs | None:
            values = read(item)
            if values is None:
                return None
            return Pairs(
                entries=tuple(Pair(key=key, value=value) for key, value in values.items() if key not in hidden)
            )

        def put(item: Any, pairs: Pairs) -> Any:
            kept = {key: value for key, value in (read(item) or {}).items() if key in hidden}
            return write(item, kept | {pair.key: pair.value for pair in pairs.entries})

        part = PartTarget(target, field, read=pairs, write=put)
        super().__init__(
            *(section, part, "entries"),
            title=title,
            kind=translate("Inspector", "Entry %1"),
            make=self._pair,
            steps=(step, step, step),
        )

    def add_pair(self) -> None:
        """Put another entry at the end."""
        self.add_named(self._wanted)

    def add_named(self, wanted: str) -> None:
        """Put an entry of this name at the end, or of one like it when it is taken."""
        taken = {*(pair.key for pair in self.entries()), *self._hidden}
        self.add(Pair(key=free_name(taken, wanted), value=""))

    def make_target(self, index: int) -> RowTarget:
        """The entry by its key."""
        return PairTarget(self.target, "entries", index)

    def _pair(self, target: RowTarget, parent: QWidget) -> RowFields:
        row = RowFields(target, parent)
        key = Binding(target=target, path=".(name)", read=lambda one: one.key, write=self._renamed, step=self._step)
        row.add(
            LineField(
                key,
                translate("Inspector", "Name"),
                translate("Inspector", "Name of the entry"),
                row,
                name=f"{self._title}: {translate('Inspector', 'Name')}",
                take=renamed_with(key, self._rename_key),
            )
        )
        name = f"{self._title}: {translate('Inspector', 'Value')}"
        row.add(
            TextField(
                Binding(
                    target=target,
                    path="",
                    read=lambda one: one.value,
                    write=lambda one, value: replace(one, value=value),
                    step=self._step,
                ),
                translate("Inspector", "Value"),
                self._help,
                row,
                editor=TemplateEdit(name, row, least_lines=1, most_lines=6),
                above=False,
                parse=str if self._are_text else json_or_text,
                show=str if self._are_text else value_text,
            )
        )
        return row

    def _rename_key(self, old: str, new: str) -> bool:
        is_free = new not in {*(one.key for one in self.entries()), *self._hidden}
        return self._rename is not None and is_free and self._rename(old, new)

    def _renamed(self, pair: Pair, key: str) -> Pair:
        taken = {*(one.key for one in self.entries()), *self._hidden} - {pair.key}
        return replace(pair, key=free_name(taken, key or pair.key))
