"""Where a version's files come from, in every way that clients write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.api.mlflow.sources import External, Files, Registered, source_of
from falaj.base.errors import Invalid

RUN = "0123456789abcdef" * 2
MODEL = f"m-{RUN}"
HOST = "falaj.example:5000"


@pytest.mark.parametrize(
    ("text", "holder", "folder"),
    [
        (f"runs:/{RUN}/model", RUN, "model"),
        (f"runs:/{RUN}/deep/model/", RUN, "deep/model"),
        (f"runs:/{RUN}", RUN, ""),
        (f"models:/{MODEL}", MODEL, ""),
        (f"mlflow-artifacts:/7/{RUN}/artifacts/model", RUN, "model"),
        (f"mlflow-artifacts:/7/{RUN}/artifacts", RUN, ""),
        (f"mlflow-artifacts://{HOST}/7/{RUN}/artifacts/model", RUN, "model"),
        (f"mlflow-artifacts:/7/models/{MODEL}/artifacts", MODEL, ""),
        (f"mlflow-artifacts:/7/models/{MODEL}/artifacts/", MODEL, ""),
        (f"http://{HOST}/api/2.0/mlflow-artifacts/artifacts/7/{RUN}/artifacts/model", RUN, "model"),
        (f"https://{HOST}/mlflow/fraud/api/2.0/mlflow-artifacts/artifacts/7/models/{MODEL}/artifacts", MODEL, ""),
    ],
)
def test_a_run_or_a_logged_model_is_found_in_it(text: str, holder: str, folder: str) -> None:
    assert source_of(text, HOST) == Files(holder=holder, folder=folder)


def test_another_version_is_found_in_it() -> None:
    assert source_of("models:/fraud/3", HOST) == Registered(model="fraud", version=3)
    assert source_of("models:/my model/12", HOST) == Registered(model="my model", version=12)
    assert source_of("models:/my%20model/12", HOST) == Registered(model="my model", version=12)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/model",
        "/data/model",
        "file:///data/model",
        "hdfs://namenode/model",
        f"http://elsewhere.example/api/2.0/mlflow-artifacts/artifacts/7/{RUN}/artifacts/model",
        f"mlflow-artifacts://elsewhere.example/7/{RUN}/artifacts/model",
        "anything at all",
    ],
)
def test_all_else_is_text(text: str) -> None:
    assert source_of(text, HOST) == External()


@pytest.mark.parametrize(
    "text",
    [
        f"runs:/{RUN}/../other",
        f"runs:/{RUN}/%2e%2e/other",
        f"runs:/{RUN}/%252e%252e/other",
        f"runs:/{RUN}/..%2fother",
        f"runs:/{RUN}/..\\other",
        f"mlflow-artifacts:/7/{RUN}/artifacts/../../x",
        "s3://bucket/../other",
        "file:///data/%2e%2e/etc/passwd",
        "%25252525252525252525252e",
    ],
)
def test_no_source_climbs(text: str) -> None:
    with pytest.raises(Invalid, match=r"climb|encoded"):
        source_of(text, HOST)


@pytest.mark.parametrize(
    "text",
    ["runs:/", "runs:/not-an-id/model", "models:/fraud", "models:/fraud@champion", "mlflow-artifacts:/", f"runs:/{RUN}/a//x"],
)
def test_what_should_name_artifacts_and_does_not_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="names no artifacts"):
        source_of(text, HOST)


@given(st.text(max_size=60))
def test_a_folder_never_leaves_its_holder(text: str) -> None:
    for start in (f"runs:/{RUN}/", f"mlflow-artifacts:/1/{RUN}/artifacts/"):
        try:
            found = source_of(start + text, HOST)
        except Invalid:
            continue
        assert isinstance(found, Files)
        assert found.holder == RUN
        assert ".." not in found.folder.split("/")
        assert not found.folder.startswith("/")
