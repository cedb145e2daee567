"""What becomes of the answer: the handler, its options and schema, and what is done when it does not fit."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace
from PySide6.QtWidgets import QWidget

from engine.flow.agent_check import BUILT_IN_HANDLERS
from engine.flow.flow_spec import AgentSpec, HandlerSpec
from engine.flow.schema_check import schema_faults
from workbench.designer.fields import Binding, Choice, ChoiceField, Field, LineField, TextField, TickField, bound
from workbench.designer.form_section import FormSection, ListPart, RowFields, asks_model, translate
from workbench.designer.json_field import JsonField
from workbench.designer.key_renamer import KeyRenamer, one_renamed_with, renamed_with
from workbench.designer.schema_table import KINDS, Property, flat_schema, free_name, schema_of
from workbench.designer.targets import AgentTarget, PartTarget, RowTarget, Target
from workbench.designer.typed_values import names, names_text, one_line, optional, unescaped, whole_number
from workbench.widgets.words import Words

Names = Callable[[], Sequence[str]]
_FIELDS = ("key", "prefix", "schema", "headings", "separator", "then")


class ResponseSection(FormSection):
    """Handler, options, schema, retries, texts that end the answer."""

    several = True
    target: AgentTarget

    def __init__(self, target: AgentTarget, handlers: Names, renamer: KeyRenamer, parent: QWidget) -> None:
        """`handlers` are the plug-ins that handle answers."""
        super().__init__("response", translate("Inspector", "Response"), target, parent)
        self._handlers = handlers
        step = translate("Inspector", "Change response of %1")
        kind = Binding(target=target, path=".handler", read=_kind, write=_with_kind, step=step)
        self.kind = ChoiceField(
            kind,
            translate("Inspector", "Handler"),
            translate("Inspector", "What the answer is taken for"),
            self,
            choices=self._kinds,
        )
        self.add(self.kind)
        self.main = PartTarget(target, "handler", read=_handler, write=_with_handler)
        self.options = self._options(self.main, step, renamer)
        then_kind = Binding(target=self.main, path=".then", read=_then_kind, write=_with_then_kind, step=step)
        self.then_kind = ChoiceField(
            then_kind,
            translate("Inspector", "Then"),
            translate("Inspector", "What the final answer is taken for, after the calls of tools"),
            self,
            choices=self._then_kinds,
        )
        self.add(self.then_kind)
        self.then = PartTarget(
            self.main, "then", read=lambda one: one.then, write=lambda one, then: replace(one, then=then)
        )
        self.then_options = self._options(self.then, step, renamer)
        self._add_table(renamer)
        self._add_rest(step)

    def _options(self, part: Target, step: str, renamer: KeyRenamer) -> dict[str, Field]:
        key, headings = bound(part, "key", step), bound(part, "headings", step)
        fields: dict[str, Field] = {
            "key": LineField(
                key,
                translate("Inspector", "Key"),
                translate("Inspector", "The key of the context that takes the answer"),
                self,
                name=translate("Inspector", "Key of the answer"),
                parse=optional,
                hint="response",
                take=renamed_with(key, renamer.made, default="response"),
            ),
            "prefix": LineField(
                bound(part, "prefix", step),
                translate("Inspector", "Prefix"),
                translate("Inspector", "Goes before the name of each key"),
                self,
                name=translate("Inspector", "Prefix of the keys"),
                parse=optional,
            ),
            "headings": LineField(
                headings,
                translate("Inspector", "Columns"),
                translate("Inspector", "Headings of the table, with commas between; each becomes a key"),
                self,
                parse=names,
                show=names_text,
                take=one_renamed_with(headings, renamer.made_once, prefix=lambda: _prefix(part)),
            ),
            "separator": LineField(
                bound(part, "separator", step),
                translate("Inspector", "Separator"),
                translate("Inspector", r"What stands between the cells; \t is a tab"),
                self,
                parse=lambda text: unescaped(text) or None,
                show=one_line,
                hint=";",
            ),
            "schema": JsonField(
                bound(part, "schema", step),
                translate("Inspector", "JSON schema"),
                translate("Inspector", "What the answer has to be like; it is checked, and its names are keys"),
                self,
                faults=schema_faults,
            ),
        }
        for field in fields.values():
            self.add(field)
        return fields

    def _add_table(self, renamer: KeyRenamer) -> None:
        """The schema as a table, while it is a flat object."""
        handler = _JsonHandler(self.target)
        self.table_target = PartTarget(
            handler,
            "schema",
            read=lambda one: flat_schema(one.schema),
            write=lambda one, flat: replace(one, schema=schema_of(flat)),
        )
        self._table_head = Words(translate("Inspector", "Values of the object"), self, role="secondary")
        self.body.addWidget(self._table_head)
        self.table = ListPart(
            *(self, self.table_target, "properties"),
            title=self._table_head.text(),
            kind=translate("Inspector", "Value %1"),
            make=lambda target, parent: _property_row(target, handler, renamer, parent),
            steps=(
                translate("Inspector", "Add value to the schema of %1"),
                translate("Inspector", "Remove value from the schema of %1"),
                translate("Inspector", "Reorder the schema of %1"),
            ),
        )
        self.body.addWidget(self.table.list)
        self.plus = self.add_button("plus", translate("Inspector", "Add a value to the JSON schema"))
        self.plus.clicked.connect(self._add_property)

    def _add_rest(self, step: str) -> None:
        self.constrained = TickField(
            Binding(
                target=self.target,
                path=".response_format",
                read=lambda one: one.response_format is not None,
                write=lambda one, on: replace(one, response_format="json_schema" if on else None),
                step=step,
            ),
            translate("Inspector", "Send the schema along"),
            translate("Inspector", "A server that can lets the model write nothing else"),
            self,
        )
        self.retries = LineField(
            bound(self.target, "retry_on_parsing_error", translate("Inspector", "Change retries of %1")),
            translate("Inspector", "Retries"),
            translate("Inspector", "How often it is asked again when the answer cannot be used"),
            self,
            name=translate("Inspector", "Retries when the answer cannot be used"),
            parse=whole_number(0, 0),
            show=lambda value: str(value) if value else "",
            hint="0",
        )
        self.stop = TextField(
            bound(self.target, "stop", translate("Inspector", "Change stop texts of %1")),
            translate("Inspector", "Ends at"),
            translate("Inspector", r"Texts that end the answer, one a line; \n is a new line"),
            self,
            name=translate("Inspector", "Texts that end the answer"),
            parse=lambda text: tuple(unescaped(line) for line in text.split("\n") if line),
            show=lambda value: "\n".join(one_line(one) for one in value),
        )
        self.stop.edit.show_known_keys(None)
        for field in (self.constrained, self.retries, self.stop):
            self.add(field)

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """Agents that ask a model."""
        return bool(agents) and all(asks_model(agent) and agent.pattern is None for agent in agents)

    def all_fields(self) -> list[Field]:
        """Its fields, those of the table before the rest."""
        rest = self.fields.index(self.constrained)
        return [*self.fields[:rest], *self.table.fields(), *self.fields[rest:]]

    def stops(self) -> list[QWidget]:
        """Head, button, options, table, rest."""
        rest = self.fields.index(self.constrained)
        before = [stop for field in self.fields[:rest] for stop in field.stops()]
        after = [stop for field in self.fields[rest:] for stop in field.stops()]
        return [self.head, self.plus, *before, *self.table.stops(), *after]

    def refresh(self) -> None:
        """Show what this kind of handler has."""
        self.table.refresh()
        super().refresh()
        kinds = {one.type for one in self.main.items()}
        one = len(self.target.names) == 1
        handlers, thens = self.main.items(), self.then.items()
        is_built_in = _kind_of_all(self.target.items()) is None
        _show_options(self.options, handlers if one and not is_built_in else [])
        _show_options(self.then_options, thens if one else [])
        self.then_kind.setVisible(one and kinds == {"tools"})
        has_table = bool(self.table_target.items()) and one
        self.plus.setVisible(has_table)
        self._table_head.setVisible(has_table and bool(self.table.entries()))
        self.table.list.setVisible(has_table and bool(self.table.entries()))
        is_json = any(item.type == "json" for item in (*handlers, *thens))
        agents = self.target.items()
        self.constrained.setVisible(is_json or any(agent.response_format for agent in agents))

    def _kinds(self) -> Sequence[Choice]:
        agents = self.target.items()
        built_in = []
        if agents and all(agent.grader is not None for agent in agents):
            built_in.append(Choice(value=None, text=translate("Inspector", "Built in")))
        return [*built_in, *self._then_kinds(), Choice(value="tools", text=translate("Inspector", "Calls of tools"))]

    def _then_kinds(self) -> Sequence[Choice]:
        words = {
            "text": (translate("Inspector", "Text"), translate("Inspector", "The answer as it is")),
            "accumulate": (translate("Inspector", "List"), translate("Inspector", "Added to the values of the key")),
            "json": (translate("Inspector", "JSON"), translate("Inspector", "Each value becomes a key")),
            "csv": (translate("Inspector", "CSV"), translate("Inspector", "Each column becomes a key")),
        }
        built_in = [Choice(value=kind, text=text, help_line=line) for kind, (text, line) in words.items()]
        return [*built_in, *(Choice(value=name, text=name) for name in self._handlers())]

    def _add_property(self) -> None:
        taken = [row.name for row in self.table.entries()]
        self.table.add(Property(name=free_name(taken, "value")))
        self.refresh()


class _JsonHandler(PartTarget):
    """The handler that takes JSON: that of the agent, or the one after the calls of tools."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, "handler", read=_json_handler, write=_with_json_handler)


