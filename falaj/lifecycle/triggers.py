"""What starts pipelines by itself.

What is new is seen by looking at how things stand, and held against what was there at the last start: so nothing is missed
while nothing runs, and many things at once are one start.
"""

import json
import logging
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import (
    Conflict,
    FalajError,
    Forbidden,
    Invalid,
    NotFound,
    PermanentError,
    TemporaryError,
    Unauthenticated,
)
from falaj.base.failpoints import failpoint
from falaj.base.ids import ProjectId, new_id
from falaj.base.values import Nothing, value
from falaj.collaboration.people import persons
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.store import datasets as dataset_store
from falaj.governance.gate import Gatekeeper
from falaj.governance.ledger import recording
from falaj.governance.projects.store import Project, project_by_id
from falaj.jobs.secrets import ProjectSecrets
from falaj.lifecycle.checking import Catalogue
from falaj.lifecycle.expressions import resolve
from falaj.lifecycle.hooks import HOOKS, is_signed, repeated_as, secret_of, told
from falaj.lifecycle.operations import triggers as declared
from falaj.lifecycle.operations.pipelines import START_RUN, StartRun
from falaj.lifecycle.operations.triggers import Trigger, TriggerShown
from falaj.lifecycle.rights import check_may, rights_of
from falaj.lifecycle.starting import Asked, definition_of, start
from falaj.lifecycle.store import pipelines as store
from falaj.lifecycle.store import runs as run_store
from falaj.lifecycle.store.tables import Found
from falaj.lifecycle.views import required_pipeline
from falaj.lifecycle.wishes import check_wish, next_time
from falaj.lifecycle.writing import words, written
from falaj.monitoring import wishers
from falaj.monitoring.store import alerts as alert_store
from falaj.operations.messages import adapter
from falaj.registry.store import models as model_store
from falaj.registry.store import versions as version_store
from falaj.serving.store import endpoints as endpoint_store

MOST_TRIGGERS: Final = 200  # of one project
_HEARD: Final = 100  # calls of a hook that are known when they come again
_UNSIGNED: Final = "There is no such hook, or the call is not signed with its secret, or was signed too long ago."
_ALERTS: Final = ("drift", "quality")  # after which it helps to train anew
log = logging.getLogger(__name__)


@value
class Sight:
    """How things stand: `mark` tells one state from another, `what` is what a run may refer to as `trigger`."""

    mark: str
    what: dict[str, Any]


