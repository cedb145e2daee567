"""Vectors of prompts.json: raw prompts of text completions, and what raw answers hold."""

from collections.abc import Sequence
from typing import cast

from engine.conversation import Role, Turn
from engine.prompt_strategies import strategy_named
from engine.raw_answer import separated
from tests.conformance.cases import Case, Kinds


def prompt(case: Case) -> object:
    """The raw prompt of some turns."""
    turns = cast("Sequence[tuple[str, str]]", case.given["turns"])
    strategy = strategy_named(str(case.given["strategy"]))
    return {"prompt": strategy.render([Turn(role=Role(role), text=text) for role, text in turns])}


def raw(case: Case) -> object:
    """Response and reasoning of a raw answer, read at once and character by character."""
    strategy, text = strategy_named(str(case.given["strategy"])), str(case.given["raw"])
    response, reasoning = separated(strategy.answer_reader(), text)
    pieces, answer = ["", ""], strategy.answer_reader()
    for character in text:
        for channel, piece in enumerate(answer.feed(character)):
            pieces[channel] += piece
    for channel, piece in enumerate(answer.close()):
        pieces[channel] += piece
    if not answer.moved and (pieces[1], pieces[0] or None) != (response, reasoning):
        raise AssertionError(f"in pieces it reads {pieces}")
    return {"response": response, "reasoning": reasoning}


KINDS: Kinds = {"prompt": prompt, "raw": raw}
