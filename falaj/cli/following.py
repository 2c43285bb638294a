"""A job, followed in a terminal: what it writes, how far it is, why it waits, and how it ends."""

import sys
import time
from dataclasses import replace
from typing import Final

from falaj.base.clock import SECOND
from falaj.base.errors import Unavailable
from falaj.cli.amounts import memory_told, span_told
from falaj.cli.terminal import Terminal
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Job

INTERRUPTED: Final = 130
LOST_SIGHT: Final = 3
_OVER: Final = ("done", "failed", "cancelled")
_LOOKS: Final = 0.3
_PATIENCE: Final = 60  # looks at a log that another control plane has still to put away
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
        self._attempt = self._offset = 0
        self._waits, self._done, self._note, self._looks = "", "", "", _PATIENCE

    def look(self) -> Job | None:
        """Shows what is new; the job, once it is over and all of its log was shown."""
        now = self._terminal.call(declared.SHOW_JOB, self._one)
        if now.attempts != self._attempt:
            self._attempt, self._offset = now.attempts, 0
        if now.state == "waiting":
            reason = self._terminal.call(declared.EXPLAIN_JOB, self._one).sentence
            if reason != self._waits:
                self._terminal.say(f"Waiting: {reason}")
                self._waits = reason
        self._read_on()
        done = f"{100 * now.progress:.0f} % done"
        if now.progress and done != self._done:
            self._terminal.say(done)
            self._done = done
        if now.state not in _OVER:
            return None
        self._looks -= 1
        return None if self._note and self._looks else now

    def _read_on(self) -> None:
        request = declared.ReadLog(project=self._one.project, job=self._one.job, offset=self._offset)
        while True:
            part = self._terminal.call(declared.READ_LOG, request)
            write_safely(part.text)
            self._offset = part.next
            if part.next == request.offset:
                break
            request = replace(request, offset=part.next)
        if part.note and part.note != self._note:
            self._terminal.say(part.note)
        self._note = part.note


def write_safely(text: str) -> None:
    """Without what a terminal would obey."""
    sys.stdout.write("".join(letter if letter.isprintable() or letter in "\n\t\r" else "\ufffd" for letter in text))
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
