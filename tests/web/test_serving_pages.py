"""The pages of endpoints: what answers, how to change it, how to try it, and who may not."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import pytest

from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.roles import Role
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.serving.operations import endpoints, keys
from falaj.serving.operations.loads import PlaneLoad
from falaj.serving.operations.words import Arm, Steps
from tests.web import served
from tests.web.conftest import Form, Site, running_site

NASTY = "<script>alert(1)</script>'\"&{{7*7}} ünï"
LIST = "/projects/fraud/endpoints"
PAGE = f"{LIST}/scores"
KEYS = "/projects/fraud/endpoint-keys"
FORMS = {
    "rollback": {},
    "promote": {"revision": "1"},
    "split": {"share-1": "100"},
    "configure": {},
    "delete": {},
    "token": {"records": "{}"},
}


class Team:
    """A model of three versions; Maryam deploys, Sami writes, Omar looks on, and Eve belongs to another project."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.project("fraud", "Card fraud")
        site.project("other")
        self.maryam = site.person("maryam", roles={"fraud": Role.ENGINEER})
        self.sami = site.person("sami", roles={"fraud": Role.SCIENTIST})
        self.omar = site.person("omar", roles={"fraud": Role.VIEWER})
        self.eve = site.person("eve", roles={"other": Role.ADMIN})
        self.versions = [served.version(site) for _ in range(3)]

    def get(self, path: str, token: str | None = None, **headers: str) -> httpx.Response:
        with self.site.client(token or self.maryam) as client:
            return client.get(path, headers=headers)

    def submit(self, place: str, operation: str, token: str | None = None, **fields: Any) -> httpx.Response:
        """Fill in a form of a page, send it, and follow to where it leads."""
        with self.site.client(token or self.maryam) as client:
            form = Form(client.get(place).text, f"{place}/-/{operation}")
            answer = form.send(client, **fields)
            return client.get(answer.headers["location"]) if answer.status_code == 303 else answer

    def version_page(self, number: int) -> str:
        return f"/projects/fraud/versions/{self.versions[number - 1].id}"

    def arms(self) -> list[tuple[int, int, str]]:
        return [(arm.revision, arm.share, arm.role) for arm in served.show(self.site).arms]

    def leaves(self, operation: str) -> int:
        self.site.platform.sequencer.step(close_all_windows=True)
        return len(self.site.call(LOG, ReadLog(operation=operation)).items)


@pytest.fixture
def team(tmp_path: Any) -> Iterator[Team]:
    for site in running_site(tmp_path):
        yield Team(site)


def test_before_anything_is_deployed_the_page_says_what_to_do(team: Team) -> None:
    page = team.get(LIST).text
    assert "Nothing is deployed yet" in page
    assert "falaj deploy MODEL:VERSION --name fraud --project fraud" in page
    assert f'href="{LIST}" aria-current="page"' in page


def test_a_version_is_deployed_from_its_page_and_rolled_back_on_the_endpoints(team: Team) -> None:
    for number in (1, 2):
        page = team.submit(team.version_page(number), "endpoint.deploy", endpoint="scores", mode="live", reason=f"try {number}")
        assert page.url.path == PAGE
        assert "Deployed. Planes load it now" in page.text
    assert team.arms() == [(2, 10_000, "live")]
    now = team.get(PAGE).text
    assert "try 2" in now
    assert f'href="{team.version_page(2)}"' in now
    assert "most answers then come from revision 1 (card-fraud v1)" in now
    back = team.submit(PAGE, "endpoint.rollback", reason="alarms doubled").text
    assert "the split before is in force again" in back
    assert "alarms doubled" in back
    assert team.arms() == [(1, 10_000, "live")]
    assert "endpoint.rollback" not in team.get(PAGE, team.omar).text
    story = team.get(team.version_page(1)).text
    assert "Where it answers" in story
    assert f'<a href="{PAGE}"><g class="lineage-node lineage-endpoint">' in story
    team.submit(PAGE, "endpoint.delete")
    assert team.get(PAGE).status_code == 404
    assert f'href="{PAGE}"' not in team.get(team.version_page(1)).text, "a node that is gone leads nowhere"


def test_remarks_about_a_deployment_are_shown_before_one_goes_on(team: Team) -> None:
    page = team.submit(team.version_page(1), "endpoint.deploy", endpoint="scores", mode="canary", percent="5").text
    assert "The endpoint answered with nothing before, so this revision gets everything." in page
    assert f'href="{PAGE}">Go to the endpoint' in page


