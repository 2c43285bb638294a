"""Optimisations: what was asked for, pinned to versions, for a job to do; and what that job tells about the whole."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Corrupt, Invalid, NotFound, TooLarge
from falaj.base.ids import new_id
from falaj.base.operation import Download
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.mentions import split
from falaj.datasets.operations.reading import GRANT_READ, GrantRead
from falaj.datasets.reading import ReadService
from falaj.datasets.store import classes as class_store
from falaj.datasets.views import lineage_id, required_dataset, schema_of
from falaj.datasets.views import required_version as required_dataset_version
from falaj.governance.gate import Gatekeeper
from falaj.operations.messages import adapter
from falaj.optimisation import attesting
from falaj.optimisation.ending import OWNER, Ending
from falaj.optimisation.operations import optimisations as declared
from falaj.optimisation.operations.optimisations import Describe, Optimisation, PlanOptimisation
from falaj.optimisation.operations.words import STEP_WORDS
from falaj.optimisation.store import optimisations as store
from falaj.optimisation.store import variants as variant_store
from falaj.optimisation.views import optimisation_shown, optimisations_shown, required_optimisation, student_of, version_of
from falaj.registry.meaning import meant_version
from falaj.registry.operations.versions import GET_VERSION_FILE, GetVersionFile
from falaj.registry.operations.words import CHAMPION
from falaj.registry.sources import SourceFile
from falaj.registry.store.tables import Found
from falaj.registry.verifying import Verifier
from falaj.registry.views import required_model
from falaj.storage.service import BlobService, Owner, Received
from falaj.tables.schemas import Schema, listed

MOST_OPEN: Final = 200  # of one project
_LEAST_MARGIN: Final = 0.0001
_LEAST_SURE, _SUREST = 0.9, 0.9999
# What candidates are planned of; others are forms at the end of a search already.
_PLANNED_OF: Final = frozenset({"onnx", "lightgbm", "xgboost"})
_ENDS: Final = {"openvino": "OpenVINO IR", "litert": "a LiteRT model", "torch": "a torch program"}
ISOLATED: Final = "python"  # the runtime of models that run by their own code
_COMPARED: Final = 256  # rows that a conversion is held against the original on


class ColumnOf(Protocol):
    """A column of a signature."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def required(self) -> bool: ...


