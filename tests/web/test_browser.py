"""The console in a real browser: every page in every dress, by keyboard, on a phone."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from falaj.collaboration.operations.comments import ADD_COMMENT, AddComment
from falaj.collaboration.operations.reviews import REQUEST_REVIEW, RequestReview
from falaj.datasets.operations.checks import Check
from falaj.governance.identity.operations import (
    CREATE_SERVICE,
    CREATE_TOKEN,
    LIST_TOKENS,
    CreateService,
    CreateToken,
    ListTokens,
)
from falaj.governance.policies.operations import PUT_POLICY, PutPolicy
from falaj.governance.roles import Role
from falaj.governance.zones.operations import CREATE_ZONE, CreateZone
from falaj.jobs.operations.jobs import Setting
from falaj.jobs.operations.queues import APPLY_QUEUES, ApplyQueues, CohortSpec, QueueSpec, QuotaOf
from falaj.monitoring.operations.alerts import SET_CHANNEL, SetChannel
from falaj.monitoring.operations.words import Act, Objective, Told
from falaj.registry.operations.versions import SHOW_VERSION, OneVersion
from falaj.serving.operations.endpoints import CONFIGURE, Configure, Options
from falaj.serving.operations.keys import CREATE_KEY, CreateKey
from falaj.storage.operations import BLOB_LIST, BLOB_PUT, ListBlobs, PutBlob
from falaj.tables.joining.views import Feature
from falaj.web.sitemap import PAGES
from tests.web import abtested, monitored, optimised, piped, scheduled, served, stored, tracked
from tests.web.conftest import Site, running_site, sign_in, until, wait_for

LONG = "averylongname" * 7
ENDPOINT = "averylongname" * 7
NASTY = "<img src=x onerror='window.pwned=1'><script>window.pwned=1</script>"
# What a page must be asked to show anything. `furnish` says what stands for the fields in paths and here; a page with a field
# that it does not name ends the tests, until it does.
QUERIES = {
    "/audit/proof": "?index=1",
    "/projects/{project}/compare": "?runs={run},{other}",
    "/projects/{project}/artifacts/{holder}": "?name=page.html",
    "/projects/{project}/model": "?model={model}&at=2026-01-01T00:00",
    "/projects/{project}/versions/{id}": "?other=2",
    "/projects/{project}/version/files": "?model={model}&version=1&name=MLmodel",
    "/projects/{project}/datasets/{dataset}/diff": "?before=1&after=2",
    "/projects/{project}/endpoints/{endpoint}/monitor": "?column={column}",
    "/projects/{project}/certificate": "?model={model}&version=1&variant={variant}",
    "/projects/{project}/variants": "?model={model}&version=1&variants={variant},{refused}",
}
FURTHER = (
    "/projects?archived",
    "/policies?project=fraud&action=blob.put",
    "/audit?outcome=refused",
    "/audit?operation=no.such",
    "/projects/fraud/experiments?deleted",
    "/projects/fraud/experiments/0",
    "/projects/fraud/experiments/1?filter=nonsense",
    "/projects/fraud/experiments/1?order=metrics.auc+DESC&col=metrics.auc&col=tags.team",
    "/projects/fraud/compare",
    "/projects/fraud/endpoints/unwatched/monitor",
    "/projects/fraud/alerts?which=all&endpoint={endpoint}",
    "/projects/fraud/jobs?state=failed",
    "/projects/fraud/features?view={view}",
    "/projects/fraud/jobs/{waiting}",
    "/projects/fraud/jobs/{job}?attempt=1&offset=3",
    "/projects/fraud/optimisations?model={model}",
    "/projects/fraud/certificate?model={model}&version=1&variant={refused}",
    "/projects/fraud/variants?model={model}&version=1",
    "/cluster/what-if?ask=past&nodes=1",
    "/cluster/what-if?ask=job&gpus=1",
    "/cluster/what-if?ask=past&nodes=none",
)
Names = dict[str, str]

# What is wrong with the page as it stands, in words.
FAULTS = (Path(__file__).parent / "page_faults.js").read_text()


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Names]]:
    with pytest.MonkeyPatch.context() as patch:
        scheduled.timers(patch)
        for site in running_site(tmp_path_factory.mktemp("console")):
            yield site, furnish(site)


@pytest.fixture
def site(furnished: tuple[Site, Names]) -> Site:
    return furnished[0]


def walked(names: Names) -> list[str]:
    """Every page, in a project with something of everything; those of projects also in one with nothing and a long name."""
    whole = [page.path + QUERIES.get(page.path, "") for page in PAGES]
    paths = [path.format(**names) for path in whole]
    paths += [path.format(project=LONG) for path in whole if set(re.findall("{(.*?)}", path)) == {"project"}]
    return [*paths, *(path.format(**names) for path in FURTHER)]


def furnish(site: Site) -> Names:
    """Something of everything, with names as long and as nasty as they may be."""
    site.call(CREATE_ZONE, CreateZone(name="frankfurt", country="DE", jurisdictions=("gdpr", "dora"), engines=("local",)))
    site.project("fraud", NASTY, ("home", "frankfurt"))
    site.project(LONG, "word" * 200)
    maryam = site.person("maryam", display=NASTY, roles={"fraud": Role.VIEWER})
    site.person(LONG, display="w" * 200, roles={"fraud": Role.SCIENTIST}, platform=Role.AUDITOR)
    site.call(CREATE_SERVICE, CreateService(project="fraud", name="nightly", role=Role.ENGINEER, description="d" * 200))
    site.call(BLOB_PUT, PutBlob(project="fraud", name="n" * 200), data=b"1234")
    site.call(CREATE_TOKEN, CreateToken(label="L" * 100, scopes=("read", "write"), projects=("fraud", LONG), days=3))
    site.call(
        PUT_POLICY, PutPolicy(project="fraud", policy="none", text="forbid (principal, action, resource) when { false };")
    )
    names = furnish_experiments(site)
    furnish_endpoint(site)
    names |= furnish_monitor(site) | furnish_abtest(site)
    names |= furnish_jobs(site) | furnish_datasets(site) | furnish_variants(site) | furnish_pipelines(site)
    with site.client(maryam) as client:
        assert client.get("/people").status_code == 403
    while site.platform.sequencer.step().more:
        pass
    return {"project": "fraud", "endpoint": ENDPOINT, **names}


def furnish_experiments(site: Site) -> Names:
    number = tracked.experiment(site, NASTY)
    courses = {"auc": [0.5, 0.7, 0.9], "loss": [0.9, float("nan"), 0.2], "m" * 200: [1.0, 2.0], "system/cpu": [4.0, 5.0]}
    tags = {"mlflow.note.content": NASTY, "t" * 200: "v" * 300, "team": NASTY}
    run = tracked.run(
        site, number, NASTY, params={"depth": "3", "p" * 200: "q" * 500, "text": NASTY}, metrics=courses, tags=tags
    )
    other = tracked.run(site, number, "n" * 400, params={"depth": "4"}, metrics={"auc": [0.4, 0.8]}, ended=False)
    for name, content in (("page.html", NASTY.encode()), ("f" * 100 + "/x.png", tracked.png()), ("scores.csv", b"a,b\n1,2\n")):
        tracked.put(site, run, name, content)
    model = "long model name " * 12
    versions = [tracked.register(site, each, model, kind=kind) for each, kind in ((run, "lightgbm"), (other, "sklearn2"))]
    tracked.promote(site, 1, model)
    tracked.promote(site, 2, model, alias="a" * 100)
    text = f"@owner {NASTY} {'w' * 300}"
    site.call(ADD_COMMENT, AddComment(project="fraud", kind="run", thing=run, text=text))
    site.call(ADD_COMMENT, AddComment(project="fraud", kind="version", thing=versions[0].id, text=text))
    review = RequestReview(project="fraud", kind="run", thing=run, whom="maryam", note=NASTY)
    site.call(REQUEST_REVIEW, review)
    return {
        "experiment": str(number),
        "run": run,
        "other": other,
        "holder": run,
        "model": quote(model),
        "id": versions[0].id,
    }


def furnish_endpoint(site: Site) -> None:
    """A canary and a shadow beside what was there, with calls, problems, a key and reasons of any length."""
    model = "long model name " * 12
    for mode in ("live", "canary", "shadow"):
        endpoint = served.deploy(site, 1, ENDPOINT, model=model, mode=mode, reason=NASTY + "r" * 300, label="b" * 50)
    options = Configure(project="fraud", endpoint=ENDPOINT, options=Options(log_share=10_000, masked=(NASTY,)))
    site.call(CONFIGURE, options)
    calls = (served.call(endpoint, "c" * 100, site.platform.clock.now(), inputs=NASTY, status="e" * 100, caller="w" * 200),)
    plane = served.Plane(site, LONG)
    plane.report(endpoint, calls=calls, problems=(NASTY, "p" * 400), **served.did(500, errors=3, shed=2))
    site.call(CREATE_KEY, CreateKey(project="fraud", label="k" * 100, endpoints=(ENDPOINT,), days=5, manage=True))


def furnish_monitor(site: Site) -> Names:
    """A feature that drifts, an alert with all that an alert may have, a channel; and an endpoint that nobody watches."""
    served.deploy(site, 1, "unwatched", model="long model name " * 12)
    address = "https://hooks.example.com/" + "h" * 300
    site.call(SET_CHANNEL, SetChannel(project="fraud", channel="c" * 100, kind="webhook", url=address))
    acts = tuple(Act(do=kind, on=("drift", "schema"), approval=True) for kind in ("roll-back", "pause-canary"))
    objectives = (Objective(kind="availability", share=0.999), Objective(kind="latency", share=0.99, milliseconds=50))
    monitored.apply(site, ENDPOINT, actions=acts, objectives=objectives, channels=("c" * 100,), ignore=(NASTY,))
    usual = {NASTY: monitored.normal(), "f" * 300: monitored.kinds(NASTY, "k" * 100), "usual": monitored.normal()}
    plane, endpoint = monitored.Plane(site, "watching"), served.show(site, ENDPOINT)
    traffic = monitored.Traffic(site, plane, endpoint, 6)
    traffic.learn(usual)
    traffic.send([usual, usual, usual | {NASTY: monitored.normal(3)}, usual | {NASTY: monitored.normal(3)}], missed=20)
    monitored.labelled(site, plane, endpoint, days=2, rows=60)
    told = Told(column="w" * 300, effect=0.5, evidence=9.0, missing=0.1, outside=0.1, drifting=True)
    seen = monitored.drift(
        "t" * 300, key="schema/1", kind="schema", severity="critical", sentences=(NASTY, "s" * 400), columns=(told,)
    )
    alert, *_ = monitored.sight(site, seen, endpoint=ENDPOINT)
    return {"alert": alert.id, "column": quote(NASTY)}


def furnish_abtest(site: Site) -> Names:
    """One that is undecided, with a guardrail's worth of calls on either side."""
    test = abtested.Contested(site)
    made = test.begin("b" * 100)
    for revision in (1, 2):
        test.served(revision, 30, 40)
    test.step()
    return {"abtest": made.id}


