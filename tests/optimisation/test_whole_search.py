"""Making a model small from end to end: a platform that runs, a job of its queue, models that were trained, certificates that
are checked by hand, variants that answer through an endpoint."""

import base64
import hashlib
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from falaj.base.values import value
from falaj.client.http import Client
from falaj.client.optimising.rows import sliced
from falaj.governance.identity.member_operations import ADD_MEMBER, AddMember
from falaj.governance.identity.operations import CREATE_USER, CreateUser
from falaj.governance.roles import Role
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession
from falaj.optimisation.making.running import answers
from falaj.optimisation.making.values import Made, Sample
from falaj.optimisation.operations.optimisations import Optimisation
from falaj.optimisation.operations.variants import SHOW_CERTIFICATE, OneVariant
from tests.optimisation import trained
from tests.optimisation.searches import (
    awaited,
    begun,
    by_name,
    certificate_file,
    kill_while,
    register,
    run,
    said_by,
    said_through,
    said_under_load,
    save,
    searched,
    shown,
)
from tests.serving.site import PROJECT, Site, until


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"), workers="1")
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(site: Site) -> Client:
    return site.platform.client(timeout=120)


def certificate(client: Client, model: str, variant: str) -> Any:
    return client.call(SHOW_CERTIFICATE, OneVariant(project=PROJECT, model=model, version=1, variant=variant))


# A model of two inputs that eight bits ruin in one slice, and a search that is killed


@value
class Interrupted:
    """What was there when the job was killed, and what the second one came to."""

    before: Optimisation
    after: Optimisation
    first_job: str
    second_job: str


ON_METERS = (
    *("meter:1", "--on", "meters", "--held-out", "meters-later", "--truth", "fails", "--slice", "unit"),
    *("--max-drop", "1%", "--max-slice-drop", "10%", "--only", "fold", "--only", "int8", "--budget", "240"),
)


@pytest.fixture(scope="module")
def meter(client: Client) -> None:
    register(client, "meter", "model.onnx", trained.meter_model())
    save(client, "meters", trained.meters(), 5000)


@pytest.fixture(scope="module")
def interrupted(site: Site, client: Client, meter: None) -> Interrupted:
    optimisation, first = begun(site, *ON_METERS)
    kill_while(site, client, optimisation, first, fold="made", int8="begun")
    assert awaited(client, first).state == "failed"
    before = shown(client, optimisation)
    told = json.loads(run(site, "optimise", "--resume", optimisation, "--memory", "2GiB", "--json"))
    assert awaited(client, told["job"]["id"]).state == "done", run(site, "job", "logs", told["job"]["id"])
    return Interrupted(before=before, after=shown(client, optimisation), first_job=first, second_job=told["job"]["id"])


def test_a_killed_search_goes_on_with_what_is_not_settled_and_makes_nothing_twice(
    site: Site, client: Client, interrupted: Interrupted
) -> None:
    before, after = by_name(interrupted.before), by_name(interrupted.after)
    assert (interrupted.before.state, interrupted.after.state) == ("open", "done")
    assert before["int8"].state == "begun"
    assert (after["fold"].files, after["fold"].notes) == (before["fold"].files, before["fold"].notes)
    assert outcomes(site, interrupted.after) == {"fold": ["made"], "int8": ["made"]}
    logs = run(site, "job", "logs", interrupted.second_job)
    assert "int8:" in logs
    assert "fold: certified" in logs
    assert "times as fast" not in "".join(line for line in logs.splitlines() if line.startswith("fold:"))
    found = certificate(client, "meter", "fold")
    assert found.valid
    assert found.document["job"] == interrupted.second_job


def outcomes(site: Site, found: Optimisation) -> dict[str, list[str]]:
    """All that the ledger knows to have become of each candidate."""
    leaves = json.loads(run(site, "audit", "log", "--operation", "variant.record", "--json"))["items"]
    told = [(one["facts"]["variant"], one["facts"]["outcome"]) for one in leaves]
    return {variant.name: [outcome for id, outcome in told if id == variant.id] for variant in found.variants}


