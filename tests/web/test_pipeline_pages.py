"""The pages of pipelines: steps drawn with how each is, runs begun, stopped and gone on with, questions answered."""

import html
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from falaj.governance.roles import Role
from falaj.lifecycle.operations.words import Definition, Step
from tests.web import piped, served, stored, tracked
from tests.web.conftest import Form, Site, running_site

NASTY = "<script>alert(1)</script>'\"&{{7*7}} ünï"
LIST = "/projects/fraud/pipelines"
NIGHTLY = f"{LIST}/nightly"


class Team:
    """Sami writes pipelines, Dana decides, Omar looks on, and Eve belongs to another project."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.project("fraud", "Card fraud")
        site.project("secretive")
        self.sami = site.person("sami", roles={"fraud": Role.SCIENTIST})
        self.dana = site.person("dana", roles={"fraud": Role.ENGINEER})
        self.omar = site.person("omar", roles={"fraud": Role.VIEWER})
        self.eve = site.person("eve", roles={"secretive": Role.ADMIN})
        piped.apply(site, "nightly", piped.asking(NASTY), token=self.dana)

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        with self.site.client(token or self.dana) as client:
            return client.get(path)

    def read(self, path: str, token: str | None = None) -> str:
        return html.unescape(self.get(path, token).text)

    def submit(self, place: str, operation: str, token: str | None = None, **fields: str) -> httpx.Response:
        """The last form of the page for this operation is filled in and sent; then to where it leads."""
        with self.site.client(token or self.dana) as client:
            answer = Form(client.get(place).text, f"{place}/-/{operation}").send(client, **fields)
            return client.get(answer.headers["location"]) if answer.status_code == 303 else answer

    def asked(self) -> str:
        """A run that asks."""
        run = piped.start(self.site, "nightly", token=self.dana)
        piped.until(self.site, run, "asks", "asking")
        return run


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    for site in running_site(tmp_path_factory.mktemp("pipelines")):
        yield Team(site)


def test_a_project_without_any_says_how_to_begin(team: Team):
    team.site.project("empty")
    assert "falaj init flights --tabular" in team.read("/projects/empty/pipelines", team.site.session())


def test_a_pipeline_is_drawn_with_its_steps_and_escapes_what_people_wrote(team: Team):
    page = team.get(NIGHTLY)
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert len(re.findall('<g class="lineage-node', page.text)) == 5
    assert NASTY in html.unescape(page.text)
    assert "nightly" in team.read(LIST)


def test_a_run_is_begun_from_the_page_and_followed_there(team: Team):
    page = team.submit(NIGHTLY, "pipeline.run", **{"json.depth": "7", "text.note": "12"})
    assert "It is under way. This page follows it." in page.text
    run = re.search(r"pipeline-runs/([0-9a-f]{32})", str(page.url))
    assert run is not None
    assert 'data-every="3"' in page.text
    piped.until(team.site, run[1], "asks", "asking")
    shown = html.unescape(page.text)
    assert "depth" in shown
    assert piped.run(team.site, run[1]).parameters == {"depth": 7, "note": "12"}
    assert run[1][-8:] in team.read(LIST)
    assert run[1][-8:] in team.read(NIGHTLY)


def test_a_wrong_parameter_is_told_in_its_form(team: Team):
    page = team.submit(NIGHTLY, "pipeline.run", **{"json.depth": "deep"})
    assert page.status_code == 400
    assert "The parameter 'depth' is 'deep', which is not of the kind 'whole'." in html.unescape(page.text)


def test_who_may_decide_agrees_and_the_run_goes_on(team: Team):
    run = team.asked()
    place = f"/projects/fraud/pipeline-runs/{run}"
    assert NASTY in team.read(place)
    assert "Whoever may deploy here decides." in team.read(place, team.omar)
    page = team.submit(place, "pipeline.decide", reason="Looks well.")
    assert "What you decided is on record." in page.text
    piped.until(team.site, run, "asks", "done")
    piped.until(team.site, run, "more", "skipped")
    shown = team.read(place)
    assert "lineage-done" in shown
    assert "lineage-skipped" in shown
    assert 'data-every="0"' in shown


def test_a_question_that_waits_is_seen_in_lists_and_leads_those_who_may_decide_from_home(team: Team):
    run = team.asked()
    place = f"/projects/fraud/pipeline-runs/{run}"
    for page in (LIST, NIGHTLY):
        assert '<span class="state warn">asking</span>' in team.get(page).text
    home = team.get("/").text
    assert f'href="{place}">Decide' in home
    assert f"nightly asks: {NASTY}" in html.unescape(home)
    assert place not in team.get("/", team.omar).text
    team.submit(place, "pipeline.decide", reason="Looks well.")
    piped.until(team.site, run, "asks", "done")
    assert place not in team.get("/").text


def test_a_run_is_stopped_and_gone_on_with(team: Team):
    run = team.asked()
    place = f"/projects/fraud/pipeline-runs/{run}"
    team.submit(place, "pipeline.cancel", reason="Not now.")
    piped.until(team.site, run, "asks", "cancelled")
    page = team.submit(place, "pipeline.resume")
    assert "It goes on: what was done stays done." in page.text
    piped.until(team.site, run, "asks", "asking")


def test_what_was_handed_on_leads_to_its_page(team: Team):
    """Of every kind, also of names with odd signs; what is gone leads nowhere."""
    stored.write(team.site, b"id\n1\n", dataset="flights")
    version = tracked.register(team.site, holder := tracked.run(team.site, 0, "trained"), "late & odd")
    served.deploy(team.site, 1, model="late & odd")
    handed: dict[str, dict[str, Any]] = {
        f"/projects/fraud/versions/{version.id}": {"model": "late & odd", "version": 1},
        "/projects/fraud/datasets/flights/versions/1": {"dataset": "flights", "version": 1},
        "/projects/fraud/endpoints/scores": {"endpoint": "scores", "revision": 1},
        f"/projects/fraud/runs/{holder}": {"run": holder},
        "": {"model": "late & odd", "version": 2},
    }
    steps = (
        Step(name=f"made-{n}", kind="value", arguments={"value": {"$": "item"}}, each=[one])
        for n, one in enumerate(handed.values())
    )
    piped.apply(team.site, "makes", Definition(steps=tuple(steps)), token=team.dana)
    run = piped.start(team.site, "makes", token=team.dana)
    piped.until(team.site, run, f"made-{len(handed) - 1}", "done")
    page = team.get(f"/projects/fraud/pipeline-runs/{run}").text
    cells = re.findall('outcome-cell">(?:<a href="([^"]*)">)?', page)
    links = [html.unescape(link) for link in cells if link]
    assert sorted(links) == sorted(filter(None, handed))
    assert [team.get(link).status_code for link in links] == [200] * len(links)


def test_times_are_set_and_taken_back(team: Team):
    page = team.submit(NIGHTLY, "pipeline.set-trigger", trigger="morning", cron="0 6 * * *", zone="Asia/Dubai")
    assert "0 6 * * *, by the clock of Asia/Dubai" in page.text
    page = team.submit(NIGHTLY, "pipeline.delete-trigger")
    assert "That starts it no more." in page.text
    assert "Nothing yet: people do." in page.text


def test_who_only_looks_is_offered_nothing_to_do(team: Team):
    run = team.asked()
    for place in (NIGHTLY, f"/projects/fraud/pipeline-runs/{run}"):
        page = team.get(place, team.omar)
        assert page.status_code == 200
        assert "/-/pipeline." not in page.text


def test_strangers_see_no_pipeline_and_no_run(team: Team):
    run = team.asked()
    for place in (LIST, NIGHTLY, f"/projects/fraud/pipeline-runs/{run}"):
        assert team.get(place, team.eve).status_code == 404
    assert team.get(f"{LIST}/nothing").status_code == 404


def test_a_run_of_a_deleted_pipeline_still_has_a_page(team: Team):
    piped.apply(team.site, "small", piped.asking())
    run = piped.start(team.site, "small", token=team.dana)
    piped.until(team.site, run, "asks", "asking")
    team.submit(f"/projects/fraud/pipeline-runs/{run}", "pipeline.cancel")
    piped.until(team.site, run, "asks", "cancelled")
    page = team.submit(f"{LIST}/small", "pipeline.delete")
    assert "what its runs did stays on record" in page.text
    assert team.get(f"/projects/fraud/pipeline-runs/{run}").status_code == 200


def test_it_is_reachable_from_its_project(team: Team):
    assert f'href="{LIST}"' in team.get("/projects/fraud").text


def test_what_is_no_json_is_refused_beside_its_field(team: Team):
    for odd in ("[" * 30_000, "NaN", "-Infinity", "{", "[" * 150 + "]" * 150):
        page = team.submit(NIGHTLY, "pipeline.run", **{"json.depth": odd})
        assert page.status_code < 500, odd[:20]
        assert "It is under way" not in page.text
