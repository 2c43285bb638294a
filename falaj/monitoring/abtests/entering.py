"""What was found of a test is written down and acted on, all of it in one transaction, each part with its leaf."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.ids import ProjectId
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance.ledger import recording
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring.abtests import acting, standing
from falaj.monitoring.abtests.deciding import Conclusion
from falaj.monitoring.abtests.permitting import refusal
from falaj.monitoring.abtests.standing import Standing
from falaj.monitoring.abtests.tested import Tested, tested
from falaj.monitoring.abtests.words import sentence
from falaj.monitoring.announcing import News, announce
from falaj.monitoring.operations.abtests import STOP_ABTEST, State, StopAbtest
from falaj.monitoring.store import abtests as store
from falaj.monitoring.store.tables import Found
from falaj.serving.permitting import Permits
from falaj.serving.splits import read_arms, written
from falaj.serving.store import endpoints as endpoint_store

MOST_POINTS: Final = 240
_LONGEST_REASON: Final = 1000
_TITLES: Final = {
    "won": "revision {winner} wins",
    "lost": "nothing better was found",
    "same": "no difference that matters",
    "broken": "a guardrail was broken",
    "over": "its time is over",
    "mismatch": "units do not fit the shares",
    "overtaken": "the split was changed meanwhile",
    "loser": "revision {revision} loses",
}


@value
class Drawn:
    """A point of the chart."""

    units: int
    told: str


@value
class Stepped:
    """What a test has come to with what came: the new columns of its row, the units that count now, by the metric's place, and
    what is concluded."""

    standing: Standing
    place: int
    seen: int
    counted: int | None
    units: tuple[frozenset[str], ...]
    points: tuple[Drawn, ...]
    found: Conclusion


def unchanged(row: Found, test: Tested, found: Conclusion) -> Stepped:
    nothing = tuple(frozenset[str]() for _ in test.standing.metrics)
    return Stepped(
        standing=test.standing,
        place=row.place,
        seen=row.seen,
        counted=row.counted,
        units=nothing,
        points=(),
        found=found,
    )


def enter(work: UnitOfWork, row: Found, stepped: Stepped, permits: Permits, now: Moment) -> bool:
    """Nothing where the test was changed since it was looked at: the next round looks anew."""
    endpoint, held = endpoint_store.hold_by_id(work, row.endpoint), store.hold(work, row.id)
    if held is None or held.endpoint_busy is None:
        return False
    if (held.place, held.seen, held.counted, held.change) != (row.place, row.seen, row.counted, row.change):
        return False
    found, project = stepped.found, project_by_id(work, held.project)
    if project is None:
        return False
    if endpoint is None or endpoint.last_change != held.change:
        return _overtaken(work, held, project, now)
    out = stepped.standing.out | {one: word for one, word in found.of.items() if word in ("loser", "broken")}
    after = replace(stepped.standing, out=out, mismatch=stepped.standing.mismatch or found.told)
    for place, units in enumerate(stepped.units):
        store.count(work, held.id, place, units)
    after = _keep_points(work, held.id, after, stepped.points, now)
    changes: dict[str, Any] = {"place": stepped.place, "seen": stepped.seen, "counted": stepped.counted}
    store.change(work, held.id, standing=standing.encode(after), **changes)
    if found.told:
        _tell(work, held, project, "Units do not fit the shares; no verdict is given.", {"verdict": "mismatch"}, now)
    test = tested(held)
    if found.state != "running":
        _conclude(work, held, endpoint, project, replace(test, standing=after), found, permits, now)
    elif found.leaves:
        _withdraw(work, held, endpoint, project, replace(test, standing=after), found, now)
    return True


def _overtaken(work: UnitOfWork, held: Found, project: Project, now: Moment) -> bool:
    """Somebody changed the split: what comes from now on says nothing of this test, and what they did stays."""
    end(work, held, tested(held).standing, "overtaken", by="", acted="The split stays as somebody else set it.", now=now)
    _tell(work, held, project, "The split was changed meanwhile.", {"verdict": "overtaken"}, now)
    return True


def _conclude(
    work: UnitOfWork,
    held: Found,
    endpoint: Found,
    project: Project,
    test: Tested,
    found: Conclusion,
    permits: Permits,
    now: Moment,
) -> None:
    look = test.look(test.standing)
    words = sentence(look, found.state, Moment(held.started), now, Moment(held.ends), winner=found.winner)
    wanted = None
    if found.state == "won":
        wanted = acting.promotion(read_arms(endpoint.arms), found.winner) if test.design.on_win == "promote" else None
    elif test.design.on_loss == "back":
        wanted = acting.way_back(test.design, test.incumbent, read_arms(held.before))
    reason = f"A/B test {held.name!r}: {words}"[:_LONGEST_REASON]
    acted = "Nothing was done by itself."
    refused = refusal(work, permits, held, endpoint, wanted.arms, now) if wanted is not None and found.state == "won" else ""
    if refused:
        acted = refused
    elif wanted is not None:
        acted = acting.act(work, endpoint, project.name, wanted, by="", reason=reason, now=now)
    end(work, held, test.standing, found.state, by="", acted=acted, now=now, winner=found.winner)
    of = {str(revision): word for revision, word in found.of.items()}
    facts = {"verdict": found.state, "winner": found.winner, "of": of, "acted": acted}
    _tell(work, held, project, words, facts | _units(test), now)


def _withdraw(
    work: UnitOfWork, held: Found, endpoint: Found, project: Project, test: Tested, found: Conclusion, now: Moment
) -> None:
    """Those that lost leave, one after the other, or are only told of; the test goes on with the others."""
    for revision in found.leaves:
        current = endpoint_store.hold_by_id(work, endpoint.id)
        if current is None:
            return
        words = f"A/B test {held.name!r}: revision {revision} is out ({found.of[revision]})."
        acted = "Nothing was done by itself."
        if test.design.on_loss == "back":
            wanted = acting.withdrawal(read_arms(current.arms), revision)
            acted = acting.act(work, current, project.name, wanted, by="", reason=words, now=now)
        _tell(work, held, project, words, {"verdict": found.of[revision], "revision": revision, "acted": acted}, now)
    after = endpoint_store.hold_by_id(work, endpoint.id)
    if after is not None:
        store.change(work, held.id, change=after.last_change, arms=written(read_arms(after.arms)))


def end(
    work: UnitOfWork, held: Found, after: Standing, state: State, *, by: str, acted: str, now: Moment, winner: int = 0
) -> None:
    """The test's row is held."""
    look = tested(held).look(after)
    words = sentence(look, state, Moment(held.started), now, Moment(held.ends), winner=winner)
    verdict = json.dumps({"sentence": words, "winner": winner})
    store.change(
        work, held.id, state=state, endpoint_busy=None, verdict=verdict, acted=acted, ended=max(now, held.started), ended_by=by
    )


