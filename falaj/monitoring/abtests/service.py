"""A/B tests as people begin them, look at them and end them. What happens in between is `running`."""

from dataclasses import replace
from typing import Final

import msgspec

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import Conflict
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.monitoring.abtests import acting, designing, standing
from falaj.monitoring.abtests.deciding import metrics_of
from falaj.monitoring.abtests.entering import end
from falaj.monitoring.abtests.outcomes import gathered
from falaj.monitoring.abtests.planning import LOOKED_AT, Recent, expected
from falaj.monitoring.abtests.tested import tested
from falaj.monitoring.abtests.views import abtests_shown, expected_written, points_shown, required_abtest
from falaj.monitoring.labels import LabelService
from falaj.monitoring.operations import abtests as declared
from falaj.monitoring.operations.abtests import Abtest, Abtests, CreateAbtest, Design, Expected, PlanAbtest, Points
from falaj.monitoring.store import abtests as store
from falaj.monitoring.store import labels as label_store
from falaj.monitoring.store.tables import Found
from falaj.serving import looking_up, splits
from falaj.serving.changing import change_split
from falaj.serving.operations.endpoints import DEPLOY, ROLL_BACK, RollBack
from falaj.serving.permitting import Permits
from falaj.serving.splits import Arms, read_arms, written
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import windows as window_store
from falaj.serving.store.windows import COARSE
from falaj.serving.views import read_options, required_endpoint

_BATCHES: Final = 20  # of labels that are looked at for a plan
_LONGEST_NAME: Final = 100


class AbtestService:
    """Thread-safe."""

    def __init__(self, database: Database, labels: LabelService, gate: Gatekeeper) -> None:
        self._database, self._labels, self._gate, self._permits = database, labels, gate, Permits(gate)

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.CREATE_ABTEST, self.prepare, self.create),
            bind(declared.PLAN_ABTEST, self.plan),
            bind(declared.LIST_ABTESTS, self.list),
            bind(declared.SHOW_ABTEST, self.show),
            bind(declared.READ_POINTS, self.points),
            bind(declared.STOP_ABTEST, self.stop),
        ]

    # Before

    def plan(self, context: Context, request: PlanAbtest) -> Expected:
        designing.check(request.design)
        endpoint = required_endpoint(context, request.endpoint)
        incumbent, _ = _split(context, endpoint, request.design)
        return self._expected(context, endpoint, request.design, incumbent)

    def prepare(self, context: Context, request: CreateAbtest) -> Expected:
        """Labels are read outside the transaction that begins the test."""

        def look(work: UnitOfWork) -> Expected:
            within = replace(context, work=work)
            _check_free(work, required_endpoint(within, request.endpoint))
            return self.plan(within, PlanAbtest(project=request.project, endpoint=request.endpoint, design=request.design))

        return self._database.read(look)

    def create(self, context: Context, request: CreateAbtest, expected: Expected) -> Abtest:
        design, work = request.design, context.work
        endpoint = required_endpoint(context, request.endpoint, hold=True)
        _check_free(work, endpoint)
        incumbent, arms = _split(context, endpoint, design)
        self._check_permitted(context, endpoint, design, arms)
        id = new_id(context.now)
        row = {
            "id": id,
            "project": endpoint.project,
            "endpoint": endpoint.id,
            "endpoint_name": endpoint.name,
            "endpoint_busy": endpoint.id,
            "name": request.name or f"{endpoint.name[: _LONGEST_NAME - 9]}-{id[-8:]}",
            "state": "running",
            "plan": msgspec.json.encode(design).decode(),
            "expected": expected_written(expected),
            "incumbent": incumbent,
            "before": endpoint.arms,
            "arms": written(arms),
            "change": endpoint.last_change + 1,
            "standing": standing.encode(standing.begun(len(metrics_of(design)))),
            "verdict": "",
            "acted": "",
            "place": _last_place(work, endpoint),
            "seen": context.now,
            "started": context.now,
            "started_by": context.identity.principal,
            "counted": None,
            "ends": context.now + design.days * DAY,
            "ended": None,
            "ended_by": "",
        }
        if not store.add(work, row):
            raise Conflict(f"There is an A/B test of the name {row['name']!r} already; choose another.")
        reason = request.reason or f"A/B test {row['name']!r} begins."
        by = context.identity.principal
        facts = change_split(work, endpoint, kind="split", arms=arms, by=by, reason=reason, now=context.now)
        context.facts.update(facts, abtest=id, incumbent=incumbent)
        return self._shown(context, id)

    def _check_permitted(self, context: Context, endpoint: Found, design: Design, arms: Arms) -> None:
        """What a winner would get is asked now: nobody is there to be asked when it wins."""
        numbers = [arm.revision for arm in arms]
        revisions = endpoint_store.revisions_of(context.work, endpoint.id, numbers)
        looking_up.check_together(context, endpoint.name, list(revisions.values()))
        whole = [one.revision for one in design.candidates] if design.on_win == "promote" else [0]
        for growing in whole:
            self._permits.check(
                context,
                DEPLOY,
                endpoint.name,
                before=read_arms(endpoint.arms),
                after=arms,
                revisions=revisions,
                growing=growing,
            )

    def _expected(self, context: Context, endpoint: Found, design: Design, incumbent: int) -> Expected:
        work, since = context.work, context.now - LOOKED_AT * DAY
        batches = label_store.batches_since(work, endpoint.id, since, _BATCHES)
        rows = self._labels.rows(context, endpoint, batches)
        shares = designing.shares_of(design, incumbent)
        everybody = gathered(design.metric, rows, {row.revision for row in rows}, since)
        mine = gathered(design.metric, rows, {incumbent}, since)
        number, first = label_store.came_since(work, endpoint.id, since)
        days = max(context.now - first, HOUR) / DAY
        recent = Recent(
            units=tuple(mine.units.values()),
            labelled=number,
            units_per_day=number / days * len(everybody.units) / max(1, len(rows)),
            calls_per_day=_calls_per_day(work, endpoint, context.now),
            history=context.now - first,
        )
        named = {name for row in rows for name in row.values}
        return expected(design, incumbent, shares, recent, named)

    # Looking, and ending

    def list(self, context: Context, request: declared.ListAbtests) -> Abtests:
        before = read_text_cursor(request.cursor)
        found = store.page(context.work, context.required_project.id, request.endpoint or None, before, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.id,))
        return Abtests(items=abtests_shown(context.work, page, context.now), next=following)

    def show(self, context: Context, request: declared.OneAbtest) -> Abtest:
        return self._shown(context, request.abtest)

    def points(self, context: Context, request: declared.OneAbtest) -> Points:
        return points_shown(context.work, required_abtest(context, request.abtest))

    def stop(self, context: Context, request: declared.StopAbtest) -> Abtest:
        work, known = context.work, required_abtest(context, request.abtest)
        endpoint, held = endpoint_store.hold_by_id(work, known.endpoint), store.hold(work, known.id)
        if held is None or held.endpoint_busy is None:
            raise Conflict(f"The A/B test {known.name!r} is over already.")
        test, by, acted = tested(held), context.identity.principal, "The split stays as it is."
        if endpoint is not None and endpoint.last_change != held.change:
            acted = "The split stays as somebody else set it."
        elif endpoint is not None and request.then == "back":
            back = RollBack(project=request.project, endpoint=endpoint.name)
            self._gate.authorise(work, context.identity, ROLL_BACK, back)
            wanted = acting.way_back(test.design, test.incumbent, read_arms(held.before))
            reason = request.reason or f"A/B test {held.name!r} was stopped."
            acted = acting.act(work, endpoint, request.project, wanted, by=by, reason=reason, now=context.now)
        end(work, held, test.standing, "stopped", by=by, acted=acted, now=context.now)
        context.facts.update(abtest=held.id, endpoint=held.endpoint, verdict="stopped", acted=acted)
        return self._shown(context, held.id)

    def _shown(self, context: Context, which: str) -> Abtest:
        return abtests_shown(context.work, [required_abtest(context, which)], context.now)[0]


