"""Batches: what a model version is to say about every row of a dataset's version.

Decided here, in one transaction: which versions, in which servable form, into what. A job of the caller's reads, predicts and
writes; that the version came from both is recorded when its write is committed.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict, Corrupt, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.operation import Download
from falaj.base.values import value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.datasets import create
from falaj.datasets.mentions import split
from falaj.datasets.operations.classes import PERSONAL
from falaj.datasets.operations.reading import GRANT_READ, GrantRead
from falaj.datasets.operations.words import READ, WRITE
from falaj.datasets.operations.writing import OPEN_WRITE, OpenWrite
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as dataset_versions
from falaj.datasets.store import writes as write_store
from falaj.datasets.views import lineage_id, required_dataset, schema_of
from falaj.datasets.views import required_version as required_dataset_version
from falaj.governance.gate import ANONYMOUS, Gatekeeper, project_facts
from falaj.governance.projects.store import project_by_id
from falaj.jobs.operations.jobs import REPORT
from falaj.lineage.graph import Node, link
from falaj.registry.meaning import meant_version
from falaj.registry.operations.versions import GET_VERSION_FILE, GetVersionFile
from falaj.registry.store.tables import Found
from falaj.registry.verifying import VERSION, Verifier
from falaj.serving.batch_classes import carry_classes
from falaj.serving.forms import Form, Forms, columns_written, read_columns
from falaj.serving.looking_up import fits
from falaj.serving.operations import batches as declared
from falaj.serving.operations.batches import PREDICTION, Batch, BatchColumn, BatchFile, PlanBatch
from falaj.serving.permitting import ISOLATED
from falaj.serving.states import Column
from falaj.serving.store import batches as store
from falaj.storage.service import BlobService, Owner
from falaj.tables import types
from falaj.tables.schemas import Schema, listed

OWNER: Final = "batch"  # the kind of owner that a batch's files have
KEPT_FOR: Final = 30 * DAY
AT_ONCE: Final = 100
_PIECE: Final = 32 << 20  # bytes that a piece's rows take, about
_FEWEST, _MOST = 256, 65_536
_TEXT: Final = 64  # bytes, about, of what has no size of its own


@value
class Ready:
    """What the first step found: the version that is meant, and the form of it that predicts."""

    version: Found
    form: Form


class BatchService:
    """Thread-safe. `step` wants to be called now and then."""

    def __init__(self, *, database: Database, blobs: BlobService, verifier: Verifier, gate: Gatekeeper, forms: Forms) -> None:
        self._database, self._blobs, self._verifier = database, blobs, verifier
        self._gate, self._forms = gate, forms

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.PLAN_BATCH, self.prepare, self.plan),
            bind(declared.SHOW_BATCH, self.show),
            bind(declared.READ_BATCH_FILE, self.file),
            bind(declared.FINISH_BATCH, self.finish),
        ]

    # Planning: the first step reads files and may convert, the second is the transaction

    def prepare(self, context: Context, request: PlanBatch) -> Ready:
        def look(work: UnitOfWork) -> Found:
            within = replace(context, work=work)
            version = meant_version(within, request.model, request.version, request.alias)
            self._refuse_unreadable(within, version.model_name, version.number, "MLmodel")
            self._verifier.check_whole(within, version)
            self._read(within, request)
            return version

        version = self._database.read(look)
        form = self._forms.of(context, version, allow_python=False)
        if form.runtime == ISOLATED:
            raise Conflict(
                f"Version {version.number} of {request.model!r} runs by its own code, and a batch runs nobody's: convert it."
            )
        return Ready(version=version, form=form)

    def plan(self, context: Context, request: PlanBatch, ready: Ready) -> Batch:
        version = meant_version(context, request.model, request.version, request.alias)
        if version.id != ready.version.id:
            raise Conflict(f"{request.alias or 'champion'} of {request.model!r} moved meanwhile; ask again.")
        dataset, of = self._read(context, request)
        schema, form = schema_of(of), ready.form
        _check_columns(schema, form.columns, request.on)
        for name in request.keep:
            schema.column(name)
        into = self._into(context, request, dataset)
        id = new_id(context.now)
        files = [self._kept(context, file, form, Owner(kind=OWNER, id=id)) for file in form.files]
        classified = class_store.classes_of(context.work, dataset.id)
        row = {
            "id": id,
            "project": context.required_project.id,
            "model_name": version.model_name,
            "version": version.number,
            "version_id": version.id,
            "dataset": dataset.id,
            "dataset_name": dataset.name,
            "number": of.number,
            "lineage": lineage_id(dataset.name, of.digest),
            "into_id": into.id,
            "into_name": into.name,
            "keep": json.dumps(list(dict.fromkeys(request.keep))),
            "append": request.append,
            "rows": request.rows or _rows(schema, form.columns, request.keep),
            "runtime": form.runtime,
            "file": form.file,
            "columns": columns_written(form.columns),
            "files": json.dumps(files),
            "classified": bool(classified),
            "remarks": json.dumps(list(form.remarks)),
            "state": store.OPEN,
            "made": 0,
            "created": context.now,
            "created_by": context.identity.principal,
        }
        store.add(context.work, row)
        carry_classes(
            context,
            into=into.id,
            source=dataset.id,
            kept=request.keep,
            taken=[column.name for column in form.columns],
            predicted=[PREDICTION],
        )
        context.facts.update(batch=id, version=version.id, dataset=of.id, into=into.id)
        return self.show(context, declared.OneBatch(project=request.project, batch=id))

    def _read(self, context: Context, request: PlanBatch) -> tuple[Found, Found]:
        """The dataset and its version, if the caller may read all of it and may write what comes out."""
        name, word = split(request.on)
        if name == request.into:
            raise Invalid(f"The predictions would take the place of {name!r}, which they are made of: name another dataset.")
        project = context.required_project.name
        grant = GrantRead(project=project, dataset=name, version=word or "current")
        self._gate.authorise(context.work, context.identity, GRANT_READ, grant)
        write = OpenWrite(project=project, dataset=request.into)
        self._gate.authorise(context.work, context.identity, OPEN_WRITE, write)
        dataset = required_dataset(context, name)
        return dataset, required_dataset_version(context, dataset, word)

    def _refuse_unreadable(self, context: Context, model: str, version: int, file: str) -> None:
        """Who may not read a model's files does not get them through a batch."""
        read = GetVersionFile(project=context.required_project.name, model=model, version=version, name=file)
        self._gate.authorise(context.work, context.identity, GET_VERSION_FILE, read)

    def _into(self, context: Context, request: PlanBatch, of: Found) -> Found:
        if dataset_store.find(context.work, context.required_project.id, request.into) is None:
            create(context, request.into, f"What {request.model} says about {request.on}.", of.zone)
        into = required_dataset(context, request.into, hold=True)
        if into.zone != of.zone:
            raise Conflict(f"{request.into!r} is kept in the zone {into.zone!r}, and {of.name!r} in {of.zone!r}.")
        return into

    def _kept(self, context: Context, file: Any, form: Form, owner: Owner) -> dict[str, Any]:
        received = form.fresh.get(file.name)
        if received is not None:
            file = replace(file, blob=self._blobs.keep(context, received, owner, name=file.name).id)
        self._blobs.refer(context, file.blob, owner)
        return {"name": file.name, "blob": file.blob, "size": file.size, "digest": file.digest}

    # What the job asks

    def show(self, context: Context, request: declared.OneBatch) -> Batch:
        return _shown(_required(context, request.batch))

    def file(self, context: Context, request: declared.ReadBatchFile) -> Download:
        row = _required(context, request.batch)
        self._refuse_unreadable(context, row.model_name, row.version, request.file)
        if row.created_by != context.identity.principal:  # before anything is predicted for nothing
            raise Conflict(f"Batch {request.batch} was planned by somebody else, who alone has it done: plan one of your own.")
        found = next((one for one in json.loads(row.files) if one["name"] == request.file), None)
        if found is None:
            raise NotFound(f"Batch {request.batch} has no file {request.file!r}.")
        if row.state == store.DONE:
            raise Conflict(f"Batch {request.batch} is done; its files are gone.")
        stored = self._blobs.show(context, found["blob"])
        if stored.digest != found["digest"]:
            raise Corrupt(f"What is stored as {request.file!r} is not what was planned.")
        reader = self._blobs.open(context, found["blob"])
        context.facts.update(batch=row.id, digest=found["digest"])
        return Download(chunks=reader.read(), size=reader.size, name=request.file.rpartition("/")[2])

    def finish(self, context: Context, request: declared.OneBatch) -> Batch:
        row = _required(context, request.batch, hold=True)
        if row.state == store.DONE:
            return _shown(row)
        # Whoever says so: of whom it was planned for, and nobody else's rows under the same key.
        write = write_store.find_by_key(context.work, row.into_id, key_of(row.id), row.created_by, Moment(0))
        if write is None or write.state != write_store.COMMITTED:
            raise Conflict(f"The write of batch {request.batch} was not committed yet.")
        made = dataset_versions.find(context.work, row.into_id, write.version)
        if made is None:
            raise Conflict(f"Version {write.version} of {row.into_name!r} is not there any more.")
        target = Node(kind="dataset", id=lineage_id(row.into_name, made.digest), label=f"{row.into_name} v{made.number}")
        sources = (
            (Node(kind=VERSION, id=row.version_id, label=f"{row.model_name} v{row.version}"), "predicted"),
            (Node(kind="dataset", id=row.lineage, label=f"{row.dataset_name} v{row.number}"), "predicted on"),
        )
        for source, relation in sources:
            link(context.work, project=row.project, source=source, target=target, relation=relation, now=context.now)
        kept = json.loads(row.keep)
        carry_classes(
            context,
            into=row.into_id,
            source=row.dataset,
            kept=kept,
            taken=[column.name for column in read_columns(row.columns)],
            predicted=[name for name in schema_of(made).names if name not in kept],
        )
        store.finish(context.work, row.id, made.number)
        self._blobs.release(context, Owner(kind=OWNER, id=row.id))
        context.facts.update(batch=row.id, version=row.version_id, made=made.id)
        return _shown(_required(context, request.batch))

    def step(self, now: Moment) -> bool:
        """Forget what is too old, done or given up, with its files; whether there is more."""

        def forget(work: UnitOfWork) -> bool:
            old = store.older_than(work, Moment(now - KEPT_FOR), AT_ONCE)
            for row in old:
                if (found := project_by_id(work, row.project)) is not None:
                    facts = project_facts(found)
                    context = Context(work=work, identity=ANONYMOUS, project=facts, now=now, request_id="", facts={})
                    self._blobs.release(context, Owner(kind=OWNER, id=row.id))
            store.forget(work, [row.id for row in old])
            return len(old) == AT_ONCE

        if not self._database.read(lambda work: store.older_than(work, Moment(now - KEPT_FOR), 1)):
            return False
        return self._database.write(forget)


