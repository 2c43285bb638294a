"""What can go wrong with checkpoints."""

from falaj.base.errors import Corrupt, Invalid, Misconfigured


class Damaged(Corrupt):
    """A checkpoint whose bytes are not those that were saved, or that another key sealed."""


class NoneUsable(Corrupt):
    """There are checkpoints, and none of them opens: to begin anew without a word would throw work away."""


class Unsaveable(Invalid):
    """The state holds something that could not be read back without running code from the file."""


class Mismatched(Invalid):
    """The checkpoint belongs to another model or another optimiser."""


class KeyMissing(Misconfigured):
    """No key to seal checkpoints with, or one that is none."""
