"""What the pages say, to whom, and what their forms do."""

import re

import pytest

from falaj.app.predictions import PlanePredictor
from falaj.base.ids import new_id
from falaj.base.values import Nothing
from falaj.database.binding import Bound
from falaj.governance.identity.operations import LIST_TOKENS, WHOAMI, ListTokens
from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.policies.operations import PUT_PLATFORM_POLICY, PUT_POLICY, PutPlatformPolicy, PutPolicy
from falaj.governance.projects.operations import (
    LIST_PROJECTS,
    SHOW_PROJECT,
    UPDATE_PROJECT,
    ListProjects,
    OneProject,
    UpdateProject,
)
from falaj.governance.roles import Role
from falaj.governance.zones.operations import CREATE_ZONE, CreateZone
from falaj.storage.operations import BLOB_LIST, BLOB_PUT, ListBlobs, PutBlob
from falaj.web.operations import OPERATIONS
from falaj.web.routes import Console
from falaj.web.sitemap import DONE, PAGES
from falaj.wire.uploads import UploadSlots
from tests.web.conftest import Form, Site

NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"&{{7*7}}"
PATHS = ["/", "/projects", "/projects/fraud", "/projects/fraud/members", "/projects/fraud/blobs", "/zones", "/people"]
PATHS += [
    f"/projects/fraud{path}" for path in ("/experiments", "/experiments/0", "/models", "/activity", "/compare", "/endpoints")
]
PATHS += ["/projects/fraud/endpoint-keys"]
PATHS += ["/tokens", "/policies", "/policies?project=fraud&action=blob.put"]
PATHS += ["/audit", "/audit?span=day&outcome=done", "/audit/proof?index=0"]


def test_every_route_stands_for_a_declared_operation(site: Site) -> None:
    console = Console(
        site.platform.face,
        site.platform.dispatcher,
        clock=site.platform.clock,
        rates=AnyRate(),
        uploads=UploadSlots(),
        predictor=PlanePredictor(),
        url=site.url,
        tls=False,
    )
    bound = {operation.name for operation in site.platform.dispatcher.operations}
    for route in console.routes():
        assert route.endpoint.operation.name in bound, route.path  # type: ignore[attr-defined]
        assert {operation.name for operation in route.endpoint.operations} <= bound, route.path  # type: ignore[attr-defined]


class AnyRate:
    def admit(self, credentials: str | None, address: str) -> None: ...

    def failed(self, address: str) -> None: ...


def test_every_form_that_leads_elsewhere_says_what_was_done() -> None:
    for page in PAGES:
        for form in page.forms:
            assert form.then is None or form.operation.name in DONE, form.operation.name


def test_the_console_declares_nothing_but_what_anybody_may_see(site: Site) -> None:
    assert all(isinstance(bound, Bound) for bound in site.platform.face.bindings())
    assert {operation.permission.group for operation in OPERATIONS} == {"public"}


@pytest.fixture
def fraud(site: Site) -> Site:
    site.project("fraud", "Card fraud")
    site.call(BLOB_PUT, PutBlob(project="fraud", name="model.onnx"), data=b"weights")
    return site


def test_no_page_holds_a_script_or_a_style_of_its_own(fraud: Site) -> None:
    with fraud.client(fraud.session()) as client:
        for path in [*PATHS, "/sign-in", "/nowhere"]:
            page = client.get(path).text
            assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", page) == [], path
            assert page.count("<h1>") == 1, path


def test_what_people_wrote_is_shown_as_text(fraud: Site) -> None:
    fraud.call(UPDATE_PROJECT, UpdateProject(project="fraud", description=NASTY))
    fraud.person("mallory", display=NASTY, roles={"fraud": Role.VIEWER})
    fraud.call(BLOB_PUT, PutBlob(project="fraud", name=NASTY), data=b"x")
    with fraud.client(fraud.session()) as client:
        for path in [*PATHS, f"/projects?done={NASTY}", f"/audit?who={NASTY}", f"/sign-in?code={NASTY}&next={NASTY}"]:
            page = client.get(path).text
            assert "<script>alert" not in page, path
            assert "<img src=x" not in page, path
            assert "49" not in re.findall(r"&amp;(\d\d)", page), path
        assert "&lt;script&gt;alert(1)" in client.get("/projects/fraud").text
        assert "&lt;script&gt;alert(1)" in client.get("/people").text
        answer = Form(client.get("/projects").text, "/projects/-/project.create").send(client, name=NASTY, zones="home")
        assert answer.status_code == 400
        assert "<script>alert" not in answer.text