def test_a_wrong_deployment_is_told_on_the_form_and_keeps_what_was_typed(team: Team) -> None:
    page = team.submit(team.version_page(1), "endpoint.deploy", endpoint="Big Name", mode="canary", percent="5")
    assert page.status_code == 400
    assert "Use small letters" in page.text
    assert 'value="Big Name"' in page.text
    assert 'name="mode" value="canary" checked' in page.text
    page = team.submit(team.version_page(1), "endpoint.deploy", endpoint="scores", mode="canary", percent="500")
    assert "Write per cent, from 0 to 100." in page.text
    assert "endpoint.deploy" not in team.get(team.version_page(1), team.omar).text


def test_a_canary_shows_how_far_it_is_and_is_promoted(team: Team) -> None:
    served.deploy(team.site, 1)
    steps = {"steps": "10, 50, 100", "minutes": "60"}
    team.submit(team.version_page(2), "endpoint.deploy", endpoint="scores", mode="canary", percent="10", **steps)
    page = team.get(PAGE).text
    assert "step 1 of 3" in page
    assert '<li aria-current="step">10 %</li><li>50 %</li>' in page
    assert served.show(team.site).steps == Steps(shares=(1_000, 5_000, 10_000), seconds=3_600)
    assert "that revision gets everything" in team.submit(PAGE, "endpoint.promote", revision="2").text
    assert team.arms() == [(2, 10_000, "live")]


def test_a_split_is_set_by_rows_and_its_mistakes_are_told_beside_them(team: Team) -> None:
    for number in (1, 2, 3):
        served.deploy(team.site, number)
    wrong = team.submit(PAGE, "endpoint.split", **{"share-1": "50", "share-2": "40"})
    assert wrong.status_code == 400
    assert "The live shares sum to 90 %; they must sum to 100 %." in wrong.text
    assert 'id="share-2" name="share-2" type="text" value="40"' in wrong.text
    rows = {"share-1": "60", "share-2": "40", "share-3": "25", "role-3": "shadow", "label-2": "new"}
    assert "The split is changed" in team.submit(PAGE, "endpoint.split", reason="a test", **rows).text
    assert team.arms() == [(1, 6_000, "live"), (2, 4_000, "live"), (3, 2_500, "shadow")]
    refused = team.submit(PAGE, "endpoint.split", **{"share-9": "100"})
    assert "has no revision 9" in refused.text


def test_options_are_set_on_the_page(team: Team) -> None:
    served.deploy(team.site, 1)
    given = {"latency_ms": "20", "log_percent": "2.5", "masked": "card number\r\nage", "nan": "refuse", "device": "cpu"}
    assert "The options are set" in team.submit(PAGE, "endpoint.configure", **given).text
    options = served.show(team.site).options
    assert (options.latency_ms, options.log_share, options.masked, options.nan) == (20, 250, ("card number", "age"), "refuse")
    wrong = team.submit(PAGE, "endpoint.configure", latency_ms="0", log_percent="1")
    assert wrong.status_code == 400
    assert 'aria-invalid="true" aria-describedby="latency_ms-more"' in wrong.text


def test_the_list_and_the_page_show_what_happens(team: Team) -> None:
    endpoint = served.deploy(team.site, 1)
    assert "does not answer" in team.get(LIST).text
    assert "No serving plane of zone" in team.get(PAGE).text
    assert "Endpoint scores does not answer" in team.get("/", team.omar).text
    plane = served.Plane(team.site)
    plane.report(endpoint, **served.did(600, errors=6), cold_start_ms=1234.4)
    page = team.get(PAGE).text
    assert "1 of 1 planes ready" in page
    assert "cold start 1234 ms" in page
    assert '<span class="state good">answers</span>' in page
    assert re.search(r'data-figure="errors">1 %<', page)
    listed = team.get(LIST).text
    assert '<span class="outcome good">answers</span>' in listed
    assert 'class="spark"' in listed
    assert "Endpoint scores" not in team.get("/", team.omar).text
    assert "curl http://127.0.0.1:9/v2/endpoints/scores/predict" in page
    assert 'falaj predict scores --project fraud \'{"age": 0.0, "n": 0, "s": 0.0}\'' in html.unescape(page)
    assert "Plane first: 1 worker uses 0 % of a core, 0 calls in hand" in page
    plane.report(endpoint, load=PlaneLoad(busy=0.634, calls=12, rows=340))
    told = "Plane first: 1 worker uses 63 % of a core, 12 calls in hand, 340 rows waiting or at work."
    assert told in team.get(PAGE).text
    assert [one["sentence"] for one in json.loads(team.get(f"{PAGE}/traffic").text)["hosts"]] == [told]
    points = json.loads(team.get(f"{PAGE}/traffic?seconds=900").text)["points"]
    assert [(point["revision"], point["requests"], point["errors"]) for point in points] == [(1, 600, 6)]
    plane.report(endpoint, problems=("The disk is nearly full.",))
    assert "It answers, and something is wrong." in team.get(PAGE).text
    assert "The disk is nearly full." in team.get(PAGE).text
    assert "Endpoint scores answers, with problems" in team.get("/", team.omar).text


