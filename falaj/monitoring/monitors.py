"""Monitors of endpoints: setting them, looking at what came out of their windows, and ending them.

What a dataset holds is read before the transaction, by the right of whoever asks; `choosing` says what each revision is held
against, `wishing` what cannot be asked for.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from falaj.base.clock import SECOND
from falaj.base.errors import Conflict, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_cursor, read_text_cursor
from falaj.base.values import Nothing, value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.governance.projects.store import project_by_id
from falaj.monitoring import keeping, raising, references, wishers, wishing
from falaj.monitoring.choosing import Choosing, Wanted
from falaj.monitoring.keeping import Fresh
from falaj.monitoring.operations import monitors as declared
from falaj.monitoring.operations.monitors import Monitor, Wishes
from falaj.monitoring.references import Reference, next_key
from falaj.monitoring.retraining import Pipelines
from falaj.monitoring.sealing import Documents, inside
from falaj.monitoring.store import alerts as alert_store
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store import windows as window_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import monitors_shown, read_wishes, required_monitor, window_shown, wishes_written
from falaj.serving.splits import main_revision, read_arms
from falaj.serving.states import PURPOSE
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import states
from falaj.serving.views import read_options, required_endpoint


@value
class _Seen:
    """An endpoint as it was when a monitor of it was asked for."""

    endpoint: Found
    monitor: Found | None
    revisions: tuple[Found, ...]
    watched: dict[int, Found]


@value
class _Prepared:
    """`changed` is when the monitor was last changed that all this was made for; None where there was none. `wishes` name the
    reference by its version."""

    changed: int | None
    wishes: Wishes
    fresh: tuple[Fresh, ...]


class MonitorService:
    def __init__(
        self, database: Database, documents: Documents, choosing: Choosing, gate: Gatekeeper, pipelines: Pipelines
    ) -> None:
        self._database, self._documents, self._choosing, self._gate = database, documents, choosing, gate
        self._pipelines = pipelines

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.APPLY_MONITOR, self.prepare, self.apply),
            bind(declared.SHOW_MONITOR, self.show),
            bind(declared.LIST_MONITORS, self.list),
            bind(declared.DELETE_MONITOR, self.delete),
            bind(declared.READ_WINDOWS, self.windows),
        ]

    # Applying

    def prepare(self, context: Context, request: declared.ApplyMonitor) -> _Prepared:
        """1. look; 2. refuse what cannot be; 3. draw what is missing, and seal it."""
        seen = self._database.read(lambda work: _look(replace(context, work=work), self._gate, self._pipelines, request))
        request = replace(
            request, wishes=replace(request.wishes, reference=self._choosing.pinned(context, request.wishes.reference))
        )
        changed = None if seen.monitor is None else int(seen.monitor.changed)
        before = None if seen.monitor is None else read_wishes(seen.monitor.wishes)
        begins = before is None or request.relearn or _basis(before) != _basis(request.wishes)
        recut = before is not None and before.window != request.wishes.window
        if begins:
            self._choosing.check(context, request.wishes, seen.revisions)
        fresh = []
        for revision in seen.revisions:
            known = seen.watched.get(revision.number)
            closed = 0 if known is None else int(known.closed)
            if begins or known is None:
                fresh.append(
                    self._sealed(context, seen.endpoint, revision, self._chosen(context, request, seen, revision), closed)
                )
            elif recut:
                reference = replace(self._reference(context, known), key=next_key(known.key))
                fresh.append(self._sealed(context, seen.endpoint, revision, reference, closed))
        if recut:
            start = _window_start(context.now, request.wishes)
            fresh = [replace(one, closed=min(one.closed, start - 1)) for one in fresh]
        return _Prepared(changed=changed, wishes=request.wishes, fresh=tuple(fresh))

    def apply(self, context: Context, request: declared.ApplyMonitor, prepared: _Prepared) -> Monitor:
        endpoint = required_endpoint(context, request.endpoint, hold=True)
        used = endpoint_store.used_revisions(context.work, [endpoint.id]).get(endpoint.id, [])
        wishing.check(context, self._gate, self._pipelines, endpoint, request.wishes, used)
        before = store.find(context.work, endpoint.id, hold=True)
        if (None if before is None else int(before.changed)) != prepared.changed:
            raise Conflict(f"The monitor of {request.endpoint!r} was changed meanwhile; look at it, and apply yours again.")
        columns = {
            "wishes": wishes_written(prepared.wishes),
            # Forward in time, also where another control plane's clock is ahead of ours: it tells one change from the next.
            "changed": max(int(context.now), (prepared.changed or 0) + 1),
            "changed_by": context.identity.principal,
            "wisher": wishers.encode(wishers.wisher_of(context)),
        }
        id = new_id(context.now) if before is None else before.id
        if before is None:
            place = {"id": id, "project": context.required_project.id, "endpoint": endpoint.id, "created": context.now}
            store.add(context.work, {**place, **columns})
        else:
            store.change(context.work, id, **columns)
            self._clear_recut(context, before, request.wishes)
            _withdraw(context, id, request.wishes)
        numbers = {row.number for row in used}
        for one in prepared.fresh:
            if one.revision.number in numbers:
                keeping.put(self._documents, context, id, endpoint.zone, one)
        if prepared.fresh:
            states.bump(context.work, endpoint.zone, PURPOSE, context.now)
        sources = {str(one.revision.number): one.reference.source for one in prepared.fresh}
        context.facts.update(monitor=id, endpoint=endpoint.id, references=sources)
        return self._shown(context, request.endpoint)

    def _chosen(self, context: Context, request: declared.ApplyMonitor, seen: _Seen, revision: Found) -> Reference:
        return self._choosing.asked(context, request.wishes, wanted_of(seen.endpoint, revision))

    def _reference(self, context: Context, row: Found) -> Reference:
        """As the platform reads it: whoever changes windows need not see what is in it."""

        def read(work: UnitOfWork) -> Reference:
            project = project_by_id(work, context.required_project.id)
            if project is None:
                raise Conflict("The project is not there any more.")
            return self._documents.reference(inside(work, project, row.zone, context.now), row.blob)

        return self._database.read(read)

    def _sealed(self, context: Context, endpoint: Found, revision: Found, reference: Reference, closed: int) -> Fresh:
        project = self._database.read(lambda work: project_by_id(work, context.required_project.id))
        if project is None:
            raise Conflict("The project is not there any more.")
        received = self._documents.receive(project, endpoint.zone, references.encode(reference))
        return Fresh(revision=revision, reference=reference, received=received, closed=closed)

    def _clear_recut(self, context: Context, before: Found, wishes: Wishes) -> None:
        """Windows of another length begin at other moments: what would lie in the first of them goes."""
        if read_wishes(before.wishes).window == wishes.window:
            return
        keeping.drop_pieces(self._documents, context, window_store.all_pieces(context.work, before.id))
        start = _window_start(context.now, wishes)
        keeping.drop_windows(self._documents, context, window_store.from_on(context.work, before.id, start))

    # The rest

    def show(self, context: Context, request: declared.OneMonitor) -> Monitor:
        return self._shown(context, request.endpoint)

    def list(self, context: Context, request: declared.ListMonitors) -> declared.Monitors:
        after = read_text_cursor(request.cursor)
        found = store.page(context.work, context.required_project.id, after, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.id,))
        return declared.Monitors(items=monitors_shown(context, page), next=following)

    def delete(self, context: Context, request: declared.OneMonitor) -> Nothing:
        endpoint, found = required_monitor(context, request.endpoint, hold=True)
        raising.end_with(context, found)
        keeping.end(self._documents, context, found)
        states.bump(context.work, endpoint.zone, PURPOSE, context.now)
        context.facts.update(monitor=found.id, endpoint=endpoint.id)
        return Nothing()

    def windows(self, context: Context, request: declared.ReadWindows) -> declared.Windows:
        endpoint, found = required_monitor(context, request.endpoint)
        revision = request.revision or main_revision(read_arms(endpoint.arms))
        before = int(read_cursor(request.cursor, int)[0]) if request.cursor else 0
        held = store.reference(context.work, found.id, revision)
        of = "" if held is None else references.reference_of(held.key)  # what another reference said does not hold of this one
        rows = window_store.last(context.work, found.id, revision, before, request.limit + 1, of=of)
        if request.revision and not rows and not before:
            _check_watched(context, endpoint, found, revision)
        page, following = page_of(rows, request.limit, lambda row: (row.at,))
        return declared.Windows(revision=revision, items=tuple(window_shown(row) for row in page), next=following)

    def _shown(self, context: Context, endpoint: str) -> Monitor:
        return monitors_shown(context, [required_monitor(context, endpoint)[1]])[0]


def _check_watched(context: Context, endpoint: Found, monitor: Found, revision: int) -> None:
    watched = sorted(row.revision for row in store.references_of(context.work, [monitor.id]).get(monitor.id, ()))
    if revision not in watched:
        those = ", ".join(map(str, watched)) or "none yet"
        raise NotFound(f"Revision {revision} of {endpoint.name!r} is not watched; revisions that are: {those}.")


def wanted_of(endpoint: Found, revision: Found) -> Wanted:
    return Wanted(revision=revision, endpoint=endpoint.name, zone=endpoint.zone, masked=read_options(endpoint.options).masked)


def _look(context: Context, gate: Gatekeeper, pipelines: Pipelines, request: declared.ApplyMonitor) -> _Seen:
    endpoint = required_endpoint(context, request.endpoint)
    revisions = endpoint_store.used_revisions(context.work, [endpoint.id]).get(endpoint.id, [])
    wishing.check(context, gate, pipelines, endpoint, request.wishes, revisions)
    monitor = store.find(context.work, endpoint.id)
    rows: Sequence[Found] = () if monitor is None else store.references_of(context.work, [monitor.id]).get(monitor.id, ())
    watched = {row.revision: row for row in rows}
    return _Seen(endpoint=endpoint, monitor=monitor, revisions=tuple(revisions), watched=watched)


def _withdraw(context: Context, monitor: str, wishes: Wishes) -> None:
    """What was decided upon and is not wished for any more; the monitor is held."""
    wanted = {msgspec.json.encode(act).decode() for act in wishes.actions}
    gone = [row for row in alert_store.undone_actions(context.work, monitor) if row.wanted not in wanted]
    words = f"{context.identity.name} set the monitor anew, which does not wish for it any more."
    for row in gone:
        alert_store.change_action(context.work, row.id, state="refused", words=words, decided=context.now)
    if gone:
        context.facts["withdrawn"] = [row.id for row in gone]


def _basis(wishes: Wishes) -> tuple[object, ...]:
    """What a reference depends on: with any other it has to be drawn or learnt anew."""
    return wishes.reference, wishes.time, wishes.season, wishes.timezone, frozenset(wishes.ignore)


def _window_start(now: int, wishes: Wishes) -> int:
    return now - now % (wishes.window * SECOND)
