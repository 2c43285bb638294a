"""The pages of experiments and runs: what they say, what their forms do, and what of files they show."""

import html
import re
from collections.abc import Iterator

import httpx
import pytest

from falaj.governance.roles import Role
from falaj.tracking.operations import experiments, runs
from tests.web import tracked
from tests.web.conftest import Form, Site, running_site

NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"&{{7*7}}`"


Trees = tuple[Site, int, list[str]]


@pytest.fixture
def fraud(site: Site) -> Site:
    site.project("fraud", "Card fraud")
    return site


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trees]:
    """An experiment with three runs, the second of them the best. Who changes something, changes something of his own."""
    for site in running_site(tmp_path_factory.mktemp("trees")):
        site.project("fraud", "Card fraud")
        number = tracked.experiment(site)
        ids = []
        for name, depth, auc, loss in (("first", "3", 0.71, 0.5), ("second", "4", 0.93, 0.2), ("third", "5", 0.82, 0.4)):
            metrics = {"auc": [0.5, 0.6, auc], "loss": [0.9, loss]}
            ids.append(tracked.run(site, number, name, params={"depth": depth, "seed": "7"}, metrics=metrics))
        yield site, number, ids


def rows(page: str) -> list[str]:
    return re.findall(
        r'<input type="checkbox" name="runs" value="[0-9a-f]{32}" form="compare" aria-label="Choose ([^"]*)"', page
    )


def get(site: Site, path: str, **more: str) -> httpx.Response:
    with site.client(site.session()) as client:
        return client.get(path, headers=more)


def test_experiments_are_listed_with_their_newest_runs(trees: Trees) -> None:
    site, number, _ = trees
    page = get(site, "/projects/fraud/experiments").text
    assert f'href="/projects/fraud/experiments/{number}"' in page
    assert "third" in page
    assert "Track a first run" not in page


def test_a_project_without_runs_teaches_how_to_make_one(fraud: Site) -> None:
    page = get(fraud, "/projects/fraud/experiments").text
    assert f"MLFLOW_TRACKING_URI={fraud.url}" in page
    assert "MLFLOW_WORKSPACE=fraud" in page
    empty = get(fraud, "/projects/fraud/experiments/0").text
    assert "No runs yet" in empty
    assert 'mlflow.set_experiment("Default")' in empty


def test_an_experiment_is_made_renamed_deleted_and_restored_on_its_page(fraud: Site) -> None:
    place = "/projects/fraud/experiments"
    with fraud.client(fraud.session()) as client:
        made = Form(client.get(place).text, f"{place}/-/experiment.create").send(client, name="Trees & more")
        number = re.search(r"/experiments/(\d+)\?done=experiment.create", made.headers["location"])[1]  # type: ignore[index]
        again = Form(client.get(place).text, f"{place}/-/experiment.create").send(client, name="Trees & more")
        assert again.status_code == 409
        Form(client.get(place).text, f"{place}/-/experiment.rename").send(client, experiment=number, name="Forests")
        assert "Forests" in client.get(place).text
        Form(client.get(place).text, f"{place}/-/experiment.delete").send(client, experiment=number)
        assert "Forests" not in client.get(place).text
        gone = client.get(f"{place}?deleted").text
        assert "Forests" in gone
        Form(gone, f"{place}/-/experiment.restore").send(client, experiment=number)
    shown = fraud.call(experiments.SHOW_EXPERIMENT, experiments.OneExperiment(project="fraud", experiment=int(number)))
    assert (shown.name, shown.deleted) == ("Forests", False)


def test_the_runs_table_shows_what_differs_with_sparklines(trees: Trees) -> None:
    site, number, _ = trees
    page = get(site, f"/projects/fraud/experiments/{number}").text
    assert rows(page) == ["third", "second", "first"]
    assert page.count('class="spark"') == 6
    heads = re.findall(r'<th scope="col"[^>]*title="(\w+\.\w+)"', page)
    assert heads == ["metrics.auc", "metrics.loss", "params.depth"]
    assert "1 min 5 s" in page


def test_a_click_on_a_header_orders_by_it_and_the_best_run_says_so(trees: Trees) -> None:
    site, number, _ = trees
    with site.client(site.session()) as client:
        page = client.get(f"/projects/fraud/experiments/{number}").text
        link = re.search(r'title="metrics.loss"><a href="([^"]+)"', page)
        assert link is not None
        page = client.get(html.unescape(link[1])).text
        assert rows(page) == ["second", "third", "first"]
        assert 'aria-sort="ascending"' in page
        assert re.search(r'<tr class="best">.*?second.*?title="lowest loss"', page, re.DOTALL)
        turned = re.search(r'title="metrics.loss"><a href="([^"]+)"', page)
        assert turned is not None
        assert rows(client.get(html.unescape(turned[1])).text) == ["first", "third", "second"]


