"""`workbench profiles`: profiles and categories; keys are never printed."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.atomic_file import read_limited, write_atomically
from engine.cli_input import usage
from engine.cli_options import Json, Options, finish, print_json, print_problems, problem_json
from engine.cli_text import DONE, FAILED, INVALID, NO_SERVER
from engine.profile_store import SUFFIX, ProfileEntry, ProfileStore, check_file

if TYPE_CHECKING:
    from engine.profile_probe import Check

profiles_app = typer.Typer(help="Profiles and categories; keys are never printed.", no_args_is_help=True)


@profiles_app.command("list")
def profiles_list(context: typer.Context, as_json: Json = False) -> None:
    """List the profiles and which category each serves."""
    options: Options = context.obj
    store = options.profiles()
    entries = store.profiles()
    if as_json:
        print_json([_profile_json(entry, store) for entry in entries])
        return
    rows = [("PROFILE", "CATEGORIES", "PROVIDER", "MODEL", "STATE")]
    for entry in entries:
        profile = entry.profile
        state = "ready" if entry.usable else "key missing" if profile else "invalid"
        rows.append(
            (
                entry.name,
                " ".join(_served(entry, store)),
                profile.provider if profile else "",
                (profile.model or "(first listed)") if profile else "",
                state,
            )
        )
    options.terminal.table(rows)


@profiles_app.command("show")
def profiles_show(context: typer.Context, name: str, as_json: Json = False) -> None:
    """Show a profile as written; keys are hidden."""
    options: Options = context.obj
    store = options.profiles()
    entry = store.entry(name)
    if as_json:
        print_json(_profile_json(entry, store))
    else:
        options.terminal.table([(key, value) for key, value in entry.settings])
    for problem in entry.problems:
        options.terminal.note(str(problem))


@profiles_app.command("validate")
def profiles_validate(
    context: typer.Context,
    paths: Annotated[list[Path] | None, typer.Argument(help="Profile files; none: all known profiles.")] = None,
    as_json: Json = False,
) -> None:
    """Print every problem of profiles, with file, line and key."""
    options: Options = context.obj
    if paths:
        problems = [problem for path in paths for problem in check_file(path).problems]
    else:
        problems = options.profiles().problems()
    print_problems(problems, options.terminal, as_json=as_json)


@profiles_app.command("test")
def profiles_test(context: typer.Context, name: str, as_json: Json = False) -> None:
    """Test a profile on its server, step by step; two short answers are paid for."""
    finish(_test(context.obj, name, as_json=as_json))


async def _test(options: Options, name: str, *, as_json: bool) -> int:
    from engine.profile_probe import probe

    def tell(check: "Check") -> None:
        if not as_json:
            options.terminal.result(_check_text(check))

    async with options.engine() as engine:
        result = await probe(engine, name, tell)
    if as_json:
        print_json(
            {
                "profile": name,
                "passed": result.passed,
                "checks": [asdict(check) for check in result.checks],
                "models": list(result.models),
                "first_token": result.first_token,
                "reading": result.reading,
                "writing": result.writing,
            }
        )
    reached = next(check for check in result.checks if check.step == "reach")
    if result.passed:
        return DONE
    return NO_SERVER if reached.outcome == "failed" else FAILED


def _check_text(check: "Check") -> str:
    """`✓ reach 0.1 s: The server answers.`"""
    sign = {"passed": "✓", "warning": "⚠", "failed": "✗", "skipped": "–"}[check.outcome]
    seconds = "" if check.seconds is None else f" {check.seconds:.1f} s"
    hint = f"\n    {check.hint}" if check.hint else ""
    return f"{sign} {check.step}{seconds}: {check.text}{hint}"


@profiles_app.command("map")
def profiles_map(
    context: typer.Context,
    category: Annotated[str, typer.Argument(help="S, M, L, XL, HOT, COLD, or a category of your own.")],
    profile: Annotated[str | None, typer.Argument(help="The profile that answers for it.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Take back your own line for the category.")] = False,
    as_json: Json = False,
) -> None:
    """Choose which profile answers for a category; without a profile, show which one does."""
    options: Options = context.obj
    if reset and profile:
        usage("--reset takes no profile.")
    store = options.profiles()
    if profile or reset:
        store.map_category(category, profile)
    answering = store.categories().get(category)
    if as_json:
        print_json({"category": category, "profile": answering})
    elif answering:
        options.terminal.result(f"{category}={answering}")
    else:
        options.terminal.note(f"No profile answers for {category}.")
    raise typer.Exit(DONE if answering or reset else INVALID)


@profiles_app.command("import")
def profiles_import(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A JoyAgent-JDGenie configuration, application.yml for instance.")],
    keys: Annotated[bool, typer.Option("--keys", help="Write keys into the files, in plain.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace profiles of yours with the same names.")] = False,
    as_json: Json = False,
) -> None:
    """Make a profile of each model of an llm block (llm.default and llm.settings)."""
    from engine.profile_import import LARGEST, import_llm_block

    options: Options = context.obj
    found = import_llm_block(read_limited(file, LARGEST + 1), str(file), keys=keys)
    folder = options.folders.profiles
    taken = [one.name for one in found if (folder / f"{one.name}{SUFFIX}").exists()]
    if taken and not force:
        usage(f"There are profiles of these names: {', '.join(taken)}. --force replaces them.")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for one in found:
        write_atomically(folder / f"{one.name}{SUFFIX}", one.text)
        if one.variable:
            options.terminal.note(f"{one.name}: set the environment variable {one.variable} to its key.")
        if one.left_out:
            options.terminal.note(f"{one.name}: has no counterpart here: {', '.join(one.left_out)}.")
    store = options.profiles()
    problems = [problem for one in found for problem in store.entry(one.name).problems if problem.path != "apiKey"]
    for problem in problems:
        options.terminal.note(str(problem))
    if as_json:
        print_json([{"name": one.name, "variable": one.variable, "left_out": list(one.left_out)} for one in found])
    else:
        options.terminal.table([("PROFILE", "KEY"), *((one.name, one.variable) for one in found)])


def _served(entry: ProfileEntry, store: ProfileStore) -> list[str]:
    """The categories a profile answers for."""
    return [label for label, name in store.categories().items() if name == entry.name]


def _profile_json(entry: ProfileEntry, store: ProfileStore) -> dict[str, object]:
    return {
        "name": entry.name,
        "bundled": entry.bundled,
        "usable": entry.usable,
        "categories": _served(entry, store),
        "settings": dict(entry.settings),
        "problems": [problem_json(problem) for problem in entry.problems],
    }
