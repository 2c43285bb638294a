"""The servers that other tests rely on are real ones and do what those tests assume."""

import base64
import hashlib
import subprocess
import sys
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import jwt
import obstore
import pkcs11
import psycopg
import pytest
from obstore.store import S3Store
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.servers.processes import survivors


def authorisation(provider, client_id: str, redirect: str) -> tuple[str, str, dict]:
    configuration = httpx.get(f"{provider.issuer}/.well-known/openid-configuration").json()
    verifier = "v" * 50
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "client_id": client_id,
        "redirect_uri": redirect,
        "response_type": "code",
        "scope": "openid profile email groups",
        "state": "a-state",
        "nonce": "a-nonce",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return configuration["authorization_endpoint"] + "?" + urlencode(query), verifier, configuration


def test_postgres_gives_each_test_an_empty_database(postgres_url):
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        tables = connection.execute("select count(*) from information_schema.tables where table_schema = 'public'").fetchone()
    assert tables == (0,)


def test_redis_is_empty_for_each_test_and_takes_scripts(redis_server, redis_url):
    with redis_server.client() as client:
        assert client.dbsize() == 0
        assert client.eval("return redis.call('SET', KEYS[1], ARGV[1])", 1, "falaj", "water") == b"OK"
        assert client.get("falaj") == b"water"


def test_s3_stores_an_object_and_refuses_a_wrong_key(s3_storage):
    def store(secret: str) -> S3Store:
        return S3Store(
            s3_storage["bucket"],
            endpoint=s3_storage["endpoint"],
            access_key_id=s3_storage["access_key"],
            secret_access_key=secret,
            region=s3_storage["region"],
            client_options={"allow_http": True},
        )

    good = store(s3_storage["secret_key"])
    obstore.put(good, "a/b", b"water")
    assert bytes(obstore.get(good, "a/b").bytes()) == b"water"
    with pytest.raises(Exception, match=r"403|Forbidden|denied|permission"):
        obstore.get(store("wrong"), "a/b")


@pytest.mark.parametrize("confidential", [True, False], ids=["console", "cli"])
def test_oidc_logs_a_user_in_with_code_and_pkce(oidc_provider, confidential):
    client = oidc_provider.client_id if confidential else oidc_provider.cli_client_id
    redirect = "http://127.0.0.1:4711/console/callback"
    url, verifier, configuration = authorisation(oidc_provider, client, redirect)
    back = oidc_provider.log_in(url, "layla")
    answer = parse_qs(urlsplit(back).query)
    assert back.startswith(redirect)
    assert answer["state"] == ["a-state"]
    form = {"grant_type": "authorization_code", "code": answer["code"][0], "redirect_uri": redirect, "code_verifier": verifier}
    basic = (client, oidc_provider.client_secret) if confidential else None
    tokens = httpx.post(
        configuration["token_endpoint"], data=form if confidential else {**form, "client_id": client}, auth=basic
    ).json()
    key = jwt.PyJWKClient(configuration["jwks_uri"]).get_signing_key_from_jwt(tokens["id_token"])
    claims = jwt.decode(tokens["id_token"], key, algorithms=["RS256"], audience=client, issuer=oidc_provider.issuer)
    assert (claims["sub"], claims["groups"], claims["nonce"]) == ("layla", ["ml-team"], "a-nonce")


def test_oidc_refuses_an_unknown_user(oidc_provider):
    url, _, _ = authorisation(oidc_provider, oidc_provider.cli_client_id, "http://127.0.0.1:4711/callback")
    with pytest.raises(RuntimeError, match="no such user"):
        oidc_provider.log_in(url, "mallory")


def test_softhsm_makes_a_key(softhsm):
    token = pkcs11.lib(softhsm.module).get_token(token_label=softhsm.label)
    with token.open(user_pin=softhsm.pin, rw=True) as session:
        key = session.generate_key(pkcs11.KeyType.AES, 256, store=False)
        assert key.key_length == 256


def test_the_browser_opens_a_page_and_fills_a_form(browser, oidc_provider):
    url, _, _ = authorisation(oidc_provider, oidc_provider.client_id, f"{oidc_provider.issuer}/done")
    browser.get(url)
    browser.find_element(By.NAME, "login").send_keys("omar")
    browser.find_element(By.TAG_NAME, "button").click()
    WebDriverWait(browser, 20).until(lambda browser: "code=" in browser.current_url)


def test_a_process_left_behind_is_seen():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert child.pid in {process.pid for process in survivors()}
    child.kill()
    child.wait()
    assert child.pid not in {process.pid for process in survivors()}
