"""The web page for tests: a plain HTTP client that signs in as a browser does, and the browser itself."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, TimeoutException
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from hermes.http_server import HttpServer, listen
from hermes.server.app import build_web_page
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
NO_BROWSER = "no browser: install Debian's chromium and chromium-driver to run the tests of the web page in one"
_TOKEN = re.compile(r'name="csrf" value="(\w+)"')
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --force-device-scale-factor=1"
)


class Visitor:
    """A browser without scripts: keeps cookies, sends its origin, and the token of the page it saw last."""

    def __init__(self, url: str) -> None:
        self.url = url
        alone = httpx.Limits(max_keepalive_connections=0)  # nothing stays open, so nobody has to close it
        self.http = httpx.Client(base_url=url, headers={"accept": "text/html"}, timeout=30, limits=alone)
        self.csrf = self.referer = ""

    def get(self, path: str, **more: Any) -> httpx.Response:
        answer = self.http.get(path, **more)
        self.referer = str(answer.url)
        if found := _TOKEN.search(answer.text):
            self.csrf = found[1]
        return answer

    def post(self, path: str, **fields: Any) -> httpx.Response:
        """Sends a form as the page would, and follows where it leads."""
        answer = self.http.post(path, data={"csrf": self.csrf, **fields}, headers=self._headers())
        return self.get(answer.headers["location"]) if answer.status_code == 303 else answer

    def _headers(self) -> dict[str, str]:
        return {"origin": self.url, "referer": self.referer}

    def sign_in(self, key: str) -> httpx.Response:
        self.get("/ui/sign-in")
        return self.post("/ui/sign-in", key=key)


@contextmanager
def own_page(home: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """What `hermes ui` serves: its address, and a function that makes one-time links."""
    page = build_web_page(find_home(home))
    server = HttpServer(page.app, listen("127.0.0.1", 0), drain_seconds=1)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}", page.link
    finally:
        server.stop()


@dataclass(frozen=True)
class Browser:
    """Chromium, looking at the page of one home."""

    driver: webdriver.Chrome
    url: str = ""

    def at(self, url: str) -> Browser:
        self.driver.get("about:blank")
        self.driver.delete_all_cookies()
        return Browser(self.driver, url)

    def open(self, path: str) -> None:
        self.driver.get(self.url + path)

    def enter(self, link: str) -> None:
        self.open(link)
        loaded = "return document.readyState === 'complete' && location.pathname !== '/ui/enter'"
        self.wait(lambda: self.driver.execute_script(loaded))

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def button(self, text: str, within: str = "main") -> WebElement:
        """The first visible button, link or summary with this text."""
        self.wait(lambda: self._buttons(text, within))
        return self._buttons(text, within)[0]

    def _buttons(self, text: str, within: str) -> list[WebElement]:
        found = self.all(f"{within} button, {within} summary, {within} a")
        return [each for each in found if each.text.strip() == text and each.is_displayed()]

    def wait(self, until: Callable[[], Any]) -> Any:
        """Waits for the page; an element that is replaced meanwhile is looked for again."""
        patience = WebDriverWait(
            self.driver, 30, 0.05, ignored_exceptions=(NoSuchElementException, StaleElementReferenceException)
        )
        return patience.until(lambda _driver: until())

    def says(self, text: str) -> None:
        """Waits until the page shows this text."""
        try:
            self.wait(lambda: text in self.find("body").text)
        except TimeoutException as error:
            shown = self.driver.execute_script("return [location.href, document.activeElement.outerHTML]")
            raise AssertionError(f"{text!r} never came at {shown}: {self.find('body').text}") from error

    def press(self, keys: str) -> None:
        """Types to whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(keys).perform()

    def size(self, width: int, height: int = 900) -> None:
        """The size of the page itself; a window cannot be as narrow as a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def theme(self, name: str) -> None:
        """What the system prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        self.wait(lambda: self.driver.execute_script("return document.readyState === 'complete' && innerWidth > 0"))
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(taken["data"])

    def problems(self) -> list[str]:
        """What axe-core finds wrong with the page, and whether it is wider than the screen."""
        with open(os.path.join(os.path.dirname(__file__), "..", "web", "axe.min.js"), encoding="utf-8") as file:
            self.driver.execute_script(file.read())
        found = self.driver.execute_async_script("axe.run().then(arguments[0])")
        wide = self.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        wrong = [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]
        return [*wrong, *([f"the page is {wide} px too wide"] if wide > 0 else [])]


@contextmanager
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM or ""
        for flag in (*_FLAGS.split(), f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Driver(CHROMEDRIVER, log_output=subprocess.DEVNULL))
        try:
            yield Browser(driver)
        finally:
            driver.quit()
