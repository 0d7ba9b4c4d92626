"""Reshapes and cache appends without a kernel: their results alias their inputs."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, MutableSequence
from dataclasses import replace

from nnjit_studio.compiler.ir.tensor_ir import Load, Program
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, is_append


def take_views(
    calls: ImportedCalls,
    views: MutableMapping[str, str],
    tensors: MutableSequence[tuple[str, str]],
) -> ImportedCalls:
    """The same model without its reshapes.

    Parameters
    ----------
    views
        Gets what each view is a view of, by name.
    tensors
        Gets the ONNX names of all results, of those that are views too.
    """
    kept = []
    for call in calls.calls:
        tensors += (
            (value.name, name)
            for value, name in zip(call.outputs, call.origin.tensors, strict=False)
            if name
        )
        append = is_append(call.program)
        view = not append and is_view(call.program) and call.inputs[0].constant is None
        if append or view:
            source = call.inputs[0].name
            views[call.outputs[0].name] = views.get(source, source)
        # An append is in place: what comes out is the state itself, but it stays an instruction.
        if not view:
            kept.append(call)
    return replace(calls, calls=tuple(kept))


def is_view(program: Program) -> bool:
    """Whether the program only copies its input in place order: a reshape."""
    if len(program.stages) != 1 or program.stages[0].init:
        return False
    (stage,) = program.stages
    if len(stage.body) != 1 or len(program.buffers) != 2:
        return False
    (store,) = stage.body
    source, target = program.buffers
    return (
        isinstance(store.value, Load)
        and store.value.index == store.index
        and source.dtype == target.dtype
        and math.prod(source.shape) == math.prod(target.shape)
        and math.prod(a.extent for a in stage.axes) == math.prod(target.shape)
    )
