"""`workbench prompts`: the prompts of agents and tools, what differs from the shipped texts, and taking that back."""

import difflib
from typing import Annotated

import typer

from engine.cli_input import usage
from engine.cli_options import Json, Options, print_json
from engine.prompt_check import prompt_problems
from engine.prompt_library import Prompt, PromptEntry, PromptError, PromptLibrary

prompts_app = typer.Typer(help="The prompts of agents and tools.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(help="The key of a prompt; `workbench prompts list` shows them.")]
Language = Annotated[str, typer.Option("--language", help="A language or variant.")]


@prompts_app.command("list")
def prompts_list(context: typer.Context, as_json: Json = False) -> None:
    """List the prompts by language, and which differ from the shipped text."""
    options: Options = context.obj
    entries = PromptLibrary(options.folders.prompts).entries()
    if as_json:
        print_json([_entry_json(entry) for entry in entries])
        return
    options.terminal.table([(entry.key, entry.language, _state(entry)) for entry in entries])


@prompts_app.command("show")
def prompts_show(context: typer.Context, key: Key, language: Language = "en", as_json: Json = False) -> None:
    """Show the text that runs get, and what is wrong with it."""
    options: Options = context.obj
    library = PromptLibrary(options.folders.prompts)
    prompt = _found(library, key, language)
    problems = prompt_problems(library, prompt)
    if as_json:
        told = [{name: getattr(one, name) for name in ("severity", "message", "line", "column")} for one in problems]
        document = {"key": key, "language": prompt.language, "version": prompt.version, "shipped": prompt.shipped}
        print_json({**document, "text": prompt.text, "problems": told})
        return
    options.terminal.result(prompt.text, end="" if prompt.text.endswith("\n") else "\n")
    for problem in problems:
        options.terminal.note(str(problem))


@prompts_app.command("diff")
def prompts_diff(context: typer.Context, key: Key, language: Language = "en", as_json: Json = False) -> None:
    """Show how a text differs from the shipped one, as a unified diff; nothing when it does not."""
    options: Options = context.obj
    library = PromptLibrary(options.folders.prompts)
    prompt = _found(library, key, language)
    try:
        shipped = library.shipped(key, prompt.language).text
    except PromptError:
        shipped = ""
    names = f"shipped/{key}.{prompt.language}", f"yours/{key}.{prompt.language}"
    lines = difflib.unified_diff(shipped.splitlines(), prompt.text.splitlines(), *names, lineterm="")
    text = "\n".join(lines)
    if as_json:
        print_json({"key": key, "language": prompt.language, "differs": shipped != prompt.text, "diff": text})
    elif text:
        options.terminal.result(text)


@prompts_app.command("reset")
def prompts_reset(context: typer.Context, key: Key, language: Language = "en", as_json: Json = False) -> None:
    """Take the shipped text again; yours stays among the versions that the window shows."""
    options: Options = context.obj
    library = PromptLibrary(options.folders.prompts)
    own = any(entry.own for entry in library.entries() if (entry.key, entry.language) == (key, language))
    if not own:
        _found(library, key, language)
    library.reset(key, language)
    if as_json:
        print_json({"key": key, "language": language, "reset": own})
    else:
        options.terminal.note("The shipped text holds again." if own else "There is no text of yours.")


def _found(library: PromptLibrary, key: str, language: str) -> Prompt:
    try:
        return library.find(key, language)
    except PromptError:
        usage(f'KEY: found "{key}", expected one that `workbench prompts list` shows.')


def _state(entry: PromptEntry) -> str:
    if entry.fault:
        return entry.fault
    if not entry.shipped:
        return "yours"
    return "differs" if entry.differs else "shipped"


def _entry_json(entry: PromptEntry) -> dict[str, object]:
    state = {"shipped": entry.shipped, "own": entry.own, "differs": entry.differs}
    return {"key": entry.key, "language": entry.language, **state, "fault": entry.fault or None}
