"""Chromium through its DevTools protocol: what a person does with a page, and waiting for what it then shows."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from websockets.sync.client import ClientConnection, connect

T = TypeVar("T")
PATIENCE = 60.0
# Everything a test asks for is asked inside the innermost frame: the page, wherever Airflow puts it.
_INNER = "let w = window; for (const f of frames) { w = [...w.document.querySelectorAll(f)].at(-1).contentWindow; }"
# The middle of the first visible element of this selector that says this, in the window; null where another covers it.
_MIDDLE = """(() => {
  const e = [...d.querySelectorAll(selector)].find(
    (e) => e.textContent.includes(text) && !e.disabled && e.getClientRects().length);
  if (!e) return null;
  e.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  const r = e.getBoundingClientRect();
  let [x, y] = [r.x + r.width / 2, r.y + r.height / 2];
  const top = d.elementFromPoint(x, y);
  if (!top || !(e.contains(top) || top.contains(e))) return null;
  for (let f = w.frameElement; f; f = f.ownerDocument.defaultView.frameElement) {
    const at = f.getBoundingClientRect();
    [x, y] = [x + at.x, y + at.y];
  }
  return [x, y];
})()"""
_FOCUSED = """(() => {
  const e = [...d.querySelectorAll(selector)].find((e) => !e.disabled && e.getClientRects().length);
  e?.focus(); e?.select?.();
  return Boolean(e) && d.activeElement === e;
})()"""


class NotShown(AssertionError):
    """The page did not show in time what was waited for."""


def wait_until(look: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """What ``look`` returns as soon as it is true; an exception of the browser's counts as not yet.

    Raises:
        NotShown: it did not become true in time.
    """
    deadline, last = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except ScriptFailed as error:
            last = f" ({error})"
        time.sleep(0.1)
    raise NotShown(f"{what} within {seconds:.0f} s{last}")


class ScriptFailed(Exception):
    """A script raised in the page; often because what it looks for is not there yet."""


class Page:
    """One tab. ``frames`` are the selectors of nested frames that the later calls are about."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.frames: tuple[str, ...] = ()
        self.errors: list[str] = []
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol, and its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE))
            self._note(answer)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise ScriptFailed(answer["error"]["message"])
                return answer["result"]

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what scripts raised and what the browser refused them."""
        if event.get("method") == "Runtime.exceptionThrown":
            details = event["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            entry = event["params"]["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def run(self, script: str, **values: Any) -> Any:
        """The value of an expression over ``w`` (the window), ``d`` (its document) and the given values."""
        named = "".join(f"const {name} = {json.dumps(value)}; " for name, value in values.items())
        start = f"const frames = {json.dumps(self.frames)}; {_INNER} const d = w.document; {named}"
        # An element would come back as an empty object: it is there, so it is true.
        text = (
            f"(async () => {{ {start} const result = await ({script}); return result instanceof w.Node || result; }})()"
        )
        found = self.send("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise ScriptFailed(found["exceptionDetails"]["exception"].get("description", "")[:300])
        return found["result"].get("value")

    def go(self, address: str) -> None:
        """Open an address; ``wait`` for what it shows."""
        self.frames = ()
        self.send("Page.navigate", url=address)

    def rest(self) -> None:
        """Leave the page: one that follows a run draws all the time, and the run needs the processor."""
        self.go("about:blank")

    def wait(self, script: str, what: str, seconds: float = PATIENCE, **values: Any) -> Any:
        """The expression's value once it is true."""
        return wait_until(lambda: self.run(script, **values), f"{what} should be shown", seconds)

    def text(self) -> str:
        """What the document says."""
        return str(self.run("d.body.innerText"))

    def wait_for_text(self, text: str, seconds: float = PATIENCE) -> None:
        """Return once the document says so."""
        self.wait("d.body.innerText.includes(text)", repr(text), seconds, text=text)

    def click(self, selector: str, text: str = "") -> None:
        """Click the first enabled element of this selector that says this, once it is there."""
        script = (
            "(() => { const all = [...d.querySelectorAll(selector)];"
            " const e = all.find((e) => e.textContent.includes(text) && !e.disabled);"
            " e?.scrollIntoView({block: 'center'}); e?.click(); return Boolean(e); })()"
        )
        self.wait(script, f"{selector} {text!r}", selector=selector, text=text)

    def press(self, selector: str, text: str = "") -> None:
        """Press the mouse on the middle of the first visible element like this, once it rests and nothing covers it."""
        what = f"{selector} {text!r} should be there to be pressed"
        x, y = wait_until(lambda: self._resting(selector, text), what)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _resting(self, selector: str, text: str) -> list[float]:
        """Where to press; nothing while the element moves, is covered or is not there."""
        before = self.run(_MIDDLE, selector=selector, text=text) or []
        time.sleep(0.1)
        return before if before == self.run(_MIDDLE, selector=selector, text=text) else []

    def key(self, name: str, code: int) -> None:
        """Press a key, told by its name and its virtual key code."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def type(self, selector: str, text: str) -> None:
        """Write into the first visible field like this, as a person would, so that frameworks notice."""
        self.wait(_FOCUSED, selector, selector=selector)
        self.send("Input.insertText", text=text)

    def theme(self, name: str) -> None:
        """Let Airflow be ``dark`` or ``light``, as its own switch does."""
        self.run("(localStorage.setItem('theme', name), true)", name=name)
        self.run("w.dispatchEvent(new StorageEvent('storage', {key: 'theme', newValue: name}))", name=name)
        self.wait("d.documentElement.classList.contains(name)", f"the theme {name}", name=name)

    def size(self, width: int, height: int) -> None:
        """How large the window is."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def shot(self, path: Path) -> None:
        """A picture of the window, once nothing in it fades or slides any more."""
        passing = "a.playState === 'running' && a.effect?.getTiming().iterations !== Infinity"
        self.run(f"Promise.allSettled(d.getAnimations().filter((a) => {passing}).map((a) => a.finished)).then(() => 1)")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


def chromium_program() -> str | None:
    """Where Chromium is on this machine."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def chromium() -> Iterator[Page]:
    """A headless Chromium with a profile of its own; ended by its pid."""
    program = chromium_program()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="offset-ledger-", ignore_cleanup_errors=True) as profile:
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
        command = [program, *options, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            told = Path(profile) / "DevToolsActivePort"
            port = wait_until(
                lambda: told.exists() and told.read_text().split("\n")[0], "Chromium's port should be told"
            )
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                address = next(each["webSocketDebuggerUrl"] for each in json.load(answer) if each["type"] == "page")
            with connect(address, max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(30)
