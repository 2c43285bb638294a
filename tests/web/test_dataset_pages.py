"""The pages of datasets and feature views: what they show, to whom, and what they say where data cannot be read."""

import html
import re
import venv
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from falaj.app.settings import DataSettings
from falaj.base.clock import DAY
from falaj.datasets.operations import pushing
from falaj.datasets.operations.checks import Check
from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.roles import Role
from falaj.tables.joining.views import Feature
from tests.web import stored
from tests.web.conftest import Site, running_site

NASTY = "<script>alert(1)</script>'\"&{{7*7}}"
FIRST = "id,name,email,age,at\n" + "".join(
    f"{number},{'ann' if number % 3 else 'bob'},p{number}@example.org,{20 + number},2026-01-0{1 + number % 9}T00:00:00Z\n"
    for number in range(30)
)
SECOND = "id,name,email,age,at\n30,cyd,p30@example.org,90,2026-02-01T00:00:00Z\n"
BAD = f'id,name,email,age,at\n31,"{NASTY.replace(chr(34), chr(34) * 2)}",p31@example.org,900,2026-02-02T00:00:00Z\n'
PEOPLE = "/projects/fraud/datasets/people"
AGES = Check(name="age-in-range", kind="range", columns=("age",), least=0, most=150)
NAMES = Check(name="named", kind="nulls", columns=("name",), severity="warn")


