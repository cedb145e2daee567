"""Plug-ins as an installed package: they run in the process of the workbench and may use its classes."""

from engine import Completion, Context, Handler
from engine.flow.handlers import DONE, Again, HandlerResult


def shout(values: dict[str, list]) -> dict[str, object]:
    """Turn `text` into capital letters."""
    return {"text": [str(text).upper() for text in values["text"]]}


async def longest(contexts: list[dict[str, list]]) -> list[int]:
    """Keep the branch with the longest `response`."""
    return [max(range(len(contexts)), key=lambda index: len(contexts[index]["response"][0]))]


class BulletPoints(Handler):
    """The lines that begin with a hyphen go to one key, as a list."""

    def __init__(self, key: str = "points") -> None:
        self.key = key

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Store the points; asks again when there are none."""
        points = [line[1:].strip() for line in completion.content.splitlines() if line.startswith("-")]
        if not points:
            return Again("it has no bullet points", "Answer with lines that begin with a hyphen.")
        context[self.key] = list(points)
        return DONE
