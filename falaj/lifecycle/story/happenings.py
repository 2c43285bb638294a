"""What happened, one after the other, with the leaf that each should have left. Pure: `proving` looks for the leaves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.datasets.operations import checks, deriving, external, features, pushing, tidying, writing
from falaj.datasets.operations import versions as dataset_versions
from falaj.jobs.operations import jobs
from falaj.lifecycle.operations import pipelines
from falaj.lifecycle.operations.gates import RUN_GATES
from falaj.lifecycle.operations.stories import Span, Stage, Thing
from falaj.lifecycle.story.gathering import Answering, Gathered
from falaj.lifecycle.story.proving import Sought
from falaj.lifecycle.story.spans import answered_at
from falaj.monitoring.operations import abtests, alerts
from falaj.optimisation.operations import variants
from falaj.registry.operations import evidence, promotions, versions
from falaj.serving.operations import endpoints
from falaj.serving.operations.words import Arm
from falaj.tracking.operations import runs

MOST_EVENTS: Final = 300
_KINDS: Final = {"rollback": "rolled back", "quarantine": "put away", "step": "the next step", "promote": "promoted"}


def _names(*operations: Operation[Any, Any]) -> tuple[str, ...]:
    return tuple(one.name for one in operations)


PUBLISHING: Final = _names(
    writing.COMMIT_WRITE,
    pushing.FLUSH_PUSHES,
    deriving.DERIVE,
    features.MAKE_TRAINING_SET,
    dataset_versions.RESTORE_VERSION,
    dataset_versions.RENAME_COLUMNS,
    tidying.COMPACT,
    checks.RELEASE_VERSION,
    external.REGISTER_TABLE,
    external.REFRESH_TABLE,
)
SUBMITTING: Final = _names(jobs.SUBMIT_JOB, jobs.RETRY_JOB)
RUNNING: Final = (*_names(runs.CREATE_RUN, runs.IMPORT_RUN), *SUBMITTING)  # a job's run is made when it is submitted
JUDGING: Final = _names(RUN_GATES)  # which submits the jobs of gates
REGISTERING: Final = _names(versions.CREATE_VERSION)
ASKING: Final = _names(
    promotions.PROMOTE, promotions.ASK_APPROVAL, promotions.ROLLBACK, promotions.REMOVE_ALIAS, promotions.SET_STAGE
)
STARTING: Final = _names(pipelines.START_RUN)
VOTING: Final = _names(promotions.GIVE_APPROVAL, promotions.REFUSE_APPROVAL)
SPLITTING: Final = _names(
    endpoints.DEPLOY_REVISION,
    endpoints.SPLIT_TRAFFIC,
    endpoints.PROMOTE_REVISION,
    endpoints.ROLL_BACK,
    abtests.CREATE_ABTEST,
    abtests.STOP_ABTEST,
)


@value
class Happening:
    """`by` is the id or the name of whoever did it; empty where the platform did."""

    at: Moment
    stage: Stage
    words: str
    by: str
    thing: Thing = Thing()
    sought: Sought | None = None


def happenings(found: Gathered, recorded: Mapping[str, Any], spans: Mapping[str, Sequence[Span]]) -> list[Happening]:
    """In order of time. `recorded` has what the registry's rows say of moves, by their ids; `spans` are by endpoint."""
    told = [*_of_data(found), *_of_training(found), *_of_version(found), *_of_variants(found), *_of_approvals(found.approvals)]
    told += _of_gates(found.gates)
    told += [happening for one in found.piped for happening in _of_pipeline(one.run)]
    told += _of_moves(found.moves, recorded, found.version.version)
    for one in found.answering:
        told += [*_of_endpoint(one), *_of_watching(one, spans[one.id])]
    return sorted(told, key=lambda one: one.at)


def _of_data(found: Gathered) -> Iterator[Happening]:
    for one in found.data:
        if (version := one.version) is None:
            continue
        thing = Thing(kind="dataset", id=version.dataset, part=str(version.version))
        yield Happening(
            at=version.created,
            stage="data",
            words=f"{version.dataset} v{version.version} {_made(version)}: {version.rows:,} rows",
            by=version.created_by,
            thing=thing,
            sought=Sought(at=version.created, operations=PUBLISHING, name="version", id=version.id),
        )


