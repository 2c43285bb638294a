"""Jobs that must not go on, though nobody cancels them: of projects that were archived or shredded, and what runs for people
who were shut out. What still waits of theirs is refused when it would start."""

from typing import Final

from falaj.base.clock import SECOND
from falaj.database.work import Database
from falaj.jobs.present import LiveJob, Present
from falaj.jobs.store import orphans

EACH: Final = 5 * SECOND


class Orphans:
    """Belongs to the controller's thread. Looks now and then, and at once when a controller begins."""

    def __init__(self, database: Database, present: Present) -> None:
        self._database = database
        self._present = present
        self._look_at = 0

    def look(self, steady: int) -> list[tuple[LiveJob, str]]:
        """Each with the words that say why."""
        if steady < self._look_at:
            return []
        self._look_at = steady + EACH
        closed, shut_out = self._database.read(lambda work: (orphans.closed_projects(work), orphans.shut_out(work)))
        if not closed and not shut_out:
            return []
        found = []
        for job in self._present.jobs.values():
            if job.project in closed:
                found.append((job, "Its project was archived or shredded."))
            elif job.attempt is not None and job.user in shut_out:
                found.append((job, "Whoever submitted it was shut out."))
        return found
