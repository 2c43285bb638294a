"""Signing in through the browser: authorisation code with PKCE, answered on a loopback port (RFC 8252)."""

import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from falaj.base.errors import PermanentError, Unauthenticated, Unavailable
from falaj.base.values import value

PATIENCE = 300.0  # how long somebody may take to sign in
PAGE = b"<!doctype html><html lang=en><meta charset=utf-8><title>Falaj</title><p>%s You may close this page.</html>"


class SignInRefused(Unauthenticated):
    """The identity provider, or whoever sat before it, said no."""


@value
class SignedIn:
    """What the provider vouches for, and the nonce it was asked to put in."""

    id_token: str
    nonce: str


def sign_in(issuer: str, client_id: str, scopes: str, *, show: Callable[[str], None], patience: float = PATIENCE) -> SignedIn:
    """Send the person to the provider and wait for the answer. `show` is given the address to open."""
    with httpx.Client(timeout=20, follow_redirects=False) as http, _Listener() as listener:
        provider = _discovered(http, issuer)
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": listener.address,
            "scope": scopes,
            "state": listener.state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        show(f"{provider['authorization_endpoint']}?{urlencode(query)}")
        code = listener.wait(patience, issuer)
        proof = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": listener.address,
            "client_id": client_id,
            "code_verifier": verifier,
        }
        answer = _ask(http, "POST", provider["token_endpoint"], data=proof)
    if not isinstance(answer.get("id_token"), str):
        raise SignInRefused("The identity provider sent no id_token; is the scope `openid` allowed for this client?")
    return SignedIn(id_token=answer["id_token"], nonce=nonce)


def _discovered(http: httpx.Client, issuer: str) -> dict[str, str]:
    """The provider's own description, which must be about itself and must not lead off TLS."""
    document = _ask(http, "GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if document.get("issuer") != issuer:
        raise PermanentError(f"{issuer} describes itself as {document.get('issuer')!r}; the two must be the same.")
    found = {}
    for name in ("authorization_endpoint", "token_endpoint"):
        parts = urlsplit(str(document.get(name, "")))
        if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise PermanentError(f"The identity provider's {name} is not under https.")
        found[name] = parts.geturl()
    return found


def _ask(http: httpx.Client, method: str, url: str, data: dict[str, str] | None = None) -> dict[str, Any]:
    try:
        response = http.request(method, url, data=data)
        document = response.json()
    except httpx.HTTPError as error:
        raise Unavailable(f"The identity provider does not answer at {url}: {error}.") from error
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise PermanentError(f"The identity provider answered no JSON at {url}.")
    if response.status_code != 200:
        raise SignInRefused(f"The identity provider refused: {document.get('error_description') or document.get('error')}.")
    return document


class _Listener:
    """Waits on a loopback port for the one answer that carries our state."""

    def __init__(self) -> None:
        self.state = secrets.token_urlsafe(24)
        self.answer: dict[str, str] | None = None
        listener = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                listener.receive(self)

            def log_message(self, *_: Any) -> None:
                """The answer holds a code: nothing is logged."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/callback"

    def __enter__(self) -> "_Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def receive(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        fields = {name: texts[0] for name, texts in parse_qs(parts.query).items()}
        ours = parts.path == "/callback" and secrets.compare_digest(fields.get("state", "").encode(), self.state.encode())
        if ours:
            self.answer = fields
        text = (
            b"You are signed in; go back to the terminal."
            if ours and "code" in fields
            else b"This is not an answer to a sign-in."
        )
        handler.send_response(200 if ours else 400)
        handler.send_header("content-type", "text/html; charset=utf-8")
        handler.send_header("cache-control", "no-store")
        handler.end_headers()
        handler.wfile.write(PAGE % text)

    def wait(self, patience: float, issuer: str) -> str:
        deadline = time.monotonic() + patience
        while self.answer is None:
            self._server.timeout = max(0.0, deadline - time.monotonic())
            if not self._server.timeout:
                raise SignInRefused(f"Nobody signed in within {patience:g} seconds.")
            self._server.handle_request()
        if self.answer.get("iss", issuer) != issuer:
            raise SignInRefused(f"The answer came from {self.answer['iss']}, not from {issuer}.")
        if "code" not in self.answer:
            raise SignInRefused(
                f"The identity provider refused: {self.answer.get('error_description') or self.answer.get('error')}."
            )
        return self.answer["code"]
