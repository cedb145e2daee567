"""What each server has to do in a comparison."""

from collections import deque
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from engine.clients.addresses import is_loopback
from engine.comparison_values import Cell, GraderColumn
from engine.profile import ModelProfile


def server_of(profile: ModelProfile) -> tuple[str, bool]:
    """The server that answers for a profile, and whether it is on this machine: then it gets one request at a time."""
    if profile.embedded:
        return "embedded", True
    host = urlsplit(profile.url).hostname or ""
    return urlsplit(profile.url).netloc, is_loopback(host)


@dataclass(slots=True)
class Lane:
    """What one server has to do: first all answers, then to judge, so that a local model is loaded once for each."""

    server: str
    workers: int
    asks: deque[Cell] = field(default_factory=deque)
    grades: deque[tuple[Cell, GraderColumn]] = field(default_factory=deque)
    unreached: int = 0
    """Cells in a row that found nobody."""

    def take(self) -> tuple[Cell, GraderColumn | None] | None:
        """The next piece of work."""
        if self.asks:
            return self.asks.popleft(), None
        return self.grades.popleft() if self.grades else None

    @property
    def waiting(self) -> int:
        """Pieces of work nobody has begun."""
        return len(self.asks) + len(self.grades)
