"""Experiments and models in a real browser: tables that sort and grow, charts that follow a run, files that can do no harm."""

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from falaj.registry.operations import models
from falaj.tracking.operations import runs
from tests.web import tracked
from tests.web.conftest import Site, running_site, sign_in, until, wait_for
from tests.web.test_browser import complaints, show

Shown = tuple[Site, int, list[str]]
CHOSEN = "return [...document.querySelectorAll('#runs tbody th.run bdi')].map((it) => it.textContent)"


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    for site in running_site(tmp_path_factory.mktemp("trees")):
        site.project("fraud")
        number = tracked.experiment(site)
        ids = [
            tracked.run(site, number, name, params={"depth": depth}, metrics={"auc": [0.5, auc], "loss": [0.9, 1 - auc]})
            for name, depth, auc in (("first", "3", 0.71), ("second", "4", 0.93), ("third", "5", 0.82))
        ]
        yield site, number, ids


def text_of(browser: Chrome, selector: str) -> str:
    """Asked in one go: what was found may be swapped for something else before it is read."""
    return str(browser.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector))


def points(browser: Chrome, key: str) -> int:
    """How many points a chart says that it has drawn."""
    plot = browser.find_elements(By.CSS_SELECTOR, f"figure[data-metric='{key}'] .chart-plot[data-points]")
    return int(plot[0].get_attribute("data-points") or 0) if plot else 0


def test_a_header_sorts_in_place_and_chosen_runs_lead_to_their_comparison(trees: Shown, browser: Chrome) -> None:
    site, number, ids = trees
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/experiments/{number}")
    compare = browser.find_element(By.CSS_SELECTOR, "#compare .main-action")
    assert not compare.is_enabled()
    browser.find_element(By.CSS_SELECTOR, f"input[value='{ids[0]}']").click()
    browser.execute_script("window.stayed = true")
    browser.find_element(By.CSS_SELECTOR, "th[title='metrics.auc'] a").click()
    until(browser, lambda driver: driver.execute_script(CHOSEN) == ["second", "third", "first"])
    assert "order=metrics.auc+DESC" in browser.current_url
    assert browser.execute_script("return window.stayed") is True
    assert browser.find_element(By.CSS_SELECTOR, "th[title='metrics.auc']").get_attribute("aria-sort") == "descending"
    assert browser.find_element(By.CSS_SELECTOR, f"input[value='{ids[0]}']").is_selected()
    browser.find_element(By.CSS_SELECTOR, f"input[value='{ids[1]}']").click()
    assert "2 chosen" in browser.find_element(By.ID, "compare").text
    compare.click()
    until(browser, lambda driver: "/compare?runs=" in driver.current_url)
    assert "first" in browser.find_element(By.CSS_SELECTOR, ".legend").text
    until(browser, lambda driver: points(driver, "auc") == 4)
    assert complaints(browser) == []


def test_a_filter_answers_in_place_and_tells_its_mistakes_beside_it(trees: Shown, browser: Chrome) -> None:
    site, number, _ = trees
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/experiments/{number}")
    field = browser.find_element(By.ID, "filter")
    field.send_keys("metrics.auc > 0.8", Keys.ENTER)
    until(browser, lambda driver: driver.execute_script(CHOSEN) == ["third", "second"])
    field.send_keys(" AND", Keys.ENTER)
    until(browser, lambda driver: text_of(driver, "#filter-problem"))
    show(browser, browser.current_url)
    assert browser.find_element(By.ID, "filter").get_attribute("value") == "metrics.auc > 0.8 AND"