def test_the_filter_is_mlflows_and_its_mistakes_are_told_beside_it(trees: Trees) -> None:
    site, number, _ = trees
    place = f"/projects/fraud/experiments/{number}"
    assert rows(get(site, f"{place}?filter=metrics.auc+>+0.8+AND+params.depth+%3D+'5'").text) == ["third"]
    answer = get(site, f"{place}?filter=metrics.auc+>>+'; DROP TABLE runs; --")
    assert answer.status_code == 200
    assert re.search(r'id="filter-problem" class="problem" role="alert">[^<]{10,}', answer.text)
    assert 'value="metrics.auc &gt;&gt; &#39;; DROP TABLE runs; --"' in answer.text
    nothing = get(site, f"{place}?filter=metrics.auc+>+5").text
    assert "No run answers that" in nothing


def test_columns_are_chosen_in_the_address(trees: Trees) -> None:
    site, number, _ = trees
    page = get(site, f"/projects/fraud/experiments/{number}?col=params.seed&col=tags.team").text
    assert re.findall(r'<th scope="col"[^>]*title="(\w+\.\w+)"', page) == ["params.seed", "tags.team"]
    assert 'value="params.seed" checked' in page


def test_a_long_table_goes_on_where_it_ended(fraud: Site) -> None:
    number = tracked.experiment(fraud)
    for index in range(103):
        tracked.run(fraud, number, f"run-{index:03}", ended=False)
    with fraud.client(fraud.session()) as client:
        first = client.get(f"/projects/fraud/experiments/{number}").text
        following = re.search(r'hx-get="([^"]+cursor=[^"]+)" hx-trigger="intersect once"', first)
        assert following is not None
        rest = client.get(html.unescape(following[1]), headers={"hx-request": "true"}).text
        assert len(rows(first)) == 100
        assert rows(rest) == ["run-002", "run-001", "run-000"]
        assert 'id="filter"' not in rest
        whole = client.get(html.unescape(following[1])).text
        assert "Back to the first runs" in whole
        assert 'id="filter"' in whole


def test_a_run_tells_its_story(trees: Trees) -> None:
    site, _, ids = trees
    page = get(site, f"/projects/fraud/runs/{ids[1]}").text
    for words in (
        "second",
        "1 min 5 s",
        "depth",
        "0.93",
        'data-metric="auc"',
        "spark-large",
        'data-charts="/projects/fraud/curves"',
    ):
        assert words in page, words
    assert "data-live" not in page


def test_nested_runs_lead_to_each_other_and_to_their_comparison(trees: Trees) -> None:
    site, _, _ = trees
    number = tracked.experiment(site, "nested")
    parent = tracked.run(site, number, "search")
    tags = {"mlflow.parentRunId": parent, "mlflow.note.content": "the first fold"}
    child = tracked.run(site, number, "fold-1", tags=tags, ended=False)
    page = get(site, f"/projects/fraud/runs/{parent}").text
    assert "fold-1" in page
    assert f"/compare?runs={parent},{child}" in page
    page = get(site, f"/projects/fraud/runs/{child}").text
    assert "the first fold" in page
    assert f"/compare?runs={child},{parent}" in page
    assert f'href="/projects/fraud/runs/{parent}"' in page
    assert f'data-live="/projects/fraud/runs/{child}/now"' in page


def test_a_run_is_renamed_deleted_and_restored_on_its_page(trees: Trees) -> None:
    site, _, _ = trees
    run = tracked.run(site, 0, "to be renamed")
    place = f"/projects/fraud/runs/{run}"
    with site.client(site.session()) as client:
        Form(client.get(place).text, f"{place}/-/run.update").send(client, name="renamed")
        Form(client.get(place).text, f"{place}/-/run.delete").send(client)
        page = client.get(place).text
        assert "renamed" in page
        assert "This run is deleted" in page
        Form(page, f"{place}/-/run.restore").send(client)
    assert not site.call(runs.SHOW_RUN, runs.OneRun(project="fraud", run=run)).info.deleted


