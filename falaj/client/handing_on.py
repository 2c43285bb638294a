"""What processes elsewhere are given of a caller's power: the platform's address, and a token that can do one thing in one
project. Executors of a cluster get that, never the caller's own where it can be helped."""

import contextlib
import os
import ssl
from pathlib import Path
from typing import Annotated, Final

from falaj.base.clock import HOUR, Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.values import Secret, value
from falaj.client.environments import client_of_environment
from falaj.client.http import Client
from falaj.client.trust import trust
from falaj.governance.identity.operations import (
    CREATE_TOKEN,
    EXCHANGE_TOKEN,
    REVOKE_TOKEN,
    CreateToken,
    ExchangeToken,
    RevokeToken,
)

_PATIENCE: Final = 600.0
_LIVES: Final = (1, 0)  # days; 0: for as long as the caller's own token does, where that is less


@value
class Way:
    """To the platform, for a process that has nothing of the caller's environment. `authorities` is a text of certificates;
    `id` that of a token that was made for this; none `expires` where the token is the caller's own."""

    url: str
    token: Annotated[str, Secret()]
    authorities: str = ""
    id: str = ""
    expires: Moment | None = None

    def __repr__(self) -> str:
        return f"<a way to {self.url}>"

    def client(self) -> Client:
        return Client(self.url, self.token, verify=_trust(self.authorities) if self.authorities else True, timeout=_PATIENCE)

    def lasts(self, now: Moment) -> bool:
        return self.expires is None or self.expires > now + HOUR


def handed_on(permission: str, *, project: str, label: str) -> Way:
    """One that can do this and nothing else, for a day at most. A token that cannot make others, as that of a job, is narrow by
    itself, and is handed on."""
    with client_of_environment() as caller:
        url, authorities = os.environ["FALAJ_URL"], _authorities()
        for days in _LIVES:
            with contextlib.suppress(Forbidden):
                request = CreateToken(label=label, scopes=(permission,), projects=(project,), days=days)
                try:
                    made = caller.call(CREATE_TOKEN, request)
                except Conflict:  # there are too many of them: then one that ends in minutes
                    brief = caller.call(EXCHANGE_TOKEN, ExchangeToken(scopes=(permission,), projects=(project,)))
                    return Way(url=url, token=brief.token, authorities=authorities, expires=brief.expires)
                return Way(url=url, token=made.token, authorities=authorities, id=made.id, expires=made.expires)
    return Way(url=url, token=os.environ["FALAJ_TOKEN"], authorities=authorities)


def taken_back(way: Way) -> None:
    if way.id:
        with client_of_environment() as caller, contextlib.suppress(NotFound):
            caller.call(REVOKE_TOKEN, RevokeToken(token=way.id))


def _authorities() -> str:
    file = os.environ.get("FALAJ_CA", "")
    try:
        return Path(file).read_text() if file else ""
    except (OSError, ValueError) as error:
        raise Invalid(f"{file} cannot be read as certificates: {error}.") from None


def _trust(authorities: str) -> ssl.SSLContext:
    context = trust()
    context.load_verify_locations(cadata=authorities)
    return context
