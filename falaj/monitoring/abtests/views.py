"""Rows of tests as messages."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from falaj.base.clock import Moment
from falaj.base.errors import NotFound
from falaj.database.work import Context, UnitOfWork
from falaj.monitoring.abtests.deciding import Look
from falaj.monitoring.abtests.standing import Calls
from falaj.monitoring.abtests.tested import Tested, tested
from falaj.monitoring.abtests.words import guardrail_name, is_share, metric_name, sentence
from falaj.monitoring.operations.abtests import (
    Abtest,
    ArmShown,
    Difference,
    Expected,
    GuardrailShown,
    Metric,
    Point,
    Points,
    Word,
)
from falaj.monitoring.store import abtests as store
from falaj.monitoring.store.tables import Found
from falaj.registry.operations.promotions import Person
from falaj.registry.views import people
from falaj.serving.splits import read_arms, share_of
from falaj.serving.store import endpoints as endpoint_store
from falaj.statistics.contests import ratio_evidence

_EXPOSED_UNLIKE = math.log(1000)


def required_abtest(context: Context, which: str) -> Found:
    found = store.find(context.work, context.required_project.id, which)
    if found is None:
        raise NotFound(f"There is no A/B test {which!r} here; `falaj abtest list` lists them.")
    return found


def expected_written(expected: Expected) -> str:
    """By the standard library, which writes what is no number, or endless, in words that it reads again."""
    return json.dumps(asdict(expected))


def read_expected(text: str) -> Expected:
    told = json.loads(text)
    return Expected(**{**told, "sentences": tuple(told["sentences"])})


def abtests_shown(work: UnitOfWork, rows: Sequence[Found], now: Moment) -> tuple[Abtest, ...]:
    persons = people(work, {one for row in rows for one in (row.started_by, row.ended_by)} - {""})
    return tuple(_shown(work, row, persons, now) for row in rows)


def points_shown(work: UnitOfWork, row: Found) -> Points:
    items = [
        Point(at=Moment(point.at), units=point.rows, differences=tuple(map(_difference, json.loads(point.told))))
        for point in store.points_of(work, row.id)
    ]
    return Points(candidates=tuple(one.revision for one in tested(row).design.candidates), items=tuple(items))


def _difference(told: Sequence[float | None]) -> Difference:
    at, low, high = told
    return Difference(
        at=math.nan if at is None else at, low=-math.inf if low is None else low, high=math.inf if high is None else high
    )


def _shown(work: UnitOfWork, row: Found, persons: dict[str, Person], now: Moment) -> Abtest:
    test = tested(row)
    look = test.look(test.standing)
    verdict = json.loads(row.verdict) if row.verdict else {}
    going = sentence(look, row.state, Moment(row.started), now, Moment(row.ends)) if row.ended is None else ""
    main = test.standing.metrics[0]
    mismatched = [one for one in look.candidates if one not in test.standing.out and look.mismatch(one)]
    return Abtest(
        id=row.id,
        name=row.name,
        endpoint=row.endpoint_name,
        state=row.state,
        sentence=verdict.get("sentence", going),
        design=test.design,
        metric=metric_name(test.design.metric),
        unit=_unit(test.design.metric),
        expected=read_expected(row.expected),
        arms=_arms(work, row, test, look, verdict.get("winner", 0)),
        guardrails=tuple(_guardrails(test, look)),
        mismatch=_mismatch(mismatched, test),
        units=sum(main.units(one) for one in test.shares),
        repeated=main.repeated,
        crossed=main.crossed,
        started=Moment(row.started),
        started_by=persons[row.started_by],
        counted=None if row.counted is None else Moment(row.counted),
        ends=Moment(row.ends),
        ended=None if row.ended is None else Moment(row.ended),
        ended_by=persons.get(row.ended_by),
        acted=row.acted,
        remarks=tuple(_remarks(row, test)),
    )


def _arms(work: UnitOfWork, row: Found, test: Tested, look: Look, winner: int) -> tuple[ArmShown, ...]:
    revisions = endpoint_store.revisions_of(work, row.endpoint, test.shares)
    arms, main = read_arms(row.arms), test.standing.metrics[0]
    units = sum(main.units(one) for one in test.shares)
    shown = []
    for revision in (test.incumbent, *look.candidates):
        is_incumbent = revision == test.incumbent
        found = None if is_incumbent else look.difference(revision)
        shown.append(
            ArmShown(
                revision=revision,
                model=revisions[revision].model_name if revision in revisions else "",
                version=revisions[revision].version if revision in revisions else 0,
                incumbent=is_incumbent,
                share=share_of(arms, revision),
                word=_word(test, look, revision, winner),
                units=main.units(revision),
                mean=main.mean(revision),
                difference=None if found is None else Difference(at=found.at, low=found.low, high=found.high),
                calls=test.standing.calls.get(revision, Calls()).requests,
                expected_units=units * test.shares[revision] / sum(test.shares.values()),
            )
        )
    return tuple(shown)


def _word(test: Tested, look: Look, revision: int, winner: int) -> Word:
    if revision == test.incumbent:
        return "open"
    if revision == winner:
        return "winner"
    out = test.standing.out.get(revision)
    return out if out is not None else look.word(revision)  # type: ignore[return-value]


def _guardrails(test: Tested, look: Look) -> list[GuardrailShown]:
    return [
        GuardrailShown(
            name=guardrail_name(test.design.guardrails[one.place]),
            unit=_unit(test.design.guardrails[one.place].metric or Metric()),
            revision=candidate,
            incumbent=one.incumbent,
            candidate=one.candidate,
            harm=one.harm,
            low=one.low if one.low > -1 or test.design.guardrails[one.place].of == "metric" else -math.inf,
            worst=test.design.guardrails[one.place].worst,
            broken=one.broken,
        )
        for candidate in look.candidates
        for one in look.guarded(candidate)
    ]


def _unit(metric: Metric) -> str:
    return "share" if is_share(metric) else "number"


def _mismatch(candidates: Sequence[int], test: Tested) -> str:
    main = test.standing.metrics[0]
    told = [
        f"Revision {one} has {main.units(one):,} units and revision {test.incumbent} {main.units(test.incumbent):,}, where "
        f"their shares are as {test.shares[one] / 100:g} to {test.shares[test.incumbent] / 100:g}."
        for one in candidates
    ]
    if not told:
        return ""
    return " ".join([*told, "Chance does not explain that: units are lost on the way, and no verdict is given while it is so."])


def _remarks(row: Found, test: Tested) -> list[str]:
    main, told = test.standing.metrics[0], []
    if row.ended is None and row.counted is None:
        told.append("Predictions count once every serving plane has taken up the split.")
    if main.crossed:
        told.append(
            f"{main.crossed:,} units were served by several arms, and count for the first: callers should send the same key "
            "for the same unit."
        )
    if main.repeated:
        told.append(f"{main.repeated:,} times a unit came again after it had counted; each counts once, when it first comes.")
    if main.outside:
        told.append(f"{main.outside:,} outcomes lay outside the bounds that were given and count as the nearest of them.")
    told += _exposed(test)
    return told


def _exposed(test: Tested) -> list[str]:
    """Before labels tell who was served, calls do; they are no units, so nothing rests on it."""
    calls = [test.standing.calls.get(one, Calls()).requests for one in test.shares]
    if any(test.standing.metrics[0].arms.values()) or not sum(calls) or test.standing.out:
        return []
    if ratio_evidence(calls, list(test.shares.values())) < _EXPOSED_UNLIKE:
        return []
    return ["Calls do not fit the shares. Where callers send keys, one that calls much explains it; else look into it."]