def test_a_quarantine_is_told_plainly(team: Team) -> None:
    served.deploy(team.site, 1)
    endpoint = served.deploy(team.site, 2)
    plane = served.Plane(team.site)
    plane.report(endpoint, quarantined=True, problem="It broke three workers.")
    team.site.platform.serving.step(team.site.platform.clock.now())
    page = team.get(PAGE).text
    assert "The platform took a revision out" in page
    assert '<span class="badge bad">quarantined</span>' in page
    assert "the platform</span>" in page
    assert team.arms() == [(1, 10_000, "live")]


# Trying it


def deployed_and_answering(team: Team, url: str) -> None:
    plane = served.Plane(team.site, url=url)
    plane.report(served.deploy(team.site, 1))


def test_a_prediction_is_tried_as_oneself_and_the_token_stays_here(team: Team) -> None:
    with served.answering() as answers:
        deployed_and_answering(team, answers.url)
        page = team.submit(PAGE, "endpoint.token", team.sami, records='{"age": 1, "n": 2, "s": 3}', key="ann")
        assert page.status_code == 200
        [(path, headers, body)] = answers.asked
    assert (path, body) == ("/v2/endpoints/scores/predict", {"age": 1, "n": 2, "s": 3})
    assert "by revision 1 (version 1)" in page.text
    assert '"predictions"' in html.unescape(page.text)
    token = headers["authorization"].removeprefix("Bearer ")
    assert token not in page.text
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["aud"] == [f"endpoint:{served.show(team.site).id}"]
    assert claims["exp"] - claims["iat"] <= 3600
    assert team.leaves("endpoint.token") == 1


def test_a_prediction_cannot_be_sent_anywhere_else(team: Team) -> None:
    with served.answering() as answers, served.answering() as evil:
        deployed_and_answering(team, answers.url)
        elsewhere = {"url": evil.url, "host": evil.url, "endpoint": f"x@{evil.url}", "project": "other", "_url": evil.url}
        page = team.submit(PAGE, "endpoint.token", records="{}", **elsewhere)
        assert page.status_code == 200
        assert evil.asked == []
        assert [path for path, _, _ in answers.asked] == ["/v2/endpoints/scores/predict"]
        for path in (f"{LIST}/scores%2f..%2f..%2fx/-/endpoint.token", f"{LIST}/@evil/-/endpoint.token"):
            with team.site.client(team.maryam) as client:
                fields = Form(client.get(PAGE).text, f"{PAGE}/-/endpoint.token").fields
                assert client.post(path, data=fields | {"records": "{}"}).status_code == 404
        assert (len(answers.asked), evil.asked) == (1, [])


def test_what_the_plane_says_is_shown_as_text_also_where_it_refuses(team: Team) -> None:
    with served.answering() as answers:
        deployed_and_answering(team, answers.url)
        answers.status, answers.content = 401, json.dumps({"error": NASTY}).encode()
        page = team.submit(PAGE, "endpoint.token", records="{}")
        assert page.status_code == 200, "the plane's 401 is not ours: nobody is signed out"
        assert "refused with 401" in page.text
        assert "<script>alert" not in page.text
        wrong = team.submit(PAGE, "endpoint.token", records='{"age": ')
        assert wrong.status_code == 400
        assert "This is not JSON" in wrong.text
        assert len(answers.asked) == 1
        assert team.leaves("endpoint.token") == 1, "no token is asked for in vain"
    gone = team.submit(PAGE, "endpoint.token", records="{}")
    assert gone.status_code == 503
    assert "did not answer in time" in gone.text


def test_without_a_plane_the_form_says_so(team: Team) -> None:
    served.deploy(team.site, 1)
    page = team.get(PAGE).text
    assert "once a plane answers" in page
    told = team.submit(PAGE, "endpoint.token", records="{}")
    assert told.status_code == 503
    assert "No serving plane answers for scores now." in told.text


# Keys


def test_a_key_is_shown_once_listed_and_revoked(team: Team) -> None:
    served.deploy(team.site, 1)
    made = team.submit(KEYS, "endpoint.key-create", label="checkout", days="7", endpoints="scores")
    token = re.search(r'<pre[^>]*aria-label="the new key">([^<]+)</pre>', made.text)
    assert token is not None
    page = team.get(KEYS).text
    assert token[1] not in page
    assert "checkout" in page
    [key] = team.site.call(keys.LIST_KEYS, keys.ListKeys(project="fraud")).items
    assert (key.endpoints, key.manage) == (("scores",), False)
    assert "The key is revoked" in team.submit(KEYS, "endpoint.key-revoke", key=key.id).text
    assert '<span class="badge bad">revoked</span>' in team.get(KEYS).text
    for token_of in (team.omar, team.sami):
        assert "Closed to you" in team.get(KEYS, token_of).text
    assert team.leaves("endpoint.key-list") == 0, "nobody was accused of looking"


