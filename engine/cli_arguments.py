"""The options every command takes, read without loading any command: the window starts without them."""

from collections.abc import Sequence

HOISTED = {"--quiet": 0, "--offline": 0, "--data-dir": 1}
"""Options of every command, with the number of values they take: they may stand anywhere."""


def hoist(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of every command, and all the rest, each in order."""
    front: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        name = argument.partition("=")[0]
        if name in HOISTED:
            front.append(argument)
            if HOISTED[name] and "=" not in argument:
                front += [value] if (value := next(waiting, None)) is not None else []
        elif argument == "--":
            rest += ["--", *waiting]
        else:
            rest.append(argument)
    return front, rest


def value_of(options: Sequence[str], name: str) -> str | None:
    """What an option was given, as `--name VALUE` or `--name=VALUE`."""
    for index, option in enumerate(options):
        if option == name and index + 1 < len(options):
            return options[index + 1]
        if option.startswith(f"{name}="):
            return option.partition("=")[2]
    return None
