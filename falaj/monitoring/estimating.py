"""How accurate a revision probably is while no labels have come: from how sure it is, as labelled rows of it calibrate that.

What is learnt are counts of rows by bin of confidence: numbers alone, remembered until more labels come.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from falaj.base.clock import Moment
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.database.work import Context, UnitOfWork
from falaj.governance.cache import Bounded
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring import joined, pieces
from falaj.monitoring.finding import GONE
from falaj.monitoring.joined import Joined
from falaj.monitoring.plane.frames import CONFIDENCE
from falaj.monitoring.references import Column
from falaj.monitoring.scoring import confidences_of
from falaj.monitoring.sealing import Documents, inside
from falaj.monitoring.store import labels as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store.tables import Found
from falaj.statistics.estimation import Calibration, Estimate, calibrated, estimated
from falaj.tables.bin_counts import count_bins

LEAST_ROWS: Final = 100  # with labels, before anything is learnt of them
MOST_BATCHES: Final = 50  # of labels that are learnt from, the newest
MOST_WINDOWS: Final = 300  # of a revision, spread over the time that is asked about
_REMEMBERED: Final = 256


@value
class Unlabelled:
    """A window of a revision: `counts` are of its rows by the bins of `column`, which is how sure it was."""

    revision: int
    at: int
    column: Column
    counts: tuple[int, ...]


class Estimating:
    """Thread-safe."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: Bounded[tuple[object, ...], tuple[Calibration, ...]] = Bounded(_REMEMBERED)

    def of(
        self,
        context: Context,
        endpoint: Found,
        revision: int,
        column: Column,
        counts: Sequence[int],
        confidence: float = 0.95,
    ) -> Estimate | None:
        """Of rows that were counted by the bins of `column`, the output named `confidence`. None where too few rows of the
        revision have labels, these cannot be read now, or the column is another."""
        if column.name != CONFIDENCE or not column.is_output or not column.ordered or len(counts) != column.bins:
            return None
        learnt = self._calibration(context, endpoint, revision, column)
        there = counts[: column.ordered]  # what is missing comes last
        return None if learnt is None or not any(there) else estimated(learnt, there, confidence)

    def windows(
        self, context: Context, endpoint: Found, since: Moment, is_wanted: Callable[[int, int], bool]
    ) -> list[Unlabelled]:
        """Of all revisions that anything can be estimated of: as many windows as are looked at, spread over those that are
        wanted by their revision and start."""
        work = context.work
        monitor, project = monitor_store.find(work, endpoint.id), project_by_id(work, endpoint.project)
        if monitor is None or project is None:
            return []
        found: list[Unlabelled] = []
        for row in monitor_store.references_of(work, [monitor.id]).get(monitor.id, ()):
            column = self._confidence(work, project, row, context.now)
            if column is None or self._calibration(context, endpoint, row.revision, column) is None:
                continue
            there = store.windows_since(work, monitor.id, row.revision, row.key, since)
            wanted = [window for window in there if is_wanted(row.revision, window.at)]
            for window in wanted[:: -(-len(wanted) // MOST_WINDOWS) or 1]:
                counts = self._counts(work, project, row, window, context.now)
                if len(counts) == column.bins:
                    found.append(Unlabelled(revision=row.revision, at=window.at, column=column, counts=counts))
        return found

    def _confidence(self, work: UnitOfWork, project: Project, row: Found, now: Moment) -> Column | None:
        try:
            reference = self._documents.reference(inside(work, project, row.zone, now), row.blob)
        except FalajError:
            return None
        return next((one for one in reference.columns if one.is_output and one.name == CONFIDENCE and one.ordered), None)

    def _counts(self, work: UnitOfWork, project: Project, row: Found, window: Found, now: Moment) -> tuple[int, ...]:
        try:
            read = pieces.decode(self._documents.read(inside(work, project, row.zone, now), window.blob))
        except FalajError:
            return ()
        return read.column(CONFIDENCE, is_output=True).counts

    def _calibration(self, context: Context, endpoint: Found, revision: int, column: Column) -> Calibration | None:
        labelling = store.labelling(context.work, endpoint.id)
        if labelling is None:
            return None
        key = (endpoint.id, revision, column.edges, labelling.places)
        known = self._known.get(key)
        if known is None:
            try:
                learnt = _learnt(self._rows(context, endpoint, revision), column)
            except FalajError:  # storage or the key ring does not answer: an alert does not wait for an estimate
                return None
            known = self._known.put(key, () if learnt is None else (learnt,))
        return known[0] if known else None

    def _rows(self, context: Context, endpoint: Found, revision: int) -> list[Joined]:
        """Of the newest labels, one batch in memory at a time."""
        project, found = project_by_id(context.work, endpoint.project), list[Joined]()
        if project is None:
            return found
        for batch in store.batches_since(context.work, endpoint.id, 0, MOST_BATCHES):
            try:
                rows = joined.decode(
                    self._documents.read(inside(context.work, project, endpoint.zone, context.now), batch.blob)
                )
            except GONE:
                continue
            found += [replace(row, groups={}, values={}) for row in rows if row.revision == revision]
        return found


def _learnt(rows: Sequence[Joined], column: Column) -> Calibration | None:
    sure, right = confidences_of(rows)
    if len(sure) < LEAST_ROWS:
        return None
    hits, every = (count_bins(some, column.edges)[: column.ordered] for some in (sure[right], sure))
    return calibrated(hits.astype(np.float64), every.astype(np.float64))
