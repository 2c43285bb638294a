"""What can go wrong with a data worker itself."""

from falaj.base.errors import Conflict


class WorkerFailed(Conflict):
    """The worker ended, was ended for the time or memory it took, or said nonsense. What it was asked is not done; the next
    order gets another worker."""
