"""From what stock clients log to answers: converted, deployed, and asked with plain records, by real processes."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from falaj.base.errors import Conflict, Forbidden
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations.endpoints import DEPLOY_REVISION, Deploy
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.mlflow.clients import python_of
from tests.runtimes.hostile import pickled
from tests.serving.control.platform import ONNX, Platform
from tests.serving.site import PROJECT, Site, until

PATIENCE = 240.0
PYTHON = str(python_of("mlflow3"))


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Folders as clients log them, made once each."""
    folder = tmp_path_factory.mktemp("logged")

    def log(*names, client="mlflow3"):
        place = folder / client
        place.mkdir(exist_ok=True)
        if missing := [name for name in names if not (place / name).exists()]:
            subprocess.run([python_of(client), "-W", "ignore", "tests/serving/logged.py", place, *missing], check=True)
        return {name: (place / name, json.loads((place / f"{name}.json").read_text())) for name in names}

    return log


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("site"), workers="1", converter=PYTHON, python="true")
    yield made
    made.close()


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def register(site, model, folder):
    call = site.platform.call
    call(CREATE_MODEL, CreateModel(project=PROJECT, model=model))
    run = call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    for name, content in files_in(folder).items():
        call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=f"model/{name}"), chunks=iter((content,)))
    call(CREATE_VERSION, CreateVersion(project=PROJECT, model=model, holder=run, folder="model", run=run))


def deploy(site, model, **more):
    request = Deploy(project=PROJECT, endpoint=more.pop("endpoint", model), model=model, version=1, **more)
    return site.platform.client(timeout=PATIENCE).call(DEPLOY_REVISION, request)


def predictions(site, endpoint, records):
    with site.http(site.token(endpoint)) as http:
        response = http.post(f"/v2/endpoints/{endpoint}/predict", json={"records": records})
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


def answers_match(given, wanted):
    """Rows of one output, or of several by their names, against the original's."""
    for output, expected in wanted.items():
        found = [row[output] if isinstance(row, dict) else row for row in given]
        if isinstance(expected[0], str):
            assert found == expected
        else:
            np.testing.assert_allclose(np.array(found, float).reshape(np.shape(expected)), expected, rtol=1e-3, atol=1e-3)
    assert len(given) == len(expected)


def answers_like_the_original(site, model, folder, asked, *, remark, records=None, **more):
    register(site, model, folder)
    made = deploy(site, model, **more)
    assert any(remark in one for one in made.remarks), made.remarks
    site.settled(made.endpoint)
    answers_match(predictions(site, model, records or asked["records"]), asked["answers"])
    return made


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("pipeline", "Converted from scikit-learn Pipeline (model.skops)"),
        ("pipeline_cloudpickle", "Converted from scikit-learn Pipeline (model.pkl)"),
        ("regressor", "Converted from scikit-learn HistGradientBoostingRegressor"),
        ("lightgbm", "It answers with the probability of class 'yes' (the other is 'no')"),
        ("xgboost", "Converted from scikit-learn XGBRegressor"),
    ],
)
def test_what_was_logged_is_deployed_by_one_call_and_answers_like_the_original(site, logged, name, remark):
    all_at_once = logged(
        "pipeline", "pipeline_cloudpickle", "regressor", "lightgbm", "xgboost", "function", "unlike", "changed"
    )
    made = answers_like_the_original(site, name, *all_at_once[name], remark=remark)
    is_onnx = name not in ("lightgbm", "xgboost")  # which keep formats of their own
    assert any(one.startswith("ONNX opset 18, ") for one in made.remarks) is is_onnx


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["pipeline", "pipeline_cloudpickle", "regressor", "lightgbm", "xgboost"])
def test_what_an_older_mlflow_logged_is_deployed_as_well(site, logged, name):
    made = logged("pipeline", "pipeline_cloudpickle", "regressor", "lightgbm", "xgboost", client="mlflow2")
    answers_like_the_original(site, f"older-{name}".replace("_", "-"), *made[name], remark="Converted from")


@pytest.mark.heavy
@pytest.mark.parametrize(("network", "client"), [("torch", "mlflow3"), ("torch", "mlflow2"), ("torch_picture", "mlflow3")])
def test_a_pytorch_module_is_exported_with_any_number_of_rows(site, logged, network, client):
    folder, asked = logged(network, client=client)[network]
    name = f"{network}-{client}".replace("_", "-")
    register(site, name, folder)
    made = deploy(site, name)
    site.settled(made.endpoint)
    with site.http(site.token(name)) as http:
        tensor = http.get(f"/v2/models/{name}").json()["inputs"][0]["name"]
    answers_match(predictions(site, name, [{tensor: row} for row in asked["records"]]), asked["answers"])
    answers_match(predictions(site, name, [{tensor: asked["records"][0]}]), {"output": asked["answers"]["output"][:1]})