def _json_handler(agent: AgentSpec) -> HandlerSpec | None:
    handler = _handler(agent)
    inner = handler.then if handler.type == "tools" else handler
    return inner if inner is not None and inner.type == "json" else None


def _with_json_handler(agent: AgentSpec, handler: HandlerSpec) -> AgentSpec:
    outer = _handler(agent)
    return replace(agent, handler=replace(outer, then=handler) if outer.type == "tools" else handler)


def _show_options(options: dict[str, Field], handlers: Sequence[HandlerSpec]) -> None:
    handler = handlers[0] if handlers else None
    used = BUILT_IN_HANDLERS.get(handler.type, _FIELDS) if handler else ()
    for name, field in options.items():
        there = handler is not None and getattr(handler, name) not in (None, ())
        field.setVisible(handler is not None and (name in used or there or field.is_refused))


def _prefix(handler: Target) -> str:
    """What stands before a name to make a key of it."""
    return next((one.prefix for one in handler.items() if one.prefix), "")


def _property_row(target: RowTarget, handler: Target, renamer: KeyRenamer, parent: QWidget) -> RowFields:
    row = RowFields(target, parent)
    step = translate("Inspector", "Edit the schema of %1")
    name = bound(target, "name", step)
    row.add(
        LineField(
            name,
            translate("Inspector", "Name"),
            translate("Inspector", "Name of the value; with the prefix it is a key"),
            row,
            name=translate("Inspector", "Name of the value"),
            take=renamed_with(name, renamer.made_once, prefix=lambda: _prefix(handler)),
        )
    )
    row.add(
        ChoiceField(
            bound(target, "kind", step),
            translate("Inspector", "Type"),
            translate("Inspector", "What the value is; [] is a list"),
            row,
            choices=lambda: [Choice(value=kind, text=kind) for kind in KINDS],
            name=translate("Inspector", "Type of the value"),
        )
    )
    row.add(
        LineField(
            bound(target, "description", step),
            translate("Inspector", "Meaning"),
            translate("Inspector", "What the model is told about the value"),
            row,
            name=translate("Inspector", "Meaning of the value"),
        )
    )
    required = translate("Inspector", "Required")
    row.add(
        TickField(bound(target, "required", step), required, translate("Inspector", "An answer without it fails"), row)
    )
    return row


