"""``nnjit turbo``: from somebody's module to a faster one with its certificate."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnjit_studio.errors import UserError, WasmError
from nnjit_studio.foreign_wasm.turbo.candidates import Found, find, has_vectors
from nnjit_studio.foreign_wasm.turbo.certificate import Evidence, certificate
from nnjit_studio.foreign_wasm.turbo.choose import best, bodies
from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine, engine_of
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings, confirmed, measure
from nnjit_studio.foreign_wasm.turbo.gate.pairs import Executed, executed
from nnjit_studio.foreign_wasm.turbo.kernels.gate import Judged, judge, with_donors
from nnjit_studio.foreign_wasm.turbo.kernels.gate import best as best_donors
from nnjit_studio.foreign_wasm.turbo.licence import licence_of
from nnjit_studio.foreign_wasm.turbo.outputs import Outputs, outputs_for, write
from nnjit_studio.foreign_wasm.turbo.targets import registers_of
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.module import Module, read

Note = Callable[[str], None]
MOST_BYTES = 512 * 2**20


@dataclass(frozen=True)
class TurboOptions:
    """What to do.

    Attributes
    ----------
    fma
        Also write a module in which multiply-adds are fused.
    kernels
        Also replace functions that do what a known kernel does.
    target
        Where functions are measured: ``node``, or a browser by name or path.
    registers
        Vector registers to plan for; by default those of the target on this machine.
    """

    fma: bool = False
    kernels: bool = False
    target: str = "chromium"
    registers: int | None = None
    no_sandbox: bool = False
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Turbo:
    """The result: where the files are, and the certificate."""

    outputs: Outputs
    relaxed: bool
    certificate: dict[str, Any]
    licence: str

    @property
    def modules(self) -> dict[str, Path]:
        """The modules that were written: ``plain``, and with ``--fma`` ``relaxed``."""
        more = {"relaxed": self.outputs.relaxed} if self.relaxed else {}
        return {"plain": self.outputs.plain, **more}


def turbo(file: Path, out: Path | None, options: TurboOptions, note: Note) -> Turbo:
    """Write a faster module, its loader and its certificate.

    Raises
    ------
    UserError
        When the file is no module, or nothing in it gains; nothing is written then.
    TargetError, PageError
    """
    outputs = outputs_for(file, out)
    with tempfile.TemporaryDirectory(prefix="nnjit-turbo-") as name:
        return _changed(_look(file, options, note, Path(name)), outputs, options, note)


def worth_trying(file: Path, options: TurboOptions, note: Note) -> int:
    """How many functions of a file may gain, before anything is measured.

    Raises
    ------
    UserError
        When the file is no module, or there is nothing to try.
    """
    return len(_look(file, options, note, Path()).found.candidates)


@dataclass(frozen=True)
class _Work:
    file: Path
    module: Module
    found: Found
    engine: Engine
    registers: int
    folder: Path


def _look(file: Path, options: TurboOptions, note: Note, folder: Path) -> _Work:
    module = _read(file)
    engine = engine_of(options.target, options.no_sandbox)
    registers = options.registers or registers_of(engine.kind, platform.machine())
    found = find(module, registers, options.fma)
    note(f"{len(module.bodies)} functions, {found.vector_loops} loops carry vectors")
    if not found.candidates:
        raise _nothing(file, module, found, registers, options.fma)
    return _Work(file, module, found, engine, registers, folder)


def _changed(work: _Work, outputs: Outputs, options: TurboOptions, note: Note) -> Turbo:
    module, candidates, settings = work.module, work.found.candidates, options.settings
    run = (work.engine, work.folder, settings, note)
    judged = _judged(work, options, note)
    donors = best_donors(judged, False), best_donors(judged, options.fma)
    tried = list(measure(module, candidates, *run))
    chosen = [*best(tried, False).values(), *best(tried, options.fma).values()]
    if not chosen and not any(donors):
        raise _no_gain(work, len(tried), settings)
    note(f"{len({(t.function, t.loop.first) for t in chosen})} loops gain; measured once more")
    again = confirmed(module, candidates, chosen, *run)
    kept, fused = best(again, False), best(again, options.fma)
    if not any((kept, fused, *donors)):
        raise _no_gain(work, len(tried), settings)
    plain, relaxed = bodies(candidates, kept, False), bodies(candidates, fused, True)
    rescheduled = edit.replace(module, plain), edit.replace(module, relaxed)
    written = [with_donors(*one) for one in zip(rescheduled, donors, strict=True)]
    rows, valid = executed(module, plain, work.engine, work.folder, settings, written)
    _check(rows, valid, work.engine)
    files = {
        "input": (work.file.name, module.data),
        "out": (outputs.plain.name, written[0]),
        **({"out_relaxed": (outputs.relaxed.name, written[1])} if options.fma else {}),
    }
    evidence = Evidence(candidates, tried, kept, fused, rows)
    licence = licence_of(work.file)
    document = certificate(
        module,
        files,
        licence,
        work.engine,
        work.registers,
        settings,
        evidence,
    )
    if options.kernels:
        document["kernels"] = [j.to_json() for j in judged]
    write(outputs, written[0], written[1] if options.fma else None, document)
    return Turbo(outputs, options.fma, document, licence.text)


def _judged(work: _Work, options: TurboOptions, note: Note) -> list[Judged]:
    """Donors for whole functions, where they are asked for."""
    if not options.kernels:
        return []
    judged, left_alone = judge(work.module, work.engine, work.folder, options.settings, options.fma)
    for index, reason in left_alone.items():
        note(f"function {index} is left alone: {reason}")
    for index in {j.index for j in judged}:
        fastest = max(j.gain.median for j in judged if j.index == index)
        note(f"function {index}: best donor {fastest:.2f}x")
    return judged


def _check(rows: list[Executed], valid: list[bool], engine: Engine) -> None:
    for row in rows:
        if not row.right:
            raise UserError(
                f"Function {row.index} gave another result in {row.cases - row.equal} of "
                f"{row.cases} runs on random memory, although its proof holds.",
                "Nothing was written; please report this with the module.",
            )
    if not all(valid):
        raise UserError(
            f"{engine.version} does not take the new module.",
            "It may lack relaxed SIMD: leave --fma out, or use another --target.",
        )


def _read(file: Path) -> Module:
    if file.stat().st_size > MOST_BYTES:
        raise WasmError(f"{file.name} has more than {MOST_BYTES >> 20} MiB.")
    try:
        module = read(file.read_bytes())
    except WasmError as error:
        raise WasmError(f"{file.name}: {error.error}", error.hint) from error
    if not module.memories:
        raise UserError(f"{file.name} has no memory, so nothing in it loops over data.")
    if module.memories[0].in_64_bits:
        raise UserError(
            f"{file.name} has a 64-bit memory, which the gate cannot run yet.",
            "Use the 32-bit build of the library.",
        )
    return module


def _no_gain(work: _Work, tried: int, settings: Settings) -> UserError:
    """Why nothing of what was measured is kept."""
    return UserError(
        f"No change of {work.file.name} is {settings.least_gain:g} times as fast in "
        f"{work.engine.version} on this machine: "
        f"{tried} bodies of {len(work.found.candidates)} functions were measured.",
        "Measure on another machine or engine (--target), with --fma, or with a lower "
        "--least-gain.",
    )


def _nothing(file: Path, module: Module, found: Found, registers: int, fma: bool) -> UserError:
    """Why there is nothing to try."""
    several = found.vector_loops > 1
    about = f"{file.name} holds {found.vector_loops} loop{'s' * several} with vectors"
    if not has_vectors(module):
        return UserError(
            f"{file.name} has no vector instruction, so there is nothing to gain.",
            "Take the library's build with SIMD, if it has one.",
        )
    if not found.vector_loops:
        return UserError(
            f"{file.name} has vector instructions, but no loop of one block carries vectors from "
            "one iteration to the next: nothing to gain.",
            "Inspect it: the list of its functions tells which have vectors.",
        )
    if found.fused:
        return UserError(
            f"{about}, {found.fused} of them already fused (relaxed multiply-adds), and all fit "
            f"in {registers} registers: nothing to gain."
        )
    gains = not fma and find(module, registers, fma=True).candidates
    more = "Try --fma, which is not bit-identical." if gains else ""
    fits = "all fit" if several else "they fit"
    return UserError(f"{about}, and {fits} in {registers} registers: nothing to gain.", more)
