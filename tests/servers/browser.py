"""A real browser: Debian's Chromium, driven by its own driver, with nothing fetched from anywhere."""

import shutil
import tempfile
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from tests.servers.processes import program

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
    "--window-size=1280,900",
)


@pytest.fixture
def browser(no_process_survives: None) -> Iterator[Chrome]:
    """A fresh profile for each test."""
    profile = tempfile.mkdtemp(prefix="falaj-chromium-")
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
