"""The pages of optimised models: searches, certificates that anybody can check, variants side by side, and asking for more."""

import html
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import httpx
import pytest

import falaj
from falaj.base.values import value
from falaj.cli.layout import Layout
from falaj.cli.variant_looks import certificate_shown, outcome
from falaj.governance.policies.operations import DELETE_POLICY, PUT_POLICY, OnePolicy, PutPolicy
from falaj.governance.roles import Role
from falaj.jobs.operations.jobs import LIST_JOBS, ListJobs
from falaj.optimisation.attesting import command_of
from falaj.optimisation.operations import variants
from falaj.optimisation.operations.optimisations import (
    LIST_OPTIMISATIONS,
    SHOW_OPTIMISATION,
    ListOptimisations,
    OneOptimisation,
)
from falaj.optimisation.store import variants as variant_store
from tests.web import optimised, scheduled
from tests.web.conftest import Form, Site, running_site

NASTY = "<script>alert(1)</script>'\"&{{7*7}} ünï"
MODEL = "card fraud & <b>'s"


@value
class Shop:
    site: Site
    version: Any
    search: Any
    ids: Mapping[str, str]

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        with self.site.client(token or self.site.session()) as client:
            return client.get(path)

    def page(self, path: str, token: str | None = None) -> str:
        answer = self.get(path, token)
        assert answer.status_code == 200, answer.text
        assert "<script>alert" not in answer.text
        assert f"<b>{MODEL[-2:]}" not in answer.text
        return answer.text

    def about(self, place: str, **more: str) -> str:
        return f"/projects/fraud/{place}?{urlencode({'model': MODEL, 'version': 1, **more})}"

    @property
    def search_page(self) -> str:
        return f"/projects/fraud/optimisations/{self.search.id}"

    @property
    def version_page(self) -> str:
        return f"/projects/fraud/versions/{self.version.id}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with pytest.MonkeyPatch.context() as patch:
        scheduled.timers(patch).deaf = True  # jobs wait
        for site in running_site(tmp_path_factory.mktemp("variants")):
            site.project("fraud", "Card fraud")
            version = optimised.register(site, MODEL)
            search, ids = optimised.searched(
                site, version, text=NASTY, remarks=(NASTY,), slices=("origin=JFK", f"origin={NASTY}")
            )
            yield Shop(site=site, version=version, search=search, ids=ids)


def pictures(page: str, kind: str) -> list[ElementTree.Element]:
    found = [ElementTree.fromstring(f"<svg{part.split('</svg>')[0]}</svg>") for part in page.split("<svg")[1:]]
    return [one for one in found if one.attrib.get("class") == kind and one.attrib.get("role") == "img"]


def code(page: str) -> list[str]:
    return [html.unescape(text) for text in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)]


def test_a_search_shows_every_candidate_what_became_of_it_and_what_nothing_beats(shop: Shop) -> None:
    page = shop.page(shop.search_page)
    assert "5 candidates tried, 2 certified, 1 refused" in page
    assert "Learnt from <bdi>train@1</bdi>, judged on <bdi>test@1</bdi>, where <bdi>late</bdi> is right" in page
    [chart] = pictures(page, "pareto")
    marks = [one.attrib["class"] for one in chart.iter("g") if "pareto-mark" in one.attrib.get("class", "")]
    assert sorted(one.removeprefix("pareto-mark mark-").split()[0] for one in marks) == [
        "certified",
        "certified",
        "dropped",
        "made",
        "original",
        "refused",
    ]
    assert {one.attrib["href"] for one in chart.iter("a")} == {
        f"#variant-{shop.ids[name]}" for name in shop.ids if name != "bf16"
    }
    rows = re.findall(r'<tr id="variant-(\w+)"', page)
    assert rows == [shop.ids[name] for name in ("int8", "trimmed", "folded", "pruned", "distilled")]
    assert "prune:0.9 → int8" in page
    assert "0.166 to 0.187" in page  # the interval of the median
    assert "0.32 to 0.386" in page  # and of the 99th percentile
    assert "1 skipped, and why" in page
    assert html.escape(shop.about("certificate", variant=shop.ids["int8"])) in page
    for wish in ("--variant int8", "--ladder"):
        assert f"falaj deploy '{MODEL[:-2]}'\"'\"'s:1' {wish} --project fraud" in code(page)
    assert 'data-every="0"' in page