class Form(Protocol):
    """A version as it is served; see `serving`, which makes them."""

    @property
    def runtime(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def files(self) -> tuple[SourceFile, ...]: ...
    @property
    def columns(self) -> Sequence[ColumnOf]: ...
    @property
    def converted(self) -> str: ...
    @property
    def fresh(self) -> Mapping[str, Received]: ...
    @property
    def remarks(self) -> tuple[str, ...]: ...


Rows: TypeAlias = Callable[[], Sequence[Mapping[str, Any]]]


class Forms(Protocol):
    """Makes them, where needed in a sandbox: then `rows` are asked for, and the two compared on them. Called outside any
    transaction. Raises `Conflict` with the reasons."""

    def of(self, context: Context, version: Found, *, allow_python: bool, rows: Rows | None = None) -> Form: ...


@value
class Ready:
    """What the first step found: the version that is meant, and the form that is optimised; and those of the student."""

    version: Found
    form: Form
    student: Form | None = None
    student_version: Found | None = None


class OptimisationService:
    """Thread-safe. `price` is of an hour of a core, `gpu_price` of a GPU, in millionths of the platform's currency."""

    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        verifier: Verifier,
        gate: Gatekeeper,
        forms: Forms,
        reading: ReadService,
        price: int,
        gpu_price: int,
    ) -> None:
        self._database, self._blobs, self._verifier = database, blobs, verifier
        self._gate, self._forms, self._reading = gate, forms, reading
        self._prices = {"price": price, "gpu_price": gpu_price}
        self._ending = Ending(blobs)

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.PLAN_OPTIMISATION, self.prepare, self.plan),
            bind(declared.SHOW_OPTIMISATION, self.show),
            bind(declared.LIST_OPTIMISATIONS, self.list),
            bind(declared.READ_OPTIMISATION_FILE, self.file),
            bind(declared.DESCRIBE_OPTIMISATION, self.describe),
            bind(declared.FINISH_OPTIMISATION, self.finish),
            bind(declared.ABANDON_OPTIMISATION, self.abandon),
        ]

    # Planning: the first step reads files and may convert, the second is the transaction

    def prepare(self, context: Context, request: PlanOptimisation) -> Ready:
        _check_limits(request.limits)
        _check_steps(request.only)

        def look(work: UnitOfWork) -> tuple[Found, Found | None, Found]:
            within = replace(context, work=work)
            version = meant_version(within, request.model, request.version, request.alias)
            self._check_readable(within, version)
            on, _, _ = self._data(within, request)
            if not request.student:
                return version, None, on
            if self._gate.profile.wants_four_eyes(CHAMPION):
                raise Conflict(
                    "Under four eyes a student is a model of its own: register what it learnt, and have that approved."
                )
            student = meant_version(within, request.student, request.student_version, "")
            self._check_readable(within, student)
            return version, student, on

        def form(found: Found) -> Form:
            return self._form(context, found, lambda: self._rows(context, request, on, found))

        version, student, on = self._database.read(look)
        meant, taught = form(version), form(student) if student is not None else None
        _check_forms(request, meant, taught)
        return Ready(version=version, form=meant, student=taught, student_version=student)

    def _check_readable(self, context: Context, version: Found) -> None:
        """Who may not read a model's files does not get them, or forms of them, this way."""
        project = context.required_project.name
        read = GetVersionFile(project=project, model=version.model_name, version=version.number, name="MLmodel")
        self._gate.authorise(context.work, context.identity, GET_VERSION_FILE, read)
        self._verifier.check_whole(context, version)

    def _rows(self, context: Context, request: PlanOptimisation, on: Found, version: Found) -> Sequence[Mapping[str, Any]]:
        """Of the columns that the model's signature names, or, where it names none, all but what it should answer."""
        there, told = schema_of(on).names, [one.get("name") for one in json.loads(version.inputs or "[]")]
        columns = [name for name in there if (name in told if any(told) else name != request.label)]
        dataset, _ = split(request.on)
        # A model's own code may keep what it sees: nothing that is classified, whoever asks.
        if not columns or self._is_classified(context, dataset):
            return ()
        try:
            return self._reading.sample(context, dataset, str(on.number), columns=columns, rows=_COMPARED)
        except TooLarge:
            return ()

    def _is_classified(self, context: Context, dataset: str) -> bool:
        def look(work: UnitOfWork) -> bool:
            within = replace(context, work=work)
            return bool(class_store.classes_of(work, required_dataset(within, dataset).id))

        return self._database.read(look)

    def _form(self, context: Context, version: Found, rows: Rows) -> Form:
        form = self._forms.of(context, version, allow_python=False, rows=rows)
        if form.runtime == ISOLATED:
            raise Conflict(f"Version {version.number} of {version.model_name!r} runs by its own code: convert it first.")
        return form

    def plan(self, context: Context, request: PlanOptimisation, ready: Ready) -> Optimisation:
        version = meant_version(context, request.model, request.version, request.alias)
        if version.id != ready.version.id:
            raise Conflict(f"{request.alias or 'champion'} of {request.model!r} moved meanwhile; ask again.")
        student = meant_version(context, request.student, request.student_version, "") if request.student else None
        if (student and student.id) != (ready.student_version and ready.student_version.id):
            raise Conflict(f"The student {request.student!r} is another meanwhile; ask again.")
        id = new_id(context.now)
        if store.count_open(context.work, context.required_project.id) >= MOST_OPEN:
            raise Conflict(
                f"{MOST_OPEN} optimisations of this project are open: let them end, resume them, or give them up by `falaj "
                "optimise --abandon`."
            )
        on, held_out, classified = self._data(context, request)
        _check_columns(request, ready.form, on, held_out)
        files = self._kept(context, ready.form, id)
        pinned = {
            "on": _pinned(on, request.on),
            "held_out": _pinned(held_out, request.held_out or request.on),
            "runtime": ready.form.runtime,
            "file": ready.form.file,
            "files": files,
            "converted": ready.form.converted,
            "columns": [{"name": one.name, "type": one.type, "required": one.required} for one in ready.form.columns],
            "student": self._kept(context, ready.student, id) if ready.student is not None else [],
            "student_file": ready.student.file if ready.student is not None else "",
            "student_of": f"{student.model_name} v{student.number}" if student is not None else "",
            "student_version_id": student.id if student is not None else "",
            "zone": self._blobs.show(context, files[0]["blob"]).zone,
            "version_digest": version.digest,
            **self._prices,
        }
        row = {
            "id": id,
            "project": context.required_project.id,
            "model": version.model,
            "model_name": version.model_name,
            "version": version.number,
            "version_id": version.id,
            "request": adapter(PlanOptimisation).dump_json(request).decode(),
            "pinned": json.dumps(pinned),
            "found": json.dumps({"remarks": list(ready.form.remarks)}),
            "held_out": held_out.digest,
            "classified": classified,
            "state": store.OPEN,
            "created": context.now,
            "created_by": context.identity.principal,
            "ended": None,
        }
        store.add(context.work, row)
        context.facts.update(optimisation=id, version=version.id, on=on.id, held_out=held_out.id)
        return optimisation_shown(context, required_optimisation(context, id))

    def _data(self, context: Context, request: PlanOptimisation) -> tuple[Found, Found, bool]:
        """What is learnt from and what is judged on, if the caller may read all of it; whether a column is classified."""
        found = []
        classified = False
        for reference in (request.on, request.held_out or request.on):
            name, word = split(reference)
            grant = GrantRead(project=context.required_project.name, dataset=name, version=word or "current")
            self._gate.authorise(context.work, context.identity, GRANT_READ, grant)
            dataset = required_dataset(context, name)
            hidden = class_store.classes_of(context.work, dataset.id)
            classified = classified or bool(hidden)
            if told := [column for column in (request.label, *request.slices) if column and column in hidden]:
                raise Invalid(
                    f"{told[0]!r} of {name!r} is classified, and certificates name values of slices and labels: take another."
                )
            found.append(required_dataset_version(context, dataset, word))
        on, held_out = found
        if request.held_out and on.digest == held_out.digest:
            raise Invalid(
                f"{request.held_out!r} has the rows of {request.on!r}: what is learnt from cannot be judged on. Name other "
                "rows, or leave --held-out away, and three tenths of them are set apart."
            )
        return on, held_out, classified

    def _kept(self, context: Context, form: Form, id: str) -> list[dict[str, Any]]:
        owner, kept = Owner(kind=OWNER, id=id), []
        for file in form.files:
            received = form.fresh.get(file.name)
            blob = file.blob if received is None else self._blobs.keep(context, received, owner, name=file.name).id
            self._blobs.refer(context, blob, owner)
            kept.append({"name": file.name, "blob": blob, "size": file.size, "digest": file.digest})
        return kept

    # What people ask

    def show(self, context: Context, request: declared.OneOptimisation) -> Optimisation:
        return optimisation_shown(context, required_optimisation(context, request.optimisation))

    def list(self, context: Context, request: declared.ListOptimisations) -> declared.Optimisations:
        model = required_model(context, request.model).id if request.model else ""
        before = read_text_cursor(request.cursor)
        rows = store.page(context.work, context.required_project.id, model, before, request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.id,))
        return declared.Optimisations(items=optimisations_shown(context, page), next=following)

    # What the job asks and tells

    def file(self, context: Context, request: declared.ReadOptimisationFile) -> Download:
        row = required_optimisation(context, request.optimisation)
        if row.state != store.OPEN:
            raise Conflict(f"Optimisation {row.id} is {row.state}, and holds no files of the model any more.")
        listed_files = json.loads(row.pinned)["student" if request.student else "files"]
        found = next((one for one in listed_files if one["name"] == request.file), None)
        if found is None:
            raise NotFound(f"Optimisation {row.id} has no file {request.file!r}.")
        # What was deleted is not given out, nor is the student to whoever may read its teacher alone.
        version = student_of(context, row) if request.student else version_of(context, row)
        read = GetVersionFile(
            project=context.required_project.name, model=version.model_name, version=version.number, name=request.file
        )
        self._gate.authorise(context.work, context.identity, GET_VERSION_FILE, read)
        if self._blobs.show(context, found["blob"]).digest != found["digest"]:
            raise Corrupt(f"What is stored as {request.file!r} is not what was planned.")
        reader = self._blobs.open(context, found["blob"])
        context.facts.update(optimisation=row.id, version=version.id, digest=found["digest"])
        return Download(chunks=reader.read(), size=reader.size, name=request.file.rpartition("/")[2])

    def describe(self, context: Context, request: Describe) -> Optimisation:
        row = attesting.told_by_job(context, request.optimisation, request.job)
        known = json.loads(row.found)
        told = {
            name: adapter(type(one)).dump_python(one, mode="json")
            for name, one in (("host", request.host), ("profile", request.profile), ("baseline", request.baseline))
        }
        remarks = list(dict.fromkeys([*known.get("remarks", ()), *request.remarks]))
        told |= {"task": request.task, "rows": list(request.rows), "remarks": remarks}
        store.describe(context.work, row.id, json.dumps(known | told))
        there = {one.name for one in variant_store.of_optimisations(context.work, [row.id])}
        new = [(place, one) for place, one in enumerate(request.candidates) if one.name not in there]
        variant_store.add(context.work, [_candidate(context.now, row, place, one) for place, one in new])
        context.facts.update(optimisation=row.id, candidates=len(request.candidates))
        return optimisation_shown(context, required_optimisation(context, row.id))

    def finish(self, context: Context, request: declared.Finish) -> Optimisation:
        row = attesting.told_by_job(context, request.optimisation, request.job)
        if row.state == store.OPEN:
            self._ending.end(context, row, store.DONE, request.remarks, "The search ended before it was made.")
        context.facts.update(optimisation=row.id)
        return optimisation_shown(context, required_optimisation(context, row.id))

    def abandon(self, context: Context, request: declared.OneOptimisation) -> Optimisation:
        """Its job is left alone: it is told when it next has something to say."""
        row = required_optimisation(context, request.optimisation, hold=True)
        if row.state == store.DONE:
            raise Conflict(f"Optimisation {row.id} is done: there is nothing left to abandon.")
        if row.state == store.OPEN:
            self._ending.end(context, row, store.ABANDONED, (), "The search was abandoned before it was made.")
        context.facts.update(optimisation=row.id, version=row.version_id)
        return optimisation_shown(context, required_optimisation(context, row.id))


