"""Taking in labels: the predictions they mean are found among the logged calls, and what is known of both is sealed together.

A label by id means the newest logged prediction of that id, unless several callers used it: then nobody knows whose is meant.
One by entity means the last that was made for it before the moment.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import DAY, MINUTE, SECOND, Moment
from falaj.base.errors import Conflict, Invalid, NotFound, Unavailable
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring import joined
from falaj.monitoring.finding import GONE, LABEL_KEY, Digests, Predictions
from falaj.monitoring.joined import Joined, Logged
from falaj.monitoring.operations import labels as declared
from falaj.monitoring.operations.labels import MOST_NAMED, MOST_VALUE_NAMES, MOST_VALUES, Added, AddLabels, Label
from falaj.monitoring.sealing import Documents, inside
from falaj.monitoring.store import labels as store
from falaj.monitoring.store.labels import Meant
from falaj.monitoring.store.tables import Found
from falaj.serving.forms import read_columns
from falaj.serving.operations.words import WHOLE
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import windows as window_store
from falaj.serving.views import read_options, required_endpoint
from falaj.storage.service import Received

LABELS: Final = "monitor-labels"  # the kind of owner that joined rows have
KEPT_FOR: Final = 366 * DAY
AT_ONCE: Final = 10  # batches that are let go of
_TRUTH: Final = ""  # no value has this name
_EVER: Final = 2**62
_LOST_LATELY: Final = 7 * DAY
_AHEAD: Final = 5 * MINUTE  # so far may clocks be apart


@value
class Matched:
    """A label and the prediction it means."""

    place: int
    label: Label
    prediction: Found


@value
class Sorted:
    """The labels of a request, told apart; `facts` are digests of what is new, by digests of what it is said of."""

    endpoint: str
    taken: tuple[Matched, ...]
    facts: dict[str, str]
    repeated: int
    refused: tuple[int, ...]
    unknown: tuple[int, ...]
    several: int = 0  # of the unknown ones: their id is of calls of several callers
    received: Received | None = None
    rows: tuple[Joined, ...] = ()


class LabelService:
    """Thread-safe. `clean` wants to be called now and then."""

    def __init__(self, database: Database, documents: Documents) -> None:
        self._database, self._documents = database, documents
        self._predictions = Predictions(database, documents)

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.ADD_LABELS, self.prepare, self.add)]

    # Adding

    def prepare(self, context: Context, request: AddLabels) -> Sorted:
        """Finds, joins and seals, outside any transaction."""
        _check(request, context.now)
        endpoint = self._database.read(lambda work: required_endpoint(replace(context, work=work), request.endpoint))
        project = self._database.read(lambda work: project_by_id(work, endpoint.project))
        if project is None:
            raise NotFound(f"There is no endpoint {request.endpoint!r} here; `falaj endpoint list` shows those there are.")
        digests = self._predictions.digests(project, endpoint, context.now)
        more = self._predictions.gather(project, endpoint, digests, context.now)
        sorted_ones = self._database.read(lambda work: _told_apart(work, endpoint, digests, request))
        if more and sorted_ones.unknown:
            words = f"Calls that {endpoint.name!r} logged are still being looked through for the predictions of these labels"
            raise Unavailable(f"{words}; none was taken. Send them again.", delay=1.0)
        rows = self._joined(project, endpoint, digests, sorted_ones.taken, context.now)
        if len(rows) < len(sorted_ones.taken):  # put elsewhere at this moment, or gone
            sorted_ones = self._database.read(lambda work: _told_apart(work, endpoint, digests, request))
            rows = self._joined(project, endpoint, digests, sorted_ones.taken, context.now)
        if len(rows) < len(sorted_ones.taken):
            sorted_ones = _without(sorted_ones, rows, digests)
        if not rows:
            return sorted_ones
        in_order = sorted(rows.values(), key=lambda row: row.at)
        received = self._documents.receive(project, endpoint.zone, joined.encode(in_order))
        return replace(sorted_ones, received=received, rows=tuple(in_order))

    def add(self, context: Context, request: AddLabels, found: Sorted) -> Added:
        endpoint = required_endpoint(context, request.endpoint)
        work = context.work
        held = store.labelling(work, endpoint.id, hold=True)
        names = [] if held is None else _names(endpoint, held, found.rows)
        if held is None or endpoint.id != found.endpoint or store.said(work, endpoint.id, found.facts):
            raise Conflict("Labels of the same predictions came at the same moment; send these again: what is there is known.")
        place = held.places
        if found.received is not None:
            id, place = new_id(context.now), place + 1
            moments = [row.at for row in found.rows]
            batch = {
                "id": id,
                "project": endpoint.project,
                "endpoint": endpoint.id,
                "place": place,
                "rows": len(found.rows),
                "first": min(moments),
                "last": max(moments),
                "at": context.now,
                "blob": self._documents.keep(context, found.received, LABELS, id),
            }
            facts = [{"endpoint": endpoint.id, "key": key, "said": said, "batch": id} for key, said in found.facts.items()]
            store.add_batch(work, batch, facts)
        store.change_labelling(
            work,
            endpoint.id,
            places=place,
            names=json.dumps(names),
            taken=held.taken + len(found.taken),
            repeated=held.repeated + found.repeated,
            refused=held.refused + len(found.refused),
            unknown=held.unknown + len(found.unknown),
        )
        return Added(
            taken=len(found.taken),
            repeated=found.repeated,
            refused=len(found.refused),
            unknown=len(found.unknown),
            refused_at=found.refused[:MOST_NAMED],
            unknown_at=found.unknown[:MOST_NAMED],
            remarks=_remarks(work, endpoint, found, context.now),
        )

    def _joined(
        self, project: Project, endpoint: Found, digests: Digests, taken: Sequence[Matched], now: Moment
    ) -> dict[int, Joined]:
        """By their place in the request, without those that can be read no more. One blob is in memory at a time."""
        by_blob: dict[str, dict[int, list[Matched]]] = {}
        for one in taken:
            place = one.prediction.first + one.prediction.place
            by_blob.setdefault(one.prediction.blob, {}).setdefault(place, []).append(one)
        columns, rows = dict[int, list[str]](), dict[int, Joined]()
        for blob, by_place in by_blob.items():
            calls = self._predictions.calls(project, endpoint, blob, now)
            for place, some in by_place.items():
                if place >= len(calls):
                    continue
                call = Logged(calls[place])
                if call.revision not in columns:
                    columns[call.revision] = self._columns(endpoint, call.revision)
                rows |= {one.place: _row(one, call, columns[call.revision], digests) for one in some}
        return rows

    def _columns(self, endpoint: Found, revision: int) -> list[str]:
        """What the inputs of a revision are called."""
        found = self._database.read(lambda work: endpoint_store.revisions_of(work, endpoint.id, {revision}))
        return [one.name for one in read_columns(found[revision].columns)] if revision in found else []

    # Reading, for others of this room

    def rows(self, context: Context, endpoint: Found, batches: Sequence[Found]) -> list[Joined]:
        """Of batches, in their order; a batch that was shredded has none. Raises where storage or the key ring does not
        answer."""
        found: list[Joined] = []
        project = project_by_id(context.work, endpoint.project)
        if project is None:
            return []
        for batch in batches:
            within = inside(context.work, project, endpoint.zone, context.now)
            try:
                found += joined.decode(self._documents.read(within, batch.blob))
            except GONE:
                continue
        return found

    # Letting go

    def clean(self, now: Moment) -> bool:
        """A bounded piece at a time, for a batch may have very many rows; whether there is more."""
        gone = self._database.read(lambda work: store.index_of_gone(work, AT_ONCE))
        old = self._database.read(lambda work: store.forgettable(work, Moment(now - KEPT_FOR), AT_ONCE))
        over = self._database.read(lambda work: store.ended(work, AT_ONCE))

        def forget(work: UnitOfWork) -> None:
            store.forget_index(work, gone)
            self._drop(work, old, LABELS, lambda row: row.id, now)
            store.forget_batches(work, [row.id for row in old])
            self._drop(work, over, LABEL_KEY, lambda row: row.endpoint, now)
            for row in over:
                store.forget_labelling(work, row.endpoint)

        if gone or old or over:
            self._database.write(forget)
        return AT_ONCE in (len(gone), len(old), len(over))

    def _drop(self, work: UnitOfWork, rows: Sequence[Found], kind: str, id: Callable[[Found], str], now: Moment) -> None:
        projects = {one: project_by_id(work, one) for one in sorted({row.project for row in rows})}
        for row in rows:
            project = projects[row.project]
            if project is not None:
                self._documents.drop(inside(work, project, "", now), kind, id(row))


def _check(request: AddLabels, now: Moment) -> None:
    """All of it, before anything is done."""
    for place, label in enumerate(request.labels):
        if bool(label.id) == bool(label.entity):
            raise Invalid(f"Label {place} must name its prediction by `id`, or by `entity` and `at`.")
        if label.entity and label.at is None:
            raise Invalid(f"Label {place} names an entity: say `at` when, to tell its predictions apart.")
        if label.truth is None and not label.values:
            raise Invalid(f"Label {place} says nothing: give a `truth`, or `values`.")
        if len(label.values or {}) > MOST_VALUES:
            raise Invalid(f"Label {place} has {len(label.values or {})} values; at most {MOST_VALUES} are taken.")
        if label.at is not None and label.at > now + _AHEAD:
            raise Invalid(f"Label {place} is of the future: `at` is {label.at}, and it is {now} here.")


def _names(endpoint: Found, held: Found, rows: Sequence[Joined]) -> list[str]:
    """Of all values of the endpoint's labels: a bounded number, or what is kept of one prediction would be without bounds."""
    names = sorted({*json.loads(held.names), *(name for row in rows for name in row.values)})
    if len(names) > MOST_VALUE_NAMES:
        what = f"{endpoint.name!r} would have values of {len(names)} names, and at most {MOST_VALUE_NAMES} are kept"
        raise Invalid(f"{what}. Values are numbers that recur, such as what was spent: give what differs each time no name.")
    return names


