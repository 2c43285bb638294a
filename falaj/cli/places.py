"""Finding the platform and the token for it. A token is sent only to the address it was stored with."""

import os
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from falaj.app.home import Home, default_home, read_document
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.cli.deferred import Deferred

if TYPE_CHECKING:
    from falaj.client import trust
else:
    trust = Deferred("falaj.client.trust")


@value
class Access:
    """Where the platform is, the token to show it, and the certificate it is known by when it signed that itself. `authorities`
    is a file of further ones to believe: whoever runs the platform or its planes may have an authority of his own."""

    url: str
    token: str | None
    certificate: str = ""
    authorities: str = ""

    def trust_in_planes(self, certificates: Iterable[str]) -> ssl.SSLContext:
        """`certificates` are those that the platform says its planes show."""
        return trust.trust(authorities=self.authorities, certificates=certificates)

    def trust(self) -> ssl.SSLContext | bool:
        """In the platform itself."""
        if not self.certificate:
            return trust.trust(authorities=self.authorities) if self.authorities else True
        try:
            return ssl.create_default_context(cafile=self.certificate)
        except OSError as error:
            raise Invalid(f"{self.certificate} cannot be read as a certificate: {error.strerror or error}.") from None


def login_file() -> Path:
    """Where `falaj login` keeps a sign-in."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "falaj" / "credentials.json"


def home_of(path: Path | None) -> Home:
    return Home(path=path.expanduser().absolute()) if path else default_home()


def find_access(path: Path | None, url: str = "") -> Access:
    """The address: `url`, `FALAJ_URL`, the home that was named, the last `falaj login`, the default home; whichever is first.

    A sign-in at the home's own address goes before the home's owner token: who signed in wants to be himself.
    """
    home, login = read_document(home_of(path).credentials), read_document(login_file())
    known = [home, login] if path or "FALAJ_HOME" in os.environ else [login, home]
    url = url or os.environ.get("FALAJ_URL") or next((_text(place, "url") for place in known if _text(place, "url")), "")
    if not url:
        raise Invalid(
            f"No platform is known here: {home_of(path).credentials} has none. Start one with `falaj up`, or set FALAJ_URL."
        )
    url = url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise Invalid(f"{url!r} is no address of a platform; write it like https://falaj.example.com.")
    here = [place for place in (login, home) if _text(place, "url").rstrip("/") == url]
    return Access(
        url=url,
        token=os.environ.get("FALAJ_TOKEN") or next((_text(place, "token") for place in here if _text(place, "token")), None),
        certificate=next((_text(place, "certificate") for place in here if _text(place, "certificate")), ""),
        authorities=os.environ.get("FALAJ_CA", ""),
    )


def owner_access(home: Home) -> Access:
    """The home's own credentials, whatever else is known here."""
    known = read_document(home.credentials)
    return Access(url=_text(known, "url"), token=_text(known, "token"), certificate=_text(known, "certificate"))


def sign_in_link(url: str, code: str) -> str:
    """What a browser opens to sign in with a one-time code."""
    return f"{url}/sign-in?code={code}"


def _text(document: dict[str, Any], field: str) -> str:
    found = document.get(field)
    return found if isinstance(found, str) else ""
