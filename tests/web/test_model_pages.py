"""The pages of registered models: their story, promotion with a second person, and what can be trusted."""

import html
import re
from collections.abc import Iterator

import httpx
import pytest

from falaj.base.clock import Moment
from falaj.governance.roles import Role
from falaj.lifecycle.operations import gates
from falaj.registry.operations import models, promotions
from tests.web import tracked
from tests.web.conftest import Form, Site, running_site

NASTY = "<script>alert(1)</script>'\"&{{7*7}} ünï"
MODEL = "/projects/fraud/model?model=card-fraud"


class Team:
    """A model of three versions where the champion needs four eyes: Maryam deploys, Noura approves, Omar looks on."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.project("fraud", "Card fraud")
        self.maryam = site.person("maryam", roles={"fraud": Role.ENGINEER})
        self.noura = site.person("noura", roles={"fraud": Role.VALIDATOR})
        self.omar = site.person("omar", roles={"fraud": Role.VIEWER})
        number = tracked.experiment(site)
        self.runs = [
            tracked.run(site, number, f"run-{depth}", params={"depth": str(depth)}, metrics={"auc": [0.7 + depth / 100]})
            for depth in range(3)
        ]
        kinds = ("sklearn2", "lightgbm", "lightgbm")
        self.versions = [tracked.register(site, run, kind=kind) for run, kind in zip(self.runs, kinds, strict=True)]

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        with self.site.client(token or self.site.session()) as client:
            return client.get(path)

    def submit(self, token: str, place: str, operation: str, **fields: str) -> httpx.Response:
        """Fill in a form of a page, send it, and follow to where it leads."""
        base, _, query = place.partition("?")
        with self.site.client(token) as client:
            page = client.get(place).text
            form = Form(page, html.escape(f"{base}/-/{operation}{f'?{query}' if query else ''}"))
            form.action = html.unescape(form.action)
            answer = form.send(client, **fields)
            return client.get(answer.headers["location"]) if answer.status_code == 303 else answer


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    for site in running_site(tmp_path_factory.mktemp("models"), profile="team"):
        yield Team(site)


@pytest.fixture
def fresh(tmp_path: pytest.TempPathFactory) -> Iterator[Team]:
    """For what moves aliases."""
    for site in running_site(tmp_path, profile="team"):  # type: ignore[arg-type]
        yield Team(site)


def champion(team: Team) -> int:
    found = team.site.call(models.SHOW_MODEL, models.OneModel(project="fraud", model="card-fraud"))
    return next((int(alias.version) for alias in found.aliases if alias.alias == "champion"), 0)


def test_a_champion_is_asked_for_approved_promoted_and_rolled_back_on_its_page(fresh: Team) -> None:
    asked = fresh.submit(fresh.maryam, MODEL, "model.promote", alias="champion", version="2", reason="better")
    assert "somebody else&#39;s approval first" in asked.text
    assert "Waiting for approval" in asked.text
    assert champion(fresh) == 0
    assert "approval.give" not in fresh.get(MODEL, fresh.maryam).text
    assert "approval.give" not in fresh.get(MODEL, fresh.omar).text
    needs = fresh.get("/", fresh.noura).text
    assert "Your approval is wanted: card-fraud, champion to version 2" in needs
    assert "Make the move" not in fresh.get("/", fresh.maryam).text
    given = fresh.submit(fresh.noura, MODEL, "approval.give", note="looked at it")
    assert "the last one needed" in given.text
    assert "Approved, make the move: card-fraud, champion to version 2" in fresh.get("/", fresh.maryam).text
    assert "Approved, make the move" not in fresh.get("/", fresh.noura).text
    listed = fresh.get("/projects/fraud/models", fresh.maryam).text
    assert "Approved: make the move" in listed
    assert "Waiting for approval" not in listed
    done = fresh.submit(fresh.maryam, MODEL, "model.promote", alias="champion", version="2")
    assert "The alias points at that version now." in done.text
    assert champion(fresh) == 2
    story = fresh.get(MODEL, fresh.omar).text
    assert "Roll back" not in fresh.get(MODEL, fresh.maryam).text, "there is nothing before"
    assert re.search(r"by <bdi>maryam</bdi> <time[^>]*>[^<]*</time>, approved by noura", story)
    fresh.submit(fresh.maryam, MODEL, "model.promote", alias="champion", version="3")
    compared = f"/projects/fraud/versions/{fresh.versions[1].id}?other=3#changes"
    for path in ("/", "/projects/fraud/models", MODEL):
        page = fresh.get(path, fresh.noura).text
        assert "champion from version 2 to version 3" in page, path
        assert f'href="{compared}"' in page, path
    fresh.submit(fresh.noura, MODEL, "approval.give")
    fresh.submit(fresh.maryam, MODEL, "model.promote", alias="champion", version="3")
    assert champion(fresh) == 3
    assert "Roll champion back from version 3 to version 2?" in fresh.get(MODEL, fresh.maryam).text
    back = fresh.submit(fresh.maryam, MODEL, "model.rollback", alias="champion", reason="alarms doubled")
    assert champion(fresh) == 2, back.text
    assert "rolled back to" in back.text
    assert "alarms doubled" in back.text


def test_a_removal_is_asked_for_in_words_and_made_once_it_is_approved(fresh: Team) -> None:
    for _ in range(2):
        tracked.promote(fresh.site, 2, token=fresh.maryam)
        if champion(fresh) == 0:
            fresh.submit(fresh.noura, MODEL, "approval.give")
    assert champion(fresh) == 2
    fresh.submit(fresh.maryam, MODEL, "model.remove-alias", alias="champion")
    for path in ("/", "/projects/fraud/models", MODEL):
        page = fresh.get(path, fresh.noura).text
        assert "remove champion, which points at version 2" in page, path
        assert "version 0" not in page, path
    fresh.submit(fresh.noura, MODEL, "approval.give")
    assert "Remove champion now" in fresh.get(MODEL, fresh.maryam).text
    fresh.submit(fresh.maryam, MODEL, "model.remove-alias", alias="champion")
    assert champion(fresh) == 0


def test_a_refusal_ends_a_request(fresh: Team) -> None:
    fresh.submit(fresh.maryam, MODEL, "model.promote", alias="champion", version="2")
    page = fresh.get(MODEL, fresh.noura).text
    refuse = re.search(r'formaction="([^"]+)"', page)
    assert refuse is not None
    with fresh.site.client(fresh.noura) as client:
        form = Form(page, html.escape("/projects/fraud/model/-/approval.give?model=card-fraud"))
        assert client.post(html.unescape(refuse[1]), data=form.fields).status_code == 303
    assert "Waiting for approval" not in fresh.get(MODEL).text
    closed = fresh.site.call(promotions.LIST_APPROVALS, promotions.ListApprovals(project="fraud", state="closed"))
    assert [approval.state for approval in closed.items] == ["refused"]


def test_the_page_answers_what_was_in_production_then(fresh: Team) -> None:
    tracked.promote(fresh.site, 2, token=fresh.maryam)
    fresh.submit(fresh.noura, MODEL, "approval.give")
    before = fresh.site.platform.clock.now()
    tracked.promote(fresh.site, 2, token=fresh.maryam)
    after = fresh.site.platform.clock.now()
    with fresh.site.client(fresh.omar) as client:
        ask = "/projects/fraud/model"
        then = client.get(ask, params={"model": "card-fraud", "alias": "champion", "at": str(Moment(after))}).text
        assert re.search(r"<strong>champion</strong> was <a[^>]*>version 2</a>", then)
        answer = then[then.index('id="answer"') :]
        assert "noura" in answer
        assert f'datetime="{Moment(after)}"' in answer, "the moment that was asked"
        assert f'value="{str(Moment(after))[:19]}"' in then
        assert re.search(r'class="sub">by <bdi>maryam</bdi> <time[^>]*>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC<', then)
        never = client.get(ask, params={"model": "card-fraud", "alias": "champion", "at": str(Moment(before))}).text
        assert "pointed at nothing then" in never
        wrong = client.get(ask, params={"model": "card-fraud", "alias": "champion", "at": "yesterday"})
        assert wrong.status_code == 200
        assert 'role="alert"' in wrong.text


def test_models_are_listed_found_and_made(team: Team) -> None:
    assert "card-fraud" in team.get("/projects/fraud/models", team.omar).text
    assert "No model answers that" in team.get("/projects/fraud/models?filter=name = 'x'", team.omar).text
    assert "<bdi>card-fraud</bdi>" in team.get("/projects/fraud/models?filter=Fraud", team.omar).text
    assert "No model answers that" in team.get("/projects/fraud/models?filter=nonsense here", team.omar).text
    wrong = team.get("/projects/fraud/models?filter=nonsense = here", team.omar)
    assert wrong.status_code == 200
    assert 'role="alert"' in wrong.text
    made = team.submit(team.maryam, "/projects/fraud/models", "model.create", model='it\'s a "model" & more', description="x")
    assert "still without versions" in made.text
    assert "it&#39;s a &#34;model&#34; &amp; more" in made.text


def test_a_model_is_described_tagged_renamed_and_deleted_on_its_page(team: Team) -> None:
    team.site.call(models.CREATE_MODEL, models.CreateModel(project="fraud", model="to be changed"))
    place = "/projects/fraud/model?model=to+be+changed"
    assert "decides much" in team.submit(team.maryam, place, "model.describe", description="decides much").text
    assert "critical" in team.submit(team.maryam, place, "model.tag", key="tier", value="critical").text
    assert "critical" not in team.submit(team.maryam, place, "model.untag", key="tier").text
    assert "<bdi>changed</bdi>" in team.submit(team.maryam, place, "model.rename", name="changed").text
    gone = team.submit(team.maryam, "/projects/fraud/model?model=changed", "model.delete")
    assert "What happened to it stays on record" in gone.text
    assert team.get("/projects/fraud/model?model=changed").status_code == 404


def test_a_version_tells_whether_it_can_be_served_and_why_not(team: Team) -> None:
    good = team.get(f"/projects/fraud/versions/{team.versions[1].id}", team.omar).text
    assert "Yes, by lightgbm." in good
    bad = team.get(f"/projects/fraud/versions/{team.versions[0].id}", team.omar).text
    assert "pickle" in bad[bad.index("Can it be served?") :]
    assert "`" not in bad[bad.index("Can it be served?") : bad.index("Can it be trusted?")]


def test_a_version_is_verified_and_its_proofs_are_downloaded(team: Team) -> None:
    version = team.versions[1]
    place = f"/projects/fraud/versions/{version.id}"
    told = team.submit(team.omar, place, "version.verify", model="card-fraud", version="2")
    assert "The signature holds, and 2 files are what was signed" in told.text
    named = "model=card-fraud&version=2"
    bill = team.get(f"/projects/fraud/version/sbom?{named}", team.omar)
    assert bill.json()["bomFormat"] == "CycloneDX"
    assert bill.headers["content-disposition"].startswith("attachment;")
    assert team.get(f"/projects/fraud/version/signature?{named}", team.omar).status_code == 200
    file = team.get(f"/projects/fraud/version/file?{named}&name=MLmodel", team.omar)
    assert b"flavors" in file.content


def test_what_gates_found_stands_on_the_page_of_the_version(fresh: Team) -> None:
    place = f"/projects/fraud/versions/{fresh.versions[1].id}"
    assert "What gates found" not in fresh.get(place, fresh.omar).text
    wanted = (gates.Gate(name="whole", kind="signature"), gates.Gate(name="proven", kind="certificate"))
    fresh.site.call(gates.APPLY_GATES, gates.ApplyGates(project="fraud", gates=wanted))
    fresh.site.call(gates.RUN_GATES, gates.RunGates(project="fraud", model="card-fraud", version=2))
    page = fresh.get(place, fresh.omar).text
    told = page[page.index("What gates found") :]
    assert "bytes are what was signed" in told
    assert "No variant of it has a certificate" in told
    fresh.site.call(gates.APPLY_GATES, gates.ApplyGates(project="fraud", gates=wanted[:1]))
    assert fresh.get(place, fresh.omar).text.count("counts no more") == 1


def test_a_versions_files_are_shown_as_text(team: Team) -> None:
    page = team.get("/projects/fraud/version/files?model=card-fraud&version=2&name=MLmodel", team.omar).text
    assert "flavors:" in page
    assert 'aria-current="true"' in page


def test_lineage_is_drawn_and_every_node_leads_to_its_page(team: Team) -> None:
    page = team.get(f"/projects/fraud/versions/{team.versions[1].id}", team.omar).text
    drawing = page[page.index('class="lineage"') : page.index("</svg>", page.index('class="lineage"'))]
    links = re.findall(r'<a href="([^"]+)"', drawing)
    assert f"/projects/fraud/runs/{team.runs[1]}" in links
    for link in links:
        assert team.get(link, team.omar).status_code == 200, link


def test_two_versions_are_laid_side_by_side(team: Team) -> None:
    page = team.get(f"/projects/fraud/versions/{team.versions[1].id}?other=3", team.omar).text
    changed = page[page.index("What changed from v2 to v3") :]
    assert "depth" in changed
    assert "0.72" in changed
    missing = team.get(f"/projects/fraud/versions/{team.versions[1].id}?other=99", team.omar)
    assert missing.status_code == 200
    assert 'role="alert"' in missing.text


def test_a_run_says_which_versions_came_from_it(team: Team) -> None:
    page = team.get(f"/projects/fraud/runs/{team.runs[1]}", team.omar).text
    assert f'href="/projects/fraud/versions/{team.versions[1].id}"' in page


def test_people_talk_about_a_version_and_are_told(team: Team) -> None:
    place = f"/projects/fraud/versions/{team.versions[2].id}"
    thing = {"kind": "version", "thing": team.versions[2].id}
    said = team.submit(team.maryam, place, "comment.add", text=f"@noura {NASTY}", **thing)
    assert "<script>alert" not in said.text
    assert "&lt;script&gt;alert(1)" in said.text
    asked = team.submit(team.maryam, place, "review.request", whom="noura", note="the threshold", **thing)
    assert "The review was asked for" in asked.text
    needs = team.get("/", team.noura).text
    assert "maryam asks you to review card-fraud v3" in needs
    assert "maryam mentioned you on card-fraud v3" in needs
    with team.site.client(team.noura) as client:
        form = Form(client.get(place).text, f"{place}/-/review.answer")
        assert form.send(client, verdict="approve", note="fine").status_code == 303
    assert "approves" in team.get(place, team.maryam).text
    told = team.submit(team.noura, "/projects/fraud/activity", "notice.read")
    assert "Nothing is new any more" in told.text
    assert "mentioned you" not in team.get("/", team.noura).text


def test_a_share_link_opens_for_members_and_nobody_else(team: Team) -> None:
    place = f"/projects/fraud/versions/{team.versions[2].id}"
    shared = team.submit(team.maryam, place, "link.create", path=place, days="7")
    link = re.search(rf"{team.site.url}(/projects/fraud/links/[0-9a-f]{{32}})", shared.text)
    assert link is not None
    with team.site.client(team.omar) as client:
        assert client.get(link[1]).headers["location"] == place
    with team.site.client(team.site.person("stranger")) as client:
        assert client.get(link[1]).status_code == 404


def test_a_viewer_is_offered_nothing_to_change(team: Team) -> None:
    for path in ("/projects/fraud/models", MODEL, f"/projects/fraud/versions/{team.versions[1].id}"):
        page = team.get(path, team.omar).text
        actions = re.findall(r'<form[^>]*method="post"[^>]*action="/projects/[^"]*/-/([^"?]*)', page)
        assert set(actions) <= {"version.verify"}, path


def test_another_projects_versions_are_not_there(team: Team) -> None:
    team.site.project("other")
    assert team.get(f"/projects/other/versions/{team.versions[0].id}").status_code == 404
    assert team.get("/projects/other/model?model=card-fraud").status_code == 404


def test_a_wrong_id_in_an_address_is_a_page_that_is_not_there(team: Team) -> None:
    for path in (
        "runs/nonsense",
        "versions/nonsense",
        "experiments/nonsense",
        "artifacts/nonsense",
        "blobs/nonsense",
        "links/x",
    ):
        answer = team.get(f"/projects/fraud/{path}")
        assert answer.status_code == 404, path
        assert "Nothing here" in answer.text, path
        assert "this form" not in answer.text, path


def test_a_file_of_a_run_is_listed_among_the_blobs_and_its_deletion_is_refused_in_words(team: Team) -> None:
    page = team.get("/projects/fraud/blobs", team.maryam).text
    assert "The files of a run are with their run" in page
    refused = team.submit(team.maryam, "/projects/fraud/blobs", "blob.delete")
    assert refused.status_code == 409
    assert "You hold no reference to this blob" in refused.text


def test_who_may_not_audit_is_told_when_a_project_was_made_and_not_that_it_was_active_then(team: Team) -> None:
    assert "Last activity" in team.get("/").text
    seen = team.get("/", team.omar).text
    assert "Last activity" not in seen
    assert '<td data-label="Created">' in seen
