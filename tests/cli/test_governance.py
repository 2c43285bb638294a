"""Projects, zones, people, services, tokens and policies, from the command line of a running platform."""

import json
from pathlib import Path

from tests.cli.conftest import Running


def test_the_owner_is_known_and_the_platform_is_ready(platform: Running):
    assert platform.json("whoami")["platform_roles"] == ["admin"]
    status = platform.json("status")
    assert status["ready"] is True
    assert status["platform"]["profile"] == "solo"
    assert f"is ready at {platform.url}" in platform("status")


def test_a_project_is_created_listed_changed_archived_and_brought_back(platform: Running):
    made = platform.json("project", "create", "fraud", "--zone", "home", "--description", "cards")
    assert (made["name"], made["zones"]) == ("fraud", ["home"])
    assert "fraud" in [item["name"] for item in platform.json("project", "list")["items"]]
    platform("zone", "create", "berlin", "--country", "DE", "--jurisdiction", "gdpr")
    assert platform.json("project", "update", "fraud", "--zone", "home", "--zone", "berlin")["zones"] == ["home", "berlin"]
    assert "archived" in platform("project", "delete", "fraud", "--yes")
    assert "fraud" not in [item["name"] for item in platform.json("project", "list")["items"]]
    assert platform.json("project", "restore", "fraud")["archived"] is False
    assert platform.json("project", "show", "fraud")["description"] == "cards"


def test_a_listing_is_aligned_text_in_a_pipe_and_goes_on_with_a_cursor(platform: Running):
    for name in ("paged-a", "paged-b"):
        platform("project", "create", name, "--zone", "home")
    output, hint = platform.both("project", "list", "--limit", "1")
    assert output.splitlines()[0].split()[:2] == ["NAME", "ZONES"]
    assert len(output.splitlines()) == 2
    cursor = hint.split("--cursor ")[1].strip()
    first = output.splitlines()[1].split()[0]
    second = platform.json("project", "list", "--limit", "1", "--cursor", cursor)["items"][0]["name"]
    assert second != first


def test_zones_are_declared_shown_and_changed(platform: Running):
    platform("zone", "create", "paris", "--country", "FR", "--jurisdiction", "gdpr")
    assert platform.json("zone", "show", "paris")["jurisdictions"] == ["gdpr"]
    assert platform.json("zone", "update", "paris", "--jurisdiction", "gdpr", "--jurisdiction", "dora")["jurisdictions"] == [
        "gdpr",
        "dora",
    ]
    assert "paris" in platform("zone", "list")
    assert "capital" not in platform("zone", "delete", "paris")
    platform.fails("zone", "show", "paris")