def _handler(agent: AgentSpec) -> HandlerSpec:
    return agent.handler or HandlerSpec()


def _with_handler(agent: AgentSpec, handler: HandlerSpec) -> AgentSpec:
    return replace(agent, handler=handler if agent.handler or agent.grader or handler != HandlerSpec() else None)


def _kind(agent: AgentSpec) -> str | None:
    if agent.handler is None and agent.grader is not None:
        return None
    return _handler(agent).type


def _kind_of_all(agents: Sequence[AgentSpec]) -> str | None:
    return _kind(agents[0]) if agents else None


def _with_kind(agent: AgentSpec, kind: str | None) -> AgentSpec:
    if kind is None:
        return replace(agent, handler=None)
    return _with_handler(agent, _turned(_handler(agent), kind))


def _then_kind(handler: HandlerSpec) -> str | None:
    return handler.then.type if handler.then else None


def _with_then_kind(handler: HandlerSpec, kind: str) -> HandlerSpec:
    return replace(handler, then=_turned(handler.then or HandlerSpec(), kind))


def _turned(old: HandlerSpec, kind: str) -> HandlerSpec:
    """A handler of another kind; it keeps the options both have, and the one inside of `tools`."""
    if old.type == "tools" and kind != "tools" and old.then is not None:
        return _turned(old.then, kind)
    kept: dict[str, Any] = {
        field: getattr(old, field) for field in BUILT_IN_HANDLERS.get(kind, _FIELDS) if field != "then"
    }
    then = (old if old.type != "tools" else old.then) if kind == "tools" else None
    if kind == "csv" and not kept["headings"]:
        kept["headings"] = ("value",)
    return HandlerSpec(type=kind, then=then, extra=old.extra, **kept)
