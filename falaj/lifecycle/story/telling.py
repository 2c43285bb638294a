"""From what was gathered to the story: chapters in people's words. Pure, but for the proofs that are handed in."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.lifecycle.operations.pipelines import StepShown
from falaj.lifecycle.operations.stories import (
    AlertTold,
    Answer,
    DataTold,
    Event,
    Figure,
    GateTold,
    JobTold,
    Measured,
    Pair,
    PipelineTold,
    RevisionTold,
    Served,
    Span,
    Story,
    TestTold,
    Traffic,
    Training,
    VariantTold,
)
from falaj.lifecycle.story.gathering import TRAFFIC_DAYS, Answering, Data, Gathered, Piped, Worked
from falaj.lifecycle.story.happenings import MOST_EVENTS, happenings
from falaj.lifecycle.story.proving import Proofs
from falaj.lifecycle.story.spans import answered_at, share_now, spans_of
from falaj.lifecycle.story.summary import summary
from falaj.monitoring.operations.abtests import Abtest
from falaj.optimisation.operations.variants import Variant
from falaj.registry.operations.evidence import Evidence
from falaj.serving.operations.endpoints import Revision
from falaj.tracking.operations.runs import Run

MOST_SHOWN: Final = 200  # parameters, metrics


def people_in(found: Gathered) -> set[str]:
    """The ids of principals that are told by name, and whose names did not come along."""
    made = {one.version.created_by for one in found.data if one.version is not None}
    run = {found.run.info.created_by} if found.run is not None else set()
    return {found.version.created_by, *made, *run}


def told(
    found: Gathered, *, project: str, names: Mapping[str, str], recorded: Mapping[str, Any], proofs: Proofs, now: Moment
) -> Story:
    """`recorded` has what the registry's rows say of moves."""
    spans = {
        one.id: spans_of(one.changes, {revision.number for revision in one.revisions}, one.deleted) for one in found.answering
    }
    data = tuple(_data(one, names) for one in found.data)
    training = None if found.run is None else _training(found.run, found.experiment, names)
    served = tuple(_served(one, spans[one.id], found.version.model, found.version.version) for one in found.answering)
    by = names.get(found.version.created_by, found.version.created_by)
    all_of_it = happenings(found, recorded, spans)
    events = tuple(
        Event(
            at=one.at,
            stage=one.stage,
            words=one.words,
            by=names.get(one.by, one.by),
            thing=one.thing,
            recorded=None if one.sought is None else proofs.of(one.sought),
        )
        for one in all_of_it[-MOST_EVENTS:]
    )
    return Story(
        project=project,
        asked=now,
        summary=summary(
            found.version, by, data, training, found.moves, found.approvals, served, {one.chapter for one in found.hidden}
        ),
        version=found.version,
        registered_by=by,
        sbom=found.sbom,
        data=data,
        features=found.features,
        training=training,
        gates=tuple(map(_gate, found.gates)),
        variants=tuple(_variant(one) for one in found.variants if one.state in _SETTLED),
        pipelines=tuple(map(_pipeline, found.piped)),
        moves=found.moves,
        approvals=found.approvals,
        served=served,
        jobs=tuple(map(_job, found.worked)),
        events=events,
        ledger=proofs.ledger(),
        hidden=found.hidden,
        cut=found.cut or len(all_of_it) > len(events),
    )


_SETTLED: Final = ("certified", "refused", "made")


def _data(one: Data, names: Mapping[str, str]) -> DataTold:
    """Of a dataset that is deleted, what its row still says."""
    version = one.version
    if version is None:
        row = one.row
        return DataTold(
            name=one.name,
            version=0 if row is None else row.number,
            digest=one.digest if row is None else row.digest,
            state="elsewhere" if row is None else "deleted",
            distance=one.distance,
            rows=0 if row is None else row.rows,
            size=0 if row is None else row.size,
            zone="" if row is None else row.zone,
            made=None if row is None else Moment(row.created),
            made_by="",
            findings=(),
            derivation="",
            inputs=(),
        )
    made = version.derivation
    return DataTold(
        name=version.dataset,
        version=version.version,
        digest=version.digest,
        state="quarantined" if version.quarantined else "pruned" if version.pruned is not None else "published",
        distance=one.distance,
        rows=version.rows,
        size=version.size,
        zone=version.zone,
        made=version.created,
        made_by=names.get(version.created_by, version.created_by),
        findings=version.findings,
        derivation="" if made is None else f"{made.kind}: {made.code}",
        inputs=() if made is None else tuple(given.reference for given in made.inputs),
    )


