"""A real browser: Debian's Chromium, driven by its own driver, with nothing fetched from anywhere."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from tests.servers.places import quick_folder
from tests.servers.processes import program

WINDOW = (1280, 900)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-breakpad",
    "--disable-features=OptimizationHints,MediaRouter,Translate,CertificateTransparencyComponentUpdater",
    "--no-first-run",
    "--no-proxy-server",
    "--window-size={},{}".format(*WINDOW),
)


@pytest.fixture(scope="session")
def chromium(no_process_survives: None) -> Iterator[Chrome]:
    """Started once, for starting takes longer than most tests; `browser` is what tests ask for."""
    profile = tempfile.mkdtemp(prefix="falaj-chromium-", dir=quick_folder())
    options = ChromeOptions()
    options.binary_location = program("chromium", "/usr/bin/chromium", "/usr/bin/google-chrome")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(executable_path=program("chromedriver")))
    driver.set_page_load_timeout(30)
    try:
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def browser(chromium: Chrome) -> Chrome:
    """A fresh tab for each test, in a browser that remembers nothing of the tests before."""
    chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    chromium.execute_cdp_cmd("Network.clearBrowserCache", {})
    with contextlib.suppress(WebDriverException):  # a page without an origin has stored nothing
        chromium.execute_script("localStorage.clear(); sessionStorage.clear()")
    # What a test emulated (a phone, a time zone, no scripts) goes with its tab.
    before = chromium.window_handles
    chromium.switch_to.new_window("tab")
    fresh = chromium.current_window_handle
    for tab in before:
        chromium.switch_to.window(tab)
        chromium.close()
    chromium.switch_to.window(fresh)
    chromium.set_window_size(*WINDOW)
    chromium.get_log("browser")
    return chromium