def _pinned(version: Found, reference: str) -> dict[str, Any]:
    name = split(reference)[0]
    return {"dataset": name, "version": version.number, "digest": version.digest, "lineage": lineage_id(name, version.digest)}


def _candidate(now: Moment, row: Found, place: int, one: declared.Proposed) -> dict[str, Any]:
    return {
        "id": new_id(now),
        "project": row.project,
        "optimisation": row.id,
        "version_id": row.version_id,
        "place": place,
        "name": one.name,
        "steps": json.dumps(list(one.steps)),
        "why": one.why,
        "state": "skipped" if one.skipped else "planned",
        "reason": one.skipped,
        "made": "{}",
        "measures": "",
        "job": "",
        "tries": 0,
        "settled": now if one.skipped else None,
    }


def _check_limits(limits: declared.Limits) -> None:
    if not (_LEAST_MARGIN <= limits.max_drop < 1 and _LEAST_MARGIN <= limits.max_slice_drop < 1):
        raise Invalid(f"A drop of at least {_LEAST_MARGIN:.2%} and less than all has to be allowed: no rows could show less.")
    if not _LEAST_SURE <= limits.confidence <= _SUREST:
        raise Invalid(f"The confidence lies between {_LEAST_SURE:g} and {_SUREST:g}, not at {limits.confidence:g}.")