def test_someone_outside_a_project_is_told_there_is_nothing(fraud: Site) -> None:
    with fraud.client(fraud.person("priya")) as client:
        missing, closed = client.get("/projects/nothing"), client.get("/projects/fraud")
        assert missing.status_code == closed.status_code == 404
        scrubbed = [re.sub(r"[0-9a-f]{32}|fraud|nothing", "", answer.text, flags=re.IGNORECASE) for answer in (missing, closed)]
        assert scrubbed[0] == scrubbed[1]


def test_a_refusal_names_the_rule(fraud: Site) -> None:
    with fraud.client(fraud.person("viewer", roles={"fraud": Role.VIEWER})) as client:
        for path in ("/people", "/audit"):
            answer = client.get(path)
            assert answer.status_code == 403, path
            assert "no-permit" in answer.text, path


def test_walking_the_pages_one_is_shown_leaves_no_refusal_in_the_ledger(fraud: Site) -> None:
    pages = ("", "/members", "/blobs", "/experiments", "/experiments/0", "/models", "/activity")
    inside = [*(f"/projects/fraud{path}" for path in pages), "/policies?project=fraud"]
    for role in Role:
        with fraud.client(fraud.person(f"some-{role}", roles={"fraud": role})) as client:
            shown = re.findall(r'<li><a href="(/[a-z]*)"', client.get("/").text)
            for path in [*shown, *inside]:
                assert client.get(path).status_code == 200, (role, path)
    assert fraud.call(LOG, ReadLog(outcome="refused")).items == ()


def test_a_platform_admin_without_a_role_sees_that_a_project_exists_and_not_what_is_in_it(fraud: Site) -> None:
    with fraud.client(fraud.person("root", platform=Role.ADMIN)) as client:
        page = client.get("/projects/fraud")
        assert page.status_code == 200
        assert "hold no role in it" in page.text
        assert "model.onnx" not in client.get("/projects/fraud/blobs").text


def test_a_mistake_is_told_beside_its_field_and_what_was_typed_stays(site: Site) -> None:
    with site.client(site.session()) as client:
        form = Form(client.get("/projects").text, "/projects/-/project.create")
        answer = form.send(client, name="Not A Name", description="kept", zones="home")
        assert answer.status_code == 400
        assert "Use small letters" in answer.text
        assert 'value="Not A Name"' in answer.text
        assert 'value="kept"' in answer.text
        assert 'aria-invalid="true"' in answer.text
        taken = Form(answer.text, "/projects/-/project.create").send(client, name="default", zones="home")
        assert taken.status_code == 409
        assert 'role="alert"' in taken.text


def test_a_form_sent_twice_does_its_work_once(site: Site) -> None:
    with site.client(site.session()) as client:
        form = Form(client.get("/tokens").text, "/tokens/-/token.create")
        assert form.send(client, label="once").status_code == 200
        again = form.send(client, label="once")
        assert again.status_code == 409
        assert "shown only once" in again.text
    assert [token.label for token in site.call(LIST_TOKENS, ListTokens()).items].count("once") == 1


def test_a_new_token_is_shown_once_and_works(site: Site) -> None:
    with site.client(site.session()) as client:
        form = Form(client.get("/tokens").text, "/tokens/-/token.create")
        page = form.send(client, label="notebook", days="7", scopes=["read", "write"]).text
        secret = re.search(r"falaj_[A-Za-z0-9_-]{20,}", page)
        assert secret is not None
        assert secret[0] not in client.get("/tokens").text
    assert set(site.call(WHOAMI, Nothing(), token=secret[0]).scopes) == {"read", "write"}
    made = next(token for token in site.call(LIST_TOKENS, ListTokens()).items if token.label == "notebook")
    assert set(made.scopes) == {"read", "write"}


