"""Two projects in two zones, people with different roles, and something of everything in each: what attackers move in."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from falaj.app.platform import OPERATIONS
from falaj.base.clock import SystemClock
from falaj.base.operation import Operation, Scope
from falaj.base.values import Nothing
from falaj.client.http import Client
from falaj.governance.identity.member_operations import MAP_GROUP, ProjectGroupRole
from falaj.governance.identity.operations import (
    CREATE_SERVICE,
    CREATE_SERVICE_TOKEN,
    CREATE_TOKEN,
    WHOAMI,
    CreateService,
    CreateServiceToken,
    CreateToken,
)
from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.policies.operations import PUT_POLICY, PutPolicy
from falaj.governance.projects.operations import CREATE_PROJECT, SHOW_PROJECT, CreateProject, OneProject
from falaj.governance.roles import Role
from falaj.governance.zones.operations import CREATE_ZONE, CreateZone
from falaj.jobs.operations.queues import APPLY_QUEUES, ApplyQueues, QueueSpec
from falaj.storage.operations import BLOB_PUT, PutBlob
from tests.app.furniture import CLOSED, furnish, samples_for
from tests.app.running import RunningPlatform

BY_NAME: dict[str, Operation[Any, Any]] = {operation.name: operation for operation in OPERATIONS}
POLICY = 'forbid (principal in Role::"viewer", action in [Action::"deploy"], resource);'
# What an answer to an attacker must not hold: where the code or the data lies, what it is written with, how it failed.
LEAKS = re.compile(
    r'Traceback|File "|\.py\b|/tmp|/home/|/usr/|site-packages|falaj\.db|sqlite|sqlalchemy|psycopg|pydantic|starlette|uvicorn'
    r"|httptools|<class|object at 0x|\bNoneType\b|governance_|ledger_|storage_objects",
    re.IGNORECASE,
)
# Tables that a refusal may touch: its own leaf, the leases of the loops, and the upkeep of the ledger, of the planes' state and
# of the hosts that jobs run on.
# What the controller writes by itself.
_ROUNDS = "news|nodes|controllers|utilisation|card_utilisation|owner_utilisation|past_use|samples|pools|engines"
# And what monitors write down once a minute, and once an hour.
_LOOKS = "standings|hours|totals|references|detectors"
MOVING = re.compile(rf"ledger_|database_leases|sqlite_|serving_zones|jobs_({_ROUNDS})$|monitoring_({_LOOKS})$")
# And columns: the day on which a token was used, and when the collector got round to removing what had been condemned before.
MOVING_COLUMNS = ("governance_tokens.last_used_day", "storage_objects.removed")


class World:
    """`alpha` stands in zone `home`, `beta` in `berlin`. `tokens` are people's, by name; `things` each project's, by field."""

    def __init__(self, platform: RunningPlatform) -> None:
        self.platform = platform
        self._http = platform.http()
        platform.call(CREATE_ZONE, CreateZone(name="berlin", country="DE"))
        self.tokens = {"owner": platform.token}
        self.things = {name: self._furnish(name, zone) for name, zone in (("alpha", "home"), ("beta", "berlin"))}
        for name, roles in {
            "alice": {"alpha": Role.ADMIN},
            "vera": {"alpha": Role.VIEWER},
            "sam": {"alpha": Role.SCIENTIST},
            "adam": {"alpha": Role.AUDITOR},
            "bob": {"beta": Role.ADMIN},
            "nora": {},
        }.items():
            self.tokens[name] = platform.person(name, roles=roles)
        self.ids = {name: platform.call(WHOAMI, Nothing(), token=token).id for name, token in self.tokens.items()}
        platform.call(APPLY_QUEUES, ApplyQueues(queues=(QueueSpec(name="default"), QueueSpec(name=CLOSED, open=False))))
        for project, member in (("alpha", "alice"), ("beta", "bob")):
            self.things[project] |= furnish(platform, project, member) | {"seen": str(SystemClock().now())}

    def _furnish(self, project: str, zone: str) -> dict[str, Any]:
        call = self.platform.call
        call(CREATE_PROJECT, CreateProject(name=project, zones=(zone,)))
        blob = call(BLOB_PUT, PutBlob(project=project, name=f"of {project}"), data=f"content of {project}".encode())
        service = call(CREATE_SERVICE, CreateService(project=project, name=f"robot-{project}", role=Role.SCIENTIST))
        token = call(CREATE_SERVICE_TOKEN, CreateServiceToken(project=project, service=service.name))
        own = call(CREATE_TOKEN, CreateToken(label=f"for {project}"))
        call(PUT_POLICY, PutPolicy(project=project, policy=f"rule-{project}", text=POLICY))
        call(MAP_GROUP, ProjectGroupRole(project=project, group=f"group-{project}", role=Role.VIEWER))
        return {
            "project": project,
            "id": call(SHOW_PROJECT, OneProject(project=project)).id,
            "zone": zone,
            "blob": blob.id,
            "service": service.name,
            "service_id": service.id,
            "token": token.id,
            "secret": token.token,
            "own_token": own.id,
            "policy": f"rule-{project}",
            "group": f"group-{project}",
            "leaf": call(LOG, ReadLog(operation="blob.put", limit=1)).items[0].id,
        }

    def request(self, operation: Operation[Any, Any], about: str = "alpha", **given: Any) -> httpx.Request:
        """A well-formed call of an operation, about things of a project that are really there."""
        things = self.things.get(about, self.things["alpha"])
        samples: dict[str, Any] = {
            **things,
            "project": about,
            "name": "attacker-made",
            "role": "viewer",
            "member": "vera",
            "user": "nora",
            "text": POLICY,
            "zones": (things["zone"],),
            "country": "AE",
            "action": "blob.get",
            "purpose": "ledger",
            "confirm": about,
            "code": "no-such-code",
            "state": "no-such-state",
            "id_token": "no.such.token",
            "nonce": "0123456789abcdef",
            "old": 1,
            "new": 2,
            "at": "2026-01-01T00:00:00Z",
            **samples_for(operation, things, about),
            **given,
        }
        required = {
            name
            for name, field in operation.request.__dataclass_fields__.items()
            if name in given or (field.default is field.default_factory)  # both MISSING: it has to be given
        }
        if operation.name == "audit.erase-salts":
            required.add("leaf")
        if operation.name == "token.revoke" and "token" not in given:
            samples["token"] = things["own_token"]
        fields = {name: samples[name] for name in required}
        return self.plain_request(operation, fields)

    def plain_request(self, operation: Operation[Any, Any], fields: dict[str, Any]) -> httpx.Request:
        """The fields where the wire wants them, unchecked."""
        left = dict(fields)
        path = operation.path.format(**{name: left.pop(name) for name in operation.path_fields})
        url = self.platform.url + (path if path.startswith("/") else f"/v1/{path}")
        if operation.takes_bytes:
            return httpx.Request(operation.method, url, params=left, content=b"attack")
        if operation.method in ("POST", "PUT"):
            return httpx.Request(operation.method, url, json=left)
        return httpx.Request(operation.method, url, params=left)

    def send(self, request: httpx.Request, token: str | None) -> httpx.Response:
        if token is not None:
            request.headers["authorization"] = f"Bearer {token}"
        return self._http.send(request)

    def close(self) -> None:
        self._http.close()

    def client(self, name: str) -> Client:
        return self.platform.client(self.tokens[name])

    def state(self) -> str:
        return state_of(self.platform.home.database)

    @contextmanager
    def refused_to(self, name: str) -> Iterator[list[dict[str, Any]]]:
        """The leaves of calls that were refused to somebody meanwhile, in their order; they are there in the end."""
        left: list[dict[str, Any]] = []
        before = {leaf["id"] for leaf in self._refusals(name)}
        yield left
        left += [leaf for leaf in reversed(self._refusals(name)) if leaf["id"] not in before]

    def _refusals(self, name: str) -> list[dict[str, Any]]:
        asked = self.request(BY_NAME["audit.log"], principal=self.ids[name], outcome="refused", limit=1000)
        items: list[dict[str, Any]] = self.send(asked, self.tokens["owner"]).json()["items"]
        return items


def state_of(database: Path, moving: re.Pattern[str] = MOVING) -> str:
    """A digest of everything that a platform holds in SQLite but what may be `moving`."""
    digest = hashlib.sha256()
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        for table in tables:
            if moving.match(table):
                continue
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            columns = [column for column in columns if f"{table}.{column}" not in MOVING_COLUMNS]
            quoted = ", ".join(f'"{column}"' for column in columns)
            rows = sorted(repr(row) for row in connection.execute(f"SELECT {quoted} FROM {table}"))
            digest.update(repr((table, columns, rows)).encode())
    finally:
        connection.close()
    return digest.hexdigest()


def check_refusal(response: httpx.Response, *statuses: int) -> None:
    """A refusal of the expected kind that says what is wrong and nothing about what is inside."""
    told = f"{response.request.method} {response.request.url} -> {response.status_code} {response.text[:500]}"
    assert response.status_code in statuses, told
    assert response.headers["content-type"] == "application/problem+json", told
    document = json.loads(response.content)
    assert document["status"] == response.status_code
    assert document["detail"]
    assert document["instance"] == response.headers["x-request-id"]
    assert not LEAKS.search(response.text), told
    assert not LEAKS.search(str(response.headers)), told


def of_projects() -> list[str]:
    return [operation.name for operation in OPERATIONS if operation.scope is Scope.PROJECT]
