"""A model made smaller through the real queue: made, measured, certified, deployed; and nobody else's word counts."""

import base64
import hashlib
import json
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

import falaj as sdk
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.client.http import Client
from falaj.jobs.operations.jobs import CANCEL_JOB, SHOW_JOB, SUBMIT_JOB, Cancel, OneJob, Setting, Spec, Submit
from falaj.jobs.operations.words import Resources
from falaj.lineage.operations import SHOW_GRAPH, ShowGraph
from falaj.optimisation.jobs import spec_of
from falaj.optimisation.operations.optimisations import (
    FINISH_OPTIMISATION,
    LIST_OPTIMISATIONS,
    PLAN_OPTIMISATION,
    SHOW_OPTIMISATION,
    Finish,
    Limits,
    ListOptimisations,
    OneOptimisation,
    Optimisation,
    PlanOptimisation,
)
from falaj.optimisation.operations.variants import (
    BEGIN_VARIANT,
    CERTIFY_VARIANT,
    DELETE_VARIANT,
    LIST_VARIANTS,
    PUT_VARIANT_FILE,
    SHOW_CERTIFICATE,
    BeginVariant,
    ListVariants,
    OneVariant,
    PutVariantFile,
)
from tests.optimisation.shop import COLUMNS, customers, stocked
from tests.optimisation.test_judging import counts, evidence
from tests.serving.site import PROJECT, Site, until

ASKED = ("--on", "known", "--held-out", "later", "--truth", "left", "--slice", "country", "--max-drop", "1%")
CHURN = {"project": PROJECT, "model": "churn", "version": 1}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Site(tmp_path_factory.mktemp("site"), workers="1")
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(site: Site) -> Client:
    return stocked(site)


@pytest.fixture(scope="module")
def optimised(site: Site, client: Client) -> tuple[str, Optimisation]:
    """What the command printed, and what came of it."""
    told = run(site, "optimise", "churn:1", *ASKED, "--only", "int8", "--only", "fold", "--memory", "2GiB")
    listed = client.call(LIST_VARIANTS, ListVariants(**CHURN))
    found = client.call(SHOW_OPTIMISATION, OneOptimisation(project=PROJECT, optimisation=listed.items[0].optimisation))
    return told, found


def run(site: Site, *arguments: str, status: int = 0) -> str:
    """What the command printed; where it fails, why."""
    done = site.platform.falaj(*arguments)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def test_candidates_are_made_measured_and_the_best_certified(optimised: tuple[str, Optimisation]) -> None:
    told, found = optimised
    by_name = {one.name: one for one in found.variants}
    assert {"int8"} <= by_name.keys()
    int8 = by_name["int8"]
    assert int8.state == "certified"
    assert int8.measures is not None
    assert found.baseline is not None
    assert int8.measures.size < 0.5 * found.baseline.size
    assert int8.measures.p50_low <= int8.measures.p50_ms <= int8.measures.p50_high <= int8.measures.p99_ms * 1.001
    assert found.state == "done"
    assert found.rows == (4000, 1000, 4000)
    assert found.profile is not None
    assert found.profile.family == "mlp"
    assert any(one.startswith("MatMul") for one in found.profile.operators)
    assert "int8" in told
    assert "falaj deploy churn:1 --variant" in told


def test_a_certificate_says_on_which_rows_by_how_much_and_is_checked_without_the_platform(
    site: Site, client: Client, optimised: tuple[str, Optimisation], tmp_path: Any
) -> None:
    shown = run(site, "model", "certificate", "churn", "1", "int8")
    assert "fit, valid" in shown
    assert "country=sa" in shown
    (int8,) = (one for one in optimised[1].variants if one.name == "int8")
    assert json.loads(run(site, "model", "certificate", "churn", "1", int8.id, "--json"))["variant"]["id"] == int8.id
    run(site, "model", "export", "churn", "1", int8.id, str(tmp_path / "model"))
    envelope = json.loads((tmp_path / "model" / "certificate.json").read_text())["dsseEnvelope"]
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    key: Any = load_pem_public_key((tmp_path / "model" / "certificate.pem").read_bytes())
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), message, ECDSA(SHA256()))
    statement = json.loads(payload)
    for subject in statement["subject"]:
        assert hashlib.sha256((tmp_path / "model" / subject["name"]).read_bytes()).hexdigest() == subject["digest"]["sha256"]
    said = statement["predicate"]
    assert said["data"]["held_out"]["rows"] == 4000
    assert said["quality"]["overall"]["rows"] == 4000
    assert {one["name"] for one in said["quality"]["slices"]} == {"country=ae", "country=om", "country=sa"}
    assert said["quality"]["worst_slice"] in {"country=ae", "country=om", "country=sa"}
    assert float(said["quality"]["overall"]["high"]) < 0.01
    assert said["host"]["kind"]
    assert [said["latency"][side]["device"] for side in ("variant", "original")] == ["cpu", "cpu"]
    assert "the processor against the processor" in shown


