"""Calls that are written down: a share of them, without what is masked, in a bounded buffer until somebody fetches them."""

import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import msgspec
import numpy as np

from falaj.base.clock import SECOND, Clock, Moment
from falaj.runtimes.engine import Array, TensorSpec
from falaj.serving.operations.planes import CallReport
from falaj.serving.operations.words import WHOLE
from falaj.serving.plane.asking import Ask
from falaj.serving.plane.core.gathering import Item
from falaj.serving.plane.core.grants import Grant
from falaj.serving.plane.core.models import Model
from falaj.serving.plane.lookups.telling import told_looked

MOST: Final = 1000
_LONGEST: Final = 20_000
_MOST_ELEMENTS: Final = 2_000
_MASK: Final = "masked"


class CallLog:
    """Once the buffer is full, further calls are not kept until it was fetched; how many is counted."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock, self._random = clock, random
        self._calls: list[CallReport] = []

    def note(self, model: Model, batch: Sequence[Item], inputs: Sequence[Array], outputs: Sequence[Array], now: float) -> None:
        """After a batch was answered; `now` is in monotonic seconds."""
        share, random, start = model.endpoint.log_share, self._random.random, 0
        if model.shape is None:
            return
        together = len(batch) > 1
        for item in batch:
            stop = start + item[2]
            if random() * WHOLE < share and self._has_room(model, item):
                taken = slice(start, stop) if together else slice(None)
                self._keep(model, item, _cut(inputs, taken), _cut(outputs, taken), now)
            start = stop

    def note_failure(self, model: Model, item: Item, error: Exception) -> None:
        """Without inputs: what a model fails on may be anything."""
        ask, grant = item[0], item[1]
        if grant is None or self._random.random() * WHOLE >= model.endpoint.log_share or not self._has_room(model, item):
            return
        self._calls.append(self._call(model, ask, grant, time.monotonic(), type(error).__name__, "{}", "{}"))

    def drain(self) -> tuple[CallReport, ...]:
        calls, self._calls = tuple(self._calls), []
        return calls

    def _has_room(self, model: Model, item: Item) -> bool:
        if len(self._calls) < MOST:
            return True
        if item[1] is not None:  # no shadow's copy
            model.counts.of(item[0]).unlogged += 1
        return False

    def _keep(self, model: Model, item: Item, inputs: Sequence[Array], outputs: Sequence[Array], now: float) -> None:
        ask, grant, shape = item[0], item[1], model.shape
        if grant is None or shape is None:  # a shadow's copy
            return
        told = {spec.name for spec in shape.outputs}
        hidden = [name for name in model.endpoint.masked if name not in told]
        hidden += shape.lookup.hidden if shape.lookup is not None else ()
        given = written(shape.inputs, inputs, hidden, shape.columns, ask.entities)
        said = written(shape.outputs, outputs, [name for name in model.endpoint.masked if name in told], ())
        looked = told_looked(ask.looked, model.endpoint.masked)
        self._calls.append(self._call(model, ask, grant, now, "ok", given, said, looked))

    def _call(
        self, model: Model, ask: Ask, grant: Grant, now: float, status: str, inputs: str, outputs: str, looked: str = ""
    ) -> CallReport:
        seconds = now - ask.arrived
        return CallReport(
            endpoint=model.endpoint.id,
            revision=model.revision.number,
            id=ask.id[:200],
            at=Moment(self._clock.now() - int(seconds * SECOND)),
            caller=grant.principal,
            status=status,
            ms=seconds * 1000,
            inputs=inputs,
            outputs=outputs,
            looked=looked,
            drawn=not ask.is_pinned,
        )


def written(
    specs: Sequence[TensorSpec],
    arrays: Sequence[Array],
    masked: Sequence[str],
    columns: Sequence[str],
    entities: Mapping[str, Sequence[Any]] | None = None,
) -> str:
    """Tensors by name, as JSON. A masked column is null in every row. A tensor that is too large is told by its shape, and so
    is one that may hold a masked column nobody can find in it, for want of names. `entities` are the keys that features were
    looked up by."""
    document: dict[str, Any] = {}
    if entities is not None:
        document["entities"] = {name: _MASK if name in masked else list(some) for name, some in entities.items()}
    tensors = {spec.name for spec in specs}
    sought = [name for name in masked if name not in tensors]
    for spec, array in zip(specs, arrays, strict=True):
        if spec.name in masked:
            document[spec.name] = _MASK
        elif array.size > _MOST_ELEMENTS or (sought and _has_unnamed_columns(array, columns)):
            document[spec.name] = {"shape": list(array.shape)}
        else:
            document[spec.name] = _values(array, masked, columns)
    text = msgspec.json.encode(document).decode()
    if len(text) > _LONGEST:
        shapes = {spec.name: {"shape": list(array.shape)} for spec, array in zip(specs, arrays, strict=True)}
        text = msgspec.json.encode(shapes).decode()
    return text


def _has_unnamed_columns(array: Array, columns: Sequence[str]) -> bool:
    return array.ndim > 1 and array.shape[-1] not in (1, len(columns))


def _values(array: Array, masked: Sequence[str], columns: Sequence[str]) -> Any:
    """Column names say what lies along the last axis, where they are as many as that is long."""
    hidden = [index for index, name in enumerate(columns) if name in masked]
    if hidden and array.shape and array.shape[-1] == len(columns):
        held: Array = array.astype(object)
        held[..., hidden] = None  # type: ignore[assignment]
        return _texts(held.tolist())
    return _texts(array.tolist()) if array.dtype == np.object_ else array.tolist()


def _texts(values: Any) -> Any:
    if isinstance(values, list):
        return [_texts(one) for one in values]
    return values.decode("utf-8", "replace") if isinstance(values, bytes) else values


def _cut(arrays: Sequence[Array], taken: slice) -> list[Array]:
    return [array[taken] if array.shape else array for array in arrays]
