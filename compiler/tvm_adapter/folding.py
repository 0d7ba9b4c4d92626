"""TVM folds constants by code that it makes for this machine: each function's once in a process.

A model repeats the sizes of its layers, and TVM would make their code anew each time: for small
models that is most of what an import takes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tvm import tirx
from tvm_ffi import StructuralKey

REMEMBERED = 64
"""Functions whose code is kept, the last ones used: 1.3 MB each."""


@lru_cache(maxsize=REMEMBERED)
def _built(key: StructuralKey) -> Any:
    function, target = key.key
    return tirx.build(function, target)


def build(function: Any, target: Any) -> Any:
    """The module of a function, in place of ``tvm.tirx.build``.

    Parameters
    ----------
    function
        ``tirx.PrimFunc``; functions that are equal but for the names of variables share a module.
    target
        ``tvm.target.Target``: this machine.
    """
    return _built(StructuralKey([function, target]))  # type: ignore[call-arg]  # its own __init__
