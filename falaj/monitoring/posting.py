"""Sends what waits in the outbox, each message outside any transaction, and writes down what came of it, with a leaf once it is
settled.

A kill in between loses nothing: what has no outcome is sent again, under the same id. A receiver that hangs holds up its own
channel, and no more of its project than a small part of all that are sent at once.
"""

import logging
from collections.abc import Collection, Sequence
from threading import Lock, Thread
from typing import Final

from falaj.base.clock import SECOND, Clock, Moment
from falaj.base.errors import FalajError, NotFound, PermanentError
from falaj.base.failpoints import failpoint
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.ledger import recording
from falaj.governance.projects.store import project_by_id
from falaj.monitoring.channels import ChannelService
from falaj.monitoring.operations.alerts import SEND_MESSAGE, OneAlert
from falaj.monitoring.sealing import inside
from falaj.monitoring.sending import delivering
from falaj.monitoring.sending.channels import Channel
from falaj.monitoring.sending.delivering import Leash
from falaj.monitoring.sending.events import read_event
from falaj.monitoring.store import alerts as store
from falaj.monitoring.store.service import count_post
from falaj.monitoring.store.tables import Found

AT_ONCE: Final = 12  # messages, each in a process of its own
OF_PROJECT: Final = 3
_LONGEST: Final = 500
log = logging.getLogger(__name__)


@value
class Line:
    """Messages to one channel go one after the other."""

    project: str
    channel: str


def chosen(waiting: Sequence[Line], under_way: Collection[Line]) -> tuple[Line, ...]:
    """The lines whose next message is sent now. `waiting` is in the order of who waited longest; projects with few messages
    under way come before those with many."""
    running, found = list(under_way), list[Line]()

    def of(project: str) -> int:
        return sum(1 for line in (*running, *found) if line.project == project)

    left = [line for line in waiting if line not in running]
    while left and len(running) + len(found) < AT_ONCE:
        following = min(left, key=lambda line: of(line.project))
        if of(following.project) >= OF_PROJECT:
            break
        found.append(following)
        left.remove(following)
    return tuple(found)


class Posting:
    """Under a lease, so that one control plane at a time sends. A step waits for no receiver."""

    def __init__(self, database: Database, channels: ChannelService, clock: Clock, *, allow_private: bool = False) -> None:
        self._database, self._channels, self._clock, self._allow_private = database, channels, clock, allow_private
        self._guard = Lock()
        self._under_way: dict[Line, Thread] = {}
        self._leash = Leash()

    def step(self, now: Moment) -> bool:
        """Whether more could be sent at once."""
        with self._guard:
            running = tuple(self._under_way)
        lines = chosen(self._database.read(lambda work: _waiting(work, now, running)), running)
        for line in lines:
            row = self._database.read(lambda work, line=line: store.first_due(work, now, line.project, line.channel))  # type: ignore[misc]
            if row is not None:
                self._begin(line, row)
        return bool(lines) and len(running) + len(lines) < AT_ONCE

    def close(self) -> None:
        """What is being sent is broken off, and sent again by who comes next. No step is under way any more."""
        self._leash.end()
        self.wait()

    def wait(self) -> None:
        """Until all that is under way came to something."""
        with self._guard:
            threads = tuple(self._under_way.values())
        for thread in threads:
            thread.join()

    def _begin(self, line: Line, row: Found) -> None:
        thread = Thread(target=self._send, args=(line, row), name="posting", daemon=True)
        with self._guard:
            self._under_way[line] = thread
        thread.start()

    def _send(self, line: Line, row: Found) -> None:
        try:
            problem, is_final = self._sent(row)
            failpoint("alerts.sent")
            if not problem or not self._leash.ended:  # what was broken off did not fail
                self._settle(row, problem, is_final=is_final)
        except FalajError:
            pass  # the outcome could not be written down: it is sent again, with the same id
        finally:
            with self._guard:
                del self._under_way[line]

    def _sent(self, row: Found) -> tuple[str, bool]:
        """Why it was not taken, and whether that is final; empty where it was."""
        try:
            channel = self._database.read(lambda work: self._opened(work, row))
            delivering.deliver(
                channel, read_event(row.event), now=self._clock.now(), allow_private=self._allow_private, leash=self._leash
            )
        except PermanentError as error:
            return str(error)[:_LONGEST], True
        except FalajError as error:
            return str(error)[:_LONGEST], False
        except Exception as error:
            log.exception("message %s could not be sent", row.id)
            return f"it could not be sent: {type(error).__name__}", False
        return "", True

    def _opened(self, work: UnitOfWork, row: Found) -> Channel:
        project = project_by_id(work, row.project)
        if project is None or project.archived:
            raise NotFound("The project is archived or gone.")
        return self._channels.opened(inside(work, project, "", self._clock.now()), row.channel)

    def _settle(self, row: Found, problem: str, *, is_final: bool) -> None:
        now, wait = self._clock.now(), delivering.next_try(row.tries + 1)
        due = None if is_final or wait is None else Moment(now + int(wait * SECOND))
        told = f"{problem.rstrip('.')}; it is not tried again" if problem and due is None else problem
        outcome = {"due": due, "sent": None if problem else now, "problem": told, "event": "" if due is None else row.event}

        def enter(work: UnitOfWork) -> None:
            if store.posted(work, row.id, row.tries, **outcome):
                given_up = int(bool(problem) and due is None)
                count_post(work, row.project, sent=int(not problem), failed=int(bool(problem)), given_up=given_up)
                if due is None:
                    _record(work, row, now, is_taken=not problem)

        self._database.write(enter)


def _record(work: UnitOfWork, row: Found, now: Moment, *, is_taken: bool) -> None:
    """Without the receiver's words, which may be anything: the alert has them."""
    project = project_by_id(work, row.project)
    recording.append(
        work,
        operation=SEND_MESSAGE,
        request=OneAlert(project="" if project is None else project.name, alert=row.alert),
        identity=None,
        project=row.project,
        now=now,
        request_id="",
        facts={
            "alert": row.alert,
            "message": row.id,
            "what": row.what,
            "channel": row.channel,
            "tries": row.tries + 1,
            "state": "taken" if is_taken else "given up",
        },
    )


def _waiting(work: UnitOfWork, now: Moment, running: Collection[Line]) -> tuple[Line, ...]:
    counts = {line.project: sum(1 for one in running if one.project == line.project) for line in running}
    full = [project for project, count in counts.items() if count >= OF_PROJECT]
    busy = [(line.project, line.channel) for line in running]
    rows = store.waiting_lines(work, now, full, busy, 10 * AT_ONCE)
    return tuple(Line(project=row.project, channel=row.channel) for row in rows)
