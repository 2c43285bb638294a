"""What the job of a measured gate is given: versions in the form that is served, rows by version, and nothing of anybody's.

Looked up outside transactions, because models may have to be converted; pinned in the one that submits the job.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.mentions import split
from falaj.datasets.operations.classes import PERSONAL
from falaj.datasets.operations.reading import GRANT_READ, GrantRead
from falaj.datasets.operations.words import READ as READ_DATA
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as dataset_versions
from falaj.datasets.views import required_dataset, schema_of
from falaj.datasets.views import required_version as required_dataset_version
from falaj.governance.gate import Gatekeeper
from falaj.jobs.operations.jobs import REPORT, Input, Spec
from falaj.jobs.operations.words import Resources
from falaj.lifecycle.operations.gates import READ, TELL, Gate
from falaj.optimisation.operations.words import DataSeen
from falaj.optimisation.planning import ISOLATED, Form, Forms
from falaj.registry.lineage import data_behind
from falaj.registry.operations.versions import GET_VERSION_FILE, GetVersionFile
from falaj.registry.store import models as model_store
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found
from falaj.registry.verifying import Verifier
from falaj.storage.service import BlobService, Owner
from falaj.tables.schemas import listed

OWNER: Final = "gate-run"  # the kind of owner that its files have
PROGRAM: Final = ("python", "-m", "falaj.client.gating.job")
NEEDED: Final = (READ.name, TELL.name, READ_DATA.name, GET_VERSION_FILE.permission.name, REPORT.name)  # by its token
_WITH_MODEL: Final = ("quality", "latency", "fairness")
_DEEPEST: Final = 20  # datasets that a version came from


@value
class Subject:
    """A version with the form it is served in."""

    version: Found
    form: Form


@value
class Rows:
    """A version of a dataset: what it is, its columns, and those that are classified."""

    seen: DataSeen
    columns: tuple[str, ...]
    classified: Collection[str]

    @property
    def shown(self) -> str:
        return f"{self.seen.dataset}@{self.seen.version}"


@value
class Measurement:
    """What is going to be measured. `against` is the number that the alias pointed at, 0 where at none."""

    candidate: Subject | None
    incumbent: Subject | None
    against: int
    on: DataSeen
    training: tuple[DataSeen, ...]
    columns: tuple[str, ...]
    masked: tuple[str, ...]
    classified: bool

    @property
    def permissions(self) -> tuple[str, ...]:
        return (*NEEDED, PERSONAL.name) if self.classified else NEEDED


class Planner:
    """Thread-safe."""

    def __init__(
        self, *, database: Database, gate: Gatekeeper, blobs: BlobService, verifier: Verifier, forms: Forms, price: int
    ) -> None:
        self._database, self._gate, self._blobs = database, gate, blobs
        self._verifier, self._forms, self._price = verifier, forms, price

    def measurement(self, context: Context, gate: Gate, version: Found) -> Measurement:
        """In the asker's name: what they may not read is not measured for them."""

        def look(work: UnitOfWork) -> tuple[Found | None, int, tuple[Rows, ...]]:
            within = replace(context, work=work)
            against = model_store.aliased_version(work, version.model, gate.against) if gate.against else 0
            other = version_store.of_model(work, version.model, against) if against else None
            return other, against, self._data(within, gate, version)

        other, against, rows = self._database.read(look)
        wanted = _columns(gate)
        for one in rows if gate.kind == "leakage" else rows[:1]:
            if missing := tuple(name for name in wanted if name not in one.columns):
                raise Invalid(f"{one.shown} has no column {listed(missing)}. It has {listed(one.columns)}.")
        measured = gate.kind in _WITH_MODEL
        return Measurement(
            candidate=self._subject(context, version) if measured else None,
            incumbent=self._subject(context, other) if measured and other is not None else None,
            against=against,
            on=rows[0].seen,
            training=tuple(one.seen for one in rows[1:]),
            columns=_signature(version),
            masked=tuple(sorted({name for name in wanted for one in rows if name in one.classified})),
            classified=any(one.classified for one in rows),
        )

    def _subject(self, context: Context, version: Found) -> Subject:
        def check(work: UnitOfWork) -> None:
            """Who may not read a model's files does not have them measured this way."""
            project = context.required_project.name
            read = GetVersionFile(project=project, model=version.model_name, version=version.number, name="MLmodel")
            self._gate.authorise(work, context.identity, GET_VERSION_FILE, read)
            self._verifier.check_whole(replace(context, work=work), version)

        self._database.read(check)
        form = self._forms.of(context, version, allow_python=False)
        if form.runtime == ISOLATED:
            raise Conflict(f"Version {version.number} of {version.model_name!r} runs by its own code: convert it first.")
        return Subject(version=version, form=form)

    def _data(self, context: Context, gate: Gate, version: Found) -> tuple[Rows, ...]:
        """The rows that are judged on, and behind them those of training."""
        on = self._rows(context, gate.on)
        if gate.kind != "leakage":
            return (on,)
        if gate.training:
            return on, self._rows(context, gate.training)
        behind = data_behind(context, version.id)
        if not behind:
            raise Conflict(
                "Nobody knows which data it was trained on: train it in a run that says what it read, or name it as `training`."
            )
        if len(behind) > _DEEPEST:
            raise Conflict(f"It came from {len(behind)} datasets, and {_DEEPEST} are the most: name one as `training`.")
        return on, *(self._behind(context, one.name, one.digest) for one in behind)

    def _behind(self, context: Context, name: str, digest: str) -> Rows:
        dataset = dataset_store.find(context.work, context.required_project.id, name)
        there = dataset_versions.living(context.work, dataset.id) if dataset is not None else ()
        found = next((row for row in there if row.digest.startswith(digest)), None)
        if found is None:
            raise Conflict(f"It came from {name}@{digest[:12]}, which is no version of a dataset here that can be read.")
        return self._rows(context, f"{name}@{found.number}")

    def _rows(self, context: Context, reference: str) -> Rows:
        name, word = split(reference)
        grant = GrantRead(project=context.required_project.name, dataset=name, version=word)
        self._gate.authorise(context.work, context.identity, GRANT_READ, grant)
        dataset = required_dataset(context, name)
        row = required_dataset_version(context, dataset, word)
        return Rows(
            seen=DataSeen(dataset=name, version=row.number, digest=row.digest),
            columns=schema_of(row).names,
            classified=class_store.classes_of(context.work, dataset.id),
        )

    # Within the transaction

    def pin(self, context: Context, run: str, planned: Measurement) -> dict[str, Any]:
        """What the job will be told; its files are held for it from now on."""
        return {
            "candidate": self._pinned(context, run, planned.candidate),
            "incumbent": self._pinned(context, run, planned.incumbent),
            "on": _data_written(planned.on),
            "training": [_data_written(one) for one in planned.training],
            "columns": list(planned.columns),
            "masked": list(planned.masked),
            "price": self._price,
        }

    def _pinned(self, context: Context, run: str, subject: Subject | None) -> dict[str, Any] | None:
        if subject is None:
            return None
        owner, files, form = Owner(kind=OWNER, id=run), [], subject.form
        for file in form.files:
            received = form.fresh.get(file.name)
            blob = file.blob if received is None else self._blobs.keep(context, received, owner, name=file.name).id
            self._blobs.refer(context, blob, owner)
            files.append({"name": file.name, "blob": blob, "size": file.size, "digest": file.digest})
        return {
            "version": subject.version.id,
            "model": subject.version.model_name,
            "number": subject.version.number,
            "runtime": form.runtime,
            "file": form.file,
            "files": files,
            "columns": [one.name for one in form.columns],
        }