def _made(version: dataset_versions.Version) -> str:
    if version.quarantined:
        return "was kept in quarantine"
    if version.mode == "release":
        return "was released from quarantine"
    return "was derived" if version.derivation is not None else "was published"


def _of_training(found: Gathered) -> Iterator[Happening]:
    for one in found.worked:
        job = one.job
        operations, name = (JUDGING, "jobs") if one.purpose == "gate" else (SUBMITTING, "job")
        yield Happening(
            at=job.submitted,
            stage="training" if one.purpose == "training" else "evaluation",
            words=f"the {one.purpose} job {job.name} was submitted",
            by=job.submitted_by.name,
            thing=Thing(kind="job", id=job.id),
            sought=Sought(at=job.submitted, operations=operations, name=name, id=job.id),
        )
    if (run := found.run) is not None:
        yield Happening(
            at=run.info.created,
            stage="training",
            words=f"the run {run.info.name} began" + (f" in {found.experiment}" if found.experiment else ""),
            by=run.info.created_by,
            thing=Thing(kind="run", id=run.info.id),
            sought=Sought(at=run.info.created, operations=RUNNING, name="run", id=run.info.id),
        )


def _of_version(found: Gathered) -> Iterator[Happening]:
    version = found.version
    said = {"digest": version.digest} if version.digest else {}
    yield Happening(
        at=version.created,
        stage="registry",
        words=f"version {version.version} of {version.model} was registered{' and signed' if version.signed else ''}",
        by=version.created_by,
        thing=Thing(kind="version", id=version.id),
        sought=Sought(at=version.created, operations=REGISTERING, name="version", id=version.id, said=said),
    )


def _of_gates(gates: Sequence[evidence.Evidence]) -> Iterator[Happening]:
    for one in gates:
        yield Happening(
            at=one.at,
            stage="evaluation",
            words=f"the gate {one.gate} was {'passed' if one.passed else 'not passed'}: {one.words}",
            by=one.by.name,
            thing=Thing(kind="job" if one.job else "", id=one.job),
            sought=Sought(
                at=one.at,
                operations=_names(evidence.JUDGE_VERSION),
                name="evidence",
                id=one.id,
                said={"gate": one.gate, "passed": one.passed, "digest": one.digest},
            ),
        )


def _of_pipeline(run: pipelines.PipelineRun) -> Iterator[Happening]:
    """That it began, and what people answered; who refused and agreed later, when it went on, is told as who agreed."""
    thing = Thing(kind="pipeline-run", id=run.id)
    began = f" by the trigger {run.why or run.trigger}" if run.trigger else f": {run.why}" if run.why else ""
    yield Happening(
        at=run.started,
        stage="pipeline",
        words=f"the pipeline {run.pipeline} was started{began}",
        by=run.started_by.name,
        thing=thing,
        sought=Sought(at=run.started, operations=STARTING, name="run", id=run.id, said={"version": run.version}),
    )
    for one in run.steps:
        if one.decided_by and one.ended is not None:
            agreed = one.state == "done"
            yield Happening(
                at=one.ended,
                stage="approval",
                words=f"{'agreed' if agreed else 'refused'} in {run.pipeline}: {one.question}",
                by=one.decided_by,
                thing=thing,
                sought=Sought(
                    at=one.ended,
                    operations=_names(pipelines.DECIDE_STEP),
                    name="run",
                    id=run.id,
                    said={"step": one.name, "agreed": agreed},
                ),
            )


def _of_variants(found: Gathered) -> Iterator[Happening]:
    for one in found.variants:
        if one.settled is not None and one.state in ("certified", "refused"):
            yield Happening(
                at=one.settled,
                stage="evaluation",
                words=f"the variant {one.name} was {'certified' if one.state == 'certified' else 'refused a certificate'}",
                by="",
                thing=Thing(kind="variant", id=one.id, part=one.name),
                sought=Sought(at=one.settled, operations=_names(variants.CERTIFY_VARIANT), name="variant", id=one.id),
            )


