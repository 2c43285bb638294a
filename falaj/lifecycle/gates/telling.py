"""What the job of a measured gate asks and tells. Only the present try of the job that the platform submitted is listened to:
its token is inside its walls, and nothing of anybody else's is."""

from falaj.base.errors import Conflict, Corrupt, Forbidden, NotFound
from falaj.base.operation import Download
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.jobs.store import attempts
from falaj.jobs.views import read_spec, required_job
from falaj.lifecycle.gates import store
from falaj.lifecycle.gates.definitions import read
from falaj.lifecycle.gates.judging import judge
from falaj.lifecycle.gates.planning import data_read, is_own, pinned_of
from falaj.lifecycle.gates.settling import Settler
from falaj.lifecycle.gates.store import Found
from falaj.lifecycle.gates.views import required_run, run_shown
from falaj.lifecycle.operations import gates as declared
from falaj.lifecycle.operations.gates import MEASURED, FormTaken, GateRun, Task
from falaj.optimisation.operations.words import FileSeen
from falaj.registry.operations.versions import GET_VERSION_FILE, GetVersionFile
from falaj.registry.store import versions as version_store
from falaj.storage.service import BlobService


class TellingService:
    def __init__(self, gate: Gatekeeper, blobs: BlobService, settler: Settler) -> None:
        self._gate, self._blobs, self._settler = gate, blobs, settler

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.READ_TASK, self.task),
            bind(declared.READ_GATE_FILE, self.file),
            bind(declared.TELL_GATE, self.tell),
        ]

    def task(self, context: Context, request: declared.OneRun) -> Task:
        row = _measured(context, request.run)
        pinned = pinned_of(row)
        return Task(
            run=row.id,
            gate=read(row.definition),
            candidate=_form(pinned["candidate"]),
            incumbent=_form(pinned["incumbent"]),
            on=data_read(pinned["on"]),
            training=tuple(data_read(one) for one in pinned["training"]),
            columns=tuple(pinned["columns"]),
            masked=tuple(pinned["masked"]),
            price=pinned["price"] / 1e6,
            state=row.state,
        )

    def file(self, context: Context, request: declared.ReadGateFile) -> Download:
        row = _measured(context, request.run)
        form = pinned_of(row)["incumbent" if request.incumbent else "candidate"]
        if row.state != store.RUNNING or form is None:
            raise Conflict(f"Gate run {row.id} is {row.state}, and holds no such files.")
        found = next((one for one in form["files"] if one["name"] == request.file), None)
        version = version_store.find_by_id(context.work, row.project, form["version"])
        if found is None or version is None:  # what was deleted is not given out
            raise NotFound(f"Gate run {row.id} has no file {request.file!r}.")
        asked = GetVersionFile(
            project=context.required_project.name, model=version.model_name, version=version.number, name=request.file
        )
        self._gate.authorise(context.work, context.identity, GET_VERSION_FILE, asked)
        if self._blobs.show(context, found["blob"]).digest != found["digest"]:
            raise Corrupt(f"What is stored as {request.file!r} is not what was planned.")
        reader = self._blobs.open(context, found["blob"])
        context.facts.update(run=row.id, digest=found["digest"])
        return Download(chunks=reader.read(), size=reader.size, name=request.file.rpartition("/")[2])

    def tell(self, context: Context, request: declared.TellGate) -> GateRun:
        _check_job(context, required_run(context, request.run, hold=True), request.job)
        row = _measured(context, request.run)
        if row.state != store.RUNNING:
            raise Conflict(f"Gate run {row.id} is over: it is {row.state}, and nothing more is taken of it.")
        gate = read(row.definition)
        against = pinned_of(row)["incumbent"]
        named = f"{row.against_alias} v{row.against}" if against else ""
        self._settler.settle(context, row, judge(gate, request.told, named), context.identity)
        context.facts.update(run=row.id, version=row.version, gate=row.gate)
        return run_shown(context, required_run(context, row.id))


def _measured(context: Context, id: str) -> Found:
    row = required_run(context, id)
    if row.kind not in MEASURED:
        raise Conflict(f"Gate run {row.id} is of the kind {row.kind}: it has nothing to measure.")
    return row


def _check_job(context: Context, row: Found, job: str) -> None:
    found = required_job(context, job)
    tries = attempts.of_job(context.work, found.project, found.id)
    present = tries[0] if tries else None
    speaks = present is not None and present.id == found.attempt and present.token == context.identity.token
    if found.id != row.job or not speaks or not is_own(read_spec(found.spec), row.id):
        raise Forbidden(
            "What a gate measures is told by the platform's own program, in the job that was submitted for it, and by nobody "
            "else.",
            rule="gates.own-program",
        )


def _form(told: dict[str, object] | None) -> FormTaken | None:
    if told is None:
        return None
    form: dict[str, object] = {name: told[name] for name in ("model", "runtime", "file")}
    files = tuple(FileSeen(name=one["name"], size=one["size"], digest=one["digest"]) for one in told["files"])  # type: ignore[attr-defined]
    return FormTaken(**form, version=told["number"], files=files, columns=tuple(told["columns"]))  # type: ignore[arg-type]