def _check_free(work: UnitOfWork, endpoint: Found) -> None:
    """For good only where the endpoint's row is held."""
    if (busy := store.busy(work, endpoint.id)) is not None:
        raise Conflict(
            f"The A/B test {busy.name!r} goes on at {endpoint.name!r}; there is one at a time. `falaj abtest stop {busy.name}` "
            "ends it."
        )
    if endpoint.next_step is not None:
        raise Conflict(f"A canary of {endpoint.name!r} grows by itself; promote it or roll it back first.")


def _split(context: Context, endpoint: Found, design: Design) -> tuple[int, Arms]:
    """The incumbent, and the split that the test takes."""
    if not read_options(endpoint.options).log_share:
        raise Conflict(
            f"Predictions of {endpoint.name!r} are not logged, so no label can be joined to them and nothing would ever be "
            f"known: `falaj endpoint configure {endpoint.name} --log-percent 100` logs them."
        )
    now = read_arms(endpoint.arms)
    reasons = endpoint_store.quarantine_reasons(context.work, endpoint.id)
    for number in (*([design.incumbent] if design.incumbent else []), *(one.revision for one in design.candidates)):
        splits.check(splits.everything_to(number), reasons, endpoint.name)
    incumbent = designing.incumbent_of(design, now, endpoint.name)
    return incumbent, splits.check(designing.arms_of(design, incumbent, now), reasons, endpoint.name)


def _last_place(work: UnitOfWork, endpoint: Found) -> int:
    labelling = label_store.labelling(work, endpoint.id)
    return 0 if labelling is None else int(labelling.places)


def _calls_per_day(work: UnitOfWork, endpoint: Found, now: Moment) -> float:
    """By the last day, or since somebody first called in it."""
    rows = window_store.since(work, endpoint.id, COARSE, now - DAY)
    calls = sum(int(row.requests) for row in rows)
    first = min((int(row.at) for row in rows), default=int(now))
    return calls * DAY / max(now - first, 10 * MINUTE, COARSE * SECOND)
