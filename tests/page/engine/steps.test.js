import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../../../resources/engine/engine.js";
import { quantile } from "../../../resources/engine/quantile.js";
import { repeatable, timeSteps } from "../../../resources/engine/steps.js";
import { checkRequest } from "../../../resources/studio/messages.js";
import { addKernel, f32, floats, header, planOf, rowAddKernel } from "../wasm.js";

const [K, N] = [3, 5];
const input = [{ name: "x", dtype: "f32", shape: [K], data: f32(10, 20, 30) }];
const sums = Array.from({ length: K * N }, (_, i) => 10 * (Math.floor(i / N) + 1) + i);

async function ready() {
  const engine = new Engine();
  engine.load(planOf(K, N));
  engine.setWeights(64, f32(...Array.from({ length: K * N }, (_, i) => i)));
  const kernels = [header("rowadd", K * N), header("add", K * N)];
  await engine.register(kernels.map((k, i) => ({ ...k, bytes: [rowAddKernel(K, N, 0), addKernel][i] })));
  return engine;
}

test("a tap shows what a step wrote, in the order asked for, and no outputs come", async () => {
  const taps = [
    { step: 1, buffer: 3, offset: 0, nbytes: 4 * K * N },
    { step: 0, buffer: 2, offset: 4, nbytes: 8 },
    { step: 0, buffer: 3, offset: 0, nbytes: 4 },
  ];
  const { outputs, taps: copies } = (await ready()).infer(input, { runs: 5, taps });
  assert.deepEqual(outputs, []);
  assert.deepEqual(floats(copies[0]), sums.map((s) => 2 * s));
  assert.deepEqual(floats(copies[1]), sums.slice(1, 3));
  assert.deepEqual(floats(copies[2]), [0]); // the second step has not run yet
});

test("taps outside the plan are refused", async () => {
  const engine = await ready();
  for (const wrong of [{ step: 2 }, { step: -1 }, { step: 0.5 }, { buffer: 9 }, { nbytes: 61 }, { offset: 58 }])
    assert.throws(() => engine.infer(input, { taps: [{ step: 0, buffer: 2, offset: 0, nbytes: 4, ...wrong }] }), /nothing to copy/);
});

test("short steps are repeated until the clock sees them, and the result stays", async () => {
  const { steps_ms, steps_iqr_ms, outputs } = (await ready()).infer(input, { runs: 3, profile: true, least_step_ms: 0.5 });
  assert.ok(steps_ms.every((ms) => ms > 0));
  assert.ok(steps_iqr_ms.every((ms) => ms >= 0));
  assert.deepEqual(floats(outputs[0].data), sums.map((s) => 2 * s));
});

test("a step's time is its batch's over its runs; one that may not repeat runs once", () => {
  let clock = 0;
  const ran = [0, 0, 0];
  const seen = [];
  const steps = [0.25, 0.25, 7].map((ms, i) => () => {
    clock += ms;
    ran[i]++;
  });
  assert.deepEqual(timeSteps(steps, [true, false, true], 1, (i) => seen.push(i), () => clock), [0.25, 0.25, 7]);
  assert.deepEqual(ran, [4, 1, 1]);
  assert.deepEqual(seen, [0, 1, 2]);
});

test("a step whose arguments overlap in the arena, or that appends, may not repeat", () => {
  const plan = planOf(K, N);
  assert.deepEqual(repeatable(plan), [true, true]);
  plan.buffers[3].offset = plan.buffers[2].offset;
  assert.deepEqual(repeatable(plan), [true, false]);
  plan.steps[0].op = "append";
  assert.deepEqual(repeatable(plan), [false, false]);
});

test("quantiles are interpolated", () => {
  assert.equal(quantile([4, 1, 3, 2], 0.5), 2.5);
  assert.equal(quantile([1, 2, 3, 4, 5], 0.25), 2);
  assert.equal(quantile([7], 0.75), 7);
});

test("the page refuses an inference with malformed taps", () => {
  const infer = { type: "infer", id: 1, inputs: [], runs: 1, profile: false };
  checkRequest(infer, []);
  checkRequest({ ...infer, least_step_ms: 0.1, taps: [{ step: 0, buffer: 0, offset: 0, nbytes: 0 }] }, []);
  assert.throws(() => checkRequest({ ...infer, taps: [{ step: 0 }] }, []), /tap 0.*"buffer"/);
  assert.throws(() => checkRequest({ ...infer, taps: 3 }, []), /"taps" \(array\?\)/);
  assert.throws(() => checkRequest({ ...infer, least_step_ms: "1" }, []), /least_step_ms/);
});
