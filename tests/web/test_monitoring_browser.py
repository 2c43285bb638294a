"""Monitoring in a real browser: news without reloading, nothing lost of what is typed, a cell that leads to its feature."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from falaj.monitoring.operations.words import Act
from falaj.web.monitoring import health, inbox, monitor
from tests.web import monitored, served
from tests.web.conftest import Site, running_site, sign_in, until
from tests.web.monitored import drift, normal
from tests.web.test_browser import as_phone, complaints, faults_in, show
from tests.web.test_experiments_browser import text_of

USUAL = {"amount": normal(50, 10), "age": normal(40, 12)}
DRIFTED = USUAL | {"amount": normal(80, 10)}


@pytest.fixture
def fraud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for pages in (health, inbox, monitor):
        monkeypatch.setattr(pages, "EVERY", 1)
    for site in running_site(tmp_path):
        site.project("fraud")
        served.version(site)
        yield site


def watched(site: Site, windows: int) -> monitored.Traffic:
    endpoint = served.deploy(site, 1)
    monitored.apply(site, actions=(Act(do="pause-canary", approval=True),))
    traffic = monitored.Traffic(site, monitored.Plane(site), endpoint, windows + 2)
    traffic.learn(USUAL)
    return traffic


def test_a_page_that_is_looked_at_follows_and_keeps_what_is_typed(fraud: Site, browser: Chrome) -> None:
    traffic = watched(fraud, 6)
    traffic.send([USUAL] * 3)
    sign_in(browser, fraud)
    show(browser, f"{fraud.url}/projects/fraud/endpoints/scores/monitor")
    assert "All is as it was" in text_of(browser, "#verdict")
    browser.execute_script("window.stayed = true")
    browser.find_element(By.CSS_SELECTOR, "#wishes > summary").click()
    field = browser.find_element(By.ID, "wish-floor")
    field.clear()
    field.send_keys("0.33")
    traffic.send([DRIFTED] * 3)
    until(browser, lambda driver: "amount (" in text_of(driver, "#verdict"))
    until(browser, lambda driver: driver.find_elements(By.CSS_SELECTOR, ".heat-alarm"))
    assert browser.find_element(By.ID, "wish-floor").get_attribute("value") == "0.33"
    assert browser.execute_script("return window.stayed") is True
    assert complaints(browser) == []


def test_a_cell_and_its_name_lead_to_how_the_feature_is_spread(fraud: Site, browser: Chrome) -> None:
    watched(fraud, 4).send([USUAL] * 2 + [DRIFTED] * 2)
    sign_in(browser, fraud)
    show(browser, f"{fraud.url}/projects/fraud/endpoints/scores/monitor")
    cell = browser.find_element(By.CSS_SELECTOR, ".heat-row .heat-alarm")
    ActionChains(browser).move_to_element(cell).click().perform()
    until(browser, lambda driver: "column=amount" in driver.current_url)
    assert browser.find_elements(By.CSS_SELECTOR, "svg.spread rect.spread-now")
    assert text_of(browser, "#column") == "amount"
    name = browser.find_element(By.CSS_SELECTOR, ".heat-names a[title=age]")
    name.send_keys(Keys.ENTER)
    until(browser, lambda driver: text_of(driver, "#column") == "age")
    assert [line for line in complaints(browser) if "Autofocus processing was blocked" not in line] == []


def test_the_newest_windows_are_seen_first_on_a_phone_beside_their_names(fraud: Site, browser: Chrome) -> None:
    traffic = watched(fraud, 40)
    traffic.send([USUAL] * 37 + [DRIFTED] * 3)
    sign_in(browser, fraud)
    as_phone(browser)
    show(browser, f"{fraud.url}/projects/fraud/endpoints/scores/monitor?column=amount")
    inside = """const box = document.querySelector(arguments[0]).getBoundingClientRect();
        return box.left >= 0 && box.right <= innerWidth"""
    assert browser.execute_script(inside, ".heat-row:first-child polygon:last-of-type") is True
    assert browser.execute_script(inside, ".heat-names a") is True
    assert [fault for dress in ("light", "dark") for fault in faults_in(browser, dress, "ltr")] == []


def test_an_alert_arrives_in_the_inbox_is_seen_to_and_decided_by_keyboard(fraud: Site, browser: Chrome) -> None:
    watched(fraud, 0)
    sign_in(browser, fraud)
    show(browser, f"{fraud.url}/projects/fraud/alerts")
    assert "Nothing needs you" in text_of(browser, "#now")
    [alert] = monitored.sight(fraud, drift())
    until(browser, lambda driver: "1 of 3 columns drift" in text_of(driver, "#now"))
    browser.find_element(By.CSS_SELECTOR, "form[action$='alert.acknowledge'] button").send_keys(Keys.ENTER)
    until(browser, lambda driver: "it goes to nobody else" in text_of(driver, ".note.good"))
    show(browser, f"{fraud.url}/projects/fraud/alerts/{alert.id}")
    button = browser.find_element(By.CSS_SELECTOR, f"button[popovertarget='agree-{alert.actions[0].id}']")
    button.send_keys(Keys.ENTER)
    ActionChains(browser).send_keys(Keys.TAB, Keys.ENTER).perform()
    until(browser, lambda driver: "Decided." in text_of(driver, ".note.good"))
    until(browser, lambda driver: "waiting" not in text_of(driver, ".alert-actions"))
    assert complaints(browser) == []