def furnish_jobs(site: Site) -> Names:
    """One that runs on a card, one that failed and one that waits, in queues with long names."""
    quotas = (QuotaOf(resource="cpu", nominal=1_000), QuotaOf(resource="memory", nominal=4_096))
    queues = [QueueSpec(name=name, cohort=LONG, quotas=quotas, projects=(name,)) for name in ("fraud", LONG)]
    cohorts = (CohortSpec(name="lab"), CohortSpec(name=LONG, parent="lab", quotas=(QuotaOf(resource="gpu", nominal=2_000),)))
    site.call(APPLY_QUEUES, ApplyQueues(queues=tuple(queues), cohorts=cohorts))
    variables = (Setting(name="V" * 100, value=NASTY + "v" * 300),)
    job = scheduled.submit(site, name="j" * 100, resources={"cpus": 2.0, "gpus": 0.5}, variables=variables)
    waiting = scheduled.submit(site, name="w" * 100, command=("timer", NASTY + "c" * 300))
    scheduled.until(site, job, "running")
    scheduled.measured(site, job)
    scheduled.filled(site)
    return {"job": job.id, "waiting": waiting.id}


def furnish_datasets(site: Site) -> Names:
    """A version, one that failed a check, and a view that is served, with names and values of any length."""
    head = f'id,"{NASTY}","{"c" * 255}",at,score\n'
    rows = [f'{place},"{NASTY}","{"v" * 300}",2026-01-0{place}T00:00:00Z,{place}.5\n' for place in range(1, 6)]
    stored.write(site, (head + "".join(rows)).encode(), LONG)
    stored.describe(site, NASTY + "d" * 300, LONG)
    stored.tag(site, "t" * 100, "1", LONG)
    stored.classify(site, LONG, **{"c" * 255: "personal"})
    stored.declare(site, Check(name="k" * 100, kind="range", columns=("score",), least=0, most=10), dataset=LONG)
    stored.write(site, f'{head}6,"{NASTY}",x,2026-01-06T00:00:00Z,99\n'.encode(), LONG)
    stored.view(site, Feature(name="f" * 300, column="score"), name=LONG, dataset=LONG, description=NASTY + "d" * 300)
    stored.materialise(site, LONG)
    return {"dataset": LONG, "version": "2", "view": LONG}