def _training(run: Run, experiment: str, names: Mapping[str, str]) -> Training:
    info = run.info
    return Training(
        run=info.id,
        name=info.name,
        experiment=experiment,
        experiment_number=info.experiment,
        status=info.status,
        by=names.get(info.created_by, info.created_by),
        created=info.created,
        started=info.started,
        ended=info.ended,
        deleted=info.deleted,
        params=tuple(Pair(name=one.key, value=one.value) for one in run.params[:MOST_SHOWN]),
        metrics=tuple(Measured(name=one.key, value=one.value) for one in run.metrics[:MOST_SHOWN]),
    )


def _job(one: Worked) -> JobTold:
    job = one.job
    ran = 0 if job.started is None or job.ended is None else job.ended - job.started
    return JobTold(
        id=job.id,
        name=job.name,
        purpose=one.purpose,
        state=job.state,
        by=job.submitted_by.name,
        submitted=job.submitted,
        seconds=ran / 1_000_000,
        tries=job.attempts,
        usage=job.usage,
    )


def _gate(one: Evidence) -> GateTold:
    return GateTold(
        gate=one.gate,
        passed=one.passed,
        counts=one.counts,
        words=one.words,
        against=one.against,
        digest=one.digest,
        job=one.job,
        by=one.by.name,
        at=one.at,
    )


def _pipeline(one: Piped) -> PipelineTold:
    run = one.run
    return PipelineTold(
        run=run.id,
        pipeline=run.pipeline,
        version=run.version,
        made=one.made,
        state=run.state,
        by=run.started_by.name,
        trigger=run.trigger,
        why=run.why,
        started=run.started,
        ended=run.ended,
        answers=tuple(_answer(step) for step in run.steps if step.kind == "approval" and step.started is not None),
    )


def _answer(one: StepShown) -> Answer:
    is_over = one.state in ("done", "failed") and bool(one.decided_by)
    return Answer(
        step=one.name,
        question=one.question,
        said=("agreed" if one.state == "done" else "refused") if is_over else "waiting" if one.state == "asking" else "nobody",
        by=one.decided_by,
        words=one.words if is_over else "",
        at=one.ended,
    )


def _variant(one: Variant) -> VariantTold:
    return VariantTold(
        id=one.id,
        name=one.name,
        state=one.state,
        runtime=one.runtime,
        certificate=one.certificate,
        best=one.best,
        max_drop=one.max_drop,
        times=one.measures.times if one.measures is not None else None,
        reason=one.reason,
        settled=one.settled,
    )


def _served(one: Answering, spans: Sequence[Span], model: str, version: int) -> Served:
    mine = {revision.number for revision in one.revisions}
    return Served(
        id=one.id,
        endpoint=one.name,
        zone=one.zone,
        deleted=one.deleted,
        share=share_now(spans),
        revisions=tuple(map(_revision, one.revisions)),
        spans=tuple(spans),
        traffic=_traffic(one, mine),
        quality=tuple(
            Figure(revision=bucket.revision, name=it.name, at=it.at, low=it.low, high=it.high, rows=it.rows)
            for bucket in one.quality
            if bucket.revision in mine
            for it in bucket.figures
        ),
        alerts=tuple(
            AlertTold(
                id=alert.id,
                title=alert.title,
                severity=alert.severity,
                kind=alert.kind,
                sentence=" ".join(alert.sentences),
                raised=alert.raised,
                resolved=alert.resolved,
                done=tuple(f"{act.kind}: {act.state}. {act.words}" for act in alert.actions),
            )
            for alert in one.alerts
            if answered_at(spans, alert.raised)
        ),
        abtests=tuple(_test(test, model, version) for test in one.abtests),
    )


def _revision(one: Revision) -> RevisionTold:
    return RevisionTold(
        number=one.number,
        runtime=one.runtime,
        variant=one.variant,
        certificate=one.certificate,
        created=one.created,
        by=one.created_by.name,
        quarantined=one.quarantined,
    )


def _traffic(one: Answering, revisions: set[int]) -> Traffic | None:
    points = [point for point in one.traffic.points if point.revision in revisions] if one.traffic is not None else []
    if not points:
        return None
    counts = {name: sum(getattr(point, name) for point in points) for name in ("requests", "errors", "shed", "rows")}
    return Traffic(days=TRAFFIC_DAYS, p99=max(point.p99 for point in points), **counts)


def _test(one: Abtest, model: str, version: int) -> TestTold:
    words = (arm.word for arm in one.arms if (arm.model, arm.version) == (model, version) and not arm.incumbent)
    return TestTold(
        id=one.name,
        name=one.name,
        state=one.state,
        sentence=one.sentence,
        word=next(words, "incumbent"),
        started=one.started,
        ended=one.ended,
    )
