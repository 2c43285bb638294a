"""What stands in the way of a training before anything is sent."""

from falaj.base.errors import Invalid


class Unreadable(Invalid):
    """The script, notebook or function cannot be run as it is written."""


class Unfit(Invalid):
    """What was asked for does not fit the script, or each other."""