class TriggerService:
    """Thread-safe. Secrets of webhooks are derived from the project's key, and kept nowhere."""

    def __init__(self, database: Database, secrets: ProjectSecrets) -> None:
        self._database, self._secrets = database, secrets

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.SET_TRIGGER, self.prepare, self.set),
            bind(declared.LIST_TRIGGERS, self.list),
            bind(declared.DELETE_TRIGGER, self.delete),
            bind_prepared(declared.CALL_HOOK, self.hear, self.call),
        ]

    def prepare(self, context: Context, request: declared.SetTrigger) -> tuple[str, str]:
        """The trigger's id, and the secret that calls of it are signed with."""
        check_wish(request.wish)
        id = new_id(context.now)
        if request.wish.kind not in HOOKS:
            return id, ""
        project = context.required_project.id
        return id, secret_of(self._secrets.derived(self._database, project, _purpose(project, id), context.now))

    def set(self, context: Context, request: declared.SetTrigger, made: tuple[str, str]) -> TriggerShown:
        pipeline, wish = required_pipeline(context, request.pipeline, hold=True), request.wish
        id, secret = made
        before = next((row for row in store.triggers_of(context.work, pipeline.id) if row.name == request.trigger), None)
        store.drop_trigger(context.work, pipeline.id, request.trigger)
        if store.count_triggers(context.work, context.required_project.id) >= MOST_TRIGGERS:
            raise Conflict(f"The project has {MOST_TRIGGERS} triggers, and more are not looked after: delete some.")
        sight = _sight(context.work, context.required_project.id, wish)
        row = {
            "id": id,
            "project": context.required_project.id,
            "pipeline": pipeline.id,
            "name": request.trigger,
            "wish": adapter(Trigger).dump_json(wish).decode(),
            "wisher": wishers.encode(wishers.wisher_of(context)),
            "version": pipeline.version,
            "zone": context.identity.zone,
            "set": context.now,
            "set_by": context.identity.principal,
            "next": next_time(wish, context.now),
            "called": "",
            "content": "",
            "seen": "" if sight is None else sight.mark,
            "waiting": False,
            "last_run": "",
            "last_started": 0,
            "words": "",
            **({} if before is None else _carried_over(before, wish)),
        }
        store.put_trigger(context.work, row)
        context.facts.update(pipeline=pipeline.id, trigger=id)
        return replace(next(one for one in _shown(context, pipeline) if one.name == request.trigger), secret=secret)

    def list(self, context: Context, request: declared.ListTriggers) -> declared.Triggers:
        return declared.Triggers(items=_shown(context, required_pipeline(context, request.pipeline)))

    def delete(self, context: Context, request: declared.OneTrigger) -> Nothing:
        pipeline = required_pipeline(context, request.pipeline, hold=True)
        if not store.drop_trigger(context.work, pipeline.id, request.trigger):
            raise NotFound(f"The pipeline {request.pipeline!r} has no trigger {request.trigger!r}.")
        context.facts["pipeline"] = pipeline.id
        return Nothing()

    # Calls from outside

    def hear(self, context: Context, request: declared.CallHook) -> str:
        """What it tells, as it is kept, once it is known to be signed; empty for what starts nothing. Who cannot sign learns
        nothing, not even whether there is such a hook."""
        row = self._database.read(lambda work: _hook(work, request.hook))
        try:
            known = self._secrets.derived_before(self._database, row.project, _purpose(row.project, row.id))
        except PermanentError:
            raise Unauthenticated(_UNSIGNED) from None
        if not is_signed(request, secret_of(known), context.now):
            raise Unauthenticated(_UNSIGNED)
        what = told(_wish(row), request.body)
        try:
            return "" if what is None else written(what)
        except PermanentError as error:
            raise Invalid(str(error)) from None

    def call(self, context: Context, request: declared.CallHook, content: str) -> declared.Called:
        """What is done about it is another turn's: many calls at once are one start."""
        row = _hook(context.work, request.hook, hold=True)
        wish, heard = _wish(row), json.loads(row.content)["heard"] if row.content else []
        repeated = repeated_as(request, wish)
        starts = bool(content) and repeated not in heard
        context.facts.update(project=row.project, pipeline=row.pipeline, trigger=row.id, starts=starts)
        if not content:
            return declared.Called(starts=False, words=f"That is no push to {wish.about}, and starts nothing.")
        if not starts:
            return declared.Called(starts=False, words="That was heard before, and starts nothing more.")
        kept = {"told": json.loads(content), "heard": [*heard, repeated][-_HEARD:] if repeated else heard}
        store.change_trigger(context.work, row.id, called=new_id(context.now), content=json.dumps(kept))
        return declared.Called(starts=True, words="A run starts as soon as the one before is over and the pause has passed.")


