"""Jobs in a real browser: pages that follow what happens by themselves, a log that grows, charts, and a question in place."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from falaj.jobs.operations.jobs import CANCEL_JOB, Cancel
from falaj.testing.timers import TimerEngine
from tests.web import scheduled
from tests.web.conftest import Site, running_site, sign_in, until, wait_for
from tests.web.test_browser import complaints, show
from tests.web.test_experiments_browser import text_of
from tests.web.test_serving_browser import drawn, fill

NASTY = "<img src=x onerror='window.pwned=1'>"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Site, TimerEngine]]:
    engine = scheduled.timers(monkeypatch)
    for site in running_site(tmp_path):
        site.project("fraud")
        yield site, engine


def test_a_job_is_planned_submitted_followed_and_cancelled(cluster: tuple[Site, TimerEngine], browser: Chrome) -> None:
    site, engine = cluster
    scheduled.wait(lambda: scheduled.hosts(site))
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/jobs")
    browser.find_element(By.CSS_SELECTOR, "#submit summary").click()
    fill(browser, "job-command", "timer 600")
    fill(browser, "job-name", "nightly")
    browser.find_element(By.CSS_SELECTOR, "#submit button[formaction]").click()
    until(browser, lambda driver: "Nothing is submitted yet" in text_of(driver, "#submit .note"))
    browser.find_element(By.CSS_SELECTOR, "#submit .main-action").click()
    until(browser, lambda driver: text_of(driver, "h1").strip() == "nightly")
    until(browser, lambda driver: "Try 1 runs." in text_of(driver, "#now"))
    [job] = scheduled.every(site)
    scheduled.writes(engine, job, "epoch 1\n")
    until(browser, lambda driver: "epoch 1" in text_of(driver, "pre.log"))
    scheduled.writes(engine, job, f"\x1b[32mepoch 2\x1b[0m {NASTY}\n")
    scheduled.measured(site, job)
    until(browser, lambda driver: text_of(driver, "pre.log").splitlines() == ["epoch 1", f"epoch 2 {NASTY}"])
    until(browser, lambda driver: drawn(driver, "cpus") >= 5 and drawn(driver, "memory_mib") >= 5)
    assert browser.execute_script("return window.pwned") is None
    browser.execute_script("window.stayed = true")
    site.call(CANCEL_JOB, Cancel(project="fraud", job=job.id))
    until(browser, lambda driver: "Submit it again" in text_of(driver, "#now"))
    assert browser.execute_script("return window.stayed") is True
    assert complaints(browser) == []


def test_lists_queues_and_hosts_follow_but_not_while_somebody_is_at_work_in_them(
    cluster: tuple[Site, TimerEngine], browser: Chrome
) -> None:
    site, _ = cluster
    scheduled.share(site, "fraud")
    morning = scheduled.submit(site, name="morning")
    scheduled.until(site, morning, "running")
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/jobs")
    browser.find_element(By.CSS_SELECTOR, "button[aria-label='Cancel morning']").send_keys(Keys.ENTER)
    scheduled.submit(site, name="evening")
    # The question is still there after a time in which the list would have been drawn anew.
    browser.execute_async_script("setTimeout(arguments[0], 6000)")
    sheet = wait_for(browser, ".sheet:popover-open")
    assert "evening" not in text_of(browser, "#now table")
    sheet.find_element(By.CSS_SELECTOR, ".button[autofocus]").click()
    browser.execute_script("document.activeElement.blur()")
    until(browser, lambda driver: "evening" in text_of(driver, "#now table"))
    show(browser, f"{site.url}/cluster/queues")
    assert "1 of 1" in text_of(browser, "#now table")
    site.call(CANCEL_JOB, Cancel(project="fraud", job=scheduled.every(site)[0].id))
    until(browser, lambda driver: "nobody waits" in text_of(driver, "#now .stats"))
    assert complaints(browser) == []


def test_what_if_is_answered_in_place(cluster: tuple[Site, TimerEngine], browser: Chrome) -> None:
    site, _ = cluster
    scheduled.wait(lambda: scheduled.hosts(site))
    scheduled.until(site, scheduled.submit(site, 0.1), "done")
    sign_in(browser, site)
    show(browser, f"{site.url}/cluster/what-if")
    browser.execute_script("window.stayed = true")
    assert not browser.find_element(By.ID, "gpus").is_displayed()
    fill(browser, "nodes", "2").send_keys(Keys.ENTER)
    until(browser, lambda driver: "default" in text_of(driver, "#answer table"))
    browser.find_element(By.CSS_SELECTOR, "input[name=ask][value=job]").click()
    fill(browser, "gpus", "1").send_keys(Keys.ENTER)
    until(browser, lambda driver: "The job would start" in text_of(driver, "#answer"))
    assert "ask=job" in browser.current_url
    assert browser.execute_script("return window.stayed") is True
    assert complaints(browser) == []


def test_jobs_are_read_without_a_script(cluster: tuple[Site, TimerEngine], browser: Chrome) -> None:
    site, engine = cluster
    job = scheduled.submit(site)
    scheduled.until(site, job, "running")
    scheduled.writes(engine, job, "epoch 1\n")
    scheduled.measured(site, job)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(site.link())
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait_for(browser, "nav[aria-label=Console]")
    browser.get(f"{site.url}/projects/fraud/jobs")
    browser.find_element(By.LINK_TEXT, "train").click()
    assert browser.find_element(By.CSS_SELECTOR, "pre.log").text == "epoch 1"
    assert browser.find_elements(By.CSS_SELECTOR, "figure[data-chart=cpus] svg.spark")
    browser.get(f"{site.url}/cluster")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".gpus .gpu")) == 2
