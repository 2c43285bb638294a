"""What can go wrong with keys."""

from falaj.base.errors import Conflict, Corrupt, Invalid, Misconfigured, NotFound, Unavailable


class KeyNotFound(NotFound):
    """The ring has no key, or no such version of it, under this name."""


class KeyDestroyed(Conflict):
    """The key was destroyed on purpose; what it sealed cannot be opened again, and its name is not used again."""


class Unopenable(Corrupt):
    """Wrapped bytes that were changed, or that belong to another key or another context."""


class KeyRingLost(Misconfigured):
    """The home exists and its key ring does not; the message says the way back."""


class KeyRingLocked(Misconfigured):
    """The ring is there, and the secret that opens it is missing or wrong."""


class KeyRingExists(Conflict):
    """There is a ring already; making another would orphan everything the first one sealed."""


class RecoveryCodeWrong(Invalid):
    """The code was mistyped, or belongs to another ring."""


class TokenUnavailable(Unavailable):
    """The hardware security module does not answer."""
