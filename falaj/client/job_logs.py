"""The end of what a job wrote: of one that failed, mostly why."""

from dataclasses import replace
from typing import Final

from falaj.base.errors import FalajError
from falaj.client.http import Client
from falaj.jobs.operations.jobs import READ_LOG, ReadLog

LONGEST: Final = 300  # letters
_OWN: Final = "falaj: "  # what begins so is the platform's, or a launcher's
_BEYOND: Final = 2**62  # read from there, a log that was put away gives its end
_MOST: Final = 16  # parts
_END: Final = 4000  # letters, in which the last line is looked for


def last_line(text: str) -> str:
    """The last thing that the job itself said; empty where it said nothing."""
    said = (line.strip() for line in reversed(text.splitlines()))
    return next((line[:LONGEST] for line in said if line and not line.startswith(_OWN)), "")


def read_last_line(client: Client, project: str, job: str) -> str:
    """Of the last try. Empty, too, where it cannot be had: it is beside the point of whoever asks."""
    try:
        end = client.call(READ_LOG, ReadLog(project=project, job=job, offset=_BEYOND)).text
        return last_line(end or _read_through(client, project, job))
    except FalajError:
        return ""


def _read_through(client: Client, project: str, job: str) -> str:
    """From its beginning, as an engine has it before it is put away."""
    request, end = ReadLog(project=project, job=job, limit=1 << 20), ""
    for _ in range(_MOST):
        part = client.call(READ_LOG, request)
        end = (end + part.text)[-_END:]
        if part.next == request.offset:
            break
        request = replace(request, offset=part.next)
    return end
