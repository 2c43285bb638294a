"""A job, followed in a terminal: what it writes, how far it is, why it waits, why a try failed, and how it ends."""

import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from falaj.base.clock import SECOND
from falaj.base.errors import Unavailable
from falaj.cli.amounts import memory_told, span_told
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Job

if TYPE_CHECKING:
    from falaj.client import job_logs
else:
    job_logs = Deferred("falaj.client.job_logs")

INTERRUPTED: Final = 130
LOST_SIGHT: Final = 3
_OVER: Final = ("done", "failed", "cancelled")
# Events by which a try ends, and the job does not.
_TRY_ENDED: Final = ("retry", "lost", "preempted", "drained", "resized", "unstarted")
_ERASED: Final = "\r\x1b[K"
_LOOKS: Final = 0.3
_PATIENCE: Final = 60  # looks at a log that has still to be put away
_AT_ONCE: Final = 30  # looks at what starts now, and has not started
_KEPT: Final = 4000  # letters of a log, for its last line
_WAITS_FOR: Final = 60.0  # seconds for a platform that does not answer: it may be starting again


def follow_job(terminal: Terminal, project: str, job: str) -> int:
    """0 where it ends well, 1 where it does not. Interrupting leaves it running, and so does a platform that goes away."""
    follower, silent_since = _Follower(terminal, project, job), 0.0
    try:
        while True:
            try:
                ended = follower.look()
            except Unavailable:
                if not silent_since:
                    terminal.say("The platform does not answer; trying again.")
                    silent_since = time.monotonic()
                elif time.monotonic() - silent_since > _WAITS_FOR:
                    terminal.say(_goes_on(job))
                    return LOST_SIGHT
            else:
                silent_since = 0.0
                if ended is not None:
                    terminal.say(_ended(ended))
                    return 0 if ended.state == "done" else 1
            time.sleep(_LOOKS)
    except KeyboardInterrupt:
        terminal.say(_goes_on(job))
        return INTERRUPTED


class _Follower:
    def __init__(self, terminal: Terminal, project: str, job: str) -> None:
        self._terminal = terminal
        self._one = declared.OneJob(project=project, job=job)
        self._attempt = self._offset = self._told = 0
        self._waits, self._done, self._note, self._looks = "", "", "", _PATIENCE
        self._end, self._starts, self._has_looked = "", 0, False

    def look(self) -> Job | None:
        """Shows what is new; the job, once it is over and all of its log was shown."""
        now = self._terminal.call(declared.SHOW_JOB, self._one)
        if self._attempt and now.attempts > self._attempt:
            self._read_on()
            self._tell_of_try()
        if now.attempts != self._attempt:
            self._attempt, self._offset, self._end = now.attempts, 0, ""
        is_read = self._read_on()
        if now.state == "waiting":
            self._tell_of_try()
            self._tell_why()
        self._has_looked = True
        done = f"{100 * now.progress:.0f} % done"
        if now.progress and done != self._done:
            self._terminal.say(done)
            self._done = done
        if now.state not in _OVER:
            return None
        self._looks -= 1
        return now if (is_read and not self._note) or not self._looks else None

    def _tell_of_try(self) -> None:
        """Why the last one ended, and when it is tried again; once."""
        if self._told == self._attempt:
            return
        self._told = self._attempt
        request = declared.ReadEvents(project=self._one.project, job=self._one.job)
        happened = self._terminal.call(declared.READ_EVENTS, request).items
        words = [one.words for one in happened if one.attempt == self._attempt and one.kind in _TRY_ENDED]
        line = job_logs.last_line(self._end)
        for one in words[-1:]:
            self._terminal.say(f"{one} Its last line: {line}" if line else one)

    def _tell_why(self) -> None:
        """Unless it was just said: that it starts now, or when it is tried again."""
        why = self._terminal.call(declared.EXPLAIN_JOB, self._one)
        if why.state != "waiting":  # it began while it was asked about
            return
        self._starts = self._starts + 1 if why.rule == "starting" else 0
        is_told = self._starts in range(1, _AT_ONCE) or (why.rule == "retry" and self._has_looked)
        if why.sentence != self._waits and not is_told:
            self._terminal.say(f"Waiting: {why.sentence}")
            self._waits = why.sentence

    def _read_on(self) -> bool:
        """False where it is not to be had at this moment: between its engine and where logs are kept."""
        request = declared.ReadLog(project=self._one.project, job=self._one.job, attempt=self._attempt, offset=self._offset)
        while True:
            try:
                part = self._terminal.call(declared.READ_LOG, request)
            except Unavailable:
                return False
            write_safely(part.text)
            self._offset, self._end = part.next, (self._end + part.text)[-_KEPT:]
            if part.next == request.offset:
                break
            request = replace(request, offset=part.next)
        if part.note and part.note != self._note:
            self._terminal.say(part.note)
        self._note = part.note
        return True


def write_safely(text: str) -> None:
    """Without what a terminal would obey. What begins its line again, as bars of progress do, leaves nothing of it standing:
    half of one line and half of another would say what nobody wrote."""
    kept = "".join(letter if letter.isprintable() or letter in "\n\t\r" else "\ufffd" for letter in text)
    again = _ERASED if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else "\n"
    sys.stdout.write(kept.replace("\r\n", "\n").replace("\r", again))
    sys.stdout.flush()


def _goes_on(job: str) -> str:
    return f"The job goes on. Look again with: falaj job logs {job[-8:]} --follow"


def _ended(job: Job) -> str:
    took = "" if job.started is None or job.ended is None else f" after {span_told((job.ended - job.started) / SECOND)}"
    used = job.usage
    cost = f", cost {used.cost / 1e6:.2f}" if used.cost else ""
    words = f": {job.words}" if job.words else ""
    return (
        f"{job.name} is {job.state}{took} (CPU {span_told(used.cpu_seconds)}, "
        f"memory at most {memory_told(used.memory_mib_peak)}{cost}){words}"
    )