def test_a_person_is_invited_signs_in_works_and_is_shut_out(platform: Running, tmp_path: Path):
    platform("project", "create", "team-work", "--zone", "home")
    output, told = platform.both("user", "create", "maryam", "--email", "maryam@example.org", "--json")
    assert told == ""
    invited = json.loads(output)
    person = {"FALAJ_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "FALAJ_URL": platform.url}
    signed_in = platform.json("login", "--code", invited["code"], **person)
    assert signed_in["name"] == "maryam"
    kept = tmp_path / "falaj" / "credentials.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    platform.fails("project", "show", "team-work", **person)
    platform("project", "member", "add", "team-work", "maryam", "viewer")
    assert platform.json("project", "show", "team-work", **person)["roles"] == ["viewer"]
    assert "maryam" in platform("project", "member", "list", "team-work")
    platform("project", "member", "remove", "team-work", "maryam", "viewer")
    platform("user", "role", "add", "maryam", "auditor")
    assert "auditor" in platform("user", "show", "maryam")
    platform("user", "role", "remove", "maryam", "auditor")
    assert "shut out" in platform("user", "disable", "maryam")
    platform.fails("whoami", **person)
    platform("user", "enable", "maryam")
    assert "it works once" in platform.both("user", "invite", "maryam")[1]
    assert invited["id"] in platform("user", "erase", "maryam", "--yes")
    assert "maryam@example.org" not in platform("user", "list")


def test_a_service_account_works_with_its_own_token_until_that_is_revoked(platform: Running):
    platform("project", "create", "nightly-work", "--zone", "home")
    platform("service", "create", "nightly-work", "nightly", "--role", "engineer")
    made = platform.json("service", "token", "create", "nightly-work", "nightly", "--days", "3")
    assert platform.json("whoami", FALAJ_TOKEN=made["token"])["kind"] == "service"
    assert made["id"] in platform("service", "token", "list", "nightly-work", "nightly")
    assert platform("service", "token", "revoke", "nightly-work", "nightly", made["id"]) == "Revoked.\n"
    platform.fails("whoami", FALAJ_TOKEN=made["token"])
    assert "nightly" in platform("service", "list", "nightly-work")
    assert platform.json("service", "show", "nightly-work", "nightly")["roles"] == ["engineer"]
    platform("service", "disable", "nightly-work", "nightly")
    platform.fails("service", "token", "create", "nightly-work", "nightly", "--days", "3")
    assert "may come in again" in platform("service", "enable", "nightly-work", "nightly")
    assert platform.json("service", "show", "nightly-work", "nightly")["disabled"] is False


def test_a_token_is_narrowed_exchanged_and_revoked(platform: Running):
    made = platform.json("token", "create", "notebook", "--scope", "read", "--project", "default", "--days", "1")
    assert platform.json("whoami", FALAJ_TOKEN=made["token"])["scopes"] == ["read"]
    assert platform.fails("zone", "create", "x", "--country", "AE", FALAJ_TOKEN=made["token"])
    signed = platform.json("token", "exchange", "--scope", "read", "--project", "default", "--seconds", "60")["token"]
    assert platform.json("project", "show", "default", FALAJ_TOKEN=signed)["name"] == "default"
    assert made["id"] in platform("token", "list")
    platform("token", "revoke", made["id"])
    platform.fails("whoami", FALAJ_TOKEN=made["token"])


def test_a_shell_is_told_where_mlflow_finds_the_platform(platform: Running):
    lines = [line.split(maxsplit=1) for line in platform("token", "create", "shell", "--export").splitlines()]
    assert [word for word, _ in lines] == ["export", "export"]
    told = dict(given.split("=") for _, given in lines)
    assert told["MLFLOW_TRACKING_URI"] == platform.url
    assert platform.json("whoami", FALAJ_TOKEN=told["MLFLOW_TRACKING_TOKEN"])["name"] == "owner"


def test_a_program_gets_the_token_alone(platform: Running):
    (token,) = platform("token", "create", "program", "--bare").splitlines()
    assert platform.json("whoami", FALAJ_TOKEN=token)["name"] == "owner"
    assert "one of them" in platform.fails("token", "create", "program", "--bare", "--export", status=2)


def test_a_policy_is_put_explained_and_removed(platform: Running, tmp_path: Path):
    platform("project", "create", "ruled", "--zone", "home")
    cedar = tmp_path / "no-blobs.cedar"
    cedar.write_text('forbid (principal, action == Action::"blob.put", resource);')
    assert "holds from now on" in platform("policy", "put", "no-blobs", str(cedar), "--project", "ruled")
    explained = platform.json("policy", "explain", "blob.put", "--project", "ruled")
    assert explained["allowed"] is False
    rule = explained["deciding"][0]["rule"]
    line = platform.fails("blob", "put", "ruled", str(cedar))
    assert rule in line
    assert "forbid" in platform("policy", "show", "no-blobs", "--project", "ruled")
    assert rule in platform("policy", "list", "--project", "ruled")
    assert platform("policy", "explain", "blob.put", "--project", "ruled").startswith("refused\n")
    platform("policy", "delete", "no-blobs", "--project", "ruled")
    assert platform.json("policy", "explain", "blob.put", "--project", "ruled")["allowed"] is True
    assert "permit" in platform("policy", "show", "role.admin")
    [admin] = [line for line in platform("policy", "list").splitlines() if line.startswith("role.admin ")]
    assert admin.split() == ["role.admin", "role.admin", "-"]
    platform.fails("policy", "show", "role.nobody")


def test_a_policy_is_read_from_standard_input_and_nonsense_is_asked_wrongly(platform: Running):
    said = platform.fails("policy", "put", "nonsense", "-", "--project", "default", input="this is not Cedar", status=2)
    assert "Cedar" in said
    assert "nonsense" not in platform("policy", "list", "--project", "default")


def test_groups_bring_roles_in_projects_and_on_the_platform(platform: Running):
    platform("group", "map", "risk team", "scientist", "--project", "default")
    platform("group", "map", "auditors", "auditor")
    assert platform.json("group", "list", "--project", "default")["items"] == [{"group": "risk team", "role": "scientist"}]
    assert "auditors" in platform("group", "list")
    platform("group", "unmap", "risk team", "scientist", "--project", "default")
    platform("group", "unmap", "auditors", "auditor")
    assert platform.json("group", "list")["items"] == []


def test_the_console_link_is_fresh_each_time(platform: Running):
    links = {platform("console", "--no-browser").strip() for _ in range(2)}
    assert len(links) == 2
    assert all(link.startswith(f"{platform.url}/sign-in?code=") for link in links)


def test_keys_are_listed_rotated_and_the_kit_is_printed(platform: Running):
    before = platform.json("key", "show", "default")["version"]
    platform("key", "rotate", "default")
    keys = platform.json("key", "list")
    assert {key["purpose"] for key in keys["signing"]} >= {"ledger"}
    assert platform.json("key", "show", "default")["version"] >= before
    assert platform.json("key", "rotate", "--signing", "ledger")["purpose"] == "ledger"
    assert "purpose" in platform.fails("key", "rotate", status=2)
    assert "Recovery code:" in platform("key", "kit")
    assert "its keys are there" in platform.fails("key", "recover", "--kit", platform.announced["recovery_kit"])
