"""What visitors of a deployed bundle get, by browser and by what theirs lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import urljoin

from httpx2 import HTTPError
from websockets.exceptions import WebSocketException

from nnjit_studio.doctor.deployment.drivers import open_page
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.errors import NnjitError
from nnjit_studio.support.tables import text_table

LACKS = {
    "": "as it is",
    "webgpu": "no WebGPU",
    "threads": "no threads",
    "simd": "no SIMD",
    "private": "private window",
}
"""What a visitor's browser lacks, in words. The features are taken from the engine's probes, not
from the browser."""
BLOCK_MS = 50
"""Of the page's thread: from here on a visitor feels it."""


@dataclass(frozen=True)
class Visitor:
    """What one visitor gets; ``error`` is empty where the model answers."""

    browser: str
    lacks: str
    backend: str = ""
    tier: str = ""
    threads: int = 0
    first_answer_s: float = 0.0
    """From the engine's first file to the first answer, with nothing cached."""
    blocks: int = 0
    """How often the page's thread was blocked for more than :data:`BLOCK_MS`."""
    longest_block_ms: float = 0.0
    note: str = ""
    """Why a better back end was not taken."""
    error: str = ""


def visitors(
    manifest_url: str,
    page_url: str,
    browsers: Sequence[Browser],
    lacks: Sequence[str] = tuple(LACKS),
    on_visitor: Callable[[Visitor], None] = lambda _: None,
) -> list[Visitor]:
    """Open the page as each visitor, and let the model answer once on its samples or zeros.

    The page itself is asked for its headers and policies; ``#check`` keeps a bundle's own page
    from running the model on top.
    """
    made = []
    for browser in browsers:
        for lack in lacks:
            made.append(_visit(manifest_url, page_url, browser, lack))
            on_visitor(made[-1])
    return made


def table(found: Sequence[Visitor]) -> str:
    """One line for each visitor, in columns."""
    rows = []
    for v in found:
        blocks = f"{v.blocks}, longest {v.longest_block_ms:.0f} ms" if v.blocks else "none"
        ran = not v.error
        rows.append(
            (
                v.browser,
                LACKS[v.lacks],
                f"{v.backend} {v.tier}" if ran else "-",
                str(v.threads) if ran else "-",
                f"{v.first_answer_s:.2f} s" if ran else "-",
                blocks if ran else "-",
                v.error or v.note,
            )
        )
    columns = ("browser", "visitor", "runs on", "threads", "first answer", "blocks", "error")
    return text_table(columns, rows, left=range(len(columns)))


def _visit(manifest_url: str, page_url: str, browser: Browser, lack: str) -> Visitor:
    script = (files("nnjit_studio.resources") / "check" / "visitor.js").read_text("utf-8")
    given = {
        "engine": urljoin(manifest_url, "nnjit.js"),
        "manifest": manifest_url,
        "lacks": lack,
        "block_ms": BLOCK_MS,
    }
    call = f"({script.strip().rstrip(';')})({json.dumps(given)})"
    try:
        with open_page(browser, f"{page_url}#check", lack == "private") as evaluate:
            answer = evaluate(call)
    except (NnjitError, OSError, ValueError, WebSocketException, HTTPError) as e:
        return Visitor(browser.name, lack, error=str(e))
    return Visitor(browser.name, lack, **answer)