class Triggering:
    """Under a lease; but two who see the same start one run all the same."""

    def __init__(self, database: Database, gate: Gatekeeper, catalogue: Catalogue) -> None:
        self._database, self._gate, self._catalogue = database, gate, catalogue

    def step(self, now: Moment) -> bool:
        for row in self._database.read(store.all_triggers):
            try:
                if self._database.read(lambda work, row=row: _is_due(work, row, now)):  # type: ignore[misc]
                    self._fire(row, now)
            except FalajError as error:
                log.warning("trigger %s waits: %s", row.id, error)
            except Exception:  # what is odd about one must not hold up those of other projects
                log.exception("trigger %s waits", row.id)
        return False

    def _fire(self, row: Found, now: Moment) -> None:
        """Where it may not or cannot start anything, that is written down, and the next time is another one."""
        try:
            self._database.write(lambda work: self._start(work, row.id, now))
        except TemporaryError:
            raise
        except Exception as error:  # what is odd about it once is so at every look
            if not isinstance(error, PermanentError):
                log.exception("trigger %s is passed over", row.id)
            why = words(str(error)) if isinstance(error, PermanentError) else "It could not be started; the log says why."
            self._database.write(lambda work: self._pass_over(work, row.id, why, now))

    def _start(self, work: UnitOfWork, id: str, now: Moment) -> None:
        row = store.trigger(work, id, hold=True)
        if row is None or not _is_due(work, row, now):
            return
        if _is_busy(work, row, now):
            store.change_trigger(work, row.id, waiting=True)
            return
        wish, project = _wish(row), project_by_id(work, ProjectId(row.project))
        sight = _seen(work, row, wish) or Sight(mark="", what={"time": str(now)})
        pipeline = _pipeline_of(work, row)
        if project is None or project.archived or pipeline is None:
            raise Invalid("The project is archived, or the pipeline is gone.")
        request = StartRun(project=project.name, pipeline=pipeline.name)
        context = self._on_behalf(work, row, project, request, now)
        self._check_changed(context, row, pipeline)
        parameters = resolve(wish.parameters, {"trigger": sight.what})
        why = f"{row.name}: {_said(wish, sight)}"
        asked = Asked(pipeline=pipeline, version=pipeline.version, parameters=parameters, why=why, trigger=row.name)
        run = start(context, self._gate, self._catalogue, asked)
        facts = {**context.facts, "trigger": row.id, "set_by": row.set_by, "why": why}
        recording.append(
            work,
            operation=START_RUN,
            request=request,
            identity=None,
            project=row.project,
            now=now,
            request_id="",
            facts=facts,
        )
        self._go_on(work, row, sight.mark, now, last_run=run, last_started=now, words="")
        failpoint("pipelines.triggered")

    def _check_changed(self, context: Context, row: Found, pipeline: Found) -> None:
        """Somebody else may have changed what it runs: nobody gets done through another one's trigger what they
        may not do by themselves."""
        if pipeline.version == row.version or pipeline.changed_by == row.set_by:
            return
        author = wishers.identity_of(context.work, wishers.Wisher(principal=pipeline.changed_by), row.zone)
        definition = definition_of(context, pipeline, pipeline.version)
        rights = rights_of(definition, context.required_project.name, self._catalogue)
        try:
            check_may(replace(context, identity=author), self._gate, rights)
        except PermanentError as error:
            raise Forbidden(
                f"{author.name or 'Somebody'} changed the pipeline since this trigger was set, and may not do what it does: "
                f"whoever may looks at it and sets the trigger again. {error}"
            ) from None

    def _pass_over(self, work: UnitOfWork, id: str, why: str, now: Moment) -> None:
        row = store.trigger(work, id, hold=True)
        if row is not None:
            self._go_on(work, row, _mark(work, row, _wish(row)), now, words=why)

    def _go_on(self, work: UnitOfWork, row: Found, mark: str, now: Moment, **columns: Any) -> None:
        store.change_trigger(work, row.id, seen=mark, waiting=False, next=next_time(_wish(row), now), **columns)

    def _on_behalf(self, work: UnitOfWork, row: Found, project: Project, request: StartRun, now: Moment) -> Context:
        return wishers.on_behalf(
            work,
            self._gate,
            wishers.decode(row.wisher),
            "this trigger",
            project=project,
            zone=row.zone,
            operation=START_RUN,
            request=request,
            now=now,
        )


def _hook(work: UnitOfWork, id: str, *, hold: bool = False) -> Found:
    """In an archived project nothing new happens, and nobody outside learns of it."""
    row = store.trigger(work, id, hold=hold)
    project = None if row is None else project_by_id(work, ProjectId(row.project))
    if row is None or _wish(row).kind not in HOOKS or project is None or project.archived:
        raise Unauthenticated(_UNSIGNED)
    return row


def _purpose(project: str, trigger: str) -> dict[str, str]:
    return {"kind": "pipeline-hook", "project": project, "trigger": trigger}


def _wish(row: Found) -> Trigger:
    read: Trigger = adapter(Trigger).validate_json(row.wish)
    return read


def _carried_over(before: Found, wish: Trigger) -> dict[str, Any]:
    """Of a trigger that is set again: no second run starts beside the one under way, and what waits for its end is not
    forgotten. Calls of a hook are: whoever sets it again may not trust those that were signed with the secret of before."""
    kept = {"last_run": before.last_run, "last_started": before.last_started}
    was = _wish(before)
    if wish.kind in HOOKS or (was.kind, was.about) != (wish.kind, wish.about):
        return kept
    kept |= {"seen": before.seen, "waiting": before.waiting}
    return kept | {"next": before.next} if before.waiting else kept


