"""The check of a kernel's interface, against modules that wasmtime wrote."""

import pytest
import wasmtime

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file.kernel import kernel_pointers
from nnjit_studio.wasm_file.module import read
from nnjit_studio.wasm_file.parts import Export

MEMORY = '(import "env" "memory" (memory 1))'
RUN = '(func (export "run") (param i32 i32 i32))'


def wat(body: str) -> bytes:
    return bytes(wasmtime.wat2wasm(f"(module {body})"))


@pytest.mark.parametrize(
    "memory", ["(memory 1)", "(memory 1 300)", "(memory 1 65536 shared)", "(memory 0)"]
)
def test_kernels_with_any_memory(memory: str) -> None:
    assert kernel_pointers(wat(f'(import "env" "memory" {memory}) {RUN}')) == 1


def test_a_helper_function_and_a_custom_section() -> None:
    data = wat(
        f"{MEMORY} (func $h (param v128) (result v128) local.get 0)"
        '(func (export "run") (param i32 i32 i32 i32)) (global i32 (i32.const 1))'
    )
    module = read(data + b"\x00\x03\x02hi")
    assert module.exports == (Export("run", "func", 1),)
    assert [module.type_of(n) for n in (0, 1)] == [(b"\x7b", b"\x7b"), (b"\x7f" * 4, b"")]
    assert module.sections[-1].name == "hi"
    assert kernel_pointers(data) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (RUN, "imports nothing"),
        (f'(import "env" "log" (func)) {MEMORY} {RUN}', r"env.log \(func\), env.memory"),
        (f'(import "wasi" "memory" (memory 1)) {RUN}', "wasi.memory"),
        (f'{MEMORY} (import "env" "g" (global i32)) {RUN}', r"env.g \(global\)"),
        (f'{MEMORY} (import "env" "t" (table 1 funcref)) {RUN}', r"env.t \(table\)"),
        (f"{MEMORY} {RUN} (func $s) (start $s)", "start function"),
        (f'{MEMORY} (func (export "go") (param i32 i32))', "exports no function run"),
        (f'{MEMORY} (global (export "run") i32 (i32.const 0))', "exports no function run"),
        (f'{MEMORY} (func (export "run") (param i32))', "is not run"),
        (f'{MEMORY} (func (export "run") (param i32 i64 i32))', "is not run"),
        (
            f'{MEMORY} (func (export "run") (param i32 i32) (result i32) i32.const 0)',
            "is not run",
        ),
    ],
)
def test_what_is_no_kernel(body: str, message: str) -> None:
    with pytest.raises(WasmError, match=message):
        kernel_pointers(wat(body))


def test_every_cut_is_refused() -> None:
    # Custom sections and code after the export section do not matter here: cut before them.
    data = wat(f"{MEMORY} {RUN}")
    for n in range(data.index(b"run") + 4):
        with pytest.raises(WasmError):
            kernel_pointers(data[:n])


def test_a_number_without_end() -> None:
    with pytest.raises(WasmError, match="too long"):
        read(b"\0asm\1\0\0\0\1" + b"\x80" * 12)
