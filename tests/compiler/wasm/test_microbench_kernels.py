"""The kernels of the device experiments: right, valid, and each what its name says."""

from __future__ import annotations

import numpy as np
import pytest
import wasmtime
from kernel_harness import engine, run_kernel

from nnjit_studio.compiler.microbench import kernels
from nnjit_studio.compiler.microbench.variants import common_matmul, variants
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.device.primitives import PRIMITIVES
from nnjit_studio.records import TIERS

SIZE = 48
PAGES = 20


def run(data: bytes, image: bytes, begin: int, end: int) -> bytes:
    store = wasmtime.Store(engine())
    memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(PAGES, None)))
    memory.write(store, image, 0)
    module = wasmtime.Module(engine(), data)
    assert [(i.module, i.name) for i in module.imports] == [("env", "memory")]
    wasmtime.Instance(store, module, [memory]).exports(store)["run"](store, begin, end)
    return bytes(memory.read(store, 0, PAGES * 65536))


@pytest.fixture(scope="module")
def program():
    return common_matmul(SIZE)


@pytest.fixture(scope="module")
def made(program):
    return list(variants(program, TIERS))


def test_there_is_a_variant_for_every_setting_that_is_not_in_force(made):
    base, *others = made
    assert (base.primitive, base.tier) == ("", "relaxed-simd")
    wanted = [(p.name, s) for p in PRIMITIVES for s in p.settings[1:]]
    assert [(v.primitive, v.setting) for v in others] == wanted


def test_without_relaxed_simd_its_primitive_is_left_out(program):
    made = list(variants(program, ("simd128",)))
    assert {v.tier for v in made} == {"simd128"}
    assert "relaxed_madd" not in {v.primitive for v in made}


def test_every_variant_gives_the_matmul_within_the_bound_of_a_candidate(program, made):
    fixture = make_fixture("common", program)
    inputs = {
        buffer.name: np.frombuffer(arg.data, np.float32).reshape(buffer.shape)
        for buffer, arg in zip(program.buffers, fixture.args, strict=True)
        if arg.data is not None
    }
    for variant in made:
        artifact = variant.artifact
        results = run_kernel(
            program, artifact.data, artifact.parallel_extent, inputs, artifact.panels, parts=2
        )
        off = np.abs(results["out0"].reshape(-1) - fixture.expected[0])
        assert np.all(off <= fixture.bound[0]), (variant.primitive, variant.setting)


def test_a_variant_changes_what_its_primitive_says(made):
    by_name = {(v.primitive, v.setting): v.artifact.data for v in made}
    base = by_name["", ""]
    relaxed = bytes([0xFD, 0x85, 0x02])  # f32x4.relaxed_madd
    splat = bytes([0xFD, 0x09])  # v128.load32_splat
    assert relaxed in base and relaxed not in by_name["relaxed_madd", "0"]
    assert splat in base and splat not in by_name["combined_instruction", "0"]
    for name in ("cache_read", "cache_write", "vectorize"):
        ((_, data),) = [(k, d) for k, d in by_name.items() if k[0] == name]
        assert data != base
    assert relaxed not in by_name["vectorize", "0"]
    base_steps = next(p.settings[0] for p in PRIMITIVES if p.name == "unroll")
    scalars = by_name["vectorize", "0"].count(bytes([0x94, 0x92]))  # f32.mul, f32.add
    assert scalars == int(base_steps) * 6 * 8, "the tile, and as many steps as elsewhere"
    sizes = [len(by_name["unroll", s]) for s in ("1", "2", "8")]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("accumulators", [4, 13, 40])
def test_a_spill_kernel_multiplies_rows_by_two_vectors(accumulators, tier):
    data, flops = kernels.spill_kernel(accumulators, tier)
    floats = np.zeros(PAGES * 16384, np.float32)
    rng = np.random.default_rng(accumulators)
    floats[256:] = rng.uniform(0.5, 1, floats.size - 256)
    got = np.frombuffer(run(data, floats.tobytes(), 0, 3), np.float32)
    sums = np.zeros((accumulators, 4))
    rows = -(-accumulators // 2)
    for iteration in range(3):
        for step in range(kernels.SPILL_STEPS):
            a = floats[256 + 16 * iteration + step * rows :]
            b = floats[256 + 4096 + 16 * iteration + 8 * step :].reshape(-1)[:8].reshape(2, 4)
            for i in range(accumulators):
                sums[i] += a[i // 2] * b[i % 2].astype(np.float64)
    np.testing.assert_allclose(got[: 4 * accumulators].reshape(-1, 4), sums, rtol=1e-5)
    assert flops == 8 * accumulators * kernels.SPILL_STEPS


def test_a_chase_goes_on_where_the_last_call_ended():
    words = np.zeros(PAGES * 16384, np.int32)
    lap = [1024, 4096, 2048, 8192, 1280]
    words[0] = lap[0]
    for here, there in zip(lap, [*lap[1:], lap[0]], strict=True):
        words[here // 4] = there
    after = run(kernels.chase_kernel(), words.tobytes(), 0, 8)
    assert np.frombuffer(after, np.int32)[0] == lap[8 % 5]
    again = run(kernels.chase_kernel(), after, 0, 16)
    assert np.frombuffer(again, np.int32)[0] == lap[24 % 5]


def test_the_streaming_kernels_touch_every_byte_of_their_blocks():
    half = 8 * kernels.BLOCK_BYTES
    image = bytearray(PAGES * 65536)
    data = np.random.default_rng(1).integers(0, 256, 2 * kernels.BLOCK_BYTES, np.uint8).tobytes()
    begin = kernels.BASE + kernels.BLOCK_BYTES
    image[begin : begin + len(data)] = data
    after = run(kernels.copy_kernel(half), bytes(image), 1, 3)
    assert after[begin + half : begin + half + len(data)] == data
    image[begin + half : begin + half + len(data)] = data
    assert after == bytes(image), "nothing else was written"
    # Read: the or of every vector at its place in a row of eight.
    got = run(kernels.read_kernel(), bytes(image), 1, 3)[:128]
    rows = np.frombuffer(data, np.uint8).reshape(-1, 128)
    assert got == np.bitwise_or.reduce(rows, axis=0).tobytes()