def key_of(batch: str) -> str:
    """Of the write: a job that is tried again finds what it wrote."""
    return f"batch-{batch}"


def _check_columns(schema: Schema, columns: Sequence[Column], on: str) -> None:
    """Without a signature of columns only the model itself knows, which nobody loads here."""
    there = {column.name: column for column in schema.columns}
    if missing := tuple(column.name for column in columns if column.name not in there):
        raise Invalid(f"The model takes {listed(missing)}, which {on!r} has not. It has {listed(schema.names)}.")
    for column in columns:
        kind = there[column.name].type
        if column.type in ("double", "float", "long", "integer", "boolean", "string") and not fits(kind, column):
            raise Invalid(f"Column {column.name!r} of {on!r} is {kind}, and the model's is {column.type}: cast it first.")


def _rows(schema: Schema, columns: Sequence[Column], keep: Sequence[str]) -> int:
    """Of a piece, so that it takes some 32 MiB."""
    wanted = {column.name for column in columns} | set(keep) or set(schema.names)
    width = sum(_width(types.parse(column.type)) for column in schema.columns if column.name in wanted)
    return max(_FEWEST, min(_MOST, _PIECE // max(width, 1)))


def _width(kind: types.Type) -> int:
    if kind.word == "vector":
        return kind.sizes[0] * 8
    return _TEXT if kind.inner or kind.word in ("text", "bytes") else 8


def _required(context: Context, id: str, *, hold: bool = False) -> Found:
    found = store.find(context.work, context.required_project.id, id, hold=hold)
    if found is None:
        raise NotFound(f"There is no batch {id} here.")
    return found


def _shown(row: Found) -> Batch:
    needed = (declared.PREDICT.name, READ.name, WRITE.name, REPORT.name, GET_VERSION_FILE.permission.name)
    return Batch(
        id=row.id,
        model=row.model_name,
        version=row.version,
        version_id=row.version_id,
        dataset=row.dataset_name,
        number=row.number,
        into=row.into_name,
        keep=tuple(json.loads(row.keep)),
        append=row.append,
        rows=row.rows,
        runtime=row.runtime,
        file=row.file,
        columns=tuple(BatchColumn(**msgspec.to_builtins(column)) for column in read_columns(row.columns)),
        files=tuple(BatchFile(name=one["name"], size=one["size"], digest=one["digest"]) for one in json.loads(row.files)),
        key=key_of(row.id),
        permissions=(*needed, PERSONAL.name) if row.classified else needed,
        state=row.state,
        made=row.made,
        created=Moment(row.created),
        remarks=tuple(json.loads(row.remarks)),
    )
