"""Signing in through a real identity provider, on a loopback port, and out again."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Falaj, Running
from tests.servers.oidc import OidcProvider


@pytest.fixture(scope="module")
def federated(tmp_path_factory: pytest.TempPathFactory, oidc_provider: OidcProvider) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("federated")
    settings = {
        "FALAJ_OIDC_ISSUER": oidc_provider.issuer,
        "FALAJ_OIDC_CLIENT_ID": oidc_provider.client_id,
        "FALAJ_OIDC_CLIENT_SECRET": oidc_provider.client_secret,
        "FALAJ_OIDC_CLI_CLIENT_ID": oidc_provider.cli_client_id,
    }
    running = Running(place / "home", place / "config", **settings)
    try:
        running("group", "map", "ml-team", "scientist", "--project", "default")
        yield running
    finally:
        running.stop()


@pytest.fixture
def visitor(federated: Running, tmp_path: Path) -> Falaj:
    """Somebody on another machine, who knows the address alone."""
    return Falaj(tmp_path / "nowhere", tmp_path / "config", FALAJ_URL=federated.url)


def sign_in(visitor: Falaj, provider: OidcProvider, user: str, *, spoil: str = "") -> tuple[int, str, str]:
    """Run `falaj login` and be the browser; what the page at the end says is checked too."""
    process = visitor.start("login", "--no-browser", "--json")
    assert process.stderr is not None
    address = process.stderr.readline().partition("Sign in here: ")[2].strip()
    back = provider.log_in(address, user)
    assert back.startswith("http://127.0.0.1:")
    if spoil:
        assert httpx.get(back.replace("state=", f"state={spoil}")).status_code == 400
    page = httpx.get(back)
    assert (page.status_code, "You are signed in" in page.text) == (200, True)
    output, said = process.communicate(timeout=60)
    return process.returncode, output, said


def test_a_person_signs_in_is_herself_and_signs_out(visitor: Falaj, oidc_provider: OidcProvider):
    status, output, said = sign_in(visitor, oidc_provider, "layla")
    assert status == 0, said
    assert json.loads(output)["url"] == visitor.environment["FALAJ_URL"]
    me = visitor.json("whoami")
    assert me["roles"] == [{"project": "default", "role": "scientist"}]
    kept = Path(visitor.environment["XDG_CONFIG_HOME"]) / "falaj" / "credentials.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    token = json.loads(kept.read_text())["token"]
    assert visitor("logout") == "Signed out.\n"
    assert not kept.exists()
    visitor.fails("whoami", FALAJ_TOKEN=token)
    assert visitor.json("logout") == {"was_signed_in": False}


def test_who_signs_in_on_the_owners_machine_is_himself_and_not_the_owner(federated: Running, oidc_provider: OidcProvider):
    assert sign_in(federated, oidc_provider, "layla")[0] == 0
    assert federated.json("whoami")["platform_roles"] == []
    federated("logout")
    assert federated.json("whoami")["platform_roles"] == ["admin"]


def test_an_answer_that_is_not_to_our_question_is_not_taken(visitor: Falaj, oidc_provider: OidcProvider):
    status, _, said = sign_in(visitor, oidc_provider, "layla", spoil="forged")
    assert status == 0, said


def test_a_refusal_of_the_provider_is_told(visitor: Falaj):
    process = visitor.start("login", "--no-browser")
    assert process.stderr is not None
    address = httpx.URL(process.stderr.readline().partition("Sign in here: ")[2].strip())
    back = address.params["redirect_uri"]
    httpx.get(back, params={"error": "access_denied", "error_description": "not today", "state": address.params["state"]})
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "not today" in said


def test_a_platform_without_a_provider_says_how_to_get_in(platform: Running, tmp_path: Path):
    visitor = Falaj(tmp_path / "nowhere", tmp_path / "config")
    assert "--code" in visitor.fails("login", "--url", platform.url)
