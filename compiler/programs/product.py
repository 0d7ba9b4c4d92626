"""The programs of products, in the form that the importer gives them."""

from __future__ import annotations

from functools import partial

from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Load, Program, Stage, Store
from nnjit_studio.compiler.programs.parts import Spelling, axes, epilogue_of, f32, row_major
from nnjit_studio.space.wasm.dot import DOT_KINDS


def product_program(
    kind: str,
    dims: tuple[int, ...],
    epilogue: tuple[str, ...],
    *,
    constant: bool = False,
    along_k: bool = False,
) -> Program:
    """``A @ B`` of ``MxKxN``, or of ``BxMxKxN`` for each batch, then the epilogue.

    Parameters
    ----------
    constant
        Whether B is a weight.
    along_k
        Whether B lies as N rows of K.
    """
    *batch, m, k, n = dims
    points = (*((f"b{i}", extent) for i, extent in enumerate(batch)), ("i", m), ("j", n))
    outer = points[:-2]
    shape = (*batch, m, n)
    of_b = (("j", n), ("r", k)) if along_k else (("r", k), ("j", n))
    buffers = [
        Buffer("in0", "f32", (*batch, m, k), "input"),
        Buffer("in1", "f32", (*batch, *(extent for _, extent in of_b)), "input", constant),
    ]
    place = row_major(points)
    target = "ws0" if epilogue else "out0"
    a = Load("in0", row_major((*outer, ("i", m), ("r", k))))
    b = Load("in1", row_major((*outer, *of_b)))
    total = Stage(
        "sum",
        (*axes(points), Axis("r", k, "reduce")),
        (Store(target, place, Load(target, place) + a * b),),
        (Store(target, place, f32(0.0)),),
    )
    result = Buffer("out0", "f32", shape, "output")
    if not epilogue:
        return Program(kind, (*buffers, result), (total,))
    value, more = epilogue_of(epilogue, Load("ws0", place), shape, ("j", (n,)), len(buffers))
    tail = Stage("tail", axes(points), (Store("out0", place, value),))
    buffers += [*more, result, Buffer("ws0", "f32", shape, "workspace")]
    return Program("_".join((kind, *epilogue)), tuple(buffers), (total, tail))


PRODUCTS = (
    Spelling(
        "matmul",
        "MxKxN",
        partial(product_program, constant=True),
        "A x B with a constant B, a weight: it may be packed",
    ),
    Spelling("matmul_var", "MxKxN", product_program, "the same with B an input like A"),
    Spelling("batch_matmul", "BxMxKxN", product_program, "B products, both operands inputs"),
)
_along_k = partial(product_program, along_k=True)
DOTS = (
    Spelling(
        DOT_KINDS["matmul"],
        "MxKxN",
        _along_k,
        "inputs, B stored as N rows of K: QK^T without a transpose,",
    ),
    Spelling(
        DOT_KINDS["batch_matmul"],
        "BxMxKxN",
        _along_k,
        "a head that reads the table of embeddings",
    ),
)