def test_roles_are_given_and_taken_back(fraud: Site) -> None:
    fraud.person("maryam")
    with fraud.client(fraud.session()) as client:
        add = Form(client.get("/projects/fraud/members").text, "/projects/fraud/members/-/member.add")
        answer = add.send(client, member="maryam", role="scientist")
        assert answer.headers["location"] == "/projects/fraud/members?done=member.add"
        page = client.get(answer.headers["location"]).text
        assert "The role was given." in page
        remove = Form(page, "/projects/fraud/members/-/member.remove")
        assert remove.send(client, member="maryam", role="scientist").status_code == 303
        assert "maryam</bdi>" not in client.get("/projects/fraud/members").text


def test_a_form_address_opened_by_hand_shows_its_page(site: Site) -> None:
    with site.client(site.session()) as client:
        answer = client.get("/projects/-/project.create")
        assert (answer.status_code, answer.headers["location"]) == (303, "/projects")


def test_lists_of_words_and_countries_are_taken_from_plain_fields(site: Site) -> None:
    with site.client(site.session()) as client:
        form = Form(client.get("/zones").text, "/zones/-/zone.create")
        typed = {"name": "frankfurt", "storage": "local", "jurisdictions": "gdpr, dora"}
        wrong = form.send(client, country="Germany", **typed)
        assert wrong.status_code == 400
        assert "Two capital letters" in wrong.text or "At most 2" in wrong.text
        right = Form(wrong.text, "/zones/-/zone.create")
        assert right.send(client, country="DE", **typed).status_code == 303
        page = client.get("/zones").text
        assert "gdpr" in page
        assert "dora" in page


def test_saving_a_projects_settings_changes_what_was_changed_and_nothing_else(site: Site) -> None:
    site.call(CREATE_ZONE, CreateZone(name="abu-dhabi", country="AE"))
    site.project("fraud", "to be cleared", ("home", "abu-dhabi"))
    with site.client(site.session()) as client:
        page = client.get("/projects/fraud").text
        ticked = re.findall(r'name="zones" value="([^"]+)" checked', page)
        form = Form(page, "/projects/fraud/-/project.update")
        assert form.send(client, description="", zones=ticked).status_code == 303
    project = site.call(SHOW_PROJECT, OneProject(project="fraud"))
    assert project.zones == ("home", "abu-dhabi")  # the first is where things go
    assert project.description == ""


def test_unknown_fields_and_wrong_kinds_of_body_are_refused(site: Site) -> None:
    with site.client(site.session()) as client:
        form = Form(client.get("/projects").text, "/projects/-/project.create")
        assert form.send(client, name="extra", zones="home", owner="me").status_code == 400
        token = form.fields["_csrf"]
        bodies = ({"json": {"name": "extra"}}, {"content": b"\xff=\xfe", "headers": {"content-type": "text/plain"}})
        for body in bodies:
            answer = client.post(form.action, **body, **({"headers": {"x-csrf-token": token}} if "headers" not in body else {}))
            assert answer.status_code == 400
        big = client.post(form.action, data=form.fields | {"name": "x", "description": "y" * 2_000_000})
        assert big.status_code == 413
    assert "extra" not in {project.name for project in site.call(LIST_PROJECTS, ListProjects()).items}


