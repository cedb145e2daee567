"""Tools that reach outside of a flow, as far as the settings grant: some folders, some hosts (docs/tools.md)."""

import asyncio
import datetime
import ipaddress
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

from engine.atomic_file import read_limited
from engine.conversation import ToolCall, ToolDefinition
from engine.flow.tools import AllowTool, Outcome, Tool, run_tool

FILE_LIMIT = 2_000_000
"""Bytes of a file, and of an answer, that a tool reads."""
LOOPBACK = frozenset({"127.0.0.1", "::1"})

Fetch = Callable[[str, int, frozenset[str]], Awaitable[tuple[int, bytes, str]]]
"""Gets a page: address, limit in bytes, and the network addresses that are asked although they are private.

Gives its status, as many bytes, and where a redirect leads, which is not followed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """What tools of a run may reach."""

    folders: tuple[Path, ...] = ()
    hosts: frozenset[str] = frozenset()
    """Names as in addresses, in lower case, with a port where it is not the usual one."""
    fetch: Fetch | None = field(default=None, repr=False)

    @classmethod
    def named(cls, folders: Iterable[str], hosts: Iterable[str], fetch: Fetch) -> "Grants":
        """Grant what settings name."""
        return cls(folders=tuple(map(Path, folders)), hosts=frozenset(map(str.lower, hosts)), fetch=fetch)


NO_GRANTS = Grants()
current_grants: ContextVar[Grants] = ContextVar("current_grants", default=NO_GRANTS)
"""What the tools of the run under way may reach; nothing outside of runs."""


async def call_granted(tool: Tool, arguments: str, grants: Grants, allow: AllowTool) -> Outcome:
    """Call a tool as a model would: arguments as JSON, checked; whatever goes wrong is told in the outcome.

    `allow` is asked before a tool with side effects runs.
    """
    surroundings = copy_context()
    surroundings.run(current_grants.set, grants)
    call = ToolCall(id="call", name=tool.name, arguments=arguments)
    return await asyncio.create_task(run_tool(tool, call, allow), context=surroundings)


def clock(timezone: str = "") -> str:
    """Tell date and time, `Tuesday, 2026-03-03 14:05:00 +01:00`; raises ValueError for an unknown time zone."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        zone = ZoneInfo(timezone) if timezone else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {timezone!r}; expected one like Europe/Berlin") from None
    now = datetime.datetime.now(datetime.UTC).astimezone(zone)
    return f"{now:%A}, {now.isoformat(sep=' ', timespec='seconds')}"


async def read_file(path: str) -> str:
    """Read a text file of a granted folder; raises ValueError with the reason."""
    return await asyncio.to_thread(_read, path, current_grants.get().folders)


def _read(name: str, folders: tuple[Path, ...]) -> str:
    if not folders:
        raise ValueError("no folder is granted; the settings say which (tool_folders)")
    for folder in folders:
        # Symbolic links are followed first, so that none leads out.
        root = Path(os.path.realpath(folder))
        file = Path(os.path.realpath(root / name))
        if not file.is_relative_to(root):
            continue
        if file.is_file():
            try:
                return read_limited(file, FILE_LIMIT).decode("utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"{name} is no UTF-8 text") from None
    shown = ", ".join(str(folder) for folder in folders)
    raise ValueError(f"there is no file {name!r} in the granted folders ({shown})")


async def http_get(url: str) -> str:
    """Get a text from a granted host; redirects are told, not followed. Raises ValueError or RequestError."""
    grants = current_grants.get()
    host = _host(url)
    if grants.fetch is None or host not in grants.hosts:
        known = ", ".join(sorted(grants.hosts)) or "none"
        raise ValueError(f"the host {host} is not granted (tool_hosts); granted: {known}")
    status, body, target = await grants.fetch(url, FILE_LIMIT, _private(grants.hosts))
    moved = f" moved to {urljoin(url, target)}" if target and 300 <= status < 400 else ""
    return f"{status}{moved}\n{body[:FILE_LIMIT].decode('utf-8', 'replace')}"


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme.lower() not in ("http", "https") or not host or parts.username is not None:
        raise ValueError("expected an address http://… or https://… without user and password")
    host = f"[{host}]" if ":" in host else host
    return host if port is None or port == {"http": 80, "https": 443}[parts.scheme.lower()] else f"{host}:{port}"


def _private(hosts: frozenset[str]) -> frozenset[str]:
    """The network addresses among granted hosts: a name that leads to one of a private network is not enough."""
    found = set()
    for host in hosts:
        name = urlsplit(f"//{host}").hostname or ""
        with suppress(ValueError):
            found.add(str(ipaddress.ip_address(name)))
        if name == "localhost":
            found |= LOOPBACK
    return frozenset(found)


CLOCK: Final = Tool(
    definition=ToolDefinition(
        name="clock",
        description="Tells the date and time now.",
        parameters={
            "type": "object",
            "properties": {"timezone": {"type": "string", "description": "For example Europe/Berlin; missing: here"}},
            "additionalProperties": False,
        },
    ),
    function=clock,
    timeout=5.0,
)
READ_FILE: Final = Tool(
    definition=ToolDefinition.of_texts("read_file", "Reads a text file.", {"path": "Its path in the granted folder"}),
    function=read_file,
    timeout=30.0,
    side_effects=True,
)
HTTP_GET: Final = Tool(
    definition=ToolDefinition.of_texts("http_get", "Gets a page from the web.", {"url": "The address, https://…"}),
    function=http_get,
    timeout=60.0,
    side_effects=True,
)
