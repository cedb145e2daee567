"""Command line: prints each failure, closes with `N passed, N failed`, exits with 1 when something failed."""

import argparse
import asyncio
import inspect
import json
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from tests.conformance.cases import Case, Runner, differences
from tests.conformance.wire import SUFFIX, fixture_at, run_fixture

RUNNER_MODULES: tuple[str, ...] = (
    "csv_handler",
    "json_handler",
    "messages_anthropic",
    "messages_openai",
    "prompts",
    "sensitive",
    "statistics",
    "struct_parse",
    "templates",
    "trace",
    "truncation",
)
"""Names of the modules here that have `KINDS`; a kind that none of them knows is a failure."""


def runners() -> dict[str, Runner]:
    """Kind → runner, of all modules."""
    found: dict[str, Runner] = {}
    for name in RUNNER_MODULES:
        kinds = import_module(f"tests.conformance.{name}").KINDS
        if twice := found.keys() & kinds.keys():
            raise RuntimeError(f"{name} repeats the kinds {sorted(twice)}")
        found.update(kinds)
    return found


def json_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The `.json` files among the paths and below the folders, in order of their names."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.json"))
        elif path.exists():
            yield path
        else:
            raise SystemExit(f"{path} does not exist")


def cases_of(path: Path) -> list[Case]:
    """The vectors in a file; none when it is no list of objects with `given` and `expect`."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, list) or not all(
        isinstance(item, dict) and {"given", "expect"} <= item.keys() for item in data
    ):
        return []
    return [
        Case(
            path=path,
            id=str(item.get("id", index)),
            given=item["given"],
            expect=item["expect"],
            note=str(item.get("note", "")),
        )
        for index, item in enumerate(data)
    ]


async def run_case(case: Case, kinds: Mapping[str, Runner]) -> list[str]:
    """What is wrong with one vector; empty when it passes."""
    if case.kind not in kinds:
        return [f"unknown kind {case.kind!r}"]
    try:
        actual = kinds[case.kind](case)
        if inspect.isawaitable(actual):
            actual = await actual
    except Exception as error:  # whatever a runner raises is this case's failure, the others go on
        return [f"raised {type(error).__name__}: {error}"]
    found = differences(case.expect, actual)
    return [*found, f"expected {_short(case.expect)}", f"actual   {_short(actual)}"] if found else []


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:2000]


async def results(path: Path, kinds: Mapping[str, Runner]) -> AsyncIterator[tuple[str, list[str]]]:
    """Name and problems of each thing to run in a file."""
    if not path.name.endswith(SUFFIX):
        for case in cases_of(path):
            yield f"{path} {case.id}", await run_case(case, kinds)
    elif (fixture := fixture_at(path)) is None:
        yield str(path), ["its body is missing"]
    elif fixture.runs:
        yield str(path), await run_fixture(fixture)


async def main(paths: list[Path]) -> int:
    """Run everything found; the exit status."""
    passed = failed = 0
    kinds = runners()
    for path in json_files(paths):
        async for name, problems in results(path, kinds):
            passed, failed = passed + (not problems), failed + bool(problems)
            if problems:
                print(f"FAILED {name}", *problems, sep="\n    ")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="vector files, wire fixtures, or folders of them")
    sys.exit(asyncio.run(main(parser.parse_args().paths)))
