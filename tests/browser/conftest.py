"""One cluster and one Chromium for all tests; each test begins on a page of its own."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from pit_protocol import API_PREFIX
from tests.support.clusters.local import Cluster, Project, eventually, running
from tests.support.requirements import PROGRAMS, need_programs

PASSWORD = "correct horse"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
WIDE, PHONE = (1360, 900), (390, 844)


class Browser:
    """A person at a browser, who waits until things have appeared."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, path: str) -> None:
        self.driver.get(self.url + path)

    def find(self, css: str) -> WebElement:
        """The first element that is there and shown."""
        return self.once(lambda: next((e for e in self._all(css) if e.is_displayed()), None))

    def click(self, css: str) -> None:
        def press() -> bool:
            self.find(css).click()
            return True

        self.once(press)

    def type(self, css: str, text: str) -> None:
        field = self.find(css)
        field.clear()
        field.send_keys(text)

    def text(self, css: str = "main") -> str:
        return str(
            self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", css)
        )

    def sees(self, text: str, css: str = "main") -> None:
        """Wait for a text on the page."""
        eventually(lambda: text in self.text(css), within_s=60)

    def once(self, claim: Callable[[], Any]) -> Any:
        """Wait for something that the page may replace at any moment."""

        def ask() -> Any:
            try:
                return claim()
            except (StaleElementReferenceException, WebDriverException):
                return None

        return eventually(ask, within_s=60)

    def resize(self, size: tuple[int, int]) -> None:
        values = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", values)

    def prefer(self, scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def sign_in(self, name: str) -> None:
        self.driver.delete_all_cookies()
        self.open("/sign-in")
        self.type("#name", name)
        self.type("#password", PASSWORD)
        self.click("main button.main")
        self.sees(f"signed in as {name}", "footer")

    def refusals(self) -> list[str]:
        """What the content security policy has refused, and errors of scripts, since the last call."""
        found = [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]
        return [text for text in found if "Content Security Policy" in text or "Uncaught" in text]

    def _all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("browser")
    cluster = Cluster(place, Project(place))
    cluster.env |= {
        "PIT_HEAD_REGISTRATION": "approve",
        "PIT_HEAD_BCRYPT_COST": "4",
        "PIT_HEAD_GIT_PROTOCOLS": "file",
    }
    with running(cluster):
        change(cluster, "PATCH", "/users/me", {"set": {"password": PASSWORD}})
        (node,) = cluster.get("/nodes")["nodes"]
        # A second user comes: without this, no job would start any more on a node with one account.
        change(cluster, "PATCH", f"/nodes/{node['name']}", {"set": {"shared_account": "yes"}})
        yield cluster


def change(cluster: Cluster, method: str, path: str, body: Any = None) -> Any:
    """Call the API as the user of the cluster."""
    url = (cluster.home / "connect.txt").read_text().split()[0]
    token = (cluster.home / "user.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    answer = requests.request(method, url + API_PREFIX + path, json=body, headers=headers, timeout=30)
    assert answer.ok, answer.text
    return answer.json()


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    need_programs("chromium", "chromedriver")
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(find_driver()))
        try:
            yield driver
        finally:
            driver.quit()


def find_driver() -> str:
    places = [Path(place) / "chromedriver" for place in PROGRAMS.split(":")]
    return str(next(place for place in places if place.exists()))


@pytest.fixture
def browser(chromium: webdriver.Chrome, cluster: Cluster) -> Iterator[Browser]:
    """Signed in as the admin of the cluster; at the end, nothing was refused and no script has failed."""
    url = (cluster.home / "connect.txt").read_text().split()[0]
    browser = Browser(chromium, url)
    browser.resize(WIDE)
    browser.prefer("light")
    browser.sign_in(str(cluster.get("/me")["name"]))
    browser.refusals()
    yield browser
    assert browser.refusals() == []
