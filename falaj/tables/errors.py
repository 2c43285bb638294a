"""What can go wrong with tables of data, told apart by who should do something about it. `base` has the rest."""

from falaj.base.errors import Corrupt, Misconfigured


class Altered(Corrupt):
    """A part is not the one that was sealed: changed, cut, or another one in its place."""


class LibraryMissing(Misconfigured):
    """A library that reads or writes data is not installed; the message says which extra brings it."""
