"""A Chromium that tests drive without a window, by the protocol of its developer tools."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from lowtide.doctor.programs import CHROMIUM

PROGRAM = next(filter(None, map(shutil.which, CHROMIUM)), None)
WHY_NOT = (f"no Chromium is installed: apt-get install {CHROMIUM[0]}, as `make test` does on "
           f"Debian")
_SECONDS = 60  # that a page may take: a machine may be busy


class Browser:
    """Messages go through two pipes, which are the file descriptors 3 and 4 of the browser."""

    def __init__(self, profile):
        read_end, self._to = os.pipe()
        self._from, write_end = os.pipe()
        command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-dev-shm-usage", "--remote-debugging-pipe",
                   f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{read_end} 4>&{write_end}', "bash", *command],
            pass_fds=(read_end, write_end), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_end)
        os.close(write_end)
        self._received, self._last = b"", 0
        self.events = []

    def call(self, method, session=None, **parameters):
        """The result of a command; events that come before it are kept."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        until = time.monotonic() + _SECONDS
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._from, 1 << 20)
            assert part, "the browser has ended"
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self._to)
        with contextlib.suppress(OSError):
            os.close(self._from)
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Tab:
    """A page in a window of this width, in a colour scheme: "light" or "dark"."""

    def __init__(self, browser, url, width, scheme):
        self._browser = browser
        self._own = url if url.startswith("http") else "file:"
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target,
                                     flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)

    def value(self, expression):
        """Of JavaScript, as Python has it."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression):
        """Until it is true."""
        until = time.monotonic() + _SECONDS
        while not self.value(expression):
            assert time.monotonic() < until, (expression, self.errors())
            time.sleep(0.05)

    def errors(self):
        """What went wrong in the page so far, and what it asked of others than its own server."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            what, told = event["method"], event["params"]
            if what == "Runtime.exceptionThrown":
                found.append(told["exceptionDetails"])
            elif what == "Log.entryAdded" and told["entry"]["level"] == "error":
                found.append(told["entry"])
            elif what == "Network.requestWillBeSent":
                url = told["request"]["url"]
                if not url.startswith(("file:", "data:", "about:", "blob:", self._own)):
                    found.append(url)
        return found

    def screenshot(self, path):
        """Of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": size["width"],
                                  "height": size["height"], "scale": 1})
        path.write_bytes(base64.b64decode(picture["data"]))


@contextlib.contextmanager
def opened_browser():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            yield browser
        finally:
            browser.close()