def test_a_variant_that_is_ruined_in_one_slice_is_refused_by_a_signed_certificate(
    site: Site, interrupted: Interrupted, tmp_path: Path
) -> None:
    int8 = by_name(interrupted.after)["int8"]
    assert int8.state == "refused"
    told, path = certificate_file(site, tmp_path, "meter", "int8", status=1)
    assert "NOT fit, not valid" in told
    said = signed(path)
    assert said["verdict"]["fit"] is False
    (reason,) = said["verdict"]["reasons"]
    assert reason == int8.reason
    assert reason.startswith("In the slice unit=1 it is worse by ")
    over_all, slices = said["quality"]["overall"], {one["name"]: one for one in said["quality"]["slices"]}
    assert over_all["ok"]
    assert (slices["unit=0"]["ok"], slices["unit=1"]["ok"]) == (True, False)
    assert float(slices["unit=1"]["drop"]) > 0.2
    told, path = certificate_file(site, tmp_path, "meter", "fold", status=0)
    assert "fit, valid" in told
    assert signed(path)["verdict"] == {"fit": True, "reasons": []}


def signed(path: Path) -> Any:
    """What a certificate says, if whoever has the key beside it signed it."""
    envelope = json.loads(path.read_text())["dsseEnvelope"]
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    key: Any = load_pem_public_key(path.with_suffix(".pem").read_bytes())
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), message, ECDSA(SHA256()))
    return json.loads(payload)["predicate"]


def test_the_best_variant_of_a_model_with_several_inputs_answers_through_an_endpoint(
    site: Site, client: Client, interrupted: Interrupted
) -> None:
    run(site, "deploy", "meter:1", "--name", "meter-best", "--variant", "best")
    asked = trained.part(trained.meters(), 6000, 6100)
    given = {"readings": asked["readings"], "unit": asked["unit"][:, None]}
    variant, (said,) = said_through(site, "meter-best", given)
    assert variant == "fold"
    (directly,) = said_by(client, by_name(interrupted.after)["fold"], *given.values())
    np.testing.assert_allclose(said, directly, atol=1e-6)
    assert (said.argmax(axis=1) == asked["fails"]).mean() > 0.95


def test_what_was_refused_is_deployed_by_name_with_a_remark_that_says_why(site: Site, interrupted: Interrupted) -> None:
    told = run(site, "deploy", "meter:1", "--name", "meter-refused", "--variant", "int8")
    assert "The variant 'int8' of meter version 1 has no certificate that holds: In the slice unit=1 it is worse by" in told


# Numbers, and a student


@pytest.fixture(scope="module")
def taught(site: Site, client: Client) -> Optimisation:
    columns = trained.FEATURES
    register(client, "amount", "model.onnx", trained.amount_model(96, 96, epochs=40), columns)
    register(client, "pupil", "model.onnx", trained.amount_model(32, epochs=150), columns)
    save(client, "amounts", trained.amounts(), 3000)
    asked = ("--on", "amounts", "--held-out", "amounts-later", "--truth", "amount", "--max-drop", "10%")
    wanted = ("--only", "distil:given", "--student", "pupil:1", "--budget", "120")
    return searched(site, client, "amount:1", *asked, *wanted)


def test_a_regression_is_certified_by_its_mean_error(client: Client, taught: Optimisation) -> None:
    (student,) = taught.variants
    assert taught.task == "numbers"
    assert student.state == "certified", student.reason
    later = trained.part(trained.amounts(), 3000, 5000)
    rows = np.column_stack([later[name] for name in trained.FEATURES]).astype(np.float32)
    error = np.abs(said_by(client, student, rows)[0][:, 0] - later["amount"]).mean()
    found = certificate(client, "amount", "distil-given")
    over_all = found.document["quality"]["overall"]
    assert (found.task, over_all["rows"]) == ("numbers", 2000)
    assert float(over_all["variant"]) == pytest.approx(error, rel=1e-4)
    assert float(over_all["drop"]) == pytest.approx(error / float(over_all["original"]) - 1, abs=1e-4)
    assert float(over_all["high"]) < 0.1
    assert found.document["task"]["label"] == "amount"


def test_a_given_student_is_taught_and_certified_with_whose_it_was(client: Client, taught: Optimisation) -> None:
    (student,) = taught.variants
    assert student.state == "certified", student.reason
    assert student.notes[0].startswith("Distilled into the given student with ")
    assert student.measures is not None
    assert taught.baseline is not None
    assert student.measures.size < taught.baseline.size / 4
    found = certificate(client, "amount", "distil-given")
    assert found.document["variant"]["student"]["of"] == "pupil v1"
    assert found.document["variant"]["student"]["files"] == {one.name: one.digest for one in taught.student}


