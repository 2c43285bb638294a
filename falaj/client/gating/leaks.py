"""Rows that are judged on held against rows that were learnt from, by the checks that trainings use."""

from collections.abc import Iterator, Sequence

from falaj.client.datasets import Dataset
from falaj.lifecycle.operations.gates import Sighting, Task, Told
from falaj.training.checks import giveaways, leakage
from falaj.training.checks.columns import Table, table
from falaj.training.checks.findings import Finding


def leaks(task: Task, held_out: Dataset, training: Sequence[Dataset]) -> Told:
    """Only columns that the model takes tell anything of it, where its signature names them."""
    test = _read(task, held_out)
    found, rows = list[Finding](), 0
    for one in training:
        found += _found(task, _read(task, one), test)
        rows += len(one)
    told = (Sighting(check=one.check, severity=one.severity, sentence=one.sentence[:2000]) for one in found)
    return Told(rows=len(held_out), training_rows=rows, sightings=tuple(told))


def _found(task: Task, train: Table, test: Table) -> Iterator[Finding]:
    gate = task.gate
    yield from leakage.duplicates(train, test, gate.label, gate.keys)
    if gate.keys:
        yield leakage.shared(train, test, gate.keys, "leakage.keys", "keys")
    if gate.label in train and gate.label in test:
        yield from giveaways.alone(_without(train, gate.keys), _without(test, gate.keys), gate.label)
    yield from giveaways.scaling(train, test, gate.label)


def _without(rows: Table, names: Sequence[str]) -> Table:
    return {name: column for name, column in rows.items() if name not in names}


def _read(task: Task, source: Dataset) -> Table:
    wanted = {*task.columns, task.gate.label, *task.gate.keys} if task.columns else set(source.schema.names)
    return table(source.arrow([name for name in source.schema.names if name in wanted]))