def furnish_pipelines(site: Site) -> Names:
    """One that asks a long question, of a pipeline that is also started by a clock."""
    name = "n" * 100
    piped.apply(site, name, piped.asking(NASTY + "q" * 300))
    piped.schedule(site, name, "t" * 100)
    run = piped.start(site, name, note=NASTY)
    piped.until(site, run, "asks", "asking")
    return {"pipeline": name, "pipeline_run": run}


def furnish_variants(site: Site) -> Names:
    """A search with every outcome, of slices, steps and reasons of any length."""
    optimised.data(site)
    long = {"text": NASTY + "t" * 300, "host": NASTY + "h" * 300, "remarks": (NASTY, "r" * 300)}
    version = site.call(SHOW_VERSION, OneVersion(project="fraud", model="long model name " * 12, version=1))
    planned, ids = optimised.searched(site, version, slices=(NASTY, "s" * 400), **long)
    return {"optimisation": planned.id, "variant": ids["int8"], "refused": ids["pruned"]}


def show(browser: Chrome, url: str) -> None:
    browser.get(url)
    until(browser, lambda driver: driver.execute_script("return document.readyState") == "complete")


def as_phone(browser: Chrome) -> None:
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def complaints(browser: Chrome) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("screen", ["desk", "phone"])
def test_every_page_is_sound_in_every_dress(furnished: tuple[Site, Names], browser: Chrome, screen: str) -> None:
    site, names = furnished
    sign_in(browser, site)
    if screen == "phone":
        as_phone(browser)
    complaints(browser)
    wrong: dict[str, list[str]] = {}
    for path in walked(names):
        show(browser, site.url + path)
        faults = [f"{dress}: {fault}" for dress in DRESSES[screen] for fault in faults_in(browser, *dress)]
        faults += complaints(browser)
        if not browser.find_elements(By.CSS_SELECTOR, "nav[aria-label=Console]"):
            faults.append("this is no page of the console")
        if browser.execute_script("return window.pwned"):
            faults.append("text was run as a script")
        if faults:
            wrong[path] = faults
    assert wrong == {}, json.dumps(wrong, indent=1)