def test_every_step_of_it_is_in_the_ledger_and_in_the_lineage(
    site: Site, client: Client, optimised: tuple[str, Optimisation]
) -> None:
    found = client.call(SHOW_CERTIFICATE, OneVariant(**CHURN, variant="int8"))
    leaves = json.loads(run(site, "audit", "log", "--operation", "variant.certify", "--json"))["items"]
    assert leaves[-1]["outcome"] == "done"
    version = optimised[1].version_id
    graph = client.call(SHOW_GRAPH, ShowGraph(project=PROJECT, kind="version", id=version, direction="down", depth=1))
    assert ("variant", found.variant.id) in {(node.kind, node.id) for node in graph.nodes}


def test_a_certified_variant_is_deployed_and_answers_as_the_original(
    site: Site, client: Client, optimised: tuple[str, Optimisation]
) -> None:
    site.deploy("plain", "churn", 1)
    site.deploy("fast", "churn", 1, variant="best")
    rows = customers()[0][5000:5050]
    records = [dict(zip(COLUMNS, map(float, row), strict=True)) for row in rows]
    said = {}
    for endpoint in ("plain", "fast"):
        with site.http(site.token(endpoint)) as http:
            answer = http.post(f"/v2/endpoints/{endpoint}/predict", json={"records": records}).json()
            said[endpoint] = [one["label"] for one in answer["predictions"]]
    assert np.mean(np.array(said["plain"]) == np.array(said["fast"])) >= 0.98


def plan(client: Client, **more: Any) -> Optimisation:
    wish = {"on": "known", "held_out": "later", "label": "left", "only": ("int8",), "limits": Limits(max_drop=0.01), **more}
    return client.call(PLAN_OPTIMISATION, PlanOptimisation(**CHURN, **wish))


def test_neither_a_person_nor_a_job_that_brings_something_along_says_what_a_variant_is_worth(
    site: Site, client: Client
) -> None:
    planned = plan(client)
    spec = spec_of(planned, Spec(command=("python",), resources=Resources(cpus=1, memory_mib=1024), retries=0))
    poisoned = Spec(
        command=spec.command,
        resources=spec.resources,
        permissions=spec.permissions,
        retries=0,
        variables=(Setting(name="PYTHONPATH", value="/tmp"),),
    )
    job = client.call(SUBMIT_JOB, Submit(project=PROJECT, spec=poisoned)).job.id
    until(lambda: client.call(SHOW_JOB, OneJob(project=PROJECT, job=job)).state == "failed")
    assert "platform's own program" in run(site, "job", "logs", job)
    named = {"project": PROJECT, "optimisation": planned.id, "job": job, "variant": "int8"}
    for operation, request in (
        (FINISH_OPTIMISATION, Finish(project=PROJECT, optimisation=planned.id, job=job)),
        (BEGIN_VARIANT, BeginVariant(**named)),
    ):
        with pytest.raises(Forbidden, match="platform's own program"):
            client.call(operation, request)
    with pytest.raises(Forbidden, match="platform's own program"):
        client.call(PUT_VARIANT_FILE, PutVariantFile(**named, file="model.onnx"), chunks=[b"forged"])
    lies = evidence(counts("", 100_000, 0, 0))
    with pytest.raises(Forbidden, match="platform's own program"):
        client.call(CERTIFY_VARIANT, type(lies)(**{name: getattr(lies, name) for name in _fields(lies)} | named))


