"""Looking at jobs: lists, one of them, its tries, its past, what it used and what it wrote."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing, value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database
from falaj.governance.identity.store import token_by_id
from falaj.jobs.engines.engine import Engine
from falaj.jobs.operations import jobs as declared
from falaj.jobs.store import attempts as attempt_store
from falaj.jobs.store import events as event_store
from falaj.jobs.store import jobs as store
from falaj.jobs.store import metering, tokens
from falaj.jobs.store.jobs import LIVE_STATES, OVER_STATES
from falaj.jobs.views import attempts_shown, job_shown, jobs_listed, required_job
from falaj.storage.service import BlobService, Reader

_STATES: Final[Mapping[str, tuple[str, ...]]] = {"": (), "live": LIVE_STATES, "over": OVER_STATES}
_POINTS: Final = 200
_LAST: Final = 8192  # bytes


@value
class _Written:
    """Where an attempt's log is: still with its engine, or in a blob; neither where it wrote nothing."""

    engine: str
    attempt: str
    over: bool
    reader: Reader | None


class ListingService:
    def __init__(self, database: Database, blobs: BlobService, engines: Mapping[str, Engine]) -> None:
        self._database = database
        self._blobs = blobs
        self._engines = engines

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.LIST_JOBS, self.list),
            bind(declared.SHOW_JOB, self.show),
            bind(declared.LIST_ATTEMPTS, self.attempts),
            bind(declared.READ_EVENTS, self.events),
            bind(declared.READ_JOB_USAGE, self.usage),
            bind(declared.REPORT_JOB, self.report),
            bind_prepared(declared.READ_LOG, self.read_log, self.log),
        ]

    def list(self, context: Context, request: declared.ListJobs) -> declared.Jobs:
        states = _STATES.get(request.state, (request.state,))
        before = read_text_cursor(request.cursor)
        project = context.required_project.id
        found = store.page(context.work, project, states=states, queue=request.queue, before=before, limit=request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.id,))
        return declared.Jobs(items=jobs_listed(context, page), next=following)

    def show(self, context: Context, request: declared.OneJob) -> declared.Job:
        return job_shown(context, required_job(context, request.job))

    def attempts(self, context: Context, request: declared.OneJob) -> declared.Attempts:
        job = required_job(context, request.job)
        return declared.Attempts(items=attempts_shown(attempt_store.of_job(context.work, job.project, job.id)))

    def events(self, context: Context, request: declared.ReadEvents) -> declared.JobEvents:
        job, after = required_job(context, request.job), read_text_cursor(request.cursor)
        found = event_store.page(context.work, job.project, job.id, after, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.id,))
        items = (declared.JobEvent(at=Moment(row.at), kind=row.kind, words=row.words, attempt=row.attempt) for row in page)
        return declared.JobEvents(items=tuple(items), next=following)

    def usage(self, context: Context, request: declared.ReadUsage) -> declared.UsagePoints:
        found = metering.samples_of(context.work, required_job(context, request.job).id)
        every = -(-len(found) // _POINTS) or 1
        points = (
            declared.UsagePoint(
                at=Moment(row.at),
                cpus=row.cpus,
                memory_mib=row.memory_mib,
                gpu_busy=row.gpu_busy,
                gpu_memory_mib=row.gpu_memory_mib,
            )
            for row in found[::every]
        )
        return declared.UsagePoints(points=tuple(points))

    def report(self, context: Context, request: declared.Report) -> Nothing:
        job = required_job(context, request.job)
        if job.ended is not None:
            raise Conflict(f"The job {job.name!r} is over: {job.state}.")
        present = attempt_store.find(context.work, job.project, job.id, 0)
        if _speaks_for_another(context, "" if present is None else present.token):
            raise Forbidden("A job speaks about itself alone, while it runs.", rule="job.own-token")
        progress = request.progress or None
        store.report(context.work, job.id, progress=progress, checkpoint=request.checkpoint, now=context.now)
        return Nothing()

    # Logs are read outside any transaction: an engine may be far away

    def read_log(self, context: Context, request: declared.ReadLog) -> declared.LogPart:
        written = self._look(context, request)
        if written.reader is None and written.attempt:
            if (engine := self._engines.get(written.engine)) is None:
                note = f"Its log is with the engine {written.engine}, out of reach from here; it is shown once the try ended."
                return declared.LogPart(text="", next=request.offset, over=False, note=note)
            read, following = self._asked(engine, written, request)
            if read or not written.over:
                return _part(read, following, request, over=written.over)
            written = self._look(context, request)  # put away meanwhile: an engine that forgot it has nothing to show
        read, following = (b"", request.offset) if written.reader is None else _kept(written.reader, request)
        return _part(read, following, request, over=written.over)

    def _asked(self, engine: Engine, written: _Written, request: declared.ReadLog) -> tuple[bytes, int]:
        try:
            return engine.log(written.attempt, request.offset, request.limit)
        except NotFound:  # the engine has not been told of this try yet, or knows of it no more
            return b"", request.offset

    def _look(self, context: Context, request: declared.ReadLog) -> _Written:
        return self._database.read(lambda work: self._written(replace(context, work=work), request))

    def log(self, context: Context, request: declared.ReadLog, part: declared.LogPart) -> declared.LogPart:
        return part

    def _written(self, context: Context, request: declared.ReadLog) -> _Written:
        job = required_job(context, request.job)
        found = attempt_store.find(context.work, job.project, job.id, request.attempt)
        if found is None:
            if request.attempt:
                raise NotFound(f"The job {request.job!r} has had no try number {request.attempt}.")
            return _Written(engine="", attempt="", over=job.ended is not None, reader=None)
        over = found.ended is not None and (request.attempt > 0 or job.ended is not None)
        reader = self._blobs.open(context, found.log) if found.log else None
        attempt = found.id if found.log is None else ""
        return _Written(engine=found.engine, attempt=attempt, over=over, reader=reader)


def _speaks_for_another(context: Context, token: str) -> bool:
    own = context.identity.token
    known = token_by_id(context.work, own) if own else None
    return known is not None and known.kind == tokens.KIND and own != token


def _kept(reader: Reader, request: declared.ReadLog) -> tuple[bytes, int]:
    """While a job floods its log, what was dropped counts, so that one may have read on behind the end of what is kept."""
    if request.offset > reader.size:
        start = max(0, reader.size - min(request.limit, _LAST))
        return b"\n[...]\n" + b"".join(reader.read(start, reader.size - start)), reader.size
    length = min(request.limit, reader.size - request.offset)
    return b"".join(reader.read(request.offset, length)), request.offset + length


def _part(read: bytes, following: int, request: declared.ReadLog, *, over: bool) -> declared.LogPart:
    """A letter that was cut in two is left for the next part, where there can be one."""
    cut = _letters(read)
    if cut < len(read) and (cut or not (over or len(read) == request.limit)):
        following -= len(read) - cut
        read = read[:cut]
    return declared.LogPart(text=read.decode(errors="replace").replace("\0", "�"), next=following, over=over and not read)


def _letters(read: bytes) -> int:
    """How many bytes make whole letters of UTF-8, where only the end may be cut."""
    for back in range(1, min(4, len(read)) + 1):
        byte = read[-back]
        if byte < 0x80:
            return len(read)
        if byte >= 0xC0:
            whole = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(read) if back >= whole else len(read) - back
    return len(read)
