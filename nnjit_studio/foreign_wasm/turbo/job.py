"""``nnjit turbo``: from somebody's module to a faster one with its certificate."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.apart import whole
from nnjit_studio.foreign_wasm.turbo.candidates import Candidate, Looked, look
from nnjit_studio.foreign_wasm.turbo.certificate import Evidence, File, certificate
from nnjit_studio.foreign_wasm.turbo.choose import best
from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine, engine_of
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings, confirmed, measure
from nnjit_studio.foreign_wasm.turbo.gate.pairs import Executed, executed
from nnjit_studio.foreign_wasm.turbo.kernels.gate import Judged, judge, kernels_of
from nnjit_studio.foreign_wasm.turbo.kernels.gate import best as best_donors
from nnjit_studio.foreign_wasm.turbo.licence import licence_of
from nnjit_studio.foreign_wasm.turbo.modules import Form, write_modules
from nnjit_studio.foreign_wasm.turbo.outputs import Outputs, outputs_for, write
from nnjit_studio.foreign_wasm.turbo.targets import registers_of
from nnjit_studio.support.phases import quiet
from nnjit_studio.wasm_file.parts import Limits

Note = Callable[[str], None]


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


def turbo(
    file: Path, out: Path | None, options: TurboOptions, note: Note, work: Work | None = None
) -> Turbo:
    """Write a faster module, its loader and its certificate.

    Parameters
    ----------
    work
        What :func:`worth_trying` found with these options, if it was asked before.

    Raises
    ------
    UserError
        When the file is no module, or nothing in it gains; nothing is written then.
    TargetError, PageError
    """
    outputs = outputs_for(file, out)
    with tempfile.TemporaryDirectory(prefix="nnjit-turbo-") as name:
        work = work or worth_trying(file, options, note)
        return _changed(work, Path(name), outputs, options, note)


@dataclass(frozen=True)
class Work:
    """Functions of a file that may gain, and where that is measured."""

    file: Path
    memory: Limits
    looked: Looked
    engine: Engine
    registers: int

    @property
    def candidates(self) -> Sequence[Candidate]:
        return self.looked.found.candidates


def worth_trying(file: Path, options: TurboOptions, note: Note) -> Work:
    """The functions of a file that may gain, before anything is measured.

    Raises
    ------
    UserError
        When the file is no module, or there is nothing to try.
    """
    engine = engine_of(options.target, options.no_sandbox)
    registers = options.registers or registers_of(engine.kind, platform.machine())
    looked = look(file, registers, options.fma, note)
    if looked.memory is None:
        raise UserError(f"{file.name} has no memory, so nothing in it loops over data.")
    note(f"{looked.functions} functions, {looked.found.vector_loops} loops carry vectors")
    if not looked.found.candidates:
        raise _nothing(file, looked, registers, options.fma)
    return Work(file, looked.memory, looked, engine, registers)


def _changed(
    work: Work, folder: Path, outputs: Outputs, options: TurboOptions, note: Note
) -> Turbo:
    candidates, settings, fma = work.candidates, options.settings, options.fma
    note(f"Measuring functions in {work.engine.version}: {len(candidates)}.")
    run = (work.engine, folder, settings, note)
    judged = _judged(work, folder, options, note)
    donors = best_donors(judged, False), best_donors(judged, fma)
    tried = list(measure(work.memory, candidates, *run))
    chosen = [*best(tried, False).values(), *best(tried, fma).values()]
    if not chosen and not any(donors):
        raise _no_gain(work, len(tried), settings)
    note(f"{len({(t.function, t.loop.first) for t in chosen})} loops gain; measured once more")
    again = confirmed(work.memory, candidates, chosen, *run)
    kept, fused = best(again, False), best(again, fma)
    if not any((kept, fused, *donors)):
        raise _no_gain(work, len(tried), settings)
    forms = [Form("plain.wasm", kept, donors[0], False)]
    forms += [Form("relaxed.wasm", fused, donors[1], True)] if fma else []
    written = whole(write_modules, work.file, candidates, forms, folder)
    if written.original != work.looked.sha256:
        raise UserError(f"{work.file.name} was changed while it was measured.", "Try again.")
    names = [form.file for form in forms]
    rows, valid = executed(written.pairs, work.engine, folder, settings, names)
    _check(rows, valid, work.engine)
    data = [(folder / name).read_bytes() for name in names]
    files = {
        "input": File(work.file.name, work.file.stat().st_size, written.original),
        "out": File.of(outputs.plain.name, data[0]),
        **({"out_relaxed": File.of(outputs.relaxed.name, data[1])} if fma else {}),
    }
    licence = licence_of(work.file)
    document = certificate(
        work.looked.names,
        files,
        licence,
        work.engine,
        work.registers,
        settings,
        Evidence(candidates, tried, kept, fused, rows),
    )
    if options.kernels:
        document["kernels"] = [j.to_json() for j in judged]
    write(outputs, data, document)
    return Turbo(outputs, fma, document, licence.text)


def _judged(work: Work, folder: Path, options: TurboOptions, note: Note) -> list[Judged]:
    """Donors for whole functions, where they are asked for."""
    if not options.kernels:
        return []
    kernels = whole(kernels_of, work.file, folder)
    judged = judge(kernels, work.engine, folder, options.settings, options.fma)
    for index, reason in kernels.left_alone.items():
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


def _no_gain(work: Work, tried: int, settings: Settings) -> UserError:
    """Why nothing of what was measured is kept."""
    return UserError(
        f"No change of {work.file.name} is {settings.least_gain:g} times as fast in "
        f"{work.engine.version} on this machine: "
        f"{tried} bodies of {len(work.candidates)} functions were measured.",
        "Measure on another machine or engine (--target), with --fma, or with a lower "
        "--least-gain.",
    )


def _nothing(file: Path, looked: Looked, registers: int, fma: bool) -> UserError:
    """Why there is nothing to try."""
    found = looked.found
    several = found.vector_loops > 1
    about = f"{file.name} holds {found.vector_loops} loop{'s' * several} with vectors"
    if not looked.vectors:
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
    gains = not fma and look(file, registers, True, quiet).found.candidates
    more = "Try --fma, which is not bit-identical." if gains else ""
    fits = "all fit" if several else "they fit"
    return UserError(f"{about}, and {fits} in {registers} registers: nothing to gain.", more)