def test_files_go_in_and_come_out_as_they_were(fraud: Site) -> None:
    data = bytes(range(256)) * 4096
    with fraud.client(fraud.session()) as client:
        page = client.get("/projects/fraud/blobs").text
        token = re.search(r'name="csrf-token" content="([0-9a-f]+)"', page)[1]
        put = "/projects/fraud/blobs/-/blob.put"
        assert client.post(f"{put}?name=stolen.bin", content=data).status_code == 403
        answer = client.post(f"{put}?name=data.bin&zone=home", content=data, headers={"x-csrf-token": token})
        assert answer.headers["x-next-page"] == "/projects/fraud/blobs?done=blob.put"
        stored = {blob.name: blob for blob in fraud.call(BLOB_LIST, ListBlobs(project="fraud")).items}
        assert stored.keys() == {"model.onnx", "data.bin"}
        file = client.get(f"/projects/fraud/blobs/{stored['data.bin'].id}")
        assert file.content == data
        assert file.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in file.headers["content-security-policy"]
        drop = Form(client.get("/projects/fraud/blobs").text, "/projects/fraud/blobs/-/blob.delete")
        assert drop.send(client, blob=stored["data.bin"].id).status_code == 303
    assert [blob.name for blob in fraud.call(BLOB_LIST, ListBlobs(project="fraud")).items] == ["model.onnx"]


def test_a_web_page_that_was_stored_is_never_opened_as_one(fraud: Site) -> None:
    page = PutBlob(project="fraud", name='a"b\r\n.html', media_type="text/html")
    stored = fraud.call(BLOB_PUT, page, data=b"<script>1</script>")
    with fraud.client(fraud.session()) as client:
        answer = client.get(f"/projects/fraud/blobs/{stored.id}")
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert "default-src 'none'; sandbox" in answer.headers["content-security-policy"]


def test_the_audit_page_answers_by_name(fraud: Site) -> None:
    maryam = fraud.person("maryam", roles={"fraud": Role.SCIENTIST})
    fraud.call(BLOB_PUT, PutBlob(project="fraud", name="of-maryam"), token=maryam, data=b"1")
    with fraud.client(maryam) as client:
        assert client.get("/zones").status_code == 200
    with fraud.client(fraud.session()) as client:
        page = client.get("/audit?who=maryam&project=fraud&operation=blob.put&span=hour&outcome=done").text
        assert len(re.findall(r"<summary>blob\.put", page)) == 1
        assert "No record answers that" in client.get("/audit?who=maryam&operation=zone.create").text
        assert client.get("/audit?who=nobody-of-that-name").status_code == 400
        assert client.get("/audit?outcome=perhaps").status_code == 400
        assert client.get("/audit?since=2026-01-01T00:00").status_code == 200


def test_a_projects_auditor_sees_that_projects_record_alone(fraud: Site) -> None:
    fraud.project("other")
    with fraud.client(fraud.person("noura", roles={"fraud": Role.AUDITOR})) as client:
        page = client.get("/audit")
        assert page.status_code == 200
        assert "blob.put" in page.text
        assert "Verify now" not in page.text
        assert client.get("/audit?project=other").status_code == 404


def test_the_ledger_is_verified_proved_and_exported_from_the_page(fraud: Site) -> None:
    with fraud.client(fraud.session()) as client:
        wait_until_sequenced(fraud)
        answer = Form(client.get("/audit").text, "/audit/-/audit.verify").send(client)
        assert "The ledger is whole" in answer.text
        leaf = re.search(r"/audit/proof\?leaf=([0-9a-f]{32})", client.get("/audit").text)
        assert leaf is not None
        assert "Signed head" in client.get(f"/audit/proof?leaf={leaf[1]}").text
        export = client.get("/audit/export")
        assert export.headers["content-disposition"].startswith("attachment;")
        assert len(export.text.splitlines()) > 3


def wait_until_sequenced(site: Site) -> None:
    while site.platform.sequencer.step().more:
        pass


def test_a_decision_is_explained(fraud: Site) -> None:
    fraud.person("omar", roles={"fraud": Role.VIEWER})
    with fraud.client(fraud.session()) as client:
        allowed = client.get("/policies?action=blob.put&project=fraud").text
        assert "Allowed" in allowed
        assert "role.admin" in allowed
        assert "Refused" in client.get("/policies?action=blob.put&project=fraud&principal=omar").text
        assert "blob.put touches a project" in client.get("/policies?action=blob.put").text


