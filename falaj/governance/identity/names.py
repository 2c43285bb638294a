"""Which names a principal may take."""

import re

from falaj.base.errors import Invalid
from falaj.base.values import ID_PATTERN


def looks_like_an_id(name: str) -> bool:
    return re.match(ID_PATTERN, name) is not None


def check_name(name: str) -> None:
    """Calls name people by name or by id, the name first: one that looks like an id could stand in for somebody else."""
    if looks_like_an_id(name):
        raise Invalid(f"{name!r} looks like an id (32 hexadecimal digits); choose a name that does not.")
