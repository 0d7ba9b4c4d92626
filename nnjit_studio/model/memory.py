"""Memory that a plan takes in the page, computed before anything is sent there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.errors import UserError
from nnjit_studio.model.plan import ALIGNMENT_BYTES, Plan

PAGE_BYTES = 65536
WASM_BYTES = 4 * 2**30
"""A 32-bit Wasm memory ends here."""
FIRST_BYTES = 1024
"""Never used, so that a null pointer hits nothing (docs/protocol.md)."""
CHUNK_BYTES = 8 * 2**20
"""Of the weights, in one frame on its way into the page."""
STRIP_BYTES = 16 * 2**20
"""Of a weight whose layout changes (``STRIP_WORDS`` in resources/engine/repack.js)."""


@dataclass(frozen=True)
class Forecast:
    """What a plan will take in the page, in bytes."""

    weights_bytes: int
    arena_bytes: int
    state_bytes: int
    """What outlives a run, such as a cache of keys and values."""
    wasm_bytes: int
    """The engine's whole linear memory."""
    js_bytes: int
    """Copies outside of it at their largest: a frame of weights while they load, a strip of one
    while its layout changes, or the inputs and outputs of a run."""
    peak_live_bytes: int
    """Most of the arena that tensors need at one step; the arena is larger where the memory
    plan could not close a gap."""

    @property
    def total_bytes(self) -> int:
        return self.wasm_bytes + self.js_bytes


def forecast(plan: Plan, others: Sequence[Plan] = ()) -> Forecast:
    """The forecast of a plan, and of others that use its memory in turn.

    The layout is that of docs/protocol.md, "Memory of the engine".
    """
    plans = (plan, *others)
    arena_bytes = max(p.arena_bytes for p in plans)
    packed = max((b.nbytes for p in plans for b in p.buffers if b.pack), default=0)
    end = _aligned(FIRST_BYTES + plan.weights_bytes)
    end = _aligned(end + arena_bytes)
    end = _aligned(end + plan.state_bytes)
    ports = max(sum(port.spec.nbytes for port in (*p.inputs, *p.outputs)) for p in plans)
    return Forecast(
        plan.weights_bytes,
        arena_bytes,
        plan.state_bytes,
        -(-end // PAGE_BYTES) * PAGE_BYTES,
        max(min(plan.weights_bytes, CHUNK_BYTES), min(packed, STRIP_BYTES), ports),
        max((n for p in plans for n in live_bytes(p)), default=0),
    )


def check_fits(found: Forecast) -> None:
    """Refuse what no page can hold, before anything is sent; in the page's own words.

    Raises
    ------
    UserError
        When the linear memory would be larger than 4 GiB.
    """
    if found.wasm_bytes > WASM_BYTES:
        raise UserError(
            f"The model needs {-(-found.wasm_bytes // 2**20)} MiB, "
            "but a page's memory ends at 4096 MiB.",
            "Use a smaller model.",
        )


def lifetimes(plan: Plan) -> dict[int, tuple[int, int]]:
    """The first and the last step, inclusive, at which each buffer is needed.

    A tensor lives from the step that first names its buffer to the one that last does;
    inputs from the start, since repeated runs read them again, and outputs beyond the last step.
    """
    steps = [s for s in plan.steps if s.op != "return"]
    spans: dict[int, tuple[int, int]] = {}
    for position, step in enumerate(steps):
        for buffer in step.args:
            spans[buffer] = (spans.get(buffer, (position, 0))[0], position)
    spans |= {p.buffer: (0, len(steps)) for p in plan.inputs}
    read = [buffer for port in plan.outputs for buffer in port.buffers]
    return spans | {buffer: (spans.get(buffer, (0, 0))[0], len(steps)) for buffer in read}


def live_bytes(plan: Plan) -> tuple[int, ...]:
    """For each step before ``return``, the bytes of the arena that are needed during it."""
    ranges: list[list[tuple[int, int]]] = [[] for s in plan.steps if s.op != "return"]
    for buffer, (first, last) in lifetimes(plan).items():
        place = plan.buffers[buffer]
        if place.region == "arena":
            for needed in ranges[first : last + 1]:
                needed.append((place.offset, place.offset + _aligned(place.nbytes)))
    return tuple(map(_covered, ranges))


def _covered(ranges: Sequence[tuple[int, int]]) -> int:
    """Bytes in any of the ranges: a step in place has its input and output at one."""
    total = last = 0
    for begin, end in sorted(ranges):
        total += max(0, end - max(begin, last))
        last = max(last, end)
    return total


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