@pytest.mark.heavy
def test_an_operator_that_cannot_be_exported_is_named_with_the_line_that_made_it(site, logged):
    folder, _ = logged("torch_odd")["torch_odd"]
    register(site, "odd", folder)
    with pytest.raises(Conflict, match=rf"the operator aten\.linalg_eig\.default, made at \S*logged\.py:{told_line()},"):
        deploy(site, "odd")


def told_line(after="class Odd"):
    """Which line of the file that logs models says that it is told, behind these words."""
    lines = (Path(__file__).parent / "logged.py").read_text().splitlines()
    start = next(number for number, line in enumerate(lines, 1) if after in line)
    return next(number for number, line in enumerate(lines, 1) if number > start and "the line that is told" in line)


# TensorFlow, in an environment of its own


@pytest.fixture(scope="module")
def tensorflow_site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("site"), workers="1", converter=str(python_of("tensorflow")), python="true")
    yield made
    made.close()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("keras", "Converted from Keras Functional (model.keras), as its own code says; on 64 sample rows the two differ by "),
        ("keras_images", "Converted from Keras Sequential (model.keras)"),
        ("saved_model", "Converted from TensorFlow's SavedModel (tf2model)"),
    ],
)
def test_what_keras_and_tensorflow_left_behind_keeps_its_names_and_takes_any_number_of_rows(
    tensorflow_site, logged, name, remark
):
    folder, asked = logged("keras", "keras_images", "saved_model", "keras_odd", client="tensorflow")[name]
    model = name.replace("_", "-")
    made = answers_like_the_original(tensorflow_site, model, folder, asked, remark=remark)
    assert any(one.startswith("ONNX opset 18, ") for one in made.remarks)
    alone = {output: answers[:1] for output, answers in asked["answers"].items()}
    answers_match(predictions(tensorflow_site, model, asked["records"][:1]), alone)


@pytest.mark.heavy
def test_an_operator_of_tensorflow_that_onnx_has_not_is_named_and_the_model_runs_isolated(tensorflow_site, logged):
    folder, asked = logged("keras_odd", client="tensorflow")["keras_odd"]
    register(tensorflow_site, "singular", folder)
    line = told_line("class Singular")
    with pytest.raises(Conflict, match=rf"ONNX has no operator for Svd, made at \S*logged\.py:{line}.*--allow-python"):
        deploy(tensorflow_site, "singular")
    made = deploy(tensorflow_site, "singular", allow_python=True)
    tensorflow_site.settled(made.endpoint)
    answers_match(predictions(tensorflow_site, "singular", asked["records"]), asked["answers"])


def test_what_was_converted_once_is_not_converted_again(site, logged):
    folder, asked = logged("lightgbm")["lightgbm"]
    register(site, "once", folder)
    first = deploy(site, "once")
    again = deploy(site, "once", endpoint="again")
    (remark,) = again.remarks
    assert remark.startswith("Converted before, from LightGBM LGBMClassifier (model.skops), as its own code says; on ")
    assert first.remarks != again.remarks
    site.settled(again.endpoint)
    answers_match(predictions(site, "again", asked["records"]), asked["answers"])


# Where it cannot be converted


def test_code_of_ones_own_is_refused_with_the_way_out_and_runs_isolated_when_that_is_asked_for(site, logged):
    folder, asked = logged("function")["function"]
    register(site, "greets", folder)
    with pytest.raises(Conflict, match=r"no way is known to convert a model of flavour python_function.*--allow-python"):
        deploy(site, "greets")
    made = deploy(site, "greets", allow_python=True)
    assert "runs by its own Python code, in a sandbox" in made.remarks[0]
    site.settled(made.endpoint)
    answers_match(predictions(site, "greets", asked["records"]), asked["answers"])


def test_an_estimator_of_ones_own_says_what_the_converter_lacks_and_runs_isolated(site, logged):
    folder, asked = logged("unlike")["unlike"]
    register(site, "doubles", folder)
    with pytest.raises(Conflict, match=r"skl2onnx cannot convert this Doubles: .*--allow-python"):
        deploy(site, "doubles")
    made = deploy(site, "doubles", allow_python=True)
    site.settled(made.endpoint)
    answers_match(predictions(site, "doubles", asked["records"]), asked["answers"])


