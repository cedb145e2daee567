"""Which network addresses are asked: link-local ones never, private ones for models, for tools only when granted."""

import pytest

from engine.clients.addresses import AddressRefused, AddressRule

METADATA = [
    "169.254.169.254",
    "169.254.0.1",
    "100.100.100.200",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "64:ff9b::a9fe:a9fe",
    "2001:0:4136:e378:8000:63bf:5601:5601",
]
PRIVATE = [
    "127.0.0.1",
    "::1",
    "10.0.0.5",
    "172.16.3.4",
    "192.168.1.1",
    "100.64.0.1",
    "0.0.0.0",
    "::",
    "fd12::1",
    "::ffff:10.0.0.5",
    "224.0.0.1",
    "255.255.255.255",
]


@pytest.mark.parametrize("address", METADATA)
def test_addresses_of_the_own_network_are_never_asked(address: str) -> None:
    for rule in (AddressRule(), AddressRule(public_only=True, granted=frozenset({address, "169.254.169.254"}))):
        with pytest.raises(AddressRefused, match="never asked"):
            rule.check(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_a_grant_where_only_public_ones_are_asked(address: str) -> None:
    AddressRule().check(address)
    with pytest.raises(AddressRefused, match="not granted"):
        AddressRule(public_only=True, granted=frozenset({"10.9.9.9"})).check(address)
    AddressRule(public_only=True, granted=frozenset({address.removeprefix("::ffff:")})).check(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
def test_public_addresses_are_asked(address: str) -> None:
    AddressRule(public_only=True).check(address)
