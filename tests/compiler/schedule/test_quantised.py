"""Matmuls of quantised weights: exact integers, and ONNX Runtime's results from end to end."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import onnx
import pytest
import wasmtime
from byte_products import byte_product
from exact_native import exact_session
from kernel_harness import engine, run_kernel
from onnx import TensorProto, helper, numpy_helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.ir.in_place import in_place
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.quantised import Quantised, in_words
from nnjit_studio.compiler.schedule.default import schedule_default
from nnjit_studio.compiler.templates import match, subject_of
from nnjit_studio.compiler.wasm import encode
from nnjit_studio.compiler.wasm.ir import Node, Op, i32
from nnjit_studio.errors import CompileError, UnsupportedOpError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space.lite_space import build_lite_space

DOT = "i32x4.relaxed_dot_i8x16_i7x16_add_s"
DEVICE = DeviceProfile("test", "test")


def _save(path: Path, nodes, inputs, outputs, weights, domains=()) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    ports = [[helper.make_tensor_value_info(*p) for p in ps] for ps in (inputs, outputs)]
    graph = helper.make_graph(nodes, "quantised", *ports, tensors)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    onnx.save(model, path)
    return model


def _integer_model(path: Path, a: np.ndarray, b: np.ndarray, zero_a=None, zero_b=None) -> None:
    """y = MatMulInteger(a, b, zero_a, zero_b), the weight b constant."""
    weights, names = {"b": b}, ["a", "b", "", ""]
    for i, (name, zero) in enumerate((("za", zero_a), ("zb", zero_b)), 2):
        if zero is not None:
            weights[name], names[i] = zero, name
    while not names[-1]:
        names.pop()
    nodes = [helper.make_node("MatMulInteger", names, ["y"])]
    out = ("y", TensorProto.INT32, [*a.shape[:-1], b.shape[1]])
    kind = helper.np_dtype_to_tensor_dtype(a.dtype)
    _save(path, nodes, [("a", kind, a.shape)], [out], weights)


def _bytes(rng: np.random.Generator, kind, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max + 1, shape).astype(kind)


def _matmul(built: BuiltModel) -> Program:
    found = [p for p in built.programs.values() if isinstance(subject_of(p), Quantised)]
    assert len(found) == 1
    return found[0]


def _run(program: Program, inputs, candidate: Candidate | None, tier: str):
    """By the schedule of any program where there is no candidate."""
    scheduled = None if candidate else schedule_default(program)
    made = compile_program(program, candidate, tier, scheduled=scheduled)
    parts = min(3, made.parallel_extent)
    return run_kernel(program, made.data, made.parallel_extent, inputs, made.panels, parts)["out0"]


def _weights(built: BuiltModel, file: Path) -> list[np.ndarray]:
    """The inputs of the one step, as bytes of the weights file."""
    blob = np.fromfile(file, np.uint8)
    (step,) = built.plan.steps[:-1]
    buffers = [built.plan.buffers[i] for i in step.args]
    return [blob[b.offset : b.offset + b.nbytes] for b in buffers if b.region == "weight"]


def _exact(m: int, k: int, n: int, kind, candidate, tier: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = _bytes(rng, kind, m, k), _bytes(rng, np.int8, k, n)
    program = byte_product(m, k, n, "u8" if kind is np.uint8 else "i8")
    made = compile_program(program, candidate, tier)
    parts = min(3, made.parallel_extent)
    inputs = {"a": a, "b": in_words(b)}
    expected = a.astype(np.int32) @ b.astype(np.int32)
    for by_bytes in (False, True):
        call = (program, made.data, made.parallel_extent, inputs, made.panels, parts)
        got = run_kernel(*call, deterministic=by_bytes)["y"]
        told = (m, k, n, kind, candidate, by_bytes)
        assert np.array_equal(got, expected), told


@pytest.mark.parametrize(
    ("m", "k", "n", "kind"),
    [
        (5, 24, 16, np.uint8),
        (7, 36, 19, np.int8),
        (1, 64, 48, np.uint8),
        (13, 4, 5, np.uint8),
        (9, 132, 7, np.int8),
    ],
)
@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_int8_is_exact(m: int, k: int, n: int, kind, tier: str) -> None:
    settings = [(4, 1, 1, "nm"), (8, 3, 2, "mn"), (16, 2, 4, "nm"), (4, 5, 8, "mn")]
    for x0, y0, r0, order in settings:
        candidate = Candidate(x0, y0, r0, x0, y0, k, order, True)
        _exact(m, k, n, kind, candidate, tier, 0)
    _exact(m, k, n, kind, None, tier, 1)


def test_random_products_of_bytes_are_exact() -> None:
    rng = np.random.default_rng(11)
    for seed in range(40):
        m, n = int(rng.integers(1, 20)), int(rng.integers(2, 40))
        k = 4 * int(rng.integers(1, 30))
        x0 = int(rng.choice([w for w in (4, 8, 16) if -(-n // w) * w <= -(-n // 16) * 16]))
        y0, r0 = int(rng.integers(1, 7)), int(rng.choice([1, 2, 4]))
        order = str(rng.choice(["nm", "mn"]))
        candidate = Candidate(x0, y0, r0, x0, y0, k, order, True)
        kind = (np.uint8, np.int8)[int(rng.integers(2))]
        tier = ("simd128", "relaxed-simd")[int(rng.integers(2))]
        _exact(m, k, n, kind, candidate, tier, seed)


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize(("m", "k", "n"), [(7, 36, 19), (1, 64, 48), (13, 20, 8)])
def test_sums_lie_where_the_float_result_will(m: int, k: int, n: int, tier: str) -> None:
    program = byte_product(m, k, n, "i8", dequantised=True)
    assert in_place(program) == {"t": "y"}
    rng = np.random.default_rng(m)
    a, b = _bytes(rng, np.int8, m, k), _bytes(rng, np.int8, k, n)
    inputs = {"a": a, "b": in_words(b), "bias": rng.random(n, np.float32)}
    expected = (a.astype(np.int32) @ b).astype(np.float32) * np.float32(0.5) + inputs["bias"]
    tile = Candidate(8, 4, 2, 8, 4, k, "nm", True)
    for scheduled, candidate in ((schedule_default(program), None), (None, None), (None, tile)):
        made = compile_program(program, candidate, tier, scheduled=scheduled)
        extent, panels, shared = made.parallel_extent, made.panels, in_place(program)
        for parts in (1, min(3, extent)):
            got = run_kernel(program, made.data, extent, inputs, panels, parts, shared)
            np.testing.assert_allclose(got["y"], expected, rtol=1e-6)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x64 alone saturates")
def test_the_two_engines_here_take_either_way() -> None:
    """Bytes with the highest bit are signed in one; the other adds in 16 bits, which saturate."""
    operands = (f"(v128.const i8x16{f' {b}' * 16})" for b in (-128, -128, 0))
    dot = f"(i32x4.relaxed_dot_i8x16_i7x16_add_s {' '.join(operands)})"
    text = f'(module (func (export "f") (result i32) (i32x4.extract_lane 0 {dot})))'
    told = []
    for by_bytes in (False, True):
        store = wasmtime.Store(engine(by_bytes))
        module = wasmtime.Module(engine(by_bytes), wasmtime.wat2wasm(text))
        told.append(wasmtime.Instance(store, module, []).exports(store)["f"](store))
    assert told[0] != 4 * 128 * 128 == told[1]


@pytest.fixture
def unsigned_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels spell the dot product of bytes out as V8 has it on x64 with VNNI."""
    emit = encode._emit

    def spelled(node: Node, out: bytearray) -> None:
        if not (isinstance(node, Op) and node.name == DOT):
            return emit(node, out)
        signed, unsigned, total = node.args
        for shift in (24, 16, 8, 0):
            a, b = (Op("i32x4.shl", (arg, i32(shift))) for arg in (signed, unsigned))
            parts = Op("i32x4.shr_s", (a, i32(24))), Op("i32x4.shr_u", (b, i32(24)))
            total = Op("i32x4.add", (total, Op("i32x4.mul", parts)))
        return emit(total, out)

    monkeypatch.setattr(encode, "_emit", spelled)


