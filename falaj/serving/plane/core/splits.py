"""Which revision a caller gets: pure, so that every worker and every plane decides the same.

Arms lie in order of their revisions' numbers, the newest at the top end: one that grows takes callers over and gives none
back, and one that shrinks gives up those it took last.
"""

from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

from falaj.serving.operations.words import WHOLE
from falaj.serving.states import Arm

_DIGEST: Final = 8
# Where each revision's callers end (not included), ascending, the last one WHOLE; and the revisions.
Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


def bucket_of(endpoint: str, key: str) -> int:
    """The same key always falls into the same bucket of an endpoint, and independently so at another endpoint."""
    digest = blake2b((endpoint + key).encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
    return int.from_bytes(digest) % WHOLE


def lay_out(arms: Sequence[Arm], fallback: int, usable: Callable[[int], bool]) -> Layout:
    """What a revision that is not usable had goes to the fallback, else to the nearest arm that is; empty where none is."""
    live = sorted((arm for arm in arms if arm.role == "live" and arm.share > 0), key=lambda arm: arm.revision)
    well = [arm.revision for arm in live if usable(arm.revision)]
    instead = fallback if fallback and usable(fallback) else 0
    if not well and not instead:
        return (), ()
    ends: list[int] = []
    revisions: list[int] = []
    end = 0
    for arm in live:
        end += arm.share
        revision = arm.revision if arm.revision in well else instead or _nearest(well, arm.revision)
        if revisions and revisions[-1] == revision:
            ends[-1] = end
        else:
            ends.append(end)
            revisions.append(revision)
    return tuple(ends), tuple(revisions)


def _nearest(numbers: Sequence[int], number: int) -> int:
    return min(numbers, key=lambda other: abs(other - number))


def shadows_of(arms: Sequence[Arm], usable: Collection[int]) -> tuple[tuple[int, int], ...]:
    """Revision and share of those that get copies."""
    return tuple((arm.revision, arm.share) for arm in arms if arm.role == "shadow" and arm.share > 0 and arm.revision in usable)
