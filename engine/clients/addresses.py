"""Which network addresses are asked; judged at the moment of connecting, so that no name leads elsewhere meanwhile."""

import errno
import ipaddress
import socket
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA = frozenset(map(ipaddress.ip_address, ("169.254.169.254", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254")))
"""Where clouds tell a machine its secrets."""
REMEMBERED = 1024
"""Hosts and URLs whose judgement is remembered."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(PermissionError):
    """A host leads to an address that is not asked."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EACCES, reason)

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(frozen=True, slots=True)
class AddressRule:
    """Link-local addresses and those of `METADATA` are refused always, others of a private network on demand."""

    public_only: bool = False
    granted: frozenset[str] = frozenset()
    """Addresses of private networks that are asked nevertheless."""

    def check(self, address: str) -> None:
        """Raise AddressRefused for an address that is not asked."""
        found = _inner(ipaddress.ip_address(address.partition("%")[0]))
        if found.is_link_local or found in METADATA:
            raise AddressRefused(f"{found} is an address of the machine's own network, which is never asked")
        if self.public_only and not _is_public(found) and str(found) not in self.granted:
            raise AddressRefused(f"{found} is an address of a private network, which is not granted")

    @lru_cache(maxsize=REMEMBERED)  # noqa: B019 - rules are few and live as long as the program
    def refusal(self, host: str) -> str:
        """Why a host that is such an address, in whichever spelling, is not asked; names are not looked up."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            try:
                address = ipaddress.IPv4Address(socket.inet_aton(host))  # 2852039166, 0xa9fea9fe, 169.254.43518
            except OSError:
                return ""
        try:
            self.check(str(address))
        except AddressRefused as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a URL says of where it leads; empty for what is no http or https address."""

    scheme: str = ""
    host: str = ""
    """Without its port."""
    netloc: str = ""
    local: bool = False
    """Whether it is this machine."""


@lru_cache(maxsize=REMEMBERED)
def target_of(url: str) -> Target:
    """Take a URL apart: once, as taking it apart costs as much as much of a request."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return Target()
    if parts.scheme not in ("http", "https") or not host:
        return Target()
    return Target(scheme=parts.scheme, host=host, netloc=parts.netloc, local=is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, without a name lookup."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 one wraps, where it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)