# Colours and direction. A page changes them in place, as by its buttons; how wide it is it learns when it is loaded.
DRESSES = {"desk": [("light", "ltr"), ("dark", "ltr"), ("light", "rtl")], "phone": [("light", "ltr"), ("dark", "ltr")]}


def faults_in(browser: Chrome, theme: str, direction: str) -> list[str]:
    dressed = "document.documentElement.dataset.theme = arguments[0]; document.documentElement.dir = arguments[1];\n"
    found: list[str] = browser.execute_script(dressed + FAULTS, theme, direction)
    return found


def test_the_side_stands_on_the_readers_side(site: Site, browser: Chrome) -> None:
    sign_in(browser, site)
    place = "return document.querySelector('.side').getBoundingClientRect().left > innerWidth / 2"
    assert browser.execute_script(place) is False
    show(browser, site.url + "/?dir=rtl")
    assert browser.execute_script(place) is True
    show(browser, site.url + "/zones")
    assert browser.execute_script(place) is True


@pytest.mark.parametrize("dress", ["light", "dark"])
def test_pages_before_signing_in_are_sound(site: Site, browser: Chrome, dress: str) -> None:
    show(browser, site.url + "/sign-in")
    browser.add_cookie({"name": "falaj-theme", "value": dress})
    for path in ("/sign-in", "/sign-in?left"):
        show(browser, site.url + path)
        assert browser.execute_script(FAULTS) == []
        assert complaints(browser) == []


