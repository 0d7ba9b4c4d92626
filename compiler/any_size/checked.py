"""The ranges in which a compiled model's numbers are right: tiles may want a few rows."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.compiler.any_size.numbers import check_numbers
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.errors import ModelError
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.size import LARGEST, Dim
from nnjit_studio.records import TIERS, Kernel

_FURTHER = (1, 2, 3, 4, 5, 6, 7)
"""Steps above the sizes at hand: eight in a row leave each remainder of two vectors."""
_MOST_STEPS, _MOST_BEYOND = 64, 12
_UPPER = 4
"""Times the sizes at hand, up to which the end of a range is looked at."""
_RAISED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Smallest sizes that are tried, in steps of the dimension above the model's own."""


@dataclass(frozen=True)
class Compiled:
    """A model for any size and what it is checked with; the fixed sizes are no part of the plan."""

    plan: OpenPlan
    kernels: tuple[Kernel, ...]
    weights: Path
    trial: Trial
    fixed: Sizes
    half_weights: bool
    on_phase: Callable[[str], None]

    def check(self, at: Sequence[Sizes], tiers: Sequence[str] = TIERS) -> None:
        """Compare shapes and numbers with native ONNX Runtime's."""
        for sizes in at:
            shapes = self.trial.run({**self.fixed, **sizes})
            for port in self.plan.at(sizes).outputs:
                if not port.gives(shapes[port.spec.name]):
                    text = ", ".join(f"{name}={n}" for name, n in sizes.items())
                    raise refused(f"no formula holds at {text}")
        whole = [{**self.fixed, **sizes} for sizes in at]
        check_numbers(
            self.plan,
            self.kernels,
            self.weights,
            self.trial,
            whole,
            self.half_weights,
            self.on_phase,
            tiers,
        )


def checked(model: Compiled, also: Sequence[Sizes] = ()) -> tuple[OpenPlan, tuple[str, ...]]:
    """The plan in ranges whose ends were checked, and notes on those that became narrower.

    Parameters
    ----------
    also
        Sizes that are looked at besides, where they are in range.

    Raises
    ------
    ModelError
        When the numbers are wrong at the sizes at hand, further on, or at all small ones.
    """
    plan = model.plan
    further = [_further(plan, steps) for steps in _FURTHER]
    model.check([plan.example, *further, *_upper(plan), *(s for s in also if _takes(plan, s))])
    if beyond := _beyond(plan):
        model.check(beyond, TIERS[:1])  # both tiers have one tile, and so the same numbers
    try:
        model.check([{d.name: d.low for d in plan.dims}])
        model.check([at for d in plan.dims if (at := _with(plan, d, d.low)) != plan.example])
    except ModelError as error:
        plan = replace(plan, dims=tuple(_raised(model, dim, error) for dim in plan.dims))
        least = {d.name: d.low for d in plan.dims}
        above = ({d.name: least[d.name] + n * d.step for d in plan.dims} for n in _FURTHER)
        model.check([least, *(s for s in above if _takes(plan, s))])
    turns = _turns(plan)
    if turns:
        model.check(turns, TIERS[:1])
    pairs = zip(model.plan.dims, plan.dims, strict=True)
    changed = [(was, now) for was, now in pairs if was != now]
    return plan, tuple(
        f"{now} is {now.low} or more in the bundle: its kernels cut larger tiles than {was.low}."
        for was, now in changed
    )


def _takes(plan: OpenPlan, sizes: Sizes) -> bool:
    return all(dim.takes(sizes.get(dim.name, 0)) for dim in plan.dims)


def _with(plan: OpenPlan, dim: Dim, n: int) -> Sizes:
    """The sizes at hand with another one of a dimension."""
    return {**plan.example, dim.name: n}


def _further(plan: OpenPlan, steps: int) -> Sizes:
    return {
        d.name: min(d.high // d.step * d.step, plan.example[d.name] + steps * d.step)
        for d in plan.dims
    }


def _beyond(plan: OpenPlan) -> list[Sizes]:
    """Sizes beyond these of what windows slide along, as far as their strides leave other
    remainders."""
    given = {pair for buffer in plan.buffers for pair in buffer.nbytes.divided()}
    period = math.lcm(*(n // math.gcd(n, dim.step) for dim, n in given))
    first, last = _FURTHER[-1] + 1, min(period, _MOST_STEPS)
    slid = {dim.name for dim, _ in given}
    return [
        {name: n if name in slid else plan.example[name] for name, n in _further(plan, s).items()}
        for s in range(first, last, -(-(last - first) // _MOST_BEYOND) or 1)
    ]


def _turns(plan: OpenPlan) -> list[Sizes]:
    """The smallest sizes of a dimension at which kernels have their code for whole tiles, which is
    made at larger ones."""
    chosen = (value for kernel in plan.kernels.values() for value, _ in kernel.selectors)
    found = []
    for value, dim in itertools.product(dict.fromkeys(chosen), plan.dims):
        if dim.name not in {d.name for d in value.dims} or value.bounds()[1] > 1:
            continue  # a remainder, of which eight sizes in a row leave each
        sizes = [
            _with(plan, dim, n * dim.step)
            for n in range(-(-dim.low // dim.step), plan.example[dim.name] // dim.step + 1)
        ]
        place = bisect_left(sizes, 1, key=value.at)
        if 0 < place < len(sizes) and sizes[place] not in found:
            found.append(sizes[place])
    return found


def _upper(plan: OpenPlan) -> list[Sizes]:
    """Towards the ends of ranges that end, where maps have columns that they lack below."""
    ends = {
        d.name: min(d.high, _UPPER * plan.example[d.name]) // d.step * d.step
        for d in plan.dims
        if d.high < LARGEST
    }
    return [{**plan.example, **ends}] if ends else []


def _raised(model: Compiled, dim: Dim, error: ModelError) -> Dim:
    """A dimension from the smallest size on at which the numbers are right, others at hand."""
    example = model.plan.example[dim.name]
    for steps in (0, *_RAISED):
        low = dim.low + steps * dim.step
        if low > example:
            break
        try:
            model.check([_with(model.plan, dim, low)])
        except ModelError:
            continue
        return replace(dim, low=low)
    raise error
