"""Attacks by people who have an account: on what is not theirs, and upwards."""

import json
from typing import Any

import httpx
import pytest

from falaj.app.platform import OPERATIONS
from falaj.base.operation import Group, Operation, Scope
from falaj.governance.identity.operations import (
    CREATE_TOKEN,
    EXCHANGE_TOKEN,
    CreateToken,
    ExchangeToken,
)
from tests.app.world import BY_NAME, World, check_refusal, of_projects

# Insiders

FOR_ANYBODY = (Group.PUBLIC, Group.SELF)


def seen(response: httpx.Response, name: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    """An answer without what tells one request from another: its id and the name that was asked for."""
    headers = {key: text for key, text in response.headers.items() if key not in ("x-request-id", "date")}
    document = json.loads(response.text.replace(name, "NAME"))
    document.pop("instance")
    return response.status_code, headers, document


@pytest.mark.parametrize("who", ["nora", "sam", "alice", "adam"])
def test_what_is_not_yours_looks_like_what_does_not_exist(world: World, who: str):
    for name in of_projects():
        hidden = world.send(world.request(BY_NAME[name], "beta"), world.tokens[who])
        absent = world.send(world.request(BY_NAME[name], "zeta"), world.tokens[who])
        check_refusal(hidden, 404)
        assert seen(hidden, "beta") == seen(absent, "zeta"), name


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("who", ["alice", "sam"])
def test_members_of_one_project_get_nothing_of_another_by_its_name_and_leave_a_leaf(world: World, who: str):
    with world.refused_to(who) as left:
        responses = {name: world.send(world.request(BY_NAME[name], "beta"), world.tokens[who]) for name in of_projects()}
    for response in responses.values():
        check_refusal(response, 404)
    assert [(leaf["operation"], leaf["rule"], leaf["request_id"]) for leaf in left] == [
        (name, "not-visible", response.headers["x-request-id"]) for name, response in responses.items()
    ]


OF_MONITORS = ("falaj_monitor_", "falaj_alert", "falaj_slo_")
MAKE_WHAT_THEY_NAME = ("policy.put", "group.map", "run.import", "endpoint.deploy")  # in the caller's own project
# Of the caller's own project: nothing of another's is ever among them.
NARROWED_LISTINGS = ("owner.list", "review.list", "alert.list", "abtest.list")


@pytest.mark.usefixtures("unchanged")
def test_members_of_one_project_get_nothing_of_another_by_its_ids(world: World):
    """Their own project's name in the path, the other's things behind it."""
    beta = world.things["beta"]
    named = (
        "blob",
        "service",
        "token",
        "policy",
        "group",
        "leaf",
        "run",
        "holder",
        "upload",
        "approval",
        "comment",
        "review",
        "link",
        "endpoint",
        "job",
    )
    ids = {name: beta[name] for name in named} | {"member": beta["service"], "thing": beta["run"]}
    tried = 0
    for operation in OPERATIONS:
        if operation.scope is not Scope.PROJECT:
            continue
        for field in set(operation.request.__dataclass_fields__) & set(ids):
            if operation.name in MAKE_WHAT_THEY_NAME + NARROWED_LISTINGS or operation.permission.group is Group.APPROVE:
                continue  # and approving is not an admin's
            beside = {"source": "s3://elsewhere"} if (operation.name, field) == ("version.create", "run") else {}
            check_refusal(world.send(world.request(operation, **{field: ids[field]}, **beside), world.tokens["alice"]), 404)
            tried += 1
    for member in (beta["service_id"], beta["id"]):
        check_refusal(world.send(world.request(BY_NAME["member.add"], member=member), world.tokens["alice"]), 404)
    revoked = world.request(BY_NAME["endpoint.key-revoke"], key=beta["endpoint_key"])
    check_refusal(world.send(revoked, world.tokens["alice"]), 404)
    deleted = world.request(BY_NAME["secret.delete"], name=beta["job_secret"])
    check_refusal(world.send(deleted, world.tokens["alice"]), 404)
    check_refusal(world.send(world.request(BY_NAME["token.revoke"], token=beta["token"]), world.tokens["alice"]), 404)
    check_refusal(world.send(world.request(BY_NAME["token.revoke"], token=beta["own_token"]), world.tokens["alice"]), 404)
    assert tried >= 40
    # By its owner each of them is found, so it was not the ids that were wrong.
    assert world.send(world.request(BY_NAME["blob.show"], "beta"), world.tokens["bob"]).status_code == 200
    assert (
        world.send(world.request(BY_NAME["service.tokens"], "beta"), world.tokens["bob"]).json()["items"][0]["id"]
        == beta["token"]
    )


def test_a_project_s_log_holds_nothing_of_another(world: World):
    for who, own in (("alice", "alpha"), ("adam", "alpha"), ("bob", "beta")):
        answer = world.send(world.request(BY_NAME["audit.log-project"], own, limit=1000), world.tokens[who])
        projects = {entry["project"] for entry in answer.json()["items"]}
        assert projects == {world.things[own]["id"]}


def test_listings_show_only_ones_own(world: World):
    for who, visible in {"nora": set(), "sam": {"alpha"}, "bob": {"beta"}}.items():
        listed = world.send(world.request(BY_NAME["project.list"]), world.tokens[who]).json()["items"]
        assert {project["name"] for project in listed} == visible
        answer = world.send(world.request(BY_NAME["project.list"], archived="true"), world.tokens[who])
        assert {project["name"] for project in answer.json()["items"]} <= visible


@pytest.mark.usefixtures("unchanged")
def test_a_viewer_writes_nothing(world: World):
    allowed = [each for each in OPERATIONS if each.scope is Scope.PROJECT and each.permission.group is Group.READ]
    for operation in allowed:
        # Variants are made by jobs of the platform's own alone, and columns by traffic, so that there is none to be read here.
        found = 404 if operation.name in ("variant.certificate", "variant.file", "monitor.column") else 200
        found = 409 if operation.name == "abtest.plan" else found  # of an endpoint with one revision
        assert world.send(world.request(operation), world.tokens["vera"]).status_code == found, operation.name
    others = [each for each in OPERATIONS if each.permission.group not in FOR_ANYBODY and each not in allowed]
    with world.refused_to("vera") as left:
        for operation in others:
            check_refusal(world.send(world.request(operation), world.tokens["vera"]), 403)
    assert [leaf["operation"] for leaf in left] == [operation.name for operation in others]
    assert all(leaf["rule"] for leaf in left)


# Climbing


LIFTS = "permit (principal, action, resource) when { context.zone_required == false };"


def climbing(world: World) -> dict[str, tuple[str, httpx.Request, tuple[int, ...]]]:
    """Who tries what, and what he may be told."""

    def ask(operation: str, about: str = "alpha", **given: Any) -> httpx.Request:
        return world.request(BY_NAME[operation], about, **given)

    beta = world.things["beta"]
    return {
        "a scientist makes himself admin": ("sam", ask("member.add", member="sam", role="admin"), (403,)),
        "an outsider joins": ("nora", ask("member.add", member="nora", role="viewer"), (404,)),
        "a project admin becomes platform admin": ("alice", ask("platform.add-member", member="alice", role="admin"), (403,)),
        "an auditor becomes platform auditor": ("adam", ask("platform.add-member", member="adam", role="auditor"), (403,)),
        "a project admin maps a group to the platform": ("alice", ask("platform.map-group", group="g", role="admin"), (403,)),
        "a project admin maps a group in another project": ("alice", ask("group.map", "beta", group="g", role="admin"), (404,)),
        "a project admin names the platform as a project": (
            "alice",
            ask("group.map", "platform", group="g", role="admin"),
            (404,),
        ),
        "a project admin adds another's service": ("alice", ask("member.add", member=beta["service_id"], role="admin"), (404,)),
        "a project admin creates a project": ("alice", ask("project.create", name="mine"), (403,)),
        "a project admin lists another zone": ("alice", ask("platform.put-policy", text=LIFTS, policy="lift"), (403,)),
        "a project admin invites the owner": ("alice", ask("user.invite", user="owner"), (403,)),
        "a project admin disables the owner": ("alice", ask("user.disable", user="owner"), (403,)),
        "a project admin erases the owner": ("alice", ask("user.erase", user="owner"), (403,)),
        "a project admin creates a user": ("alice", ask("user.create", name="puppet"), (403,)),
        "the owner cannot be invited while he has tokens": ("owner", ask("user.invite", user="owner"), (409,)),
        "nor disabled as the last admin": ("owner", ask("user.disable", user="owner"), (409,)),
        "nor erased": ("owner", ask("user.erase", user="owner"), (409,)),
        "nor stripped of the role": ("owner", ask("platform.remove-member", member="owner", role="admin"), (409,)),
        "a project admin exports the ledger": ("alice", ask("audit.export"), (403,)),
        "a project auditor exports the ledger": ("adam", ask("audit.export"), (403,)),
        "a project auditor follows the ledger": ("adam", ask("audit.follow"), (403,)),
        "a project auditor reads the platform's log": ("adam", ask("audit.log"), (403,)),
        "a project auditor proves a leaf of another": ("adam", ask("audit.prove", leaf=beta["leaf"]), (403,)),
        "a project auditor reads another's log": ("adam", ask("audit.log-project", "beta"), (404,)),
        "a project admin erases salts": ("alice", ask("audit.erase-salts", leaf=beta["leaf"]), (403,)),
        "a project admin backs the platform up": ("alice", ask("backup.create"), (403,)),
        "a project admin rotates the platform's key": ("alice", ask("key.rotate-signing"), (403,)),
        "a project admin moves a zone": ("alice", ask("zone.update", zone="home", storage="local"), (403,)),
        "a project admin lets a plane in": ("alice", ask("plane.create", plane="mine", zone="home"), (403,)),
        "a project admin poses as a plane": ("alice", ask("plane.state"), (403,)),
        "the owner poses as a plane": ("owner", ask("plane.fetch"), (403,)),
        "the owner reports as a plane": ("owner", ask("plane.report"), (403,)),
        "a scientist deploys": ("sam", ask("endpoint.deploy"), (403,)),
        "a scientist makes a key": ("sam", ask("endpoint.key-create"), (403,)),
        "a scientist shreds a blob": ("sam", ask("blob.shred"), (403,)),
        "a scientist drops another's blob": ("sam", ask("blob.delete"), (409,)),
        "a scientist explains another's standing": ("sam", ask("policy.explain", principal="alice", project="alpha"), (403,)),
        "a scientist explains another project": ("sam", ask("policy.explain", project="beta"), (404,)),
        "a project admin explains somebody on the platform": ("alice", ask("policy.explain", principal="owner"), (403,)),
        "a token for a project one does not see": ("sam", ask("token.create", projects=["beta"]), (404,)),
        "a pass for a project one does not see": ("sam", ask("token.exchange", projects=["beta"]), (404,)),
    }


@pytest.mark.usefixtures("unchanged")
def test_nobody_climbs(world: World):
    for what, (who, request, statuses) in climbing(world).items():
        response = world.send(request, world.tokens[who])
        assert response.status_code in statuses, f"{what}: {response.status_code} {response.text}"
        check_refusal(response, *statuses)


def test_a_policy_never_lifts_a_forbid(world: World):
    """Alice permits everything to everybody in her project; the zone, the archive and the token's bounds hold all the same."""
    put = world.request(BY_NAME["policy.put"], policy="everything", text="permit (principal, action, resource);")
    assert world.send(put, world.tokens["alice"]).status_code == 200
    try:
        abroad = world.platform.call(CREATE_TOKEN, CreateToken(zone="berlin")).token
        refused = world.send(world.request(BY_NAME["blob.get"]), abroad)
        check_refusal(refused, 403)
        assert refused.json()["rule"] == "residency.caller-zone"
        elsewhere = world.send(world.request(BY_NAME["blob.put"], zone="berlin"), world.tokens["alice"])
        check_refusal(elsewhere, 403)
        assert elsewhere.json()["rule"] == "residency.target-zone"
        # And it reaches no further than her project.
        check_refusal(world.send(world.request(BY_NAME["blob.get"], "beta"), world.tokens["alice"]), 404)
        check_refusal(world.send(world.request(BY_NAME["audit.export"]), world.tokens["alice"]), 403)
        narrow = world.platform.call(CREATE_TOKEN, CreateToken(scopes=("blob.list",)), token=world.tokens["alice"]).token
        check_refusal(world.send(world.request(BY_NAME["blob.get"]), narrow), 403)
    finally:
        remove = world.request(BY_NAME["policy.delete"], policy="everything")
        assert world.send(remove, world.tokens["alice"]).status_code == 200


def test_a_token_makes_nothing_wider_than_itself(world: World):
    call = world.platform.call
    narrow = call(
        CREATE_TOKEN, CreateToken(scopes=("blob.show", "token.own", "token.exchange"), projects=("alpha",), zone="home", days=1)
    )
    wider: list[tuple[Operation[Any, Any], dict[str, Any]]] = [
        (CREATE_TOKEN, {"scopes": ["blob.get"]}),
        (CREATE_TOKEN, {"scopes": ["read"]}),
        (CREATE_TOKEN, {"projects": ["beta"]}),
        (CREATE_TOKEN, {"zone": "berlin"}),
        (CREATE_TOKEN, {"days": 30}),
        (EXCHANGE_TOKEN, {"scopes": ["administer"]}),
        (EXCHANGE_TOKEN, {"projects": ["alpha", "beta"]}),
        (EXCHANGE_TOKEN, {"zone": "berlin"}),
    ]
    before = world.state()
    for operation, fields in wider:
        check_refusal(world.send(world.plain_request(operation, fields), narrow.token), 403)
    assert world.state() == before
    child = call(CREATE_TOKEN, CreateToken(), token=narrow.token)
    listed = {
        token["id"]: token for token in world.send(world.request(BY_NAME["token.list"]), world.tokens["owner"]).json()["items"]
    }
    kept = {name: listed[child.id][name] for name in ("scopes", "projects", "zone")}
    assert kept == {"scopes": ["blob.show", "token.exchange", "token.own"], "projects": ["alpha"], "zone": "home"}
    assert listed[child.id]["expires"] <= listed[narrow.id]["expires"]
    passed = call(EXCHANGE_TOKEN, ExchangeToken(), token=narrow.token).token
    for operation in (CREATE_TOKEN, EXCHANGE_TOKEN, BY_NAME["session.link"]):
        check_refusal(world.send(world.plain_request(operation, {}), passed), 403)


def test_what_a_handler_forbids_leaves_a_leaf_too(world: World):
    token = world.platform.call(CREATE_TOKEN, CreateToken(days=1), token=world.tokens["sam"]).token
    with world.refused_to("sam") as left:
        check_refusal(world.send(world.plain_request(CREATE_TOKEN, {"days": 365}), token), 403)
    assert [(leaf["operation"], leaf["rule"]) for leaf in left] == [("token.create", "token.life")]


def test_metrics_need_a_token_with_that_power(world: World):
    metrics = BY_NAME["platform.metrics"]
    check_refusal(world.send(world.request(metrics), None), 401)
    for who in ("nora", "sam", "alice", "adam"):
        check_refusal(world.send(world.request(metrics), world.tokens[who]), 403)
    answer = world.send(world.request(metrics), world.tokens["owner"])
    assert answer.status_code == 200
    assert "falaj_calls_total" in answer.text
    # What monitors tell is of projects, each of which the owner may read; `tests/monitoring` has who may not.
    told = "\n".join(line for line in answer.text.splitlines() if not line.startswith(OF_MONITORS))
    assert not any(secret in told for secret in ("alpha", "beta", "nora", *world.ids.values()))


def test_names_of_users_are_not_for_everybody(world: World):
    for who in ("nora", "sam", "alice"):
        check_refusal(world.send(world.request(BY_NAME["user.list"]), world.tokens[who]), 403)
        check_refusal(world.send(world.request(BY_NAME["user.show"], user="no-such"), world.tokens[who]), 403)