class Lake:
    """A dataset with two good versions and one in quarantine; Maryam may see what is personal, Omar may not."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.project("fraud", "Card fraud")
        self.maryam = site.person("maryam", roles={"fraud": Role.SCIENTIST})
        self.omar = site.person("omar", roles={"fraud": Role.VIEWER})
        stored.write(site, FIRST.encode())
        stored.describe(site, NASTY)
        stored.tag(site, "audited", "1")
        stored.classify(site, email="personal")
        stored.declare(site, AGES, NAMES)
        stored.write(site, SECOND.encode())
        stored.write(site, BAD.encode())
        amounts = Feature(name="oldest", column="age", function="max", period=7 * DAY)
        stored.view(site, Feature(name="count", function="count"), description=NASTY)
        stored.materialise(site)
        stored.view(site, Feature(name="count", function="count"), amounts, description=NASTY)

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        with self.site.client(token or self.omar) as client:
            return client.get(path)

    def page(self, path: str, token: str | None = None) -> str:
        answer = self.get(path, token)
        assert answer.status_code == 200, answer.text
        assert "<script>alert" not in answer.text, path
        assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", answer.text) == [], path
        return answer.text


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    for site in running_site(tmp_path_factory.mktemp("datasets"), data=DataSettings(push_seconds=86_400)):
        yield Lake(site)


def row_of(page: str, start: str) -> str:
    """The row of a table whose head has this text, tags taken out."""
    found = next(row for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if start in row)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found)).split())


def test_datasets_are_listed_with_what_they_hold_and_what_waits(lake: Lake) -> None:
    page = lake.page("/projects/fraud/datasets")
    row = row_of(page, f'href="{PEOPLE}"')
    for words in ("v2", "3 in all", "31", "1 personal", "v3"):
        assert words in row, words
    assert f'href="{PEOPLE}/versions/3"' in page
    assert html.escape(NASTY).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page


def test_a_dataset_shows_versions_tags_columns_classes_and_what_broke_its_checks(lake: Lake) -> None:
    page = lake.page(PEOPLE)
    assert "current" in row_of(page, f'href="{PEOPLE}/versions/2"')
    assert "audited" in row_of(page, f'href="{PEOPLE}/versions/1"')
    assert re.search(r"quarantined.*age-in-range \( ?1 row", row_of(page, f'href="{PEOPLE}/versions/3"'))
    assert "personal" in row_of(page, "<bdi>email</bdi>")
    assert "int64" in row_of(page, "<bdi>age</bdi>")
    assert "at least 0 and at most 150 v3 : 1 row" in row_of(page, '<th scope="row"><bdi>age-in-range</bdi>')
    assert "by none of the versions above" in row_of(page, '<th scope="row"><bdi>named</bdi>')


def test_a_dataset_shows_what_was_pushed_and_waits(lake: Lake) -> None:
    assert "Pushed rows" not in lake.page(PEOPLE)
    for content in (b'{"id": 1}\n{"id": 2}\n', b'{"id": 3}\n'):
        request = pushing.PushRows(project="fraud", dataset="events", create=True)
        lake.site.call(pushing.PUSH_ROWS, request, data=content)
    page = lake.page("/projects/fraud/datasets/events")
    assert "3 rows of 2 pushes wait, the first since" in page


def test_a_version_is_profiled_with_charts_and_shows_its_first_rows(lake: Lake) -> None:
    page = lake.page(f"{PEOPLE}/versions/audited", lake.maryam)
    assert "p1@example.org" in page
    charts = [ElementTree.fromstring(f"<svg{part.split('</svg>')[0]}</svg>") for part in page.split("<svg")[1:]]
    spread = [chart for chart in charts if chart.attrib.get("class") == "histogram"]
    assert [chart.attrib["aria-label"] for chart in spread] == [
        f"How the values of {name} are spread" for name in ("id", "age", "at")
    ]
    counts = [int(title.text.rpartition(": ")[2]) for title in spread[1].iter("title") if title.text]
    assert sum(counts) == 30
    name = page[page.index("<bdi>name</bdi>") : page.index("<bdi>email</bdi>")]
    assert "0 (0.0%)" in name
    assert row_of(name, "<bdi>ann</bdi>") == "ann 20"
    assert "50% below" in page


def test_who_may_not_see_a_class_gets_no_value_of_it_anywhere(lake: Lake) -> None:
    for path in (PEOPLE, f"{PEOPLE}/versions/2", f"{PEOPLE}/versions/3", f"{PEOPLE}/diff?before=1&after=2"):
        assert "@example.org" not in lake.page(path), path
    page = lake.page(f"{PEOPLE}/versions/2")
    assert "<bdi>ann</bdi>" in page
    assert '<bdi>email</bdi> <span class="badge warn">personal</span>' in page


def test_a_version_in_quarantine_says_why_with_the_rows_as_text(lake: Lake) -> None:
    page = lake.page(f"{PEOPLE}/versions/3")
    why = page[page.index("Why it is in quarantine") : page.index('id="profile"')]
    assert "age must be at least 0 and at most 150" in why
    assert "&lt;script&gt;alert(1)" in why
    assert "900" in why
    assert "Why it is in quarantine" not in lake.page(f"{PEOPLE}/versions/2")


def test_two_versions_are_compared(lake: Lake) -> None:
    assert "How far values moved" not in lake.page(f"{PEOPLE}/diff")
    page = lake.page(f"{PEOPLE}/diff?before=1&after=2&key=id")
    assert "30 → 31" in page
    assert re.search(r"<dt>Added</dt><dd>1<", page)
    assert "The same columns in both" in page
    assert re.search(r"age [01]\.\d{3} .*mean", row_of(page, '<th scope="row"><bdi>age</bdi>'))
    for query in ("before=1&after=99", "before=1&after=2&key=nothing", f"before=1&after={NASTY.replace('&', '%26')}"):
        assert 'role="alert"' in lake.page(f"{PEOPLE}/diff?{query}"), query


def test_columns_that_came_and_went_are_told(lake: Lake) -> None:
    stored.write(lake.site, f'id,"{NASTY.replace(chr(34), chr(34) * 2)}",left\n1,2,3\n'.encode(), "odd")
    stored.write(lake.site, b"id,came\n1.5,x\n", "odd", mode="overwrite")
    page = lake.page("/projects/fraud/datasets/odd/diff?before=1&after=2")
    assert "added" in row_of(page, "<bdi>came</bdi>")
    assert "removed" in row_of(page, "<bdi>left</bdi>")
    assert "int64 → float64" in row_of(page, "retyped")
    assert "&lt;script&gt;alert(1)" in lake.page("/projects/fraud/datasets/odd/versions/1")


def test_many_columns_are_shown_in_portions(lake: Lake) -> None:
    names = [f"c{number}" for number in range(50)]
    stored.write(lake.site, f"{','.join(names)}\n{','.join('1' for _ in names)}\n".encode(), "wide")
    place = "/projects/fraud/datasets/wide/versions/1"
    first, rest = lake.page(place), lake.page(f"{place}?from=40")
    assert ("<bdi>c39</bdi>" in first, "<bdi>c40</bdi>" in first) == (True, False)
    assert ("<bdi>c39</bdi>" in rest, "<bdi>c40</bdi>" in rest) == (False, True)
    assert f'href="{place}?from=40"' in first
    assert "<bdi>c0</bdi>" in lake.page(f"{place}?from=nonsense")


def test_feature_views_show_features_versions_and_how_fresh_they_are(lake: Lake) -> None:
    page = lake.page("/projects/fraud/features")
    row = row_of(page, "view=by-person")
    for words in ("v2", "people", "count , oldest", "v1, until v2 is materialised"):
        assert words in row, words
    for place in range(2):
        stored.view(lake.site, Feature(name=f"count-{place}", function="count"), name="by-person-too")
        if not place:
            stored.materialise(lake.site, "by-person-too")
    stored.view(lake.site, Feature(name="third", function="count"), name="by-person-too")
    assert "v1, until v3 is materialised" in row_of(lake.page("/projects/fraud/features"), "view=by-person-too")
    chosen = lake.page("/projects/fraud/features?view=by-person")
    assert row_of(chosen, '<th scope="row"><bdi>oldest</bdi>') == "oldest max of age over 7 d 0 h int64"
    before = lake.page("/projects/fraud/features?view=by-person@1")
    assert "<bdi>oldest</bdi></th>" not in before
    assert 'role="alert"' in lake.page("/projects/fraud/features?view=nothing")


def test_a_view_shows_how_far_it_lies_behind_its_dataset(lake: Lake) -> None:
    rows = b"id,at\n1,2026-11-01T09:00:00Z\n2,2026-11-02T09:00:00Z\n"
    stored.write(lake.site, rows, "visits")
    stored.view(lake.site, Feature(name="visits", function="count"), name="by-visitor", dataset="visits", log=0.25)
    stored.materialise(lake.site, "by-visitor")
    shown = lake.page("/projects/fraud/features?view=by-visitor")
    for words in (
        "<bdi>visits@1</bdi>, 2 entities",
        "nothing: it is of the newest version",
        "25 % of what is served",
        "2026-11-02",
    ):
        assert words in shown, words
    for _ in range(2):
        stored.write(lake.site, rows, "visits")
    assert "2 versions behind visits@3, since" in lake.page("/projects/fraud/features?view=by-visitor")
    assert "2 versions behind visits@3" in row_of(lake.page("/projects/fraud/features"), "view=by-visitor")


def test_lineage_is_drawn_around_a_version(lake: Lake) -> None:
    stored.training_set(lake.site, "training", labels="people", time="at", features=("by-person",))
    for path in ("training", "training/versions/1", "people/versions/2"):
        page = lake.page(f"/projects/fraud/datasets/{path}")
        drawing = page[page.index('class="lineage"') : page.index("</svg>", page.index('class="lineage"'))]
        assert "training" in drawing, path
        assert "people" in drawing, path
    stored.write(lake.site, b"id\n1\n", "lone")
    assert "is linked to it yet" in lake.page("/projects/fraud/datasets/lone")


def test_reading_rows_is_recorded_and_looking_at_a_dataset_is_not(lake: Lake) -> None:
    def recorded() -> list[str]:
        while lake.site.platform.sequencer.step().more:
            pass
        asked = (ReadLog(operation=name, limit=1000) for name in ("dataset.preview", "dataset.profile"))
        return [leaf.operation for each in asked for leaf in lake.site.call(LOG, each).items]

    before = recorded()
    lake.page("/projects/fraud/datasets")
    lake.page(PEOPLE)
    assert recorded() == before
    lake.page(f"{PEOPLE}/versions/1")
    assert len(recorded()) == len(before) + 2
    with lake.site.client(lake.omar) as client:
        elsewhere = {"sec-fetch-site": "cross-site"}
        assert client.get(PEOPLE, headers=elsewhere).status_code == 200
        assert client.get(f"{PEOPLE}/versions/1", headers=elsewhere).status_code == 403


def test_another_project_sees_nothing(lake: Lake) -> None:
    lake.site.project("other")
    stranger = lake.site.person("sara", roles={"other": Role.ENGINEER})
    for path in ("", "/people", "/people/versions/1", "/people/diff?before=1&after=2"):
        assert lake.get(f"/projects/fraud/datasets{path}", stranger).status_code == 404, path
    assert lake.get("/projects/fraud/features", stranger).status_code == 404
    for path in ("/people", "/people/versions/1", "/people/diff"):
        assert lake.get(f"/projects/other/datasets{path}", stranger).status_code == 404, path
    assert "No dataset yet" in lake.page("/projects/other/datasets", stranger)
    assert "No feature view yet" in lake.page("/projects/other/features", stranger)


def test_what_is_not_there_is_not_found(lake: Lake) -> None:
    for path in ("/nothing", "/people/versions/99", "/people/versions/no-tag", "/UPPER", "/people/versions/A"):
        assert lake.get(f"/projects/fraud/datasets{path}").status_code == 404, path


def test_where_data_cannot_be_read_the_page_says_so(tmp_path: Path) -> None:
    for site in running_site(tmp_path):
        site.project("fraud")
        stored.write(site, FIRST.encode())
        stored.write(site, SECOND.encode())
    venv.create(tmp_path / "bare", symlinks=True)
    bare = DataSettings(python=str(tmp_path / "bare" / "bin" / "python"))
    for site in running_site(tmp_path, data=bare):
        with site.client(site.session()) as client:
            assert 'role="alert"' not in client.get(PEOPLE).text
            for path, alerts in ((f"{PEOPLE}/versions/1", 2), (f"{PEOPLE}/diff?before=1&after=2", 1)):
                answer = client.get(path)
                assert answer.status_code == 200, answer.text
                assert answer.text.count("pip install falaj</p>") == alerts, path


def test_a_worker_that_fails_leaves_the_rest_of_the_page(tmp_path: Path) -> None:
    for site in running_site(tmp_path):
        site.project("fraud")
        stored.write(site, FIRST.encode())
    for site in running_site(tmp_path, data=DataSettings(python="/bin/false")):
        with site.client(site.session()) as client:
            answer = client.get(f"{PEOPLE}/versions/1")
            assert answer.status_code == 200, answer.text
            assert answer.text.count('role="alert"') == 2
            assert "30<span" in answer.text
