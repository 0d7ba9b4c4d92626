"""The plan of a rewritten module: what the page needs to know of each nest, as JSON."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.compiler.wgsl.templates.rounded_product import ROUNDING, rounded_product
from nnjit_studio.errors import CompileError
from nnjit_studio.foreign_wasm.offload.detect import Found, Verdict
from nnjit_studio.foreign_wasm.offload.extract import extract
from nnjit_studio.foreign_wasm.offload.formula import formulas
from nnjit_studio.foreign_wasm.offload.hooks import hooks
from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.lift.terms import Load, Reduce, walk
from nnjit_studio.foreign_wasm.offload.lower import ELEMENT, Lowered
from nnjit_studio.foreign_wasm.offload.rewrite import slots

VERSION = 3
TIER = "wgsl"


@dataclass(frozen=True)
class Planned:
    """A nest with its kernel.

    Attributes
    ----------
    rounding
        Relative error of what the kernel multiplies: 0 of float32.
    """

    verdict: Verdict
    found: Found
    kernel: bytes
    rounding: float = 0.0

    @property
    def fingerprint(self) -> str:
        return self.found.lowered.fingerprint + ("-f16" if self.rounding else "")


def in_f16(nest: Planned) -> Planned | None:
    """The nest with the lab's kernel, whose operands are rounded to f16; None where it has none."""
    program = nest.found.lowered.program
    subject = subject_of(program)
    try:
        made = rounded_product(program, subject) if isinstance(subject, Contraction) else None
    except CompileError:
        return None
    return None if made is None else replace(nest, kernel=made.to_bytes(), rounding=ROUNDING)


def kernel_of(lowered: Lowered, kernels: dict[str, bytes]) -> bytes:
    """The kernel document of a nest, from the cache by its fingerprint or compiled.

    Raises
    ------
    Refused
        When the compiler has none.
    """
    known = kernels.get(lowered.fingerprint)
    if known is None:
        try:
            known = compile_wgsl(lowered.program, None, TIER).data
        except CompileError as error:
            raise Refused("kernel") from error
        kernels[lowered.fingerprint] = known
    return known


def plan(nests: Sequence[Planned]) -> dict[str, Any]:
    """The plan of a module's nests, numbered as by :func:`rewrite`."""
    entries = [_entry(i, nest) for i, nest in enumerate(nests)]
    bytes_ = hooks([nest.found for nest in nests])
    return {"version": VERSION, "hooks": b64encode(bytes_).decode(), "nests": entries}


def _entry(number: int, nest: Planned) -> dict[str, Any]:
    verdict, found = nest.verdict, nest.found
    lowered = found.lowered
    work = [4 * math.prod(b.shape) for b in lowered.program.buffers if b.role == "workspace"]
    return {
        "function": verdict.function,
        "name": verdict.name,
        "loop": verdict.loop,
        "pattern": lowered.kind,
        "fingerprint": nest.fingerprint,
        "flops": lowered.flops,
        "slots": {"before": slots(number).before, "after": slots(number).after},
        "inputs": [w.nbytes for w in lowered.inputs],
        "scalars": len(lowered.scalars),
        "outputs": [
            {"result": target.is_result, "dims": target.dims, "formula": formula}
            for target, formula in zip(lowered.targets, formulas(found), strict=True)
        ],
        "workspaces": work,
        "apart": _apart(found),
        "terms": _longest(found),
        "rounding": nest.rounding,
        "kernel": json.loads(nest.kernel),
        "alone": _alone(found),
    }


def _alone(found: Found) -> dict[str, Any] | None:
    """The nest as a module of its own, on which its kernel is tried before it is used."""
    made = extract(found)
    if made is None:
        return None
    places = {"inputs": made.inputs, "outputs": made.outputs, "scalars": made.scalars}
    return {"wasm": b64encode(made.data).decode(), "regions": made.regions, "places": places}


def _longest(found: Found) -> int:
    """Terms of the longest sum."""
    sums = [e for o in found.nest.outputs for e in walk(o.value) if isinstance(e, Reduce)]
    return max((math.prod(n for _, n in e.loops) for e in sums), default=1)


def _apart(found: Found) -> list[dict[str, Any]]:
    """Pairs that must not overlap in memory, or may be the same place where ``same`` is set.

    Those from the same base were compared when the nest was lifted.
    """
    lowered = found.lowered
    pairs: list[dict[str, Any]] = []
    for j, target in enumerate(lowered.targets):
        if target.is_result:
            continue
        base = target.base.of_kind("entry")
        for i, window in enumerate(lowered.inputs):
            if window.base.of_kind("entry") != base:
                pairs.append({"output": j, "input": i, "same": _point_by_point(found, i, j)})
        for k, other in enumerate(lowered.targets[:j]):
            if not other.is_result and other.base.of_kind("entry") != base:
                pairs.append({"output": j, "other": k, "same": False})
    return pairs


def _point_by_point(found: Found, i: int, j: int) -> bool:
    """Whether each point reads of a window only what it overwrites itself, if both are one."""
    window, output = found.lowered.inputs[i], found.nest.outputs[j]
    moves = output.address.of_kind("iter")
    if any(c < 0 for _, c in moves.terms):
        return False
    for k, o in enumerate(found.nest.outputs):
        for e in walk(o.value):
            if not isinstance(e, Load) or e.address.of_kind("entry") != window.base.of_kind(
                "entry"
            ):
                continue
            apart = e.address.constant - window.base.constant
            if 0 <= apart <= window.nbytes - ELEMENT and (
                k != j or apart or e.address.of_kind("iter") != moves
            ):
                return False
    return True
