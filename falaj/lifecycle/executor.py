"""The loop that moves runs on. Each turn:

1. hear what came of what was being done, and which jobs ended;
2. look: the runs that somebody changed, and those whose time has come;
3. decide what follows for each of them, in `deciding`; of a project that had its share, the rest waits for the next turn;
4. write it, each run in a transaction of its own and only if nobody changed it meanwhile; on SQLite they share a commit;
5. act: have done what is under way and nobody does yet.

Nothing is remembered that is not written: killed at any moment, the next executor begins with what it reads.
"""

import json
import logging
import queue
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import MINUTE, Clock, Moment
from falaj.base.errors import Conflict, TemporaryError
from falaj.base.failpoints import failpoint
from falaj.base.ids import ProjectId
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.ledger import recording
from falaj.governance.projects.store import project_by_id
from falaj.jobs.store import jobs as job_store
from falaj.jobs.store import tokens
from falaj.jobs.store.tables import Found as FoundJob
from falaj.lifecycle.deciding import (
    ALONE,
    CALLING,
    ENOUGH_WORK,
    FAR,
    MOST_OF_PROJECT,
    OF_A_ROW,
    UNDER_WAY,
    Event,
    Key,
    Outcome,
    Outline,
    Plan,
    Snapshot,
    Standing,
    decide,
    is_afoot,
    outline_of,
)
from falaj.lifecycle.doing import Doing, Order, keys_of
from falaj.lifecycle.operations.pipelines import END_RUN, OneRun
from falaj.lifecycle.operations.words import Definition, Step
from falaj.lifecycle.records import (
    Options,
    digest_of,
    read_definition,
    read_options,
    read_standings,
    row_of,
    steps_in,
)
from falaj.lifecycle.store import pipelines as pipeline_store
from falaj.lifecycle.store import runs as store
from falaj.lifecycle.store.tables import Found
from falaj.lifecycle.writing import written
from falaj.operations.store import let_go

AT_ONCE: Final = 32  # calls that are made side by side
MOST_OF_ONE: Final = 4  # of one project, so that its slow ones do not keep others waiting
_REMEMBERED: Final = 256  # definitions
_ASIDE: Final = MINUTE
_UNREAD: Final = -1  # as `changed`: it is decided about once it was read again
_WAIT: Final = 0.05  # seconds, for what is being done, before the turn ends
log = logging.getLogger(__name__)
_Place = tuple[str, Key, int]  # a run, a step of it and the try


@value
class Live:
    """A run as it was read last. `sent` is how much it was given and sent, and `kept` what its steps keep. `calls` are the
    standings of what is to be called or asked about, so that nobody looks for these among all of them in every turn. `due` is
    when there is something to decide if nothing happens before."""

    row: Found
    pipeline: str
    definition: Definition
    outline: Outline
    options: Options
    parameters: Mapping[str, Any]
    standings: Mapping[Key, Standing]
    calls: Mapping[Key, Standing]
    events: tuple[Event, ...]
    sent: int
    kept: int
    changed: int
    due: int = 0


