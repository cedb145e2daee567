"""Time limits of all requests, kept by one periodic check: a timer for each read would cost more than the reads."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

TICK = 0.1
"""Seconds between two checks while requests are under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds."""

    connect: float
    progress: float
    """Until the first event with content, reasoning or a call, and from one to the next."""
    idle: float
    """Without any byte, after the first."""
    until: float = inf
    """Loop time at which the whole call, with its repeats, must be over."""


class Watch:
    """The clock of one request. Only time spent waiting for the server counts, not that of a slow consumer."""

    __slots__ = (
        "_dog",
        "_last_byte",
        "_last_progress",
        "_limits",
        "_loop",
        "_received",
        "_started",
        "_waiting",
        "connected",
        "expired",
        "interrupt",
        "reused",
    )

    def __init__(self, dog: "Watchdog", limits: Limits) -> None:
        self._dog = dog
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._started = self._last_progress = self._last_byte = self._loop.time()
        self._received = False
        self._waiting = True
        self.connected = asyncio.Event()
        self.reused = False
        """Whether the connection has served a request before."""
        self.expired = ""
        """The limit that passed: connect, first_token, idle or total."""
        self.interrupt: Callable[[], object] = lambda: None
        """Ends the wait under way when a limit passes."""

    def set_connected(self) -> None:
        """Note that the connection stands."""
        self.connected.set()

    def wait(self) -> None:
        """Note that the consumer waits for bytes from now."""
        now = self._loop.time()
        if not self._waiting:
            self._last_progress += now - self._last_byte
            self._last_byte = now
            self._waiting = True

    def waited(self) -> None:
        """Note that bytes have come."""
        self._last_byte = self._loop.time()
        self._received = True
        self._waiting = False

    def progress(self) -> None:
        """Note an event with content, reasoning or a call."""
        self._last_progress = self._loop.time()

    def stop(self) -> None:
        """End the watch."""
        self._dog.forget(self)

    def check(self, now: float) -> None:
        """Interrupt the request when one of its limits has passed."""
        limits = self._limits
        if now > limits.until:
            self.expired = "total"
        elif not self.connected.is_set():
            if now - self._started > limits.connect:
                self.expired = "connect"
        elif self._waiting and now - self._last_progress > limits.progress:
            self.expired = "first_token"
        elif self._waiting and self._received and now - self._last_byte > limits.idle:
            self.expired = "idle"
        if self.expired:
            self.stop()
            self.interrupt()


class Watchdog:
    """Checks all watches, ten times a second while there are any."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, limits: Limits) -> Watch:
        """Start a watch."""
        watch = Watch(self, limits)
        self._watches.add(watch)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK, self._check)
        return watch

    def forget(self, watch: Watch) -> None:
        """Stop checking a watch."""
        self._watches.discard(watch)

    def close(self) -> None:
        """Stop the timer."""
        self._watches.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for watch in list(self._watches):
            watch.check(now)
        self._timer = loop.call_later(TICK, self._check) if self._watches else None
