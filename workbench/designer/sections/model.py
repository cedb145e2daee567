"""Which model agents ask: category, profile or a profile of their own, and what they ask otherwise of it."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace
from PySide6.QtWidgets import QToolButton, QWidget

from engine import Engine, ModelProfile
from engine.flow.flow_build import asked_profile
from engine.flow.flow_spec import AgentSpec, ModelSpec
from engine.profile import PREDEFINED_CATEGORIES
from engine.profile_keys import KEYS
from workbench.designer.fields import Binding, Choice, ChoiceField, Field, LineField
from workbench.designer.form_section import FormSection, asks_model, translate
from workbench.designer.pairs import PairsPart
from workbench.designer.targets import AgentTarget
from workbench.theme import theme
from workbench.widgets.words import Words

OWN_FIELDS = ("temperature", "maxTokens")
"""Overrides with a field of their own."""


class ModelSection(FormSection):
    """The model, two overrides with fields, the others as rows."""

    several = True
    target: AgentTarget

    def __init__(self, target: AgentTarget, engine: Engine, parent: QWidget) -> None:
        super().__init__("model", translate("Inspector", "Model"), target, parent)
        self._engine = engine
        step = translate("Inspector", "Change model of %1")
        self.model = ChoiceField(
            Binding(target=target, path=".model", read=_chosen, write=_with_chosen, step=step),
            translate("Inspector", "Model"),
            translate("Inspector", "A category, whose profile the installation chooses, or a profile"),
            self,
            choices=self._models,
        )
        self.add(self.model)
        self._hints: dict[str, Words] = {}
        self.temperature = self._override("temperature", translate("Inspector", "Temperature"))
        self.max_tokens = self._override("maxTokens", translate("Inspector", "Max tokens"))
        step = translate("Inspector", "Change overrides of %1")
        self.overrides = PairsPart(
            *(self, target, "model.overrides"),
            read=lambda agent: agent.model.overrides if agent.model else {},
            write=lambda agent, values: _with_overrides(agent, values),
            title=translate("Inspector", "Overrides"),
            step=step,
            hidden=frozenset(OWN_FIELDS),
            value_help=translate("Inspector", "As in a profile; it holds for this agent only"),
            wanted="topP",
        )
        self.inline = PairsPart(
            *(self, target, "model.inline"),
            read=lambda agent: agent.model.inline if agent.model else None,
            write=lambda agent, values: replace(agent, model=replace(agent.model, inline=values)),
            title=translate("Inspector", "Profile of its own"),
            step=translate("Inspector", "Change profile of %1"),
            value_help=translate("Inspector", "As in a profile, but no key: those never stand in a flow"),
            wanted="url",
        )
        self.body.addWidget(self.overrides.list)
        self.body.addWidget(self.inline.list)
        self.plus = self._button(translate("Inspector", "Add override"), self.overrides.add_pair)
        self.plus.setToolTip(
            translate("Inspector", "Any value of a profile: %1 …").replace("%1", ", ".join(_some_keys()))
        )
        self.inline_plus = self._button(translate("Inspector", "Add to its profile"), self.inline.add_pair)
        theme.changed.connect(self._resize)
        self._resize()

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """Agents that ask a model."""
        return bool(agents) and all(asks_model(agent) for agent in agents)

    def all_fields(self) -> list[Field]:
        """Its fields and those of the rows."""
        return [*self.fields, *self.overrides.fields(), *self.inline.fields()]

    def stops(self) -> list[QWidget]:
        """From top to bottom."""
        own = [stop for field in self.fields for stop in field.stops()]
        return [self.head, *own, *self.overrides.stops(), *self.inline.stops(), self.plus, self.inline_plus]

    def refresh(self) -> None:
        """Show the model as it is now."""
        self.overrides.refresh()
        self.inline.refresh()
        super().refresh()
        agents = self.target.items()
        one = len(agents) == 1
        profile = self.profile(agents[0]) if one else None
        of_profile = {
            "temperature": f"{profile.temperature:g}" if profile else "?",
            "maxTokens": f"{profile.max_tokens:,}" if profile else "?",
        }
        for key, hint in self._hints.items():
            hint.setText(translate("Inspector", "profile: %1").replace("%1", of_profile[key]) if one else "")
        self.plus.setVisible(one)
        self.inline_plus.setVisible(bool(one and agents[0].model and agents[0].model.inline is not None))

    def profile(self, agent: AgentSpec) -> ModelProfile | None:
        """The profile that answers for an agent."""
        return asked_profile(agent, self._engine.resolve)

    def category(self, agent: AgentSpec) -> str:
        """The badge of an agent."""
        if not asks_model(agent):
            return ""
        if agent.model is None:
            return "M"
        profile = self.profile(agent)
        return agent.model.category or (profile.category if profile else "")

    def _override(self, key: str, label: str) -> LineField:
        step = translate("Inspector", "Change %2 of %1").replace("%2", key)
        field = LineField(
            Binding(
                target=self.target,
                path=f".model.overrides.{key}",
                read=lambda agent: agent.model.overrides.get(key) if agent.model else None,
                write=lambda agent, value: with_override(agent, key, value),
                step=step,
            ),
            label,
            translate("Inspector", "%1. Empty: as the profile says.").replace("%1", label),
            self,
            parse=lambda text: override_value(key, text),
            show=lambda value: f"{value:g}" if isinstance(value, float) else str(value),
        )
        hint = Words("", self)
        self._hints[key] = hint
        field.row.addWidget(hint, 1)
        self.add(field)
        return field

    def _button(self, text: str, then: Callable[[], None]) -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        button.setAccessibleName(text)
        button.clicked.connect(then)
        self.body.addWidget(button)
        return button

    def _models(self) -> Sequence[Choice]:
        mapping = self._engine.profiles.categories()
        labels = [*PREDEFINED_CATEGORIES, *(label for label in mapping if label not in PREDEFINED_CATEGORIES)]
        choices = []
        for label in labels:
            target = mapping.get(label) or translate("Inspector", "not mapped")
            choices.append(Choice(value=("category", label), text=f"{label}  →  {target}"))
        profiles = self._engine.profiles.names()
        choices += [Choice(value=("profile", name), text=name, icon="profile") for name in profiles]
        choices.append(Choice(value=("inline", ""), text=translate("Inspector", "A profile of its own")))
        known = {choice.value for choice in choices}
        for value in dict.fromkeys(_chosen(agent) for agent in self.target.items()):
            if value not in known and len(self.target.names) == 1:
                text = translate("Inspector", "%1 (missing)").replace("%1", value[1])
                choices.append(Choice(value=value, text=text))
        return choices

    def _resize(self) -> None:
        for field in (self.temperature, self.max_tokens):
            field.line.setMaximumWidth(theme.px(72))


def _some_keys() -> list[str]:
    return [key for key in ("topP", "seed", "maxConcurrent", "presencePenalty") if key in KEYS]


def _chosen(agent: AgentSpec) -> tuple[str, str]:
    model = agent.model or ModelSpec(category="M")
    if model.inline is not None:
        return "inline", ""
    return ("profile", model.profile) if model.profile else ("category", model.category or "M")


def _with_chosen(agent: AgentSpec, chosen: tuple[str, str]) -> AgentSpec:
    kind, name = chosen
    model = ModelSpec(
        category=name if kind == "category" else None,
        profile=name if kind == "profile" else None,
        inline={"provider": "openai-chat", "url": "http://localhost:8080"} if kind == "inline" else None,
        overrides=agent.model.overrides if agent.model else {},
        extra=agent.model.extra if agent.model else {},
    )
    return replace(agent, model=model)


def _with_overrides(agent: AgentSpec, values: dict[str, Any]) -> AgentSpec:
    return replace(agent, model=replace(agent.model or ModelSpec(category="M"), overrides=values))


def with_override(agent: AgentSpec, key: str, value: float | None) -> AgentSpec:
    """The agent with an override, or without it; the place of a key in the file stays where it was."""
    old = agent.model.overrides if agent.model else {}
    values = {name: kept for name, kept in old.items() if name != key}
    if value is not None:
        values = {**old, key: value}
    return agent if values == old else _with_overrides(agent, values)


def override_value(key: str, text: str) -> int | float | None:
    """A typed override, None for an empty text; raises ValueError with what is expected."""
    if not text:
        return None
    if key == "maxTokens":
        if not text.isdecimal() or len(text) > 9 or int(text) < 1:
            fault = translate("AgentForm", "Max tokens: found “%1”, expected a whole number from 1 to 999999999.")
            raise ValueError(fault.replace("%1", text[:20]))
        return int(text)
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:
        fault = translate("AgentForm", "Temperature: found “%1”, expected a number from 0 to 2.")
        raise ValueError(fault.replace("%1", text[:20]))
    return int(value) if value == int(value) else value