def _fields(it: Any) -> list[str]:
    return list(type(it).__dataclass_fields__)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--on", "known", "--held-out", "known"), "what is learnt from cannot be judged on"),
        (("--on", "known", "--truth", "nope"), "no column nope"),
        (("--on", "known", "--truth", "x1"), "is a column that the model takes"),
        (("--on", "nowhere"), "no dataset 'nowhere'"),
        (("--on", "known", "--only", "wibble:3"), "There is no step 'wibble:3'"),
        (("--on", "known", "--max-drop", "much"), "written like 0.5%"),
        (("--on", "known", "--target", "moon"), "cpu, gpu or edge"),
        (("--on", "known", "--env", "A=1", "--host", "x:1"), "does not take --env, --host"),
        (
            ("--on", "known", "--secret", "key", "--lock", "nowhere.txt", "--image", "i"),
            "does not take --secret, --lock, --image",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_planned(
    site: Site, client: Client, options: tuple[str, ...], says: str
) -> None:
    done = site.platform.falaj("optimise", "churn:1", *options)
    assert done.returncode in (1, 2)
    assert says in done.stderr


def test_programs_are_told_the_optimisation_with_its_job(site: Site, client: Client) -> None:
    told = json.loads(run(site, "optimise", "churn:1", "--on", "known", "--truth", "left", "--only", "fold", "--json"))
    assert told["job"]["spec"]["command"][-1] == told["optimisation"]["id"]
    assert told["job"]["spec"]["resources"]["memory_mib"] == 4096
    run(site, "job", "cancel", told["job"]["id"], "--yes")


def test_what_is_for_gpus_asks_for_one_and_leaves_nothing_open_where_there_is_none(site: Site, client: Client) -> None:
    before = still_open(client)
    asked = ("optimise", "churn:1", "--on", "known", "--truth", "left", "--only", "fold", "--target", "gpu")
    assert "No host of its zones has a GPU" in run(site, *asked, status=2)
    with pytest.raises(Invalid, match="No host of its zones has a GPU"):
        sdk.optimise("churn:1", target="gpu", **FROM_PYTHON, client=client)
    assert still_open(client) == before
    told = json.loads(run(site, *asked, "--gpus", "0", "--json"))["job"]
    run(site, "job", "cancel", told["id"], "--yes")
    assert told["spec"]["resources"]["gpus"] == 0


FROM_PYTHON: Any = {"on": "known", "label": "left", "project": PROJECT}


def test_from_python_a_student_is_named_as_well(site: Site, client: Client) -> None:
    asked = sdk.optimise("churn:1", target="gpu", gpus=0, student="churn:1", **FROM_PYTHON, client=client)
    client.call(CANCEL_JOB, Cancel(project=PROJECT, job=asked.submitted.job.id))
    assert asked.optimisation.student == asked.optimisation.files
    with pytest.raises(Invalid, match="by its number, such as churn:3"):
        sdk.optimise("churn:1", student="churn@champion", **FROM_PYTHON, client=client)


def still_open(client: Client) -> int:
    listed = client.call(LIST_OPTIMISATIONS, ListOptimisations(project=PROJECT)).items
    return sum(one.state == "open" for one in listed)


def test_a_dry_run_leaves_nothing_open(site: Site, client: Client) -> None:
    before = still_open(client)
    assert "default" in run(site, "optimise", "churn:1", "--on", "known", "--truth", "left", "--only", "fold", "--dry-run")
    assert still_open(client) == before


def test_a_search_that_is_abandoned_while_its_job_works_ends_that_job_well(site: Site, client: Client) -> None:
    told = json.loads(
        run(site, "optimise", "churn:1", *ASKED, "--only", "prune:0.3", "--only", "prune:0.5", "--memory", "2GiB", "--json")
    )
    id, job = told["optimisation"]["id"], OneJob(project=PROJECT, job=told["job"]["id"])

    def searched() -> Optimisation:
        return client.call(SHOW_OPTIMISATION, OneOptimisation(project=PROJECT, optimisation=id))

    until(lambda: any(one.state == "begun" for one in searched().variants), seconds=120)
    assert f"Job {job.job} works on optimisation {id} and is running" in run(site, "optimise", "--resume", id, status=2)
    assert "is abandoned" in run(site, "optimise", "--abandon", id)
    assert searched().state == "abandoned"
    until(lambda: client.call(SHOW_JOB, job).ended is not None, seconds=120)
    assert client.call(SHOW_JOB, job).state == "done"
    assert "The search was abandoned" in run(site, "job", "logs", job.job)
    assert {one.state for one in searched().variants} == {"dropped"}
    assert "is abandoned" in run(site, "optimise", "--resume", id, status=2)


def test_a_label_that_no_class_has_fails_the_job_with_the_labels(site: Site, client: Client) -> None:
    done = site.platform.falaj(
        "optimise", "churn:1", "--on", "known", "--truth", "country", "--retries", "0", "--only", "int8", "--memory", "2GiB"
    )
    assert done.returncode == 1
    assert "labels have" in done.stdout + done.stderr


def test_a_deleted_variant_is_gone_and_what_is_deployed_of_it_stays(
    site: Site, client: Client, optimised: tuple[str, Optimisation]
) -> None:
    site.deploy("kept", "churn", 1, variant="int8")
    client.call(DELETE_VARIANT, OneVariant(**CHURN, variant="int8"))
    with pytest.raises(NotFound):
        client.call(SHOW_CERTIFICATE, OneVariant(**CHURN, variant="int8"))
    with pytest.raises((NotFound, Conflict)):
        site.deploy("again", "churn", 1, variant="int8")
    records = [dict(zip(COLUMNS, map(float, customers()[0][0]), strict=True))]
    with site.http(site.token("kept")) as http:
        assert http.post("/v2/endpoints/kept/predict", json={"records": records}).status_code == 200
