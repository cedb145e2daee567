"""Parts of JSON that came from a server: of the type that is meant, else empty."""


def text_of(value: object) -> str:
    """The text, "" for anything else."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> dict[str, object]:
    """The object, {} for anything else."""
    return value if isinstance(value, dict) else {}


def objects_of(value: object) -> list[dict[str, object]]:
    """The objects of a list; what else is in it is left out, and nothing is in what is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
