import assert from "node:assert/strict";
import { test } from "node:test";
import { GpuEngine } from "../../../resources/engine/gpu/engine.js";
import { CODES } from "../../../resources/engine/gpu/generation/likeliest.js";
import { openNative } from "../../../resources/engine/gpu/native/device.js";
import { fakeGpu } from "../fake_gpu.js";

const floats = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const bytesOf = (...values) => new Uint8Array(new Float32Array(values).buffer);
const map = (f) => ([x, w, y]) => floats(y).set(floats(x).subarray(0, 3).map((v, i) => f(v, floats(w)[i])));
const kernels = { add: map((v, w) => v + w), mul: map((v, w) => v * w), invalid: null };

const arena = (offset) => ({ region: "arena", offset, nbytes: 12, pack: null });
const spec = (name) => ({ name, shape: [3], dtype: "f32" });
/** y = f(x, w), z = f(y, w): the second result lies where the input was */
const PLAN = {
  version: 1,
  name: "tiny",
  inputs: [{ spec: spec("x"), buffer: 0 }],
  outputs: [{ spec: spec("y"), buffer: 2 }, { spec: spec("z"), buffer: 3 }],
  buffers: [arena(0), { region: "weight", offset: 0, nbytes: 12, pack: null }, arena(64), arena(0)],
  steps: [
    { op: "call", workload: "f", args: [0, 1, 2], node: "first" },
    { op: "call", workload: "f", args: [2, 1, 3], node: "second" },
    { op: "return", workload: "", args: [], node: "" },
  ],
  weights_bytes: 64,
  arena_bytes: 128,
};

/** A document whose parts can be replaced. */
function kernel(code, { bindings = ["a0", "a1", "a2"], ...rest } = {}) {
  const dispatch = { code, entry: "main", workgroups: [1, 1, 1], bindings, access: ["read", "read", "read_write"] };
  const document = { version: 1, scratch: [16], requires: [], dispatches: [dispatch], ...rest };
  const bytes = new TextEncoder().encode(JSON.stringify(document));
  return { workload: "f", settings: "", sha256: `${code}${bindings}`, panels: [], parallel_extent: 1, bytes };
}

async function open(options) {
  const gpu = fakeGpu(kernels, options);
  const device = await openNative(gpu);
  const engine = new GpuEngine(device);
  await engine.load(PLAN);
  await engine.setWeights(0, bytesOf(10, 20, 30));
  return { engine, device, fake: gpu.devices[0] };
}
const input = (...values) => [{ ...spec("x"), data: bytesOf(...values) }];
const results = ({ outputs }) => outputs.map(({ data }) => [...floats(data)]);

test("a plan runs, and all its outputs come in one readback", async () => {
  const { engine, device, fake } = await open();
  await assert.rejects(engine.infer(input(1, 2, 3)), /No kernel is registered for f/);
  const { memory_bytes } = await engine.register([kernel("add")]);
  assert.equal(memory_bytes, engine.memoryBytes);
  const [waits, submits] = [device.counters.waits, fake.submits];
  const result = await engine.infer(input(1, 2, 3));
  assert.deepEqual(results(result), [[11, 22, 33], [21, 42, 63]]);
  assert.deepEqual([device.counters.waits - waits, fake.submits - submits], [1, 1]);
  assert.equal(result.gpu.dispatches, device.counters.dispatches);
});

test("a step of a text that is queued behind others is one submission, the first begins early", async () => {
  const chosen = Object.fromEntries(CODES.map((code) => [code, () => {}]));
  const device = await openNative(fakeGpu({ ...kernels, ...chosen }));
  const engine = new GpuEngine(device);
  const [call, , end] = PLAN.steps;
  await engine.load({ ...PLAN, outputs: [PLAN.outputs[0]], steps: [...Array(70).fill(call), end] });
  await engine.setWeights(0, bytesOf(10, 20, 30));
  await engine.register([kernel("add")]);
  const follower = await engine.follower(input(1, 2, 3), { ids: "x", logits: "y" });
  const flushes = [];
  for (const first of [true, false, false]) {
    const before = device.counters.flushes;
    await follower.step(0, first);
    flushes.push(device.counters.flushes - before);
  }
  assert.deepEqual(flushes, [3, 1, 1]);
  follower.close();
});

test("inferences go on while a kernel is compiled, and run one kernel or the other", async () => {
  const { engine } = await open();
  await engine.register([kernel("add")]);
  let swapped = false;
  const swap = engine.register([kernel("mul")]).then(() => (swapped = true));
  const [added, multiplied] = [JSON.stringify([[11, 21, 31], [21, 41, 61]]), JSON.stringify([[10, 20, 30], [100, 400, 900]])];
  for (let after = 0; after < 3; after += Number(swapped)) {
    const before = swapped;
    const got = JSON.stringify(results(await engine.infer(input(1, 1, 1))));
    assert.ok(got === multiplied || (!before && got === added), got);
  }
  await swap;
});

test("outputs as large as their data says are refused by a sentence", async () => {
  const engine = new GpuEngine(await openNative(fakeGpu(kernels)));
  const outputs = [{ ...PLAN.outputs[0], found: { axis: 0, count: 0 } }];
  await assert.rejects(engine.load({ ...PLAN, outputs, version: 7 }), /as large as their data says, which run in Wasm alone/);
});

