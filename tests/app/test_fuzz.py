"""Property-based fuzzing of the whole interface, from the OpenAPI document that the platform itself serves.

Nothing is left out. What would end the fuzzing itself is called like everything else, on things made for that purpose:
a session is closed with a token of its own, the shredded and archived project is `doomed`, the disabled and erased person is
`expendable`. The caller's own name is never among the known ones, because disabling the caller ends every later call.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests import Session
from schemathesis import Case, CheckContext, GenerationMode, Response
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from falaj import __version__
from falaj.api.openapi import document_of, url_of
from falaj.app.platform import OPERATIONS
from falaj.base.operation import Group, Operation, Scope
from falaj.base.values import Nothing
from falaj.governance.identity.operations import (
    CREATE_SERVICE,
    CREATE_SERVICE_TOKEN,
    CREATE_TOKEN,
    CREATE_USER,
    CreateService,
    CreateServiceToken,
    CreateToken,
    CreateUser,
)
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from falaj.governance.sessions.operations import CLOSE_SESSION, LINK_SESSION
from falaj.governance.zones.operations import CREATE_ZONE, CreateZone
from falaj.storage.operations import BLOB_PUT, PutBlob
from tests.app.running import RunningPlatform
from tests.servers.postgres import PostgresServer

# Every answer must be a documented one, of a documented kind, and as its schema says; and no 5xx, none at all.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# Not `positive_data_acceptance`: what fits the schema may still name an unknown country or scope, and is refused with 400.
DOCUMENT = document_of(OPERATIONS, __version__)
BY_NAME: dict[str, Operation[Any, Any]] = {operation.name: operation for operation in OPERATIONS}
NAMES = sorted(BY_NAME)
# Reads without any field: there is nothing in them to get wrong but an unknown field.
WITHOUT_INPUT = {name for name in NAMES if BY_NAME[name].method == "GET" and not BY_NAME[name].request.__dataclass_fields__}
# One gate lets everybody in: in the plain tests, outsiders knock at every fourth operation (`attacks` has them at all).
GUARDED = [name for name in NAMES if BY_NAME[name].permission.group not in (Group.PUBLIC, Group.SELF)]
DESTRUCTIVE = {"key.shred", "project.delete"}
PERMIT = 'permit (principal in Role::"auditor", action == Action::"blob.show", resource);'
FORBID = 'forbid (principal in Role::"viewer", action in [Action::"write"], resource);'
FEW, MANY = 3, 60  # the heavy tests look for longer, and at random
LONG = 300  # characters: making a generator of longer texts takes seconds, so only the heavy tests do
COMPONENTS = "#/components/schemas/"


def refused(context: CheckContext, response: Response, case: Case) -> bool | None:
    """413 is a refusal too: of a body that is larger than any that would be read."""
    return None if response.status_code == 413 else negative_data_rejection(context, response, case)


class Arrangement:
    """A platform with something of everything in it, so that fuzzing gets further than 404."""

    def __init__(self, platform: RunningPlatform) -> None:
        self.platform = platform
        self.owner = platform.token
        self.session = Session()
        call = platform.call
        call(CREATE_ZONE, CreateZone(name="spare", country="AE"))
        for project in ("busy", "doomed"):
            call(CREATE_PROJECT, CreateProject(name=project, zones=("home",)))
        blobs = [call(BLOB_PUT, PutBlob(project="busy", name="b"), data=bytes([number])).id for number in range(4)]
        expendable = call(CREATE_USER, CreateUser(name="expendable"))
        service = call(CREATE_SERVICE, CreateService(project="busy", name="robot", role=Role.SCIENTIST))
        token = call(CREATE_SERVICE_TOKEN, CreateServiceToken(project="busy", service="robot"))
        own = call(CREATE_TOKEN, CreateToken(label="to be revoked"))
        self.outsider = platform.person("outsider")
        people = ["expendable", expendable.id, "robot"]
        self.known: dict[str, list[Any]] = {
            "project": ["busy", "default"],
            "zone": ["home", "spare", ""],
            "zones": [["home"], ["home", "spare"]],
            "blob": blobs,
            "user": people,
            "member": people,
            "principal": [*people, service.id, ""],
            "service": ["robot"],
            "token": [token.id, own.id],
            "role": [role.value for role in Role],
            "policy": ["first", "second"],
            "text": [PERMIT, FORBID],
            "purpose": ["ledger", "passes"],
            "scopes": [[], ["read"], ["blob.get", "write"]],
            "projects": [[], ["busy"]],
            "country": ["AE", "DE"],
            "storage": ["local"],
            "action": ["blob.get", "project.create"],
            "confirm": ["doomed"],
        }

    def throw_away_token(self) -> str:
        return str(self.platform.call(CREATE_TOKEN, CreateToken(label="thrown away")).token)

    def code(self) -> str:
        return str(self.platform.call(LINK_SESSION, Nothing()).code)

    def settle(self, case: Case, operation: Operation[Any, Any], data: st.DataObject) -> None:
        """Put known things where the generated ones would only name what does not exist."""
        places = [place for place in (case.path_parameters, case.query, case.body) if isinstance(place, dict)]
        for place in places:
            for name in place:
                options = ["doomed"] if name == "project" and operation.name in DESTRUCTIVE else self.known.get(name)
                if place is case.path_parameters and options:
                    options = [option for option in options if option]
                if options and data.draw(st.booleans(), label=f"known {name}"):
                    place[name] = data.draw(st.sampled_from(options), label=name)
        if operation.name == "session.open" and isinstance(case.body, dict) and "code" in case.body:
            case.body["code"] = self.code()


# Fuzzing sends more wrong tokens in a second than any person; the limit itself is tested elsewhere.
GENEROUS = "[limits]\ncalls_per_second = 100000\nstranger_calls_per_second = 100000\n"


@contextmanager
def arranged(home: Path, settings: str) -> Iterator[Arrangement]:
    platform = RunningPlatform(home, settings=settings)
    try:
        made = Arrangement(platform)
        yield made
        made.session.close()
    finally:
        platform.close()


@pytest.fixture(scope="module")
def arrangement(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arrangement]:
    with arranged(tmp_path_factory.mktemp("platform") / "home", GENEROUS) as made:
        yield made


@pytest.fixture(scope="module")
def arrangement_on_postgres(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer) -> Iterator[Arrangement]:
    """Postgres is stricter about what a text or a number may be."""
    url = postgres_server.create_database()
    with arranged(tmp_path_factory.mktemp("platform") / "home", f'{GENEROUS}[database]\nurl = "{url}"\n') as made:
        yield made
    postgres_server.drop_database(url)


def short(schema: Any, mode: GenerationMode) -> Any:
    """What fits has at most `LONG` characters, and what does not fit is so for another reason than its length."""
    if isinstance(schema, list):
        return [short(part, mode) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: short(part, mode) for name, part in schema.items()}
    if "$ref" in schema:
        made["$ref"] = schema["$ref"].replace(COMPONENTS, f"{COMPONENTS}{mode.value}-")
    if schema.get("type") == "string" and schema.get("maxLength", 0) > LONG:
        del made["maxLength"]
        if mode is GenerationMode.POSITIVE:
            made["maxLength"] = LONG
    return made


# Beside the schemas that answers are held against, those that requests are made from.
SCHEMAS = DOCUMENT["components"]["schemas"]
FOR_SHORT = {f"{mode.value}-{name}": short(schema, mode) for mode in GenerationMode for name, schema in SCHEMAS.items()}
WITH_SHORT = DOCUMENT | {"components": DOCUMENT["components"] | {"schemas": SCHEMAS | FOR_SHORT}}


def generated(operation: Operation[Any, Any], mode: GenerationMode, *, at_length: bool = False) -> Any:
    """Without `security`: tokens are sent by the test, not generated (forged ones have tests of their own)."""
    entry = dict(DOCUMENT["paths"][url_of(operation)][operation.method.lower()])
    del entry["security"]
    if not at_length:
        entry |= {name: short(entry[name], mode) for name in ("parameters", "requestBody") if name in entry}
    document = DOCUMENT if at_length else WITH_SHORT
    schema = schemathesis.openapi.from_dict(document | {"paths": {url_of(operation): {operation.method.lower(): entry}}})
    return schema[url_of(operation)][operation.method].as_strategy(generation_mode=mode)


def effort(examples: int, *, reproducible: bool) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=reproducible,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )


def fuzz(arrangement: Arrangement, name: str, mode: GenerationMode, examples: int = FEW) -> None:
    operation = BY_NAME[name]
    if operation.request is Nothing and mode is GenerationMode.POSITIVE:
        examples = 2

    @effort(examples, reproducible=examples != MANY)
    @given(case=generated(operation, mode, at_length=examples == MANY), data=st.data())
    def check(case: Case, data: st.DataObject) -> None:
        checks = list(CHECKS)
        if mode is GenerationMode.POSITIVE:
            arrangement.settle(case, operation, data)
        else:
            checks.append(refused)
        token = arrangement.throw_away_token() if operation is CLOSE_SESSION else arrangement.owner
        headers = {"authorization": f"Bearer {token}"}
        case.call_and_validate(arrangement.platform.url, arrangement.session, headers, checks=checks, timeout=30)

    check()


def test_the_document_that_is_fuzzed_is_the_one_that_is_served(arrangement: Arrangement):
    with arrangement.platform.http() as http:
        assert http.get("/openapi.json").json() == json.loads(json.dumps(DOCUMENT))


@pytest.mark.parametrize("name", NAMES)
def test_whatever_fits_the_schema_gets_a_documented_answer(arrangement: Arrangement, name: str):
    fuzz(arrangement, name, GenerationMode.POSITIVE)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_INPUT])
def test_whatever_does_not_fit_the_schema_is_refused(arrangement: Arrangement, name: str):
    fuzz(arrangement, name, GenerationMode.NEGATIVE)


@pytest.mark.parametrize("name", sorted(WITHOUT_INPUT))
def test_what_takes_no_input_takes_none(arrangement: Arrangement, name: str):
    with arrangement.platform.http(arrangement.owner) as http:
        assert http.request("GET", url_of(BY_NAME[name]), params={"unknown": "1"}).status_code == 400


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if place % 4 == 0 else pytest.mark.heavy) for place, name in enumerate(GUARDED)]
)
def test_outsiders_and_strangers_get_nothing_but_documented_refusals(arrangement: Arrangement, name: str):
    operation = BY_NAME[name]

    @effort(FEW // 2, reproducible=True)
    @given(case=generated(operation, GenerationMode.POSITIVE), data=st.data())
    def check(case: Case, data: st.DataObject) -> None:
        arrangement.settle(case, operation, data)
        headers = {"authorization": f"Bearer {arrangement.outsider}"}
        response = case.call_and_validate(arrangement.platform.url, arrangement.session, headers, checks=CHECKS, timeout=30)
        # 400 for what JSON Schema lets pass and we do not, such as 0.0 for an integer.
        assert response.status_code in (400, 403 if operation.scope is Scope.PLATFORM else 404)
        stranger = case.call_and_validate(arrangement.platform.url, arrangement.session, checks=CHECKS, timeout=30)
        assert stranger.status_code in (400, 401)

    check()


@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_INPUT])
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_fuzzing_for_long_finds_no_more(arrangement_on_postgres: Arrangement, name: str, mode: GenerationMode):
    fuzz(arrangement_on_postgres, name, mode, MANY)


def test_the_platform_is_whole_after_all_that(arrangement: Arrangement):
    """The last of this module on purpose: the fuzzed platform answers, its ledger verifies, and its log holds no failure."""
    check_whole(arrangement)


@pytest.mark.heavy
def test_the_platform_on_postgres_is_whole_after_all_that(arrangement_on_postgres: Arrangement):
    check_whole(arrangement_on_postgres)


def check_whole(arrangement: Arrangement) -> None:
    with arrangement.platform.http(arrangement.owner) as http:
        assert http.get("/readyz").status_code == 200
        report = http.post("/v1/audit/verify", json={}).json()
        assert report["ok"] is True, report
    log = arrangement.platform.home.log.read_text()
    assert "Traceback" not in log
