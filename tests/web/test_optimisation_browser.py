"""Optimised models in a real browser: a search that fills while one looks on, its chart, and the certificate it leads to."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from falaj.optimisation.attesting import command_of
from tests.web import optimised, scheduled
from tests.web.conftest import Site, running_site, sign_in, until, wait_for
from tests.web.test_browser import complaints, show
from tests.web.test_experiments_browser import text_of


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    scheduled.timers(monkeypatch).deaf = True  # jobs wait
    for site in running_site(tmp_path):
        site.project("fraud")
        yield site


def test_a_search_is_followed_its_chart_drawn_and_its_certificate_read(site: Site, browser: Chrome) -> None:
    version = optimised.register(site)
    begun = optimised.plan(site, version)
    scheduled.submit(site, command=command_of(begun.id))
    sign_in(browser, site)
    show(browser, f"{site.url}/projects/fraud/optimisations/{begun.id}")
    assert "The job looks at the model first" in text_of(browser, "#now")
    browser.execute_script("window.stayed = true")
    optimised.describe(site, begun)
    fast = optimised.measures(2.41, 0.001)
    optimised.candidate(site, begun, "int8", state="made", of=fast, file=b"fast")
    optimised.certify(site, begun, "int8", fast, optimised.group("", 10_000, 14, 4))
    until(browser, lambda driver: driver.find_elements(By.CSS_SELECTOR, "svg.pareto a .mark-certified"))
    assert browser.execute_script("return window.stayed") is True
    assert "fastest certified" in text_of(browser, "table.candidates").lower()
    box = browser.execute_script(
        "return document.querySelector('svg.pareto a .mark-certified').getBoundingClientRect().toJSON()"
    )
    assert box["width"] > 5
    browser.find_element(By.CSS_SELECTOR, "table.candidates tbody tr th a").click()
    wait_for(browser, "svg.intervals .interval-line.holds")
    assert "may stand in for the original" in text_of(browser, ".certificate-verdict")
    assert complaints(browser) == []


def test_a_usual_screen_shows_the_whole_chart_and_every_column(site: Site, browser: Chrome) -> None:
    planned, _ = optimised.searched(site, optimised.register(site))
    sign_in(browser, site)
    browser.set_window_size(1300, 900)
    show(browser, f"{site.url}/projects/fraud/optimisations/{planned.id}")
    for what in (".drawing", ".table-wrap"):
        hidden = f"const it = document.querySelector('{what}'); return it.scrollWidth - it.clientWidth"
        assert browser.execute_script(hidden) <= 0, what
