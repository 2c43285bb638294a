"""Where callbacks may go: to the hosts an endpoint lists, and to no address behind which somebody else's house lies. And where
callers come from. Pure."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from falaj.base.errors import Forbidden
from falaj.base.webhooks import LOCALHOST, Target, address_of, embedded, is_here, is_open

_LISTED: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")


def source_of(peer: object) -> str:
    """One caller's address as the network tells it: of IPv6, the half that is given to one house. Empty where there is none."""
    if not isinstance(peer, tuple) or not peer or not isinstance(peer[0], str):
        return ""
    address = address_of(peer[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return peer[0]


def check_listed(target: Target, listed: Iterable[str]) -> None:
    """Raises `Forbidden` unless the endpoint lists the host, with this port or with none. Unencrypted only to this machine."""
    if not any(_names(entry, target) for entry in listed):
        raise Forbidden(
            f"callbacks of this endpoint may not go to {target.authority}: list it with `falaj endpoint configure --callback`"
        )
    if target.scheme != "https" and not is_here(target.host):
        raise Forbidden(f"callbacks go over https, except to this machine itself; {target.host} is another")


def may_connect(target: Target, address: str) -> bool:
    """Whether this is where a listed host may lead: a name to the open internet alone, `localhost` to this machine, and an
    address that is listed as such to itself."""
    peer, literal = address_of(address), address_of(target.host)
    if peer is None:
        return False
    if literal is not None:
        return embedded(peer) == embedded(literal)
    return peer.is_loopback if target.host == LOCALHOST else is_open(address)


def _names(entry: str, target: Target) -> bool:
    found = _LISTED.fullmatch(entry.lower())
    if found is None or (found["port"] and int(found["port"]) != target.port):
        return False
    host = found["six"] or found["host"]
    literal = address_of(host)
    return host == target.host if literal is None else literal == address_of(target.host)
