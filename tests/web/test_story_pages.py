"""The page of a version's story, and the file of it: whole, linked, escaped, and checked by whoever gets the file."""

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from falaj.governance.policies.operations import PUT_POLICY, PutPolicy
from falaj.registry.operations import models, versions
from falaj.serving.operations.endpoints import DELETE_ENDPOINT, OneEndpoint
from tests.web import abtested, optimised, scheduled
from tests.web.conftest import Site, running_site
from tests.web.reports.reading import Read
from tests.web.storied import Life

DOCS = Path(__file__).parents[2] / "docs"
NASTY = "<script>alert(1)</script>'\"&{{7*7}} ünï".replace("/", "")


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Life, versions.Version]]:
    with pytest.MonkeyPatch.context() as patch:
        scheduled.timers(patch)
        for site in running_site(tmp_path_factory.mktemp("story"), profile="team"):
            life = Life(site, jobs=0.1)
            version = life.lived()
            life.asked(version)
            while site.platform.sequencer.step(close_all_windows=True).more:
                pass
            yield life, version


def get(site: Site, path: str, token: str) -> httpx.Response:
    with site.client(token) as client:
        return client.get(path)


def page_of(version: versions.Version) -> str:
    return f"/projects/fraud/versions/{version.id}/story"


def file_of(version: versions.Version) -> str:
    return f"/projects/fraud/version/story?model={version.model}&version={version.version}"


def words(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text)))


def test_it_begins_with_one_sentence_and_then_has_every_chapter(lived: tuple[Life, versions.Version]) -> None:
    life, version = lived
    text = words(get(life.site, page_of(version), life.omar))
    assert re.search(
        r"Version 2 of card-fraud answers 90 % of scores since [0-9-]{10}, trained on payments@2 by maryam, ", text
    )
    assert "approved by khalid. It is the champion." in text
    for title in ("What it is", "The data it came from", "How it was made", "What was found before it was used"):
        assert title in text
    for title in (
        "What pipelines did with it",
        "Who let it into production",
        "Where it answers",
        "How it did there",
        "What it cost",
        "What the ledger proves",
    ):
        assert title in text
    for said in (
        "plausible: amount must be",
        "auc 0.88 on held-out rows",
        "latency doubled",
        "better on June",
        "1 of 3 columns drift",
        "rollout version 1 handed it on maryam",
        "Shall version 2 answer?",
    ):
        assert said in text
    assert re.search(r"(\d+) of \1 recorded events are proven", text)
    assert "training, done" in text


def test_things_lead_to_their_pages_and_the_versions_page_leads_to_it(lived: tuple[Life, versions.Version]) -> None:
    life, version = lived
    told = get(life.site, page_of(version), life.maryam).text
    links = set(re.findall(r'href="(/projects/fraud/[^"#]*)"', told))
    kinds = {link.split("/")[3] for link in links}
    assert kinds >= {"datasets", "runs", "jobs", "versions", "endpoints", "alerts", "pipeline-runs"}
    for link in links:
        assert get(life.site, html.unescape(link), life.maryam).status_code == 200, link
    assert f'href="{page_of(version)}"' in get(life.site, f"/projects/fraud/versions/{version.id}", life.omar).text


def test_only_who_audits_is_led_to_proofs(lived: tuple[Life, versions.Version]) -> None:
    life, version = lived
    assert "/audit/proof" not in get(life.site, page_of(version), life.omar).text
    assert "/audit/proof?leaf=" in get(life.site, page_of(version), life.site.session()).text


def test_a_stranger_finds_nothing_whether_or_not_it_is_there(lived: tuple[Life, versions.Version]) -> None:
    life, version = lived
    there = get(life.site, page_of(version), life.eve)
    missing = get(life.site, page_of(version).replace(version.id, "0" * 32), life.eve)
    assert (there.status_code, missing.status_code) == (404, 404)
    assert _said(there) == _said(missing)
    assert get(life.site, file_of(version), life.eve).status_code == 404


def _said(answer: httpx.Response) -> str:
    """Without the request's own id."""
    return re.sub(r"[0-9a-f]{32}", "", words_of_refusal(answer))


def words_of_refusal(answer: httpx.Response) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))


# The file


def test_the_file_needs_nothing_and_runs_nothing(lived: tuple[Life, versions.Version]) -> None:
    life, version = lived
    answer = get(life.site, file_of(version), life.omar)
    assert "filename*=UTF-8''card-fraud-v2.html" in answer.headers["content-disposition"]
    read = Read(answer.text)
    assert read.open == []
    assert not {tag for tag, _ in read.tags} & {"script", "img", "link", "iframe", "object", "form", "a"}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on") or name in ("src", "href")]
    assert "url(" not in answer.text
    assert "@import" not in answer.text
    [policy] = [one["content"] for tag, one in read.tags if tag == "meta" and "http-equiv" in one]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "answers 90 % of" in read.text


