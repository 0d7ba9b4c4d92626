"""Long jobs of the dock: compiling a file in an engine, and writing its faster form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.foreign_wasm.inspection.cost.find import find_engine
from nnjit_studio.foreign_wasm.inspection.cost.measure import isolated, traced
from nnjit_studio.foreign_wasm.inspection.cost.records import CompileCost
from nnjit_studio.foreign_wasm.inspection.cost.shells import find_shell
from nnjit_studio.foreign_wasm.turbo.job import Turbo, TurboOptions, turbo
from nnjit_studio.wasm_file.module import read

Note = Callable[[str], None]
HEAVIEST = 8
"""Functions that are compiled alone in an engine that does not tell its own figures."""


def engine_names() -> list[str]:
    """Engines of this machine, Node last."""
    found = [browser.name for browser in browsers.find_all()]
    return found + (["node"] if find_shell("node") else [])


def compile_times(path: Path, name: str, no_sandbox: bool, note: Note) -> CompileCost:
    """Compile a file in both tiers of an engine: all functions in V8, the heaviest elsewhere.

    Raises
    ------
    UserError
        When the file cannot be read, or the engine refuses it or does not start.
    """
    module, engine = read(path.read_bytes()), find_engine(name, no_sandbox)
    if engine.kind == "v8":
        return traced(engine, module, note)
    sizes = {index: len(module.body(index)) for index in module.defined}
    heaviest = sorted(sizes, key=lambda index: -sizes[index])[:HEAVIEST]
    return isolated(engine, module, heaviest, note, rounds=1)


def faster(path: Path, out: Path, name: str, no_sandbox: bool, fused: bool, note: Note) -> Turbo:
    """Write the faster form of a file, measured in an engine.

    Raises
    ------
    UserError
        When nothing in it gains, or it cannot be measured there.
    """
    return turbo(path, out, TurboOptions(fma=fused, target=name, no_sandbox=no_sandbox), note)
