"""Runs compiled kernels in wasmtime, between red zones, for the compiler's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import wasmtime

from nnjit_studio.compiler.ir.tensor_ir import Const, Expr, Load, Program, Var

NUMPY = {
    "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i8": np.int8, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
_RED_ZONE = 64
_RED = 0xAB


@lru_cache
def engine(deterministic: bool = False) -> wasmtime.Engine:
    """``deterministic``: relaxed instructions do what they do on any processor."""
    config = wasmtime.Config()
    config.wasm_relaxed_simd = True
    config.wasm_relaxed_simd_deterministic = deterministic
    return wasmtime.Engine(config)


@lru_cache(maxsize=64)
def loaded(data: bytes, deterministic: bool) -> wasmtime.Module:
    """A kernel that is run for many sizes or parts is made machine code once."""
    module = wasmtime.Module(engine(deterministic), data)
    assert [(i.module, i.name) for i in module.imports] == [("env", "memory")]
    assert [e.name for e in module.exports] == ["run"]
    return module


def pack_panels(b: np.ndarray, width: int) -> np.ndarray:
    """K x N row-major to panels of ``width`` columns (docs/protocol.md)."""
    k, n = b.shape
    count = -(-n // width)
    padded = np.zeros((k, count * width), b.dtype)
    padded[:, :n] = b
    return np.ascontiguousarray(padded.reshape(k, count, width).transpose(1, 0, 2))


def run_kernel(
    program: Program,
    data: bytes,
    extent: int,
    inputs: Mapping[str, np.ndarray],
    panels: Sequence[tuple[int, int]] = (),
    parts: int = 1,
    shared: Mapping[str, str] = {},
    deterministic: bool = False,
    only: tuple[int, int] | None = None,
    scalars: Sequence[int] = (),
) -> dict[str, np.ndarray]:
    """All outputs and workspaces after ``run`` over ``0..extent``, cut into ``parts`` calls.

    ``shared`` names workspaces that lie where an output lies; they are not returned. With ``only``
    that range runs, and nothing else; what nobody wrote holds bytes of 0xcd. ``scalars`` are the
    sizes that a kernel for any size takes.
    """
    widths = dict(panels)
    address, pointers, blobs = 1024, [], []
    names = [b.name for b in program.buffers]
    for position, buffer in enumerate(program.buffers):
        if buffer.name in shared:
            pointers.append(pointers[names.index(shared[buffer.name])])
            blobs.append(b"")
            continue
        dtype = NUMPY[buffer.dtype]
        if buffer.role == "input":
            array = np.ascontiguousarray(inputs[buffer.name], dtype)
            if position in widths:
                word = np.int16 if buffer.dtype == "f16" else np.int32  # all that panels know
                words = array.reshape(buffer.shape[0], -1).view(word)
                array = pack_panels(words, widths[position])
            blob = array.tobytes()
        elif buffer.role == "virtual":
            blob = b""
        else:
            blob = b"\xcd" * (int(np.prod(buffer.shape)) * np.dtype(dtype).itemsize)
        pointers.append(address)
        blobs.append(blob)
        address += -(-len(blob) // 16) * 16 + _RED_ZONE
    store = wasmtime.Store(engine(deterministic))
    pages = -(-address // 65536)
    memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(pages, None)))
    image = bytearray([_RED]) * (pages * 65536)
    for pointer, blob in zip(pointers, blobs, strict=True):
        image[pointer : pointer + len(blob)] = blob
    memory.write(store, image, 0)
    run = wasmtime.Instance(store, loaded(data, deterministic), [memory]).exports(store)["run"]
    edges = [extent * i // parts for i in range(parts + 1)] if only is None else list(only)
    for begin, end in reversed(list(pairwise(edges))):
        run(store, *pointers, *scalars, begin, end)
    after = memory.read(store, 0, pages * 65536)
    results: dict[str, np.ndarray] = {}
    for pointer, blob, buffer in zip(pointers, blobs, program.buffers, strict=True):
        if buffer.name in shared or buffer.role == "virtual":
            continue
        got = bytes(after[pointer : pointer + len(blob)])
        if buffer.role == "input":
            assert got == blob, f"{buffer.name} is an input and was written"
        else:
            results[buffer.name] = np.frombuffer(got, NUMPY[buffer.dtype]).reshape(buffer.shape)
        image[pointer : pointer + len(blob)] = got
    assert bytes(after) == bytes(image), "the kernel wrote outside its buffers"
    return results


def int32(value: int) -> Const:
    return Const(value, "i32")


def f32(value: float) -> Const:
    return Const(value, "f32")


def add(*parts: Expr | int) -> Expr:
    """Sum of index expressions."""
    exprs = [int32(p) if isinstance(p, int) else p for p in parts]
    total = exprs[0]
    for part in exprs[1:]:
        total = total + part
    return total


def times(a: Expr, b: int) -> Expr:
    return a * b


def flat(shape: Sequence[int], *indices: Expr | str) -> Expr:
    """Row-major index of a point."""
    total: Expr = int32(0)
    step = 1
    for extent, index in reversed(list(zip(shape, indices, strict=True))):
        expr = Var(index) if isinstance(index, str) else index
        total = add(times(expr, step), total) if step > 1 else add(expr, total)
        step *= extent
    return total


def at(buffer: str, shape: Sequence[int], *indices: Expr | str) -> Load:
    return Load(buffer, flat(shape, *indices))
