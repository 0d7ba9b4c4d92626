/** A model for any size on a GPU: its kernels are compiled once and read their sizes from a block. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { GpuEngine } from "../../../resources/engine/gpu/engine.js";
import { openNative } from "../../../resources/engine/gpu/native/device.js";
import { GpuSizes } from "../../../resources/engine/gpu/open/sizes.js";
import { fakeGpu } from "../fake_gpu.js";

const floats = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const sizeOf = (block) => new Int32Array(block.buffer, block.byteOffset, 1)[0];
const kernels = { twice: ([x, y, block]) => floats(y).set(floats(x).subarray(0, sizeOf(block)).map((v) => 2 * v)), invalid: null };
kernels.thrice = ([x, y, block]) => floats(y).set(floats(x).subarray(0, sizeOf(block)).map((v) => 3 * v));

const n = [[1, "n"]];
const bytes = [[4, "n"]];
const buffer = () => ({ region: "arena", offset: 0, nbytes: bytes, pack: null });
/** y = 2 (2 x) */
const PLAN = {
  version: 6,
  name: "four times",
  dims: [{ name: "n", low: 1, high: 100, step: 1 }],
  example: { n: 3 },
  inputs: [{ name: "x", dtype: "f32", shape: [n], buffer: 0 }],
  outputs: [{ name: "y", dtype: "f32", shape: [n], buffer: 2 }],
  buffers: [buffer(), buffer(), buffer()],
  steps: [
    { op: "call", workload: "k", args: [0, 1], node: "first" },
    { op: "call", workload: "k", args: [1, 2], node: "second" },
    { op: "return", workload: "", args: [], node: "" },
  ],
  kernels: {},
  weights_bytes: 0,
};

const DISPATCH = { code: "twice", entry: "main", workgroups: [[[1, ["floordiv", [[1, "n"], [63]], 64]]], 1, 1], bindings: ["a0", "a1", "z"], access: ["read", "read_write", "uniform"] };

function kernel(changes = {}) {
  const document = { version: 2, sizes: [{ kind: "int", size: n }], scratch: [], requires: [], dispatches: [{ ...DISPATCH, ...changes }] };
  return { workload: "k", settings: "", sha256: JSON.stringify(changes), panels: [], parallel_extent: 1, bytes: new TextEncoder().encode(JSON.stringify(document)) };
}

async function open(plan = PLAN) {
  const gpu = fakeGpu(kernels);
  const device = await openNative(gpu);
  const sizes = new GpuSizes(/** @type {any} */ (plan), device);
  const engine = new GpuEngine(device);
  await engine.load(sizes.plan, {}, sizes);
  await engine.register([kernel()]);
  return { engine, device, sizes };
}

const input = (length) => [{ name: "x", dtype: "f32", shape: [length], data: new Uint8Array(Float32Array.from({ length }, (_, i) => i + 1).buffer) }];
const run = async (engine, length) => [...floats((await engine.infer(input(length))).outputs[0].data)];

test("inputs of any size run on kernels that were compiled once", async () => {
  const { engine, device } = await open();
  const { pipelines_made } = device.counters;
  for (const length of [2, 7, 1, 30, 7]) assert.deepEqual(await run(engine, length), Array.from({ length }, (_, i) => 4 * (i + 1)));
  assert.equal(device.counters.pipelines_made, pipelines_made);
});

test("buffers and bind groups stay once the largest size has come", async () => {
  const { engine, device, sizes } = await open();
  await run(engine, 80);
  await run(engine, 10);
  const { buffers_made, buffer_bytes, bind_groups_made } = device.counters;
  for (let length = 1; length <= 80; length += 7) await run(engine, length);
  assert.deepEqual([device.counters.buffers_made, device.counters.buffer_bytes, device.counters.bind_groups_made], [buffers_made, buffer_bytes, bind_groups_made]);
  assert.equal(sizes.memoryBytes, buffer_bytes);
  assert.ok(sizes.memoryAt({ n: 80 }) > sizes.memoryAt({ n: 10 }));
});

test("values stay where they lie while the buffers are large enough", async () => {
  const { engine, device } = await open();
  await run(engine, 90);
  const { buffers_made, bind_groups_made } = device.counters;
  for (const length of [89, 3, 50, 90]) assert.deepEqual(await run(engine, length), Array.from({ length }, (_, i) => 4 * (i + 1)));
  assert.deepEqual([device.counters.buffers_made, device.counters.bind_groups_made], [buffers_made, bind_groups_made]);
});

test("a kernel that replaces another runs at sizes that came before, too", async () => {
  const { engine } = await open();
  assert.deepEqual(await run(engine, 2), [4, 8]);
  await engine.register([kernel({ code: "thrice" })]);
  assert.deepEqual(await run(engine, 2), [9, 18]);
  assert.deepEqual(await run(engine, 4), [9, 18, 27, 36]);
});

test("buffers have room for larger sizes where it costs a twentieth of the memory", async () => {
  const weight = { region: "weight", offset: 0, nbytes: 40000, pack: null };
  const { engine, device, sizes } = await open({ ...PLAN, buffers: [...PLAN.buffers, weight], weights_bytes: 40000 });
  const { buffers_made, buffer_bytes, bind_groups_made } = device.counters;
  for (const length of [4, 50, 100]) assert.deepEqual(await run(engine, length), Array.from({ length }, (_, i) => 4 * (i + 1)));
  assert.deepEqual([device.counters.buffers_made, device.counters.buffer_bytes, device.counters.bind_groups_made], [buffers_made, buffer_bytes, bind_groups_made]);
  assert.ok(buffer_bytes > sizes.memoryAt({ n: 3 }) && buffer_bytes <= 1.05 * sizes.memoryAt({ n: 3 }));
});

test("buffers have no room that the GPU could not bind", async () => {
  const weight = { region: "weight", offset: 0, nbytes: 40000, pack: null };
  const { engine, device } = await open({ ...PLAN, buffers: [...PLAN.buffers, weight], weights_bytes: 40000 }, { maxStorageBufferBindingSize: 40000 });
  assert.deepEqual(await run(engine, 4), [4, 8, 12, 16]);
  assert.ok(device.counters.buffers_made > 0);
});

test("a GPU runs steps of its own where the plan has some", async () => {
  const gpu_steps = [{ op: "call", workload: "k", args: [0, 2], node: "both" }, PLAN.steps[2]];
  const { engine } = await open({ ...PLAN, gpu_steps });
  assert.deepEqual(await run(engine, 3), [2, 4, 6]);
});

test("a size out of range is refused with a sentence, and the session goes on", async () => {
  const { engine, sizes } = await open();
  await assert.rejects(engine.infer(input(101)), /The dimension n is 101; the model takes 1 to 100/);
  assert.deepEqual(await run(engine, 2), [4, 8]);
  assert.throws(() => sizes.memoryAt({ n: 0 }), /The dimension n is 0/);
  assert.equal([...sizes.warmInputs({ n: 50 })][0][0].data.length, 200);
});

test("a document that binds no block, or a document of one size, is refused", async () => {
  const { engine } = await open();
  await assert.rejects(engine.register([kernel({ access: ["read", "read_write", "read"] })]), /the binding z is nothing/);
  await assert.rejects(engine.register([kernel({ bindings: ["a0", "a1", "a2"] })]), /an access is unknown/);
  const old = { ...kernel(), sha256: "old", bytes: new TextEncoder().encode('{"version": 1}') };
  await assert.rejects(engine.register([old]), /it has version 1, this page reads 2/);
  assert.deepEqual(await run(engine, 3), [4, 8, 12]);
});
