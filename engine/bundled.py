"""Reads the data packages `profiles` and `resources`, from a checkout, a wheel or a zip alike."""

from importlib.resources import files
from importlib.resources.abc import Traversable


def entry(package: str, *parts: str) -> Traversable:
    """A bundled file or folder, for instance `entry("resources", "flows")`."""
    return files(package).joinpath(*parts)


def read_text(package: str, *parts: str) -> str:
    """The text of a bundled UTF-8 file; raises FileNotFoundError."""
    return entry(package, *parts).read_text(encoding="utf-8")


def read_bytes(package: str, *parts: str) -> bytes:
    """The bytes of a bundled file; raises FileNotFoundError."""
    return entry(package, *parts).read_bytes()


def names(package: str, *parts: str, suffix: str) -> list[str]:
    """Sorted names, without the suffix, of the files in a bundled folder."""
    return sorted(
        item.name.removesuffix(suffix) for item in entry(package, *parts).iterdir() if item.name.endswith(suffix)
    )
