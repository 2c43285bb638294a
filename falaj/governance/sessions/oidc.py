"""OpenID Connect, as a relying party: discovery, authorisation code with PKCE, and the checks of an id_token.

The one file that speaks to the identity provider. It knows no database; `service.py` decides what a sign-in means here.
"""

import base64
import hashlib
import hmac
import json
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import jwt

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import Invalid, Unauthenticated, Unavailable
from falaj.base.values import value
from falaj.governance.identity.names import looks_like_an_id

if TYPE_CHECKING:
    import httpx

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
SKEW: Final = MINUTE
FRESH: Final = 10 * MINUTE
_LARGEST_ANSWER: Final = 1_000_000
_LARGEST_ID_TOKEN: Final = 20_000
_MOST_GROUPS: Final = 1000
_REFETCH_KEYS_AFTER: Final = MINUTE
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@value
class OidcSettings:
    """`client_secret` is empty for a public client. `cli_client_id`, where empty, is `client_id`. `zone` is where people who
    sign in this way sit; empty where that is not known. `redirect_url` is where the console takes the provider's answer."""

    issuer: str
    client_id: str
    redirect_url: str
    client_secret: str = ""
    cli_client_id: str = ""
    groups_claim: str = "groups"
    scopes: str = "openid profile email groups"
    zone: str = ""


@value
class Person:
    """Whom the provider vouches for. Known by issuer and subject; the rest is for display and may change."""

    issuer: str
    subject: str
    login: str
    display: str
    email: str
    groups: frozenset[str]
    id_token_hash: str
    id_token_expires: Moment


