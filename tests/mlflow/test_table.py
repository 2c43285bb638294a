"""Which endpoint answers which path."""

import json
import re
import subprocess

import pytest

from falaj.api.mlflow.adapters import Adapter
from falaj.api.mlflow.table import ROUTES, find
from falaj.api.mlflow.unserved import FAMILIES, UNSERVED
from falaj.app.platform import OPERATIONS
from tests.mlflow.clients import CLIENTS, python_of, quiet_environment

# Declared by MLflow and no use here: storage is sealed, so nobody is handed its addresses.
LEFT_OUT = {"artifacts/presigned-upload-url", "artifacts/presigned-download-url", "presigned"}


@pytest.mark.parametrize("client", CLIENTS)
def test_every_endpoint_that_a_client_declares_is_served_or_left_out_on_purpose(client: str) -> None:
    asked = subprocess.run(
        [python_of(client), "tests/mlflow/flows/endpoints.py"], env=quiet_environment(), stdout=subprocess.PIPE, check=True
    )
    forgotten = []
    for method, path in json.loads(asked.stdout):
        concrete = re.sub(r"[{<][^}>]*[}>]", "x", path)
        places = [f"/api/{version}{concrete}" for version in ("2.0", "3.0")]
        if any(find(method, place, place.encode()).endpoint is not UNSERVED for place in places):
            continue
        family = concrete.split("/")[2] if concrete.startswith("/mlflow") else ""
        if family not in FAMILIES and not any(word in concrete for word in LEFT_OUT):
            forgotten.append((method, path))
    assert forgotten == []


def test_every_endpoint_calls_what_is_declared() -> None:
    names = {operation.name for operation in OPERATIONS}
    assert {endpoint.operation.name for _, _, endpoint in ROUTES if isinstance(endpoint, Adapter)} <= names


def test_no_path_is_served_twice() -> None:
    places = [(method, path) for method, path, _ in ROUTES]
    assert len(places) == len(set(places))


def test_open_parts_of_a_path_are_decoded_once() -> None:
    path = "/api/2.0/mlflow-artifacts/artifacts/0/run/artifacts/a%20b/c%252e"
    found = find("GET", "", path.encode())
    assert found.path == ("0", "run", "artifacts", "a b", "c%2e")


def test_a_key_may_hold_slashes_and_an_id_may_not() -> None:
    at = "/api/2.0/mlflow/logged-models/m-1"
    assert find("DELETE", "", f"{at}/tags/a/b".encode()).path == ("m-1", "a", "b")
    assert find("GET", "", f"{at}/extra".encode()).endpoint is UNSERVED
