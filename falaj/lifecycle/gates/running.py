"""Running gates of a version: what can be looked up is judged at once, the rest becomes jobs, and all of it is written down.

Whatever goes wrong before a job runs, a dataset that is gone or a model that cannot be converted, has failed the gate as well,
with evidence that says why. What the caller may not do is refused, and leaves none.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.errors import Conflict, Forbidden, Invalid, PermanentError, Unauthenticated
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.jobs.operations.jobs import REPORT, SUBMIT_JOB, Planned, Spec, Submit
from falaj.jobs.operations.words import Resources
from falaj.jobs.submitting import SubmissionService
from falaj.lifecycle.gates import store
from falaj.lifecycle.gates.analysis import digest_of
from falaj.lifecycle.gates.definitions import ANALYSIS, check_defined, read
from falaj.lifecycle.gates.looking import Looking
from falaj.lifecycle.gates.planning import Measurement, Planner, spec_of
from falaj.lifecycle.gates.settling import Settler
from falaj.lifecycle.gates.training import trained_with
from falaj.lifecycle.gates.values import Finding, failed
from falaj.lifecycle.gates.views import required_run, runs_of
from falaj.lifecycle.operations import gates as declared
from falaj.lifecycle.operations.gates import LOOKED_UP, MEASURED, Gate, GateRuns
from falaj.registry.meaning import meant_version
from falaj.registry.operations.words import CHAMPION
from falaj.registry.store import evidence as evidence_store
from falaj.registry.store import models as model_store
from falaj.registry.store.tables import Found
from falaj.training.launchers.travelling import companions

MOST_RUNNING: Final = 500  # of one project
_TRAINING: Final = "the jobs that trained the version"
_OF_TRAINING: Final = ("static", "tests")  # what is looked at is the code behind the version


@value
class Prepared:
    """A gate that is to be run: found already, or with the job that will find it."""

    id: str
    gate: Gate
    digest: str
    finding: Finding | None = None
    spec: Spec | None = None
    plan: Planned | None = None
    measurement: Measurement | None = None
    pinned: dict[str, Any]


class RunningService:
    """Thread-safe."""

    def __init__(
        self,
        *,
        database: Database,
        gate: Gatekeeper,
        looking: Looking,
        planner: Planner,
        submissions: SubmissionService,
        settler: Settler,
    ) -> None:
        self._database, self._gate, self._looking = database, gate, looking
        self._planner, self._submissions, self._settler = planner, submissions, settler

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.RUN_GATES, self.prepare, self.run),
            bind(declared.READ_RESULTS, self.results),
        ]

    # Outside any transaction

    def prepare(self, context: Context, request: declared.RunGates) -> tuple[Found, tuple[Prepared, ...]]:
        def look(work: UnitOfWork) -> tuple[Found, dict[str, Found]]:
            within = replace(context, work=work)
            version = meant_version(within, request.model, request.version, request.alias)
            return version, evidence_store.gates_of(work, context.required_project.id)

        version, defined = self._database.read(look)
        check_defined(request.gates, list(defined))
        wanted = request.gates or tuple(defined)
        if not wanted:
            raise Conflict("No gates are defined here: an operator applies some with `falaj gate apply FILE`.")
        made = tuple(self._prepared(context, request, defined[name], version) for name in dict.fromkeys(wanted))
        return version, made

    def _prepared(self, context: Context, request: declared.RunGates, row: Found, version: Found) -> Prepared:
        """What fails for good has failed the gate; what may come right, and what the caller may not do, is raised."""
        gate = read(row.definition)
        one = Prepared(id=new_id(context.now), gate=gate, digest=row.digest, pinned={})
        try:
            if gate.kind in LOOKED_UP:
                return replace(one, finding=self._looking.find(context, gate, version))
            if gate.kind in MEASURED:
                measurement = self._planner.measurement(context, gate, version)
                spec = spec_of(gate, one.id, measurement.permissions, version.id)
                return replace(one, measurement=measurement, spec=spec, plan=self._foreseen(context, spec))
            pinned = self._command(context, request, gate, version)
            spec = _command_spec(gate, tuple(pinned["command"]), pinned["source"])
            return replace(one, pinned=pinned, spec=spec, plan=self._foreseen(context, spec))
        except (Forbidden, Unauthenticated):
            raise
        except PermanentError as error:
            return replace(one, finding=failed(str(error)))

    def _foreseen(self, context: Context, spec: Spec) -> Planned:
        request = Submit(project=context.required_project.name, spec=spec)
        self._database.read(lambda work: self._gate.authorise(work, context.identity, SUBMIT_JOB, request))
        return self._submissions.foresee(context, request)

    def _command(self, context: Context, request: declared.RunGates, gate: Gate, version: Found) -> dict[str, Any]:
        """The source that it is run on. Code is analysed and tested as it was trained with, where a job trained it; whoever
        asks has a say only where nobody knows."""
        analysed = gate.kind == "static"
        trained = self._database.read(lambda work: trained_with(work, version)) if gate.kind in _OF_TRAINING else None
        source, origin = (request.source, "whoever asked for it") if trained is None else (trained.source, _TRAINING)
        if not source and gate.kind != "command":
            raise Invalid("It needs the source it is to be run on: give the folder, as `falaj ci` does from where you are.")
        command, jobs = list(gate.command), [] if trained is None else list(trained.jobs)
        programs = trained.programs if analysed and trained is not None else ()
        if analysed and gate.command == ANALYSIS:
            command += [digest_of(companions()), *programs]
        return {"source": source, "source_from": origin if source else "", "command": command, "jobs": jobs}

    # Within the transaction

    def run(self, context: Context, request: declared.RunGates, ready: tuple[Found, tuple[Prepared, ...]]) -> GateRuns:
        looked_at, prepared = ready
        version = meant_version(context, request.model, request.version, request.alias)
        if version.id != looked_at.id:
            raise Conflict(f"{request.alias or CHAMPION} of {request.model!r} moved meanwhile; ask again.")
        self._check_unchanged(context, version, prepared)
        jobs = sum(one.finding is None for one in prepared)
        if jobs and store.count_running(context.work, version.project) + jobs > MOST_RUNNING:
            raise Conflict(f"{MOST_RUNNING} gates of this project may run at once: wait until some are over.")
        batch = new_id(context.now)
        runs = {one.gate.name: self._enter(context, version, batch, one) for one in prepared}
        rows = store.of_batch(context.work, version.project, batch)
        context.facts.update(version=version.id, batch=batch, runs=runs, jobs={row.gate: row.job for row in rows if row.job})
        return runs_of(context, version, batch, rows)

    def _check_unchanged(self, context: Context, version: Found, prepared: Sequence[Prepared]) -> None:
        defined = evidence_store.gates_of(context.work, version.project)
        for one in prepared:
            now = defined.get(one.gate.name)
            if now is None or now.digest != one.digest:
                raise Conflict(f"The gate {one.gate.name!r} was changed meanwhile; ask again.")
            if one.measurement is None or not one.gate.against:
                continue
            if model_store.aliased_version(context.work, version.model, one.gate.against) != one.measurement.against:
                raise Conflict(f"{one.gate.against} of {version.model_name!r} moved meanwhile; ask again.")

    def _enter(self, context: Context, version: Found, batch: str, one: Prepared) -> str:
        """Its id. Files are held and the job submitted in the same transaction: a run without a job would never be over."""
        within = replace(context, facts={})
        pinned, job = one.pinned, ""
        if one.measurement is not None:
            pinned = self._planner.pin(within, one.id, one.measurement)
        if one.spec is not None and one.plan is not None and one.finding is None:
            request = Submit(project=context.required_project.name, spec=one.spec)
            job = self._submissions.submit(within, request, one.plan).job.id
        row = {
            "id": one.id,
            "project": version.project,
            "batch": batch,
            "version": version.id,
            "gate": one.gate.name,
            "kind": one.gate.kind,
            "definition": evidence_store.gates_of(context.work, version.project)[one.gate.name].definition,
            "digest": one.digest,
            "against_alias": one.gate.against,
            "against": one.measurement.against if one.measurement is not None else 0,
            "pinned": json.dumps(pinned),
            "held": one.measurement is not None,
            "state": store.RUNNING,
            "words": "",
            "evidence": "",
            "job": job,
            "created": int(context.now),
            "created_by": context.identity.principal,
            "ended": None,
        }
        store.add(context.work, row)
        if one.finding is not None:
            self._settler.settle(within, required_run(within, one.id), one.finding, context.identity)
        return one.id

    # Looking

    def results(self, context: Context, request: declared.ReadResults) -> GateRuns:
        version = meant_version(context, request.model, request.version, request.alias)
        if request.batch:
            rows = store.of_batch(context.work, version.project, request.batch)
            return runs_of(context, version, request.batch, [row for row in rows if row.version == version.id])
        return runs_of(context, version, "", store.last_of_version(context.work, version.id))


def _command_spec(gate: Gate, command: tuple[str, ...], source: str) -> Spec:
    """It may say how it is, and nothing else: a test that reaches the project could change what is tested."""
    return Spec(
        name=f"gate {gate.name}"[:100],
        command=command,
        source=source,
        lock=gate.lock,
        image=gate.image,
        hosts=gate.hosts,
        resources=Resources(cpus=gate.cpus, memory_mib=gate.memory_mib),
        timeout=gate.seconds,
        permissions=(REPORT.name,),
        retries=0,
    )
