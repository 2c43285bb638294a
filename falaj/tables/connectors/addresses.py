"""Addresses of places that data is in, and how they are shown: never with what opens them."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from falaj.base.errors import Invalid
from falaj.base.values import value

_SCHEME: Final = re.compile(r"^([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SECRET: Final = re.compile(r"pass|secret|token|key", re.IGNORECASE)
_HIDDEN: Final = "***"


@value
class Address:
    """`whole` may hold a password and goes to nobody but the place itself; `shown` is for everybody."""

    whole: str
    scheme: str
    shown: str
    host: str
    path: str
    options: Mapping[str, str]
    secrets: tuple[str, ...]

    def without_secrets(self, text: str) -> str:
        """What a library said, with nothing in it that opens the place."""
        for secret in (self.whole, *self.secrets):
            text = text.replace(secret, _HIDDEN)
        return " ".join(text.split())[:500].rstrip(".")


def is_address(text: str) -> bool:
    return _SCHEME.match(text) is not None


def parsed(text: str) -> Address:
    """Raises `Invalid`, which never repeats the text."""
    try:
        pieces = urlsplit(text)
        port = f":{pieces.port}" if pieces.port else ""
    except ValueError:
        raise _unreadable() from None
    beyond = pieces.path + pieces.query + pieces.fragment
    if not is_address(text) or "@" in beyond or pieces.netloc.count("@") > 1:
        raise _unreadable()
    options = dict(parse_qsl(pieces.query, keep_blank_values=True))
    host = pieces.hostname or ""
    # Of what lies here only the last name: the folders above say more about a machine than others need.
    shown = f"{pieces.scheme}://{host}{port}{pieces.path}" if host else f"{pieces.scheme}:///{pieces.path.rpartition('/')[2]}"
    path = unquote(pieces.path)
    return Address(
        whole=text, scheme=pieces.scheme, shown=shown, host=host, path=path, options=options, secrets=_secrets(pieces, options)
    )


def _secrets(pieces: SplitResult, options: Mapping[str, str]) -> tuple[str, ...]:
    found = [value for name, value in options.items() if _SECRET.search(name)]
    if pieces.password:
        found += [pieces.password, unquote(pieces.password)]
    return tuple(sorted({one for one in found if one}, key=len, reverse=True))


def _unreadable() -> Invalid:
    return Invalid(
        "The address cannot be read. It is like postgresql://user@host:5432/database; in a name or a password "
        "write @ as %40, / as %2F, ? as %3F and # as %23."
    )
