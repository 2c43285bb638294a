"""An A/B test in a real browser: its report fills while one looks on, and its chart is drawn."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from tests.web.abtested import Contested
from tests.web.conftest import Site, running_site, sign_in, until
from tests.web.test_browser import complaints, show
from tests.web.test_experiments_browser import text_of


@pytest.fixture
def fraud(tmp_path: Path) -> Iterator[Site]:
    for site in running_site(tmp_path):
        site.project("fraud")
        yield site


def test_a_report_is_followed_until_somebody_wins(fraud: Site, browser: Chrome) -> None:
    test = Contested(fraud)
    made = test.begin()
    sign_in(browser, fraud)
    show(browser, f"{fraud.url}/projects/fraud/abtests/{made.id}")
    assert "Nothing is decided" in text_of(browser, ".abtest-verdict")
    browser.execute_script("window.stayed = true")
    for _ in range(5):
        test.served(1, 40, 100)
        test.served(2, 90, 100)
    until(browser, lambda driver: "Revision 2 wins" in text_of(driver, ".abtest-verdict"))
    assert browser.execute_script("return window.stayed") is True
    for part in ("courses-line", "courses-zero"):
        box = browser.execute_script(f"return document.querySelector('svg.courses .{part}').getBoundingClientRect().toJSON()")
        assert max(box["width"], box["height"]) > 20  # what was decided at the first look is a bar
    assert complaints(browser) == []
