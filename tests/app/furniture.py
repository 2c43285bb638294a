"""Something of everything about experiments and models, in one project: what attackers of another one reach for."""

import io
import sqlite3
import tarfile
import time
from pathlib import Path
from typing import Any

from falaj.base.clock import SystemClock
from falaj.base.ids import new_id
from falaj.base.operation import Operation
from falaj.collaboration.operations.comments import ADD_COMMENT, AddComment
from falaj.collaboration.operations.links import CREATE_LINK, CreateLink
from falaj.collaboration.operations.reviews import REQUEST_REVIEW, RequestReview
from falaj.datasets.operations.checks import SET_CHECKS, Check, SetChecks
from falaj.datasets.operations.datasets import TAG_VERSION, TagVersion
from falaj.datasets.operations.features import APPLY_VIEW, MATERIALISE, ApplyView, Materialise
from falaj.datasets.operations.reading import GRANT_READ, GrantRead
from falaj.datasets.operations.writing import COMMIT_WRITE, OPEN_WRITE, WRITE_PART, CommitWrite, OpenWrite, WritePart
from falaj.governance.policies.operations import PUT_POLICY, PutPolicy
from falaj.jobs.operations.jobs import SUBMIT_JOB, UPLOAD_SOURCE, Spec, Submit, UploadSource
from falaj.jobs.operations.secrets import SET_SECRET, SetSecret
from falaj.lifecycle.operations.gates import APPLY_GATES, RUN_GATES, ApplyGates, Gate, RunGates
from falaj.lifecycle.operations.pipelines import APPLY_PIPELINE, SHOW_RUN, START_RUN, Apply, OneRun, StartRun
from falaj.lifecycle.operations.triggers import SET_TRIGGER, SetTrigger, Trigger
from falaj.lifecycle.operations.words import Definition, Step
from falaj.monitoring.operations.abtests import CREATE_ABTEST, STOP_ABTEST, Candidate, CreateAbtest, Design, StopAbtest
from falaj.monitoring.operations.alerts import SET_CHANNEL, SetChannel
from falaj.monitoring.operations.monitors import APPLY_MONITOR, ApplyMonitor
from falaj.optimisation.operations.optimisations import PLAN_OPTIMISATION, PlanOptimisation
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.promotions import PROMOTE, Promote
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations.batches import PLAN_BATCH, PlanBatch
from falaj.serving.operations.endpoints import (
    CONFIGURE,
    DEPLOY_REVISION,
    SHOW_ENDPOINT,
    Configure,
    Deploy,
    OneEndpoint,
    Options,
)
from falaj.serving.operations.keys import CREATE_KEY, CreateKey
from falaj.serving.operations.planes import CREATE_PLANE, CreatePlane
from falaj.tables.joining.views import Feature, Key
from falaj.tracking.operations.artifacts import BEGIN_UPLOAD, PUT_ARTIFACT, BeginUpload, PutArtifact
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, CreateExperiment
from falaj.tracking.operations.models import CREATE_LOGGED_MODEL, CreateLoggedModel
from falaj.tracking.operations.runs import CREATE_RUN, LOG_TO_RUN, CreateRun, LogToRun
from falaj.tracking.operations.words import Metric, Tag
from tests.app.running import RunningPlatform

CLOSED = "closed"  # a queue from which nothing starts
NAME = "attacker-made"  # what requests call things that they would make or find
MODEL = "model of the house"
PIPED = "piped"
SERVED = "model that is served"
SERVABLE = Path(__file__).parent.parent / "registry" / "models" / "model.onnx"
GUARDED = """forbid (principal, action == Action::"model.promote", resource)
when { context has promotion && context.promotion.alias == "guarded" && context.promotion.approvals < 1 };"""


