"""Which variant a name means, where several searches made one of that name: pure, and the same for whoever shows, deploys,
fetches or deletes it."""

from collections.abc import Iterable
from typing import Final

from falaj.optimisation.operations.variants import Variant
from falaj.registry.servable import STRICT

WITH_FILES: Final = ("made", "certified", "refused")


def place(state: str, max_drop: float) -> int:
    """Of those with files: certified for a small loss, then certified for any, then the rest. Within each the newest is meant,
    which is for those who sort by this to begin with."""
    return 2 if state != "certified" else 0 if max_drop <= STRICT else 1


def meant(variants: Iterable[Variant]) -> Variant | None:
    """Of those of one name, as they are listed."""
    kept = (one for one in variants if one.state in WITH_FILES)
    return min(kept, key=lambda one: place(one.state, one.max_drop), default=None)