@pytest.mark.usefixtures("unsigned_dots")
@pytest.mark.parametrize(("m", "k", "n"), [(7, 36, 19), (1, 64, 48), (9, 132, 7), (12, 96, 32)])
def test_sums_are_exact_where_bytes_are_unsigned(m: int, k: int, n: int) -> None:
    for x0, y0, r0 in ((4, 1, 1), (8, 6, 2), (16, 2, 4)):
        _exact(m, k, n, np.int8, Candidate(x0, y0, r0, x0, y0, k, "nm", True), "relaxed-simd", 3)
    _largest("i8", -128, -128)
    _largest("i8", -128, 127)


def test_products_of_bytes_are_used_where_they_are_exact() -> None:
    candidate = Candidate(4, 2, 1, 4, 2, 32, "nm", True)

    def found(dtype: str, tier: str) -> bool:
        program = byte_product(4, 32, 8, dtype)
        text = compile_program(program, candidate, tier, dump_after="encode").dump
        return "fd 93 02" in text  # i32x4.relaxed_dot_i8x16_i7x16_add_s

    assert found("i8", "relaxed-simd")
    for other in (("u8", "relaxed-simd"), ("i8", "simd128")):
        assert not found(*other)


def test_largest_sums_wrap() -> None:
    for dtype, a, b in (("u8", 255, -128), ("i8", -128, -128), ("i8", -128, 127)):
        _largest(dtype, a, b)


