"""The process in which candidates are made: one that runs out of memory, crashes or takes too long costs one candidate, not the
search. It is started anew for the next."""

import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.client.optimising.comparing import Comparison
from falaj.client.optimising.naming import plainly_named
from falaj.client.optimising.steps import LEARNING, steps_there
from falaj.optimisation.making.answers import Reading
from falaj.optimisation.making.parity import check_stands_in
from falaj.optimisation.making.running import Device, answers, engine_of
from falaj.optimisation.making.values import Array, CannotBeMade, Made, Material, Sample, Step

_ENDS_WITHIN: Final = 10.0


@value
class Order:
    """What is to be made, from what, by which rows; `original` is what the original answers on the selection rows."""

    model: Made
    reading: Reading
    calibration: Sample
    training: Sample
    selection: Sample
    original: tuple[Array, ...]
    allowed: float
    seed: int
    student: bytes = b""
    threads: int = 1
    device: Device = "cpu"


@value
class Outcome:
    """`made` is None where it could not be; `problem` says why. `changes` as `Comparison` tells it."""

    made: Made | None
    drop: float = 0.0
    changes: float = -1.0
    problem: str = ""


class Workshop:
    """Belongs to one thread. A context: at its end the process is ended."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._process: SpawnProcess | None = None
        self._line: Connection | None = None

    def __enter__(self) -> "Workshop":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def make(self, steps: Sequence[str], seconds: float, most: float = math.inf) -> Outcome:
        """`seconds` are what its steps aim at, and half as many again they may take; but no more than `most`."""
        patience = min(seconds * 1.5 + 30, most)
        try:
            line = self._started()
            line.send((tuple(steps), seconds))
            if not line.poll(patience):
                self._end()
                return Outcome(made=None, problem=f"It took more than {patience:.0f} seconds and was ended.")
            found: Outcome = line.recv()
        except (EOFError, OSError):
            code = self._end()
            return Outcome(made=None, problem=f"The process that made it ended ({code}), perhaps for want of memory.")
        return found

    def _started(self) -> Connection:
        if self._line is not None and self._process is not None and self._process.is_alive():
            return self._line
        self._end()
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        ours.send(self._order)
        self._line = ours
        return ours

    def _end(self) -> int | None:
        process, line, self._process, self._line = self._process, self._line, None, None
        if line is not None:
            line.close()
        if process is None:
            return None
        process.join(0.2)
        process.kill()
        process.join(_ENDS_WITHIN)
        return process.exitcode


def _work(line: Connection) -> None:
    """Inside the process."""
    order: Order = line.recv()
    comparison = Comparison(order.reading, order.original, order.selection.truth)
    steps = {name: _remembering(step) if name in LEARNING else step for name, step in steps_there(order.student).items()}
    while True:
        try:
            names, seconds = line.recv()
        except EOFError:
            return
        line.send(_outcome(order, comparison, steps, names, seconds))


def _remembering(step: Step) -> Step:
    """What takes long to learn is learnt once: candidates that begin with it come one after the other. The last is kept, and so
    is why it could not be learnt."""
    last: list[tuple[Made, str, Made | CannotBeMade]] = []

    def take(made: Made, argument: str, material: Material) -> Made:
        if not last or last[0][:2] != (made, argument):
            try:
                learnt: Made | CannotBeMade = step(made, argument, material)
            except CannotBeMade as error:
                learnt = error
            last[:] = [(made, argument, learnt)]
        found = last[0][2]
        if isinstance(found, CannotBeMade):
            raise found
        return found

    return take


def _outcome(order: Order, comparison: Comparison, steps: Mapping[str, Any], names: Sequence[str], seconds: float) -> Outcome:
    drop = partial(_drop, order, comparison)
    material = Material(
        calibration=order.calibration,
        training=order.training,
        selection=order.selection,
        drop=drop,
        allowed=order.allowed,
        seconds=seconds,
        seed=order.seed,
        output=order.reading.output,
    )
    try:
        made = replace(order.model, notes=())
        for name in names:
            word, _, argument = name.partition(":")
            if word not in steps:
                raise CannotBeMade(f"there is no step {word!r} here, only {', '.join(sorted(steps))}")
            made = steps[word](made, argument, material)
        made = plainly_named(made)
        _check_stands_in(order, made)
        said = _said(order, made)
        return Outcome(made=made, drop=comparison.drop(said), changes=comparison.changes(said))
    except FalajError as error:
        return Outcome(made=None, problem=str(error)[:1500])
    except Exception as error:  # noqa: BLE001 - libraries raise whatever they like about a model they cannot take
        return Outcome(made=None, problem=f"{type(error).__name__}: {str(error).strip()[:1200]}")


def _check_stands_in(order: Order, made: Made) -> None:
    """Whoever asks the original must be able to ask this without noticing."""
    original, engine = engine_of(order.model), engine_of(made)
    try:
        check_stands_in(original, engine)
    finally:
        original.close()
        engine.close()


def _drop(order: Order, comparison: Comparison, made: Made) -> float:
    return comparison.drop(_said(order, made))


def _said(order: Order, made: Made) -> Sequence[Array]:
    return answers(made, order.selection, threads=order.threads, device=order.device)
