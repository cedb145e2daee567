"""Reads what the page shows of one prompt, in a thread: texts, problems, the preview."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QCoreApplication

from engine import Problem
from engine.errors import TemplateError
from engine.prompt_check import known_variables, prompt_problems, sample_values, variables
from engine.prompt_library import Prompt, PromptError, PromptLibrary
from workbench.drafts import Place
from workbench.prompts.versions_view import KnownText
from workbench.text_format import when_text

translate = QCoreApplication.translate


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A prompt as it is saved, with the other texts there are of it."""

    prompt: Prompt
    shipped: Prompt | None
    """None for a text that did not come with the program."""
    known: Sequence[KnownText]
    names: Sequence[str]
    """The variables it may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is to say about a text that is being edited."""

    problems: Sequence[Problem]
    samples: Mapping[str, object]
    """Of the variables it uses; empty when it cannot be read."""


def read_source(library: PromptLibrary, place: Place) -> Source:
    """Everything about a prompt; raises PromptError and StorageError."""
    prompt = library.find(*place)
    try:
        shipped = library.shipped(*place)
    except PromptError:
        shipped = None
    saved = translate("Prompts", "Saved text") if not prompt.shipped else translate("Prompts", "Shipped text")
    known = [KnownText(name=saved, icon="ok" if prompt.shipped else "file", text=prompt.text)]
    for version in library.earlier(*place):
        text = version.read().decode("utf-8", "replace")
        when = when_text(version.saved.timestamp())
        name = translate("Prompts", "Saved %1").replace("%1", when)
        tip = version.saved.astimezone().strftime("%H:%M:%S, %d %B %Y")
        known.append(KnownText(name=_unlike(name, known), icon="history", text=text, tip=tip))
    if shipped is not None and not prompt.shipped:
        known.append(KnownText(name=translate("Prompts", "Shipped text"), icon="ok", text=shipped.text))
    names = sorted(known_variables(prompt, library.shipped_group(prompt.key)))
    return Source(prompt=prompt, shipped=shipped, known=tuple(known), names=names)


def _unlike(name: str, known: Sequence[KnownText]) -> str:
    """The name, with a number when another text has it already."""
    taken = {one.name for one in known}
    names = (name if number == 1 else f"{name} ({number})" for number in range(1, len(known) + 2))
    return next(one for one in names if one not in taken)


def examine(library: PromptLibrary, prompt: Prompt, text: str) -> Findings:
    """What is wrong with another text of a prompt, and values for its variables."""
    edited = replace(prompt, text=text, shipped=prompt.shipped and text == prompt.text)
    try:
        samples = sample_values(edited, variables(edited))
    except TemplateError:
        samples = {}
    return Findings(problems=prompt_problems(library, edited), samples=samples)