def test_a_model_that_answers_otherwise_once_converted_is_not_served_by_that(site, logged):
    folder, _ = logged("changed")["changed"]
    register(site, "changed", folder)
    with pytest.raises(Conflict, match=r"are up to .* away from the original's on 64 sample rows.*--allow-python"):
        deploy(site, "changed")


def test_a_plane_that_does_not_allow_users_code_says_so_and_serves_nothing(tmp_path, logged):
    folder, _ = logged("function")["function"]
    site = Site(tmp_path, workers="1", converter=PYTHON)
    try:
        register(site, "greets", folder)
        deploy(site, "greets", allow_python=True)
        until(lambda: any("[serving] python = true" in problem for problem in site.show("greets").problems))
        assert not site.show("greets").ready
    finally:
        site.close()


# Without a plane: what the control side says


@pytest.fixture
def platform(tmp_path):
    made = Platform(tmp_path)
    yield made
    made.close()


MLMODEL = b"""
flavors:
  python_function: {loader_module: mlflow.sklearn, model_path: model.pkl}
  sklearn: {pickled_model: model.pkl, serialization_format: cloudpickle}
"""


def hostile(code):
    return {"MLmodel": MLMODEL, "model.pkl": pickled(code)}


def test_a_library_that_is_missing_is_named_with_what_to_do(platform):
    platform.register(files=hostile("import no_such_library"))
    with pytest.raises(Conflict, match=r"'no_such_library' is not installed where models are converted.*\[serving\] converter"):
        platform.deploy(1)


def test_a_model_that_ends_its_process_is_told_about_and_nothing_is_deployed(platform):
    platform.register(files=hostile("import os; os._exit(9)"))
    with pytest.raises(Conflict, match="could not be converted for serving: It ended with 9"):
        platform.deploy(1)


def test_a_forged_answer_is_looked_into_like_any_upload(platform):
    forged = """
import io, json, os, tarfile
body = io.BytesIO()
with tarfile.open(fileobj=body, mode="w") as tar:
    for name, content in {"report.json": b'{"apart": 0}', "../../model.onnx": b"x" * 10}.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
for pipe in range(3, 16):
    try: os.write(pipe, body.getvalue())
    except OSError: pass
os._exit(0)
"""
    platform.register(files=hostile(forged))
    with pytest.raises(Conflict, match="no answer that can be read"):
        platform.deploy(1)


def test_what_a_models_own_code_says_of_it_is_short_plain_and_told_as_its_own(platform):
    said = {
        "apart": 0,
        "allowed": 0.001,
        "rows": 64,
        "made_from": "nothing\n\x1b[2Jfalaj: \u202eall is well" + "!" * 5000,
        "answers": "yes\r\n\x07no",
        "unfit": "\x00" * 9000,
    }
    forged = f"""
import io, os, tarfile
body = io.BytesIO()
with tarfile.open(fileobj=body, mode="w") as tar:
    for name, content in {{"report.json": {json.dumps(said).encode()!r}, "model.onnx": {ONNX!r}}}.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
for pipe in range(3, 16):
    try: os.write(pipe, body.getvalue())
    except OSError: pass
os._exit(0)
"""
    platform.register(files=hostile(forged))
    remarks = platform.deploy(1).remarks
    assert all(remark.isprintable() and len(remark) < 400 for remark in remarks)
    assert remarks[0].startswith("Converted from nothing [2Jfalaj: all is well!!!")
    assert "!..., as its own code says; on 64 sample rows the two differ by 0 at most" in remarks[0]
    assert remarks[1] == "It answers with yes no, as its own code says."


def test_files_that_are_no_model_are_not_even_tried(platform):
    platform.register(files={"model.pkl": pickled("import os; os._exit(9)")})
    with pytest.raises(Conflict, match="cannot be served as it is"):
        platform.deploy(1, allow_python=True)


def test_a_project_may_forbid_users_code(platform):
    platform.register(files=hostile("import os; os._exit(9)"))
    platform.policy(
        'forbid (principal, action in [Action::"deploy"], resource) '
        "when { context has deployment && context.deployment.runs_code };"
    )
    with pytest.raises(Forbidden, match=r"project/added.*needs no code: ONNX") as refused:
        platform.deploy(1, allow_python=True)
    assert refused.value.rule == "project/added"


def test_the_regulated_profile_forbids_users_code(tmp_path):
    made = Platform(tmp_path, profile="regulated")
    try:
        made.register(files=hostile("import os; os._exit(9)"))
        with pytest.raises(Forbidden) as refused:
            made.deploy(1, allow_python=True)
        assert refused.value.rule == "deployment.users-code"
    finally:
        made.close()
