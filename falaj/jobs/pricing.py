"""What an hour of resources costs. The prices themselves come from whoever runs the platform."""

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Protocol

from falaj.base.clock import HOUR
from falaj.base.values import value
from falaj.jobs.scheduler.values import CARD, Shape


class Pricer(Protocol):
    """Prices in force now, in millionths of the platform's currency. Thread-safe; must not block. `gpus` are the models that
    have a price of their own."""

    @property
    def gpus(self) -> Collection[str]: ...

    def per_hour(self, shape: Shape, models: Mapping[str, int], zone: str) -> int:
        """Of one task of that shape, on so many thousandths of cards of each model."""
        ...


@value
class PriceList:
    """In millionths, per hour: of a core, of a GiB of memory, of a card by model; cards nobody named cost `gpu`."""

    core: int = 0
    memory_gib: int = 0
    gpu: int = 0
    gpus: Mapping[str, int] = field(default_factory=dict)

    def per_hour(self, shape: Shape, models: Mapping[str, int], zone: str) -> int:
        cards = sum(self.gpus.get(model, self.gpu) * part for model, part in models.items())
        return (self.core * shape.cpu_milli) // 1000 + (self.memory_gib * shape.memory_mib) // 1024 + cards // CARD


FREE = PriceList()


def dearest(pricer: Pricer, shape: Shape, zone: str) -> int:
    """An hour of one task before it is known which cards it gets: the dearest of those it would take, if it takes any."""
    whole = shape.gpus * shape.gpu_milli
    if not whole:
        return pricer.per_hour(shape, {}, zone)
    return max(pricer.per_hour(shape, {model: whole}, zone) for model in shape.models or ("", *pricer.gpus))


def cost(per_hour: int, span: int) -> int:
    return per_hour * span // HOUR
