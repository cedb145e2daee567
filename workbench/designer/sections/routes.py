"""Where contexts go next: the routes of an agent, tried from the first to the last."""

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from engine.flow.flow_spec import RouteSpec
from workbench.designer.fields import Choice, ChoiceField, Field, bound
from workbench.designer.form_section import ExpressionField, FormSection, Keys, ListPart, RowFields, translate
from workbench.designer.targets import AgentTarget, RowTarget


class RoutesSection(FormSection):
    """The ordered table: condition, target, verdict."""

    target: AgentTarget

    def __init__(self, target: AgentTarget, parent: QWidget) -> None:
        super().__init__("routes", translate("Inspector", "Routes"), target, parent)
        self._words = self.say("")
        self.part = ListPart(
            *(self, target, "routes"),
            title=self.head.text(),
            kind=translate("Inspector", "Route %1"),
            make=self._make,
            steps=(
                translate("Inspector", "Add route to %1"),
                translate("Inspector", "Remove route of %1"),
                translate("Inspector", "Reorder routes of %1"),
            ),
        )
        self.body.addWidget(self.part.list)
        self.plus = self.add_button("plus", translate("Inspector", "Add a route"))
        self.plus.clicked.connect(self._add)

    def all_fields(self) -> list[Field]:
        """Those of all routes."""
        return self.part.fields()

    def stops(self) -> list[QWidget]:
        """Head, button, and the routes in order."""
        return [self.head, self.plus, *self.part.stops()]

    def refresh(self) -> None:
        """Show the routes as they are now."""
        self.part.refresh()
        count = len(self.part.entries())
        self.set_note(str(count) if count else "")
        text = translate("Inspector", "The first route whose condition holds, or that has none, is taken.")
        if not count:
            text = translate("Inspector", "No route: the flow ends here.")
        self._words.setText(text)
        self.show_keys(self.keys)

    def show_keys(self, keys: Keys) -> None:
        """Know these keys, and the verdict of a grader."""
        self.keys = keys
        for field in self.all_fields():
            if isinstance(field, ExpressionField):
                field.show_keys(keys, passed=True)

    def _add(self) -> None:
        agent = self.target.agent
        routes = agent.routes if agent else ()
        # Behind a route without condition no other is tried.
        last = len(routes)
        if routes and routes[-1].when is None:
            last -= 1
        when = "passed" if agent is not None and agent.grader is not None else ""
        self.part.add(RouteSpec(when=(when or "true") if routes else None), at=last)

    def _make(self, target: RowTarget, parent: QWidget) -> RowFields:
        row = RowFields(target, parent)
        row.add(
            ExpressionField(
                bound(target, "when", translate("Inspector", "Edit route of %1")),
                translate("Inspector", "When"),
                translate("Inspector", "An expression, `score | int < 50` for instance; empty: always"),
                row,
                name=translate("Inspector", "Condition of the route"),
            )
        )
        row.add(
            ChoiceField(
                bound(target, "to", translate("Inspector", "Change route of %1")),
                translate("Inspector", "Go to"),
                translate("Inspector", "The agent that goes on"),
                row,
                choices=self._targets,
                name=translate("Inspector", "Target of the route"),
                unknown=translate("Inspector", "%1 (missing)"),
            )
        )
        row.add(
            ChoiceField(
                bound(target, "graded", translate("Inspector", "Change verdict of %1")),
                translate("Inspector", "Mark"),
                translate("Inspector", "How the trace marks a context that goes this way"),
                row,
                choices=verdicts,
                name=translate("Inspector", "Verdict of the route"),
            )
        )
        return row

    def _targets(self) -> Sequence[Choice]:
        names = [one.name for one in self.target.editor.document.spec.agents]
        end = Choice(value=None, text=translate("Inspector", "(end)"))
        return [*(Choice(value=name, text=name) for name in names), end]


def verdicts() -> Sequence[Choice]:
    """How a route may mark the trace."""
    return [
        Choice(value=None, text=translate("Inspector", "no mark")),
        Choice(value=True, text=translate("Inspector", "✓ passed")),
        Choice(value=False, text=translate("Inspector", "✗ failed")),
    ]
