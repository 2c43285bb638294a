"""Everything that can be reached is a declared operation, and everything declared can be reached."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route

from falaj.api.edge import Edge
from falaj.api.openapi import url_of
from falaj.app.home import Home
from falaj.app.platform import OPERATIONS, Platform, open_platform
from falaj.app.settings import Settings
from falaj.base.clock import SystemClock
from falaj.base.ids import new_id
from falaj.base.operation import Group, Operation, Record
from falaj.base.values import Nothing
from falaj.operations.dispatcher import Call
from falaj.operations.operations import OPENAPI, START

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    home = Home(path=tmp_path_factory.mktemp("platform") / "home")
    with open_platform(home, Settings(), clock=SystemClock()) as opened:
        yield opened


@pytest.fixture(scope="module")
def application(platform: Platform) -> Edge:
    return platform.application(hosts={"localhost"}, tls=False)


def reachable(routes: Iterable[BaseRoute], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every route that leads somewhere, through whatever is mounted: its address, and what answers there."""
    for route in routes:
        if isinstance(route, Mount):
            if route.routes:
                yield from reachable(route.routes, prefix + route.path)
            else:
                yield prefix + route.path, route.app
        elif isinstance(route, Route):
            yield f"{sorted(route.methods or ())} {prefix}{route.path}", route.endpoint
        else:
            yield f"{type(route).__name__} {prefix}{route}", route


def strangers(routes: Iterable[BaseRoute], bound: Iterable[Operation[Any, Any]]) -> list[str]:
    """Addresses whose endpoint does not stand for declared, bound operations alone."""
    known = {operation.name: operation for operation in bound}

    def is_known(endpoint: Any) -> bool:
        stands_for = getattr(endpoint, "operations", None) or (getattr(endpoint, "operation", None),)
        return all(isinstance(operation, Operation) and known.get(operation.name) is operation for operation in stands_for)

    return [address for address, endpoint in reachable(routes) if not is_known(endpoint)]


def test_every_route_is_a_declared_and_bound_operation(platform: Platform, application: Edge):
    routes = application._app.routes  # type: ignore[attr-defined]
    assert len(list(reachable(routes))) > len(OPERATIONS)
    assert strangers(routes, platform.dispatcher.operations) == []
    # Starlette would otherwise answer addresses that nobody declared with a redirect.
    assert application._app.rest.router.redirect_slashes is False  # type: ignore[attr-defined]


async def hidden(_http: Any) -> PlainTextResponse:
    return PlainTextResponse("hidden")


def undeclared() -> Any:
    async def endpoint(_http: Any) -> PlainTextResponse:
        return PlainTextResponse("undeclared")

    endpoint.operation = START  # type: ignore[attr-defined]
    return endpoint


@pytest.mark.parametrize(
    "planted",
    [
        Route("/v1/hidden", hidden),
        Route("/v1/start", undeclared(), methods=["POST"]),
        Mount("/nested", routes=[Mount("/deeper", routes=[Route("/hidden", hidden)])]),
        Mount("/application", app=hidden),
    ],
    ids=["plain", "not-bound", "nested", "mounted-application"],
)
def test_a_planted_route_is_found_by_the_walk(platform: Platform, application: Edge, planted: BaseRoute):
    routes = [*application._app.routes, planted]  # type: ignore[attr-defined]
    assert len(strangers(routes, platform.dispatcher.operations)) == 1


def test_every_declared_operation_is_bound_and_served_once(platform: Platform, application: Edge):
    declared = {operation.name for operation in OPERATIONS}
    assert len(declared) == len(OPERATIONS), "two operations share a name"
    assert {operation.name for operation in platform.dispatcher.operations} == declared
    api = [
        (method, route.path)
        for route in application._app.routes  # type: ignore[attr-defined]
        if getattr(route.endpoint, "operations", None) is None
        for method in route.methods - {"HEAD"}
    ]
    assert sorted(api) == sorted((operation.method, url_of(operation)) for operation in OPERATIONS)
    assert len(set(api)) == len(api)


