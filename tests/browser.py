"""A real Chromium without a window, spoken to over a pipe: the DevTools protocol.

https://chromedevtools.github.io/devtools-protocol/; with ``--remote-debugging-pipe`` messages are
JSON, each ended by a NUL byte, on the descriptors 3 (to the browser) and 4 (from it).
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0  # seconds until a state that is awaited counts as one that never comes
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # the tests may be root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    """Return the program of a Chromium on this machine, None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass(slots=True)
class Browser:
    """One page in a browser; `problems` are console errors, exceptions and dialogs."""

    sending: IO[bytes]
    receiving: IO[bytes]
    session: str = ""
    number: int = 0
    problems: list[str] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.sending.write(json.dumps(message).encode() + b"\0")
        self.sending.flush()
        while True:
            answer = self._receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        parts = []
        while (byte := self.receiving.read(1)) not in (b"\0", b""):
            parts.append(byte)
        assert parts, "the browser has ended"
        message: dict[str, Any] = json.loads(b"".join(parts))
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        """Keep what a page must not do."""
        entry = parameters.get("entry", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded" and entry["level"] in ("error", "warning"):
            self.problems.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.problems.append(f"console: {json.dumps(parameters['args'])}")
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {parameters['message']}")

    def open(self, url: str, *, width: int = 1280, dark: bool = False, media: str = "") -> None:
        """Open a page in a window of this width, and wait until it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def leave(self) -> None:
        """Leave the page, which does nothing more then, and forget its problems."""
        self.call("Page.navigate", url="about:blank")
        self.wait_for("document.readyState === 'complete' && location.href === 'about:blank'")
        self.problems.clear()

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)

    def save_picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Run a browser with a new profile in `folder`."""
    program = find_browser()
    assert program is not None
    to_browser, sending = _open_pipe()
    receiving, from_browser = _open_pipe()
    words = [program, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
    with subprocess.Popen(
        ["bash", "-c", script, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=(to_browser, from_browser),
    ) as child:
        os.close(to_browser)
        os.close(from_browser)
        with os.fdopen(sending, "wb") as out, os.fdopen(receiving, "rb") as back:
            try:
                yield _attach(Browser(sending=out, receiving=back))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)


def _open_pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors are none of those that the browser wants."""
    low = os.pipe()
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return reading, writing


def _attach(browser: Browser) -> Browser:
    targets = browser.call("Target.getTargets")["targetInfos"]
    target = next(info["targetId"] for info in targets if info["type"] == "page")
    attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
    browser.session = attached["sessionId"]
    for domain in ("Page", "Runtime", "Log"):
        browser.call(f"{domain}.enable")
    return browser