def _told_apart(work: UnitOfWork, endpoint: Found, digests: Digests, request: AddLabels) -> Sorted:
    found = store.last_made(work, endpoint.id, [_meant(digests, label, request) for label in request.labels])
    unclear = {
        place
        for place, (label, made) in enumerate(zip(request.labels, found, strict=True))
        if made is not None and made.several and label.id and label.at is None
    }
    matched = [
        None if made is None or place in unclear else Matched(place=place, label=label, prediction=made)
        for place, (label, made) in enumerate(zip(request.labels, found, strict=True))
    ]
    each = [None if one is None else _facts(one, digests) for one in matched]
    known = store.said(work, endpoint.id, {key for facts in each if facts for key in facts})
    taken, fresh, repeated, refused, unknown = [], dict[str, str](), 0, [], []
    for place, (one, facts) in enumerate(zip(matched, each, strict=True)):
        if one is None or facts is None:
            unknown.append(place)
        elif any(known.get(key, said) != said for key, said in facts.items()):
            refused.append(place)
        elif new := {key: said for key, said in facts.items() if key not in known}:
            taken.append(_only(one, new, digests))
            fresh |= new
            known |= new
        else:
            repeated += 1
    return Sorted(
        endpoint=endpoint.id,
        taken=tuple(taken),
        facts=fresh,
        repeated=repeated,
        refused=tuple(refused),
        unknown=tuple(unknown),
        several=len(unclear),
    )