def test_a_long_table_grows_as_one_scrolls_and_forgets_no_choice(trees: Shown, browser: Chrome) -> None:
    site, _, _ = trees
    number = tracked.experiment(site, "many")
    for index in range(250):
        tracked.run(site, number, f"run-{index:03}", ended=False)
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/experiments/{number}")
    browser.find_element(By.CSS_SELECTOR, "#runs input[name=runs]").click()
    scroll = "const it = document.getElementById('runs'); it.scrollTop = it.scrollHeight"
    browser.execute_script(scroll)
    until(browser, lambda driver: len(driver.execute_script(CHOSEN)) >= 200)
    browser.execute_script(scroll)
    until(browser, lambda driver: len(driver.execute_script(CHOSEN)) == 250)
    assert browser.execute_script(CHOSEN)[-1] == "run-000"
    assert browser.find_elements(By.CSS_SELECTOR, "#runs .more") == []
    until(browser, lambda driver: driver.find_elements(By.CSS_SELECTOR, "#runs tbody.far"))
    browser.execute_script("document.getElementById('runs').scrollTop = 0")
    until(browser, lambda driver: driver.find_element(By.CSS_SELECTOR, "#runs input[name=runs]").is_displayed())
    assert "1 chosen" in browser.find_element(By.ID, "compare").text
    assert complaints(browser) == []


def test_charts_follow_a_run_and_show_metrics_that_come_later(trees: Shown, browser: Chrome) -> None:
    site, _, _ = trees
    run = tracked.run(site, 0, "alive", metrics={"loss": [1.0, 0.5, float("nan")]}, ended=False)
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/runs/{run}")
    until(browser, lambda driver: points(driver, "loss") == 3)
    browser.find_element(By.CSS_SELECTOR, "[data-chart-log]").click()
    axis = browser.find_element(By.CSS_SELECTOR, "[data-chart-x]")
    for way in ("time", "since"):
        axis.find_element(By.CSS_SELECTOR, f"option[value={way}]").click()
    browser.execute_script(
        "const it = document.querySelector('[data-chart-smooth]'); it.value = 0.6; it.dispatchEvent(new Event('input'))"
    )
    tracked.log(site, run, metrics={"loss": [0.25, 0.125], "auc": [0.9, 0.95]}, first_step=3)
    until(browser, lambda driver: points(driver, "loss") == 5)
    until(browser, lambda driver: points(driver, "auc") == 2)
    label = browser.find_element(By.CSS_SELECTOR, "figure[data-metric=loss] .chart-plot").get_attribute("aria-label")
    assert label == "loss: 5 points of one run, from 0.125 to 1, last 0.125"
    site.call(runs.UPDATE_RUN, runs.UpdateRun(project="fraud", run=run, status="FINISHED", ended=9_000_000))
    until(browser, lambda driver: "FINISHED" in text_of(driver, ".stats"))
    assert complaints(browser) == []


def test_a_lone_number_becomes_a_chart_when_a_second_point_comes(trees: Shown, browser: Chrome) -> None:
    site, _, _ = trees
    run = tracked.run(site, 0, "lone", metrics={"auc": [0.93]}, ended=False)
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/runs/{run}")
    until(browser, lambda driver: points(driver, "auc") == 1)
    assert text_of(browser, "figure[data-metric=auc] .chart-number") == "0.93"
    tracked.log(site, run, metrics={"auc": [0.95]}, first_step=1)
    until(browser, lambda driver: points(driver, "auc") == 2)
    assert browser.find_elements(By.CSS_SELECTOR, "figure[data-metric=auc]:not(.lone) canvas")
    assert complaints(browser) == []


def test_long_names_on_a_phone_wrap_and_a_moment_keeps_its_seconds(trees: Shown, browser: Chrome) -> None:
    site, _, _ = trees
    number = tracked.experiment(site, "long")
    long = "a_metric_with_a_very_long_name_and_no_place_to_break_it"
    tracked.run(site, number, "long", metrics={long: [0.5, 0.6]})
    sign_in(browser, site)
    browser.set_window_size(500, 900)
    show(browser, f"{site.url}/projects/fraud/experiments/{number}")
    cells = browser.find_elements(By.CSS_SELECTOR, f".runs-table td[data-label='{long}']")
    assert cells
    assert all(cell.size["height"] > 40 for cell in cells), "the name takes more than one line"
    browser.set_window_size(1250, 900)
    site.project("timing")
    site.call(models.CREATE_MODEL, models.CreateModel(project="timing", model="timed"))
    show(browser, f"{site.url}/projects/timing/model?model=timed&alias=champion&at=2030-01-02T03:04:05Z")
    assert str(browser.find_element(By.ID, "as-of-at").get_attribute("value")).endswith(":04:05")


