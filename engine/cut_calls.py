"""Calls whose connection was closed before their answer was whole: noted where it happens, for who wants to know."""

from contextvars import ContextVar
from dataclasses import dataclass

from engine.profile import ModelProfile


@dataclass(frozen=True, slots=True)
class CutCall:
    """A request that was under way."""

    profile: ModelProfile
    """With the address and the key that were used."""
    url: str
    """Where the request went."""
    llama: bool
    """Whether the answer said that it comes from a llama.cpp server."""


current_cuts: ContextVar[list[CutCall] | None] = ContextVar("current_cuts", default=None)
"""Gets the calls that are cut in this context; None: nobody wants to know."""
