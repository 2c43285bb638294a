"""An endpoint as this worker answers for it now. What a state changes is taken over in one step."""

from bisect import bisect_right
from collections.abc import Callable
from random import Random
from typing import Final

from falaj.base.errors import Conflict, Invalid, NotFound, Unavailable
from falaj.serving.operations.words import WHOLE
from falaj.serving.plane.asking import Ask
from falaj.serving.plane.core.admission import DEFAULT_CONCURRENCY, Gate, Rates
from falaj.serving.plane.core.models import Model
from falaj.serving.plane.core.splits import Layout, bucket_of, lay_out, shadows_of
from falaj.serving.plane.shares import Shares
from falaj.serving.states import Endpoint

_PUT_OUT_FOR: Final = 5.0  # seconds, after which asking again may be worth it


class Live:
    """`sole` is the model that gets everything, where one does; `arms` are all that get something. `endpoint` has the options
    that hold, `split` the arms that do, and `wanted` is what the newest state says, which may be on its way. `models` are all
    that can be asked for, by the number of their revision. `put_out` is true while somebody has it unloaded."""

    def __init__(self, endpoint: Endpoint, waiting: Shares, random: Random) -> None:
        self.id = endpoint.id
        self.endpoint = endpoint
        self.split = endpoint
        self.wanted = endpoint
        self.gate = Gate(waiting.of(endpoint.project))
        self.rates: Rates | None = None
        self.models: dict[int, Model] = {}
        self.sole: Model | None = None
        self.layout: Layout = (), ()
        self.shadows: tuple[tuple[Model, int], ...] = ()
        self.arms: tuple[Model, ...] = ()
        self.put_out = False
        self._random = random

    def configure(self, endpoint: Endpoint) -> None:
        """Limits; they hold at once, whatever the split is."""
        if self.rates is None or endpoint.calls_per_second != self.endpoint.calls_per_second:
            self.rates = Rates(endpoint.calls_per_second) if endpoint.calls_per_second else None
        self.gate.most = endpoint.concurrency or DEFAULT_CONCURRENCY
        self.endpoint = endpoint

    def swap(self, endpoint: Endpoint, usable: Callable[[int], bool]) -> None:
        """Go by this split from now on."""
        models, self.split = self.models, endpoint
        self.layout = lay_out(endpoint.arms, endpoint.fallback, usable)
        self.arms = tuple(models[number] for number in self.layout[1])
        self.sole = self.arms[0] if len(self.arms) == 1 else None
        well = [number for number in models if usable(number)]
        self.shadows = tuple((models[number], share) for number, share in shadows_of(endpoint.arms, well))

    def is_late(self) -> bool:
        """Whether a model of it takes so long to load that nobody waits for it."""
        return any(model.is_late for model in self.models.values())

    def pick(self, ask: Ask) -> Model:
        if ask.override:
            if not ask.override.isascii() or not ask.override.isdigit():
                raise Invalid(f"A revision is named by its number; {ask.override!r:.60} is none.")
            return self.named(ask.override)
        if ask.version:
            return self.named(ask.version)
        if self.sole is not None:
            return self.sole
        if not self.arms:
            raise self.unavailable()
        bucket = bucket_of(self.id, ask.key) if ask.key else int(self._random.random() * WHOLE)
        return self.arms[bisect_right(self.layout[0], bucket)]

    def unavailable(self) -> Unavailable:
        if self.put_out:
            return Unavailable(
                f"The endpoint {self.endpoint.name!r} was unloaded here, until somebody loads it again.", delay=_PUT_OUT_FOR
            )
        problems = [model.problem for model in self.models.values() if model.problem]
        broken = f"{problems[0]} " if problems else ""
        return Unavailable(f"No revision of the endpoint {self.endpoint.name!r} can answer now. {broken}".strip(), delay=5.0)

    def named(self, number: str) -> Model:
        model = self.models.get(int(number)) if len(number) <= 10 and number.isascii() and number.isdigit() else None
        if model is None:
            raise NotFound(f"The endpoint {self.endpoint.name!r} has no revision {number!r:.60} that can be asked for.")
        if model.put_out:
            raise self.unavailable()
        if model.broken:
            raise Conflict(f"Revision {number} of the endpoint {self.endpoint.name!r} is in quarantine and is not run.")
        return model
