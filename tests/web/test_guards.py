"""What stands between another site, or a crafted link, and the reader's session."""

from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import pytest
from httpx import Response
from hypothesis import given
from hypothesis import strategies as st

from falaj.governance.ledger.queries import follow
from falaj.governance.projects.operations import LIST_PROJECTS, ListProjects
from falaj.web.guards import CSP, csrf_token, local_path
from tests.web.conftest import Form, Site, running_site

CREATE = "/projects/-/project.create"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One for all of these: each test brings a session and a client of its own."""
    yield from running_site(tmp_path_factory.mktemp("guarded"))


def project_names(site: Site) -> set[str]:
    return {project.name for project in site.call(LIST_PROJECTS, ListProjects()).items}


@pytest.mark.parametrize("given_token", ["", "0" * 64, csrf_token("falaj_of_somebody_else")])
def test_a_form_without_this_sessions_token_is_refused_and_changes_nothing(site: Site, given_token: str) -> None:
    with site.client(site.session()) as client:
        answer = client.post(CREATE, data={"_csrf": given_token, "name": "stolen", "zones": "home"})
        assert answer.status_code == 403
        assert "console.csrf" in answer.text
        assert client.post(CREATE, data={"name": "stolen", "zones": "home"}).status_code == 403
    assert "stolen" not in project_names(site)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    ],
)
def test_a_form_sent_from_another_site_is_refused_even_with_the_right_token(site: Site, headers: dict[str, str]) -> None:
    with site.client(site.session()) as client:
        form = Form(client.get("/projects").text, CREATE)
        answer = client.post(CREATE, data=form.fields | {"name": "stolen", "zones": "home"}, headers=headers)
        assert answer.status_code == 403
    assert "stolen" not in project_names(site)


def test_an_old_browser_is_told_by_its_origin(site: Site) -> None:
    with site.client(site.session()) as client:
        form = Form(client.get("/projects").text, CREATE)
        del client.headers["sec-fetch-site"]
        assert form.send(client, name="silent", zones="home").status_code == 403
        client.headers["origin"] = site.url.replace("127.0.0.1", "localhost")
        assert form.send(client, name="other", zones="home").status_code == 403
        client.headers["origin"] = site.url
        assert form.send(client, name="ours", zones="home").status_code == 303
    assert {"silent", "other"} & project_names(site) == set()
    assert "ours" in project_names(site)


TRICKS = [
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "https://evil.example",
    "https:evil.example",
    "javascript:alert(1)",
    "/\t/evil.example",
    "/\n/evil.example",
    " //evil.example",
    "/%09/evil.example\r\nset-cookie: a=b",
    "evil.example",
    "/sign-in?next=/",
    "",
]


@pytest.mark.parametrize("trick", TRICKS)
def test_signing_in_leads_to_a_page_of_ours_whatever_the_link_says(site: Site, trick: str) -> None:
    with site.client() as client:
        page = client.get("/sign-in", params={"code": site.platform.sign_in_code(site.owner), "next": trick})
        answer = Form(page.text, "/sign-in").send(client, next=trick)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"


@given(st.text(max_size=60) | st.builds(lambda tail: "/" + tail, st.text(alphabet="/\\:@?#.%\t\r\n aevil", max_size=20)))
def test_a_local_path_never_leaves_the_site(text: str) -> None:
    path = local_path(text)
    assert path.startswith("/")
    assert urlsplit(urljoin("https://falaj.example/sign-in", path)).netloc == "falaj.example"
    assert not any(ord(character) <= 0x20 for character in path)


def test_signing_in_returns_to_the_page_one_came_for(site: Site) -> None:
    with site.client() as client:
        sent = client.get("/audit?outcome=refused")
        assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in?next=%2Faudit%3Foutcome%3Drefused")
        page = client.get(sent.headers["location"] + "&code=" + site.platform.sign_in_code(site.owner))
        answer = Form(page.text, "/sign-in").send(client)
        assert answer.headers["location"] == "/audit?outcome=refused"


@pytest.mark.parametrize("path", ["/sign-in", "/", "/projects", "/audit", "/nowhere"])
def test_every_page_carries_the_strict_policy(site: Site, path: str) -> None:
    with site.client(site.session()) as client:
        answer = client.get(path)
        assert answer.headers["content-security-policy"] == CSP
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"):
        assert part in CSP
    assert "unsafe" not in CSP


@pytest.mark.parametrize(
    "path", ["/projects/..%2f..%2fetc", "/assets/..%2froutes.py", "/assets/%2e%2e", "/projects/%00", "/assets/x;y"]
)
def test_path_tricks_find_nothing(site: Site, path: str) -> None:
    with site.client(site.session()) as client:
        answer = client.get(path)
        assert answer.status_code == 404
        assert "root:" not in answer.text


def left_traces(site: Site, answer: Response) -> bool:
    site.platform.sequencer.step(close_all_windows=True)
    found = site.platform.database.read(lambda work: follow(work, -1, 1_000_000))
    return answer.headers["x-request-id"] in {leaf.readable().request_id for leaf in found}


ARTIFACTS = f"/projects/default/artifacts/{'0' * 32}"


@pytest.mark.parametrize(
    "path",
    [
        "/audit",
        "/audit/export",
        "/audit/proof?index=0",
        "/projects/default/blobs/some",
        f"{ARTIFACTS}?name=x",
        f"{ARTIFACTS}/file?name=x",
        f"{ARTIFACTS}/picture?name=x",
        "/projects/default/version/files?model=m&version=1&name=x",
        "/projects/default/endpoints/some/calls",
    ],
)
def test_another_site_cannot_make_a_reader_leave_traces(site: Site, path: str) -> None:
    with site.client(site.session()) as client:
        for where in ("cross-site", "same-site"):
            answer = client.get(path, headers={"sec-fetch-site": where})
            assert answer.status_code == 403
            assert "Open this from the console" in answer.text
            assert not left_traces(site, answer)
        answer = client.get("/audit", headers={"sec-fetch-site": "none"})
        assert answer.status_code == 200
        assert left_traces(site, answer)


def test_a_link_elsewhere_may_lead_to_a_page_that_leaves_no_trace(site: Site) -> None:
    with site.client(site.session()) as client:
        assert client.get("/projects", headers={"sec-fetch-site": "cross-site"}).status_code == 200
