"""Vectors of csv_handler.json: what the CSV handlers make of an answer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

from engine.completion import Completion
from engine.conversation import Conversation
from engine.flow.context import Context
from engine.flow.csv_handlers import CsvHandler, CsvRowsHandler
from engine.flow.handlers import Again, Handler
from engine.flow.request_loop import corrected
from tests.conformance.cases import Case, Kinds


@dataclass(frozen=True)
class TestObject:
    name: str | None
    tags: list[str]
    value: int | None


@dataclass(frozen=True)
class Flags:
    id: str
    ok: bool | None
    score: float | None


@dataclass(frozen=True)
class Prim:
    n: int
    s: str | None


RECORDS: Mapping[str, type] = {"TestObject": TestObject, "Flags": Flags, "Prim": Prim}


def _handler(given: Mapping[str, object]) -> Handler:
    separator = str(given.get("separator", ";"))
    if "record" in given:
        return CsvRowsHandler(
            RECORDS[str(given["record"])],
            str(given["key"]),
            separator=separator,
            list_separator=cast("str | None", given.get("list_separator", ",")),
        )
    headings = cast("list[str]", given["headings"])
    return CsvHandler(headings, str(given.get("prefix") or ""), separator=separator)


async def handle_csv(case: Case) -> object:
    """Handle one answer after one user turn."""
    given, expect = case.given, cast("Mapping[str, object]", case.expect)
    try:
        handler = _handler(given)
    except ValueError:
        return {"raises": True}
    context = Context(cast("Mapping[str, object]", given.get("context") or {}))
    completion = Completion(content=str(given["response"]))
    before = Conversation().add_user("give csv")
    result = await handler.handle(completion, context)
    after = corrected(before, completion, result) if isinstance(result, Again) else before
    appended = [[turn.role.value, turn.text] for turn in after.turns[1:]]
    found: dict[str, object] = {
        "ok": not isinstance(result, Again),
        "context": {
            key: [asdict(value) if type(value) in RECORDS.values() else value for value in values]  # type: ignore[call-overload]
            for key, values in context.items()
        },
    }
    if "correction_mentions" in expect:
        wanted = cast("list[str]", expect["correction_mentions"])
        found["correction_mentions"] = [text for text in wanted if text in appended[-1][1]]
    if len(appended) == 2 and appended[1][0] == "user" and appended[1][1].strip():
        appended[1][1] = "<correction>"
    return found | {"appended_turns": appended}


KINDS: Kinds = {"csv": handle_csv}
