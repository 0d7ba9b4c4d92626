import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../../../resources/engine/engine.js";
import { checkRequest } from "../../../resources/studio/messages.js";
import { compareModels, trial, windowsOf } from "../../../resources/studio/trial.js";
import { addKernel, at, f32, floats, header, kernel, load, planOf, plus, rowAddKernel, store } from "../wasm.js";

const [K, N] = [3, 5];
const input = [{ name: "x", dtype: "f32", shape: [K], data: f32(10, 20, 30) }];
const clock = { now: () => performance.now(), quantum_ms: 0.001 };
const policy = { pairs: 3, min_sample_ms: 0.05, min_quanta: 1, warmup_ms: 1, max_ms: 200 };
const sum = (i) => plus(load(at(0, i)), load(at(1, i)));
/** An add that writes its result a thousand times. */
const slowAdd = kernel(3, (i) => Array(1000).fill(store(at(2, i), sum(i))).flat());

async function ready() {
  const engine = new Engine();
  engine.load(planOf(K, N));
  engine.setWeights(64, f32(...Array.from({ length: K * N }, (_, i) => i)));
  await engine.register([
    { ...header("rowadd", K * N), bytes: rowAddKernel(K, N, 0) },
    { ...header("add", K * N), bytes: addKernel },
  ]);
  return engine;
}
const median = (/** @type {number[]} */ values) => values.toSorted((a, b) => a - b)[values.length >> 1];

test("a slow kernel is slower in place, by whole runs and by windows, and the model stays as it was", async () => {
  const engine = await ready();
  const before = floats(engine.infer(input).outputs[0].data);
  const slow = [{ ...header("add", K * N), bytes: slowAdd }];
  const whole = await trial(engine, input, slow, policy, clock);
  assert.equal(whole.mode, "runs");
  for (const list of [whole.ms, whole.without_ms, whole.runs_ms, whole.runs_without_ms]) assert.equal(list.length, 3);
  assert.ok(median(whole.ms) > median(whole.without_ms));
  assert.ok(median(whole.runs_ms) >= median(whole.ms));
  const windows = await trial(engine, input, slow, { ...policy, min_quanta: 1e6, max_ms: 3 }, clock);
  assert.deepEqual([windows.mode, windows.runs_ms], ["windows", []]);
  assert.ok(median(windows.ms) > median(windows.without_ms));
  assert.deepEqual(floats(engine.infer(input).outputs[0].data), before);
});

test("weights lie again as the kernels of now want them, whatever was tried", async () => {
  const engine = await ready();
  const before = floats(engine.infer(input).outputs[0].data);
  const packed = [{ ...header("rowadd", K * N, [[1, 4]]), bytes: rowAddKernel(K, N, 4) }];
  await trial(engine, input, packed, policy, clock);
  assert.deepEqual(floats(engine.infer(input).outputs[0].data), before);
  const traps = [{ ...header("rowadd", K * N, [[1, 4]]), bytes: kernel(3, () => [0x00]) }];
  await assert.rejects(trial(engine, input, traps, policy, clock), /unreachable/);
  assert.deepEqual(floats(engine.infer(input).outputs[0].data), before);
});

test("a window begins before its step, and one that would keep too much begins at it", async () => {
  const plan = planOf(K, N);
  const addresses = plan.buffers.map((_, i) => 64 * i);
  const loaded = /** @type {any} */ ({ plan, addresses });
  const [window] = windowsOf(loaded, [1]);
  assert.deepEqual([window.first, window.step], [0, 1]);
  const arena = new Set(plan.steps.flatMap(({ args }) => args).filter((b) => plan.buffers[b].region !== "weight"));
  assert.equal(window.saved.length, arena.size);
  plan.buffers[2].nbytes = 2 ** 27;
  assert.equal(windowsOf(loaded, [1])[0].first, 1);
});

test("a workload that the plan does not call cannot be tried", async () => {
  const engine = await ready();
  await assert.rejects(trial(engine, input, [{ ...header("mul", 1), bytes: addKernel }], policy, clock), /no workload mul/);
});

test("the page refuses a malformed trial", () => {
  const request = { type: "trial", id: 1, inputs: [], kernels: [header("add", 1)], policy: { ...policy, early_stop_ratio: 3 } };
  checkRequest(request, [new Uint8Array(1)]);
  assert.throws(() => checkRequest(request, []), /needs 1 blobs/);
  assert.throws(() => checkRequest({ ...request, policy: {} }, [new Uint8Array(1)]), /trial, policy/);
});

test("two forms of a model are compared whole, each in its own memory", async () => {
  const [engine, slow] = [await ready(), await ready()];
  await slow.register([{ ...header("add", K * N), bytes: slowAdd }]);
  const before = floats(engine.infer(input).outputs[0].data);
  const found = compareModels(engine, slow, input, policy, clock);
  assert.deepEqual([found.mode, found.ms.length, found.without_ms.length], ["models", 3, 3]);
  assert.ok(median(found.ms) > median(found.without_ms));
  assert.deepEqual(floats(engine.infer(input).outputs[0].data), before);
  assert.deepEqual(floats(slow.infer(input).outputs[0].data), before);
});