def _without(some: Sorted, rows: Mapping[int, Joined], digests: Digests) -> Sorted:
    """Nobody knows any more what was predicted where the logged call was shredded, or let go of this very moment."""
    taken = tuple(one for one in some.taken if one.place in rows)
    facts = {key: said for one in taken for key, said in _facts(one, digests).items()}
    gone = {one.place for one in some.taken} - set(rows)
    return replace(some, taken=taken, facts=facts, unknown=tuple(sorted({*some.unknown, *gone})))


def _meant(digests: Digests, label: Label, request: AddLabels) -> Meant:
    until = _EVER if label.at is None else label.at
    if label.id:
        return Meant(key=digests.call(label.id, label.row), since=0, until=until)
    return Meant(key=digests.entity(label.entity or {}), since=until - request.within * SECOND, until=until)


def _facts(one: Matched, digests: Digests) -> dict[str, str]:
    said = dict(one.label.values or {}) | ({} if one.label.truth is None else {_TRUTH: one.label.truth})
    return {_fact(one, name, digests): digests.of("said", joined.as_kind(what)) for name, what in said.items()}


def _fact(one: Matched, name: str, digests: Digests) -> str:
    where = one.prediction
    return digests.of("fact", where.batch, str(where.place), str(where.row), name)


def _only(one: Matched, new: Mapping[str, str], digests: Digests) -> Matched:
    """Without what was said before: else it would count twice."""
    label = one.label
    values = {name: number for name, number in (label.values or {}).items() if _fact(one, name, digests) in new}
    truth = label.truth if _fact(one, _TRUTH, digests) in new else None
    return replace(one, label=replace(label, truth=truth, values=values))


