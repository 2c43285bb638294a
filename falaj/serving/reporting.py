"""Taking in what planes report: how they are, what their revisions did, the calls that were sampled, and what was watched.

A report counts once, whoever sends it again, and only for endpoints of the plane's own zone.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from falaj.base.clock import SECOND, Moment
from falaj.base.values import Nothing, value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.serving import loads
from falaj.serving.counts import capped, counts_of, total
from falaj.serving.logs import CallLogs, Sealed
from falaj.serving.looked import LookedLog
from falaj.serving.operations import planes as declared
from falaj.serving.operations.planes import PinnedReport, Report, RevisionReport
from falaj.serving.planes import calling_plane
from falaj.serving.rungs import rungs_written
from falaj.serving.states import PURPOSE
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import planes as store
from falaj.serving.store import states
from falaj.serving.store import windows as window_store
from falaj.serving.store.tables import Found
from falaj.serving.store.windows import COARSE, FINE, of_pinned
from falaj.serving.watching import Watchers

RUNS: Final = 8  # so many runs of a plane are remembered, for what a former one sends late
LONGEST_PROBLEM: Final = 500


@value
class _Prepared:
    """What of a report is stored and sealed already, and counts for nothing until it is kept. `watched` is as `Watchers` made
    it."""

    calls: tuple[Sealed, ...] = ()
    unlogged: Mapping[tuple[str, int], int] = field(default_factory=dict)
    looked: Sequence[dict[str, Any]] = ()
    watched: object = None


class ReportService:
    def __init__(self, database: Database, logs: CallLogs, looked: LookedLog, watchers: Watchers | None = None) -> None:
        self._database = database
        self._logs = logs
        self._looked = looked
        self._watchers = watchers

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.SEND_REPORT, self.seal, self.take)]

    def seal(self, context: Context, request: Report) -> _Prepared:
        """Sampled calls and rows hold what people sent: they are sealed in the project's zone before anything of them is
        kept."""

        def look(work: UnitOfWork) -> dict[str, Found]:
            plane = calling_plane(replace(context, work=work))
            named = {call.endpoint for call in request.calls} | {one.endpoint for one in request.watched}
            if not named or _is_known(plane, request):
                return {}
            found = endpoint_store.in_zone(work, plane.zone, named)
            return {id: row for id, row in found.items() if states.is_served(work, id)}

        endpoints = self._database.read(look)
        if not endpoints:
            return _Prepared()
        looked = self._database.read(lambda work: self._looked.sealed(replace(context, work=work), request.calls, endpoints))
        watched = [
            one
            for one in request.watched
            if one.endpoint in endpoints and one.revision <= endpoints[one.endpoint].last_revision
        ]
        calls = self._logs.seal(request.calls, endpoints)
        lost = endpoints.keys() - {one.endpoint.id for one in calls}
        return _Prepared(
            calls=calls,
            unlogged=Counter((one.endpoint, one.revision) for one in request.calls if one.endpoint in lost),
            looked=looked,
            watched=self._watchers.seal(context, watched, endpoints) if watched and self._watchers is not None else None,
        )

    def take(self, context: Context, request: Report, prepared: _Prepared) -> Nothing:
        work, now = context.work, context.now
        plane = calling_plane(context, hold=True)
        if _is_known(plane, request):
            return Nothing()
        reports = _told_of(work, plane, request)
        _keep_instances(work, plane, reports)
        _add_to_windows(work, plane, _with_unlogged(reports, prepared.unlogged), now)
        self._logs.keep(context, prepared.calls)
        self._looked.keep(work, prepared.looked)
        if self._watchers is not None and prepared.watched is not None:
            self._watchers.keep(context, prepared.watched)
        store.change(
            work,
            plane.id,
            url=_address(request.url),
            certificate=_certificate(request.certificate),
            version=request.version,
            workers=request.workers,
            serial=request.serial,
            problems=json.dumps([problem[:LONGEST_PROBLEM] for problem in request.problems]),
            runs=_runs_after(plane, request),
            heard=now,
        )
        zone = states.find_zone(work, plane.zone)
        if zone is not None and zone.serial < request.serial <= now:
            # An older database was put back: the plane would hold what it has for newer than all that is said here.
            states.bump(work, plane.zone, PURPOSE, now)
        return Nothing()


def _address(url: str) -> str:
    """Where people are sent; what a plane says of itself may be an address of the web and nothing else."""
    return url if re.fullmatch(r"https?://[A-Za-z0-9.:_~/\[\]-]+", url) else ""


def _certificate(text: str) -> str:
    """People's programs are told to believe it; so it is one certificate and nothing else."""
    try:
        return load_pem_x509_certificate(text.encode()).public_bytes(Encoding.PEM).decode()
    except ValueError:
        return ""