def _pipeline_of(work: UnitOfWork, row: Found) -> Found | None:
    name = store.names_of(work, [row.pipeline]).get(row.pipeline, "")
    found = store.find(work, row.project, name)
    return found if found is not None and found.id == row.pipeline else None


def _is_due(work: UnitOfWork, row: Found, now: Moment) -> bool:
    if row.waiting and _is_busy(work, row, now):
        return False
    if row.next is not None:
        return bool(now >= row.next)
    wish = _wish(row)
    mark = _mark(work, row, wish)
    if not mark or mark == row.seen:
        return False
    return mark > row.seen or wish.kind != "drift"  # old alerts are forgotten: then the newest is one of before


def _is_busy(work: UnitOfWork, row: Found, now: Moment) -> bool:
    """The run it started last is not over, or its pause is not."""
    if now < row.last_started + _wish(row).pause * SECOND:
        return True
    return bool(row.last_run) and run_store.is_live(work, row.last_run)


def _mark(work: UnitOfWork, row: Found, wish: Trigger) -> str:
    """Looking every second needs no more; what a hook was called with, which may be much, is read once a run starts."""
    if wish.kind in HOOKS:
        return str(row.called)
    sight = _sight(work, row.project, wish)
    return "" if sight is None else sight.mark


def _seen(work: UnitOfWork, row: Found, wish: Trigger) -> Sight | None:
    """What there is for a trigger that stands: what it was called with last, or what it looks at."""
    if wish.kind in HOOKS:
        return Sight(mark=row.called, what=json.loads(row.content)["told"] if row.content else {})
    return _sight(work, row.project, wish)


def _sight(work: UnitOfWork, project: str, wish: Trigger) -> Sight | None:
    """None where there is nothing to look at."""
    match wish.kind:
        case "dataset":
            found = dataset_store.find(work, project, wish.about)
            return None if found is None else _numbered(found.current, {"dataset": wish.about})
        case "model":
            model = model_store.find(work, project, wish.about)
            return None if model is None else _numbered(version_store.last_candidate(work, model.id), {"model": wish.about})
        case "alias":
            name, _, alias = wish.about.partition("@")
            model = model_store.find(work, project, name)
            if model is None:
                return None
            return _numbered(model_store.aliased_version(work, model.id, alias), {"model": name, "alias": alias})
        case "drift":
            return _alert(work, project, wish.about)
        case _:
            return None


def _numbered(number: int, what: dict[str, Any]) -> Sight:
    return Sight(mark=str(number or ""), what={**what, "version": number})


def _alert(work: UnitOfWork, project: str, endpoint: str) -> Sight | None:
    found = endpoint_store.find(work, project, endpoint)
    if found is None:
        return None
    newest = alert_store.opened_last(work, found.id, _ALERTS)
    if newest is None:
        return Sight(mark="", what={})
    what = {"endpoint": endpoint, "alert": newest.id, "title": newest.title}
    return Sight(mark=f"{newest.opened:019d} {newest.id}", what=what)


def _said(wish: Trigger, sight: Sight) -> str:
    match wish.kind:
        case "schedule":
            return f"its time came ({wish.cron}, {wish.zone})"
        case "drift":
            return f"alert of endpoint {wish.about}: {sight.what.get('title', '')}"
        case "alias":
            return f"{wish.about} is version {sight.what['version']} now"
        case "webhook":
            return "it was called"
        case "push":
            return f"{sight.what['commit'][:12]} was pushed to {wish.about}"
        case _:
            return f"{wish.kind} {wish.about} has version {sight.what['version']} now"


def _shown(context: Context, pipeline: Found) -> tuple[TriggerShown, ...]:
    rows = store.triggers_of(context.work, pipeline.id)
    people = persons(context.work, {row.set_by for row in rows})
    return tuple(
        TriggerShown(
            name=row.name,
            wish=_wish(row),
            set=Moment(row.set),
            set_by=people[row.set_by],
            next=None if row.next is None else Moment(row.next),
            last_run=row.last_run,
            waiting=row.waiting,
            words=row.words,
            hook=row.id if _wish(row).kind in HOOKS else "",
        )
        for row in rows
    )