# Who may not


def test_sampled_calls_are_read_on_their_own_page_and_that_is_recorded(team: Team) -> None:
    endpoint = served.deploy(team.site, 1, options=endpoints.Options(log_share=10_000, masked=("age",)))
    calls = (served.call(endpoint, "call-1", team.site.platform.clock.now(), inputs=json.dumps({"n": NASTY})),)
    served.Plane(team.site).report(endpoint, calls=calls, **served.did(1))
    team.get(PAGE)
    assert team.leaves("endpoint.logs") == 0
    page = team.get(f"{PAGE}/calls").text
    assert "call-1" in page
    assert "<script>alert" not in page
    assert team.leaves("endpoint.logs") == 1
    assert "Closed to you" in team.get(f"{PAGE}/calls", team.omar).text
    assert team.get(f"{PAGE}/calls", **{"sec-fetch-site": "cross-site"}).status_code == 403
    assert team.leaves("endpoint.logs") == 1


def test_another_projects_endpoint_does_not_exist(team: Team) -> None:
    served.deploy(team.site, 1)
    asked = (PAGE, f"{PAGE}/calls", f"{PAGE}/now", f"{PAGE}/traffic")
    for path in asked:
        assert team.get(path, team.eve).status_code == 404, path
        assert team.get(path.replace("/fraud/", "/other/"), team.eve).status_code == 404, path
        there, nowhere = (team.get(path.replace("/fraud/", f"/{name}/"), team.eve).text for name in ("fraud", "no-such"))
        assert _told(there, "fraud") == _told(nowhere, "no-such"), path
    with team.site.client(team.eve) as client:
        token = re.search(r'name="csrf-token" content="([^"]+)"', client.get("/projects").text)
        assert token is not None
        for project in ("fraud", "other"):
            for form, given in FORMS.items():
                path = f"/projects/{project}/endpoints/scores/-/endpoint.{form}"
                assert client.post(path, data=given | {"_csrf": token[1], "_key": "0" * 32}).status_code == 404, path
    assert team.arms() == [(1, 10_000, "live")]


def _told(page: str, project: str) -> str:
    """A refusal without what differs from call to call."""
    return re.sub(r"[0-9a-f]{32}", "", page).replace(project, "")


def test_who_only_looks_on_changes_nothing(team: Team) -> None:
    for number in (1, 2):
        served.deploy(team.site, number)
    page = team.get(PAGE, team.omar)
    assert page.status_code == 200
    assert "/-/endpoint." not in page.text
    with team.site.client(team.omar) as client:
        token = re.search(r'name="csrf-token" content="([^"]+)"', page.text)
        assert token is not None
        for form, given in FORMS.items():
            answer = client.post(f"{PAGE}/-/endpoint.{form}", data=given | {"_csrf": token[1], "_key": "0" * 32})
            assert answer.status_code == 403, form
    assert team.arms() == [(2, 10_000, "live")]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_from_elsewhere_is_refused(team: Team, form: str) -> None:
    for number in (1, 2):
        served.deploy(team.site, number)
    fields = FORMS[form]
    with team.site.client(team.maryam) as client:
        assert client.post(f"{PAGE}/-/endpoint.{form}", data=fields | {"_csrf": "0" * 64}).status_code == 403
        ours = Form(client.get(PAGE).text, f"{PAGE}/-/endpoint.rollback").fields
        headers = {"sec-fetch-site": "cross-site"}
        assert client.post(f"{PAGE}/-/endpoint.{form}", data=ours | fields, headers=headers).status_code == 403
    assert team.arms() == [(2, 10_000, "live")]


def test_what_people_wrote_is_shown_as_text(team: Team) -> None:
    model = f"m {NASTY}"
    team.site.call(CREATE_MODEL, CreateModel(project="fraud", model=model))
    version = served.version(team.site, model)
    endpoint = served.deploy(team.site, 1, model=model, reason=NASTY)
    arms = (Arm(revision=1, share=10_000, label="a-b"),)
    request = endpoints.Split(project="fraud", endpoint="scores", arms=arms, reason=NASTY)
    team.site.call(endpoints.SPLIT_TRAFFIC, request)
    team.site.call(keys.CREATE_KEY, keys.CreateKey(project="fraud", label=NASTY[:100], days=5))
    served.Plane(team.site).report(endpoint, problems=(NASTY,), problem=NASTY)
    for path in (LIST, PAGE, KEYS, "/", "/projects/fraud", f"/projects/fraud/versions/{version.id}"):
        page = team.get(path, team.site.session()).text
        assert "<script>alert" not in page, path
        assert "49 ünï" not in page, path
        assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", page) == [], path
        assert page.count("<h1>") == 1, path
