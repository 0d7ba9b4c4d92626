"""Kernels for intervals of sizes as one, whose selector names a variant of one of them."""

from __future__ import annotations

from nnjit_studio.compiler.any_size.kernels.compiled import Compiled
from nnjit_studio.model.open_plan import OpenKernel
from nnjit_studio.model.size import Size, least, size


def joined(above: Size, low: Compiled, high: Compiled) -> Compiled:
    """The one kernel where a size is 0, and the other where it is more.

    The engine knows no intervals: the place of the variant is one size, as those of remainders are.
    """
    first, second = _place(low.kernel), _place(high.kernel)
    whole = len(low.kernel.variants) + len(high.kernel.variants)
    place = first + least(above, 1) * (second + len(low.kernel.variants) - first)
    kernel = OpenKernel(((place, whole),), (*low.kernel.variants, *high.kernel.variants))
    code, most = (*low.code, *high.code), {**low.most, **high.most}
    return Compiled(kernel, code, low.workspace, most)


def _place(kernel: OpenKernel) -> Size:
    """Of the variant that the selectors choose."""
    place = size(0)
    for value, by in kernel.selectors:
        place = place * by + value - (value // by) * by
    return place
