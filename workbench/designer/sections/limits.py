"""State, limits and notes of agents."""

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from engine.flow.flow_spec import AgentSpec
from workbench.designer.fields import Choice, ChoiceField, LineField, TextField, TickField, bound
from workbench.designer.form_section import FormSection, asks_model, translate
from workbench.designer.targets import AgentTarget
from workbench.designer.typed_values import number, number_text


class LimitsSection(FormSection):
    """Whether it runs, how long a request may take, what is shown and kept of it."""

    several = True

    def __init__(self, target: AgentTarget, parent: QWidget) -> None:
        super().__init__("limits", translate("Inspector", "Run"), target, parent, is_open=False)
        self.state = ChoiceField(
            bound(target, "state", translate("Inspector", "Change state of %1")),
            translate("Inspector", "State"),
            translate("Inspector", "Whether the agent runs"),
            self,
            choices=_states,
            name=translate("Inspector", "State of the agent"),
        )
        self.timeout = LineField(
            bound(target, "timeout", translate("Inspector", "Change time limit of %1")),
            translate("Inspector", "Time limit"),
            translate("Inspector", "Seconds for one request; empty: as the profile says"),
            self,
            name=translate("Inspector", "Time limit of a request in seconds"),
            parse=number(0, above=True),
            show=number_text,
            hint=translate("Inspector", "seconds"),
        )
        self.stream = TickField(
            bound(target, "stream", translate("Inspector", "Change streaming of %1")),
            translate("Inspector", "Show the text as it comes"),
            translate("Inspector", "Off: the answer is shown when it is whole"),
            self,
        )
        self.skip_cache = TickField(
            bound(target, "skip_cache", translate("Inspector", "Change cache of %1")),
            translate("Inspector", "Never answer from the cache"),
            translate("Inspector", "Each run asks anew, and pays anew"),
            self,
        )
        for field in (self.state, self.timeout, self.stream, self.skip_cache):
            self.add(field)

    def refresh(self) -> None:
        """Show what these agents have."""
        super().refresh()
        asks = all(asks_model(agent) for agent in self.target.items())
        for field in (self.timeout, self.stream, self.skip_cache):
            field.setVisible(asks)
        value = self.state.binding.value()
        words = {"mute": translate("Inspector", "muted"), "bypass": translate("Inspector", "bypassed")}
        note = words.get(value, "")
        self.set_note(note)


class NotesSection(FormSection):
    """What people write about an agent for each other."""

    def __init__(self, target: AgentTarget, parent: QWidget) -> None:
        super().__init__("notes", translate("Inspector", "Notes"), target, parent, is_open=False)
        self.notes = TextField(
            bound(target, "notes", translate("Inspector", "Edit notes of %1")),
            "",
            translate("Inspector", "For people: no model reads it"),
            self,
            name=translate("Inspector", "Notes about the agent"),
        )
        self.notes.edit.show_known_keys(None)
        self.add(self.notes)

    def refresh(self) -> None:
        """Show the notes, and in the head how they begin."""
        super().refresh()
        items = self.target.items()
        first = items[0].notes.strip().partition("\n")[0] if len(items) == 1 else ""
        self.set_note(first if len(first) <= 24 else f"{first[:23]}…")

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """One agent."""
        return len(agents) == 1


def _states() -> Sequence[Choice]:
    return [
        Choice(value=None, text=translate("Inspector", "Runs")),
        Choice(
            value="bypass",
            text=translate("Inspector", "Bypassed"),
            help_line=translate("Inspector", "Contexts pass through unchanged"),
        ),
        Choice(
            value="mute",
            text=translate("Inspector", "Muted"),
            help_line=translate("Inspector", "Neither it nor what hangs on it runs"),
        ),
    ]
