"""Decoding and encoding, against the text format of wasm-tools."""

import subprocess

import pytest

from nnjit_studio.errors import WasmError
from nnjit_studio.support.programs import find_program
from nnjit_studio.wasm_file import edit, instructions
from nnjit_studio.wasm_file.flow.graph import basic_blocks
from nnjit_studio.wasm_file.flow.liveness import live_locals
from nnjit_studio.wasm_file.flow.nest import loops
from nnjit_studio.wasm_file.flow.vectors import vector_peaks
from nnjit_studio.wasm_file.module import Module, read
from nnjit_studio.wasm_file.opcodes import CODES, NAMES, SHAPES


def assemble(text: str) -> bytes:
    """A module from text, by wasm-tools, which does not ask whether it is valid."""
    done = subprocess.run(
        [str(find_program("wasm-tools")), "parse"], input=text.encode(), capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


ALL = sorted(NAMES)

OPERANDS = {
    "u": "0",
    "s": "-3",
    "4": "1.5",
    "8": "-2.5",
    "b": "1",
    "m": "offset=300 align=1",
    "V": "i32x4 1 -2 3 -4",
    "L": " ".join(map(str, range(16))),
    "t": "",
    "h": "func",
    "v": "0 0 0",
    "T": "(result i32)",
    "c": "(catch_all 0)",
    "r": "",
}
SPECIAL = {
    "block": "block end",
    "loop": "loop end",
    "if": "if end",
    "else": "if else end",
    "end": "block end",
    "try": "try end",
    "catch": "try catch 0 end",
    "catch_all": "try catch_all end",
    "delegate": "try delegate 0",
    "try_table": "try_table (catch_all 0) (catch 0 0) end",
    "select_typed": "select (result i32)",
    "call_indirect": "call_indirect (type 0)",
    "return_call_indirect": "return_call_indirect (type 0)",
    "resume": "resume 0 (on 0 0) (on 0 switch)",
    "resume_throw": "resume_throw 0 0 (on 0 0)",
    "resume_throw_ref": "resume_throw_ref 0 (on 0 0)",
    "atomic.fence": "atomic.fence",
    "ref.test": "ref.test (ref func)",
    "ref.test_null": "ref.test (ref null func)",
    "ref.cast": "ref.cast (ref func)",
    "ref.cast_null": "ref.cast (ref null func)",
    "ref.cast_desc_eq": "ref.cast_desc_eq (ref (exact 0))",
    "ref.cast_desc_eq_null": "ref.cast_desc_eq (ref null (exact 0))",
}


def text_of(code: int) -> str:
    name, shape = NAMES[code], SHAPES[code]
    if name in SPECIAL:
        return SPECIAL[name]
    if name.startswith("br_on_cast"):
        return f"{name} 0 (ref null any) (ref 0)"
    if code >> 16 == 0xFE and "b" in shape:
        return f"{name} seqcst " + " ".join("0" * (len(shape) - 1))
    if name.startswith(("memory.init", "table.init", "memory.copy", "table.copy")):
        return f"{name} 0 0"
    return " ".join([name, *(OPERANDS[letter] for letter in shape)])


@pytest.fixture(scope="module")
def all_opcodes() -> Module:
    functions = "\n".join(f"(func (type 0) {text_of(code)})" for code in ALL)
    return read(
        assemble(
            "(module (type (func)) (tag (type 0)) (memory 1) (table 1 funcref) (data) (elem func) "
            f"(global i32 (i32.const 0)) {functions})"
        )
    )


@pytest.mark.parametrize("n", range(len(ALL)), ids=[NAMES[code] for code in ALL])
def test_every_opcode_is_that_of_wasm_tools(all_opcodes: Module, n: int) -> None:
    body = all_opcodes.body(n)
    decoded = instructions.decode(body)
    assert ALL[n] in [i.opcode for i in decoded.instructions]
    again = b"".join(instructions.encode(i.opcode, i.immediates) for i in decoded.instructions)
    assert again == body[decoded.instructions[0].start :]


def test_immediates() -> None:
    text = """(module (memory 1) (memory 1) (func (result i64) (local i32 i32 v128)
      block (result i64) i64.const -5 i32.const 0 br_table 0 1 0 end
      i32.const 1 f32.load 1 offset=16 align=1 drop f64.const 1
      drop v128.const i64x2 1 2 drop i32.const -1 drop))"""
    body = instructions.decode(read(assemble(text)).body(0))
    assert body.locals == b"\x7f\x7f\x7b"
    assert body.groups == ((2, b"\x7f"), (1, b"\x7b"))
    found = {NAMES[i.opcode]: i.immediates for i in body.instructions}
    assert found["block"] == (-2,)
    assert found["i64.const"] == (-5,)
    assert found["br_table"] == (0, 1, 0)
    assert found["f32.load"] == (0, 16, 1)
    assert found["f64.const"] == (0x3FF0_0000_0000_0000,)
    assert found["v128.const"] == (2 << 64 | 1,)
    assert body.instructions[-1].end == len(read(assemble(text)).body(0))


def test_what_the_fast_pattern_leaves() -> None:
    """A long jump table, and numbers in more bytes than they need."""
    labels = bytes([0x0E, 0x80 | 72, 0x03]) + bytes(457)
    padded = b"\x20\x80\x80\x00" + b"\xfd\x8e\x80\x00" + b"\x28\x82\x00\x80\x00"
    body = b"\x00" + labels + padded + b"\x0b"
    decoded = instructions.decode(body)
    assert [NAMES[i.opcode] for i in decoded.instructions] == [
        "br_table",
        "local.get",
        "i8x16.swizzle",
        "i32.load",
        "end",
    ]
    assert len(decoded.instructions[0].immediates) == 457
    assert decoded.instructions[3].immediates == (2, 0, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x00\xff\x0b", "opcode 0xff is not known"),
        (b"\x00\xfd\xff\x7f\x0b", "is not known"),
        (b"\x00\x41", "too early|cut off"),
        (b"\x00\x0e\xff\xff\xff\x7f\x00\x0b", "longer than the function"),
        (b"\x00\x01", "does not end"),
        (b"\x01\xff\xff\xff\xff\x0f\x7f\x0b", "declares 4294967295 locals"),
        (b"\xff\xff\x03\x0b", "more declarations"),
    ],
)
def test_what_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(WasmError, match=message):
        instructions.decode(body)


