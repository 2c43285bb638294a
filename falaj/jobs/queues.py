"""Queues: setting them, looking at their shares. What a project sees of others is how much, never whose."""

from collections.abc import Iterable
from dataclasses import fields

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, UnitOfWork
from falaj.governance.projects.store import project_named
from falaj.jobs import documents
from falaj.jobs.documents import PRIORITIES, Document
from falaj.jobs.operations import queues as declared
from falaj.jobs.operations.queues import Applied, Queue, Queues, QueueSpec, ShareOf
from falaj.jobs.pricing import cost
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Rules
from falaj.jobs.standing import Standing, present_document
from falaj.jobs.store import jobs as job_store
from falaj.jobs.store import queues as store
from falaj.jobs.store.tables import Found


class QueueService:
    def __init__(self, standing: Standing, rules: Rules) -> None:
        self._standing = standing
        self._rules = rules

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.APPLY_QUEUES, self.apply),
            bind_prepared(declared.LIST_ALL_QUEUES, self._stands, self.list_all),
            bind_prepared(declared.LIST_QUEUES, self._stands, self.list),
            bind_prepared(declared.SHOW_QUEUE, self._stands, self.show),
        ]

    def apply(self, context: Context, request: declared.ApplyQueues) -> Applied:
        before, after = present_document(context.work), _document(request)
        documents.check(after)
        found = store.newest(context.work)
        serial = 0 if found is None else int(found.serial)
        if request.serial and request.serial != serial:
            raise Conflict(f"The queues were changed since: their serial is {serial}, not {request.serial}. Look again first.")
        remarks = [*_refuse_gone(context.work, before, after), *_unknown_projects(context.work, after)]
        changes = _changes(before, after)
        if changes and not request.dry_run:
            serial += 1
            by = context.identity.principal
            if not store.add(context.work, serial=serial, document=documents.write(after), by=by, now=context.now):
                raise Conflict("The queues were changed at the same moment; look again first.")
            context.facts["serial"] = serial
        return Applied(serial=serial, changes=tuple(changes), remarks=tuple(remarks))

    def list_all(self, context: Context, request: Nothing, facts: Facts) -> Queues:
        return self._shown(context, facts, present_document(context.work), None)

    def list(self, context: Context, request: declared.ListQueues, facts: Facts) -> Queues:
        return self._shown(context, facts, present_document(context.work), context.required_project.name)

    def show(self, context: Context, request: declared.ShowQueue, facts: Facts) -> Queue:
        shown = self._shown(context, facts, present_document(context.work), context.required_project.name)
        for queue in shown.queues:
            if queue.spec.name == request.queue:
                return queue
        raise NotFound(f"There is no queue {request.queue!r} for this project.")

    def _stands(self, context: Context, request: object) -> Facts:
        return self._standing.facts()

    def _shown(self, context: Context, facts: Facts, document: Document, project: str | None) -> Queues:
        """`project` sees the queues it may use and those that share a cohort with them, the latter without their projects."""
        own = {one.name for one in document.queues if project is None or not one.projects or project in one.projects}
        roots = {_root(document, one.cohort) for one in document.queues if one.name in own and one.cohort}
        seen = [one for one in document.queues if one.name in own or (one.cohort and _root(document, one.cohort) in roots)]
        scheduler = facts.scheduler(self._rules)
        counts = job_store.counts_by_queue(context.work)
        found = store.newest(context.work)
        return Queues(
            serial=0 if found is None else int(found.serial),
            queues=tuple(
                _queue(_masked(one, project, own), scheduler, counts, facts, context.now, usable=one.name in own)
                for one in seen
            ),
            cohorts=tuple(one for one in document.cohorts if project is None or _root(document, one.name) in roots),
            priorities=document.priorities,
        )


def _document(request: declared.ApplyQueues) -> Document:
    return Document(queues=request.queues, cohorts=request.cohorts, priorities=request.priorities or PRIORITIES)


def _root(document: Document, cohort: str) -> str:
    parents = {one.name: one.parent for one in document.cohorts}
    while parents.get(cohort):
        cohort = parents[cohort]
    return cohort


def _masked(spec: QueueSpec, project: str | None, own: set[str]) -> QueueSpec:
    """Which projects share a queue is for them and the operators to know."""
    if project is None:
        return spec
    kept = {field.name: getattr(spec, field.name) for field in fields(spec)}
    kept["projects"] = (project,) if spec.projects and spec.name in own else ()
    kept["monthly_budget"] = spec.monthly_budget if spec.name in own else 0
    return QueueSpec(**kept)


def _queue(spec: QueueSpec, scheduler: Scheduler, counts: Iterable[Found], facts: Facts, now: Moment, *, usable: bool) -> Queue:
    shares = scheduler.shares().get(spec.name, {})
    mine = [row for row in counts if row.queue == spec.name]
    waiting = [row for row in mine if row.state == "waiting"]
    return Queue(
        spec=spec,
        shares=tuple(
            ShareOf(
                resource=resource,
                nominal=nominal,
                used=used,
                borrowed=borrowed,
                lent=lent,
                free=scheduler.available(spec.name, resource),
            )
            for resource, (nominal, used, borrowed, lent) in shares.items()
        ),
        waiting=sum(row.jobs for row in waiting),
        running=sum(row.jobs for row in mine) - sum(row.jobs for row in waiting),
        fair_share=scheduler.fair_share(spec.name),
        oldest=Moment(min(row.oldest for row in waiting)) if waiting else None,
        spent=next((one.spent for one in facts.queues if one.name == spec.name), 0) + _going(spec.name, facts, now),
        usable=usable,
    )


def _going(queue: str, facts: Facts, now: Moment) -> int:
    """What those that run have cost so far."""
    running = [one for one in facts.running if one.job.queue == queue]
    return sum(cost(one.job.price_per_hour, max(0, now - one.started)) for one in running)


def _refuse_gone(work: UnitOfWork, before: Document, after: Document) -> list[str]:
    """Raises `Conflict` for a queue that live jobs are in. What priority they have was settled when they came."""
    kept = {one.name for one in after.queues}
    for one in before.queues:
        if one.name not in kept and job_store.is_queue_used(work, one.name):
            raise Conflict(
                f"The queue {one.name!r} has jobs that are not over; cancel those that wait, and close it (open = false) until"
                " the others have ended."
            )
    classes = {one.name for one in after.priorities}
    gone = sorted(one.name for one in before.priorities if one.name not in classes)
    return [f"The priority classes {', '.join(gone)} are gone; jobs that have them keep their place."] if gone else []


def _unknown_projects(work: UnitOfWork, document: Document) -> list[str]:
    names = sorted({name for one in document.queues for name in one.projects})
    unknown = [name for name in names if project_named(work, name) is None]
    if unknown:
        raise Invalid(f"There is no project {unknown[0]!r} that a queue could be for.")
    return []


def _changes(before: Document, after: Document) -> list[str]:
    found: list[str] = []
    for kind, old, new in (
        ("queue", before.queues, after.queues),
        ("cohort", before.cohorts, after.cohorts),
        ("priority class", before.priorities, after.priorities),
    ):
        olds, news = {one.name: one for one in old}, {one.name: one for one in new}
        found += [f"{kind} {name}: new" for name in news if name not in olds]
        found += [f"{kind} {name}: removed" for name in olds if name not in news]
        for name in olds.keys() & news.keys():
            changed = [
                field.name for field in fields(olds[name]) if getattr(olds[name], field.name) != getattr(news[name], field.name)
            ]
            if changed:
                found.append(f"{kind} {name}: {', '.join(changed)} changed")
    return sorted(found)
