"""Recorded kernels give the bytes that they gave: the list of those that do not, else.

``make replay-bless`` accepts a change of the compiler; COMPILER_VERSION tells
databases about it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from small_programs import matmul_bias, softmax

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.tvm_adapter.scans import cumsum, top_k
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.records import TIERS

RECORD = Path(__file__).parents[1] / "replay" / "kernels.json"
PROGRAMS: dict[str, Program] = {
    "softmax 12x128": softmax(12, 128),
    "softmax 3x77": softmax(3, 77),
    "matmul_bias 9x20x7": matmul_bias(9, 20, 7),
    "cumsum 5x9": cumsum((5, 9), "f32", 1, False),
    "topk 4x33": top_k((4, 33), "f32", 1, 5, True, "i64"),
}
SPECS = (
    "matmul:384x768x768:f32",
    "matmul:1x64x129:f32+bias",
    "matmul:17x33x21:f32+bias+gelu",
    "batch_matmul:3x24x40x8:f32",
)


def recorded() -> dict[str, str]:
    """Digest of every kernel, by program, candidate and tier."""
    found: dict[str, str] = {}
    candidates = {
        "": None,
        "4x8": Candidate(8, 4, 4, 32, 16, 4096, pack=False),
        "6x8": Candidate(8, 6, 4, 32, 24, 64, "mn", pack=False),
    }
    cases = [(name, program, "") for name, program in PROGRAMS.items()]
    cases += [(spec, program_for(spec), c) for spec in SPECS for c in candidates]
    for name, program, chosen in cases:
        for tier in TIERS:
            data = compile_program(program, candidates[chosen], tier).data
            key = " ".join(filter(None, (name, chosen or "default", tier)))
            found[key] = hashlib.sha256(data).hexdigest()
    return found


def test_same_bytes_as_recorded(request: pytest.FixtureRequest) -> None:
    now = recorded()
    if request.config.getoption("bless", default=False):
        RECORD.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8", newline="\n")
    before = json.loads(RECORD.read_text(encoding="utf-8"))
    differing = sorted(k for k in now.keys() | before.keys() if now.get(k) != before.get(k))
    assert not differing, "bytes changed (make replay-bless accepts): " + "; ".join(differing)