PAIR = """(module (memory (export "m") 1) (global $g (mut i32) (i32.const 7))
  (func $twice (export "twice") (param i32) (result i32)
    local.get 0 i32.const 2 i32.mul global.get $g i32.add)
  (func $four (export "four") (param i32) (result i32)
    local.get 0 call $twice call $twice))"""


def run(data: bytes, name: str, *arguments: int) -> int:
    import wasmtime

    store = wasmtime.Store()
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, data), [])
    result: int = instance.exports(store)[name](store, *arguments)
    return result


def test_replace_and_add() -> None:
    module = read(assemble(PAIR))
    assert edit.replace(module, {}) == module.data
    assert edit.replace(module, {n: module.body(n) for n in module.defined}) == module.data
    tripled = module.body(0).replace(b"\x41\x02", b"\x41\x03")
    changed = edit.replace(module, {0: tripled})
    assert run(changed, "four", 1) == 3 * (3 * 1 + 7) + 7
    call_new = b"\x00\x20\x00\x10\x02\x10\x02\x0b"
    grown = edit.replace(module, {1: call_new}, [(module.type_index(0), tripled)])
    assert run(grown, "four", 1) == 3 * (3 * 1 + 7) + 7
    assert run(grown, "twice", 1) == 9
    with pytest.raises(WasmError, match="no function 2"):
        edit.replace(module, {2: tripled})


def test_lift() -> None:
    module = read(assemble(PAIR))
    alone = edit.lift(module, [1, 0], pages=1)
    assert run(alone, "f1", 3) == 12
    assert {e.name for e in read(alone).exports} == {"f0", "f1", "g0", "memory"}
    imported = read(edit.lift(module, [1]))
    assert [(i.name, i.kind) for i in imported.imports] == [("f0", "func"), ("memory", "memory")]
    table = read(assemble("(module (table 1 funcref) (func i32.const 0 call_indirect))"))
    with pytest.raises(WasmError, match="uses call_indirect"):
        edit.lift(table, [0])


LOOP = """(module (memory 1) (func (param i32 i32) (local v128 v128 v128)
  loop
    local.get 0 v128.load local.set 3
    local.get 2 local.get 3 local.get 3 f32x4.mul f32x4.add local.set 2
    local.get 0 i32.const 16 i32.add local.tee 0 local.get 1 i32.lt_u br_if 0
  end
  local.get 0 local.get 2 v128.store
  block loop local.get 1 br_if 1 br 0 end end))"""


def test_flow() -> None:
    module: Module = read(assemble(LOOP))
    body = instructions.decode(module.body(0))
    first, second = loops(body)
    assert first.single_block and first.innermost and first.depth == 1
    assert not second.single_block
    blocks = basic_blocks(body)
    live = live_locals(body, blocks)
    n = next(i for i, block in enumerate(blocks) if block.start == first.start + 1)
    assert n in blocks[n].successors
    assert live.live_in[n] == 0b111
    assert live.live_out[n] & 0b11111 == 0b111
    peaks = vector_peaks(module, 0, body)
    # The sum and the value just read; the product takes the place of the latter.
    assert peaks.loops == {first.start: 2, second.start: 0}
    assert peaks.changing == peaks.loops and peaks.spills == 0


def test_codes_are_names_inverted() -> None:
    assert all(CODES[name] == code for code, name in NAMES.items())
