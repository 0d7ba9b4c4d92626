"""Reshapes whose axes of extent 1 are in no index.

TVM's own, inlined where such an axis stands for a row of a longer one, take a remainder that
follows from two sizes at once.
"""

from __future__ import annotations

from typing import Any

from tvm import te, topi


def reshape(bb: Any, call: Any) -> Any:
    """How a reshape becomes loops, for :class:`relax.transform.LegalizeOps`."""
    target = call.args[1]
    sizes = [int(n) for n in target]
    within = any(n == 1 for n in sizes[1:])
    if not within:
        return bb.call_te(topi.reshape, call.args[0], target, primfunc_name_hint="reshape")

    def moved(source: Any) -> Any:
        def at(*index: Any) -> Any:
            flat: Any = 0
            for n, i in zip(sizes, index, strict=True):
                flat = flat * n + i if n > 1 else flat
            places: list[Any] = []
            left = [int(n) for n in source.shape]
            while left:
                n = left.pop()
                outermost = all(m == 1 for m in left)
                places.insert(0, 0 if n == 1 else flat if outermost else te.indexmod(flat, n))
                flat = flat if n == 1 else te.indexdiv(flat, n)
            return source(*places)

        return te.compute(sizes, at, name="T_reshape")

    return bb.call_te(moved, call.args[0], primfunc_name_hint="reshape")
