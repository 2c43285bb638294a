"""Coming in by a link or through the identity provider, and going out."""

from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from falaj.app.settings import OidcSection
from falaj.base.errors import Unauthenticated
from falaj.base.values import Nothing
from falaj.governance.identity.member_operations import MAP_PLATFORM_GROUP, GroupRole
from falaj.governance.identity.operations import WHOAMI
from falaj.governance.roles import Role
from tests.servers.oidc import OidcProvider
from tests.web.conftest import Form, Site, running_site, wait_for


def test_looking_at_a_link_does_not_use_it_up(site: Site) -> None:
    link = site.link()
    with site.client() as client:
        assert client.get(link).status_code == 200
        assert "falaj-session" not in client.cookies
        page = client.get(link)
        assert Form(page.text, "/sign-in").send(client).status_code == 303
        assert client.get("/").status_code == 200


def test_a_link_signs_in_once(site: Site) -> None:
    link = site.link()
    with site.client() as first, site.client() as second:
        assert Form(first.get(link).text, "/sign-in").send(first).status_code == 303
        answer = Form(second.get(link).text, "/sign-in").send(second)
        assert answer.status_code == 401
        assert "falaj-session" not in second.cookies
        assert "falaj console" in answer.text


def test_the_sign_in_form_works_only_in_the_browser_that_was_given_it(site: Site) -> None:
    with site.client() as ours, site.client() as theirs:
        form = Form(ours.get(site.link()).text, "/sign-in")
        assert form.send(theirs).status_code == 403
        theirs.get("/sign-in")
        assert form.send(theirs).status_code == 403
        assert form.send(ours).status_code == 303


@pytest.mark.parametrize("tls", [False, True])
def test_the_session_is_kept_from_scripts_other_sites_and_neighbours(tmp_path: Path, tls: bool) -> None:
    for site in running_site(tmp_path, tls=tls):
        with site.client() as client:
            page = client.get(site.link())
            before = page.headers["set-cookie"]
            visit = before.partition("=")[2].partition(";")[0]
            name = before.partition("=")[0]
            answer = client.post("/sign-in", data=Form(page.text, "/sign-in").fields, headers={"cookie": f"{name}={visit}"})
            assert answer.status_code == 303
        kept = next(header for header in answer.headers.get_list("set-cookie") if "session=falaj_" in header)
        assert kept.startswith("__Host-falaj-session=" if tls else "falaj-session=")
        assert ("Secure" in kept) is tls
        assert "HttpOnly" in kept
        assert "SameSite=lax" in kept
        assert "Path=/" in kept
        assert "Domain" not in kept
        assert "Max-Age=" in kept


def test_signing_out_ends_the_session_itself(site: Site) -> None:
    token = site.session()
    with site.client(token) as client:
        assert client.get("/sign-out").status_code == 405
        answer = Form(client.get("/").text, "/sign-out").send(client)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?left")
    with pytest.raises(Unauthenticated):
        site.call(WHOAMI, Nothing(), token=token)
    with site.client(token) as client:
        assert client.get("/").headers["location"] == "/sign-in?next=%2F"


def test_a_session_that_ended_while_a_form_was_open_leads_back_to_its_page(site: Site) -> None:
    token = site.session()
    with site.client(token) as client:
        page = client.get("/projects").text
        Form(page, "/sign-out").send(client)
        client.cookies.set("falaj-session", token)
        answer = Form(page, "/projects/-/project.create").send(client, name="late", zones="home")
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fprojects")
        again = client.get("/audit", headers={"hx-request": "true"})
        assert (again.status_code, again.headers["hx-redirect"]) == (401, "/sign-in?next=%2Faudit")


def test_an_api_token_in_a_cookie_of_another_name_counts_for_nothing(site: Site) -> None:
    with site.client() as client:
        client.cookies.set("session", site.owner)
        assert client.get("/").status_code == 303
        assert client.get("/", headers={"authorization": f"Bearer {site.owner}"}).status_code == 303


