"""Vectors of templates.json: expansion and splitting, and the turns of each agent type."""

from collections.abc import Mapping
from typing import cast

from engine.conversation import Conversation, Role, Turn
from engine.flow.agent import Agent
from engine.flow.context import Context
from engine.flow.conversation_setup import set_up
from engine.flow.executor import Walk
from engine.flow.flow import Flow
from engine.flow.flow_spec import AgentType
from tests.conformance.cases import Case, Kinds
from tests.helpers.scripted_completer import ScriptedCompleter


async def expand_template(case: Case) -> object:
    """Walk one agent that asks nothing but sets up its conversation, and look at the splits it made."""
    given = case.given
    context = Context(cast("Mapping[str, object]", given["context"]))
    agent = Agent("A", AgentType.COMPLETION, template=cast("str | None", given["template"]) or "")
    walk = Walk(
        Flow(name="template", agents=(agent,)),
        context,
        ScriptedCompleter(["an answer"], max_concurrent=1),
        run_id="1",
        emit=lambda event: None,
    )
    results = await walk.run()
    return {
        "splits": [
            {
                "text": result.conversation.turns[-1].text if result.conversation and result.conversation.turns else "",
                "graph": [text for kind, text in result.trace.entries() if kind == "split"],
                "context": {key: values for key, values in result.items() if key != "response"},
            }
            for result in results
        ]
    }


def set_up_conversation(case: Case) -> object:
    """The turns an agent would send."""
    given = case.given
    turns = cast("list[tuple[str, str]] | None", given["existing"])
    existing = None if turns is None else Conversation(tuple(Turn(role=Role(role), text=text) for role, text in turns))
    kind = AgentType(str(given["agent_type"]))
    system, text = (cast("str | None", given[key]) or "" for key in ("system", "text"))
    return {"turns": [[turn.role.value, turn.text] for turn in set_up(existing, kind, system, text).turns]}


KINDS: Kinds = {"template": expand_template, "conversation": set_up_conversation}