def test_files_show_beside_their_tree_and_can_do_no_harm(trees: Shown, browser: Chrome) -> None:
    site, _, _ = trees
    run = tracked.run(site, 0, "files")
    tracked.put(site, run, "report/page.html", b"<img src=x onerror='window.pwned=1'><script>window.pwned=1</script>")
    tracked.put(site, run, "report/drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'/>")
    tracked.put(site, run, "report/plot.png", tracked.png(7, 5))
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/runs/{run}")
    for name in ("page.html", "drawing.svg"):
        browser.find_element(By.CSS_SELECTOR, f".tree a[href$='{name}']").click()
        shown = wait_for(browser, f"#preview pre[aria-label$='{name}']")
        assert "window.pwned=1" in shown.text
    browser.find_element(By.CSS_SELECTOR, ".tree a[href$='plot.png']").click()
    until(browser, lambda driver: driver.execute_script("return document.querySelector('#preview img')?.naturalWidth") == 7)
    # The picture's own address shows a picture and nothing else, and a drawing's shows nothing at all.
    show(browser, f"{site.url}/projects/fraud/artifacts/{run}/picture?name=report/drawing.svg")
    assert "Only PNG, JPEG, GIF and WebP" in browser.find_element(By.TAG_NAME, "body").text
    assert not browser.execute_script("return window.pwned")


def test_a_champion_is_promoted_and_rolled_back_from_its_page(trees: Shown, browser: Chrome) -> None:
    site, _, ids = trees
    for run in ids[:2]:
        tracked.register(site, run)
    tracked.promote(site, 1)
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/model?model=card-fraud")
    browser.find_element(By.CSS_SELECTOR, "#promote-version option[value='2']").click()
    browser.find_element(By.CSS_SELECTOR, "form[action*='model.promote'] button").click()
    assert "points at that version now" in wait_for(browser, ".note.good").text
    browser.find_element(By.CSS_SELECTOR, "button[aria-label='Roll back champion']").send_keys(Keys.ENTER)
    until(browser, lambda driver: driver.find_element(By.ID, "why-1").is_displayed())
    browser.find_element(By.ID, "why-1").send_keys("alarms doubled", Keys.ENTER)
    until(browser, lambda driver: "the version before again" in text_of(driver, ".note.good"))
    found = site.call(models.SHOW_MODEL, models.OneModel(project="fraud", model="card-fraud"))
    assert [(alias.alias, alias.version) for alias in found.aliases] == [("champion", 1)]
    show(browser, f"{site.url}/projects/fraud/versions/{found.latest[0].id}")
    browser.find_element(By.CSS_SELECTOR, "form[action$='version.verify'] button").click()
    until(browser, lambda driver: "The signature holds" in text_of(driver, "#verification"))
    assert complaints(browser) == []


def test_the_links_that_mlflows_client_prints_lead_to_the_run(trees: Shown, browser: Chrome) -> None:
    site, number, ids = trees
    sign_in(browser, site)
    for printed in (
        f"/#/experiments/{number}/runs/{ids[0]}?workspace=fraud",
        f"/mlflow/fraud/#/experiments/{number}/runs/{ids[0]}",
    ):
        browser.get(f"{site.url}/projects")
        browser.get(f"{site.url}{printed}")
        until(browser, lambda driver: driver.current_url == f"{site.url}/projects/fraud/runs/{ids[0]}")
        assert "first" in text_of(browser, "h1")
    browser.get(f"{site.url}/#/experiments/{number}?workspace=fraud")
    until(browser, lambda driver: driver.current_url == f"{site.url}/projects/fraud/experiments/{number}")