def test_curves_are_json_for_the_pages_own_script_and_nobody_elses(trees: Trees) -> None:
    site, _, ids = trees
    odd = tracked.run(site, 0, "odd", metrics={"auc": [0.5, float("nan"), float("inf"), 0.75]})
    path = f"/projects/fraud/curves?runs={odd},{ids[1]}&key=auc"
    answer = get(site, path)
    assert answer.headers["content-type"] == "application/json"
    curves = {curve["run"]: curve for curve in answer.json()["items"]}
    assert curves[odd]["values"] == [0.5, None, None, 0.75]
    assert curves[ids[1]]["values"] == [0.5, 0.6, 0.93]
    late = get(site, f"{path}&first_step=3").json()["items"]
    assert [curve["steps"] for curve in late] == [[3]]
    assert get(site, path, **{"sec-fetch-site": "cross-site"}).status_code == 403
    with site.client() as stranger:
        assert stranger.get(path).status_code == 401
    with site.client(site.person("omar")) as outsider:
        assert outsider.get(path).status_code == 404
    assert get(site, f"/projects/fraud/curves?runs={ids[0]}").status_code == 400
    assert get(site, f"/projects/fraud/curves?runs={'0' * 32}&key=auc").status_code == 404


def test_the_comparison_says_what_differed(trees: Trees) -> None:
    site, _, ids = trees
    page = get(site, f"/projects/fraud/compare?runs={','.join(ids)}").text
    assert "These 3 runs differ in depth (3, 4, 5); 1 parameter is the same. second did best in all 2 metrics." in page
    order = [page.index(f"<bdi>{name}</bdi>") for name in ("depth", "seed", "auc")]
    assert order == sorted(order)
    assert page.count('class="winner"') == 2
    assert page.count("parallel-line") == 3


def test_runs_that_are_not_there_are_told_and_too_many_are_refused(trees: Trees) -> None:
    site, _, ids = trees
    page = get(site, f"/projects/fraud/compare?runs={ids[0]}&runs={ids[1]}&runs={'0' * 32}")
    assert page.status_code == 200
    assert "1 of the runs in this address does not exist" in page.text
    many = ",".join(f"{number:032x}" for number in range(21))
    assert get(site, f"/projects/fraud/compare?runs={many}").status_code == 400
    assert "Two runs or more" in get(site, "/projects/fraud/compare").text
    assert get(site, "/projects/fraud/compare?runs=nonsense").status_code == 400


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("page.html", b"<script>window.pwned=1</script>", "&lt;script&gt;window.pwned=1&lt;/script&gt;"),
        ("drawing.svg", b"<svg onload='x()'/>", "&lt;svg onload=&#39;x()&#39;/&gt;"),
        ("a b/sum.json", b'{"auc":0.9}', "{\n  &#34;auc&#34;: 0.9\n}"),
        ("scores.csv", b"id,<b>\n1,<i>x</i>\n", "<td>&lt;i&gt;x&lt;/i&gt;</td>"),
        ("weights.bin", bytes(range(256)), "Not a text and not a picture"),
    ],
)
def test_a_file_is_shown_as_text_whatever_it_claims_to_be(trees: Trees, name: str, content: bytes, shown: str) -> None:
    site, _, ids = trees
    tracked.put(site, ids[0], name, content)
    with site.client(site.session()) as client:
        place = f"/projects/fraud/artifacts/{ids[0]}"
        page = client.get(place, params={"name": name})
        assert page.status_code == 200
        assert shown in page.text
        assert "<img" not in re.sub(r'<img src="/assets/mark[^>]*>', "", page.text)
        picture = client.get(f"{place}/picture", params={"name": name})
        assert picture.status_code == 415
        file = client.get(f"{place}/file", params={"name": name})
        assert file.content == content
        assert file.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in file.headers["content-security-policy"]


def test_a_picture_is_sent_under_the_type_of_its_bytes_and_can_do_nothing(trees: Trees) -> None:
    site, _, ids = trees
    tracked.put(site, ids[0], "page.html", tracked.png())
    with site.client(site.session()) as client:
        place = f"/projects/fraud/artifacts/{ids[0]}"
        assert f'<img src="{place}/picture?name=page.html"' in client.get(place, params={"name": "page.html"}).text
        answer = client.get(f"{place}/picture?name=page.html")
        assert answer.content == tracked.png()
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        for where in ("cross-site", "same-site"):
            assert client.get(f"{place}/picture?name=page.html", headers={"sec-fetch-site": where}).status_code == 403


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../b", "nothing.txt", "."])
def test_a_name_that_leads_elsewhere_finds_nothing(trees: Trees, name: str) -> None:
    site, _, ids = trees
    tracked.put(site, ids[0], "x.txt", b"x")
    with site.client(site.session()) as client:
        for path in ("", "/file", "/picture"):
            answer = client.get(f"/projects/fraud/artifacts/{ids[0]}{path}", params={"name": name})
            assert answer.status_code in (400, 404), path
            assert "root:" not in answer.text


