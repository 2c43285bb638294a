"""Where callbacks may go: URLs, the hosts an endpoint lists, and addresses behind which somebody else's house lies. And where
callers come from. Pure."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from falaj.base.errors import Forbidden, Invalid
from falaj.base.values import value

LOCALHOST: Final = "localhost"
_LONGEST: Final = 2000
_PORTS: Final = {"https": 443, "http": 80}
_PRINTED: Final = re.compile(r"[\x21-\x7e]+")
_LISTED: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@value
class Target:
    """`host` is in small letters; an address is without brackets. `path` has the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """Raises `Invalid` for what is no address of the web, and for one that carries a password or a fragment."""
    if len(url) > _LONGEST or _PRINTED.fullmatch(url) is None:
        raise Invalid(f"a callback is a URL of at most {_LONGEST} printable letters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid(f"{url!r:.200} is not a URL that a callback can go to") from None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or "#" in url or port == 0:
        raise Invalid(f"{url!r:.200} is not a URL that a callback can go to: write https://host/path")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme=parts.scheme, host=parts.hostname, port=port or _PORTS[parts.scheme], path=path)


def source_of(peer: object) -> str:
    """One caller's address as the network tells it: of IPv6, the half that is given to one house. Empty where there is none."""
    if not isinstance(peer, tuple) or not peer or not isinstance(peer[0], str):
        return ""
    address = _address(peer[0].partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return peer[0]


def check_listed(target: Target, listed: Iterable[str]) -> None:
    """Raises `Forbidden` unless the endpoint lists the host, with this port or with none. Unencrypted only to this machine."""
    if not any(_names(entry, target) for entry in listed):
        raise Forbidden(
            f"callbacks of this endpoint may not go to {target.authority}: list it with `falaj endpoint configure --callback`"
        )
    if target.scheme != "https" and not _is_here(target.host):
        raise Forbidden(f"callbacks go over https, except to this machine itself; {target.host} is another")


def may_connect(target: Target, address: str) -> bool:
    """Whether this is where a listed host may lead: a name to the open internet alone, `localhost` to this machine, and an
    address that is listed as such to itself."""
    peer, literal = _address(address), _address(target.host)
    if peer is None:
        return False
    if literal is not None:
        return _embedded(peer) == _embedded(literal)
    if target.host == LOCALHOST:
        return peer.is_loopback
    inner = _embedded(peer)
    return peer.is_global and inner.is_global and not (inner.is_multicast or peer.is_multicast)


def _names(entry: str, target: Target) -> bool:
    found = _LISTED.fullmatch(entry.lower())
    if found is None or (found["port"] and int(found["port"]) != target.port):
        return False
    host = found["six"] or found["host"]
    literal = _address(host)
    return host == target.host if literal is None else literal == _address(target.host)


def _is_here(host: str) -> bool:
    literal = _address(host)
    return host == LOCALHOST or (literal is not None and literal.is_loopback)


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does: by mapping, by 6to4, by Teredo or by NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address
