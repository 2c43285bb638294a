"""What is counted for ever, though what it was counted from is forgotten: rows that were looked at.

Nobody else has to say when something is forgotten: where there is less than there was, nothing was added.
"""

from falaj.database.work import UnitOfWork
from falaj.monitoring.store import service as store
from falaj.serving.counts import capped


def count_rows(work: UnitOfWork, monitor: str) -> None:
    """What was looked at and what was not, since it was counted last."""
    for row in store.uncounted(work, monitor):
        known = row.counted is not None
        late = row.late - (row.total_late if known else 0)
        late = row.late if late < 0 else late  # it was learnt anew
        if known and row.last is None and not late:
            continue
        store.put_total(
            work,
            monitor,
            row.revision,
            counted=row.last if row.last is not None else (row.counted if known else -1),
            rows=capped(int(row.rows), row.total_rows if known else 0),
            missed=capped(int(row.missed), late, row.total_missed if known else 0),
            late=row.late,
        )
