"""Where alerts are sent: addresses of webhooks, and those of services as apprise writes them. Pure; whether apprise can read an
address is found out by `delivering`."""

import base64
import binascii
import re
import secrets
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.base.webhooks import LOCALHOST, address_of, is_here, is_open, is_printed, is_receiver, target_of

Kind: TypeAlias = Literal["webhook", "apprise"]
# Of more than a hundred that apprise knows: those that go to people, and over the network alone. Others write to this machine's
# screens and buses, run programs, or are webhooks without a signature.
SCHEMES: Final = (
    "discord", "gchat", "mailto", "mailtos", "mmosts", "ntfys", "opsgenie", "pagerduty", "slack", "tgram", "workflows",
)  # fmt: skip
# Of a service's address. Others name files of this machine (`template`, `pgpprv`), fetch things from elsewhere (`attach`), or
# do without certificates (`verify`).
PARAMETERS: Final = frozenset({
    "api-version", "auth", "bcc", "cc", "channel", "channels", "from", "id", "key", "mode", "name", "pass", "priority",
    "region", "reply", "route", "routeid", "severity", "sig", "smtp", "team", "thread", "to", "token", "topic", "user", "ver",
    "workspace",
})  # fmt: skip
_MAIL: Final = ("mailto", "mailtos")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9]*)://.+")
_PREFIX: Final = "whsec_"  # as "Standard Webhooks" writes a secret
_KEY_BYTES: Final = range(24, 65)
_HIDDEN: Final = "***"
_ALLOWED: Final = "the operator allows it (`monitoring.private_receivers` in falaj.toml)"


@value
class Channel:
    """`secret` is what a webhook is signed with; a service's address is a secret itself."""

    name: str
    kind: Kind
    url: str
    secret: str = ""

    def __repr__(self) -> str:
        return f"Channel(name={self.name!r}, kind={self.kind!r}, url={self.shown!r})"

    @property
    def shown(self) -> str:
        """The address without what may be secret in it."""
        try:
            if self.kind == "webhook":
                target = target_of(self.url)
                return f"{target.scheme}://{target.authority}/" + (_HIDDEN if target.path != "/" else "")
            parts = urlsplit(self.url)
            return f"{parts.scheme}://{_HIDDEN}" + (f"@{parts.hostname}" if parts.scheme in _MAIL else "")
        except (Invalid, ValueError):
            return _HIDDEN


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def may_reach(address: str, *, allow_private: bool) -> bool:
    return is_open(address) or (allow_private and is_receiver(address))


def check_written(channel: Channel, *, allow_private: bool) -> None:
    """Raises `Invalid` for what cannot be an address, or leads inside as it is written; where a name leads is seen only when
    something is sent."""
    if channel.kind == "webhook":
        _check_webhook(channel, allow_private)
        return
    if channel.secret:
        raise Invalid("only webhooks are signed: leave the secret out")
    found = _SCHEME.fullmatch(channel.url) if is_printed(channel.url) else None
    if found is None:
        raise Invalid("this is no address of a service: write one such as mailtos://user:password@example.com")
    if found[1] not in SCHEMES:
        raise Invalid(f"alerts are not sent by {found[1]}://, but by a webhook or by one of: {', '.join(SCHEMES)}")


def _check_webhook(channel: Channel, allow_private: bool) -> None:
    target = target_of(channel.url)
    if target.scheme != "https" and not (allow_private and is_here(target.host)):
        raise Invalid(f"Webhooks go over https; over http to this machine alone, and only where {_ALLOWED}.")
    if _leads_inside(target.host, allow_private):
        raise Invalid(f"{target.host} lies inside a network. Webhooks go there only where {_ALLOWED}.")
    try:
        key = base64.b64decode(channel.secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not channel.secret.startswith(_PREFIX) or len(key) not in _KEY_BYTES:
        raise Invalid(f"the secret of a webhook is {_PREFIX} and, in base64, 24 to 64 bytes")


def _leads_inside(host: str, allow_private: bool) -> bool:
    """Of names, only those of this machine are known without asking anybody."""
    if address_of(host):
        return not may_reach(host, allow_private=allow_private)
    return not allow_private and f".{host.rstrip('.')}".endswith(f".{LOCALHOST}")
