"""A real browser without a window, driven over the Chrome DevTools protocol through a pipe; nothing but Python is needed.

The browser is ``$MAXMARGIN_BROWSER``, a Chromium or Chrome on the path, or the one that ``python tests/browser.py`` puts into
the virtual environment: a Chromium for servers from the npm registry (67 MB, Linux on x86-64, no root), which brings the
libraries and the font it needs.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PACKAGE = "@sparticuz/chromium@147.0.0"
_INSTALLED = Path(sys.prefix) / "browser"
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--no-zygote",
    "--remote-debugging-pipe",
]
_UNPACK = """
const fs = require("fs"), [, from, to] = process.argv;
fs.writeFileSync(to, require("zlib").brotliDecompressSync(fs.readFileSync(from)));
"""
HOW_TO_INSTALL = (
    "no browser: install Chromium (Debian: apt-get install chromium), name one in MAXMARGIN_BROWSER, or run "
    "'python tests/browser.py', which needs npm"
)


def find() -> str | None:
    """The browser to use, or None."""
    if named := os.environ.get("MAXMARGIN_BROWSER"):
        return named
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None and (_INSTALLED / "chromium").exists():
        found = str(_INSTALLED / "chromium")
    return found


def install() -> str:
    """Fetch a Chromium from the npm registry into the virtual environment, unless there is a browser; what to tell."""
    if found := find():
        return f"browser: {found}"
    if shutil.which("npm") is None or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return HOW_TO_INSTALL
    _INSTALLED.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_INSTALLED.parent) as folder:
        packed = subprocess.run(["npm", "pack", "--silent", _PACKAGE], cwd=folder, capture_output=True, text=True)
        if packed.returncode:
            return f"{_PACKAGE} cannot be fetched ({packed.stderr.strip()[-200:]}); {HOW_TO_INSTALL}"
        shutil.unpack_archive(next(Path(folder).glob("*.tgz")), folder, filter="data")
        target = Path(folder) / "browser"
        target.mkdir()
        for name in ("chromium", "al2023.tar", "fonts.tar"):
            # Python has no brotli; the Node.js that npm runs on has.
            source = Path(folder) / "package" / "bin" / f"{name}.br"
            subprocess.run(["node", "-e", _UNPACK, source, target / name], check=True)
            if name.endswith(".tar"):
                shutil.unpack_archive(target / name, target, filter="data")
                (target / name).unlink()
        # The package's own configuration looks for fonts in fixed places.
        fonts = f"<fontconfig><dir>{_INSTALLED / 'fonts'}</dir><cachedir>{_INSTALLED / 'cache'}</cachedir></fontconfig>"
        (target / "fonts.conf").write_text(fonts)
        (target / "chromium").chmod(0o755)
        target.rename(_INSTALLED)
    return f"browser: {_INSTALLED / 'chromium'}"


class Page:
    """A tab; events are collected while commands are waited for."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.problems: list[str] = []
        self.requests: list[str] = []

    def command(self, method: str, **parameters: Any) -> Any:
        return self._browser.command(method, parameters, self._session)

    def on_event(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" or (method == "Log.entryAdded" and parameters["entry"]["level"] != "verbose"):
            self.problems.append(json.dumps(parameters))

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression, promises awaited."""
        answer = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def settle(self) -> None:
        """Until everything is laid out and drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => true)")

    def resize(self, width: int, height: int = 900, scale: float = 1) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600
        )
        self.settle()

    def prefer(self, scheme: str = "light", media: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", media=media, features=features)
        self.settle()

    def mouse(self, kind: str, x: float, y: float, clicks: int = 1) -> None:
        held = kind != "mouseMoved"
        button = "left" if held else "none"
        self.command(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=int(held), clickCount=clicks if held else 0
        )

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start)
        for share in (0.3, 0.7, 1.0):
            x, y = (a + share * (b - a) for a, b in zip(start, end, strict=True))
            self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.mouse("mouseReleased", *end)
        self.settle()

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, scrolled into view."""
        query = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{query}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        self.settle()
        x, y, width, height = self.run(f"(r => [r.x, r.y, r.width, r.height])({query}.getBoundingClientRect())")
        return x, y, width, height

    def screenshot(self, path: Path, whole: bool = True) -> None:
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        path.write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        width, height = self.run("[innerWidth, document.documentElement.scrollHeight]")
        return {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}

    def pdf(self) -> bytes:
        return base64.b64decode(self.command("Page.printToPDF", preferCSSPageSize=True)["data"])


class Browser:
    """One process, and as many pages as are opened."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read, self._write = read, write
        self._last = 0
        self._pages: dict[str, Page] = {}

    def open(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light", scale: float = 1) -> Page:
        target = self.command("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.command("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.command(f"{domain}.enable")
        page.resize(width, height, scale)
        page.prefer(scheme)
        page.command("Page.navigate", url=path.resolve().as_uri())
        page.run("new Promise(done => document.readyState === 'complete' ? done(1) : addEventListener('load', () => done(1)))")
        page.settle()
        return page

    def command(self, method: str, parameters: dict[str, Any], session: str | None = None) -> Any:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = json.loads(self._receive())
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer and answer.get("sessionId") in self._pages:
                self._pages[answer["sessionId"]].on_event(answer["method"], answer["params"])

    def _receive(self) -> bytes:
        parts = bytearray()
        while not parts.endswith(b"\0"):
            byte = self._read.read(1)
            if not byte:
                raise RuntimeError("the browser ended")
            parts += byte
        return bytes(parts[:-1])


@contextmanager
def started(executable: str) -> Iterator[Browser]:
    """Start a browser with an empty profile; it ends with the block."""
    commands, answers = os.pipe(), os.pipe()

    def hand_over() -> None:
        # The protocol has the child read commands from descriptor 3 and write answers to 4.
        read, write = os.dup(commands[0]), os.dup(answers[1])
        os.dup2(read, 3)
        os.dup2(write, 4)

    environment = dict(os.environ)
    home = Path(executable).resolve().parent
    if (home / "fonts.conf").exists() and (home / "lib").is_dir():  # the one from the registry
        environment |= {"LD_LIBRARY_PATH": str(home / "lib"), "FONTCONFIG_FILE": str(home / "fonts.conf")}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [executable, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=hand_over,
        )
        os.close(commands[0])
        os.close(answers[1])
        with open(answers[0], "rb") as read, open(commands[1], "wb") as write:
            driver = Browser(read, write)
            try:
                yield driver
                driver.command("Browser.close", {})
                process.wait(10)
            finally:
                process.kill()
                process.wait()


if __name__ == "__main__":
    print(install())
