"""Versions asked about the rows they are judged on: how often they are right, how they treat groups, how long they take."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.client.datasets import Dataset
from falaj.client.loaded_models import LoadedModel
from falaj.client.optimising import rows
from falaj.lifecycle.operations.gates import Figure, FormTaken, GroupCount, Task, Told
from falaj.optimisation.making import answers
from falaj.optimisation.making.answers import Reading, errors
from falaj.optimisation.making.meanings import meaning_of
from falaj.optimisation.making.measuring import measure
from falaj.optimisation.making.running import answers as asked
from falaj.optimisation.making.values import Array, Made, Sample
from falaj.optimisation.operations.variants import Group
from falaj.optimisation.operations.words import Host, Measures
from falaj.runtimes.engine import Labelled, ModelFiles
from falaj.runtimes.hosts import kind_of, shown, this_host

_READ_ON: Final = 1000  # rows that show how answers are to be read
_MEASURED: Final = (
    *("rows_per_s", "batch", "p50_ms", "p50_low", "p50_high", "p99_ms", "p99_low", "p99_high", "size", "memory", "joules"),
    *("energy", "cost", "device"),
)


@value
class Answered:
    """What a version says to every row, beside what it should say."""

    reading: Reading
    outputs: tuple[Array, ...]
    truth: Array
    labels: Array
    slices: Mapping[str, Array]

    @property
    def right(self) -> Array:
        found: Array = np.asarray(self.reading.said(self.outputs) == self.truth)
        return found

    @property
    def errors(self) -> Array:
        return errors(self.reading.numbers(self.outputs), self.truth)


Contents = Callable[[FormTaken], Mapping[str, bytes]]


class Models:
    """`contents` fetches the files of a form, `source` holds the rows."""

    def __init__(self, task: Task, source: Dataset, contents: Contents, threads: int) -> None:
        self._task, self._source, self._contents, self._threads = task, source, contents, threads

    # Quality

    def quality(self) -> Told:
        gate, task = self._task.gate, self._task
        ours = self._answered(_form(task.candidate), gate.slices)
        theirs = self._answered(task.incumbent, ()) if task.incumbent is not None else None
        if theirs is not None and theirs.reading.task != ours.reading.task:
            raise Invalid("One of the two answers with classes and the other with numbers: they cannot be compared.")
        if theirs is not None and not _same(theirs.labels, ours.labels):
            raise Invalid("The two are so wide that other rows of the dataset fit in memory: judge them on fewer rows.")
        slices = _masked(ours.slices, task.masked)
        groups = [""]
        within: dict[str, Array] = {"": np.asarray(np.isfinite(ours.truth.reshape(len(ours.truth), -1)).all(axis=1))}
        for names in slices.values():
            for name in sorted(set(names.tolist())):
                groups.append(name)
                within[name] = within[""] & (names == name)
        count = _errors_counted if ours.reading.task == "numbers" else _right_counted
        counted = tuple(count(name, within[name], ours, theirs) for name in groups)
        return Told(
            task=ours.reading.task,
            rows=int(within[""].sum()),
            counted=counted,
            read_as="" if gate.label in task.masked else ours.reading.words,
        )

    # Fairness

    def fairness(self) -> Told:
        gate, task = self._task.gate, self._task
        ours = self._answered(_form(task.candidate), gate.groups)
        if ours.reading.task == "numbers":
            raise Invalid("It answers with numbers, and shares that are selected or right are of classes.")
        said, every = ours.reading.said(ours.outputs), np.ones(len(ours.truth), dtype=bool)
        figures: dict[Figure, tuple[Array, Array]] = {"right": (ours.right, every)}
        if gate.positive:
            positive = int(ours.reading.truth_of(np.array([gate.positive], dtype=object))[0])
            chosen, really = np.asarray(said == positive), np.asarray(ours.truth == positive)
            figures |= {"selected": (chosen, every), "recognised": (chosen, really)}
        counts = [
            GroupCount(
                column=column,
                group=name,
                figure=figure,
                hits=int((hits & among & (names == name)).sum()),
                rows=int((among & (names == name)).sum()),
            )
            for column, names in _masked(ours.slices, task.masked).items()
            for name in sorted(set(names.tolist()))
            for figure, (hits, among) in figures.items()
            if figure in gate.figures
        ]
        return Told(rows=len(ours.truth), groups=tuple(counts))

    # Latency

    def latency(self) -> Told:
        made, loaded = self._loaded(_form(self._task.candidate))
        try:
            taken = rows.read(self._source, loaded, label="", slices=())
        finally:
            loaded.close()
        found = measure(made, Sample(inputs=taken.inputs), price=self._task.price)
        told = Measures(drop=0.0, times=1.0, **{name: getattr(found, name) for name in _MEASURED})
        host = this_host()
        return Told(rows=taken.count, measures=told, host=Host(kind=kind_of(host), shown=shown(host)))

    # Asking

    def _loaded(self, form: FormTaken) -> tuple[Made, LoadedModel]:
        made = Made(runtime=form.runtime, file=form.file, files=self._contents(form))
        files = ModelFiles(runtime=form.runtime, main=form.file, contents=made.files, columns=form.columns)
        return made, LoadedModel(form.model, files, self._threads)

    def _answered(self, form: FormTaken, slices: tuple[str, ...]) -> Answered:
        made, loaded = self._loaded(form)
        try:
            taken = rows.read(self._source, loaded, label=self._task.gate.label, slices=slices)
            few = taken.taken(np.arange(min(_READ_ON, taken.count)))
            if loaded.engine.batches:
                said = [*loaded.engine.run(few.inputs)]
            else:
                said = [*asked(made, few.sample(None), threads=self._threads)]
            known = loaded.engine.labels if isinstance(loaded.engine, Labelled) else {}
            names = [spec.name for spec in loaded.engine.outputs]
            reading = answers.read(said, names, known, few.labels, taken.labels, meaning_of(made))
        finally:
            loaded.close()
        labels = taken.labels
        if labels is None:
            raise Invalid("Without a label nobody knows who is right.")
        outputs = asked(made, taken.sample(None), threads=self._threads)
        return Answered(
            reading=reading, outputs=outputs, truth=reading.truth_of(labels), labels=labels, slices=dict(taken.slices)
        )


def _form(form: FormTaken | None) -> FormTaken:
    if form is None:
        raise Invalid("There is no model in this task.")
    return form


def _same(first: Array, second: Array) -> bool:
    return first.shape == second.shape and bool((first == second).all())


def _right_counted(name: str, within: Array, ours: Answered, theirs: Answered | None) -> Group:
    """Held against the one that stands, or against whoever always says the commonest class."""
    if theirs is None:
        classes, counts = np.unique(ours.truth, return_counts=True)
        before = ours.truth == classes[int(np.argmax(counts))]
    else:
        before = theirs.right
    first, second = before[within], ours.right[within]
    return Group(
        name=name,
        rows=int(within.sum()),
        both=int((first & second).sum()),
        original=int((first & ~second).sum()),
        variant=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
    )


def _errors_counted(name: str, within: Array, ours: Answered, theirs: Answered | None) -> Group:
    """The same with errors, against whoever always says the middle."""
    known = ours.truth[np.isfinite(ours.truth).all(axis=1)]
    if not len(known):
        raise Invalid("There is no row whose truth is a finite number.")
    before = errors(ours.truth, np.median(known, axis=0)) if theirs is None else theirs.errors
    first, second = before[within], ours.errors[within]
    return Group(
        name=name,
        rows=int(within.sum()),
        original_error=float(first.sum()),
        variant_error=float(second.sum()),
        original_squares=float((first * first).sum()),
        variant_squares=float((second * second).sum()),
        products=float((first * second).sum()),
    )


def _masked(slices: Mapping[str, Array], masked: tuple[str, ...]) -> dict[str, Array]:
    """Of classified columns no value is told: their groups are numbered, the largest first."""
    found: dict[str, Array] = {}
    for column, names in slices.items():
        if column not in masked:
            found[column] = names
            continue
        distinct, counts = np.unique(names, return_counts=True)
        numbered: dict[Any, str] = {
            name: f"{column} #{place}" for place, name in enumerate(distinct[np.argsort(-counts, kind="stable")], 1)
        }
        found[column] = np.array([numbered[name] for name in names], dtype=object)
    return found