def furnish(platform: RunningPlatform, project: str, member: str) -> dict[str, Any]:
    """`member` is somebody in the project who can be asked for a review. The things, by the field that names them."""
    call = platform.call
    experiment = call(CREATE_EXPERIMENT, CreateExperiment(project=project, name=NAME)).id
    run = call(CREATE_RUN, CreateRun(project=project, experiment=experiment, name=f"run of {project}")).info.id
    point = Metric(key="loss", value=0.5, timestamp=1)
    call(LOG_TO_RUN, LogToRun(project=project, run=run, metrics=(point,), tags=(Tag(key="loss", value="x"),)))
    logged = call(CREATE_LOGGED_MODEL, CreateLoggedModel(project=project, experiment=experiment, run=run)).id
    call(PUT_ARTIFACT, PutArtifact(project=project, holder=run, name=NAME), data=f"model of {project}".encode())
    call(CREATE_MODEL, CreateModel(project=project, model=MODEL))
    versions = [call(CREATE_VERSION, CreateVersion(project=project, model=MODEL, holder=run)) for _ in range(2)]
    call(PROMOTE, Promote(project=project, model=MODEL, version=1))
    call(PUT_POLICY, PutPolicy(project=project, policy="guarded", text=GUARDED))
    return (
        _furnish_endpoint(platform, project, experiment)
        | _furnish_job(platform, project)
        | _furnish_dataset(platform, project)
        | _furnish_batch(platform, project)
        | _furnish_optimisation(platform, project)
        | _furnish_monitoring(platform, project)
        | _furnish_lifecycle(platform, project, run)
        | {
            "experiment": experiment,
            "run": run,
            "runs": (run,),
            "keys": ("loss",),
            "key": "loss",
            "holder": run,
            "logged_model": logged,
            "part": 1,
            "upload": call(BEGIN_UPLOAD, BeginUpload(project=project, holder=run, name="large")).id,
            "model": MODEL,
            "version": 1,
            "other": 2,
            "version_id": versions[0].id,
            "approval": call(PROMOTE, Promote(project=project, model=MODEL, version=2, alias="guarded")).approval,
            "comment": call(ADD_COMMENT, AddComment(project=project, kind="run", thing=run, text="hello")).id,
            "review": call(REQUEST_REVIEW, RequestReview(project=project, kind="run", thing=run, whom=member)).id,
            "link": call(CREATE_LINK, CreateLink(project=project, path=f"/projects/{project}/runs/{run}")).id,
        }
    )


def _furnish_endpoint(platform: RunningPlatform, project: str, experiment: int) -> dict[str, Any]:
    """An endpoint that answers, a key for it, and a plane that may serve it."""
    call, endpoint = platform.call, f"endpoint-{project}"
    run = call(CREATE_RUN, CreateRun(project=project, experiment=experiment)).info.id
    call(PUT_ARTIFACT, PutArtifact(project=project, holder=run, name="model.onnx"), data=SERVABLE.read_bytes())
    call(CREATE_MODEL, CreateModel(project=project, model=SERVED))
    call(CREATE_VERSION, CreateVersion(project=project, model=SERVED, holder=run))
    call(PROMOTE, Promote(project=project, model=SERVED, version=1))
    call(DEPLOY_REVISION, Deploy(project=project, endpoint=endpoint, model=SERVED))
    shown = call(SHOW_ENDPOINT, OneEndpoint(project=project, endpoint=endpoint))
    plane = call(CREATE_PLANE, CreatePlane(plane=f"plane-{project}", zone=shown.zone))
    return {
        "endpoint": endpoint,
        "revision": 1,
        "revision_id": shown.revisions[0].id,
        "endpoint_key": call(CREATE_KEY, CreateKey(project=project, label="a program")).key.id,
        "plane": plane.plane.name,
        "plane_token": plane.token,
    }


def _furnish_job(platform: RunningPlatform, project: str) -> dict[str, Any]:
    """A job that waits until the end of days, the files it would run with, and a secret it would see."""
    secret, source = f"SECRET_OF_{project.upper()}", _tar(project)
    platform.call(SET_SECRET, SetSecret(project=project, name=secret, value=f"secret of {project}"))
    sent = platform.call(UPLOAD_SOURCE, UploadSource(project=project), data=source)
    spec = Spec(command=("echo", f"job of {project}"), source=sent.digest, secrets=(secret,), queue=CLOSED)
    job = platform.call(SUBMIT_JOB, Submit(project=project, spec=spec)).job.id
    return {"job": job, "job_secret": secret, "job_source": sent.digest, "queue": CLOSED, "node": "nowhere"}