def test_a_link_signs_in_by_itself_and_leaves_the_address_bar(site: Site, browser: Chrome) -> None:
    link = site.link()
    sign_in_with(browser, link)
    assert browser.current_url == site.url + "/"
    assert browser.find_element(By.CSS_SELECTOR, ".me-name").text == "owner"
    browser.back()
    assert link.partition("code=")[2] not in browser.current_url


def sign_in_with(browser: Chrome, link: str) -> None:
    browser.get(link)
    wait_for(browser, "nav[aria-label=Console]")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/projects",
        "/projects/fraud/members",
        "/projects/fraud/experiments/1",
        f"/projects/fraud/endpoints/{ENDPOINT}",
        f"/projects/fraud/endpoints/{ENDPOINT}/monitor",
        "/projects/fraud/alerts",
        "/projects/fraud/jobs",
        "/cluster",
        "/audit",
        "/policies",
    ],
)
def test_the_keyboard_alone_reaches_everything_and_shows_where_it_is(site: Site, browser: Chrome, path: str) -> None:
    sign_in(browser, site)
    show(browser, site.url + path)
    wanted = set(browser.execute_script(REACHABLE))
    reached: list[str] = []
    for _ in range(2 * len(wanted)):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        here = browser.execute_script(FOCUSED)
        if here is None or here["name"] in reached[:-1]:
            break
        assert here["ring"], f"no focus ring on {here['name']}"
        if here["name"] not in reached:  # a field for a time has stops of its own within
            reached.append(here["name"])
    assert reached[0].startswith("Skip to the content")
    assert wanted - set(reached) == set()


NAME = """
const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')];
const name = (it) => `${(it.textContent || it.ariaLabel || it.name || it.id).trim().slice(0, 40)} #${all.indexOf(it)}`;
"""
REACHABLE = f"""{NAME}
const seen = (it) => it.checkVisibility({{ visibilityProperty: true }}) && !it.disabled && it.type !== "hidden";
return all.filter((it) => seen(it) && it.tabIndex >= 0).map(name);
"""
FOCUSED = f"""{NAME}
const it = document.activeElement;
if (!it || it === document.body) return null;
const style = getComputedStyle(it);
return {{ name: name(it), ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 }};
"""


def test_the_skip_link_leads_past_the_navigation(site: Site, browser: Chrome) -> None:
    sign_in(browser, site)
    ActionChains(browser).send_keys(Keys.TAB, Keys.ENTER).perform()
    assert browser.execute_script("return document.activeElement.id") == "content"


def test_the_colours_one_chose_are_remembered(site: Site, browser: Chrome) -> None:
    sign_in(browser, site)
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    before = browser.execute_script(ground)
    browser.find_element(By.CSS_SELECTOR, "[data-theme-toggle]").click()
    after = browser.execute_script(ground)
    assert after != before
    show(browser, site.url + "/zones")
    assert browser.execute_script(ground) == after
    browser.find_element(By.CSS_SELECTOR, "[data-theme-toggle]").click()
    assert browser.execute_script(ground) == before