class Executor:
    """Belongs to the thread of its loop. Another one that begins under a new lease does nothing twice: see `doing`."""

    def __init__(self, database: Database, clock: Clock, doing: Doing) -> None:
        self._database, self._clock, self._doing = database, clock, doing
        self._live: dict[str, Live] = {}
        self._definitions: dict[tuple[str, int], tuple[str, Definition]] = {}
        self._flying: dict[_Place, str] = {}  # what is being done, and of which project it is
        self._landed: queue.SimpleQueue[tuple[_Place, Outcome | None]] = queue.SimpleQueue()
        self._outcomes: dict[str, dict[Key, Outcome]] = {}
        self._aside: dict[str, int] = {}  # runs that stand still, and until when
        self._told: dict[_Place, int] = {}  # what was told to stop, and when it is to be told again
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="pipelines")

    def step(self) -> bool:
        """Whether there is more to do at once."""
        self._hear()
        now = self._clock.now()
        is_behind = self._look(now)
        ended = self._ended_jobs()
        self._fly(now, ended)
        return self._decide(now) or is_behind or self._wait()

    def close(self) -> None:
        """What is being done is ended; what came of it is written by whoever comes next."""
        self._pool.shutdown(cancel_futures=True)

    # 1.

    def _hear(self) -> None:
        while True:
            try:
                place, outcome = self._landed.get_nowait()
            except queue.Empty:
                return
            self._take(place, outcome)

    def _wait(self) -> bool:
        """For what is being done: most of it takes milliseconds, and the next round of the loop is further away."""
        if not self._flying:
            return False
        try:
            self._take(*self._landed.get(timeout=_WAIT))
        except queue.Empty:
            return False
        return True

    def _take(self, place: _Place, outcome: Outcome | None) -> None:
        self._flying.pop(place, None)
        if place in self._told:
            self._told[place] = 0 if outcome is None else outcome.news.get("due", FAR)
        if outcome is not None:
            self._outcomes.setdefault(place[0], {})[place[1]] = outcome

    def _ended_jobs(self) -> dict[str, FoundJob]:
        wanted = {
            one.job
            for live in self._live.values()
            for one in live.calls.values()
            if one.job and (live.row.id, one.key, one.attempt) not in self._flying
        }
        if not wanted:
            return {}
        over = self._database.read(lambda work: [row.id for row in job_store.endings(work, sorted(wanted))])
        found = self._database.read(lambda work: job_store.with_ids(work, over)) if over else ()
        return {row.id: row for row in found}

    # 2.

    def _look(self, now: Moment) -> bool:
        """Whether some are left to be read in the next turn, because their project had its share of this one."""
        there, is_behind, read = self._database.read(store.live), False, Counter[str]()
        for run in self._live.keys() - there.keys():
            self._let_go(run)
        self._aside = {run: until for run, until in self._aside.items() if run in there}
        stale = [run for run, row in there.items() if run not in self._live or self._live[run].changed != row.changed]
        for run in stale:
            if run not in self._live and now < self._aside.get(run, 0):
                continue
            if read[there[run].project] > ENOUGH_WORK:
                is_behind = True
                if run in self._live:
                    self._live[run] = replace(self._live[run], changed=_UNREAD)
                continue
            try:
                found = self._database.read(lambda work, run=run: self._read(work, run))  # type: ignore[misc]
            except (ValueError, LookupError):  # what is odd about one run must not hold up those of others
                log.exception("run %s cannot be read, and stands still for a while", run)
                if run in self._live:
                    self._let_go(run)
                self._aside[run] = now + _ASIDE
                continue
            if found is not None:
                self._live[run] = found
                read[found.row.project] += _size(found)
        return is_behind

    def _read(self, work: UnitOfWork, run: str) -> Live | None:
        row = store.by_id(work, run)
        if row is None or row.ended is not None:
            return None
        name, definition = self._definition(work, row.pipeline, row.version)
        options = read_options(row.options)
        sent = store.sent_to(work, run)
        outline, standings = outline_of(definition, steps_in(definition, options)), read_standings(store.steps_of(work, run))
        return Live(
            row=row,
            pipeline=name,
            definition=definition,
            outline=outline,
            options=options,
            parameters=json.loads(row.parameters),
            standings=standings,
            calls=_calls(outline, standings),
            events=tuple(Event(name=one.name, content=json.loads(one.content)) for one in sent),
            sent=len(row.parameters) + sum(len(one.content) for one in sent),
            kept=sum(one.size for one in standings.values()),
            changed=row.changed,
        )

    def _definition(self, work: UnitOfWork, pipeline: str, number: int) -> tuple[str, Definition]:
        if (known := self._definitions.get((pipeline, number))) is None:
            version = pipeline_store.version(work, pipeline, number)
            if version is None:
                raise LookupError(f"version {number} of pipeline {pipeline} is gone")
            name = pipeline_store.names_of(work, [pipeline])[pipeline]
            if len(self._definitions) >= _REMEMBERED:
                self._definitions.clear()
            known = self._definitions[pipeline, number] = (name, read_definition(version.definition))
        return known

    def _let_go(self, run: str) -> None:
        self._doing.forget(self._live.pop(run).row.token)
        self._outcomes.pop(run, None)
        self._aside.pop(run, None)
        self._told = {place: due for place, due in self._told.items() if place[0] != run}

    # 3. and 4.

    def _decide(self, now: Moment) -> bool:
        """Whether anything was written, or is left for the next turn. What could not be written, as for a run that was changed
        meanwhile, is decided again then."""
        waiting, moved, worked, kept = [], False, Counter[str](), Counter[str]()
        for live in self._live.values():
            kept[live.row.project] += live.sent + live.kept
        for run, live in tuple(self._live.items()):
            if live.changed == _UNREAD or now < self._aside.get(run, 0):
                continue
            if now < live.due and not self._outcomes.get(run):
                continue
            if worked[live.row.project] > ENOUGH_WORK:
                moved = True
                continue
            outcomes = self._outcomes.pop(run, {})
            plan = _plan(live, outcomes, MOST_OF_PROJECT - kept[live.row.project] + live.kept, now)
            kept[live.row.project] += plan.kept - live.kept
            worked[live.row.project] += plan.work
            self._live[run] = self._live.pop(run)  # behind those that had no turn yet
            if not plan.changed and plan.end is None:
                self._live[run] = replace(live, due=plan.due)
                continue
            written_ = self._database.submit(lambda work, live=live, plan=plan: self._write(work, live, plan, now))  # type: ignore[misc]
            waiting.append((live, plan, outcomes, written_))
        for live, plan, outcomes, future in waiting:
            try:
                is_written = future.result()
            except (TemporaryError, Conflict) as error:
                log.warning("run %s waits: %s", live.row.id, error)
                is_written = False
            except Exception:  # what is odd about one run must not hold up those of others
                log.exception("run %s cannot be written, and stands still for a while", live.row.id)
                self._aside[live.row.id] = now + _ASIDE
                is_written = False
            self._took(live, plan, outcomes, is_written=is_written)
            moved = moved or is_written
        return moved

    def _took(self, live: Live, plan: Plan, outcomes: dict[Key, Outcome], *, is_written: bool) -> None:
        run = live.row.id
        if not is_written:  # what was heard counts still; the rest is looked at anew
            self._outcomes.setdefault(run, {}).update(outcomes)
            self._live[run] = replace(live, changed=_UNREAD)
        elif plan.end is not None:
            self._let_go(run)
        else:
            standings = {**live.standings, **{one.key: one for one in plan.changed}}
            calls = _calls(live.outline, standings)
            changed = live.changed + 1
            self._live[run] = replace(live, standings=standings, calls=calls, kept=plan.kept, changed=changed, due=0)

    def _write(self, work: UnitOfWork, live: Live, plan: Plan, now: Moment) -> bool:
        row, columns = live.row, dict[str, Any](kept=live.sent + plan.kept)
        if plan.end is not None:
            columns |= {"state": plan.end, "words": plan.words, "ended": now}
            columns["result"] = "" if plan.result is None else written(plan.result)
        if not store.change(work, row.id, live.changed, **columns):
            return False
        if plan.changed:
            store.put_steps(work, [row_of(one, row.id, row.project) for one in plan.changed])
        failpoint("pipelines.deciding")
        if plan.end is not None:
            self._record_end(work, live, plan, now)
            let_go(work, keys_of(row.id), now)
            if plan.end == "cancelled":
                tokens.revoke(work, [row.token], now)
        return True

    def _record_end(self, work: UnitOfWork, live: Live, plan: Plan, now: Moment) -> None:
        row = live.row
        project = project_by_id(work, ProjectId(row.project))
        standings = {**live.standings, **{one.key: one for one in plan.changed}}
        steps = {one.name: one.state for one in standings.values() if one.item == ALONE}
        results = sorted((one.name, one.item, row_of(one, "", "")["result"]) for one in standings.values())
        digest = digest_of(json.dumps(results, separators=(",", ":")))  # of all together, however much that is
        facts = {"pipeline": live.pipeline, "version": row.version, "state": plan.end, "steps": steps, "results": digest}
        recording.append(
            work,
            operation=END_RUN,
            request=OneRun(project="" if project is None else project.name, run=row.id),
            identity=None,
            project=row.project,
            now=now,
            request_id="",
            facts={**facts, "run": row.id},
        )

    # 5.

    def _fly(self, now: Moment, ended: Mapping[str, FoundJob]) -> None:
        busy = Counter(self._flying.values())
        for live in self._live.values():
            heard = self._outcomes.get(live.row.id, {})
            for one in live.calls.values():
                if busy[live.row.project] >= MOST_OF_ONE:
                    break
                place, step = (live.row.id, one.key, one.attempt), live.outline.steps[one.name]
                if place in self._flying or one.key in heard:
                    continue
                job = ended.get(one.job)
                if self._may_fly(live, step, one, job, now):
                    busy[live.row.project] += 1
                    self._flying[place] = live.row.project
                    if live.row.stopping and is_afoot(one, step):
                        self._told[place] = FAR
                    self._pool.submit(self._do, _order(live, step, one, job), place)

    def _may_fly(self, live: Live, step: Step, one: Standing, job: FoundJob | None, now: Moment) -> bool:
        if live.row.stopping and is_afoot(one, step):
            return job is not None or now >= self._told.get((live.row.id, one.key, one.attempt), 0)
        return (not one.job or step.kind == "operation" or job is not None) and now >= one.due

    def _do(self, order: Order, place: _Place) -> None:
        outcome = None
        try:
            outcome = self._doing.do(order)
        finally:
            self._landed.put((place, outcome))


