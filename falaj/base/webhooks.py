"""Requests that leave the house for where somebody else wants them: URLs, the addresses behind which somebody's own network
lies, and signatures as "Standard Webhooks" has them. Pure."""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from falaj.base.errors import Invalid, PermanentError
from falaj.base.values import value

LOCALHOST: Final = "localhost"
_LONGEST: Final = 2000
_PORTS: Final = {"https": 443, "http": 80}
_PRINTED: Final = re.compile(r"[\x21-\x7e]+")
# Where the low 32 bits are an address of IPv4: NAT64, everybody's and a network's own, and what was called compatible.
_CARRIERS: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
_TOO_LOW: Final = 0xFFFF  # `::` and `::1` are addresses of their own
# Where clouds keep the credentials of a machine, beside what is link-local; no receiver lives there.
_METADATA: Final = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254", "fd20:ce::254", "168.63.129.16", "192.0.0.192"))
)
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
    """Raises `Invalid` for what is no address of the web, and for one that carries a password or a fragment. What was given is
    not repeated: it may have secrets in it."""
    if not is_printed(url):
        raise Invalid(f"this is no URL: one has at most {_LONGEST} printable letters and no spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("this is no URL that a message can go to: write https://host/path") from None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or "#" in url or port == 0:
        raise Invalid("this is no URL that a message can go to: write https://host/path, without a password and without #")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme=parts.scheme, host=parts.hostname, port=port or _PORTS[parts.scheme], path=path)


def is_printed(url: str) -> bool:
    """Whether it may be a URL at all: not too long, and without letters that would end a line."""
    return len(url) <= _LONGEST and _PRINTED.fullmatch(url) is not None


def address_of(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_here(host: str) -> bool:
    """Whether the name, or the address, is this machine's own."""
    literal = address_of(host)
    return host == LOCALHOST or (literal is not None and literal.is_loopback)


def is_open(address: str) -> bool:
    """Whether it lies in the open internet, and in no network of somebody's own."""
    peer = address_of(address)
    if peer is None:
        return False
    inner = embedded(peer)
    closed = inner.is_multicast or inner.is_reserved or peer.is_multicast or inner in _METADATA
    if isinstance(inner, ipaddress.IPv6Address):
        closed = closed or inner.is_site_local
    return peer.is_global and inner.is_global and not closed


def is_receiver(address: str) -> bool:
    """Whether somebody may listen there at all, also inside: not where clouds hand out credentials, nor at everybody's."""
    peer = address_of(address)
    if peer is None:
        return False
    return not any(
        one.is_link_local
        or one.is_multicast
        or one.is_unspecified
        or (one.is_reserved and one.version == 4)
        or one in _METADATA
        for one in (peer, embedded(peer))
    )


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does: by mapping, by 6to4, by Teredo, by NAT64 or as it is."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if int(address) > _TOO_LOW and any(address in one for one in _CARRIERS):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


def signature(secret: str, id: str, timestamp: str, body: bytes) -> str:
    """Over `id.timestamp.body`; `secret` is `whsec_` and base64."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise PermanentError("the secret that messages are signed with cannot be read") from None
    made = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(made).decode()
