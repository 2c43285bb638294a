"""Folders of checkpoints whose jobs are over: removed at once where the job is done, and after a while where somebody may still
submit it again and go on from them. One that a job in line goes on from stays, and where the disk is almost full the oldest go
early: without room no job saves anything."""

import logging
import os
from pathlib import Path
from typing import Final

from falaj.base.clock import HOUR, Clock, Moment
from falaj.database.work import Database
from falaj.jobs.running import checkpoints
from falaj.jobs.store import jobs
from falaj.jobs.views import read_spec

AGAIN: Final = HOUR  # what cannot be removed now
_ROOM: Final = 10 << 30  # bytes; less than that, and than a twentieth of it all, is almost full
log = logging.getLogger(__name__)


class CheckpointKeeper:
    """For one thread. `root` is where the folders are, as this host sees it; those of jobs that the database does not know are
    another platform's. `kept` is how long they stay after a job failed or was cancelled."""

    def __init__(self, database: Database, clock: Clock, root: Path, kept: int) -> None:
        self._database = database
        self._clock = clock
        self._root = root
        self._kept = kept
        self._until: dict[str, Moment] = {}  # of jobs that are over, which they are for good

    def step(self) -> bool:
        now, names = self._clock.now(), checkpoints.kept(self._root)
        self._until = {name: self._until[name] for name in names if name in self._until}
        unknown = [name for name in names if name not in self._until]
        if unknown:
            for row in self._database.read(lambda work: jobs.endings(work, unknown)):
                self._until[row.id] = Moment(0 if row.state == "done" else row.ended + self._kept)
        over = sorted(self._until, key=self._until.__getitem__)
        late = [name for name in over if self._until[name] <= now]
        for name in self._needed_by_nobody(late, now):
            self._remove(name)
        early = [name for name in over if self._until[name] > now] if over and self._is_full() else []
        for name in self._needed_by_nobody(early, now):
            if self._is_full():
                log.warning("checkpoints of job %s, which is over, are removed early: the disk is almost full", name)
                self._remove(name)
        return False

    def _needed_by_nobody(self, names: list[str], now: Moment) -> list[str]:
        """Those that no job in line goes on from; the others are looked at again later. Nobody goes on from what is done."""
        asked = {name for name in names if self._until[name]}
        specs = self._database.read(jobs.with_something_to_repeat) if asked else []
        needed = asked.intersection(job for spec in specs for job in read_spec(spec).continues)
        for name in needed:
            self._until[name] = Moment(max(self._until[name], now + AGAIN))
        return [name for name in names if name not in needed]

    def _is_full(self) -> bool:
        about = os.statvfs(self._root)
        return about.f_bavail * about.f_frsize < _ROOM and about.f_bavail * 20 < about.f_blocks

    def _remove(self, name: str) -> None:
        try:
            checkpoints.remove(self._root, name)
        except OSError as error:
            log.warning("checkpoints of job %s, which is over, cannot be removed, and take room: %s", name, error)
            self._until[name] = Moment(self._clock.now() + AGAIN)
