"""Copies for revisions on trial: run after the live answer was sent, compared with it, never returned, dropped under load."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final, TypeAlias

import numpy as np

from falaj.base.errors import Invalid, Unavailable
from falaj.runtimes.engine import Array
from falaj.serving.operations.words import WHOLE
from falaj.serving.plane.asking import Answer, Ask
from falaj.serving.plane.core.batches import Batches
from falaj.serving.plane.core.counts import Part
from falaj.serving.plane.core.gathering import Item
from falaj.serving.plane.core.inputs import weight_of
from falaj.serving.plane.core.models import Model
from falaj.serving.plane.lookups.joining import Lookup

# Looks up what a request needs, and tells when it has it, or why not.
Join: TypeAlias = Callable[[Lookup, Ask, float, Callable[[Exception | None], None]], None]

# Relative, by the bytes of a float; a hundredth of it holds absolutely, for numbers near zero.
_TOLERANCES: Final = {2: 1e-2, 4: 1e-4, 8: 1e-6}
_ROWS_WAITING: Final = 2  # batches of a shadow's, beyond which copies are dropped


def differ(one: Array, other: Array) -> bool:
    """Floats may differ a little, everything else may not. Two NaN are the same."""
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
        return True
    if one.dtype.kind != "f":
        return not np.array_equal(one, other)
    tolerance = _TOLERANCES.get(min(one.dtype.itemsize, other.dtype.itemsize), 1e-2)
    return not np.allclose(
        one.astype(np.float64), other.astype(np.float64), rtol=tolerance, atol=tolerance / 100, equal_nan=True
    )


class Comparison:
    """Takes a shadow's answer in place of the caller, who has the live one."""

    __slots__ = ("_arrays", "_counts", "_names", "gone")

    def __init__(self, names: Sequence[str], arrays: Sequence[Array], counts: Part) -> None:
        self.gone = False
        self._names, self._arrays, self._counts = names, arrays, counts

    def answer(self, answer: Answer) -> None:
        mine = dict(zip(answer.names, answer.arrays, strict=True))
        self._note(
            mine.keys() != set(self._names)
            or any(differ(array, mine[name]) for name, array in zip(self._names, self._arrays, strict=True))
        )

    def refuse(self, error: Exception) -> None:
        if not isinstance(error, Unavailable):
            self._note(True)

    def _note(self, differed: bool) -> None:
        self._counts.compared += 1
        self._counts.differed += differed


class Shadows:
    """Of one endpoint. `schedule` has a model's batches run at the next turn of the loop. What was looked up for the live model
    is not for another: a shadow gets what the caller sent, and has its own features looked up by `join`."""

    def __init__(
        self, shadows: Sequence[tuple[Model, int]], random: Random, schedule: Callable[[Batches], None], join: Join
    ) -> None:
        self._shadows, self._random, self._schedule, self._join = shadows, random, schedule, join

    def copy(self, batch: Sequence[Item], names: Sequence[str], outputs: Sequence[Array], *, together: bool) -> None:
        for model, share in self._shadows:
            start, batches = 0, model.batches
            for item in batch:
                stop = start + item[2]
                if batches is not None and (share >= WHOLE or self._random.random() * WHOLE < share):
                    mine = [array[start:stop] if together else array for array in outputs]
                    self._give(model, batches, item[0], Comparison(names, mine, model.counts.of(item[0])))
                start = stop

    def _give(self, model: Model, batches: Batches, ask: Ask, comparison: Comparison) -> None:
        if batches.rows_waiting > _ROWS_WAITING * batches.size.size:
            return
        given = ask.given if ask.sent is None else ask.sent
        copy = Ask(token="", endpoint=ask.endpoint, given=given, reply=comparison, arrived=time.monotonic())  # nosec B106 - there is none
        copy.is_pinned = ask.is_pinned  # a copy counts where the call did
        if model.lookup is None:
            self._add(model, batches, copy)
        else:
            self._look_up(model, model.lookup, copy)

    def _look_up(self, model: Model, lookup: Lookup, copy: Ask) -> None:
        weight = 1 + sum(weight_of(one.data) for one in copy.given)
        with suppress(Unavailable):
            model.gate.enter(weight)
            self._join(lookup, copy, model.endpoint.latency_ms, partial(self._looked_up, model, copy, weight))

    def _looked_up(self, model: Model, copy: Ask, weight: int, failure: Exception | None) -> None:
        model.gate.leave(1, weight)
        if failure is not None:
            copy.reply.refuse(failure)
        elif model.batches is not None:
            self._add(model, model.batches, copy)

    def _add(self, model: Model, batches: Batches, copy: Ask) -> None:
        try:
            datas, rows, tails, weight = batches.inputs.check(copy.given)
            model.gate.enter(weight)
        except Unavailable:
            return
        except Invalid as error:
            copy.reply.refuse(error)
            return
        batches.add((copy, None, rows, datas, tails, weight))
        self._schedule(batches)