def _keep_points(work: UnitOfWork, id: str, now: Standing, points: Sequence[Drawn], at: Moment) -> Standing:
    for point in points:
        there, last = store.count_points(work, id)
        if there >= MOST_POINTS:
            store.thin_points(work, id)
            now = replace(now, stride=2 * now.stride)
        row = {"abtest": id, "number": last + 1, "at": at, "rows": point.units, "told": point.told}
        store.add_point(work, row)
    return now


def _units(test: Tested) -> dict[str, Any]:
    return {"units": {str(one): test.standing.metrics[0].units(one) for one in test.shares}}


def _tell(work: UnitOfWork, held: Found, project: Project, words: str, facts: dict[str, Any], now: Moment) -> None:
    """On record, and to people."""
    recording.append(
        work,
        operation=STOP_ABTEST,
        request=StopAbtest(project=project.name, abtest=held.name, reason=words[:_LONGEST_REASON]),
        identity=None,
        project=ProjectId(held.project),
        now=now,
        request_id="",
        facts={"abtest": held.id, **facts},
    )
    verdict = facts["verdict"]
    news = News(
        event="abtest.verdict",
        endpoint=held.endpoint,
        name=held.endpoint_name,
        severity="warning" if verdict in ("broken", "mismatch") else "info",
        title=f"A/B test {held.name!r}: {_TITLES[verdict].format(**facts)}",
        sentences=tuple(one for one in (words, facts.get("acted", "")) if one),
        facts={"abtest": held.name, **facts},
    )
    announce(work, project, news, now)
