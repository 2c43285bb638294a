"""Rows as messages, whole pages at a time: a fixed number of queries, however many rows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, NotFound
from falaj.collaboration.operations.words import Person
from falaj.collaboration.people import persons
from falaj.database.work import Context
from falaj.jobs.operations.jobs import Attempt, Job, Spec
from falaj.jobs.operations.words import Place, Usage
from falaj.jobs.store import attempts as attempt_store
from falaj.jobs.store import jobs as store
from falaj.jobs.store.tables import Found
from falaj.operations.messages import adapter

_BRIEF: Final = 200  # letters
_WORDS: Final = 20


def required_job(context: Context, given: str) -> Found:
    """By its id or some of its last digits, in the asker's project."""
    found = store.find_by_end(context.work, context.required_project.id, given)
    if not found:
        raise NotFound(f"There is no job {given!r} here.")
    if len(found) > 1:
        have = "end with" if found[0].id.endswith(given) else "have"
        raise Conflict(f"Several jobs' ids {have} {given!r}; give more digits.")
    return found[0]


def read_spec(text: str) -> Spec:
    read: Spec = adapter(Spec).validate_json(text)
    return read


def spec_written(spec: Spec) -> str:
    return adapter(Spec).dump_json(spec).decode()


def places_of(seats: str) -> tuple[Place, ...]:
    return msgspec.json.decode(seats, type=tuple[Place, ...])


def usage_of(text: str) -> Usage:
    return msgspec.json.decode(text, type=Usage) if text else Usage()


def jobs_listed(context: Context, rows: Sequence[Found]) -> tuple[Job, ...]:
    """As lists have them: with what is long cut short."""
    return tuple(replace(job, spec=_brief(job.spec)) for job in jobs_shown(context, rows))


def _brief(spec: Spec) -> Spec:
    command = tuple(word[:_BRIEF] for word in spec.command[:_WORDS])
    return replace(
        spec,
        lock=spec.lock[:_BRIEF],
        command=command,
        variables=spec.variables[:_WORDS],
        inputs=spec.inputs[:_WORDS],
        outputs=spec.outputs[:_WORDS],
    )


def jobs_shown(context: Context, rows: Sequence[Found]) -> tuple[Job, ...]:
    named = persons(context.work, {row.submitted_by for row in rows})
    tries: dict[str, list[Found]] = {}
    for attempt in attempt_store.of_jobs(context.work, [row.id for row in rows]):
        tries.setdefault(attempt.job, []).append(attempt)
    return tuple(_job(row, tries.get(row.id, []), named[row.submitted_by]) for row in rows)


def job_shown(context: Context, row: Found) -> Job:
    return jobs_shown(context, [row])[0]


def _job(row: Found, tries: Sequence[Found], by: Person) -> Job:
    last = tries[-1] if tries and tries[-1].ended is None else None
    places = places_of(last.seats) if last is not None else ()
    return Job(
        id=row.id,
        name=row.name,
        state=row.state,
        queue=row.queue,
        priority=row.priority,
        zone=row.zone,
        spec=read_spec(row.spec),
        run=row.run,
        submitted=Moment(row.submitted),
        submitted_by=by,
        started=_moment(row.started),
        ended=_moment(row.ended),
        cause=row.cause,
        code=row.code,
        words=row.words,
        places=places,
        tasks=len(places),
        attempts=row.attempts,
        next_try=Moment(row.not_before) if row.state == "waiting" and row.not_before else None,
        checkpointed=_moment(row.checkpointed),
        progress=row.progress,
        usage=summed(usage_of(one.usage) for one in tries),
        flags=() if last is None else tuple(msgspec.json.decode(last.odd, type=dict[str, str]).values()),
    )


def summed(several: Iterable[Usage]) -> Usage:
    """All of it, and the highest peak."""
    all_of_it = list(several)
    names = [name for name in Usage.__dataclass_fields__ if name != "memory_mib_peak"]
    return Usage(
        memory_mib_peak=max((one.memory_mib_peak for one in all_of_it), default=0),
        **{name: sum(getattr(one, name) for one in all_of_it) for name in names},
    )


def attempts_shown(rows: Sequence[Found]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            id=row.id,
            number=row.number,
            engine=row.engine,
            places=places_of(row.seats),
            planned=Moment(row.planned),
            started=_moment(row.started),
            ended=_moment(row.ended),
            cause=row.cause,
            code=row.code,
            words=row.words,
            usage=usage_of(row.usage),
        )
        for row in rows
    )


def _moment(stored: int | None) -> Moment | None:
    return None if stored is None else Moment(stored)