def test_the_colours_follow_the_system_until_one_chooses(site: Site, browser: Chrome) -> None:
    seen = set()
    for scheme in ("light", "dark"):
        wish = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)
        show(browser, site.url + "/sign-in")
        seen.add(browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor"))
    assert len(seen) == 2


def test_on_a_phone_the_menu_opens_and_closes(site: Site, browser: Chrome) -> None:
    as_phone(browser)
    sign_in(browser, site)
    button = browser.find_element(By.CSS_SELECTOR, "[data-menu]")
    zones = browser.find_element(By.CSS_SELECTOR, "a[href='/zones']")
    assert not zones.is_displayed()
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    zones.click()
    wait_for(browser, "a[href='/zones'][aria-current=page]")


def test_what_cannot_be_undone_asks_first_also_by_keyboard(site: Site, browser: Chrome) -> None:
    site.call(CREATE_TOKEN, CreateToken(label="doomed", days=5))
    sign_in(browser, site)
    show(browser, site.url + "/tokens")
    button = browser.find_element(By.CSS_SELECTOR, "button[aria-label='Revoke doomed']")
    sheet = browser.find_element(By.ID, button.get_attribute("popovertarget") or "")
    button.send_keys(Keys.ENTER)
    assert sheet.is_displayed()
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not sheet.is_displayed()
    button.send_keys(Keys.ENTER)
    ActionChains(browser).send_keys(Keys.TAB, Keys.ENTER).perform()
    assert "revoked" in wait_for(browser, ".note.good").text
    kept = [token for token in site.call(LIST_TOKENS, ListTokens()).items if token.label == "doomed"]
    assert kept == [] or kept[0].revoked is not None


def test_a_file_goes_up_from_the_page(site: Site, browser: Chrome, tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    file.write_bytes(b"a,b\n1,2\n" * 200_000)
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/{LONG}/blobs")
    browser.find_element(By.ID, "file").send_keys(str(file))
    browser.find_element(By.CSS_SELECTOR, "form[data-upload] button").click()
    wait_for(browser, ".note.good")
    stored = {blob.name: blob.size for blob in site.call(BLOB_LIST, ListBlobs(project=LONG)).items}
    assert stored == {"scores.csv": file.stat().st_size}
    assert complaints(browser) == []


def test_a_refused_upload_says_why(site: Site, browser: Chrome, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    sign_in(browser, site)
    show(browser, site.url + "/projects/fraud/blobs")
    browser.find_element(By.CSS_SELECTOR, "details.fold summary").click()
    browser.find_element(By.ID, "file").send_keys(str(tmp_path / "x"))
    browser.execute_script("document.getElementById('file-zone').options[0].value = 'elsewhere'")
    browser.execute_script("document.getElementById('file-zone').selectedIndex = 0")
    browser.find_element(By.CSS_SELECTOR, "form[data-upload] button").click()
    told: Any = until(browser, lambda driver: driver.find_element(By.CSS_SELECTOR, "form[data-upload] .problem").text)
    assert "elsewhere" in told or "zone" in told


def test_verifying_and_asking_happen_in_place(site: Site, browser: Chrome) -> None:
    sign_in(browser, site)
    show(browser, site.url + "/audit")
    browser.execute_script("window.stayed = true")
    browser.find_element(By.CSS_SELECTOR, "form[action='/audit/-/audit.verify'] button").click()
    until(browser, lambda driver: "The ledger is whole" in driver.find_element(By.ID, "verification").text)
    browser.find_element(By.ID, "operation").send_keys("project.create", Keys.ENTER)
    until(browser, lambda driver: "operation=project.create" in driver.current_url)
    until(
        browser,
        lambda driver: {cell.text for cell in driver.find_elements(By.CSS_SELECTOR, "#results summary")} == {"project.create"},
    )
    assert browser.execute_script("return window.stayed") is True
    assert complaints(browser) == []


def test_times_are_the_readers_own_and_exact_in_the_title(site: Site, browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Dubai"})
    sign_in(browser, site)
    show(browser, site.url + "/audit")
    shown = browser.find_element(By.CSS_SELECTOR, "#results time")
    exact = shown.get_attribute("title") or ""
    assert exact.endswith("Z")
    wanted = "{dateStyle: 'medium', timeStyle: 'medium', timeZone: 'Asia/Dubai'}"
    local = browser.execute_script(f"return new Intl.DateTimeFormat('en', {wanted}).format(new Date(arguments[0]))", exact)
    assert shown.text == local
    assert browser.find_element(By.CSS_SELECTOR, "[data-zone-of=since]").text == "Asia/Dubai"


def test_a_time_typed_in_the_readers_zone_is_asked_in_utc(site: Site, browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Dubai"})
    sign_in(browser, site)
    show(browser, site.url + "/audit")
    browser.execute_script(
        "const it = document.getElementById('since'); it.value = '2026-01-01T04:00'; it.dispatchEvent(new Event('input'))"
    )
    browser.find_element(By.CSS_SELECTOR, "form[action='/audit'] button").click()
    until(browser, lambda driver: "since=2026-01-01T00%3A00%3A00.000Z" in driver.current_url)
    show(browser, browser.current_url)
    assert browser.execute_script("return document.getElementById('since').value") == "2026-01-01T04:00"


def test_everything_important_works_without_a_script(site: Site, browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(site.link())
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait_for(browser, "nav[aria-label=Console]")
    browser.get(site.url + "/zones")
    browser.find_element(By.CSS_SELECTOR, "details.fold summary").click()
    browser.find_element(By.NAME, "name").send_keys("riyadh")
    browser.find_element(By.NAME, "country").send_keys("SA")
    browser.find_element(By.CSS_SELECTOR, "details.fold form button").click()
    assert "The zone is there" in wait_for(browser, ".note.good").text
