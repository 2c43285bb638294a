"""`check`: every check for which the means are given, in one call."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.training.checks import calibration, drift, giveaways, leakage, slices
from falaj.training.checks.columns import Table, table
from falaj.training.checks.findings import Finding, Findings
from falaj.training.checks.profiles import profile, profile_of
from falaj.training.checks.truth import judged
from falaj.training.telling import Run

USUAL_TARGET: Final = "target"  # where nobody says another; a table need not have it


def check(
    train: Any,
    test: Any = None,
    *,
    target: str = USUAL_TARGET,
    predictions: Any = None,
    labels: Any = None,
    reference: Any = None,
    entity: str | Sequence[str] = (),
    keys: Sequence[str] = (),
    time: str = "",
    slices: Sequence[str] | Mapping[str, Any] = (),
    ignore: Sequence[str] = (),
    seed: int = 0,
    run: Run | None = None,
) -> Findings:
    """Look for what makes a training worth less than it seems.

    Tables are frames of pandas or polars, Arrow tables, dictionaries of columns, arrays, or pairs of a table and a target.
    `target` names the column that is predicted. Train is held against `test` for leaks: `entity` and `keys` name columns whose
    values should be on one side only, `time` one by which train ends before test begins. Train is held against `reference`, a
    table or a stored `profile`, for drift; without one, test is held against train. `predictions` are those for the test rows.
    `ignore` leaves columns out. In a job, what is found is told to the job's run, or to `run`.
    """
    mine = _without(table(train, name=target), ignore)
    other = None if test is None else _without(table(test, name=target), ignore)
    if not all(len(next(iter(side.values()), ())) for side in (mine, other) if side is not None):
        raise Invalid("there are no rows to look at")
    if target != USUAL_TARGET and target not in mine:
        raise Invalid(f"there is no column {target!r} to be the target; there are {', '.join(map(str, mine))}")
    apart = [*([entity] if isinstance(entity, str) and entity else entity), *keys, *([time] if time else [])]
    found: list[Finding] = []
    if other is not None:
        entities = [entity] if isinstance(entity, str) and entity else list(entity)
        found += _leaks(mine, other, target, entities, keys, time)
    found += _drifts(mine, other, reference, target, [*apart, *ignore])
    if predictions is not None:
        found += _predicted(other, target, predictions, labels, slices, seed)
    elif slices:
        raise Invalid("slices are of errors: give `predictions` for the test rows")
    made = Findings(all=tuple(found))
    made.record(run)
    return made


def _leaks(
    train: Table, test: Table, target: str, entities: Sequence[str], keys: Sequence[str], time: str
) -> Iterator[Finding]:
    yield from leakage.duplicates(train, test, target, [*entities, *keys, time])
    if entities:
        yield leakage.shared(train, test, entities, "leakage.entities", "entities")
    if keys:
        yield leakage.shared(train, test, keys, "leakage.keys", "keys")
    if time:
        yield leakage.times(train, test, time)
    if target in train and target in test:
        yield from giveaways.alone(train, test, target)
    yield from giveaways.scaling(train, test, target)


def _drifts(train: Table, test: Table | None, reference: Any, target: str, apart: Sequence[str]) -> Iterator[Finding]:
    """Entities and moments are others by nature."""
    if reference is not None:
        known = profile(reference if not isinstance(reference, tuple) else profile_of(table(reference, name=target)))
        kept = {name: shape for name, shape in known.columns.items() if name not in apart}
        yield from drift.drift(_without(train, apart), type(known)(columns=kept), target)
    elif test is not None:
        yield from drift.drift(_without(test, apart), profile_of(_without(train, apart)), target, "train")


def _predicted(
    test: Table | None, target: str, predictions: Any, labels: Any, wanted: Sequence[str] | Mapping[str, Any], seed: int
) -> Iterator[Finding]:
    if test is None or target not in test:
        raise Invalid(f"predictions are judged on the test rows: give `test` with the target {target!r}")
    found = judged(test[target], predictions, labels)
    yield from calibration.calibration(found, seed)
    if wanted:
        yield from slices.slices(test, found, wanted)


def _without(columns: Table, names: Sequence[str]) -> Table:
    return {name: column for name, column in columns.items() if name not in names}
