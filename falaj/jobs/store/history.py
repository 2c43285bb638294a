"""SQL of what was: the jobs of a span, for playing them again."""

from collections.abc import Sequence

from sqlalchemy import select

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import Found, jobs


def submitted_between(work: UnitOfWork, since: Moment, until: Moment, most: int) -> Sequence[Found]:
    """Oldest first, those that ran; the newest `most` of them where there are more."""
    columns = (jobs.c.id, jobs.c.project, jobs.c.queue, jobs.c.order, jobs.c.submitted, jobs.c.submitted_by, jobs.c.served)
    span = (jobs.c.submitted >= int(since), jobs.c.submitted < int(until), jobs.c.started.is_not(None))
    found = select(*columns, jobs.c.started, jobs.c.ended).where(*span).order_by(jobs.c.submitted.desc()).limit(most)
    return list(reversed(work.execute(found).all()))
