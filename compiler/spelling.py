"""Workloads from their one-line spelling, without a model and without TVM.

``kind:dims:dtype[+epilogue...]``, such as ``matmul:384x768x768:f32+bias+gelu``.
The kinds are those of :mod:`nnjit_studio.compiler.templates`.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.templates import TEMPLATES, prepared
from nnjit_studio.errors import UserError

SPELLINGS = {s.kind: s for template in TEMPLATES for s in template.spellings}
_COLUMN = 27  # where the table of spellings says what each is


def _row(kind: str) -> str:
    written = f"{kind}:{SPELLINGS[kind].dims}:f32"
    gap = " " * (_COLUMN - len(written)) if len(written) < _COLUMN else "\n" + " " * (_COLUMN + 2)
    return f"  {written}{gap}{SPELLINGS[kind].about}"


SPELLING = f"""\
A workload is written kind:dims:dtype, then +bias, +gelu, +relu or +residual in order:

{chr(10).join(map(_row, SPELLINGS))}

M rows, K the reduction, N columns; for conv2d N images of C channels, O output channels."""
MAX_ELEMENTS = 1 << 28
"""Of one tensor: 1 GiB of float32, a quarter of what a page's memory can hold."""

_SPEC = re.compile(r"(?P<kind>[a-z]\w*):(?P<dims>\d+(x\d+)*):(?P<dtype>\w+)(?P<tail>(\+\w+)*)")


@dataclass(frozen=True)
class WorkloadSpec:
    """A parsed spelling; ``dims`` as the kind wants them."""

    kind: str
    dims: tuple[int, ...]
    dtype: str
    epilogue: tuple[str, ...] = ()

    def __str__(self) -> str:
        dims = "x".join(map(str, self.dims))
        return "+".join((f"{self.kind}:{dims}:{self.dtype}", *self.epilogue))

    @classmethod
    def parse(cls, text: str) -> WorkloadSpec:
        """Read a spelling.

        Raises
        ------
        UserError
            When it is none, or its kind, dims, dtype or epilogue are not known.
        """
        match = _SPEC.fullmatch(text.strip())
        if match is None:
            raise UserError(f"{text!r} is not a workload.", "Write it as matmul:384x768x768:f32.")
        dims = tuple(int(d) for d in match["dims"].split("x"))
        epilogue = tuple(filter(None, match["tail"].split("+")))
        spec = cls(match["kind"], dims, match["dtype"], epilogue)
        if spec.kind not in SPELLINGS:
            raise _unknown("kind", spec.kind, text, SPELLINGS)
        if spec.dtype != "f32":
            raise _unknown("dtype", spec.dtype, text, ("f32",))
        spelling = SPELLINGS[spec.kind]
        names = spelling.dims.split("x")
        for word in spec.epilogue:
            if word not in spelling.epilogues:
                raise _unknown("epilogue", word, text, spelling.epilogues or ("none",))
        if len(dims) != len(names):
            raise UserError(
                f"{spec} has {len(dims)} dims.", f"Write it as {spec.kind}:{spelling.dims}:f32."
            )
        if any(d < 1 for d, name in zip(dims, names, strict=True) if name != "PAD"):
            raise UserError(f"{text!r} has a dimension of 0.", "Dimensions are at least 1.")
        return spec


def looks_like_spec(text: str) -> bool:
    """Whether a text is meant as a workload, not as the path of a model."""
    return _SPEC.fullmatch(text.strip()) is not None


def program_for(spec: str | WorkloadSpec) -> Program:
    """The program of a workload, in the form that the importer gives it.

    Raises
    ------
    UserError
        When the spelling cannot be read or the tensors are too large.
    """
    parsed = WorkloadSpec.parse(spec) if isinstance(spec, str) else spec
    build = SPELLINGS[parsed.kind].build
    program = prepared(build(parsed.kind, parsed.dims, parsed.epilogue))
    if any(math.prod(b.shape) > MAX_ELEMENTS for b in program.buffers):
        raise UserError(
            f"A tensor of {parsed} has more than {MAX_ELEMENTS} elements.", "Give smaller dims."
        )
    return program


def seeded_input(spec: str, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Uniform numbers in [-1, 1); equal arguments give equal numbers."""
    rng = np.random.default_rng([zlib.crc32(spec.encode()), zlib.crc32(name.encode())])
    return rng.uniform(-1, 1, shape).astype(np.float32)


def _unknown(what: str, word: str, text: str, known: Iterable[str]) -> UserError:
    return UserError(f"The {what} {word!r} of {text!r} is not known.", f"Use {', '.join(known)}.")
