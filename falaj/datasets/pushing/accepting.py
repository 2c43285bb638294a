"""The door: rows that are pushed are brought into the dataset's columns by a data worker, or refused, and stored sealed. Only
then are they answered. `batching` makes versions of them."""

import dataclasses
import hashlib
from collections.abc import Iterator

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, NotFound, TooLarge, TooMany, Unavailable
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.binding import Bound, bind_upload
from falaj.database.work import Context, Database
from falaj.datasets.datasets import create
from falaj.datasets.external.pins import refuse_external
from falaj.datasets.operations import pushing as declared
from falaj.datasets.parts import NewPart, Parts
from falaj.datasets.pushing.bounds import PushBounds
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import pushes as store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset
from falaj.operations.messages import adapter
from falaj.tables.forms import Form
from falaj.tables.schemas import Schema


@value
class Arrived:
    """A push that came in, in the columns `columns` (JSON), empty where it decides them; `new` is None where it came before."""

    source: str
    columns: str = ""
    new: NewPart | None = None


@value
class _Expected:
    zone: str
    columns: str
    is_known: bool


class AcceptService:
    """`parts` has data workers of its own, so that rows are taken in while others are busy."""

    def __init__(self, database: Database, parts: Parts, bounds: PushBounds) -> None:
        self._database = database
        self._parts = parts
        self._bounds = bounds

    def bindings(self) -> list[Bound]:
        return [bind_upload(declared.PUSH_ROWS, self.receive, self.put)]

    def receive(self, context: Context, request: declared.PushRows, chunks: Iterator[bytes]) -> Arrived:
        expected = self._database.read(lambda work: self._expected(dataclasses.replace(context, work=work), request))
        content = _whole(chunks, self._bounds.largest)
        source = hashlib.sha256(content).hexdigest()
        if expected.is_known:
            return Arrived(source=source)
        form = Form(format=request.format, compression="none", time_zone=request.time_zone, first_line=request.first_line)
        schema = _schema(expected.columns) if expected.columns else None
        new = self._parts.make(context.required_project, expected.zone, [content], form=form, schema=schema)
        if not new.facts.rows:
            raise Invalid("There is no row in this push: send at least one.")
        return Arrived(source=source, columns=expected.columns, new=new)

    def put(self, context: Context, request: declared.PushRows, arrived: Arrived) -> declared.Pushed:
        dataset = _found_or_made(context, request)
        if (known := self._known(context, dataset, request)) is not None:
            if known.source != arrived.source:
                raise Conflict(f"Other rows were pushed under the key {request.key!r}; take a fresh one.")
            return _answer(dataset, known, again=True)
        if arrived.new is None or arrived.columns != _columns(context, dataset):
            raise Unavailable("The dataset's columns were decided or changed at the same moment; push again.", delay=0.1)
        self._refuse_too_much(context)
        row = {
            "id": new_id(context.now),
            "project": context.required_project.id,
            "dataset": dataset.id,
            "part": self._parts.enter(context, dataset.id, arrived.new, context.now),
            "key": request.key,
            "source": arrived.source,
            "rows": arrived.new.facts.rows,
            "size": arrived.new.received.size,
            "state": store.WAITING,
            "version": 0,
            "accepted": context.now,
            "created_by": context.identity.principal,
            "error": "",
        }
        store.add(context.work, row)
        return declared.Pushed(push=str(row["id"]), dataset=dataset.name, rows=arrived.new.facts.rows, accepted=context.now)

    def _expected(self, context: Context, request: declared.PushRows) -> _Expected:
        """Whatever can be refused before the bytes come."""
        dataset = dataset_store.find(context.work, context.required_project.id, request.dataset)
        if dataset is None:
            _refuse_absent(request)
            place = context.required_project.places
            return _Expected(zone=place[0].zone if place else "", columns="", is_known=False)
        refuse_external(dataset, "bring new rows")
        known = self._known(context, dataset, request)
        if known is None:
            self._refuse_too_much(context)
        return _Expected(zone=dataset.zone, columns=_columns(context, dataset), is_known=known is not None)

    def _known(self, context: Context, dataset: Found, request: declared.PushRows) -> Found | None:
        if not request.key:
            return None
        return store.find_by_key(context.work, dataset.id, request.key, context.identity.principal)

    def _refuse_too_much(self, context: Context) -> None:
        number, size = store.held_in(context.work, context.required_project.id)
        if number >= self._bounds.held_pushes or size >= self._bounds.held_bytes:
            raise TooMany(
                f"{number:,} pushes of this project wait to become versions ({size >> 20:,} MiB), which is as much as may: "
                "wait a little, and see what holds them (dataset.pushed).",
                delay=max(1.0, min(self._bounds.seconds, 10.0)),
            )


def _found_or_made(context: Context, request: declared.PushRows) -> Found:
    """The dataset, held: the same key twice at once is one push."""
    if dataset_store.find(context.work, context.required_project.id, request.dataset, hold=True) is None:
        _refuse_absent(request)
        create(context, request.dataset, "", "")
    found = required_dataset(context, request.dataset, hold=True)
    refuse_external(found, "bring new rows")
    return found


def _columns(context: Context, dataset: Found) -> str:
    """Those of the version that is current, or else what the first push has decided."""
    current = version_store.find(context.work, dataset.id, dataset.current) if dataset.current else None
    return str(current.schema) if current is not None else store.first_schema(context.work, dataset.id)


def _schema(text: str) -> Schema:
    schema: Schema = adapter(Schema).validate_json(text)
    return schema


def _refuse_absent(request: declared.PushRows) -> None:
    if not request.create:
        raise NotFound(f"There is no dataset {request.dataset!r} here. Create it first, or with what is pushed (`--create`).")


def _whole(chunks: Iterator[bytes], most: int) -> bytes:
    """All of it, before a data worker is asked for: who sends slowly keeps none from others."""
    found, size = [], 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise TooLarge(f"One push has at most {most >> 20} MiB: send fewer rows at a time, or import them.")
        found.append(chunk)
    return b"".join(found)


def _answer(dataset: Found, row: Found, *, again: bool) -> declared.Pushed:
    return declared.Pushed(push=row.id, dataset=dataset.name, rows=row.rows, accepted=Moment(row.accepted), again=again)
