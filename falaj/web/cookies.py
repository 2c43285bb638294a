"""What the console keeps with a browser: the session, the visit before it, and how the reader likes the page.

SameSite is Lax, not Strict: the identity provider sends the browser back from another site, and a link in a message should
open the page it names. Lax cookies never travel with a POST from elsewhere, and every POST is guarded besides (`guards.py`).
"""

import re
import secrets
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from falaj.base.clock import SECOND, Moment
from falaj.base.values import value

LONGEST_VISIT: Final = 15 * 60
Theme = Literal["", "light", "dark"]
Direction = Literal["ltr", "rtl"]


@value
class Cookies:
    """Under TLS the names carry `__Host-`, so that no neighbour under the same domain can plant one."""

    tls: bool

    def _name(self, what: str) -> str:
        return f"__Host-falaj-{what}" if self.tls else f"falaj-{what}"

    def _set(self, response: Response, what: str, text: str, *, seconds: int) -> None:
        response.set_cookie(self._name(what), text, max_age=seconds, path="/", secure=self.tls, httponly=True, samesite="lax")

    def _drop(self, response: Response, what: str) -> None:
        response.delete_cookie(self._name(what), path="/", secure=self.tls, httponly=True, samesite="lax")

    def session(self, http: Request) -> str | None:
        return http.cookies.get(self._name("session")) or None

    def keep_session(self, response: Response, token: str, *, expires: Moment, now: Moment) -> None:
        self._set(response, "session", token, seconds=max(0, (expires - now) // SECOND))

    def drop_session(self, response: Response) -> None:
        self._drop(response, "session")

    def visit(self, http: Request) -> str:
        """A secret that ties the forms of the sign-in page to this browser; a new one where there is none."""
        kept = http.cookies.get(self._name("visit"), "")
        return kept if re.fullmatch(r"[0-9a-f]{64}", kept) else secrets.token_hex(32)

    def keep_visit(self, response: Response, visit: str) -> None:
        self._set(response, "visit", visit, seconds=LONGEST_VISIT)

    def oidc_state(self, http: Request) -> str:
        return http.cookies.get(self._name("oidc"), "")

    def keep_oidc_state(self, response: Response, state: str) -> None:
        self._set(response, "oidc", state, seconds=LONGEST_VISIT)

    def drop_visit(self, response: Response) -> None:
        self._drop(response, "visit")
        self._drop(response, "oidc")


def theme(http: Request) -> Theme:
    """Written by the page's own script; the system decides where there is none."""
    kept = http.cookies.get("falaj-theme")
    return "dark" if kept == "dark" else "light" if kept == "light" else ""


def direction(http: Request) -> Direction:
    return "rtl" if http.query_params.get("dir", http.cookies.get("falaj-dir")) == "rtl" else "ltr"


def keep_direction(http: Request, response: Response, *, tls: bool) -> None:
    if (asked := http.query_params.get("dir")) in ("ltr", "rtl"):
        response.set_cookie("falaj-dir", asked, max_age=365 * 86_400, path="/", secure=tls, httponly=True, samesite="lax")
