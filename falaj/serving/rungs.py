"""What the forms of a revision do on planes: kept from report to report, and shown with the ladder they stand on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Final

import msgspec

from falaj.base.values import value
from falaj.serving.operations.endpoints import Rung
from falaj.serving.operations.planes import Latency, RungReport
from falaj.serving.operations.words import ORIGINAL
from falaj.serving.store.tables import Found

_MOST: Final = 2**62
_LONGEST_REMARK: Final = 500


@value
class Kept:
    """Of one form on one plane, since that has the revision; `workers`, `latency` and `remark` are as it said last."""

    name: str
    requests: int = 0
    falls: int = 0
    workers: int = 0
    latency: Latency | None = None
    remark: str = ""


def rungs_written(told: Sequence[RungReport], known: str) -> str:
    """What is to be kept of a report, after what was kept before."""
    if not told:
        return known
    before = {one.name: one for one in _read(known)}
    return msgspec.json.encode([_after(one, before.get(one.name, Kept(name=one.name))) for one in told]).decode()


def _after(told: RungReport, before: Kept) -> Kept:
    # Bounded, so that no report, however wrong, can make a number that nobody can read.
    return Kept(
        name=told.name,
        requests=min(before.requests + told.requests, _MOST),
        falls=min(before.falls + told.falls, _MOST),
        workers=told.workers,
        latency=told.latency if told.latency is not None and _is_finite(told.latency) else None,
        remark=told.remark[:_LONGEST_REMARK],
    )


def _is_finite(latency: Latency) -> bool:
    return all(math.isfinite(one) for one in astuple(latency))


def _read(text: str) -> list[Kept]:
    return msgspec.json.decode(text, type=list[Kept])


def ladder_shown(revision: Found, rungs: Sequence[Found], instances: Sequence[Found] = ()) -> tuple[Rung, ...]:
    """Every form that it can answer in, with what planes said of each; empty where it has but one."""
    if not rungs:
        return ()
    own = _shown(revision, revision.variant or ORIGINAL, 0.0)
    told = [one for instance in instances for one in _read(instance.rungs)]
    return tuple(_summed(form, told) for form in (own, *(_shown(rung, rung.variant, rung.throughput) for rung in rungs)))


def _shown(row: Found, name: str, throughput: float) -> Rung:
    return Rung(
        name=name,
        runtime=row.runtime,
        size=row.size,
        certificate=row.certificate,
        host=row.host_shown or row.host,
        latency_ms=row.latency_ms,
        throughput=throughput,
    )


def _summed(form: Rung, told: Sequence[Kept]) -> Rung:
    mine = [one for one in told if one.name == form.name]
    return Rung(
        name=form.name,
        runtime=form.runtime,
        size=form.size,
        certificate=form.certificate,
        host=form.host,
        latency_ms=form.latency_ms,
        throughput=form.throughput,
        workers=sum(one.workers for one in mine),
        requests=sum(one.requests for one in mine),
        falls=sum(one.falls for one in mine),
    )


def remarks_on(
    revisions: Sequence[Found],
    ladders: Mapping[str, Sequence[Found]],
    instances: Sequence[Found],
    planes: Mapping[str, str],
) -> tuple[str, ...]:
    """Where variants run on another kind of host than they were certified on, and where one is not used. `planes` are names."""
    told: list[str] = []
    for revision in revisions:
        forms = {one.variant or ORIGINAL: one for one in (revision, *ladders.get(revision.id, ()))}
        for instance in instances:
            for kept in _read(instance.rungs) if instance.revision == revision.number else ():
                form, where = forms.get(kept.name), f"Plane {planes[instance.plane]!r}, revision {revision.number}, {kept.name}"
                if form is not None and kept.latency is not None:
                    told.append(f"{where}: {_measured_again(form, kept.latency)}")
                if kept.remark:
                    told.append(f"{where}: {kept.remark}")
    return tuple(told)


def _measured_again(form: Found, here: Latency) -> str:
    told = (
        f"certified on {form.host_shown or form.host}: {form.latency_ms:.2f} ms; measured here: {here.p50_ms:.2f} ms "
        f"({here.p50_low:.2f} to {here.p50_high:.2f}), 99 of 100 rows within {here.p99_ms:.2f} ms "
        f"({here.p99_low:.2f} to {here.p99_high:.2f})."
    )
    most = form.latency_limit_ms
    kept = f"That is {'within' if here.p99_high <= most else 'NOT within'} the {most:g} ms that it was certified to keep to."
    return f"{told} {kept}" if most else told
