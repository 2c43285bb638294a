"""Endpoints that look features up before they predict: deployed over a real platform, asked over REST and gRPC."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper, numpy_helper

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.client.datasets import save_dataset
from falaj.datasets.operations.classes import CLASSIFY_COLUMNS, Classified, ClassifyColumns
from falaj.datasets.operations.features import (
    APPLY_VIEW,
    AUDIT_VIEW,
    DELETE_VIEW,
    MATERIALISE,
    ApplyView,
    AuditView,
    DeleteView,
    FeatureAudit,
    Materialise,
)
from falaj.governance.identity import operations as identity
from falaj.lineage.operations import SHOW_GRAPH, ShowGraph
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations.endpoints import (
    CONFIGURE,
    DEPLOY_REVISION,
    PROMOTE_REVISION,
    READ_LOGS,
    READ_TRAFFIC,
    SPLIT_TRAFFIC,
    Configure,
    Deploy,
    Options,
    PromoteRevision,
    ReadLogs,
    ReadTraffic,
    Split,
)
from falaj.serving.operations.words import Arm
from falaj.tables.joining.views import Feature, Key
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.serving.graphs import times
from tests.serving.site import PROJECT, Site, until

COLUMNS = {"amount": "double", "clicks": "long", "last_amount": "double", "spent": "double"}
LOOKED = ("by-user:clicks", "by-user:last_amount", "by-user:spent")
CLICKS = [
    {"user": user, "happened": f"2024-11-0{day}T09:00:00Z", "amount": amount, "country": country}
    for user, day, amount, country in ((7, 1, 1.5, "AE"), (7, 2, 2.5, "OM"), (8, 3, 4.0, None))
]


def mlmodel(columns: dict[str, str]) -> bytes:
    inputs = json.dumps([{"type": kind, "name": name, "required": True} for name, kind in columns.items()])
    return f"flavors:\n  onnx:\n    data: model.onnx\nsignature:\n  inputs: '{inputs}'\n".encode()


def register(site: Site, model: str, content: bytes, columns: dict[str, str]) -> int:
    call = site.platform.call
    call(CREATE_MODEL, CreateModel(project=PROJECT, model=model))
    run = call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    for name, file in (("model.onnx", content), ("MLmodel", mlmodel(columns))):
        call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=f"model/{name}"), chunks=iter((file,)))
    return int(call(CREATE_VERSION, CreateVersion(project=PROJECT, model=model, holder=run, folder="model")).version)


def repeats() -> bytes:
    """Gives back the text it is given."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["country"], ["same"])],
        "test",
        [helper.make_tensor_value_info("country", TensorProto.STRING, ["rows", 1])],
        [helper.make_tensor_value_info("same", TensorProto.STRING, ["rows", 1])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Site(tmp_path_factory.mktemp("site"), workers="1")
    table = pa.Table.from_pylist(CLICKS)
    happened = table.column("happened").cast(pa.timestamp("us", "UTC"))
    table = table.set_column(1, "happened", happened)
    save_dataset("clicks", table, project=PROJECT, client=made.platform.client())
    features = (
        Feature(name="clicks", function="count"),
        Feature(name="last_amount", column="amount"),
        Feature(name="spent", column="amount", function="sum"),
        Feature(name="country", column="country"),
    )
    view = ApplyView(
        project=PROJECT, view="by-user", dataset="clicks", keys=(Key(column="user"),), event="happened", features=features
    )
    made.platform.call(APPLY_VIEW, view)
    register(made, "times", times(2.0), COLUMNS)
    register(made, "repeats", repeats(), {"country": "string"})
    with pytest.raises(Conflict, match="was not materialised yet"):
        made.deploy("early", "times", 1, features=("by-user",))
    made.platform.call(MATERIALISE, Materialise(project=PROJECT, view="by-user"))
    made.deploy("scores", "times", 1, features=("by-user",))
    yield made
    made.close()


def predict(site: Site, endpoint: str, **said: Any) -> Any:
    with site.http(site.token(endpoint)) as http:
        answer = http.post(f"/v2/endpoints/{endpoint}/predict", json=said)
    return answer.json() | {"status": answer.status_code}


def test_records_with_keys_are_joined_with_what_the_store_knows_in_one_request(site: Site) -> None:
    assert site.show("scores").revisions[0].features == tuple(
        f"by-user@1:{name}" for name in ("clicks", "last_amount", "spent")
    )
    said = predict(site, "scores", records=[{"user": 7, "amount": 1.0}, {"user": 8, "amount": 2.0}, {"user": 9, "amount": 3.0}])
    assert said["predictions"][:2] == [[2.0, 4.0, 5.0, 8.0], [4.0, 2.0, 8.0, 8.0]]
    assert said["predictions"][2] == [6.0, 0.0, "NaN", "NaN"]  # nobody is known by 9: no clicks, and everything else is null
    assert said["unknown_entities"] == 1
    by_rows = predict(site, "scores", columns=["amount", "user"], rows=[[1.0, 7]])
    assert by_rows["predictions"] == [[2.0, 4.0, 5.0, 8.0]]
    assert "unknown_entities" not in by_rows


@pytest.mark.parametrize("kind", [tritonclient.http, tritonclient.grpc])
def test_tensors_of_keys_are_inputs_by_either_face_and_metadata_says_which(site: Site, kind: Any) -> None:
    headers, client = {"authorization": f"Bearer {site.token('scores')}"}, kind.InferenceServerClient(site.url[7:])
    told = client.get_model_metadata("scores", headers=headers)
    inputs = told["inputs"] if isinstance(told, dict) else [{"name": one.name, "datatype": one.datatype} for one in told.inputs]
    assert [(one["name"], one["datatype"]) for one in inputs] == [("user", "INT64"), ("amount", "FP32")]
    users, amounts = kind.InferInput("user", [2, 1], "INT64"), kind.InferInput("amount", [2, 1], "FP32")
    users.set_data_from_numpy(np.array([[8], [9]], np.int64))
    amounts.set_data_from_numpy(np.array([[1.0], [0.5]], np.float32))
    answer = client.infer("scores", [users, amounts], headers=headers)
    assert answer.as_numpy("y")[0].tolist() == [2.0, 2.0, 8.0, 8.0]
    assert answer.as_numpy("y")[1][:2].tolist() == [1.0, 0.0]
    parameters = answer.get_response()
    told_unknown = (
        parameters["parameters"]["unknown_entities"]
        if isinstance(parameters, dict)
        else parameters.parameters["unknown_entities"].int64_param
    )
    assert told_unknown == 1
    client.close()


def test_what_is_looked_up_cannot_be_given_and_what_is_wrong_is_told(site: Site) -> None:
    given = predict(site, "scores", records=[{"user": 7, "amount": 1.0, "spent": 3.0}])
    assert (given["status"], "'spent', which this endpoint looks up by itself" in given["error"]) == (400, True)
    assert "lacks 'user'" in predict(site, "scores", records=[{"amount": 1.0}])["error"]
    assert "'user' is INT64 and cannot be" in predict(site, "scores", records=[{"user": "you", "amount": 1.0}])["error"]
    assert "'user' is INT64 and cannot be null" in predict(site, "scores", records=[{"user": None, "amount": 1.0}])["error"]


def test_a_null_is_refused_where_the_model_takes_none_and_deploying_says_so(site: Site) -> None:
    request = Deploy(project=PROJECT, endpoint="countries", model="repeats", version=1, features=("by-user:country",))
    made = site.platform.call(DEPLOY_REVISION, request)
    assert "Looks up country by user in by-user@1." in made.remarks
    assert any("Where country is null" in remark for remark in made.remarks)
    site.settled(made.endpoint)
    assert predict(site, "countries", records=[{"user": 7}])["predictions"] == ["OM"]
    for user in (8, 9):
        refused = predict(site, "countries", records=[{"user": 7}, {"user": user}])
        assert refused["status"] == 400
        assert f"'country' of 'by-user@1' is null for user={user} (row 1)" in refused["error"]


def test_what_does_not_go_together_is_refused_when_it_is_deployed(site: Site) -> None:
    with pytest.raises(NotFound, match="has no feature nothing"):
        site.deploy("wrong", "times", 1, features=("by-user:nothing",))
    with pytest.raises(Invalid, match="The model takes no column country"):
        site.deploy("wrong", "times", 1, features=("by-user:country",))
    register(site, "words", times(1.0), COLUMNS | {"spent": "string"})
    with pytest.raises(Invalid, match="'spent' of 'by-user@1' is float64, and the model's column of that name is string"):
        site.deploy("wrong", "words", 1, features=("by-user",))
    with pytest.raises(Conflict, match="as a canary this revision has to take the same"):
        site.deploy("scores", "times", 1, features=(), mode="canary")
    assert site.deploy("scores", "times", 1, mode="canary").revisions[-1].features  # as before, where nothing is said


def backwards() -> bytes:
    """Twice what it is given, the last column first."""
    nodes = [helper.make_node("Gather", ["x", "places"], ["turned"], axis=1), helper.make_node("Mul", ["turned", "k"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 4])],
        [numpy_helper.from_array(np.array([3, 2, 1, 0]), "places"), numpy_helper.from_array(np.array(2.0, np.float32), "k")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def test_a_shadow_looks_up_by_itself_what_its_model_takes(site: Site) -> None:
    register(site, "backwards", backwards(), dict(reversed(COLUMNS.items())))
    site.deploy("turned", "times", 1, features=("by-user",))
    site.deploy("turned", "backwards", 1, features=("by-user",), mode="shadow", share=10_000)
    assert predict(site, "turned", user=7, amount=1.0)["predictions"] == [[2.0, 4.0, 5.0, 8.0]]

    def shadow() -> Any:
        found = site.platform.call(READ_TRAFFIC, ReadTraffic(project=PROJECT, endpoint="turned")).points
        return next((one for one in found if one.revision == 2 and one.compared), None)

    until(shadow)
    assert (shadow().compared, shadow().differed) == (1, 0)


def test_what_looks_nothing_up_does_not_stand_beside_what_does(site: Site) -> None:
    """It would be asked with columns it does not take, or see what was looked up for another."""
    keyed = {"user": "long", "amount": "double", "clicks": "long", "last_amount": "double"}
    register(site, "keyed", times(3.0), keyed)
    site.deploy("spending", "times", 1, features=("by-user:spent",))
    for mode in ("shadow", "canary", "ab"):
        with pytest.raises(Conflict, match="only one looks features up"):
            site.deploy("spending", "keyed", 1, features=(), mode=mode, share=5000)
    site.deploy("spending", "keyed", 1, features=())
    halves = (Arm(revision=1, share=5000), Arm(revision=2, share=5000))
    with pytest.raises(Conflict, match="only one looks features up"):
        site.platform.call(SPLIT_TRAFFIC, Split(project=PROJECT, endpoint="spending", arms=halves))


def test_nobody_goes_back_to_a_revision_whose_view_was_deleted(site: Site) -> None:
    call = site.platform.call
    view = ApplyView(
        project=PROJECT,
        view="passing",
        dataset="clicks",
        keys=(Key(column="user"),),
        event="happened",
        features=(Feature(name="spent", column="amount", function="sum"),),
    )
    call(APPLY_VIEW, view)
    call(MATERIALISE, Materialise(project=PROJECT, view="passing"))
    site.deploy("returning", "times", 1, features=("passing",))
    for _ in range(2):
        site.deploy("returning", "times", 1, features=())
    call(DELETE_VIEW, DeleteView(project=PROJECT, view="passing"))
    with pytest.raises(Conflict, match="Revision 1 looks up 'passing@1', which was deleted"):
        call(PROMOTE_REVISION, PromoteRevision(project=PROJECT, endpoint="returning", revision=1))
    sent = {"amount": 1.0, "clicks": 1, "last_amount": 1.0, "spent": 1.0}
    assert predict(site, "returning", **sent)["predictions"] == [[2.0, 2.0, 2.0, 2.0]]


def test_a_call_is_logged_with_its_keys_and_lineage_leads_to_the_view(site: Site) -> None:
    call = site.platform.call
    site.deploy("logged", "times", 1, features=("by-user",))
    site.settled(
        call(CONFIGURE, Configure(project=PROJECT, endpoint="logged", options=Options(log_share=10_000, masked=("spent",))))
    )
    assert predict(site, "logged", user=7, amount=1.0)["predictions"] == [[2.0, 4.0, 5.0, 8.0]]
    until(lambda: call(READ_LOGS, ReadLogs(project=PROJECT, endpoint="logged")).items)
    inputs = json.loads(call(READ_LOGS, ReadLogs(project=PROJECT, endpoint="logged")).items[0].inputs)
    assert inputs == {"entities": {"user": [7]}, "x": [[1.0, 2.0, 2.5, None]]}
    endpoint = site.show("logged")
    graph = call(SHOW_GRAPH, ShowGraph(project=PROJECT, kind="endpoint", id=endpoint.id, direction="up"))
    assert {(node.kind, node.label) for node in graph.nodes} >= {("view", "by-user@1"), ("dataset", "clicks v1")}


def test_what_an_endpoint_looked_up_is_audited_with_the_view(site: Site) -> None:
    call = site.platform.call
    made = tuple(Feature(name=name, column="amount", function="sum") for name in ("clicks", "last_amount", "spent"))
    rows = pa.table({"user": [7], "happened": pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC")), "amount": [0.1]})
    save_dataset("visits", rows, project=PROJECT, client=site.platform.client())
    view = ApplyView(
        project=PROJECT, view="audited", dataset="visits", keys=(Key(column="user"),), event="happened", features=made
    )
    call(APPLY_VIEW, replace(view, log=1.0))
    call(MATERIALISE, Materialise(project=PROJECT, view="audited"))
    register(site, "halves", times(0.5), COLUMNS | {"clicks": "double"})
    site.deploy("watched", "halves", 1, features=("audited",))
    options = Options(log_share=10_000, masked=("spent",))
    site.settled(call(CONFIGURE, Configure(project=PROJECT, endpoint="watched", options=options)))

    def audited(entities: int) -> FeatureAudit:
        until(lambda: call(AUDIT_VIEW, AuditView(project=PROJECT, view="audited")).entities >= entities)
        found: FeatureAudit = call(AUDIT_VIEW, AuditView(project=PROJECT, view="audited"))
        return found

    predict(site, "watched", records=[{"user": 7, "amount": 1.0}, {"user": 9, "amount": 1.0}])
    assert (audited(2).entities, audited(2).causes) == (2, {})
    save_dataset("visits", rows, project=PROJECT, client=site.platform.client())
    predict(site, "watched", user=7, amount=1.0)
    found = audited(3)
    assert [(one.feature, one.served, one.offline, one.cause) for one in found.differences] == [
        (name, 0.1, 0.2, "stale")
        for name in ("clicks", "last_amount")  # what is masked was not kept
    ]


def test_the_command_line_deploys_with_features_and_says_what_to_send(site: Site) -> None:
    falaj = site.platform.falaj
    told = falaj("deploy", "times:1", "--name", "by-command", "--feature", "by-user:spent")
    assert told.returncode == 0, told.stderr
    assert "Looks up spent by user in by-user@1." in told.stdout
    assert '{"user": 1, "amount": 1.0, "clicks": 1, "last_amount": 1.0}' in told.stdout
    assert "by-user@1:spent" in falaj("endpoint", "show", "by-command").stdout
    assert "by-command" in falaj("lineage", "show", "view", "by-user").stdout
    assert "is needed by endpoint 'by-command'" in falaj("feature", "delete", "by-user", "--yes").stderr
    assert falaj("deploy", "times:1", "--name", "by-command", "--no-features").returncode == 0
    assert site.show("by-command").revisions[-1].features == ()
    assert "cannot be had together" in falaj("deploy", "times:1", "--feature", "by-user", "--no-features").stderr


def test_predictions_with_lookups_outlive_the_control_plane(site: Site) -> None:
    site.deploy("lasting", "times", 1, features=("by-user",))
    token = site.token("lasting")
    site.platform.kill()
    try:
        with site.http(token) as http:
            said = http.post("/v2/endpoints/lasting/predict", json={"user": 8, "amount": 1.0}).json()
        assert said["predictions"] == [[2.0, 2.0, 8.0, 8.0]]
    finally:
        site.platform.start()


def test_who_may_not_see_a_column_cannot_deploy_what_is_made_of_it(site: Site) -> None:
    call = site.platform.call
    call(
        CLASSIFY_COLUMNS,
        ClassifyColumns(project=PROJECT, dataset="clicks", columns=(Classified(column="amount", kind="personal"),)),
    )
    token = call(
        identity.CREATE_TOKEN,
        identity.CreateToken(label="deployer", scopes=("endpoint.deploy", "dataset.read", "model.read"), projects=(PROJECT,)),
    ).token
    request = Deploy(project=PROJECT, endpoint="hidden", model="times", version=1, features=("by-user",))
    with pytest.raises(Forbidden, match="columns that you may not see \\(amount\\)"):
        site.platform.client(token).call(DEPLOY_REVISION, request)


def test_what_is_classified_is_kept_out_of_the_log_by_itself(site: Site) -> None:
    call = site.platform.call
    call(
        CLASSIFY_COLUMNS,
        ClassifyColumns(project=PROJECT, dataset="clicks", columns=(Classified(column="user", kind="personal"),)),
    )
    site.deploy("private", "times", 1, features=("by-user",))
    site.settled(call(CONFIGURE, Configure(project=PROJECT, endpoint="private", options=Options(log_share=10_000))))
    assert predict(site, "private", user=7, amount=1.0)["predictions"] == [[2.0, 4.0, 5.0, 8.0]]
    until(lambda: call(READ_LOGS, ReadLogs(project=PROJECT, endpoint="private")).items)
    inputs = json.loads(call(READ_LOGS, ReadLogs(project=PROJECT, endpoint="private")).items[0].inputs)
    assert inputs == {"entities": {"user": "masked"}, "x": [[1.0, 2.0, None, None]]}
