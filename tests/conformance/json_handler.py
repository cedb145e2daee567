"""Vectors of json_handler.json: what the JSON handler makes of an answer."""

from collections.abc import Mapping
from typing import cast

from engine.completion import Completion
from engine.conversation import Conversation
from engine.flow.context import Context
from engine.flow.handlers import Again, JsonHandler
from engine.flow.request_loop import corrected
from tests.conformance.cases import Case, Kinds


async def handle_json(case: Case) -> object:
    """Handle one answer after one user turn."""
    given = case.given
    context = Context(cast("Mapping[str, object]", given.get("context") or {}))
    completion = Completion(content=str(given["response"]))
    before = Conversation().add_user("give json")
    result = await JsonHandler(str(given.get("prefix") or "")).handle(completion, context)
    after = corrected(before, completion, result) if isinstance(result, Again) else before
    appended = [[turn.role.value, turn.text] for turn in after.turns[1:]]
    if len(appended) == 2 and appended[1][0] == "user" and appended[1][1].strip():
        appended[1][1] = "<correction>"
    return {"ok": not isinstance(result, Again), "context": dict(context), "appended_turns": appended}


KINDS: Kinds = {"json": handle_json}
