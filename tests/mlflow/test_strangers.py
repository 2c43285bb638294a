"""Every endpoint of the face is held by identity: what answers a stranger is named here."""

import re

from falaj.api.mlflow.adapters import Adapter
from falaj.api.mlflow.table import ROUTES
from falaj.app.platform import OPERATIONS
from tests.app.running import RunningPlatform

# What a client asks before it has anything to say: which protocol is this, and are you there?
PUBLIC = {"/api/3.0/mlflow/server-info", "/api/3.0/mlflow/server-features", "/health", "/version", "/v1/traces"}


def test_a_stranger_is_answered_by_nothing_but_the_greeting(platform: RunningPlatform) -> None:
    answered = set()
    with platform.http() as http:
        for method, path, _ in ROUTES:
            address = re.sub(r"{\w+\*?}", "0" * 32, path)
            answer = http.request(method, f"/mlflow/default{address}", json=None if method == "GET" else {})
            assert answer.status_code in (200, 303, 400, 401, 403, 404, 429), path
            if answer.status_code == 200:
                answered.add(path)
    assert answered <= PUBLIC


def test_an_adapter_adapts_an_operation_of_the_platform() -> None:
    adapted = {endpoint.operation for _, _, endpoint in ROUTES if isinstance(endpoint, Adapter)}
    assert adapted
    assert adapted <= set(OPERATIONS)
