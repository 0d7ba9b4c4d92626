"""Browsers as engines: a page whose worker compiles, started with flags or preferences."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import Browser, Extras
from nnjit_studio.engine.pages.opening import open_page
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.foreign_wasm.inspection.cost.engines import Engine, Job, Row
from nnjit_studio.foreign_wasm.inspection.cost.memory import watched
from nnjit_studio.foreign_wasm.inspection.cost.shells import find_shell
from nnjit_studio.foreign_wasm.inspection.cost.v8_lines import TIERS as V8_TIERS

TIMEOUT_S = 1800.0
"""Of one round: the slowest known function takes SpiderMonkey of 2022 seven minutes."""

_PREFERENCES = {
    "baseline": "javascript.options.wasm_optimizingjit",
    "ion": "javascript.options.wasm_baselinejit",
}
"""The preference that is switched off, which leaves the tier alone."""


@dataclass(frozen=True)
class BrowserEngine:
    """A browser of this machine."""

    browser: Browser
    no_sandbox: bool = False

    @property
    def name(self) -> str:
        return self.browser.name

    @property
    def kind(self) -> str:
        return "spidermonkey" if self.browser.kind == "firefox" else "v8"

    def version(self) -> str:
        return browsers.version(self.browser)

    def compile(self, job: Job) -> Generator[Row, None, int | None]:
        """See :class:`~nnjit_studio.foreign_wasm.inspection.cost.engines.Engine`.

        Raises
        ------
        TargetError, PageError
            When the browser does not start, or the page fails.
        """
        folder = Path(job.files[0]).parent
        (folder / "job.json").write_text(job.to_json())
        with (
            PageServer({"files": folder}) as server,
            open_page(
                server, self.browser, "compile.html", self.no_sandbox, extras=self._extras(job)
            ) as running,
            watched(running.pid) as peak,
        ):
            for row in server.rows(TIMEOUT_S):
                yield row["ms"]
            return peak.look()

    def _extras(self, job: Job) -> Extras:
        if self.kind == "spidermonkey":
            return Extras(preferences={_PREFERENCES[job.tier]: False})
        flags = " ".join((*V8_TIERS[job.tier], *job.flags))
        return Extras((f"--js-flags={flags}",), on_output=job.on_line)


def find_engine(name: str, no_sandbox: bool) -> Engine:
    """The engine of that name or path: a shell, or else a browser.

    Raises
    ------
    TargetError
        When there is none.
    """
    return find_shell(name) or BrowserEngine(browsers.find(name), no_sandbox)