def _check_steps(only: Sequence[str]) -> None:
    unknown = [step for step in only if step.partition(":")[0] not in STEP_WORDS]
    if unknown:
        raise Invalid(f"There is no step {unknown[0]!r}. There are {', '.join(STEP_WORDS)}.")


def _check_forms(request: PlanOptimisation, form: Form, student: Form | None) -> None:
    """Nobody waits for a search that would have nothing to try."""
    if form.runtime not in _PLANNED_OF and not request.only:
        is_already = _ENDS.get(form.runtime, form.runtime)
        raise Invalid(
            f"{request.model!r} is served as {is_already}, and candidates are planned of ONNX, LightGBM and XGBoost. "
            "Register the ONNX model that it was made from, and optimise that; or name steps by --only."
        )
    if student is not None and student.runtime != "onnx":
        is_already = _ENDS.get(student.runtime, student.runtime)
        raise Invalid(f"The student {request.student!r} is served as {is_already}: only ONNX can be taught.")


def _check_columns(request: PlanOptimisation, form: Form, on: Found, held_out: Found) -> None:
    """Without a signature of columns only the model itself knows what it takes, and its job says so."""
    wanted = [one.name for one in form.columns]
    named = [*([request.label] if request.label else []), *request.slices]
    if request.label and request.label in wanted:
        raise Invalid(f"{request.label!r} is a column that the model takes; what it should answer is another.")
    for reference, version in ((request.on, on), (request.held_out or request.on, held_out)):
        schema: Schema = schema_of(version)
        if missing := tuple(name for name in (*wanted, *named) if name not in schema.names):
            raise Invalid(f"{reference!r} has no column {listed(missing)}. It has {listed(schema.names)}.")
