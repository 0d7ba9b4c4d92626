"""Engines by name."""

from __future__ import annotations

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.foreign_wasm.inspection.cost.engines import Engine
from nnjit_studio.foreign_wasm.inspection.cost.in_browser import BrowserEngine
from nnjit_studio.foreign_wasm.inspection.cost.shells import find_shell


def find_engine(name: str, no_sandbox: bool) -> Engine:
    """The engine of that name or path.

    Raises
    ------
    TargetError
        When there is none.
    """
    return find_shell(name) or BrowserEngine(browsers.find(name), no_sandbox)
