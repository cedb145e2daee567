"""Which profiles the agents of a run ask, each looked up once."""

import logging

from engine.completion import Completer
from engine.flow.context import Context
from engine.flow.flow import Flow
from engine.flow.flow_spec import AgentType
from engine.flow.subflow import named_agents
from engine.profile import Category, ModelProfile, ProfileRef

log = logging.getLogger(__name__)


class ProfileResolver:
    """Finds the profiles of one run."""

    def __init__(self, completer: Completer) -> None:
        self._completer = completer
        self._found: dict[str | Category, ModelProfile] = {}

    def resolve(self, ref: ProfileRef) -> tuple[ModelProfile, str]:
        """The profile and how the trace names it; raises ProfileError."""
        if isinstance(ref, ModelProfile):
            return ref, ref.category
        profile = self._found.get(ref)
        if profile is None:
            profile = self._found[ref] = self._completer.resolve(ref)
        return profile, ref.label if isinstance(ref, Category) else profile.category

    def known(self, flow: Flow, context: Context) -> dict[str, str]:
        """Agent → name of the profile that will answer, as far as that is known before a run."""
        known: dict[str, str] = {}
        for name, agent in named_agents(flow):
            if agent.type is not AgentType.PROCESSING_ONLY:
                try:
                    known[name] = self.resolve(agent.model(context))[0].name
                except Exception:
                    log.debug("the profile of %s is not known yet", name, exc_info=True)
        return known
