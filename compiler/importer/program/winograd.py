"""Choice of the 3x3 convolutions that run by Winograd's algorithm, within a memory budget.

A convolution becomes three steps (:mod:`nnjit_studio.compiler.recognize.winograd`): tiles of its
input transformed, a product for each point of a tile, which is tuned as any batched product is,
and the results transformed back with the epilogue. Transformed weights take 16/9 (tiles of 2x2)
or 4 times (4x4) the memory; what that may cost a model is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.convolution import CHANNEL, Conv2d
from nnjit_studio.compiler.recognize.winograd import (
    Winograd,
    input_program,
    output_program,
    product_program,
    read_behind,
    winograd_of,
)
from nnjit_studio.compiler.recognize.winograd_lines import TILES, transformed_weights
from nnjit_studio.compiler.schedule.epilogue import plan_epilogue
from nnjit_studio.compiler.schedule.winograd import BLOCK
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Origin, ProgramCall, Value
from nnjit_studio.errors import UserError
from nnjit_studio.model import DTYPE_BYTES
from nnjit_studio.model.plan_choice import NO_WAYS, PlanChoice

EXTRA_WEIGHTS = 0.3
"""Extra bytes for transformed weights, as a share of all weights. With it ResNet-18 stays below
half of ONNX Runtime Web's memory; its last layers transformed too would take two thirds."""

ROOM_BYTES = 16 << 20
"""Of transformed tiles and their products, if no step of the model has more tensors anyway: for
large images they are several times what the convolution itself reads and writes."""

TRANSFORM = 12
"""Multiply-adds that one point of a tile costs on its way in, or out: measured on ResNet-18's
layers, 7 to 14 where there are many tiles (docs/measuring.md)."""

LEAST_GAIN = 1.25
"""Least ratio of the operations before to those after; smaller gains would not show."""


DIRECT, MIXED = "direct", "mixed"
"""Ways of a convolution beyond its tiles; mixed where the rule's memory ended among equals."""
REASON = "3x3 convolutions of this shape run in tiles of so many outputs, or directly"


@dataclass(frozen=True)
class _Option:
    position: int
    conv: Conv2d
    sizes: Winograd

    @property
    def cost(self) -> int:
        """Multiply-adds, transforms counted as such."""
        w = self.sizes
        both = w.channels + w.out_channels
        return w.points * w.tiles * (w.channels * w.out_channels + TRANSFORM * both)

    @property
    def room_bytes(self) -> int:
        """Of what the product reads and writes, weights apart."""
        w = self.sizes
        return 4 * w.points * w.tiles * (w.channels + w.out_channels)

    @property
    def extra_bytes(self) -> int:
        """Of weights, beyond those of the convolution."""
        return 4 * (self.sizes.points - 9) * self.conv.channels * self.conv.out_channels


def use_winograd(
    calls: ImportedCalls,
    ways: Mapping[str, str] = NO_WAYS,
    choices: list[PlanChoice] | None = None,
) -> ImportedCalls:
    """The same model, convolutions in three steps where that pays.

    Parameters
    ----------
    ways
        What to take for all convolutions of one shape, otherwise than by the rule.
    choices
        Gets the choice of each shape.

    Raises
    ------
    UserError
        When the ways need more memory for weights than the rule may add.
    """
    chosen = {option.position: option for option in choose(calls.calls)}
    for name, group in _groups(calls.calls).items():
        rule = _taken(group, chosen)
        value = ways.get(name, rule)
        if value != rule:
            chosen = {p: o for p, o in chosen.items() if p not in group}
            chosen |= {p: options[value] for p, options in group.items() if value in options}
        if choices is not None:
            known = dict.fromkeys((DIRECT, *next(iter(group.values())), rule))
            others = tuple(v for v in known if v != value)
            choices.append(PlanChoice(name, value, rule, others, REASON))
    if ways:
        _check_weights(calls.calls, chosen.values())
    result: list[ProgramCall] = []
    for position, call in enumerate(calls.calls):
        option = chosen.get(position)
        result += _three_steps(call, option) if option else (call,)
    return replace(calls, calls=tuple(result))


def _groups(calls: Sequence[ProgramCall]) -> dict[str, dict[int, dict[str, _Option]]]:
    """Convolutions that may run in tiles, by shape, then by position: an option for each tile."""
    groups: dict[str, dict[int, dict[str, _Option]]] = {}
    room = _room(calls)
    for position, call in enumerate(calls):
        options = [o for o in _options(call, position, 1.0) if o.room_bytes <= room]
        if options:
            conv = options[0].conv
            size = f"{conv.channels}x{conv.height}x{conv.width}x{conv.out_channels}"
            named = {f"{o.sizes.m}x{o.sizes.m}": o for o in options}
            groups.setdefault(f"winograd:{size}", {})[position] = named
    return groups