def test_a_policy_that_is_not_cedar_is_refused_with_the_reason_and_the_text_stays(fraud: Site) -> None:
    with fraud.client(fraud.session()) as client:
        form = Form(client.get("/policies?project=fraud").text, "/policies/-/platform.put-policy")
        answer = form.send(client, policy="broken", text="permit (everything")
        assert answer.status_code == 400
        assert "permit (everything" in answer.text
        assert 'role="alert"' in answer.text


def test_a_builtin_policy_was_never_changed(fraud: Site) -> None:
    with fraud.client(fraud.session()) as client:
        assert "Changed " not in client.get("/policies").text
        text = "forbid (principal, action, resource) when { false };"
        fraud.call(PUT_PLATFORM_POLICY, PutPlatformPolicy(policy="never", text=text))
        assert client.get("/policies").text.count("Changed ") == 1


def test_a_policy_is_edited_where_it_stands(fraud: Site) -> None:
    never = "forbid (principal, action, resource) when { false };"
    fraud.call(PUT_POLICY, PutPolicy(project="fraud", policy="never", text=never))
    with fraud.client(fraud.session()) as client:
        page = client.get("/policies?project=fraud&edit=project/never").text
        assert len(re.findall(r"<textarea[^>]*>[^<]*forbid \(", page)) == 1
        answer = Form(page, "/policies/-/policy.put").send(client, policy="never", text=never.replace("false", "1 == 2"))
        assert answer.headers["location"] == "/policies?project=fraud&done=policy.put"
        assert "1 == 2" in client.get("/policies?project=fraud").text


def test_a_bug_of_ours_is_a_page_with_a_number_and_nothing_else(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with site.client(site.session()) as client:
        monkeypatch.setattr(type(site.platform.dispatcher), "call", lambda *_: 1 / 0)
        answer = client.get("/projects")
        assert answer.status_code == 500
        assert "ZeroDivision" not in answer.text
        assert answer.headers["x-request-id"] in answer.text


def test_assets_are_kept_for_ever_and_named_by_their_content(site: Site) -> None:
    with site.client() as client:
        urls = set(re.findall(r'"(/assets/[^"]+)"', client.get("/sign-in").text))
        assert len(urls) == 4
        for url in urls:
            answer = client.get(url)
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert re.search(r"\.[0-9a-f]{16}\.(css|js|svg)$", url)
        assert client.get("/assets/console.0000000000000000.css").status_code == 404


def test_an_address_without_a_page_gets_a_page_that_says_so(site: Site) -> None:
    with site.client(site.session()) as client:
        answer = client.get("/nowhere")
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")


def test_what_needs_me_names_refusals_and_tokens_that_end_soon(fraud: Site) -> None:
    with fraud.client(fraud.person("omar")) as client:
        assert client.get("/projects/fraud").status_code == 404
    with fraud.client(fraud.session()) as client:
        form = Form(client.get("/tokens").text, "/tokens/-/token.create")
        form.send(client, label="short", days="3")
        wait_until_sequenced(fraud)
        page = client.get("/").text
        assert "1 call was refused today" in page
        assert "Token short expires in 2 days" in page
        assert "not-visible" in page


def test_right_to_left_is_remembered(site: Site) -> None:
    with site.client(site.session()) as client:
        assert 'dir="rtl"' in client.get("/?dir=rtl").text
        assert 'dir="rtl"' in client.get("/zones").text
        assert 'dir="ltr"' in client.get("/zones?dir=ltr").text
        assert 'dir="ltr"' in client.get('/?dir="><script>').text


def test_long_lists_go_on_over_pages(site: Site) -> None:
    for number in range(101):
        site.call(CREATE_ZONE, CreateZone(name=f"zone-{number:03}", country="AE"))
    with site.client(site.session()) as client:
        first = client.get("/zones").text
        following = re.search(r'href="(/zones\?cursor=[^"]+)"', first)
        assert following is not None
        second = client.get(following[1].replace("&amp;", "&")).text
        assert "zone-100" in second
        assert "zone-000" not in second
        assert client.get(f"/zones?cursor={new_id(site.platform.clock.now())}").status_code == 400
