"""Versions of what was pushed: all that waits of a dataset becomes one, held against its checks as any other.

What takes long is done before the transaction, and counts only if nothing came between. The rows are in the version and the
pushes are done in the same transaction, so that each row is in one version, whatever is killed when.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from falaj.base.caller import Identity, ProjectFacts
from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Conflict, FalajError, Invalid, Unavailable
from falaj.base.ids import PrincipalId
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.checking.running import Checker, Rules, Subject
from falaj.datasets.checking.verdicts import Verdict, Verdicts
from falaj.datasets.compacting import LARGE_BYTES, LARGE_ROWS
from falaj.datasets.judging import holding, publish_judged
from falaj.datasets.operations import pushing as declared
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import NewPart, Openable, Parts
from falaj.datasets.preparing import current_of
from falaj.datasets.publishing import Draft, Placed
from falaj.datasets.pushing.bounds import PushBounds
from falaj.datasets.rewriting import Rewriter
from falaj.datasets.store import pushes as store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, schema_of
from falaj.governance.gate import project_facts
from falaj.governance.ledger import recording
from falaj.governance.projects.store import project_by_id
from falaj.tables.schemas import Schema, evolved

MOST_PUSHES: Final = 1000  # of one batch
_DATASETS: Final = 8  # in one round
_TRY_AGAIN: Final = 30 * SECOND
_LONGEST_ERROR: Final = 1000


@value
class Plan:
    """What waits, as it was found: `runs` become one part each, `standing` is what is current where checks have to see it."""

    dataset: Found
    schema: Schema
    runs: Sequence[Sequence[Openable]]
    stuck: Mapping[str, str]
    standing: Sequence[Openable]
    rules: Rules

    @property
    def pushes(self) -> list[str]:
        return [part.row.push for run in self.runs for part in run]


@value
class Batch:
    """`made` has a part for each run of the plan: one that was joined, or None for a push that is a part by itself."""

    plan: Plan
    made: Sequence[NewPart | None]
    verdict: Verdict | None


class BatchService:
    def __init__(
        self,
        database: Database,
        parts: Parts,
        rewriter: Rewriter,
        checker: Checker,
        verdicts: Verdicts,
        bounds: PushBounds,
    ) -> None:
        self._database = database
        self._parts = parts
        self._rewriter = rewriter
        self._checker = checker
        self._verdicts = verdicts
        self._bounds = bounds

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.FLUSH_PUSHES, self.prepare, self.publish)]

    def step(self, now: Moment) -> bool:
        """One round over the datasets that are due; whether there is more."""
        found = self._database.read(lambda work: self._due(work, now))
        more = [self._batched(row, now) for row in found[:_DATASETS]]
        return any(more) or len(found) > _DATASETS

    def prepare(self, context: Context, request: OneDataset) -> Batch:
        plan = self._database.read(lambda work: self._planned(dataclasses.replace(context, work=work), request))
        if plan.stuck:
            self._database.write(lambda work: _tell_stuck(work, plan.stuck))
        if not plan.runs:
            why = " What was pushed does not fit its columns: see dataset.pushed." if plan.stuck else ""
            raise Conflict(f"Nothing waits to become a version of {request.dataset!r}.{why}")
        made = [self._joined(context.required_project, plan, run) for run in plan.runs]
        return Batch(plan=plan, made=made, verdict=self._verdict(context, plan, made) if plan.rules.checks else None)

    def publish(self, context: Context, request: OneDataset, batch: Batch) -> Version:
        plan, dataset = batch.plan, required_dataset(context, request.dataset, hold=True)
        if (dataset.id, dataset.current) != (plan.dataset.id, plan.dataset.current):
            raise Unavailable(f"Another version of {dataset.name!r} came while this one was made: try again.", delay=0.1)
        verdict = holding(context, dataset, batch.verdict)
        if store.still_waiting(context.work, plan.pushes) != len(plan.pushes):
            raise Unavailable("Some of what was pushed became a version at the same moment: try again.", delay=0.1)
        stops = verdict is not None and verdict.stops
        added = [Placed(part=self._entered(context, run, new, stops)) for run, new in zip(plan.runs, batch.made, strict=True)]
        origin = f"{len(plan.pushes)} pushes"
        draft = Draft(mode="append", schema=plan.schema, removed=(), added=added, origin=origin)
        version = publish_judged(context, self._verdicts, dataset, draft, verdict)
        done = {"state": store.DONE, "version": version.version, "done": context.now, "tried": None, "error": ""}
        store.change(context.work, plan.pushes, **done)
        store.change(context.work, [run[0].row.push for run in plan.runs if len(run) == 1], part=None)
        context.facts["pushes"] = len(plan.pushes)
        return version

    # Steps

    def _due(self, work: UnitOfWork, now: Moment) -> Sequence[Found]:
        return store.due(
            work,
            before=now - int(self._bounds.seconds * SECOND),
            tried_before=now - _TRY_AGAIN,
            rows=self._bounds.rows,
            size=self._bounds.batch_bytes,
            limit=_DATASETS + 1,
        )

    def _batched(self, row: Found, now: Moment) -> bool:
        """A version of what waits of a dataset. What fails is told with the pushes, and others go on meanwhile."""
        try:
            context = self._database.read(lambda work: _of_itself(work, row, now))
            request = OneDataset(project=context.required_project.name, dataset=row.name)
            batch = self.prepare(context, request)
            self._database.write(lambda work: self._recorded(dataclasses.replace(context, work=work), request, batch))
            return len(batch.plan.pushes) == MOST_PUSHES
        except Unavailable:
            return False  # something came between: the next round sees it
        except FalajError as error:
            # What a data worker says is wrong with rows may name a value, and this is no place for one.
            said = "The rows could not be put together." if isinstance(error, Invalid) else str(error)
            self._failed(row, said, now)
        except Exception:
            self._failed(row, "The platform failed; its log says why.", now)
            raise
        return False

    def _recorded(self, context: Context, request: OneDataset, batch: Batch) -> None:
        """As the operation that does the same for somebody who asks."""
        inside = dataclasses.replace(context, facts={}, identity=_by(context.identity, batch.plan))
        self.publish(inside, request, batch)
        recording.append(
            context.work,
            operation=declared.FLUSH_PUSHES,
            request=request,
            identity=None,
            project=context.required_project.id,
            now=context.now,
            request_id="",
            facts=inside.facts,
        )

    def _failed(self, row: Found, said: str, now: Moment) -> None:
        self._database.write(lambda work: store.tell_failed(work, row.id, said[:_LONGEST_ERROR], now))

    def _planned(self, context: Context, request: OneDataset) -> Plan:
        dataset = required_dataset(context, request.dataset)
        current = current_of(context, dataset)
        rows = store.waiting(context.work, dataset.id, MOST_PUSHES)
        first = current if current is not None else rows[0] if rows else None
        fitting, stuck = _told_apart(schema_of(first), rows) if first is not None else ([], {})
        rules = self._checker.rules(context, dataset)
        standing = version_store.parts_of(context.work, current) if current is not None and rules.checks else ()
        return Plan(
            dataset=dataset,
            schema=schema_of(first) if first is not None else Schema(columns=()),
            runs=[self._parts.openable(context, run) for run in runs_of(fitting, int(self._bounds.seconds * SECOND))],
            stuck=stuck,
            standing=self._parts.openable(context, standing),
            rules=rules,
        )

    def _joined(self, project: ProjectFacts, plan: Plan, run: Sequence[Openable]) -> NewPart | None:
        return None if len(run) == 1 else self._rewriter.joined(project, plan.dataset.zone, plan.schema, run)

    def _verdict(self, context: Context, plan: Plan, made: Sequence[NewPart | None]) -> Verdict:
        new = [one if one is not None else run[0] for run, one in zip(plan.runs, made, strict=True)]
        subject = Subject(name=plan.dataset.name, schema=plan.schema, parts=[*plan.standing, *new])
        outcomes = self._checker.run(subject, plan.rules, context.now)
        dataset = plan.dataset
        return self._verdicts.made(context.required_project, dataset.zone, dataset.current, plan.rules.text, outcomes)

    def _entered(self, context: Context, run: Sequence[Openable], new: NewPart | None, stops: bool) -> str:
        """The part of a run. Its rows are known since the last of them was accepted; those that go into quarantine are known to
        nobody until they are released."""
        known = None if stops else max(part.row.accepted for part in run)
        if new is not None:
            return self._parts.enter(context, run[0].row.dataset, new, known)
        part = str(run[0].row.id)
        version_store.set_known(context.work, part, known)
        return part


def runs_of(rows: Sequence[Found], span: int) -> list[list[Found]]:
    """Pushes that become one part: in the order they came, not too large together, and accepted within `span` of each other,
    because all rows of a part count as known when the last of them was."""
    runs: list[list[Found]] = []
    for row in rows:
        run = runs[-1] if runs else []
        fits = bool(run) and row.accepted - run[0].accepted <= span
        fits = fits and sum(one.size for one in run) + row.size <= LARGE_BYTES
        if fits and sum(one.rows for one in run) + row.rows <= LARGE_ROWS:
            run.append(row)
        else:
            runs.append([row])
    return runs


def _told_apart(schema: Schema, rows: Sequence[Found]) -> tuple[list[Found], dict[str, str]]:
    """Those that can be appended to what has these columns, and why the others cannot."""
    fitting, stuck = [], {}
    for row in rows:
        try:
            if evolved(schema, schema_of(row)) == schema:
                fitting.append(row)
                continue
            why = "The dataset's columns changed since this was pushed, and it would add or widen some."
        except Conflict as error:
            why = str(error)
        stuck[str(row.push)] = why
    return fitting, stuck


def _tell_stuck(work: UnitOfWork, stuck: Mapping[str, str]) -> None:
    for error in sorted(set(stuck.values())):
        pushes = [push for push, why in stuck.items() if why == error]
        store.change(work, pushes, state=store.STUCK, error=error[:_LONGEST_ERROR])


def _by(identity: Identity, plan: Plan) -> Identity:
    """Whoever pushed all of it has made the version; where several did, nobody has."""
    pushers = {part.row.by for run in plan.runs for part in run}
    return dataclasses.replace(identity, principal=PrincipalId(pushers.pop() if len(pushers) == 1 else ""))


def _of_itself(work: UnitOfWork, row: Found, now: Moment) -> Context:
    """The context of what the platform does by itself for a project."""
    project = project_by_id(work, row.project)
    if project is None:
        raise Conflict("The project is not there any more.")
    nobody = Identity(principal=PrincipalId(""), kind="process", name="datasets", token=None, zone="")
    return Context(work=work, identity=nobody, project=project_facts(project), now=now, request_id="", facts={})
