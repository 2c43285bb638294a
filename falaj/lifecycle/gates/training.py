"""What a version was trained with, as far as the jobs that wrote to its run say: the source, and what of it they ran. Pure, but
for the look at their rows.

Whatever stands in the source counts as read by whoever analyses it only where that is all that ran: so each job has to have had
the same source, and to have run Python of it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from falaj.base.errors import Conflict
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.store import attempts
from falaj.jobs.store import jobs as job_store
from falaj.jobs.views import read_spec
from falaj.lifecycle.doing import PROGRAM
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found
from falaj.training.launchers.choosing import STARTER

_PYTHON: Final = re.compile(r"(/\S*/)?python(3(\.\d+)?)?")
_PLAIN: Final = re.compile(r"-[bBdEIOPqsSuv]+")  # options that change nothing of what is run, and take nothing
_NAMED: Final = 3


@value
class Trained:
    """By these jobs, oldest first; `specs` are what they were to do."""

    source: str
    jobs: tuple[str, ...]
    specs: tuple[Spec, ...]

    @property
    def programs(self) -> tuple[str, ...]:
        """The files that they ran, or modules as `-m NAME`. Raises `Conflict` where one ran what nobody knows."""
        found = zip(self.jobs, self.specs, strict=True)
        return tuple(dict.fromkeys(program for id, spec in found for program in _programs(id, spec)))


def trained_with(work: UnitOfWork, version: Found) -> Trained | None:
    """None where no job did. Raises `Conflict` where nobody knows which source it was."""
    ids = job_store.of_run(work, version.project, version.run) if version.run else ()
    if not ids:
        return None
    check_written_by(work, version, ids)
    rows = {row.id: row for row in job_store.with_ids(work, ids)}
    specs = {id: read_spec(rows[id].spec) for id in ids}
    for id, spec in specs.items():
        if not spec.source:
            raise Conflict(f"The job {id} wrote to its run and had no source: nobody knows what it ran.")
    if len(sources := list(dict.fromkeys(spec.source for spec in specs.values()))) > 1:
        named = ", ".join(source[:12] for source in sources[:_NAMED])
        raise Conflict(f"Its run was written to by jobs of {len(sources)} sources ({named}): train it in a run of its own.")
    return Trained(source=sources[0], jobs=tuple(ids), specs=tuple(specs.values()))


def check_written_by(work: UnitOfWork, version: Found, jobs: Sequence[str]) -> None:
    """Raises `Conflict` where another hand than these jobs' wrote a file of the version: whoever may write to a run may do so
    once its job is over, and what is known of the job tells nothing of that file."""
    tries = [one for job in jobs for one in attempts.of_job(work, version.project, job)]
    own = {one.token for one in tries} - {""}
    if other := next((one.name for one in version_store.files_of(work, version.id) if one.token not in own), ""):
        raise Conflict(
            f"Its file {other!r} was not written by the job that trained it, and may be anything: register what the job wrote."
        )


def _programs(job: str, spec: Spec) -> Iterator[str]:
    """Of the source. A step of a pipeline is run by the platform's own program, out of the source's modules."""
    if spec.command[: len(PROGRAM)] == PROGRAM:
        return
    program, rest = _program(spec.command)
    if not program:
        shown = " ".join(spec.command)[:200]
        raise Conflict(
            f"The job {job} that trained it ran {shown!r}: say `python FILE.py` or `python -m MODULE`, of its source."
        )
    yield program
    if program == STARTER:  # of `falaj train`, which runs what is named behind it
        yield "".join(rest[rest.index("--") + 1 :][:1]) if "--" in rest else ""


def _program(command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """What Python runs, and what stands behind it; empty where that is something else."""
    if not _PYTHON.fullmatch(command[0]):
        return "", ()
    words = list(command[1:])
    while words and _PLAIN.fullmatch(words[0]):
        words.pop(0)
    if len(words) > 1 and words[0] == "-m":
        return f"-m {words[1]}", words[2:]
    return (words[0], words[1:]) if words and not words[0].startswith("-") else ("", ())
