import assert from "node:assert/strict";
import { test } from "node:test";
import { importShared } from "../../../resources/engine/kernel.js";
import { addKernel, kernel } from "../wasm.js";

const IMPORTS = 8 + 2 + addKernel[9]; // where the import section begins: behind header and types
const size = addKernel[IMPORTS + 1];
const behind = IMPORTS + 2 + size;
const splice = (at, remove, ...bytes) => Uint8Array.from([...addKernel.slice(0, at), ...bytes, ...addKernel.slice(at + remove)]);
/** The kernel with its import section's payload replaced. */
const withImports = (...payload) => splice(IMPORTS, 2 + size, 2, payload.length, ...payload);
const NAMES = [3, ...Buffer.from("env"), 6, ...Buffer.from("memory")];

test("only the import changes, to a shared memory of any size", async () => {
  const shared = importShared(addKernel, "add");
  assert.equal(WebAssembly.validate(shared), true);
  assert.deepEqual(shared.slice(0, IMPORTS), addKernel.slice(0, IMPORTS));
  assert.deepEqual(shared.slice(-(addKernel.length - behind)), addKernel.slice(behind));
  assert.equal(shared.length, addKernel.length + 3);
  for (const maximum of [1, 100, 65536]) {
    const memory = new WebAssembly.Memory({ initial: 1, maximum, shared: true });
    await WebAssembly.instantiate(shared, { env: { memory } });
  }
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  await assert.rejects(WebAssembly.instantiate(shared, { env: { memory } }), WebAssembly.LinkError);
});

test("a view and a buffer give the same, and the source stays as it was", () => {
  const before = addKernel.slice();
  const padded = new Uint8Array(addKernel.length + 9);
  padded.set(addKernel, 5);
  const expected = importShared(addKernel, "add");
  assert.deepEqual(importShared(padded.subarray(5, 5 + addKernel.length), "add"), expected);
  assert.deepEqual(importShared(before.buffer, "add"), expected);
  assert.deepEqual(addKernel, before);
});

test("what is no kernel is refused by name and reason", () => {
  const body = () => [];
  for (const [bytes, reason] of [
    [Uint8Array.of(1, 2, 3), /conv .* no Wasm module/],
    [addKernel.slice(0, 8), /imports nothing/],
    [addKernel.slice(0, 10), /past its end/],
    [addKernel.slice(0, -1), /past its end/],
    [Uint8Array.from([...addKernel.slice(0, 8), 1, 0x80, 0x80, 0x80, 0x80, 0x80]), /past its end/],
    [kernel(3, body, { imports: [["env", "memory"], ["env", "log"]] }), /something else/],
    [kernel(3, body, { imports: [["env", "log"]] }), /something else/],
    [kernel(3, body, { imports: [["js", "memory"]] }), /something else/],
    [withImports(1, ...NAMES, 2, 1, 1, 1), /shared or bounded/],
    [withImports(1, ...NAMES, 2, 3, 1, 1), /shared or bounded/],
    [importShared(addKernel, "add"), /shared or bounded/],
    [withImports(1, ...NAMES, 2, 0, 1, 7), /malformed/],
    [withImports(1, ...NAMES, 2, 0, 0x81), /malformed/],
    [splice(behind, 0, ...addKernel.slice(IMPORTS, behind)), /two import sections/],
  ])
    assert.throws(() => importShared(bytes, "conv"), reason);
});
