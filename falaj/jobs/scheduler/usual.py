"""What is usually asked for, learned from what came in, and the prices that follow from it."""

from collections.abc import Mapping
from typing import Final

from falaj.base.values import value
from falaj.jobs.scheduler.holes import Cutting, Numbers
from falaj.jobs.scheduler.hosts import part_of
from falaj.jobs.scheduler.values import CARD, Shape

_FIRST: Final = 16  # shapes seen before prices are set for the first time
_GROWTH: Final = 1.25  # they are set anew when so many times as many were seen
_MEMORY: Final = 1 << 15  # shapes after which old ones count half
_PLENTY: Final = 1e-9  # cards' worth per thousandth: no GPU job was seen that needs any of it


@value
class Prices:
    """`holes` is the worth in cards of each possible free part of one; `per_cpu` and `per_memory` how many cards' worth of
    usual work a thousandth of a core or a MiB carries; `wanted` the share of all cards asked for that only some models can be.
    """

    holes: Numbers
    per_cpu: float
    per_memory: float
    wanted: Mapping[tuple[str, ...], float]


class Usual:
    """Counts of what came in. `saw` is true when the prices should be asked for again."""

    def __init__(self) -> None:
        self._cutting = Cutting()
        self._parts: dict[int, float] = {}
        self._models: dict[tuple[str, ...], float] = {}
        self._cards = self._cpu = self._memory = 0.0
        self._seen, self._next = 0.0, float(_FIRST)

    def saw(self, shape: Shape, count: int) -> bool:
        self._seen += count
        if shape.gpus > 0 and shape.gpu_milli > 0:
            part = part_of(shape)
            if part < CARD:
                self._parts[part] = self._parts.get(part, 0) + count
            cards = shape.gpus * part * count / CARD
            if shape.models:
                models = tuple(sorted(set(shape.models)))
                self._models[models] = self._models.get(models, 0) + cards
            self._cards += cards
            self._cpu += shape.cpu_milli * count
            self._memory += shape.memory_mib * count
        return self._seen >= self._next

    def prices(self) -> Prices:
        if self._seen > _MEMORY:
            self._forget_half()
        self._next = max(self._seen * _GROWTH, _FIRST)
        return Prices(
            holes=self._cutting.worth(self._parts),
            per_cpu=self._cards / self._cpu if self._cpu > 0 else 1 / _PLENTY,
            per_memory=self._cards / self._memory if self._memory > 0 else 1 / _PLENTY,
            wanted={models: cards / self._cards for models, cards in self._models.items()},
        )

    def _forget_half(self) -> None:
        self._parts = {part: count / 2 for part, count in self._parts.items() if count >= 1}
        self._models = {models: cards / 2 for models, cards in self._models.items() if cards >= 1}
        self._cards, self._cpu, self._memory = self._cards / 2, self._cpu / 2, self._memory / 2
        self._seen /= 2