def _furnish_dataset(platform: RunningPlatform, project: str) -> dict[str, Any]:
    """A dataset with a version and a check, a write to it that is under way, and one that the check put into quarantine."""
    call, dataset = platform.call, f"dataset-{project}"
    writes = []
    for rows in (project, project, "nobody"):
        write = call(OPEN_WRITE, OpenWrite(project=project, dataset=dataset, create=True)).id
        call(WRITE_PART, WritePart(project=project, dataset=dataset, write=write, piece=1), data=_rows(rows))
        writes.append(write)
    call(COMMIT_WRITE, CommitWrite(project=project, dataset=dataset, write=writes[0], pieces=1))
    known = Check(name="known", kind="set", columns=("of",), values=(project,))
    call(SET_CHECKS, SetChecks(project=project, dataset=dataset, checks=(known,)))
    call(COMMIT_WRITE, CommitWrite(project=project, dataset=dataset, write=writes[2], pieces=1))
    call(TAG_VERSION, TagVersion(project=project, dataset=dataset, tag="tagged", version="1"))
    grant = call(GRANT_READ, GrantRead(project=project, dataset=dataset, version="current"))
    return {"dataset": dataset, "write": writes[1], "dataset_part": grant.parts[0].id} | _furnish_view(call, project, dataset)


def _furnish_batch(platform: RunningPlatform, project: str) -> dict[str, Any]:
    """Predictions for a dataset, whose write is committed and which nobody finished."""
    call, into = platform.call, f"predicted-{project}"
    batch = call(PLAN_BATCH, PlanBatch(project=project, model=SERVED, on=f"dataset-{project}", into=into))
    write = call(OPEN_WRITE, OpenWrite(project=project, dataset=into, mode="overwrite", key=batch.key)).id
    call(WRITE_PART, WritePart(project=project, dataset=into, write=write, piece=1), data=_rows(project))
    call(COMMIT_WRITE, CommitWrite(project=project, dataset=into, write=write, pieces=1))
    return {"batch": batch.id}


def _furnish_optimisation(platform: RunningPlatform, project: str) -> dict[str, Any]:
    """One that was planned, and that no job works on."""
    planned = platform.call(PLAN_OPTIMISATION, PlanOptimisation(project=project, model=SERVED, on=f"dataset-{project}"))
    return {"optimisation": planned.id}


def _furnish_monitoring(platform: RunningPlatform, project: str) -> dict[str, Any]:
    """A monitor, a channel, an alert that is over with what it made happen, and an A/B test that is over, too."""
    call, channel, tested = platform.call, f"channel-{project}", f"tested-{project}"
    monitor = call(APPLY_MONITOR, ApplyMonitor(project=project, endpoint=f"endpoint-{project}")).id
    call(SET_CHANNEL, SetChannel(project=project, channel=channel, kind="webhook", url="https://hooks.example.com/"))
    for mode in ("live", "ab"):
        call(DEPLOY_REVISION, Deploy(project=project, endpoint=tested, model=SERVED, mode=mode))  # type: ignore[arg-type]
    call(CONFIGURE, Configure(project=project, endpoint=tested, options=Options(log_share=10_000)))
    design = Design(candidates=(Candidate(revision=2),))
    test = call(CREATE_ABTEST, CreateAbtest(project=project, endpoint=tested, name=f"test-{project}", design=design)).name
    call(STOP_ABTEST, StopAbtest(project=project, abtest=test))
    return {"channel": channel, "abtest": test} | _furnish_alert(platform, monitor)


def _furnish_alert(platform: RunningPlatform, monitor: str) -> dict[str, Any]:
    """Nobody can ask for one, so it is written down as the platform would."""
    connection = sqlite3.connect(platform.home.database, timeout=60)
    find = "SELECT project, endpoint FROM monitoring_monitors WHERE id = ?"
    project, endpoint = connection.execute(find, [monitor]).fetchone()
    alert, action = new_id(SystemClock().now()), new_id(SystemClock().now())
    told = '{"severity": "warning", "sentences": ["x drifts."], "facts": {}, "columns": [], "since": null}'
    rows = {
        "monitoring_alerts": {
            "id": alert, "project": project, "monitor": monitor, "endpoint": endpoint, "endpoint_name": "any", "key": "drift/1",
            "kind": "drift", "severity": "warning", "title": "x drifts", "told": told, "raised": 1, "seen": 1, "sightings": 1,
            "opened": 1, "acknowledged_by": "", "resolved": SystemClock().now(), "posted": "[]",
        },
        "monitoring_actions": {
            "id": action, "project": project, "alert": alert, "monitor": monitor, "kind": "roll-back", "state": "done",
            "words": "", "wanted": "{}", "wisher": "{}", "at": 1, "decided_by": "",
        },
    }  # fmt: skip
    with connection:
        for table, row in rows.items():
            places = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", [*row.values()])
    connection.close()
    return {"alert": alert, "alert_action": action}