# Trees


def test_lightgbm_as_tables_of_bits_is_certified_served_and_stands_on_the_ladder(site: Site, client: Client) -> None:
    register(client, "order", "model.lgb", trained.order_model(), trained.FEATURES)
    save(client, "orders", trained.orders(), 3000)
    asked = ("--on", "orders", "--held-out", "orders-later", "--truth", "late", "--max-drop", "1%")
    found = searched(site, client, "order:1", *asked, "--only", "trees-masks", "--budget", "60")
    (masks,) = found.variants
    assert masks.state == "certified", masks.reason
    assert masks.best
    rows = np.column_stack([trained.orders()[name] for name in trained.FEATURES])[3000:3100]
    assert [name for name, _ in clearly_faster(found)] == ["trees-masks"]
    check_served(site, client, found, "trees-masks", {"input": rows})


def check_served(site: Site, client: Client, found: Optimisation, variant: str, given: dict[str, np.ndarray]) -> None:
    """`best` is this one and answers as its files do; behind the original stand those that are clearly faster."""
    model = found.model
    told = run(site, "deploy", f"{model}:1", "--name", f"{model}-best", "--variant", "best")
    measures = by_name(found)[variant].measures
    assert measures is not None
    assert ("slower than the original" in " ".join(told.split())) is (measures.times < 1)
    answered, said = said_through(site, f"{model}-best", given)
    assert answered == variant
    for one, directly in zip(said, said_by(client, by_name(found)[variant], *given.values()), strict=True):
        np.testing.assert_allclose(one, directly, atol=1e-6)
    told = run(site, "deploy", f"{model}:1", "--name", f"{model}-ladder", "--ladder")
    rungs = clearly_faster(found)
    listed = ", ".join(f"{name} ({times:.1f} times the original)" for name, times in rungs)
    assert (f"these answer, one after the other: {listed}." if rungs else "so it has no ladder") in " ".join(told.split())
    (revision,) = site.show(f"{model}-ladder").revisions
    assert [rung.name for rung in revision.ladder][1:] == [name for name, _ in rungs]


