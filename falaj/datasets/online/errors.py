"""What can go wrong with the online store."""

from falaj.base.errors import Conflict, Corrupt, Misconfigured, Unavailable


class OnlineUnavailable(Unavailable):
    """The store does not answer now; what was asked of it may be asked again."""


class OnlineRefused(Misconfigured):
    """The store does not accept what the settings say, or is set up so that it would lose rows."""


class StoreDamaged(Corrupt):
    """The store itself cannot be read any more."""


class RowAltered(Corrupt):
    """A stored row is not the one that was sealed for this entity of this view."""


class OtherFeatures(Conflict):
    """A row was materialised with other features than are asked for."""
