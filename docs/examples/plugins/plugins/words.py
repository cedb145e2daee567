"""Plug-ins of the flow beside this folder. They run in a process of their own: plain data in, plain data out."""


def word_count(values: dict[str, list]) -> dict[str, object]:
    """Count the words of `text`."""
    return {"words": sum(len(str(text).split()) for text in values.get("text", []))}


def shortest(contexts: list[dict[str, list]]) -> list[int]:
    """Keep the branch with the shortest `draft`."""
    return [min(range(len(contexts)), key=lambda index: len(contexts[index]["draft"][0]))]


def one_line(answer: dict[str, str], values: dict[str, list], options: dict) -> dict[str, object]:
    """Take an answer of one line."""
    lines = answer["content"].strip().splitlines()
    if len(lines) != 1:
        raise ValueError(f"it has {len(lines)} lines, expected one")
    return {options.get("key", "response"): lines[0]}


PLUGINS = {
    "functions": {"word_count": word_count},
    "merges": {"shortest": shortest},
    "handlers": {"one_line": one_line},
}
