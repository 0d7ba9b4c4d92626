"""Running a script in a page of an installed browser: Chromium, Firefox and WebKitGTK.

Each starts with a new profile, reaches the page's host and no other, and is gone afterwards.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from websockets.sync.client import connect

from nnjit_studio.doctor.deployment.visit import is_loopback
from nnjit_studio.engine.browsers import webkit
from nnjit_studio.engine.browsers.browsers import find_all, is_root, launch
from nnjit_studio.engine.browsers.flags import Browser, Extras
from nnjit_studio.engine.devtools.connection import SWITCHES, devtools
from nnjit_studio.errors import PageError

SCRIPT_S = webkit.COMMAND_S
"""The longest that a script may take."""
_START_S = 30.0
_BIDI_FILE = "WebDriverBiDiServer.json"

Evaluate = Callable[[str], Any]
"""Gets an expression whose value is a promise of a string of JSON; gives what it says."""


def installed() -> tuple[Browser, ...]:
    """One browser of each kind that is found; WebKit is that of ``WebKitWebDriver``."""
    by_kind = {browser.kind: browser for browser in reversed(find_all())}
    if found := webkit.look_for():
        by_kind[webkit.KIND] = found
    return tuple(by_kind[kind] for kind in sorted(by_kind))


@contextmanager
def open_page(browser: Browser, url: str, private: bool = False) -> Iterator[Evaluate]:
    """A page in a headless browser, loaded.

    Raises
    ------
    TargetError, PageError
        When the browser does not start, or the page does not load.
    """
    ways = {"chromium": _chromium, "firefox": _firefox, "webkit": _webkit}
    with ways[browser.kind](browser, url, private) as evaluate:
        yield evaluate


@contextmanager
def _chromium(browser: Browser, url: str, private: bool) -> Iterator[Evaluate]:
    host = urlsplit(url).hostname or ""
    switches = (*SWITCHES, *([] if is_loopback(url) else [f"--proxy-bypass-list={host}"]))
    extras = Extras(switches=(*switches, *(["--incognito"] if private else [])))
    with (
        launch(browser, "about:blank", is_root(), extras=extras) as running,
        devtools(running.profile, lambda *_: None) as tools,
    ):
        # A private window stands next to the page of the start: a page of our own is in neither.
        context = tools.call("Target.createBrowserContext") if private else {}
        target = tools.call("Target.createTarget", url="about:blank", **context)["targetId"]
        session = tools.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

        def ask(expression: str) -> Any:
            given = {"expression": expression, "awaitPromise": True, "returnByValue": True}
            answer = tools.call("Runtime.evaluate", session, SCRIPT_S, **given)
            if "exceptionDetails" in answer:
                raise PageError(f"The page refused the check: {_text(answer)}")
            return answer["result"].get("value")

        answer = tools.call("Page.navigate", session, url=url)
        if answer.get("errorText"):
            raise PageError(f"{url} did not load: {answer['errorText']}.")
        _until(lambda: ask("document.readyState") == "complete", url)
        yield lambda expression: json.loads(ask(expression))


@contextmanager
def _firefox(browser: Browser, url: str, private: bool) -> Iterator[Evaluate]:
    preferences: dict[str, bool | int | str] = {"browser.privatebrowsing.autostart": private}
    if not is_loopback(url):
        host = urlsplit(url).hostname or ""
        preferences["network.proxy.no_proxies_on"] = f"127.0.0.1, {host}"
        preferences["network.dns.disabled"] = False
    extras = Extras(preferences=preferences, firefox_switches=SWITCHES)
    with launch(browser, "about:blank", is_root(), extras=extras) as running:
        file = running.profile / _BIDI_FILE
        _until(lambda: file.exists() and file.stat().st_size > 0, "Firefox's WebDriver port")
        port = json.loads(file.read_text())["ws_port"]
        with connect(f"ws://127.0.0.1:{port}/session", max_size=None) as wire:
            numbers = itertools.count(1)

            def call(method: str, **params: Any) -> Any:
                number = next(numbers)
                wire.send(json.dumps({"id": number, "method": method, "params": params}))
                while True:
                    answer = json.loads(wire.recv(timeout=SCRIPT_S))
                    if answer.get("id") != number:
                        continue
                    if answer["type"] == "error":
                        raise PageError(f"Firefox refused {method}: {answer['message']}")
                    return answer["result"]

            call("session.new", capabilities={})
            context = call("browsingContext.getTree", maxDepth=0)["contexts"][0]["context"]
            call("browsingContext.navigate", context=context, url=url, wait="complete")

            def ask(expression: str) -> Any:
                given = {"awaitPromise": True, "target": {"context": context}}
                answer = call("script.evaluate", expression=expression, **given)
                if answer["type"] == "exception":
                    raise PageError(f"The page refused the check: {_text(answer)}")
                return json.loads(answer["result"]["value"])

            yield ask


@contextmanager
def _webkit(browser: Browser, url: str, private: bool) -> Iterator[Evaluate]:
    """WebDriver's sessions are private in WebKitGTK, whether asked for or not."""
    with webkit.session(browser) as session:
        session.call("timeouts", script=int(1000 * SCRIPT_S))
        session.call("url", url=url)

        def ask(expression: str) -> Any:
            script = (
                f"const say = arguments[arguments.length - 1]; ({expression}).then(say, (e) => "
                "say(JSON.stringify({ error: String(e) })))"
            )
            return json.loads(session.call("execute/async", script=script, args=[]))

        yield ask


def _until(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _START_S
    while not ready():
        if time.monotonic() > end:
            raise PageError(f"{what} was not ready within {_START_S:.0f} s.")
        time.sleep(0.05)


def _text(answer: dict[str, Any]) -> str:
    details = answer["exceptionDetails"]
    found = details.get("exception", {}).get("description") or details.get("text", "")
    return str(found).splitlines()[0] if found else "no reason was given"
