"""A minimal WebDriver client for tests of pages in headless Chromium."""

import json
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


KEYS = {"ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Escape": "\ue00c", "Enter": "\ue007"}  # WebDriver's codes


class Browser:
    def __init__(self, port: int, profile):
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                     "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
                     "--hide-scrollbars", "--disable-dev-shm-usage"]  # fmt: skip
        capabilities = {
            "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = self._request("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{answer['sessionId']}"

    def open(
        self, path, width: int = 1280, dark: bool = False, medium: str = "screen", reduced_motion: bool = False
    ) -> None:
        """Open a page, given by path or address, on a screen of this width, which may be narrower than any window."""
        screen = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
        self._cdp("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}
        self._cdp("Emulation.setEmulatedMedia", media=medium, features=[scheme, motion])
        self._request("POST", f"{self.session}/url", {"url": path if isinstance(path, str) else path.as_uri()})
        # On a busy machine the driver answers while a large page is still being parsed.
        for _ in range(600):
            if self.run("return document.readyState") == "complete":
                return
            time.sleep(0.05)
        raise TimeoutError(f"{path} was not loaded within 30 seconds")

    def run(self, script: str):
        return self._request("POST", f"{self.session}/execute/sync", {"script": script, "args": []})

    def press(self, key: str) -> None:
        """Press and release a key on the real keyboard path, as a viewer does."""
        value = KEYS.get(key, key)
        actions = [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._act({"type": "key", "id": "keyboard", "actions": actions})

    def click(self, selector: str) -> None:
        """Click the middle of an element, wherever it is on the screen."""
        x, y = self.run(
            f"const element = document.querySelector({json.dumps(selector)});"
            "element.scrollIntoView({block: 'center'}); const box = element.getBoundingClientRect();"
            "return [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)]"
        )
        actions = [
            {"type": "pointerMove", "duration": 0, "x": x, "y": y},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions})

    def _act(self, source: dict) -> None:
        self._request("POST", f"{self.session}/actions", {"actions": [source]})

    def errors(self) -> list[str]:
        entries = self._request("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def close(self) -> None:
        self._request("DELETE", self.session)

    def _cdp(self, command: str, **parameters) -> None:
        """Send a command of the Chrome DevTools Protocol."""
        self._request("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _request(self, method: str, path: str, body: dict | None = None):
        content = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            self.address + path, content, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["value"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    port = _free_port()
    driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        browser = Browser(port, tmp_path_factory.mktemp("profile"))
        yield browser
        browser.close()
    finally:
        driver.terminate()
        driver.wait(10)
