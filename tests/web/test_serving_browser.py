"""Endpoints in a real browser: from a version's Deploy button to the way back, charts that follow, a prediction in place."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from falaj.serving.operations.loads import PlaneLoad
from tests.web import served
from tests.web.conftest import Site, running_site, sign_in, until, wait_for
from tests.web.test_browser import complaints, show
from tests.web.test_experiments_browser import text_of


@pytest.fixture
def fraud(tmp_path: Path) -> Iterator[Site]:
    for site in running_site(tmp_path):
        site.project("fraud")
        yield site


def drawn(browser: Chrome, chart: str, what: str = "points") -> int:
    """How many points, or markers, a chart says that it has drawn."""
    plot = browser.find_elements(By.CSS_SELECTOR, f"figure[data-chart='{chart}'] .chart-plot[data-{what}]")
    return int(plot[0].get_attribute(f"data-{what}") or 0) if plot else 0


def fill(browser: Chrome, id: str, text: str) -> Any:
    field = browser.find_element(By.ID, id)
    field.clear()
    field.send_keys(text)
    return field


def test_from_the_deploy_button_to_the_endpoint_and_back(fraud: Site, browser: Chrome) -> None:
    versions = [served.version(fraud) for _ in range(2)]
    served.deploy(fraud, 1)
    sign_in(browser, fraud)
    show(browser, f"{fraud.url}/projects/fraud/versions/{versions[1].id}")
    assert not browser.find_element(By.ID, "deploy-percent").is_displayed()
    browser.find_element(By.CSS_SELECTOR, "input[name=mode][value=canary]").click()
    assert browser.find_element(By.ID, "deploy-steps").is_displayed()
    fill(browser, "deploy-endpoint", "scores")
    fill(browser, "deploy-percent", "25")
    fill(browser, "deploy-reason", "retrained").send_keys(Keys.ENTER)
    until(browser, lambda driver: driver.current_url.startswith(f"{fraud.url}/projects/fraud/endpoints/scores"))
    assert "25 %" in text_of(browser, "#now table")
    browser.find_element(By.CSS_SELECTOR, "button[popovertarget=rollback]").send_keys(Keys.ENTER)
    until(browser, lambda driver: driver.find_element(By.ID, "why-rollback").is_displayed())
    browser.find_element(By.ID, "why-rollback").send_keys("alarms doubled", Keys.ENTER)
    until(browser, lambda driver: "the split before is in force again" in text_of(driver, ".note.good"))
    assert [(arm.revision, arm.share) for arm in served.show(fraud).arms] == [(1, 10_000)]
    assert "alarms doubled" in text_of(browser, "#changes")
    assert complaints(browser) == []


def test_charts_follow_the_traffic_and_mark_where_the_split_changed(fraud: Site, browser: Chrome) -> None:
    for _ in range(2):
        served.version(fraud)
    endpoint = served.deploy(fraud, 1)
    plane = served.Plane(fraud)
    plane.report(endpoint, **served.did(300))
    sign_in(browser, fraud)
    show(browser, f"{fraud.url}/projects/fraud/endpoints/scores")
    until(browser, lambda driver: drawn(driver, "rate") and drawn(driver, "latency"))
    assert drawn(browser, "rate", "markers") == 1
    before = text_of(browser, "[data-figure=rate]")
    endpoint = served.deploy(fraud, 2, mode="canary", share=1_000, reason="from elsewhere")
    plane.report(endpoint, load=PlaneLoad(busy=0.634, calls=12), **served.did(30_000))
    until(browser, lambda driver: drawn(driver, "rate", "markers") == 2)
    until(browser, lambda driver: "from elsewhere" in text_of(driver, "#changes"))
    until(browser, lambda driver: text_of(driver, "[data-figure=rate]") != before)
    until(browser, lambda driver: "63 % of a core, 12 calls in hand" in text_of(driver, "[data-hosts]"))
    assert "revision 2" in text_of(browser, "[data-legend]")
    assert complaints(browser) == []


def test_a_prediction_is_answered_in_place_also_where_it_is_refused(fraud: Site, browser: Chrome) -> None:
    served.version(fraud)
    with served.answering() as answers:
        served.Plane(fraud, url=answers.url).report(served.deploy(fraud, 1))
        sign_in(browser, fraud)
        show(browser, f"{fraud.url}/projects/fraud/endpoints/scores")
        browser.execute_script("window.stayed = true")
        predict = browser.find_element(By.CSS_SELECTOR, "form[action$='endpoint.token'] .main-action")
        predict.click()
        until(browser, lambda driver: "0.25" in text_of(driver, "#answer"))
        assert answers.asked[0][2] == {"age": 0.0, "n": 0, "s": 0.0}, "the form began with the model's columns"
        fill(browser, "records", "{")
        predict.click()
        until(browser, lambda driver: "This is not JSON" in text_of(driver, "#answer"))
        answers.status, answers.content = 400, b'{"error": "record 0 lacks age"}'
        fill(browser, "records", '{"n": 1}')
        predict.click()
        until(browser, lambda driver: "refused with 400" in text_of(driver, "#answer"))
        assert browser.execute_script("return window.stayed") is True
    noise = [line for line in complaints(browser) if "status of 400" not in line]
    assert noise == []


def test_endpoints_work_without_a_script(fraud: Site, browser: Chrome) -> None:
    served.version(fraud)
    with served.answering() as answers:
        served.Plane(fraud, url=answers.url).report(served.deploy(fraud, 1), **served.did(10))
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        browser.get(fraud.link())
        browser.find_element(By.CSS_SELECTOR, "form button").click()
        wait_for(browser, "nav[aria-label=Console]")
        browser.get(f"{fraud.url}/projects/fraud/endpoints/scores")
        assert browser.find_elements(By.CSS_SELECTOR, "figure[data-chart=rate] svg.spark")
        browser.find_element(By.CSS_SELECTOR, "form[action$='endpoint.token'] .main-action").click()
        until(browser, lambda driver: "0.25" in driver.find_element(By.ID, "answer").text)
