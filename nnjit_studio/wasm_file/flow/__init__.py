"""Control flow of function bodies: nests, basic blocks, live locals, vectors."""

from nnjit_studio.wasm_file.flow.graph import BasicBlock, basic_blocks
from nnjit_studio.wasm_file.flow.liveness import Liveness, live_at, live_locals
from nnjit_studio.wasm_file.flow.nest import Block, Loop, loops, nest
from nnjit_studio.wasm_file.flow.vectors import V8_VECTORS, VectorPeaks, vector_peaks

__all__ = [
    "V8_VECTORS",
    "BasicBlock",
    "Block",
    "Liveness",
    "Loop",
    "VectorPeaks",
    "basic_blocks",
    "live_at",
    "live_locals",
    "loops",
    "nest",
    "vector_peaks",
]