def challenge_for(verifier: str) -> str:
    """PKCE, S256."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"The identity provider's answer is refused: {why}. Sign in again.")


class OidcProvider:
    """One identity provider. Thread-safe. Talks to the network, so never inside a transaction. Raises `Unauthenticated` for
    answers that do not hold, `Unavailable` when the provider does not answer."""

    def __init__(self, settings: OidcSettings, *, http: "httpx.Client | None" = None) -> None:
        import httpx  # here and below: a platform without an identity provider starts without it

        _check_address(settings.issuer)
        self.settings = settings
        self._http = http or httpx.Client(timeout=10, follow_redirects=False)
        self._lock = threading.Lock()
        self._discovered: tuple[Moment, dict[str, Any]] | None = None
        self._keys: tuple[Moment, dict[str, dict[str, Any]]] | None = None

    def close(self) -> None:
        self._http.close()

    @property
    def cli_client_id(self) -> str:
        return self.settings.cli_client_id or self.settings.client_id

    def authorisation_url(self, *, state: str, nonce: str, verifier: str, now: Moment) -> str:
        endpoint = self._endpoint("authorization_endpoint", now)
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.settings.client_id,
                "redirect_uri": self.settings.redirect_url,
                "scope": self.settings.scopes,
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge_for(verifier),
                "code_challenge_method": "S256",
            }
        )
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    def redeem(self, code: str, *, verifier: str, nonce: str, now: Moment) -> Person:
        """Exchange the authorisation code for the person who signed in."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.redirect_url,
            "code_verifier": verifier,
        }
        secret = self.settings.client_secret
        if not secret:
            form["client_id"] = self.settings.client_id
        auth = (self.settings.client_id, secret) if secret else None
        answer = self._ask("POST", self._endpoint("token_endpoint", now), data=form, auth=auth)
        id_token, access = answer.get("id_token"), answer.get("access_token")
        if not isinstance(id_token, str):
            raise _refused("it holds no id_token")
        claims = self._claims(id_token, nonce=nonce, clients=(self.settings.client_id,), now=now)
        if self.settings.groups_claim not in claims and isinstance(access, str):
            claims = self._with_userinfo(claims, access, now)
        return self._person(id_token, claims)

    def verify(self, id_token: str, *, nonce: str, now: Moment) -> Person:
        """Check an id_token that a command line obtained for itself."""
        clients = (self.cli_client_id,)
        return self._person(id_token, self._claims(id_token, nonce=nonce, clients=clients, now=now))

    def _claims(self, id_token: str, *, nonce: str, clients: tuple[str, ...], now: Moment) -> dict[str, Any]:
        if len(id_token) > _LARGEST_ID_TOKEN:
            raise _refused("the id_token is too long")
        try:
            header = jwt.get_unverified_header(id_token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS or set(header) & {"jwk", "jku", "x5u", "x5c", "crit"}:
                raise _refused("its header is not acceptable")
            claims: dict[str, Any] = jwt.decode(
                id_token,
                self._key(header.get("kid"), algorithm, now),
                algorithms=[algorithm],
                audience=list(clients),
                issuer=self.settings.issuer,
                options={
                    "require": ["iss", "aud", "sub", "exp", "iat", "nonce"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            _check_claims(claims, nonce=nonce, clients=clients, now=now)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise _refused("the id_token does not hold") from error
        return claims

    def _with_userinfo(self, claims: dict[str, Any], access: str, now: Moment) -> dict[str, Any]:
        """Some providers keep groups out of the id_token; what they add must be about the same subject."""
        if "userinfo_endpoint" not in self._discovery(now):
            return claims
        told = self._ask("GET", self._endpoint("userinfo_endpoint", now), headers={"Authorization": f"Bearer {access}"})
        if told.get("sub") != claims["sub"]:
            raise _refused("its userinfo is about somebody else")
        return {**told, **claims}

    def _person(self, id_token: str, claims: Mapping[str, Any]) -> Person:
        groups = claims.get(self.settings.groups_claim, [])
        if not isinstance(groups, list) or len(groups) > _MOST_GROUPS or not all(isinstance(group, str) for group in groups):
            raise _refused(f"its claim {self.settings.groups_claim!r} is not a list of names")
        return Person(
            issuer=claims["iss"],
            subject=claims["sub"],
            login=_login(_text(claims, "preferred_username") or _text(claims, "email") or "user"),
            display=_text(claims, "name")[:200],
            email=_text(claims, "email")[:320],
            groups=frozenset(groups),
            id_token_hash=hashlib.sha256(id_token.encode()).hexdigest(),
            id_token_expires=Moment(claims["exp"] * SECOND + SKEW),
        )

    # The provider's documents

    def _discovery(self, now: Moment) -> dict[str, Any]:
        with self._lock:
            known = self._discovered
        if known is not None and now < known[0] + HOUR:
            return known[1]
        document = self._ask("GET", f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self.settings.issuer:
            raise _refused(f"its discovery document speaks for {document.get('issuer')!r}, not for {self.settings.issuer!r}")
        with self._lock:
            self._discovered = (now, document)
        return document

    def _endpoint(self, name: str, now: Moment) -> str:
        address = self._discovery(now).get(name)
        if not isinstance(address, str):
            raise _refused(f"its discovery document has no {name}")
        _check_address(address)
        return address

    def _key(self, kid: Any, algorithm: str, now: Moment) -> jwt.PyJWK:
        """By key id; an unknown one makes us fetch the keys again, at most once a minute."""
        with self._lock:
            known = self._keys
        if known is None or (kid not in known[1] and now >= known[0] + _REFETCH_KEYS_AFTER):
            document = self._ask("GET", self._endpoint("jwks_uri", now))
            listed = document.get("keys")
            keys = (
                {key["kid"]: key for key in listed if isinstance(key, dict) and "kid" in key}
                if isinstance(listed, list)
                else {}
            )
            known = (now, keys)
            with self._lock:
                self._keys = known
        key = known[1].get(kid) if isinstance(kid, str) else None
        if key is None or key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm:
            raise _refused("no key of the provider fits it")
        return jwt.PyJWK(key, algorithm=algorithm)

    def _ask(self, method: str, url: str, **how: Any) -> dict[str, Any]:
        import httpx

        try:
            with self._http.stream(
                method, url, headers={"Accept": "application/json", **how.pop("headers", {})}, **how
            ) as response:
                body = b""
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > _LARGEST_ANSWER:
                        raise _refused("it is too long")
                status = response.status_code
        except httpx.HTTPError as error:
            raise Unavailable(f"The identity provider does not answer: {type(error).__name__}.", delay=5) from error
        if status >= 500:
            raise Unavailable(f"The identity provider answers with {status}.", delay=5)
        try:
            document = json.loads(body)
        except ValueError as error:
            raise _refused("it is not JSON") from error
        if status != 200 or not isinstance(document, dict):
            raise _refused(f"it answers with {status}")
        return document


def _check_claims(claims: Mapping[str, Any], *, nonce: str, clients: tuple[str, ...], now: Moment) -> None:
    """What PyJWT leaves to us: the times by our clock, the nonce, the authorised party, and the types of what we use."""
    if not all(type(claims[name]) is int for name in ("exp", "iat")):
        raise TypeError("times")
    if not all(isinstance(claims[name], str) and 0 < len(claims[name]) <= 255 for name in ("sub", "nonce")):
        raise TypeError("names")
    if not claims["iat"] * SECOND - SKEW <= now < claims["exp"] * SECOND + SKEW:
        raise _refused("the id_token is expired or not valid yet")
    if now > claims["iat"] * SECOND + FRESH:
        raise _refused("the id_token is too old")
    if type(claims.get("nbf", 0)) is not int or claims.get("nbf", 0) * SECOND - SKEW > now:
        raise _refused("the id_token is not valid yet")
    if not hmac.compare_digest(claims["nonce"].encode(), nonce.encode()):
        raise _refused("the nonce is another")
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if (several or "azp" in claims) and claims.get("azp") not in clients:
        raise _refused("the id_token was made for another client")


def _check_address(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise Invalid(f"The identity provider's address {address!r} must begin with https://")


def _text(claims: Mapping[str, Any], name: str) -> str:
    text = claims.get(name, "")
    return text if isinstance(text, str) and text.isprintable() else ""


def _login(text: str) -> str:
    """A name in our alphabet; it only has to be readable, for it identifies nobody."""
    name = re.sub(r"[^a-z0-9._-]+", "-", text.partition("@")[0].lower()).lstrip("._-")[:80]
    return f"user-{name}" if looks_like_an_id(name) else name or "user"