def test_no_route_shadows_another(platform: Platform, application: Edge):
    """`tokens/exchange` must not be taken for a token called exchange."""
    for operation in OPERATIONS:
        path = url_of(operation).replace("{", "x").replace("}", "")
        scope = {"type": "http", "method": operation.method, "path": path, "headers": []}
        found = next(
            route
            for route in application._app.routes  # type: ignore[attr-defined]
            if route.matches(scope)[0].value == 2
        )
        assert found.endpoint.operation is operation, path


def test_every_operation_has_a_permission_in_the_policies_schema(platform: Platform):
    known = platform.gate.cedar.permissions
    for operation in OPERATIONS:
        assert known[operation.permission.name] == operation.permission, operation.name


def test_the_few_operations_that_need_nobody_are_these(platform: Platform):
    """Whoever makes another operation public has to say so here too."""
    public = {operation.name for operation in OPERATIONS if operation.permission.group is Group.PUBLIC}
    assert public == {
        "platform.health",
        "platform.ready",
        "platform.openapi",
        "identity.providers",
        "session.open",
        "session.oidc-start",
        "session.oidc-finish",
        "session.oidc-token",
        "console.asset",
        "console.sign-in",
        "pipeline.call-hook",
    }


@pytest.fixture(scope="module")
def document(platform: Platform) -> dict[str, Any]:
    call = Call(credentials=None, request_id=new_id(platform.clock.now()))
    return json.loads(b"".join(platform.dispatcher.call(OPENAPI, Nothing(), call).chunks))


def test_openapi_lists_every_operation_and_nothing_else(document: dict[str, Any]):
    listed = {(method.upper(), path): entry for path, entries in document["paths"].items() for method, entry in entries.items()}
    assert set(listed) == {(operation.method, url_of(operation)) for operation in OPERATIONS}
    for operation in OPERATIONS:
        entry = listed[operation.method, url_of(operation)]
        assert entry["operationId"] == operation.name
        assert entry["x-permission"] == operation.permission.name
        assert bool(entry["security"]) == (operation.permission.group is not Group.PUBLIC)
        named = {parameter["name"]: parameter for parameter in entry["parameters"]}
        assert {name for name, parameter in named.items() if parameter["in"] == "path"} == set(operation.path_fields)
        fields = set(operation.request.__dataclass_fields__)
        body = entry.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        assert (set(named) | set(body.get("properties", {}))) - {"Idempotency-Key"} == fields
        assert ("Idempotency-Key" in named) == (operation.record in (Record.CHANGE, Record.TELEMETRY))


def test_the_openapi_document_is_valid(document: dict[str, Any]):
    jsonschema_rs.validator_for(OPENAPI_31).validate(document)
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    text = json.dumps(document)
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert name in document["components"]["schemas"]


def test_the_documents_name_no_address_that_is_not_served(application: Edge):
    """`/v1/...` in README, ARCHITECTURE or docs must lead to a route."""
    routes = application._app.routes  # type: ignore[attr-defined]
    served = [re.compile(re.sub(r"\\{\w+\\}", r"[^/]+", re.escape(route.path)) + "$") for route in routes]
    pages = [REPOSITORY / "README.md", REPOSITORY / "ARCHITECTURE.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    assert any(page.exists() for page in pages)
    for page in pages:
        text = page.read_text() if page.exists() else ""
        for path in re.findall(r"(?<![\w.])(/v1/[\w./{}-]*[\w}]|/healthz|/readyz|/metrics|/openapi\.json)", text):
            assert any(pattern.match(path) for pattern in served), f"{page.name} speaks of {path}"


def test_a_broken_openapi_document_is_not_valid(document: dict[str, Any]):
    for broken in ({"openapi": 3}, {"info": {}}, {"paths": {"no-slash": {}}}, {"components": {"schemas": []}}):
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validator_for(OPENAPI_31).validate(document | broken)