def _is_known(plane: Found, request: Report) -> bool:
    return any(run == request.run and request.number <= number for run, number, *_ in json.loads(plane.runs))


def _runs_after(plane: Found, request: Report) -> str:
    others = [[run, number] for run, number, *_ in json.loads(plane.runs) if run != request.run]
    return json.dumps([[request.run, request.number, loads.written(request.load)], *others][:RUNS])


def _told_of(work: UnitOfWork, plane: Found, request: Report) -> dict[tuple[str, int], RevisionReport]:
    """What is said of revisions that are really there, in the plane's own zone; of one that is named twice, the last."""
    endpoints = endpoint_store.in_zone(work, plane.zone, {report.endpoint for report in request.revisions})
    return {
        (report.endpoint, report.revision): report
        for report in request.revisions
        if report.endpoint in endpoints and report.revision <= endpoints[report.endpoint].last_revision
    }


def _with_unlogged(
    reports: Mapping[tuple[str, int], RevisionReport], unlogged: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], RevisionReport]:
    """With the calls that nothing took in."""
    return {key: replace(one, unlogged=capped(one.unlogged, unlogged.get(key, 0))) for key, one in reports.items()}


def _keep_instances(work: UnitOfWork, plane: Found, reports: Mapping[tuple[str, int], RevisionReport]) -> None:
    """Written only where something is not as it was."""
    known = store.instances_on(work, plane.id)
    told = {key: _instance(plane.id, report, known.get(key)) for key, report in reports.items()}
    fresh = {key: row for key, row in told.items() if key not in known or row != dict(known[key]._mapping)}
    gone = [key for key in known if key not in told or key in fresh]
    store.replace_instances(work, plane.id, gone, list(fresh.values()))


def _instance(plane: str, report: RevisionReport, known: Found | None) -> dict[str, Any]:
    """A cold start is told once, when it was made."""
    cold_start = report.cold_start_ms if math.isfinite(report.cold_start_ms) else 0.0
    return {
        "plane": plane,
        "endpoint": report.endpoint,
        "revision": report.revision,
        "ready": report.ready,
        "problem": report.problem[:LONGEST_PROBLEM],
        "quarantined": report.quarantined,
        "cold_start_ms": float(cold_start or (known.cold_start_ms if known is not None else 0.0)),
        "batch_size": report.batch_size,
        "rungs": rungs_written(report.rungs, "[]" if known is None else known.rungs),
    }


def _add_to_windows(work: UnitOfWork, plane: Found, reports: Mapping[tuple[str, int], RevisionReport], now: Moment) -> None:
    """The plane's row is held, so nobody else writes its windows."""
    drawn = {key: report for key, report in reports.items() if _is_busy(report)}
    pinned = {key: report.pinned for key, report in reports.items() if report.pinned is not None and _is_busy(report.pinned)}
    rows: list[dict[str, Any]] = []
    for span in (FINE, COARSE):
        at = now // (span * SECOND) * span * SECOND
        rows += _windows_with(work, plane, drawn, span, at)
        rows += _windows_with(work, plane, pinned, of_pinned(span), at)
    window_store.put(work, rows)


def _is_busy(report: RevisionReport | PinnedReport) -> bool:
    return bool(report.requests or report.shed or report.compared or report.unlogged)


def _windows_with(
    work: UnitOfWork, plane: Found, reports: Mapping[tuple[str, int], RevisionReport | PinnedReport], span: int, at: int
) -> list[dict[str, Any]]:
    """As they are with what these say besides."""
    if not reports:
        return []
    known = window_store.of_plane(work, plane.id, {endpoint for endpoint, _ in reports}, span, at)
    rows = []
    for (endpoint, revision), report in reports.items():
        parts: Sequence[Any] = [report, *([known[endpoint, revision]] if (endpoint, revision) in known else [])]
        counts = total([counts_of(part) for part in parts])
        place = {"endpoint": endpoint, "span": span, "at": at, "revision": revision, "plane": plane.id}
        rows.append(place | counts.columns())
    return rows
