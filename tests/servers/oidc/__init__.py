"""A real OpenID provider (npm `oidc-provider`): discovery, authorisation code with PKCE, a login form, groups."""

import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from tests.servers.processes import NO_TLS, Missing, program

HERE = Path(__file__).parent


@dataclass(frozen=True)
class OidcProvider:
    """Users: `layla` in the group `ml-team`, `omar` in `auditors`, `noor` in none."""

    issuer: str
    client_id: str
    client_secret: str
    cli_client_id: str
    users: dict[str, list[str]] = field(default_factory=lambda: {"layla": ["ml-team"], "omar": ["auditors"], "noor": []})

    def log_in(self, url: str, user: str) -> str:
        """Follow an authorisation URL as the user's browser would; the redirect back, with its `code` and `state`, unopened."""
        with httpx.Client(timeout=20, verify=NO_TLS) as browser:
            answer = browser.get(url)
            for _ in range(10):
                if answer.is_redirect:
                    target = urljoin(str(answer.url), answer.headers["location"])
                    if not target.startswith(self.issuer + "/"):
                        return target
                    answer = browser.get(target)
                elif "/interaction/" in str(answer.url) and answer.is_success:
                    answer = browser.post(answer.url, data={"login": user})
                else:
                    break
        raise RuntimeError(f"the provider refused the login: {answer.status_code} {answer.text[:500]}")


@pytest.fixture(scope="session")
def oidc_provider(no_process_survives: None) -> Iterator[OidcProvider]:
    if not (HERE / "node_modules" / "oidc-provider").exists():
        raise Missing("npm's oidc-provider")
    client_id, client_secret, cli_client_id = "falaj-console", secrets.token_urlsafe(32), "falaj-cli"
    command = [program("node"), str(HERE / "provider.js"), client_id, client_secret, cli_client_id]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        issuer = process.stdout.readline().strip()
        if not issuer:
            raise RuntimeError("the OpenID provider did not start")
        yield OidcProvider(issuer=issuer, client_id=client_id, client_secret=client_secret, cli_client_id=cli_client_id)
        process.terminate()
