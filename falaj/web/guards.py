"""Who may make this browser change something: only our own pages. And where it may be sent: only within the console."""

import hashlib
import hmac
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from falaj.base.errors import Forbidden

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# `same-origin`, because under `no-referrer` a browser hides the origin of our own forms, and the origin is what we check.
PAGE_HEADERS: Final = {"content-security-policy": CSP, "referrer-policy": "same-origin", "cache-control": "no-store"}
LONGEST_PATH: Final = 1000


def csrf_token(secret: str) -> str:
    """Bound to the session: whoever cannot read the cookie cannot make it."""
    return hmac.new(secret.encode(), b"falaj console form", hashlib.sha256).hexdigest()


def check_csrf(secret: str, given: str) -> None:
    if not hmac.compare_digest(csrf_token(secret).encode(), given.encode()):
        raise Forbidden("This form is not from your present session; reload the page and try again.", rule="console.csrf")


def check_origin(http: Request) -> None:
    """A browser says where a request comes from; one that comes from elsewhere, or does not say, is refused."""
    site, origin = http.headers.get("sec-fetch-site"), http.headers.get("origin")
    if site is not None:
        same = site == "same-origin"
    else:
        same = origin is not None and urlsplit(origin).netloc == http.headers.get("host", "")
    if not same:
        raise Forbidden("Only the console's own pages may do this.", rule="console.origin")


def check_not_elsewhere(http: Request) -> None:
    """For a page that may be opened by hand or by a bookmark, but not by what another site shows."""
    if http.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise Forbidden(
            "Open this from the console: another site led here, and reading this is recorded.", rule="console.origin"
        )


def local_path(text: str | None) -> str:
    """A path within the console, or the home page: never another site, whatever tricks the text plays."""
    if not text or len(text) > LONGEST_PATH or not text.startswith("/") or text.startswith(("//", "/sign-in", "/v1/", "/-/")):
        return "/"
    if "\\" in text or any(ord(character) <= 0x20 or ord(character) > 0x7E for character in text):
        return "/"
    parts = urlsplit(text)
    return "/" if parts.scheme or parts.netloc else text
