"""Modules of one function: valid, and complete for an engine."""

import subprocess
from pathlib import Path

import pytest
import wasmtime
from wasm_builder import END, ifs, nops, op
from wasm_builder import module as build

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.inspection.cost.isolated import isolate
from nnjit_studio.support.programs import find_program
from nnjit_studio.wasm_file.module import read

EVERYTHING = """(module
  (import "env" "given" (func $given (param i32) (result i32)))
  (import "env" "base" (global $base i32))
  (memory 1)
  (table 4 funcref)
  (global $count (mut i32) (i32.const 7))
  (elem (i32.const 0) func $twice $given)
  (data $text "abc")
  (type $unary (func (param i32) (result i32)))
  (func $unused (result f64) f64.const 1)
  (func $twice (param i32) (result i32) local.get 0 call $given call $given)
  (func $all (export "all") (param i32) (result i32)
    i32.const 0 i32.const 0 i32.const 3 memory.init $text
    ref.func $twice drop
    local.get 0 call $twice
    global.get $count i32.add
    i32.const 1 call_indirect (type $unary)
    global.get $base i32.add
    call $all)
)"""


def from_text(text: str, folder: Path) -> bytes:
    (folder / "m.wat").write_text(text)
    subprocess.run(
        [str(find_program("wasm-tools")), "parse", folder / "m.wat", "-o", folder / "m.wasm"],
        check=True,
    )
    return (folder / "m.wasm").read_bytes()


def test_a_function_keeps_what_it_needs_and_no_more(tmp_path: Path) -> None:
    module = read(from_text(EVERYTHING, tmp_path))
    engine = wasmtime.Engine()
    index = module.defined[-1]
    alone, stub = isolate(module, index)
    for data in (alone, stub):
        wasmtime.Module.validate(engine, data)
    found = read(alone)
    assert len(found.bodies) == 2, "the function and a stub of the one that it calls"
    assert found.bodies[0].end - found.bodies[0].start == len(module.body(index))
    assert len(stub) < len(alone)
    assert found.imports == module.imports


def test_every_function_of_a_module_can_stand_alone(tmp_path: Path) -> None:
    module = read(from_text(EVERYTHING, tmp_path))
    engine = wasmtime.Engine()
    for index in module.defined:
        for data in isolate(module, index):
            wasmtime.Module.validate(engine, data)


def test_a_call_leads_to_the_function_that_it_named() -> None:
    caller = b"\0" + op("local.get", 0) * 2 + op("call", 2) + END
    module = read(build([nops(3), caller, ifs(2, 3), nops(1)], {}))
    found = read(isolate(module, 1).module)
    assert len(found.bodies) == 2
    assert found.body(0) == caller.replace(op("call", 2), op("call", 1))


def test_what_cannot_be_decoded_is_refused() -> None:
    module = read(build([b"\0\xfd\xff\xff\xff\x7f" + END], {}))
    with pytest.raises(WasmError):
        isolate(module, 0)
