"""Which variants nothing else beats in everything at once: as many rows, as little worse, as small. Pure."""

from collections.abc import Mapping

from falaj.optimisation.operations.words import Measures


def front(measured: Mapping[str, Measures], original: int) -> set[str]:
    """The names of those that no other, nor the original of so many bytes, is at least as good as in all three, and better in
    one."""
    points = {name: (one.times, -one.drop, -float(one.size)) for name, one in measured.items()}
    all_of_them = [*points.values(), (1.0, 0.0, -float(original))]
    return {name for name, point in points.items() if not any(_beats(other, point) for other in all_of_them)}


def _beats(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    return one != other and all(ours >= theirs for ours, theirs in zip(one, other, strict=True))