def check_falls_back(site: Site, client: Client, found: Optimisation, given: dict[str, np.ndarray]) -> None:
    """Where more is asked than the original can do in time, a certified form answers, and the original once that has passed."""
    name = f"{found.model}-pressed"
    run(site, "deploy", f"{found.model}:1", "--name", name, "--ladder", "--latency-ms", "20")
    said = said_under_load(site, name, given)
    rungs = set(said) - {"original"}
    assert rungs
    assert rungs <= {rung for rung, _ in clearly_faster(found)}
    for rung in rungs:
        directly = said_by(client, by_name(found)[rung], *given.values())
        for one, other in zip(said[rung], directly, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    until(lambda: said_through(site, name, given)[0] == "original")


def clearly_faster(found: Optimisation) -> list[tuple[str, float]]:
    """Certified variants, the slowest first, each a fifth faster than the one before it."""
    rungs: list[tuple[str, float]] = []
    certified = [(one.name, one.measures.times) for one in found.variants if one.certificate and one.measures is not None]
    for name, times in sorted(certified, key=lambda one: one[1]):
        if times >= 1.2 * (rungs[-1][1] if rungs else 1.0):
            rungs.append((name, times))
    return rungs


# Taking a model elsewhere


def test_a_network_leaves_as_openvino_and_as_litert_each_with_its_certificate(
    site: Site, client: Client, tmp_path: Path
) -> None:
    register(client, "leaving", "model.onnx", trained.picture_model())
    save(client, "leaves", trained.pictures(), 900)
    asked = ("--on", "leaves", "--held-out", "leaves-later", "--truth", "digit", "--max-drop", "2%", "--budget", "120")
    found = searched(site, client, "leaving:1", *asked, "--only", "openvino", "--only", "litert")
    assert {one.name: one.state for one in found.variants} == {"openvino": "certified", "litert": "certified"}
    drawn = Sample(inputs=(trained.pictures()["pictures"][900:1000],))
    (wanted,) = answers(Made(runtime="onnx", file="m", files={"m": trained.picture_model()}), drawn)
    for name, suffixes in (("openvino", {".xml", ".bin"}), ("litert", {".tflite"})):
        folder = tmp_path / name
        run(site, "model", "export", "leaving", "1", name, str(folder))
        said = json.loads(base64.b64decode(json.loads((folder / "certificate.json").read_text())["dsseEnvelope"]["payload"]))
        assert signed(folder / "certificate.json") == said["predicate"]
        assert said["predicate"]["verdict"]["fit"] is True
        files = {one["name"]: (folder / one["name"]).read_bytes() for one in said["subject"]}
        assert {Path(one).suffix for one in files} == suffixes
        for one in said["subject"]:
            assert hashlib.sha256(files[one["name"]]).hexdigest() == one["digest"]["sha256"]
        (main,) = (one for one in files if not one.endswith(".bin"))
        (told,) = answers(Made(runtime=name, file=main, files=files), drawn)
        np.testing.assert_allclose(told, wanted, atol=1e-3)


def test_what_only_python_could_load_leaves_as_plain_onnx(site: Site, client: Client, tmp_path: Path) -> None:
    register(client, "pickled", "model.pkl", trained.pickled_model(), trained.FEATURES)
    save(client, "sales", trained.amounts(), 3000)
    asked = ("--on", "sales", "--held-out", "sales-later", "--truth", "amount", "--max-drop", "2%", "--budget", "60")
    found = searched(site, client, "pickled:1", *asked, "--only", "onnx")
    assert any(one.startswith("Converted from scikit-learn Ridge") and "real rows" in one for one in found.remarks)
    assert {one.name: one.state for one in found.variants} == {"onnx": "certified"}
    run(site, "model", "export", "pickled", "1", "onnx", str(tmp_path))
    (path,) = tmp_path.glob("*.onnx")
    rows = np.column_stack([trained.amounts()[name] for name in trained.FEATURES])[3000:3100].astype(np.float32)
    (said,) = answers(Made(runtime="onnx", file="m", files={"m": path.read_bytes()}), Sample(inputs=(rows,)))
    wanted = pickle.loads(trained.pickled_model()).predict(rows)
    np.testing.assert_allclose(said.ravel(), wanted.ravel(), rtol=1e-3)


# Rows that are not worth calibrating on


def test_rows_of_another_distribution_are_not_calibrated_on_and_the_search_says_so(
    site: Site, client: Client, meter: None
) -> None:
    elsewhere = trained.part(trained.meters(), 0, 2000)
    elsewhere["readings"] = elsewhere["readings"] * 3 + 5000
    save(client, "elsewhere", elsewhere, 1000)
    asked = ("--on", "elsewhere", "--held-out", "meters-later", "--truth", "fails", "--only", "int8", "--budget", "60")
    found = searched(site, client, "meter:1", *asked)
    (int8,) = found.variants
    assert int8.state == "skipped"
    assert int8.reason.startswith("Its calibration would be worth nothing. The rows to calibrate on are not distributed like")
    assert any(remark in int8.reason for remark in found.remarks)


def test_long_values_of_a_slice_are_called_the_same_in_every_try() -> None:
    (name,) = set(sliced("t", np.array(["x" * 150], dtype=object)))
    assert name == "t=" + "x" * 100 + "...6628"


# Other families, with the candidates that suit them; a search that is killed twice


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_a_convolution_net_in_eight_bits_pruned_and_by_openvino_is_certified_and_served(site: Site, client: Client) -> None:
    register(client, "picture", "model.onnx", trained.picture_model())
    save(client, "pictures", trained.pictures(), 900)
    asked = ("--on", "pictures", "--held-out", "pictures-later", "--truth", "digit", "--max-drop", "1%", "--budget", "300")
    wanted = [word for step in ("int8", "openvino", "prune:0.3") for word in ("--only", step)]
    found = searched(site, client, "picture:1", *asked, *wanted, "--certify", "6")
    assert found.profile is not None
    assert found.profile.family == "conv"
    names = {"int8", "int8-openvino", "openvino", "prune-0.3-int8-openvino", "prune-0.3-int8"}
    assert set(by_name(found)) == names
    certified = [one for one in found.variants if one.state == "certified"]
    assert {"openvino", "int8"} <= {one.name for one in certified}
    assert all(one.reason for one in found.variants if one not in certified)
    (best,) = (one for one in found.variants if one.best)
    check_served(site, client, found, best.name, {"pictures": trained.pictures()["pictures"][900:1000]})


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_a_transformer_in_eight_bits_by_openvino_is_certified_and_served(site: Site, client: Client) -> None:
    register(client, "sentence", "model.onnx", trained.sentence_model())
    save(client, "sentences", trained.sentences(), 2000)
    asked = ("--on", "sentences", "--held-out", "sentences-later", "--truth", "kind", "--max-drop", "1%", "--budget", "300")
    found = searched(site, client, "sentence:1", *asked, "--only", "openvino", "--only", "openvino-int8")
    assert found.profile is not None
    assert found.profile.family == "transformer"
    assert {one.name: one.state for one in found.variants} == {"openvino-int8": "certified", "openvino": "certified"}
    (best,) = (one for one in found.variants if one.best)
    asked_about = {"tokens": trained.sentences()["tokens"][2000:2100]}
    check_served(site, client, found, best.name, asked_about)
    check_falls_back(site, client, found, {"tokens": trained.sentences()["tokens"][2000:2400]})


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_a_slow_model_has_an_end_and_a_result(site: Site, client: Client) -> None:
    register(client, "scan", "model.onnx", trained.scan_model())
    save(client, "scans", trained.scans(), 200)
    asked = ("--on", "scans", "--held-out", "scans-later", "--truth", "sound", "--max-drop", "10%", "--budget", "180")
    found = searched(site, client, "scan:1", *asked, "--only", "fold")
    assert found.state == "done"
    assert found.baseline is not None
    assert found.baseline.p50_ms > 50
    (fold,) = found.variants
    assert fold.state == "certified", fold.reason
    assert any("for a row: candidates are compared on" in remark for remark in found.remarks)


@pytest.mark.heavy
def test_rows_that_are_all_the_same_are_not_calibrated_on_and_the_search_says_so(
    site: Site, client: Client, meter: None
) -> None:
    still = {name: np.repeat(values[:1], 400, axis=0) for name, values in trained.meters().items()}
    save(client, "still", still, 200)
    asked = ("--on", "still", "--held-out", "meters-later", "--truth", "fails", "--budget", "60")
    found = searched(site, client, "meter:1", *asked, "--only", "int8", "--only", "fold")
    variants = by_name(found)
    assert variants["int8"].state == "skipped"
    assert "All rows to calibrate on are the same" in variants["int8"].reason
    assert any("All rows to calibrate on are the same" in one for one in found.remarks)
    assert variants["fold"].state in ("certified", "refused")


@pytest.mark.heavy
def test_a_search_killed_in_every_candidate_is_tried_again_by_the_queue_and_by_hand(
    site: Site, client: Client, meter: None
) -> None:
    optimisation, job = begun(site, *ON_METERS, "--retries", "1")
    kill_while(site, client, optimisation, job, fold="begun")
    kill_while(site, client, optimisation, job, fold="made", int8="begun")
    assert awaited(client, job).state == "failed"
    again = json.loads(run(site, "job", "retry", job, "--json"))["job"]["id"]
    assert awaited(client, again).state == "done", run(site, "job", "logs", again)
    found = shown(client, optimisation)
    assert {one.name: one.state for one in found.variants} == {"fold": "certified", "int8": "refused"}
    assert outcomes(site, found) == {"fold": ["made"], "int8": ["made"]}
    assert client.call(
        SHOW_CERTIFICATE, OneVariant(project=PROJECT, model="meter", version=1, variant=by_name(found)["fold"].id)
    ).valid


# Last, for the platform starts anew under another profile


def test_what_was_refused_is_not_deployed_under_the_regulated_profile(site: Site, interrupted: Interrupted) -> None:
    call = site.platform.call
    run(site, "model", "promote", "meter", "1")
    run(site, "project", "update", PROJECT, "--zone", "home")
    code = call(CREATE_USER, CreateUser(name="mona", zone="home")).code
    call(ADD_MEMBER, AddMember(project=PROJECT, member="mona", role=Role.ENGINEER))
    token = call(OPEN_SESSION, OpenSession(code=code)).token
    site.platform.restart(FALAJ_PLATFORM_PROFILE="regulated")
    as_mona = {"FALAJ_TOKEN": token, "FALAJ_PLATFORM_PROFILE": "regulated"}
    deploy = ("deploy", "meter:1", "--name", "meter-strict", "--wait", "0", "--variant")
    told = run(site, *deploy, "int8", status=1, **as_mona)
    assert "may not answer for 'meter-strict' as the variant 'int8': it has no certificate that holds" in told
    assert "deployment.uncertified" in told
    run(site, *deploy, "fold", **as_mona)