test("a kernel that is refused changes nothing, and is refused from then on", async () => {
  const { engine, device } = await open();
  await engine.register([kernel("add")]);
  const bytes = device.counters.buffer_bytes;
  const fails = [
    [kernel("nothing"), /does not compile: line 3/],
    [kernel("invalid"), /The GPU refuses the work/],
    [kernel("add", { bindings: ["a0", "a1", "a9"] }), /binds a9/],
    [kernel("add", { bindings: ["a0", "a1", "s3"] }), /s3 is nothing/],
    [kernel("add", { version: 9, bindings: ["a1", "a0", "a2"] }), /version 9/],
  ];
  for (const [bad, said] of fails) {
    await assert.rejects(engine.register([bad]), (e) => said.test(e.message) && e.code === "gpu-kernel" && e.workload === "f");
    await assert.rejects(engine.register([bad]), /was refused before/);
  }
  assert.equal(device.counters.buffer_bytes, bytes);
  assert.deepEqual(results(await engine.infer(input(1, 2, 3)))[0], [11, 22, 33]);
});

test("a swap keeps the buffers, and `only` drops other kernels", async () => {
  const { engine, device } = await open();
  await engine.register([kernel("add")]);
  const { buffers_made } = device.counters;
  await engine.register([kernel("mul")]);
  assert.equal(device.counters.buffers_made, buffers_made);
  assert.deepEqual(results(await engine.infer(input(1, 2, 3))), [[10, 40, 90], [100, 800, 2700]]);
  await engine.register([], { only: true });
  await assert.rejects(engine.infer(input(1, 2, 3)), /No kernel is registered/);
});

test("a profile has a time for every call, by the GPU's clock", async () => {
  const { engine } = await open();
  await engine.register([kernel("add")]);
  const result = await engine.infer(input(1, 2, 3), { runs: 3, profile: true });
  assert.equal(result.gpu_clock, "timestamp");
  assert.deepEqual(result.steps_ms, [0.001, 0.001]); // the fake's dispatches take 1000 ns
  assert.equal(result.runs_ms.length, 3);
  const { engine: blind } = await open({ features: [] });
  await blind.register([kernel("add")]);
  const timed = await blind.infer(input(1, 2, 3), { profile: true });
  assert.equal(timed.gpu_clock, "wall");
  assert.ok(timed.steps_ms.every((ms) => ms > 0));
});

test("taps are what a buffer held right after a step", async () => {
  const { engine } = await open();
  await engine.register([kernel("add")]);
  const { taps, outputs } = await engine.infer(input(1, 2, 3), { taps: [{ step: 1, buffer: 3, offset: 4, nbytes: 8 }, { step: 0, buffer: 2, offset: 2, nbytes: 3 }] });
  assert.deepEqual([...floats(taps[0])], [42, 63]);
  assert.deepEqual(taps[1], bytesOf(11, 22).slice(2, 5));
  assert.deepEqual(outputs, []);
  await assert.rejects(engine.infer(input(1, 2, 3), { taps: [{ step: 9, buffer: 3, offset: 0, nbytes: 4 }] }), /nothing to copy/);
});

test("weights come in parts of whole words; wrong inputs cost nothing", async () => {
  const { engine } = await open();
  await engine.setWeights(4, bytesOf(200));
  await assert.rejects(engine.setWeights(2, bytesOf(1)), /no whole words/);
  await assert.rejects(engine.setWeights(60, bytesOf(1, 2)), /outside the 64 bytes/);
  await engine.register([kernel("add")]);
  await assert.rejects(engine.infer([]), /"x" is missing/);
  assert.deepEqual(results(await engine.infer(input(1, 2, 3)))[0], [11, 202, 33]);
});

test("a lost device is an error with its name", async () => {
  const { engine, device } = await open();
  await engine.register([kernel("add")]);
  const running = engine.infer(input(1, 2, 3));
  device.lose();
  await assert.rejects(running, { code: "gpu-lost" });
  await assert.rejects(engine.infer(input(1, 2, 3)), { code: "gpu-lost" });
});

test("a plan runs as soon as it has its kernels, whatever another one lacks", async () => {
  const gpu = fakeGpu(kernels);
  const engine = new GpuEngine(await openNative(gpu));
  const other = { ...PLAN, steps: PLAN.steps.map((s) => ({ ...s, workload: s.workload && "g" })) };
  await engine.load(PLAN, { other });
  await engine.setWeights(0, bytesOf(10, 20, 30));
  await engine.register([kernel("add")]);
  assert.deepEqual(results(await engine.infer(input(1, 2, 3)))[0], [11, 22, 33]);
  await assert.rejects(engine.infer(input(1, 2, 3), { plan: "other" }), /No kernel is registered for g/);
  await engine.register([{ ...kernel("mul"), workload: "g" }]);
  assert.deepEqual(results(await engine.infer(input(1, 2, 3), { plan: "other" }))[0], [10, 40, 90]);
  const step = engine.stepper(input(1, 1, 1), "other");
  await step();
  assert.deepEqual([...floats((await engine.output("z", "other")).data)], [100, 400, 900]);
  assert.deepEqual(results(await engine.infer(input(1, 2, 3)))[0], [11, 22, 33]);
});

test("memory that is not there is said, and given back", async () => {
  const { engine, device } = await open({ limits: { maxBufferSize: 2048 } });
  const bytes = device.counters.buffer_bytes;
  await assert.rejects(engine.register([kernel("add", { scratch: [16, 4000] })]), { code: "gpu-memory" });
  assert.equal(device.counters.buffer_bytes, bytes);
  await assert.rejects(engine.infer(input(1, 2, 3)), /No kernel is registered/);
});