def _furnish_lifecycle(platform: RunningPlatform, project: str, holder: str) -> dict[str, Any]:
    """A pipeline that triggers may start, a run of it that made a version of a model and waits for somebody to agree, and
    a gate that was run."""
    call, pipeline = platform.call, f"pipeline-{project}"
    call(CREATE_MODEL, CreateModel(project=project, model=PIPED))
    made = Step(name="made", kind="operation", operation="version.create", arguments={"model": PIPED, "holder": holder})
    ask = Step(name="ask", kind="approval", question=f"Go on with {project}?", after=("made",))
    call(APPLY_PIPELINE, Apply(project=project, pipeline=pipeline, definition=Definition(steps=(made, ask))))
    wish = Trigger(kind="schedule", cron="0 0 29 2 *")
    call(SET_TRIGGER, SetTrigger(project=project, pipeline=pipeline, trigger="by-itself", wish=wish))
    called = SetTrigger(project=project, pipeline=pipeline, trigger="called", wish=Trigger(kind="webhook"))
    run = call(START_RUN, StartRun(project=project, pipeline=pipeline)).id
    while call(SHOW_RUN, OneRun(project=project, run=run)).steps[-1].state != "asking":
        time.sleep(0.05)
    call(APPLY_GATES, ApplyGates(project=project, gates=(Gate(name="signed", kind="signature"),)))
    gates = call(RUN_GATES, RunGates(project=project, model=MODEL, version=1))
    return {
        "pipeline": pipeline,
        "trigger": "by-itself",
        "hook": call(SET_TRIGGER, called).hook,
        "pipeline_run": run,
        "gate": "signed",
        "batch_of_gates": gates.batch,
        "gate_run": gates.items[0].id,
    }


def _rows(project: str) -> bytes:
    return f"of,at\n{project},2024-11-15T09:00:00Z\n".encode()


def _furnish_view(call: Any, project: str, dataset: str) -> dict[str, Any]:
    """A feature view over a dataset, whose values are kept for serving."""
    view, count = f"view-{project}", Feature(name="count", function="count")
    call(
        APPLY_VIEW,
        ApplyView(project=project, view=view, dataset=dataset, keys=(Key(column="of"),), event="at", features=(count,)),
    )
    call(MATERIALISE, Materialise(project=project, view=view))
    return {"view": view}


def _tar(project: str) -> bytes:
    written, content = io.BytesIO(), f"files of {project}".encode()
    with tarfile.open(fileobj=written, mode="w") as tar:
        entry = tarfile.TarInfo("main.py")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def samples_for(operation: Operation[Any, Any], things: dict[str, Any], about: str) -> dict[str, Any]:
    """Values for fields that mean one thing here and another there."""
    found = {
        "kind": "run",
        "thing": things["run"],
        "whom": "vera",
        "verdict": "approve",
        "path": f"/projects/{about}/runs/{things['run']}",
        "status": "FINISHED",
        "started": 1,
        "parts": ({"part": 1, "size": 1, "digest": "0" * 64},),
        "params": ({"key": "a", "value": "b"},),
        "tags": ({"key": "a", "value": "b"},),
        "description": "described",
        "alias": "champion",
        "stage": "Staging",
        "arms": ({"revision": 1, "share": 10_000},),
        "options": {},
        "label": "attacker-made",
        "file": "model.onnx",
        "number": 1,
        "url": "",
        "workers": 1,
        "serial": 0,
        "seconds": 1.0,
    }
    if operation.name.startswith(("job.", "queue.")):
        found |= {"spec": {"command": ["true"], "queue": CLOSED}, "scenario": {}, "queues": ({"name": CLOSED},)}
    found |= _dataset_samples(operation, things)
    if operation.name.startswith("feature."):
        found |= _feature_samples(operation, things, about)
    if operation.name.startswith("secret."):
        found |= {"name": things["job_secret"], "value": "x"}
    found |= _serving_samples(operation, things)
    found |= _monitoring_samples(operation, things)
    found |= _lifecycle_samples(operation, things)
    if operation.name.startswith("logged-model."):
        found |= {"model": things["logged_model"], "status": "READY"}
    if operation.name in ("lineage.graph", "version.find"):
        found |= {"kind": "version", "id": things["version_id"]}
    if operation.name == "model.as-of":
        found["at"] = things["seen"]
    return found


