"""Under TLS: version 1.3 or nothing, a certificate that clients can pin, and cookies that travel no other way."""

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from falaj.app.certificates import self_signed
from falaj.base.errors import Unavailable
from falaj.base.values import Nothing
from falaj.client.http import Client
from falaj.governance.identity.operations import WHOAMI
from tests.app.mortal import run_falaj
from tests.app.running import DidNotStart, RunningPlatform
from tests.serving.authorities import Authority


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    running = RunningPlatform(tmp_path_factory.mktemp("platform") / "home", "--tls", "self-signed")
    try:
        yield running
    finally:
        running.close()


def shake_hands(platform: RunningPlatform, context: ssl.SSLContext) -> str | None:
    with (
        socket.create_connection(("127.0.0.1", platform.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        return connection.version()


def pinned(platform: RunningPlatform) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=platform.certificate)


def test_version_1_3_is_spoken_and_1_2_is_refused(platform: RunningPlatform):
    assert shake_hands(platform, pinned(platform)) == "TLSv1.3"
    older = pinned(platform)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shake_hands(platform, older)


def test_nothing_is_served_without_tls(platform: RunningPlatform):
    with platform.connect(timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        received = b""
        try:
            while part := connection.recv(4096):
                received += part
        except ConnectionResetError:
            pass
    assert b"HTTP/1.1 200" not in received


def test_a_client_with_the_pinned_certificate_works_and_one_without_does_not(platform: RunningPlatform):
    assert platform.url.startswith("https://")
    assert platform.call(WHOAMI, Nothing()).name == "owner"
    with Client(platform.url, platform.token) as trusting_the_world, pytest.raises(Unavailable, match=r"(?i)certificate"):
        trusting_the_world.call(WHOAMI, Nothing(), retry=False)


def test_another_certificate_is_not_taken_for_the_pinned_one(platform: RunningPlatform, tmp_path: Path):
    other, _ = self_signed(tmp_path / "tls", ["127.0.0.1"])
    trusted = ssl.create_default_context(cafile=str(other))
    with Client(platform.url, platform.token, verify=trusted) as client, pytest.raises(Unavailable, match=r"(?i)certificate"):
        client.call(WHOAMI, Nothing(), retry=False)


def test_the_certificate_holds_for_this_host_alone(platform: RunningPlatform):
    context = pinned(platform)
    with platform.connect() as plain, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(plain, server_hostname="evil.example")


def test_browsers_are_told_to_come_back_under_tls_only(platform: RunningPlatform):
    with platform.http() as http:
        for path in ("/healthz", "/sign-in", "/v1/identity", "/nothing"):
            assert http.get(path).headers["strict-transport-security"] == "max-age=31536000", path


def test_without_tls_there_is_no_such_promise(start_platform: Callable[..., RunningPlatform]):
    with start_platform().http() as http:
        answer = http.get("/sign-in")
        assert "strict-transport-security" not in answer.headers
        assert "Secure" not in answer.headers["set-cookie"]


def test_every_cookie_is_secure_and_bound_to_this_host(platform: RunningPlatform):
    code = platform.announced["console"].partition("code=")[2]
    with platform.http(**{"sec-fetch-site": "same-origin", "accept": "text/html"}) as browser:
        page = browser.get("/sign-in", params={"code": code})
        fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page.text))
        entered = browser.post("/sign-in", data=fields | {"code": code})
        assert entered.status_code == 303, entered.text
        cookies = [*page.headers.get_list("set-cookie"), *entered.headers.get_list("set-cookie")]
        assert any("__Host-falaj-session" in cookie for cookie in cookies)
        for cookie in cookies:
            assert cookie.startswith("__Host-"), cookie
            assert "; Secure" in cookie, cookie
            assert "; HttpOnly" in cookie, cookie
            assert re.search("(?i)samesite=(lax|strict)", cookie), cookie
            assert "domain=" not in cookie.lower(), cookie
        assert browser.get("/").status_code == 200


def test_the_private_key_is_for_its_owner_alone(platform: RunningPlatform):
    directory = platform.home.path / "tls"
    assert (directory / "private_key.pem").stat().st_mode & 0o077 == 0
    assert directory.stat().st_mode & 0o077 == 0


def test_the_same_certificate_serves_again_after_a_restart(start_platform: Callable[..., RunningPlatform]):
    """Or everybody who pinned it would be locked out."""
    running = start_platform("--tls", "self-signed")
    before = Path(running.certificate).read_bytes()
    assert running.stop() == 0
    running.start()
    assert Path(running.certificate).read_bytes() == before
    assert running.call(WHOAMI, Nothing()).name == "owner"


def test_a_configured_certificate_is_served(start_platform: Callable[..., RunningPlatform], tmp_path: Path):
    certificate, private_key = self_signed(tmp_path / "own", ["127.0.0.1", "localhost"])
    running = start_platform(settings=f'[server]\ncertificate = "{certificate}"\nprivate_key = "{private_key}"\n')
    assert running.url.startswith("https://")
    with httpx.Client(
        base_url=running.url, verify=ssl.create_default_context(cafile=str(certificate)), trust_env=False
    ) as http:
        answer = http.get("/healthz")
        assert answer.status_code == 200
        assert "strict-transport-security" in answer.headers
    older = ssl.create_default_context(cafile=str(certificate))
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shake_hands(running, older)


def test_a_certificate_of_an_authority_of_ones_own_is_believed_by_whoever_names_that(
    start_platform: Callable[..., RunningPlatform], tmp_path: Path
):
    authority = Authority(tmp_path / "authority")
    certificate, private_key = authority.issue()
    running = start_platform(settings=f'[server]\ncertificate = "{certificate}"\nprivate_key = "{private_key}"\n')
    known = {"FALAJ_URL": running.url, "FALAJ_TOKEN": running.token}
    elsewhere = tmp_path / "elsewhere"
    refused = run_falaj("whoami", home=elsewhere, **known)
    assert "certificate verify failed" in refused.stderr.lower()
    assert "owner" in run_falaj("whoami", home=elsewhere, **known, FALAJ_CA=str(authority.file)).stdout
    wrong = run_falaj("whoami", home=elsewhere, **known, FALAJ_CA=str(tmp_path / "none.pem"))
    assert (wrong.returncode, "none.pem cannot be read" in wrong.stderr) == (2, True)


def test_a_certificate_without_its_key_is_refused(start_platform: Callable[..., RunningPlatform], tmp_path: Path):
    certificate, _ = self_signed(tmp_path / "own", ["127.0.0.1"])
    with pytest.raises(DidNotStart, match="belong together"):
        start_platform(settings=f'[server]\ncertificate = "{certificate}"\n')


@pytest.mark.parametrize("profile", ["team", "regulated"])
def test_other_machines_are_served_only_under_tls_where_the_profile_says_so(
    start_platform: Callable[..., RunningPlatform], profile: str
):
    with pytest.raises(DidNotStart, match="only under TLS") as refused:
        start_platform("--profile", profile, "--host", "0.0.0.0")
    assert "Traceback" not in str(refused.value)
    assert start_platform("--profile", profile).url.startswith("http://127.0.0.1")
    encrypted = start_platform("--profile", profile, "--host", "0.0.0.0", "--tls", "self-signed")
    assert encrypted.url.startswith("https://")
    assert encrypted.call(WHOAMI, Nothing()).name == "owner"
