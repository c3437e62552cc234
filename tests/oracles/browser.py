"""A real browser, driven through its own pipe: what a page looks like at a width, in the dark and on paper.

The machine's Chromium speaks the DevTools protocol on two file descriptors, messages ended by a zero byte. One browser
serves many pages; `.ci/run` installs it.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# A container has no user to be, and little shared memory.
FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-dev-shm-usage"),
    *("--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-background-networking"),
    "--hide-scrollbars",
)
AXE = Path(__file__).parent / "axe" / "axe.min.js"
PROBES = Path(__file__).with_name("page_probes.js").read_text(encoding="utf-8").strip()


class BrowserError(Exception):
    """The browser refused, or went away."""


class Browser:
    def __init__(self, process: subprocess.Popen[bytes], send: int, receive: int) -> None:
        self._process, self._send, self._receive = process, send, receive
        self._buffer, self._number, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.logged: list[str] = []
        self.requested: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; what the page complains of meanwhile is kept in `logged`."""
        self._number += 1
        number = self._number
        requested: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            requested["sessionId"] = self._session
        os.write(self._send, json.dumps(requested).encode() + b"\0")
        while (announced := self._next()).get("id") != number:
            if announced.get("method") == "Log.entryAdded":
                self.logged.append(announced["params"]["entry"]["text"])
            if announced.get("method") == "Network.requestWillBeSent" and hasattr(self, "requested"):
                self.requested.append(announced["params"]["request"]["url"])
        if "error" in announced:
            raise BrowserError(f"{method}: {announced['error']['message']}")
        return dict(announced["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._receive, 1 << 20)
            if not more:
                raise BrowserError(f"the browser ended with {self._process.poll()}")
            self._buffer += more
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def show(self, page: Path | str, *, width: int, dark: bool = False, paper: bool = False) -> None:
        """Open a file or an address at a width, and wait until it is laid out."""
        self.logged.clear()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="print" if paper else "screen", features=[scheme])
        address = page if isinstance(page, str) else page.resolve().as_uri()
        self.call("Page.navigate", url=address)
        kind = address.partition(":")[0] + ":"
        while self.run("document.readyState") != "complete" or self.run("location.protocol") != kind:
            pass

    def close(self) -> None:
        self._session = ""
        with suppress(BrowserError):
            self.call("Browser.close")
        self._process.wait(timeout=20)

    def run(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise BrowserError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        """Press the mouse on an element, as a person would: it must be there, seen, and under nothing else."""
        found = self.probe(f"place({json.dumps(selector)})")
        if found is None:
            raise BrowserError(f"nothing to click on: {selector}")
        where = {"x": found[0], "y": found[1], "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=found[0], y=found[1])
        self.call("Input.dispatchMouseEvent", type="mousePressed", **where)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **where)

    def probe(self, call: str) -> Any:
        """What a function of `page_probes.js` says of the page."""
        return self.run(f"{PROBES}.{call}")

    def serious(self) -> list[str]:
        if not self.run("typeof axe === 'object'"):
            self.run(AXE.read_text(encoding="utf-8"))
        return list(self.probe("serious()"))

    def unfold(self) -> None:
        self.run("document.querySelectorAll('details').forEach(one => { one.open = true })")

    def overflowing(self) -> list[str]:
        """What is cut, reaches past the page, or stands letter above letter."""
        return list(self.probe("overflowing()"))

    def overlapping(self) -> list[str]:
        return list(self.probe("overlapping()"))

    def printed(self) -> bytes:
        """The page as PDF on A4, as a person would print it: its own margins and its own headers."""
        self.call("Emulation.setEmulatedMedia", media="", features=[])
        how = {"preferCSSPageSize": True, "printBackground": False, "displayHeaderFooter": False}
        announced = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, **how)
        return base64.b64decode(announced["data"])

    def picture(self) -> bytes:
        announced = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(announced["data"])


def executable() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise BrowserError(f"no browser: apt-get install chromium, or put one of {', '.join(NAMES)} on PATH")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    requested, answered = os.pipe(), os.pipe()

    def descriptors() -> None:
        # The browser reads 3 and writes 4. Copies first: a pipe's own number may be one of the two.
        reads, writes = os.dup(requested[0]), os.dup(answered[1])
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [executable(), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        null = subprocess.DEVNULL
        process = subprocess.Popen(
            command, preexec_fn=descriptors, close_fds=False, stdin=null, stdout=null, stderr=null
        )
        os.close(requested[0])
        os.close(answered[1])
        try:
            driven = Browser(process, requested[1], answered[0])
            yield driven
            driven.close()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            os.close(requested[1])
            os.close(answered[0])
