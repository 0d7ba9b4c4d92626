import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../../../resources/engine/engine.js";
import { GpuEngine } from "../../../resources/engine/gpu/engine.js";
import { MixedEngine } from "../../../resources/engine/gpu/mixed/engine.js";
import { openNative } from "../../../resources/engine/gpu/native/device.js";
import { fakeGpu } from "../fake_gpu.js";
import { addKernel, doubleKernel, f32, floats, header } from "../wasm.js";

const view = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const kernels = { mul: ([x, w, y]) => view(y).set(view(x).subarray(0, 3).map((v, i) => v * view(w)[i])) };

const arena = (offset, region = "arena") => ({ region, offset, nbytes: 12, pack: null });
const spec = (name) => ({ name, shape: [3], dtype: "f32" });
const copy = (buffer, place) => ({ spec: { name: `copy of buffer ${buffer}`, shape: [12], dtype: "u8" }, buffer: place });
const call = (workload, args) => ({ op: "call", workload, args, node: workload });
const end = { op: "return", workload: "", args: [], node: "" };
const WEIGHT = arena(0, "weight");
/** y = x * w on the GPU, z = y + w in Wasm, and z * y on the GPU again: y stays there */
const PLAN = {
  version: 1,
  name: "mixed",
  inputs: [{ spec: spec("x"), buffer: 0 }],
  outputs: [{ spec: spec("y"), buffer: 2 }, { spec: spec("u"), buffer: 4 }],
  buffers: [arena(0), WEIGHT, arena(64), arena(128), arena(192)],
  steps: [call("mul", [0, 1, 2]), call("add", [2, 1, 3]), call("mul", [3, 2, 4]), end],
  weights_bytes: 64,
  arena_bytes: 256,
};
const part = (fields) => ({ ...PLAN, version: 2, state_bytes: 64, ...fields });
const MIXED = {
  version: 1,
  segments: [
    {
      device: "webgpu", first: 0, buffers: [0, 1, 2],
      plan: part({ outputs: [{ spec: spec("y"), buffer: 2 }, copy(2, 2)], buffers: [arena(0), WEIGHT, arena(0, "state")], steps: [call("mul", [0, 1, 2]), end] }),
    },
    {
      device: "wasm", first: 1, buffers: [2, 1, 3],
      plan: { ...PLAN, inputs: [copy(2, 0)], outputs: [copy(3, 2)], buffers: [arena(64), WEIGHT, arena(128)], steps: [call("add", [0, 1, 2]), end] },
    },
    {
      device: "webgpu", first: 2, buffers: [3, 2, 4],
      plan: part({ inputs: [copy(3, 0)], outputs: [{ spec: spec("u"), buffer: 2 }], buffers: [arena(0), arena(0, "state"), arena(64)], steps: [call("mul", [0, 1, 2]), end] }),
    },
  ],
};

function onGpu() {
  const dispatch = { code: "mul", entry: "main", workgroups: [1, 1, 1], bindings: ["a0", "a1", "a2"], access: ["read", "read", "read_write"] };
  const bytes = new TextEncoder().encode(JSON.stringify({ version: 1, scratch: [], requires: [], dispatches: [dispatch] }));
  return { workload: "mul", settings: "", tier: "wgsl", sha256: "m", panels: [], parallel_extent: 1, bytes };
}

async function ready(mixed = MIXED) {
  const device = await openNative(fakeGpu(kernels));
  const engine = new MixedEngine(new GpuEngine(device), new Engine());
  await engine.load(PLAN, mixed);
  await engine.setWeights(0, new Uint8Array([...f32(10, 20, 30), ...new Uint8Array(52)]));
  return { engine, device };
}
const input = [{ ...spec("x"), data: f32(1, 2, 3) }];

test("segments run in their order on both devices, and give the outputs of the whole plan", async () => {
  const { engine, device } = await ready();
  await assert.rejects(engine.infer(input), /No kernel is registered for mul/);
  await engine.register([onGpu(), { ...header("add", 3), tier: "simd128", bytes: addKernel }]);
  const before = device.counters.waits;
  const { outputs, runs_ms } = await engine.infer(input, { runs: 2 });
  assert.deepEqual(outputs.map(({ name, data }) => [name, floats(data)]), [["y", [10, 40, 90]], ["u", [200, 2400, 10800]]]);
  assert.deepEqual([runs_ms.length, device.counters.waits - before], [2, 4], "one readback for each GPU segment");
  assert.ok(engine.memoryBytes > 65536, "of Wasm and of the GPU");
});

test("where the GPU refuses a kernel, Wasm keeps its own too", async () => {
  const { engine } = await ready();
  const ours = { ...header("add", 3), tier: "simd128" };
  await engine.register([onGpu(), { ...ours, bytes: addKernel }]);
  const before = (await engine.infer(input)).outputs.map(({ data }) => floats(data));
  const refused = { ...onGpu(), sha256: "other", bytes: new TextEncoder().encode(new TextDecoder().decode(onGpu().bytes).replace('"mul"', '"gone"')) };
  await assert.rejects(engine.register([{ ...ours, bytes: doubleKernel }, refused]), { code: "gpu-kernel" });
  assert.deepEqual((await engine.infer(input)).outputs.map(({ data }) => floats(data)), before);
});

test("taps and times are those of the whole plan's steps", async () => {
  const { engine } = await ready();
  await engine.register([onGpu(), { ...header("add", 3), tier: "simd128", bytes: addKernel }]);
  const taps = [[2, 4], [1, 3], [0, 2], [1, 2], [1, 0]].map(([step, buffer]) => ({ step, buffer, offset: 4, nbytes: 8 }));
  const { taps: copies, outputs } = await engine.infer(input, { taps });
  assert.deepEqual(copies.map(floats), [[2400, 10800], [60, 120], [40, 90], [40, 90], [2, 3]]);
  assert.deepEqual(outputs, []);
  const { steps_ms, steps_threads } = await engine.infer(input, { profile: true, runs: 2 });
  assert.deepEqual([steps_ms.length, steps_threads], [3, [1, 1, 1]]);
});

test("inputs are checked against the whole plan, and a format that is not known is refused", async () => {
  const { engine } = await ready();
  await assert.rejects(engine.infer([]), /input "x" is missing/);
  await assert.rejects(ready({ ...MIXED, version: 2 }), /segments have version 2/);
});