def test_a_terminal_says_the_same_to_type_next(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    found = shop.site.call(SHOW_OPTIMISATION, OneOptimisation(project="fraud", optimisation=shop.search.id))
    outcome(Layout(), found, "fraud")
    told = capsys.readouterr().out
    assert all(line in told for line in code(shop.page(shop.search_page)) if line.startswith("falaj deploy"))
    assert "what held-out rows showed stands in each certificate" in told


def test_a_search_that_goes_on_is_followed_and_one_that_nobody_works_on_says_how_to_resume(shop: Shop) -> None:
    begun = optimised.plan(shop.site, shop.version, held_out="")
    path = f"/projects/fraud/optimisations/{begun.id}"
    assert "it says what it is going to try" in shop.page(path)
    optimised.describe(shop.site, begun)
    optimised.candidate(shop.site, begun, "int8", state="made", of=optimised.measures(2.0))
    optimised.candidate(shop.site, begun, "bf16", state="begun")
    page = shop.page(path)
    assert "1 of 2 candidates settled" in page
    assert "three tenths of it, set apart" in page
    assert f"falaj optimise --resume {begun.id} --project fraud" in code(page)
    job = scheduled.submit(shop.site, command=command_of(begun.id))
    page = shop.page(path)
    assert 'data-every="4"' in page
    assert f'href="/projects/fraud/jobs/{job.id}"' in page
    assert "--resume" not in page
    assert f'href="{path}"' in shop.page(f"/projects/fraud/jobs/{job.id}")
    assert f'href="{path}"' in shop.page(f"/projects/fraud/optimisations?{urlencode({'model': MODEL})}")


def test_a_certificate_says_the_verdict_what_it_rests_on_and_which_slice_is_worst(shop: Shop) -> None:
    page = html.unescape(shop.page(shop.about("certificate", variant="int8")))
    assert "may stand in for the original: with 95 % confidence it is worse by at most 0.21 points" in page
    assert "in each of 2 slices within what is allowed there. It answers 2.41 times as many rows a second" in page
    assert "Worst slice: <strong><bdi>origin=JFK" in page
    for words in (
        "test@1, 10,000 rows",
        "train@1, 8,000 rows",
        "512 rows",
        "99.91%",
        "0.02 of the original, 0.021 of the variant",
    ):
        assert words in re.sub(r"</?bdi>", "", page), words
    for digest in (shop.search.on.digest, shop.search.held_out.digest, shop.search.files[0].digest, "c" * 64):
        assert digest in page
    assert "The signature is valid" in page
    [drawn] = pictures(shop.page(shop.about("certificate", variant="int8")), "intervals")
    assert [one.attrib["class"] for one in drawn.iter("g")].count("interval-line holds") == 3


def test_a_refusal_has_its_page_too(shop: Shop) -> None:
    page = shop.page(shop.about("certificate", variant=shop.ids["pruned"]))
    assert "is not shown to be as good as the original: Over all rows it is worse by 3.00 points" in page
    assert "a refusal is signed as well" in page
    assert page.count('<span class="outcome bad">no</span>') == 3


def test_a_model_that_answers_with_numbers_is_judged_by_its_error(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    search = optimised.plan(shop.site, shop.version)
    optimised.describe(shop.site, search, task="numbers")
    fast = optimised.measures(2.0, 0.001)
    optimised.candidate(shop.site, search, "bf16", state="made", of=fast, file=b"x")
    errors = {"original_squares": 12_000.0, "variant_squares": 12_010.0, "products": 12_004.0}
    rows = variants.Group(rows=10_000, original_error=9_000.0, variant_error=9_002.0, **errors)
    alone = variants.Group(name="origin=JFK", rows=1, original_error=0.5, variant_error=0.5)
    optimised.certify(shop.site, search, "bf16", fast, rows, alone, calibration_error=-1.0, original_calibration_error=-1.0)
    page = shop.page(shop.about("certificate", variant="bf16"))
    assert "the mean error" in page
    assert ">0.9002</td>" in page
    assert "it gives no probabilities" in page
    assert "∞" in page  # of one row nothing can be said
    asked = variants.OneVariant(project="fraud", model=MODEL, version=1, variant="bf16")
    certificate_shown(Layout(), shop.site.call(variants.SHOW_CERTIFICATE, asked))
    told = capsys.readouterr().out
    assert re.search(r"calibration error\s+-\s*$", told, re.MULTILINE)
    assert "inf" not in told
    assert "% of the error lost" in shop.page(f"/projects/fraud/optimisations/{search.id}")


@pytest.mark.parametrize("variant", ["folded", "nothing", "<b>", ""])
def test_what_was_never_certified_has_no_certificate(shop: Shop, variant: str) -> None:
    assert shop.get(shop.about("certificate", variant=variant)).status_code == 404


def fetched(shop: Shop, folder: Path) -> list[str]:
    """What the page offers to download, in a folder; and what it says to type there."""
    path = shop.about("certificate", variant=shop.ids["int8"])
    page = shop.page(path)
    for link in re.findall(r'href="([^"]+)" download', page):
        answer = shop.get(html.unescape(link))
        assert answer.status_code == 200
        name = answer.headers["content-disposition"].rpartition("''")[2]
        (folder / name).write_bytes(answer.content)
    return code(page)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


def test_what_the_page_says_to_type_verifies_a_certificate_without_the_platform(shop: Shop, tmp_path: Path) -> None:
    lines = fetched(shop, tmp_path)
    assert lines[0] == f"falaj model certificate '{MODEL[:-2]}'\"'\"'s' 1 int8 --file certificate.json --project fraud"
    signature, files = lines[-2:]
    assert run(signature, tmp_path).stdout == "Verified OK\n"
    assert run(files, tmp_path).stdout == "model.onnx: OK\n"
    (tmp_path / "model.onnx").write_bytes(b"another")
    assert run(files, tmp_path).returncode != 0
    certificate = tmp_path / "certificate.json"
    certificate.write_text(re.sub(r'"payload":\s*"..', lambda found: f"{found[0][:-2]}AA", certificate.read_text()))
    assert run(signature, tmp_path).returncode != 0


def test_a_certificate_of_files_that_were_changed_does_not_hold(shop: Shop) -> None:
    changed = {"variant": shop.ids["trimmed"], "name": "model.onnx", "blob": "0" * 32, "size": 3, "digest": "0" * 64}
    [before] = [one for one in listed(shop) if one.id == shop.ids["trimmed"]]
    optimised.within(shop.site, lambda context: variant_store.put_file(context.work, changed))
    page = html.unescape(shop.page(shop.about("certificate", variant=shop.ids["trimmed"])))
    put_back = changed | {"size": before.files[0].size, "digest": before.files[0].digest}
    optimised.within(shop.site, lambda context: variant_store.put_file(context.work, put_back))
    assert "has no certificate that holds: The variant's files are not those that were certified." in page
    assert "The signature is not valid for this variant" in page
    assert "may stand in" not in page


def listed(shop: Shop) -> Any:
    search = next(
        one for one in shop.site.call(LIST_OPTIMISATIONS, ListOptimisations(project="fraud")).items if one.id == shop.search.id
    )
    return search.variants


def test_variants_stand_side_by_side_slice_by_slice_and_what_differs_is_marked(shop: Shop) -> None:
    page = html.unescape(shop.page(shop.about("variants", variants=f"{shop.ids['int8']},pruned,nothing")))
    assert "1 of the variants in this address does not exist" in page
    rows = dict(re.findall(r"<tr([^>]*)><th scope=\"row\"><bdi>([^<]*)", page)[::-1])
    assert rows
    differing = re.findall(r'<tr class="differs"><th scope="row"><bdi>(.*?)</bdi>', page)
    assert {"Steps", "Drop", "Times as fast", "Latency, median", "Rows a second", "Size", "all rows", "origin=JFK"} <= set(
        differing
    )
    assert "Memory" not in differing
    assert "41% of the original's" in page
    assert "at most 3.43 points, allowed 0.50 points: not shown" in page
    assert page.count('class="winner"') >= 6


def test_without_two_variants_the_page_asks_which(shop: Shop) -> None:
    page = shop.page(shop.about("variants"))
    assert "Choose two or more" in page
    assert f"<span>Falaj {falaj.__version__}</span>" in page, "the foot tells the version of another thing"
    assert "compare-table" not in page
    many = shop.get(shop.about("variants", variants=",".join("abcdefghi")))
    assert many.status_code == 400
    assert "9 variants were chosen; 8 can be compared at once" in many.text
    chosen = urlencode({"model": MODEL, "version": 1, "variants": [shop.ids["int8"], shop.ids["trimmed"]]}, doseq=True)
    assert "compare-table" in shop.page(f"/projects/fraud/variants?{chosen}")  # as the form sends it


def test_a_version_shows_its_variants_and_its_lineage_those_that_were_certified(shop: Shop) -> None:
    page = shop.page(shop.version_page)
    card = page.partition('id="variants"')[2].partition("</section>")[0]
    assert [html.unescape(name) for name in re.findall(r'aria-label="Compare ([^"]*)"', card)][:2] == ["int8", "trimmed"]
    assert "distilled" not in card
    assert html.escape(shop.about("certificate", variant=shop.ids["pruned"])) in card
    assert f'href="{shop.search_page}"' in card
    [drawn] = pictures(page, "lineage")
    nodes = [one.findtext("title") or "" for one in drawn.iter("g") if "lineage-variant" in one.attrib.get("class", "")]
    assert sorted(name.rpartition(" ")[2] for name in nodes) == ["int8", "trimmed"]
    model = shop.page(f"/projects/fraud/model?{urlencode({'model': MODEL})}")
    assert 'href="/projects/fraud/optimisations?model=' in model


def test_the_form_of_a_version_is_filled_with_what_was_asked_last_and_submits_the_search(shop: Shop) -> None:
    with shop.site.client(shop.site.session()) as client:
        before = client.get(shop.version_page).text
        given = dict(re.findall(r'id="optimise-[\w-]+" name="(\w+)" type="text" value="([^"]*)"', before))
        assert {name: given[name] for name in ("on", "label", "slices", "max_drop")} == {
            "on": "train@1",
            "label": "late",
            "slices": "origin",
            "max_drop": "0.5",
        }
        assert "--on train@1 --held-out test@1 --truth late --slice origin --target cpu" in " ".join(code(before))
        form = Form(before, f"{shop.version_page}/-/optimisation.plan")
        wrong = form.send(client, **(given | {"max_drop": "much", "target": "cpu"}))
        assert wrong.status_code == 400
        assert "Write per cent" in wrong.text
        missing = form.send(client, **(given | {"label": "nothing", "target": "cpu"}))
        assert "has no column" in missing.text
        sent = form.send(client, **(given | {"held_out": "test@1", "target": "edge"}))
        assert sent.status_code == 303
        followed = client.get(sent.headers["location"]).text
    assert "Its job is submitted" in followed
    assert "optimised for edge" in followed
    id = sent.headers["location"].partition("?")[0].rpartition("/")[2]
    [job] = [one for one in jobs(shop) if one.spec.command == command_of(id)]
    assert "variant.see" in job.spec.permissions
    assert [one.id for one in job.spec.inputs] == [shop.version.id]


def test_a_search_whose_job_is_refused_does_not_stay_open(shop: Shop) -> None:
    frozen = OnePolicy(project="fraud", policy="frozen")
    text = 'forbid (principal, action == Action::"job.submit", resource);'
    shop.site.call(PUT_POLICY, PutPolicy(project="fraud", policy="frozen", text=text))
    try:
        with shop.site.client(shop.site.session()) as client:
            form = Form(client.get(shop.version_page).text, f"{shop.version_page}/-/optimisation.plan")
            sent = form.send(client, on="train@1", held_out="test@1", label="late", target="cpu")
    finally:
        shop.site.call(DELETE_POLICY, frozen)
    assert sent.status_code == 403
    newest = shop.site.call(LIST_OPTIMISATIONS, ListOptimisations(project="fraud")).items[0]
    assert (newest.target, newest.state) == ("cpu", "abandoned")


def jobs(shop: Shop) -> Any:
    return shop.site.call(LIST_JOBS, ListJobs(project="fraud")).items


def test_who_may_only_look_sees_all_of_it_and_starts_nothing(shop: Shop) -> None:
    viewer = shop.site.person("omar", roles={"fraud": Role.VIEWER})
    stranger = shop.site.person("priya")
    paths = (shop.search_page, shop.about("certificate", variant="int8"), shop.about("variants", variants="int8,trimmed"))
    for path in paths:
        assert shop.get(path, viewer).status_code == 200, path
        assert shop.get(path, stranger).status_code == 404, path
    assert "optimisation.plan" not in shop.page(shop.version_page, viewer)
    assert "optimisation.plan" in shop.page(shop.version_page)


def test_fetching_a_file_of_a_variant_is_not_for_other_sites(shop: Shop) -> None:
    path = shop.about("variant/file", variant=shop.ids["int8"], file="model.onnx")
    with shop.site.client(shop.site.session()) as client:
        assert client.get(path).content == b"fast"
        assert client.get(path, headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_a_search_is_abandoned_from_its_page_by_whoever_may_write(shop: Shop) -> None:
    begun = optimised.plan(shop.site, shop.version)
    optimised.candidate(shop.site, begun, "int8", state="planned")
    path = f"/projects/fraud/optimisations/{begun.id}"
    assert "optimisation.abandon" not in shop.page(path, shop.site.person("vida", roles={"fraud": Role.VIEWER}))
    with shop.site.client(shop.site.session()) as client:
        sent = Form(client.get(path).text, f"{path}/-/optimisation.abandon").send(client)
        assert sent.status_code == 303
        page = client.get(sent.headers["location"]).text
    assert "The search is abandoned. What was certified stays" in page
    assert "was abandoned before it was made" in page
    assert "optimisation.abandon" not in page
    assert "--resume" not in page
    assert "abandoned" in shop.page("/projects/fraud/optimisations")


def test_a_certificate_says_what_scores_charge_the_probabilities(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    search = optimised.plan(shop.site, shop.version)
    optimised.describe(shop.site, search)
    fast = optimised.measures(2.0, 0.001)
    optimised.candidate(shop.site, search, "sure", state="made", of=fast, file=b"sure")
    charged = variants.Charged(by="brier", original=120.0, variant=620.0, squares=90.0)
    optimised.certify(shop.site, search, "sure", fast, replace(optimised.group("", 10_000, 2), scores=(charged,)))
    page = shop.page(shop.about("certificate", variant="sure"))
    assert "Over all rows the Brier score of its probabilities is worse by 5.00 points and may be by" in page
    assert "<bdi>all rows, Brier score</bdi>" in page
    assert ">0.062</td>" in page
    asked = variants.OneVariant(project="fraud", model=MODEL, version=1, variant="sure")
    certificate_shown(Layout(), shop.site.call(variants.SHOW_CERTIFICATE, asked))
    told = capsys.readouterr().out
    assert "What scores charge its probabilities" in told
    assert "all rows, Brier score" in " ".join(told.split())
