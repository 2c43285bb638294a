"""A run of a pipeline, followed in a terminal: a line for what happens to a step, the end of its log where it fails."""

import sys
import time
from typing import TYPE_CHECKING, Final

from falaj.base.errors import FalajError, Unavailable
from falaj.cli.deferred import Deferred
from falaj.cli.following import INTERRUPTED, LOST_SIGHT, write_safely
from falaj.cli.layout import Layout, shown
from falaj.cli.pipeline_looks import SHORT, in_few_words, named, outcome, took
from falaj.cli.terminal import Terminal
from falaj.jobs.operations.jobs import READ_LOG, ReadLog
from falaj.lifecycle.operations.pipelines import SHOW_RUN, OneRun, PipelineRun, StepShown

if TYPE_CHECKING:
    from falaj.client import job_logs
else:
    job_logs = Deferred("falaj.client.job_logs")

_LOOKS: Final = 0.3
_WAITS_FOR: Final = 60.0
_LINES: Final = 20  # of the log of a job that failed
_BEYOND: Final = 2**62


def follow_run(terminal: Terminal, project: str, run: str, *, aside: bool = False) -> int:
    """0 where it is done, 1 where it is not. Interrupting leaves it running, and so does a platform that goes away. `aside`:
    what it hands on is not what was asked for."""
    follower, silent_since = _Follower(terminal, project, run), 0.0
    try:
        while True:
            try:
                ended = follower.look()
            except Unavailable:
                if not silent_since:
                    terminal.say("The platform does not answer; trying again.")
                    silent_since = time.monotonic()
                elif time.monotonic() - silent_since > _WAITS_FOR:
                    terminal.say(_goes_on(run))
                    return LOST_SIGHT
            else:
                silent_since = 0.0
                if ended is not None:
                    _tell_end(terminal, ended, aside=aside)
                    return 0 if ended.state == "done" else 1
            time.sleep(_LOOKS)
    except KeyboardInterrupt:
        terminal.say(_goes_on(run))
        return INTERRUPTED


class _Follower:
    def __init__(self, terminal: Terminal, project: str, run: str) -> None:
        self._terminal, self._one = terminal, OneRun(project=project, run=run)
        self._known: dict[str, tuple[str, int, str]] = {}

    def look(self) -> PipelineRun | None:
        """Tells what is new; the run, once it is over."""
        now = self._terminal.call(SHOW_RUN, self._one)
        for one in now.steps:
            seen = (one.state, one.attempt, one.words if one.state in ("waiting", "asking") else "")
            before = self._known.get(named(one), ("waiting", 0, ""))
            self._known[named(one)] = seen
            if seen != before and not self._terminal.as_json and (line := self._line(one, before[0])):
                self._terminal.say(line)
                if one.state == "failed" and one.job:
                    self._show_log(one.job)
        return now if now.state != "running" else None

    def _line(self, one: StepShown, before: str) -> str:
        name = named(one)
        if one.state == "done":
            spent = "" if one.cached or took(one) is None else f" after {took(one)}"
            return f"{name}: done{spent}: {outcome(one)}" if one.result is not None else f"{name}: done{spent}"
        if one.state == "running":
            tried = f", try {one.attempt}" if one.attempt > 1 else ""
            return f"{name}: under way{f' in job {one.job[-SHORT:]}' if one.job else ''}{tried}" if before != "running" else ""
        if one.state == "asking":
            run = self._one.run[-SHORT:]
            return f"{name}: {shown(one.words)} Say so with: falaj pipeline approve {run} {one.name}, or refuse"
        if one.state == "waiting":
            return f"{name}: {shown(one.words)}" if one.words else ""
        if one.state == "cancelled" and one.started is None:
            return ""  # it never began, and how the run ended says why
        return f"{name}: {one.state}{f': {shown(one.words)}' if one.words else ''}"

    def _show_log(self, job: str) -> None:
        """The end of what it wrote; all of it stands with `falaj job logs`."""
        try:
            text = log_end(self._terminal, self._one.project, job)
        except FalajError:  # the reason was told, and stands in the run
            return
        write_safely("".join(f"    {line}\n" for line in text.splitlines()[-_LINES:]))


def log_end(terminal: Terminal, project: str, job: str) -> str:
    """As much of it as one answer has."""
    end = terminal.call(READ_LOG, ReadLog(project=project, job=job, offset=_BEYOND)).text
    return end or terminal.call(READ_LOG, ReadLog(project=project, job=job, limit=1 << 20)).text


def _tell_end(terminal: Terminal, run: PipelineRun, *, aside: bool) -> None:
    short = run.id[-SHORT:]
    terminal.say(f"{run.pipeline} {short} is {run.state} after {took(run)}{f': {shown(run.words)}' if run.words else '.'}")
    if terminal.as_json and not aside:
        terminal.show(run)
    elif run.result is not None and not aside:
        Layout().line(in_few_words(run.result))
    if run.state == "failed":
        terminal.say(f"Once that is mended, go on from there with: falaj pipeline resume {short}")
        failed = next((one for one in run.steps if one.state == "failed" and one.kind == "function"), None)
        if failed is not None:  # a run that is resumed has the file as it was sent
            terminal.say(f"With a file that was mended: falaj pipeline run FILE.py --from {failed.name} --of {short}")
    sys.stdout.flush()


def _goes_on(run: str) -> str:
    return f"The run goes on. Look again with: falaj pipeline show {run[-SHORT:]}"