def _dataset_samples(operation: Operation[Any, Any], things: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if operation.name.startswith("dataset."):
        found |= {"version": "1", "part": things["dataset_part"], "tag": "tagged", "piece": 2, "pieces": 1}
        found |= {"version": "quarantined"} if operation.name == "dataset.findings" else {}
        found |= {"sql": f'SELECT * FROM "{things["dataset"]}"', "renames": {"of": "from"}, "other": "1", "checks": ()}
    if operation.name in ("dataset.derive", "dataset.find-derived"):
        found |= {"dataset": "derived", "inputs": (things["dataset"],), "code": "0" * 64}
    if operation.name.startswith(("place.", "dataset.register")):
        found |= {"place": "nowhere", "table": "sales/orders", "kind": "parquet"}
        found |= {"kind": "folder", "address": {"folder": "/nowhere"}, "projects": ()} if "place." in operation.name else {}
    return found


def _serving_samples(operation: Operation[Any, Any], things: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if operation.name.startswith(("endpoint.", "plane.")):
        found |= {"model": SERVED, "key": things["endpoint_key"]}
    if operation.name.startswith("batch."):
        found |= {"model": SERVED, "alias": "", "on": things["dataset"], "into": "scored", "batch": things["batch"]}
    if operation.name.startswith(("optimisation.", "variant.")):
        found |= _optimisation_samples(things)
    if operation.name.startswith("plane."):
        found |= {"revision": things["revision_id"], "version": "1"}
    return found


def _monitoring_samples(operation: Operation[Any, Any], things: dict[str, Any]) -> dict[str, Any]:
    if operation.name.startswith("channel."):
        return {"kind": "webhook", "url": "https://hooks.example.com/"}
    if operation.name.startswith("monitor."):
        return {"column": "x", "reference": things["dataset"]}
    return {
        "alert.decide": {"action": things["alert_action"], "agree": True},
        "label.add": {"labels": ({"id": "a call", "truth": 1.0},)},
        "abtest.create": {"design": {"candidates": ({"revision": 2},)}},
        "abtest.plan": {"design": {"candidates": ({"revision": 2},)}},
    }.get(operation.name, {})


def _lifecycle_samples(operation: Operation[Any, Any], things: dict[str, Any]) -> dict[str, Any]:
    if operation.name.startswith("pipeline."):
        about_model = operation.name == "pipeline.find-maker"
        return {
            "run": things["pipeline_run"],
            "step": "ask",
            "item": -1,
            "agree": True,
            "event": "paid",
            "of": "",
            "definition": {"steps": ({"name": "end", "kind": "value", "arguments": {"value": 1}},)},
            "wish": {"kind": "model", "about": MODEL},
            "parameters": {},
            "model": PIPED,
            "version": 1 if about_model else 0,
        }
    if operation.name.startswith("gate."):
        return {
            "run": things["gate_run"],
            "batch": things["batch_of_gates"],
            "gates": ({"name": "signed", "kind": "signature"},) if operation.name == "gate.apply" else ("signed",),
            "source": "",
            "about": "licence",
            "file": "model.onnx",
            "told": {},
        }
    return {}


def _optimisation_samples(things: dict[str, Any]) -> dict[str, Any]:
    numbers = (
        "drop",
        "times",
        "rows_per_s",
        "p50_ms",
        "p50_low",
        "p50_high",
        "p99_ms",
        "p99_low",
        "p99_high",
        "joules",
        "cost",
    )
    measures = dict.fromkeys(numbers, 1.0) | {"batch": 1, "size": 1, "memory": 1, "energy": "estimated"}
    return {
        "model": SERVED,
        "version": 1,
        "alias": "",
        "on": things["dataset"],
        "variant": "int8",
        "host": {"kind": "any", "shown": "any"},
        "profile": {"family": "mlp", "parameters": 1, "opset": 18, "operators": ()},
        "baseline": measures,
        "measures": measures,
        "original_measures": measures,
        "task": "classes",
        "rows": (1, 1, 1),
        "candidates": (),
        "outcome": "dropped",
        "groups": ({"rows": 1000, "both": 1000},),
        "agreement": 1.0,
        "apart": 0.0,
    }


def _feature_samples(operation: Operation[Any, Any], things: dict[str, Any], about: str) -> dict[str, Any]:
    defined = operation.name == "feature.apply"
    return {
        "keys": ({"column": "of"},),
        "event": "at",
        "labels": things["dataset"],
        "time": "at",
        "into": "training",
        "features": ({"name": "count", "function": "count"},) if defined else (things["view"],),
        "entities": ({"of": about},),
    }
