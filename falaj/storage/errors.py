"""What can go wrong with stored objects."""

from falaj.base.errors import Corrupt, Forbidden, Misconfigured, NotFound, TemporaryError, Unavailable


class ObjectMissing(NotFound):
    """The store has no object of this id."""


class StorageUnavailable(Unavailable):
    """The store does not answer now."""


class StorageRefused(Misconfigured):
    """The store does not accept what the settings say: credentials, bucket, folder."""


class StorageNotConfigured(Misconfigured):
    """A zone names a storage that the settings do not have."""


class ZoneNotAllowed(Forbidden):
    """The project has no such zone."""


class UploadExpired(TemporaryError):
    """The bytes came so slowly that they were taken for leftovers; send them again."""


class Altered(Corrupt):
    """The stored object is not the one that was sealed."""