def _of_approvals(asked: Sequence[promotions.Approval]) -> Iterator[Happening]:
    for one in asked:
        yield Happening(
            at=one.requested,
            stage="approval",
            words=f"approval was asked for: {_wish(one)}",
            by=one.requested_by.name,
            sought=Sought(at=one.requested, operations=ASKING, name="waiting", id=one.id),
        )
        for vote in one.votes:
            yield Happening(
                at=vote.at,
                stage="approval",
                words=f"{'approved' if vote.approves else 'refused'}: {_wish(one)}" + (f" ({vote.note})" if vote.note else ""),
                by=vote.by.name,
                sought=Sought(at=vote.at, operations=VOTING, name="approval", id=one.id),
            )


def _wish(approval: promotions.Approval) -> str:
    return f"{approval.alias} to version {approval.version}"


def _of_moves(moves: Sequence[promotions.Move], recorded: Mapping[str, Any], version: int) -> Iterator[Happening]:
    for one in moves:
        known = recorded.get(one.id)
        sought = None
        if known is not None:
            sought = Sought(at=known["recorded"], operations=(known["operation"],), name="move", id=one.id, said=known["said"])
        words = _moved(one, version) + (f": {one.reason}" if one.reason else "")
        yield Happening(at=one.at, stage="registry", words=words, by=one.by.name, sought=sought)


def _moved(one: promotions.Move, version: int) -> str:
    if one.kind == "stage":
        return f"moved to the stage {one.alias}"
    if one.version == version:
        return f"{one.alias} was {'rolled back' if one.kind == 'rollback' else 'pointed'} to version {version}"
    if one.version:
        return f"{one.alias} was {'rolled back' if one.kind == 'rollback' else 'moved on'} to version {one.version}"
    return f"{one.alias} was removed"


def _of_endpoint(one: Answering) -> Iterator[Happening]:
    thing = Thing(kind="" if one.deleted is not None else "endpoint", id=one.name)
    mine = {revision.number for revision in one.revisions}
    for change in one.changes:
        before, after = ([arm for arm in arms if arm.revision in mine] for arms in (change.before, change.arms))
        if before != after:
            yield Happening(
                at=change.at,
                stage="serving",
                words=f"{one.name}: {_shares(before, after)}{_why(change)}",
                by=change.by.name if change.by is not None else "",
                thing=thing,
                sought=Sought(at=change.at, operations=SPLITTING, name="change", id=change.id, at_least={"endpoint": one.id}),
            )
    if one.deleted is not None:
        yield Happening(
            at=one.deleted,
            stage="serving",
            words=f"{one.name} was deleted",
            by="",
            sought=Sought(at=one.deleted, operations=_names(endpoints.DELETE_ENDPOINT), name="endpoint", id=one.id),
        )


def _shares(before: Sequence[Arm], after: Sequence[Arm]) -> str:
    known = {arm.revision: arm for arm in before}
    told = [
        f"revision {arm.revision} {'gets copies of' if arm.role == 'shadow' else 'answers'} {percent(arm.share)}"
        for arm in after
        if known.get(arm.revision) != arm
    ]
    still = {arm.revision for arm in after}
    told += [f"revision {arm.revision} answers no more" for arm in before if arm.revision not in still]
    return ", ".join(told)


def _why(change: endpoints.Change) -> str:
    told = ": ".join(part for part in (_KINDS.get(change.kind, ""), change.reason) if part)
    return f" ({told})" if told else ""


def _of_watching(one: Answering, spans: Sequence[Span]) -> Iterator[Happening]:
    for alert in one.alerts:
        if answered_at(spans, alert.raised):
            yield _alert(alert)
    for test in one.abtests:
        yield _test(test)


def _alert(alert: alerts.Alert) -> Happening:
    return Happening(
        at=alert.raised,
        stage="watching",
        words=f"{alert.endpoint}: {alert.title}",
        by="",
        thing=Thing(kind="alert", id=alert.id),
        sought=Sought(at=alert.raised, operations=_names(alerts.RAISE_ALERT), name="alert", id=alert.id),
    )


def _test(test: abtests.Abtest) -> Happening:
    return Happening(
        at=test.started,
        stage="watching",
        words=f"the A/B test {test.name} began",
        by=test.started_by.name,
        thing=Thing(kind="abtest", id=test.name),
        sought=Sought(at=test.started, operations=_names(abtests.CREATE_ABTEST), name="abtest", id=test.id),
    )


def percent(share: int) -> str:
    """Of hundredths of a per cent."""
    return f"{share / 100:g} %"