def _largest(dtype: str, a: int, b: int) -> None:
    m, k, n = 2, 256, 8
    program = byte_product(m, k, n, dtype)
    inputs = {"a": np.full((m, k), a), "b": in_words(np.full((k, n), b, np.int8))}
    for tier in ("simd128", "relaxed-simd"):
        made = compile_program(program, Candidate(8, 2, 4, 8, 2, k), tier)
        call = (program, made.data, made.parallel_extent, inputs, made.panels)
        for by_bytes in (False, True):
            assert (run_kernel(*call, deterministic=by_bytes)["y"] == a * b * k).all()


_PAIRS = [(a, b) for a in (np.uint8, np.int8) for b in (np.uint8, np.int8)]


_ZEROS = ["none", "tensors", "columns", "rows and columns", "of a alone"]
_FOLDED = [
    # every zero point with every pair of types; each of them, and each pair, with every tail of k
    (zeros, *pair, (20, 22, 3)[(i + j) % 3])
    for i, zeros in enumerate(_ZEROS)
    for j, pair in enumerate(_PAIRS)
]


@pytest.mark.parametrize(("zeros", "kind_a", "kind_b", "k"), _FOLDED)
def test_zero_points_are_folded(tmp_path: Path, zeros: str, kind_a, kind_b, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = _bytes(rng, kind_a, 3, k), _bytes(rng, kind_b, k, 8)
    b[:2, 0] = np.iinfo(kind_b).min, np.iinfo(kind_b).max  # one column of the whole range
    zero_a = _bytes(rng, kind_a, 3)[: 3 if "rows" in zeros else 1]
    zero_b = _bytes(rng, kind_b, 8 if "columns" in zeros else 1)
    given_a = None if zeros in ("none",) else zero_a if "rows" in zeros else zero_a[0]
    given_b = None if zeros in ("none", "of a alone") else zero_b if zero_b.size > 1 else zero_b[0]
    path = tmp_path / "m.onnx"
    _integer_model(path, a, b, given_a, given_b)
    built = import_model(path, tmp_path / "w.bin")
    assert [w.kind for w in built.workloads if w.tunable] == ["matmul_int8"]
    left = a.astype(np.int32) - (0 if given_a is None else zero_a.astype(np.int32)[:, None])
    right = b.astype(np.int32) - (0 if given_b is None else zero_b.astype(np.int32))
    for tier in ("simd128", "relaxed-simd"):
        result = run_by_kernels(built, tmp_path / "w.bin", {"a": a}, tier)["y"]
        assert np.array_equal(result, left @ right)


def _dynamic_model(
    path: Path, m: int, k: int, n: int, scales_first: bool = False
) -> tuple[onnx.ModelProto, dict]:
    """What dynamic quantisation writes for a linear layer with ReLU.

    ONNX Runtime's tool multiplies the scales in front of the sum or behind it, as it finds them.
    """
    rng = np.random.default_rng(3)
    weights = {
        "W": rng.integers(-128, 128, (k, n)).astype(np.int8),
        "zero": np.array(0, np.int8),
        "scale": np.array(0.01, np.float32),
        "bias": rng.standard_normal(n).astype(np.float32),
    }
    make = helper.make_node
    nodes = [
        make("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        make("MatMulInteger", ["q", "W", "z", "zero"], ["i"]),
        make("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        make("Mul", ["s", "scale"], ["t"]),
        make("Mul", ["f", "t"], ["g"]),
        make("Add", ["g", "bias"], ["h"]),
        make("Relu", ["h"], ["y"]),
    ]
    if scales_first:
        nodes.insert(1, nodes.pop(3))
    ports = [("x", TensorProto.FLOAT, [m, k])], [("y", TensorProto.FLOAT, [m, n])]
    model = _save(path, nodes, *ports, weights)
    return model, {"x": rng.standard_normal((m, k)).astype(np.float32)}


@pytest.mark.parametrize(
    ("m", "n", "scales_first"), [(6, 24, False), (1, 10, False), (9, 33, False), (6, 24, True)]
)
def test_dynamic_quantisation(tmp_path: Path, m: int, n: int, scales_first: bool) -> None:
    path, weights = tmp_path / "m.onnx", tmp_path / "w.bin"
    model, feeds = _dynamic_model(path, m, 64, n, scales_first)
    built = import_model(path, weights)
    (workload,) = [w for w in built.workloads if w.tunable]
    assert workload.kind == "matmul_int8" and workload.epilogue[-1] == "relu"
    expected = exact_session(model).run(None, feeds)[0]
    result = run_by_kernels(built, weights, feeds, "simd128")["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_every_candidate_of_the_space_agrees_with_the_default_schedule(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    _dynamic_model(path, 10, 64, 22)
    built = import_model(path, tmp_path / "w.bin")
    program = _matmul(built)
    (workload,) = [w for w in built.workloads if w.tunable]
    rng = np.random.default_rng(0)
    inputs = {
        b.name: rng.integers(1, 9, b.shape) if b.dtype != "f32" else rng.random(b.shape)
        for b in program.buffers
        if b.role == "input"
    }
    expected = _run(program, inputs, None, "simd128")
    space = build_lite_space(workload, DEVICE, True)
    assert len(space.entries) >= 6
    for entry in space.entries[::3]:
        result = _run(program, inputs, entry.candidate, "simd128")
        np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(("bits", "m"), [(8, 5), (8, 1), (4, 7), (4, 1)])
def test_untuned_kernels_come_from_the_template(tmp_path: Path, bits: int, m: int) -> None:
    path = tmp_path / "m.onnx"
    if bits == 4:
        block_model(path, [m, 64], 21, 32, True)
    else:
        _dynamic_model(path, m, 64, 21)
    program = _matmul(import_model(path, tmp_path / "w.bin"))
    found = match(program)
    assert found is not None and found.template.wasm is not None
    guess = found.template.wasm.guess(found.subject)
    for tier in ("simd128", "relaxed-simd"):
        made = compile_program(program, None, tier)
        assert made.data == compile_program(program, guess, tier).data


def test_candidates_that_do_not_fit_are_refused() -> None:
    program = byte_product(4, 32, 16, "u8")
    good = Candidate(8, 2, 2, 8, 2, 32)
    for changed in ({"x0": 32}, {"pack": False}, {"r1": 16}, {"y0": 16, "r0": 8}):
        with pytest.raises(CompileError):
            compile_program(program, Candidate(**{**good.__dict__, **changed}), "simd128")


def test_int8_has_a_limit_of_its_own() -> None:
    device = DeviceProfile("test", "test", peak_gflops={"simd128": 10.0}, threads=2)
    assert device.peak("simd128") == device.peak("simd128", "matmul") == 20.0
    assert device.peak("simd128", "matmul_int8") == 80.0


def block_model(path: Path, shape, n: int, block: int, zeros: bool, bits: int = 4):
    """y = MatMulNBits(x, W) + bias; also the weights as float64."""
    rng = np.random.default_rng(block)
    k = shape[-1]
    blocks, values_in_byte = k // block, 8 // bits
    values = rng.integers(0, 1 << bits, (n, k)).astype(np.uint8)
    zero = rng.integers(0, 1 << bits, (n, blocks + blocks % 2)).astype(np.uint8)
    zero = zero if bits == 4 else zero[:, :blocks]

    def packed(given):
        return given if bits == 8 else given[:, ::2] | given[:, 1::2] << 4

    weights = {
        "W": packed(values).reshape(n, blocks, block // values_in_byte),
        "scale": (rng.uniform(0.16, 1.6, n * blocks) / (1 << bits)).astype(np.float32),
        "bias": rng.standard_normal(n).astype(np.float32),
    }
    names = ["x", "W", "scale"]
    if zeros:
        weights["zero"] = packed(zero).reshape(-1)
        names.append("zero")
    make = helper.make_node
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block, "domain": "com.microsoft"}
    nodes = [make("MatMulNBits", names, ["h"], **attributes), make("Add", ["h", "bias"], ["y"])]
    ports = [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, [*shape[:-1], n])]
    model = _save(path, nodes, *ports, weights, ["com.microsoft"])
    lowest = zero[:, :blocks] if zeros else np.full((n, blocks), 1 << (bits - 1))
    scale = weights["scale"].reshape(n, blocks, 1).astype(np.float64)
    exact = (values.reshape(n, blocks, block) - lowest[..., None].astype(np.float64)) * scale
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    return model, feeds, feeds["x"].astype(np.float64) @ exact.reshape(n, k).T + weights["bias"]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("shape", "n", "block"),
    [((1, 64), 24, 32), ((2, 3, 48), 10, 16), ((7, 128), 21, 64), ((3, 256), 5, 128)],
)
def test_weights_in_blocks(
    tmp_path: Path, shape, n: int, block: int, zeros: bool, bits: int
) -> None:
    path, file = tmp_path / "m.onnx", tmp_path / "w.bin"
    model, feeds, exact = block_model(path, list(shape), n, block, zeros, bits)
    built = import_model(path, file)
    (workload,) = built.workloads
    assert workload.kind == f"matmul_{bits}bit" and workload.epilogue == ("bias",)
    assert workload.dims == (int(np.prod(shape[:-1])), shape[-1], n)
    expected = exact_session(model).run(None, feeds)[0]
    np.testing.assert_allclose(expected, exact, atol=1e-3)  # the model says what the test means
    by_default = run_by_kernels(built, file, feeds, "simd128")["y"]
    np.testing.assert_allclose(by_default, exact, atol=1e-4)

    program = _matmul(built)
    stored = iter(_weights(built, file))
    inputs = {}
    for buffer in program.buffers:
        if buffer.constant:
            kind = {"i32": np.int32, "f32": np.float32, "u8": np.uint8}[buffer.dtype]
            size = int(np.prod(buffer.shape))
            inputs[buffer.name] = next(stored).view(kind)[:size].reshape(buffer.shape)
    inputs["in0"] = feeds["x"]
    for x0, y0, r0, order in [(4, 1, 1, "nm"), (8, 3, 2, "mn"), (16, 2, 1, "nm"), (4, 6, 1, "mn")]:
        candidate = Candidate(x0, y0, r0, x0, y0, shape[-1], order, True)
        for tier in ("simd128", "relaxed-simd"):
            result = _run(program, inputs, candidate, tier)
            np.testing.assert_allclose(result, exact, atol=1e-4, err_msg=str(candidate))


@pytest.mark.parametrize("bits", [4, 8])
def test_space_of_blocks(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "m.onnx"
    block_model(path, [6, 64], 22, 16, True, bits)
    built = import_model(path, tmp_path / "w.bin")
    program = _matmul(built)
    rng = np.random.default_rng(0)
    inputs = {b.name: rng.integers(1, 9, b.shape) for b in program.buffers if b.role == "input"}
    expected = _run(program, inputs, None, "simd128")
    space = build_lite_space(built.workloads[0], DEVICE, True)
    assert len(space.entries) >= 6
    for entry in space.entries:
        result = _run(program, inputs, entry.candidate, "simd128")
        np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize(("x0", "r0"), [(6, 1), (8, 3)])
def test_a_four_bit_tile_that_does_not_fit_is_refused(tmp_path: Path, x0: int, r0: int) -> None:
    """Columns that are no whole vectors, and words that are no part of a block."""
    path = tmp_path / "m.onnx"
    block_model(path, [6, 64], 22, 16, True)
    program = _matmul(import_model(path, tmp_path / "w.bin"))
    with pytest.raises(CompileError):
        compile_program(program, Candidate(x0, 2, r0, x0, 2, 64, "nm", True), "simd128")


def test_other_widths_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model, _, _ = block_model(path, [2, 64], 8, 32, False)
    bits = next(a for a in model.graph.node[0].attribute if a.name == "bits")
    for width, said in ((2, "4 or 8 bits"), (8, "rows of K bytes")):
        bits.i = width
        onnx.save(model, path)
        with pytest.raises(UnsupportedOpError, match=said):
            import_model(path, tmp_path / "w.bin")