def _row(one: Matched, call: Logged, columns: Sequence[str], digests: Digests) -> Joined:
    row, entities = one.prediction.row, call.entities()
    return Joined(
        revision=call.revision,
        at=one.prediction.at,
        unit=_unit(one.label, call, entities[row] if row < len(entities) else {}, digests),
        said=call.said(row),
        truth=one.label.truth,
        values=dict(one.label.values or {}),
        groups=call.groups(row, columns),
        drawn=call.is_drawn,
    )


def _unit(label: Label, call: Logged, entity: Mapping[str, str], digests: Digests) -> str:
    if label.unit:
        return digests.of("unit", label.unit)
    if entity:
        return digests.entity(entity)
    return digests.of("unit of call", call.id, str(call.at))


def _remarks(work: UnitOfWork, endpoint: Found, found: Sorted, now: Moment) -> tuple[str, ...]:
    said = []
    if any(row.said.answer is None for row in found.rows):
        said.append(
            "Some predictions were logged without their answer: it is masked, or too large. Their labels say no quality."
        )
    if found.several:
        said.append(
            f"{found.several} labels have an `id` that several callers used, so nobody knows whose prediction is meant: say "
            "`at`, for the newest before that moment, or give ids that nobody else uses."
        )
    if len(found.unknown) > found.several:
        said.append(_why_unknown(endpoint, store.oldest_logged(work, endpoint.id)))
        if lost := window_store.unlogged_since(work, endpoint.id, now - _LOST_LATELY):
            said.append(
                f"{lost:,} calls of the last seven days were to be logged and were not, for more came at once than fit: "
                "`falaj endpoint traffic` tells when. Log a smaller share, or serve with more workers."
            )
    return tuple(said)


def _why_unknown(endpoint: Found, since: int | None) -> str:
    share = read_options(endpoint.options).log_share
    if not share:
        how = f"`falaj endpoint configure {endpoint.name} --log-percent 100` logs them from now on"
        return f"Predictions of {endpoint.name!r} are not logged, so none is known: {how}."
    logged = f"{share / 100:g} % of the predictions are logged" if share < WHOLE else "Predictions are logged"
    kept = f"; those since {str(Moment(since))[:16]}Z are there" if since is not None else ""
    return (
        f"{logged}, and known within seconds{kept}. One is found by the `id` of its request, with `row` where that "
        "had several, or by the keys its features were looked up by, where those are not masked."
    )
