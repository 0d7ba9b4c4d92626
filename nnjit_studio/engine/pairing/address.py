"""The addresses on which devices of the house may be met: those of private networks alone."""

from __future__ import annotations

import ipaddress
import socket

from nnjit_studio.errors import UserError

NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
        "127.0.0.0/8",
    )
)  # fmt: skip
"""The local authority speaks for these and no other, also if its key is stolen."""
_GIVE = "Give the machine's address in the network of the house, such as 192.168.1.20."


def own_address() -> str:
    """This machine's address in its private network, as the system would choose it.

    No packet is sent: a datagram's socket only looks up the route.

    Raises
    ------
    UserError
        When it has none.
    """
    for there in ("192.168.255.255", "10.255.255.255", "172.31.255.255"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((there, 9))
                found = str(probe.getsockname()[0])
            except OSError:
                continue
        if _private(found) and not found.startswith("127."):
            return found
    raise UserError("This machine has no address in a private network.", _GIVE)


def checked(address: str) -> str:
    """An address that a person gave.

    Raises
    ------
    UserError
        When it is not an IPv4 address of a private network.
    """
    if not _private(address):
        raise UserError(f"{address!r} is not an IPv4 address of a private network.", _GIVE)
    return address


def _private(text: str) -> bool:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return any(address in network for network in NETWORKS)