@pytest.fixture
def oidc_site(tmp_path: Path, oidc_provider: OidcProvider):
    section = OidcSection(
        issuer=oidc_provider.issuer,
        client_id=oidc_provider.client_id,
        client_secret=oidc_provider.client_secret,
        cli_client_id=oidc_provider.cli_client_id,
    )
    for site in running_site(tmp_path, oidc=section):
        site.call(MAP_PLATFORM_GROUP, GroupRole(group="ml-team", role=Role.VIEWER))
        yield site


def test_the_identity_provider_signs_people_in(oidc_site: Site, browser: Chrome) -> None:
    browser.get(oidc_site.url + "/")
    browser.find_element(By.CSS_SELECTOR, "form[action='/sign-in/oidc/start'] button").click()
    wait_for(browser, "input[name=login]").send_keys("layla")
    browser.find_element(By.CSS_SELECTOR, "button").click()
    assert wait_for(browser, ".me-name").text in ("Layla", "layla")
    assert browser.current_url == oidc_site.url + "/"
    assert browser.get_cookie("falaj-session")["httpOnly"] is True
    assert browser.get_cookie("falaj-oidc") is None


def test_groups_of_the_provider_are_given_roles_on_the_page(oidc_site: Site) -> None:
    with oidc_site.client(oidc_site.session()) as client:
        page = client.get("/people").text
        assert "ml-team" in page
        assert Form(page, "/people/-/platform.map-group").send(client, group="auditors", role="auditor").status_code == 303
        assert "auditors</bdi>" in client.get("/people").text
        inside = Form(client.get("/projects/default/members").text, "/projects/default/members/-/group.map")
        assert inside.send(client, group="ml-team", role="scientist").status_code == 303
        drop = Form(client.get("/projects/default/members").text, "/projects/default/members/-/group.unmap")
        assert drop.send(client).status_code == 303


def test_someone_the_provider_knows_and_we_do_not_is_told_so(oidc_site: Site, oidc_provider: OidcProvider) -> None:
    with oidc_site.client() as client:
        page = Form(client.get("/sign-in").text, "/sign-in/oidc/start").send(client)
        target = page.text.partition("0;url=")[2].partition('"')[0].replace("&amp;", "&")
        answer = client.get(oidc_provider.log_in(target, "noor"))
        assert answer.status_code == 403
        assert "None of your groups has a role here" in answer.text
        assert "falaj-session" not in client.cookies


def test_an_answer_of_the_provider_counts_only_in_the_browser_that_set_out(
    oidc_site: Site, oidc_provider: OidcProvider
) -> None:
    with oidc_site.client() as ours, oidc_site.client() as theirs:
        page = Form(ours.get("/sign-in").text, "/sign-in/oidc/start").send(ours)
        target = page.text.partition("0;url=")[2].partition('"')[0].replace("&amp;", "&")
        answer = oidc_provider.log_in(target, "layla")
        victim = theirs.get(answer, headers={"sec-fetch-site": "cross-site"})
        assert victim.status_code == 401
        assert "falaj-session" not in theirs.cookies
        assert ours.get(answer, headers={"sec-fetch-site": "cross-site"}).status_code == 303
        assert ours.get("/").status_code == 200
        assert ours.get(answer).status_code == 401


def test_wrong_codes_and_invented_sessions_count_against_the_address(tmp_path: Path) -> None:
    for site in running_site(tmp_path, stranger_calls_per_second=5.0):
        with site.client("falaj_invented") as client:
            form = Form(client.get("/sign-in?code=wrong").text, "/sign-in")
            answers = [form.send(client, code=f"wrong-{number}").status_code for number in range(12)]
            assert answers[0] == 401
            assert answers[-1] == 429
            assert client.get("/sign-in").status_code == 429
            assert answers.count(401) <= 7, "a wrong code counts twice: as a call and as a failure"
