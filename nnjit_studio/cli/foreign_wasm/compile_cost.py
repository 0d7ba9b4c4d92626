"""``nnjit inspect FILE --compile``: what engines need to compile a file's functions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.cli.common import note
from nnjit_studio.cli.verbs import COUNT, option
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.inspection.cost.in_browser import find_engine
from nnjit_studio.foreign_wasm.inspection.cost.measure import isolated, traced
from nnjit_studio.foreign_wasm.inspection.cost.records import CompileCost
from nnjit_studio.foreign_wasm.inspection.cost.trace import trace_events
from nnjit_studio.foreign_wasm.inspection.survey import Survey
from nnjit_studio.support.files import write_json

ISOLATED = 10
"""Functions measured by isolation where none are named: the largest."""


@dataclass(frozen=True)
class CompileOptions:
    """Who compiles, what, and how often."""

    compile: bool = option(
        False, "Compile it with each tier of an engine: time, memory and code of every function."
    )
    engine: str = option(
        "chromium", "Of --compile and --page: chromium, chrome, edge, firefox, node, or a path."
    )
    isolate: bool = option(
        False,
        "Compile functions alone, less a stub in their place; always so with Firefox and "
        "SpiderMonkey's shell, which tell nothing themselves.",
    )
    function: tuple[int, ...] = option(
        (), "Isolate this function; may be given several times.", type=int, multiple=True
    )
    whole: bool = option(
        True, "With isolation, also compile the whole file.", flag="--whole/--no-whole"
    )
    rounds: int | None = option(
        None, "How often each is compiled; by default once, isolated functions 5 times.", type=COUNT
    )
    top: int = option(20, "Functions shown.", type=COUNT)
    trace: Path | None = option(None, "Write Chrome trace events of --compile, for Perfetto.")

    @property
    def isolates(self) -> bool:
        return self.isolate or bool(self.function)


def compile_cost(survey: Survey, options: CompileOptions, no_sandbox: bool) -> CompileCost:
    """Measure, and write the files that the options ask for.

    Raises
    ------
    UserError
        When the file has no such function.
    TargetError, PageError, WasmError
        When the engine does not start, is lost, or refuses the file.
    """
    if options.trace is not None:
        options.trace.parent.mkdir(parents=True, exist_ok=True)  # refused before the work
    engine = find_engine(options.engine, no_sandbox)
    defined = range(survey.imported, survey.imported + len(survey.functions))
    if unknown := [i for i in options.function if i not in defined]:
        raise UserError(
            f"The file defines no function {unknown[0]}.",
            f"Its own are {defined.start} to {defined.stop - 1}.",
        )
    if engine.kind == "v8" and not options.isolates:
        cost = traced(engine, survey, note, options.rounds or 1)
    else:
        largest = sorted(survey.functions, key=lambda f: -f.bytes)[:ISOLATED]
        functions = options.function or tuple(f.index for f in largest)
        cost = isolated(engine, survey, functions, note, options.rounds or 5, options.whole)
    if options.trace is not None:
        write_json(options.trace, trace_events(cost, survey.name))
        note(f"Wrote {options.trace}.")
    return cost