def spec_of(gate: Gate, run: str, permissions: Sequence[str], version: str) -> Spec:
    """The platform's own program, with nothing brought along: see `optimisation.attesting`."""
    return Spec(
        name=f"gate {gate.name}"[:100],
        command=(*PROGRAM, run),
        permissions=tuple(permissions),
        inputs=(Input(kind="version", id=version),),
        resources=Resources(cpus=gate.cpus, memory_mib=gate.memory_mib),
        timeout=gate.seconds,
        retries=1,
    )


def is_own(spec: Spec, run: str) -> bool:
    brought = (spec.source, spec.lock, spec.image, spec.variables, spec.secrets, spec.hosts)
    return spec.command == (*PROGRAM, run) and not any(brought) and spec.tasks == 1


def _columns(gate: Gate) -> tuple[str, ...]:
    """Of the rows, besides those that the model takes."""
    named = (gate.label, *gate.slices, *gate.groups, *gate.keys)
    return tuple(dict.fromkeys(name for name in named if name))


def _signature(version: Found) -> tuple[str, ...]:
    """The columns that the version takes, or none where it takes tensors, or does not say."""
    told = [one.get("name") for one in json.loads(version.inputs or "[]")]
    return tuple(told) if told and all(told) else ()


def _data_written(one: DataSeen) -> dict[str, Any]:
    return {"dataset": one.dataset, "version": one.version, "digest": one.digest}


def data_read(told: dict[str, Any]) -> DataSeen:
    return DataSeen(dataset=told["dataset"], version=told["version"], digest=told["digest"])


def pinned_of(row: Any) -> dict[str, Any]:
    return dict(json.loads(row.pinned))
