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
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    # A container has no user to be, and little shared memory.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
)
# Elements whose content is wider than they are, or that reach past the page; letters that stand one above the other.
PROBE = r"""
(() => {
  const wide = document.documentElement.clientWidth, found = [];
  const said = e => e.tagName.toLowerCase() + "." + (e.getAttribute("class") || "") + ": "
    + (e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
  const seen = e => e.checkVisibility({checkOpacity: false, checkVisibilityCSS: true});
  for (const e of document.body.querySelectorAll("*")) {
    if (!seen(e) || e.closest("svg") && e.tagName !== "svg" && e.tagName !== "text") continue;
    const box = e.getBoundingClientRect();
    if (!box.width && !box.height) continue;
    if (box.right > wide + 1 || box.left < -1) found.push("past the page, " + said(e));
    if (e.namespaceURI.endsWith("xhtml") && e.scrollWidth > e.clientWidth + 1 && e.clientWidth
        && getComputedStyle(e).display !== "inline") found.push("cut, " + said(e));
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    if (!node.data.trim() || !seen(node.parentElement) || node.parentElement.closest("code, pre")) continue;
    // A word broken into three lines or more is a column of letters.
    for (const word of node.data.matchAll(/[\p{L}\p{N}.,]{2,40}/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
      if (lines.size > 2) found.push("stacked, " + word[0]);
    }
  }
  return found;
})()
"""
# Pairs of words that lie on each other: leaf elements with text whose boxes share more than a hair.
OVERLAP = r"""
(() => {
  const seen = e => e.checkVisibility({checkOpacity: false, checkVisibilityCSS: true});
  const boxes = [], found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const parent = node.parentElement;
    if (!node.data.trim() || !seen(parent) || parent.closest("title, desc")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects())
      if (box.width > 1 && box.height > 1) boxes.push([box, node.data.trim().slice(0, 40), parent]);
  }
  boxes.sort((a, b) => a[0].top - b[0].top);
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && boxes[j][0].top < boxes[i][0].bottom - 3; j++) {
      const [a, b] = [boxes[i][0], boxes[j][0]];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3
          && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
        found.push(boxes[i][1] + " on " + boxes[j][1]);
    }
  return found;
})()
"""
# The middle of an element where a mouse would reach it; null if it is hidden, or something else lies on it.
PLACE = r"""
selector => {
  const found = document.querySelector(selector);
  if (!found) return null;
  found.scrollIntoView({block: "center", behavior: "instant"});
  const box = found.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
  const top = document.elementFromPoint(x, y);
  return top && (found.contains(top) || top.contains(found)) ? [x, y] : null;
}
"""
AXE = Path(__file__).parent / "axe" / "axe.min.js"
SERIOUS = r"""
axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .flatMap(one => one.nodes.map(node => one.id + ": " + node.html.slice(0, 120))))
"""


class BrowserError(Exception):
    """The browser refused, or went away."""


class Browser:
    """One page of a headless browser, opened again and again."""

    def __init__(self, process: subprocess.Popen[bytes], send: int, receive: int) -> None:
        self._process, self._send, self._receive = process, send, receive
        self._buffer, self._number, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")
        self.call("Log.enable")
        self.call("Network.enable")
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
        result: dict[str, Any] = announced["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._receive, 1 << 20)
            if not more:
                raise BrowserError(f"the browser ended with {self._process.poll()}")
            self._buffer += more
        message, self._buffer = self._buffer.split(b"\0", 1)
        announced: dict[str, Any] = json.loads(message)
        return announced

    def show(self, page: Path | str, *, width: int, dark: bool = False, paper: bool = False) -> None:
        """Open a file or an address at a width, and wait until it is laid out."""
        self.logged.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.call(
            "Emulation.setEmulatedMedia",
            media="print" if paper else "screen",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        address = page if isinstance(page, str) else page.resolve().as_uri()
        self.call("Page.navigate", url=address)
        kind = address.partition(":")[0] + ":"
        while self.run("document.readyState") != "complete" or self.run("location.protocol") != kind:
            pass

    def close(self) -> None:
        """End the browser, which may leave without an answer."""
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
        found = self.run(f"({PLACE})({json.dumps(selector)})")
        if found is None:
            raise BrowserError(f"nothing to click on: {selector}")
        where = {"x": found[0], "y": found[1], "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=found[0], y=found[1])
        self.call("Input.dispatchMouseEvent", type="mousePressed", **where)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **where)

    def serious(self) -> list[str]:
        """What axe-core finds serious or critical for people who cannot see, point or tell colours."""
        if not self.run("typeof axe === 'object'"):
            self.run(AXE.read_text(encoding="utf-8"))
        found: list[str] = self.run(SERIOUS)
        return found

    def unfold(self) -> None:
        self.run("document.querySelectorAll('details').forEach(one => { one.open = true })")

    def overflowing(self) -> list[str]:
        """What is cut, reaches past the page, or stands letter above letter."""
        found: list[str] = self.run(PROBE)
        return found

    def overlapping(self) -> list[str]:
        found: list[str] = self.run(OVERLAP)
        return found

    def printed(self) -> bytes:
        """The page as PDF on A4, as a person would print it: its own margins and its own headers."""
        self.call("Emulation.setEmulatedMedia", media="", features=[])
        announced = self.call(
            "Page.printToPDF",
            paperWidth=8.27,
            paperHeight=11.69,
            preferCSSPageSize=True,
            printBackground=False,
            displayHeaderFooter=False,
        )
        return base64.b64decode(announced["data"])

    def picture(self) -> bytes:
        announced = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(announced["data"])


def executable() -> str:
    """Where the browser is; an error that says how to get one if there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise BrowserError(
            "no browser: apt-get install chromium, or put one of " + ", ".join(NAMES) + " on PATH"
        )
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that is gone afterwards, with its folder."""
    requested, answered = os.pipe(), os.pipe()

    def descriptors() -> None:
        # The browser reads 3 and writes 4. Copies first: a pipe's own number may be one of the two.
        reads, writes = os.dup(requested[0]), os.dup(answered[1])
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [executable(), *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=descriptors,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
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