def test_whoever_gets_the_file_checks_its_proofs_alone_by_the_script_in_the_docs(
    lived: tuple[Life, versions.Version], tmp_path: Path
) -> None:
    life, version = lived
    text = get(life.site, file_of(version), life.omar).text
    script = re.search(r"```python\n(.*?)```", (DOCS / "story.md").read_text(), re.DOTALL)
    assert script is not None
    (tmp_path / "check.py").write_text(script[1])

    def checked(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "story.html").write_text(text)
        command = [sys.executable, "-I", str(tmp_path / "check.py"), str(tmp_path / "story.html")]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good = checked(text)
    assert good.returncode == 0, good.stderr
    assert re.match(r"(1[5-9]|2[01]) leaves are under the head of \d+ that the key [0-9a-f]{32} signed at ", good.stdout)
    forged = text.replace("payments", "paymentz")
    assert "is not in the tree: " in checked(forged).stderr
    root = re.search(r"&#34;root&#34;: &#34;([0-9a-f]{64})&#34;", text)
    assert root is not None
    assert "InvalidSignature" in checked(text.replace(root[1], "0" * 64)).stderr


def test_truth_ab_tests_and_certificates_are_told_of_the_version_they_are_about(tmp_path: Path) -> None:
    for site in running_site(tmp_path):
        site.project("fraud")
        test = abtested.Contested(site)
        test.begin()
        for revision, right in ((1, 60), (2, 75)):
            test.served(revision, right, 80)
        test.step()
        second = site.call(versions.SHOW_VERSION, versions.OneVersion(project="fraud", model="card-fraud", version=2))
        optimised.data(site)
        optimised.searched(site, second)
        told = words(get(site, page_of(second), site.session()))
        assert re.search(r"accuracy revision 2 0\.9375 0\.8\d* to 0\.9\d* 80 ", told)
        assert "A/B test Verdict on it" in told
        assert " checkout open " in told
        assert " int8 fastest that is fit certified loses at most" in told
        assert " pruned refused " in told
        first = words(get(site, page_of(second).replace(second.id, _first(site).id), site.session()))
        assert re.search(r"accuracy revision 1 0\.75 ", first)
        assert " checkout incumbent " in first
        assert "certified" not in first


def _first(site: Site) -> versions.Version:
    found: versions.Version = site.call(
        versions.SHOW_VERSION, versions.OneVersion(project="fraud", model="card-fraud", version=1)
    )
    return found


# What is not there, not visible, or nasty


def test_names_with_markup_are_escaped_and_an_empty_story_is_told(lived: tuple[Life, versions.Version]) -> None:
    site = lived[0].site
    site.call(models.CREATE_MODEL, models.CreateModel(project="fraud", model=NASTY))
    made = site.call(
        versions.CREATE_VERSION, versions.CreateVersion(project="fraud", model=NASTY, source=NASTY, description=NASTY)
    )
    told = get(site, page_of(made), site.session())
    assert "<script>alert" not in told.text
    text = words(told)
    assert f"Version 1 of {NASTY} has never answered" in text
    for said in (
        "No data is known",
        "No run is known",
        "It was never deployed",
        "No pipeline made it or handed it on",
        "No alias ever pointed at it",
        "No job of the platform",
    ):
        assert said in text
    with site.client(site.session()) as client:
        file = client.get("/projects/fraud/version/story", params={"model": NASTY, "version": 1})
    assert "<script" not in file.text
    assert Read(file.text).open == []


def test_what_its_reader_may_not_see_is_said_to_be_hidden_and_not_to_be_nothing(tmp_path: Path) -> None:
    for site in running_site(tmp_path):
        life = Life(site)
        version = life.trained(life.data(), "baseline", 0.8)
        life.deploy(version=1)
        text = (
            'forbid (principal, action, resource) when { context.permission == "endpoint.read" && principal.name == "omar" };'
        )
        site.call(PUT_POLICY, PutPolicy(project="fraud", policy="quiet", text=text))
        told = words(get(site, page_of(version), life.omar))
        assert "Not everything is visible to its reader:" in told
        assert "Serving: " in told
        assert "This chapter is not visible to its reader; see above." in told
        assert "It was never deployed" not in told
        assert "scores" not in told
        site.call(DELETE_ENDPOINT, OneEndpoint(project="fraud", endpoint="scores"))
        assert "its endpoint was deleted" in words(get(site, page_of(version), life.maryam))
