"""Tokens that were verified, remembered: verifying one takes 160 microseconds, finding it again a tenth of one."""

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from random import random
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from falaj.base.clock import SECOND, Clock, Moment
from falaj.base.errors import TooMany, Unauthenticated
from falaj.serving.plane.shares import Shares
from falaj.serving.tokens import Claims, check_times, headers_of, look_over, refused, verify

MOST: Final = 10_000
FAILURES_PER_SECOND: Final = 300  # about a twentieth of a core
# The times of remembered tokens are looked at anew after so long, should the machine's clock have been set meanwhile.
_LONGEST_MEMORY: Final = 300.0
_SIFTED: Final = 16  # of those beyond that rate one in so many is looked at, until it is known how many there are
_MOST_REFUSED: Final = 1000


class Grant:
    """What a token allows. `names` are the endpoints of its project, as they are now; `only` holds ids, or is empty for all.

    `until` is in monotonic seconds."""

    __slots__ = ("claims", "manage", "names", "only", "principal", "project", "until")

    def __init__(self, claims: Claims, names: Mapping[str, Any], until: float) -> None:
        self.claims = claims
        self.principal = claims.principal
        self.project = claims.project
        self.only = claims.endpoints
        self.manage = claims.manage
        self.names = names
        self.until = until


class Grants:
    """`names_of` gives the endpoints of a project by name, in a mapping that stays the same object when they change."""

    def __init__(self, clock: Clock, names_of: Callable[[str], Mapping[str, Any]]) -> None:
        self._clock = clock
        self._names_of = names_of
        self._issuer = ""
        self._keys: dict[str, str] = {}
        self._trusted: dict[str, Ed25519PublicKey] = {}
        self._revoked: frozenset[str] = frozenset()
        self._known: dict[str, Grant] = {}
        self._refused: set[str] = set()
        self._headers: frozenset[str] = frozenset()
        self._window = 0.0
        self._failures = Shares(FAILURES_PER_SECOND)  # by source: who sends none is looked at though others send many
        self._tries = 0  # of tokens that were not known, within the present second
        self._sifted = _SIFTED

    def adopt(self, issuer: str, keys: Mapping[str, str], revoked: Collection[str]) -> None:
        """What was verified by other keys, or has been revoked, is forgotten; the others are not made to pay for it."""
        if self._revoked != frozenset(revoked):
            self._revoked = frozenset(revoked)
            self._known = {text: grant for text, grant in self._known.items() if grant.claims.id not in self._revoked}
            self._refused.clear()
        if issuer == self._issuer and keys == self._keys:
            return
        self._issuer, self._keys = issuer, dict(keys)
        self._headers = headers_of(keys)
        self._trusted = {id: Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)) for id, public in keys.items()}
        self._known.clear()
        self._refused.clear()

    def of(self, text: str, now: float, source: str = "") -> Grant:
        """`now` is in monotonic seconds, `source` where the token comes from. Raises `Unauthenticated`; `TooMany` while too
        many from there were bad of late."""
        grant = self._known.get(text)
        if grant is not None and now < grant.until:
            return grant
        return self._verified(text, now, source)

    def _verified(self, text: str, now: float, source: str) -> Grant:
        known = self._known.pop(text, None)
        if known is not None:  # by keys that are good still: only time can have ended it
            wall = self._clock.now()
            check_times(known.claims, wall)
            return self._remember(text, known.claims, now, wall)
        if not text:
            raise Unauthenticated("No token was sent: send one as `authorization: Bearer TOKEN`.")
        wall = self._clock.now()
        if look_over(text, self._headers, issuer=self._issuer, now=wall).id in self._revoked:
            raise refused()
        if now - self._window >= 1.0:
            self._sifted = max(2, self._tries // FAILURES_PER_SECOND) if self._tries > FAILURES_PER_SECOND else _SIFTED
            self._window, self._failures, self._tries = now, Shares(FAILURES_PER_SECOND), 0
            self._refused.clear()
        if text in self._refused:
            raise refused()
        self._tries += 1
        failures = self._failures.of(source)
        within = failures.fits(1)
        # Some are looked at in any flood: those who come with a good token for the first time must not stay outside.
        if not within and random() * self._sifted >= 1:  # nosec B311 - no secret
            raise TooMany("Too many bad tokens were sent of late; a new one is looked at in a second.", delay=1.0)
        try:
            claims = verify(text, self._trusted, issuer=self._issuer, now=wall)
        except Unauthenticated:
            failures.hold(within)
            if len(self._refused) < _MOST_REFUSED:
                self._refused.add(text)
            raise
        return self._remember(text, claims, now, wall)

    def _remember(self, text: str, claims: Claims, now: float, wall: Moment) -> Grant:
        if len(self._known) >= MOST:
            for old in list(islice(self._known, MOST // 10)):
                del self._known[old]
        until = now + min((claims.expires - wall) / SECOND, _LONGEST_MEMORY)
        grant = self._known[text] = Grant(claims, self._names_of(claims.project), until)
        return grant
