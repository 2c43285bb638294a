"""What can go wrong with a model, told apart by who should do something about it."""

from falaj.base.errors import Invalid, Misconfigured, PermanentError, Unavailable


class Rejected(Invalid):
    """The model cannot take these inputs."""


class EngineFailed(PermanentError):
    """The model, or the engine under it, failed on inputs that should have been fine."""


class NotLoadable(PermanentError):
    """The files are not a model that this engine can load."""


class EngineMissing(Misconfigured):
    """The library that runs this kind of model is not installed; the message says which extra brings it."""


class DeviceMissing(Unavailable):
    """There is no such device here now, or the library that runs this kind of model cannot use it."""
