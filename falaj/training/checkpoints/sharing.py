"""Who of several processes saves what all of them hold. Each comes to the same result by itself."""

from collections.abc import Mapping


def share_of(rank: int, workers: int, *, divisible: Mapping[str, int]) -> set[str]:
    """The names that fall to this process, so that all have about as many bytes: the largest first, to whoever has least."""
    loads, mine = [0] * workers, set()
    for name, size in sorted(divisible.items(), key=lambda one: (-one[1], one[0])):
        least = loads.index(min(loads))
        loads[least] += size or 1
        if least == rank:
            mine.add(name)
    return mine
