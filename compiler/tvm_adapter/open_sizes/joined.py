"""Tensors that are joined by a kernel of its own.

Where what is joined was flattened, as a detector's maps are, TVM writes the place in a part by the
place in the whole: how much of it is left to divide hangs on the sizes of the parts before.
"""

from __future__ import annotations

from typing import Any

from tvm import topi

_OPAQUE = 8
"""TVM's kind of operator that is fused with none."""


def concat(bb: Any, call: Any) -> Any:
    """How a concatenation becomes loops, for :class:`relax.transform.LegalizeOps`."""
    parts, axis = call.args[0], call.attrs.axis
    return bb.call_te(
        topi.concatenate,
        list(parts.fields) if hasattr(parts, "fields") else parts,
        0 if axis is None else int(axis),
        primfunc_name_hint="concatenate",
        primfunc_attrs={"op_pattern": _OPAQUE},
    )