def _taken(group: Mapping[int, object], chosen: Mapping[int, _Option]) -> str:
    tiles = {f"{chosen[p].sizes.m}x{chosen[p].sizes.m}" if p in chosen else DIRECT for p in group}
    return tiles.pop() if len(tiles) == 1 else MIXED


def _check_weights(calls: Sequence[ProgramCall], chosen: Iterable[_Option]) -> None:
    extra, most = sum(o.extra_bytes for o in chosen), EXTRA_WEIGHTS * _weight_bytes(calls)
    if extra > most:
        raise UserError(
            f"Its transformed weights take {extra / 2**20:.1f} MiB more, and the model may grow by "
            f"{most / 2**20:.1f} MiB."
        )


def _weight_bytes(calls: Sequence[ProgramCall]) -> int:
    constants = {v.name: v.constant for call in calls for v in call.inputs}
    return sum(data.nbytes for data in constants.values() if data is not None)


def _room(calls: Sequence[ProgramCall]) -> int:
    return max(ROOM_BYTES, *(_step_bytes(call.program) for call in calls)) if calls else 0


def choose(calls: Sequence[ProgramCall]) -> list[_Option]:
    """What saves most for each byte of weights, as long as the bytes last."""
    left, room = EXTRA_WEIGHTS * _weight_bytes(calls), _room(calls)
    options = [o for i, c in enumerate(calls) for o in _options(c, i) if o.room_bytes <= room]
    chosen: dict[int, _Option] = {}

    def gain(option: _Option) -> tuple[float, int]:
        """Multiply-adds saved, and bytes, against what is chosen so far."""
        before = chosen.get(option.position)
        cost = before.cost if before else option.conv.flops // 2
        return cost - option.cost, option.extra_bytes - (before.extra_bytes if before else 0)

    while True:
        gains = ((*gain(option), option) for option in options)
        fitting = [g for g in gains if g[0] > 0 and 0 < g[1] <= left]
        if not fitting:
            return list(chosen.values())
        _, extra, best = max(fitting, key=lambda g: g[0] / g[1])
        left -= extra
        chosen[best.position] = best


def _step_bytes(program: Program) -> int:
    buffers = (b for b in program.buffers if not b.constant)
    return sum(math.prod(b.shape) * DTYPE_BYTES[b.dtype] for b in buffers)


def _options(call: ProgramCall, position: int, least_gain: float = LEAST_GAIN) -> Iterator[_Option]:
    conv = _suitable(call)
    for m in TILES if conv else ():
        assert conv is not None
        option = _Option(position, conv, winograd_of(conv, m))
        large = min(option.sizes.grid) >= LANES
        if large and option.cost * least_gain <= conv.flops // 2:
            yield option


def _suitable(call: ProgramCall) -> Conv2d | None:
    conv = subject_of(call.program)
    if not isinstance(conv, Conv2d) or len(call.outputs) != 1 or len(conv.stores) != 1:
        return None
    shape = conv.kernel, conv.stride, conv.dilation, conv.groups, conv.batch
    if shape != ((3, 3), (1, 1), (1, 1), 1, 1) or conv.out_channels % BLOCK:
        return None
    weights = _given(call, conv.weights)
    if weights.constant is None or weights.dtype != "f32":
        return None
    epilogue = plan_epilogue(call.program, conv.contraction(CHANNEL))
    return conv if epilogue.raw is not None and epilogue.lanes and epilogue.step == 1 else None


def _given(call: ProgramCall, buffer: str) -> Value:
    pairs = zip(call.program.buffers, call.inputs, strict=False)
    return next(value for b, value in pairs if b.name == buffer)


def _three_steps(call: ProgramCall, option: _Option) -> Iterator[ProgramCall]:
    conv, w = option.conv, option.sizes
    data, weights, (result,) = _given(call, conv.data), _given(call, conv.weights), call.outputs
    assert weights.constant is not None
    programs = input_program(w), product_program(w)
    output = output_program(w, call.program, conv.stores)
    tiles = Value(f"{result.name}//tiles", _output_shape(programs[0]), "f32")
    points = Value(f"{result.name}//points", _output_shape(programs[1]), "f32")
    there = transformed_weights(weights.constant.astype(np.float32, copy=False), w.m)
    weight = Value(f"{weights.name}//{w.m}x{w.m}", there.shape, "f32", there)
    # The node of the convolution itself comes first.
    origin = Origin(call.origin.nodes[:1])
    yield ProgramCall(programs[0], (data,), (tiles,), origin)
    yield ProgramCall(programs[1], (tiles, weight), (points,), origin)
    others = [_given(call, b.name) for b in read_behind(call.program, conv.stores)]
    yield ProgramCall(output, (points, *others), call.outputs, call.origin)


def _output_shape(program: Program) -> tuple[int, ...]:
    return next(b.shape for b in program.buffers if b.role == "output")