def test_what_people_wrote_is_shown_as_text(fraud: Site) -> None:
    number = tracked.experiment(fraud, NASTY)
    tags = {NASTY: NASTY, "mlflow.note.content": NASTY}
    id = tracked.run(fraud, number, NASTY, params={NASTY: NASTY}, metrics={NASTY: [1.0, 2.0]}, tags=tags)
    other = tracked.run(fraud, number, NASTY, params={NASTY: "other"}, metrics={NASTY: [1.0]})
    tracked.put(fraud, id, NASTY.replace("/", "|"), NASTY.encode())
    paths = ["/experiments", f"/experiments/{number}", f"/runs/{id}", f"/compare?runs={id},{other}", f"/artifacts/{id}"]
    with fraud.client(fraud.session()) as client:
        for path in paths:
            page = client.get(f"/projects/fraud{path}")
            assert page.status_code == 200, path
            assert "<script>alert" not in page.text, path
            assert "<img src=x" not in page.text, path
            assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=\"|javascript:", page.text) == [], path
            assert "49" not in re.findall(r"&amp;(\d\d)", page.text), path


def test_another_projects_runs_are_not_there(trees: Trees) -> None:
    site, number, ids = trees
    site.project("other")
    for path in (f"/runs/{ids[0]}", f"/artifacts/{ids[0]}", f"/runs/{ids[0]}/now"):
        assert get(site, f"/projects/other{path}").status_code == 404, path
    assert get(site, f"/projects/other/experiments/{number}").status_code == 404
    assert "Compare 0 runs" in get(site, f"/projects/other/compare?runs={ids[0]}").text


def test_a_viewer_sees_everything_and_is_offered_nothing_to_change(trees: Trees) -> None:
    site, number, ids = trees
    with site.client(site.person("viewer", roles={"fraud": Role.VIEWER})) as client:
        for path in ("/experiments", f"/experiments/{number}", f"/runs/{ids[0]}"):
            page = client.get(f"/projects/fraud{path}")
            assert page.status_code == 200
            assert re.findall(r'<form[^>]*method="post"[^>]*action="(/projects[^"]*)"', page.text) == []


@pytest.mark.parametrize("path", ["/experiments/x", "/experiments/99", "/runs/xyz", f"/runs/{'0' * 32}", "/artifacts/nothing"])
def test_an_address_of_nothing_is_told_in_words(fraud: Site, path: str) -> None:
    answer = get(fraud, f"/projects/fraud{path}")
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"].startswith("text/html")


def test_a_metric_of_one_point_is_a_number_and_no_chart(trees: Trees) -> None:
    site, _, _ = trees
    run = tracked.run(site, 0, "lone", metrics={"auc": [0.93], "loss": [2.0, 1.0]})
    page = get(site, f"/projects/fraud/runs/{run}").text
    assert re.findall(r'<figure class="chart lone" data-metric="([^"]*)"', page) == ["auc"]
    assert '<p class="chart-number">0.93</p>' in page


def test_a_run_says_how_it_trained_and_nothing_in_it_is_markup(trees: Trees) -> None:
    site, number, ids = trees
    tags = {"falaj.training.verdict": f"input-bound: {NASTY}", "falaj.training.recipe.precision": f"bfloat16\n{NASTY}"}
    tags |= {"falaj.training.next": "falaj tune resume evil --yes", "falaj.training.ask.cpus": "7\nwhy\n2 6"}
    figures = {"falaj.training/data_share": [0.41], "falaj.training/compute_share": [0.59]}
    made = tracked.run(site, number, "profiled", metrics=figures, tags=tags)
    tracked.put(site, made, "profile/trace.json.gz", b"\x1f\x8b")
    page = get(site, f"/projects/fraud/runs/{made}").text
    assert '<h2 id="training">Training</h2>' in page
    assert "input-bound: &lt;script&gt;" in page
    assert re.findall(r'aria-label="the options for the next start">([^<]*)</pre>', page) == ["falaj train … --cpus 7"]
    assert "<script>alert" not in page
    assert f'href="/projects/fraud/artifacts/{made}?name=profile/trace.json.gz"' in page
    assert 'id="training"' not in get(site, f"/projects/fraud/runs/{ids[0]}").text
