"""SQL of what was: the jobs of a span, for playing them again, and the last ones, from which the next are guessed."""

from collections.abc import Sequence

from sqlalchemy import select

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import Found, jobs, metering


def submitted_between(work: UnitOfWork, since: Moment, until: Moment, most: int) -> Sequence[Found]:
    """Oldest first, those that ran; the newest `most` of them where there are more."""
    columns = (jobs.c.id, jobs.c.project, jobs.c.queue, jobs.c.order, jobs.c.submitted, jobs.c.submitted_by, jobs.c.served)
    span = (jobs.c.submitted >= int(since), jobs.c.submitted < int(until), jobs.c.started.is_not(None))
    found = select(*columns, jobs.c.started, jobs.c.ended).where(*span).order_by(jobs.c.submitted.desc()).limit(most)
    return list(reversed(work.execute(found).all()))


def last_submitted(work: UnitOfWork, most: int) -> Sequence[Found]:
    """Oldest first. Ids grow with time."""
    columns = (jobs.c.id, jobs.c.project, jobs.c.queue, jobs.c.order, jobs.c.submitted, jobs.c.submitted_by, jobs.c.kin)
    found = select(*columns, jobs.c.served, jobs.c.not_before).order_by(jobs.c.id.desc()).limit(most)
    return list(reversed(work.execute(found).all()))


def last_ended(work: UnitOfWork, most: int) -> Sequence[Found]:
    """Oldest first, those that ran, however they ended."""
    last = select(metering.c.job).order_by(metering.c.ended.desc()).limit(most).subquery()
    columns = (jobs.c.queue, jobs.c.order, jobs.c.state, jobs.c.served, jobs.c.started, jobs.c.ended)
    over = (jobs.c.id.in_(select(last.c.job)), jobs.c.ended.is_not(None), jobs.c.started.is_not(None))
    return work.execute(select(*columns).where(*over).order_by(jobs.c.ended)).all()