def _calls(outline: Outline, standings: Mapping[Key, Standing]) -> dict[Key, Standing]:
    """What is under way outside of the run, or is to be; a list is so by its items."""
    return {
        key: one
        for key, one in standings.items()
        if one.state == "running"
        and (step := outline.steps.get(one.name)) is not None
        and step.kind in CALLING
        and (step.each is None or one.item != ALONE)
    }


def _size(live: Live) -> int:
    """The work of reading it."""
    return live.sent + live.kept + OF_A_ROW * len(live.standings)


def _plan(live: Live, outcomes: Mapping[Key, Outcome], room: int, now: Moment) -> Plan:
    """What nobody thought of ends this run, and holds up no other."""
    try:
        return decide(_snapshot(live, outcomes, room), now)
    except Exception as error:
        log.exception("run %s cannot be decided about", live.row.id)
        words = f"It cannot go on: what it says makes no sense to the platform ({type(error).__name__})."
        ended = [
            replace(one, state="failed", words=words, ended=now) for one in live.standings.values() if one.state in UNDER_WAY
        ]
        return Plan(changed=tuple(ended), end="failed", words=words, kept=live.kept)


def _snapshot(live: Live, outcomes: Mapping[Key, Outcome], room: int) -> Snapshot:
    return Snapshot(
        id=live.row.id,
        outline=live.outline,
        parameters=live.parameters,
        stopping=live.row.stopping,
        standings=live.standings,
        events=live.events,
        outcomes=outcomes,
        room=room,
    )


def _order(live: Live, step: Step, one: Standing, job: FoundJob | None) -> Order:
    results = {name: each.result for (name, item), each in live.standings.items() if item == ALONE and each.state == "done"}
    scope = {"parameters": live.parameters, "steps": results, "run": live.row.id}
    if one.item != ALONE:
        scope["item"] = live.standings[one.name, ALONE].arguments[one.item]
    return Order(
        run=live.row.id,
        project=live.row.project,
        pipeline=live.pipeline,
        token=live.row.token,
        zone=live.row.zone,
        source=live.definition.source,
        anew=live.options.anew,
        by=live.row.started_by,
        step=step,
        standing=one,
        scope=scope,
        job=job,
        stopping=live.row.stopping,
        ending=live.row.stopping or any(each.state == "failed" for each in live.standings.values()),
    )
