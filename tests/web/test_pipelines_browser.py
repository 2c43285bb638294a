"""The pages of pipelines in a real browser: what a reader sees of them on a screen that is not very wide."""

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.web import piped
from tests.web.conftest import Site, running_site, sign_in
from tests.web.test_browser import show

LINES = """
const broken = [];
for (const one of document.querySelectorAll(arguments[0])) {
  const words = document.createRange();
  words.selectNodeContents(one);
  if (new Set([...words.getClientRects()].map((box) => Math.round(box.bottom))).size > 1) broken.push(one.textContent);
}
return broken;
"""
NARROW, USUAL = 1300, 1600


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for site in running_site(tmp_path_factory.mktemp("pipelines")):
        site.project("fraud")
        piped.apply(site, "nightly", piped.asking())
        piped.until(site, piped.start(site, "nightly"), "asks", "asking")
        piped.schedule(site, "nightly", "schedule")
        yield site


@pytest.mark.parametrize("width", [NARROW, USUAL])
def test_short_names_and_ids_stay_in_one_line_and_buttons_in_sight(site: Site, browser: Chrome, width: int) -> None:
    sign_in(browser, site)
    browser.set_window_size(width, 900)
    for page in ("pipelines", "pipelines/nightly"):
        show(browser, f"{site.url}/projects/fraud/{page}")
        assert browser.execute_script(LINES, ".table-wrap tbody th > :is(.hash, .sub, bdi)") == []
        hidden = "return [...document.querySelectorAll('.table-wrap')].map((one) => one.scrollWidth - one.clientWidth)"
        assert max(browser.execute_script(hidden)) <= 0
