import assert from "node:assert/strict";
import { test } from "node:test";

import { peakRate } from "../../../resources/studio/measure/probe.js";
import { OwnClock } from "../clock.js";
import { kernel } from "../wasm.js";

test("a pause of the machine while the length of a sample is found leaves a peak", async (t) => {
  const clock = new OwnClock();
  clock.timeKernels(t, 1e-5);
  let looks = 0;
  const now = () => {
    if (looks++ < 4) clock.spend(10); // the first two batches seem long
    return Math.floor(clock.ms * 10) / 10;
  };
  const rate = await peakRate(kernel(0, () => []), 32, now);
  const true_rate = 32 / 1e-5 / 1e6;
  assert.ok(Math.abs(rate / true_rate - 1) < 0.05, `${rate} GFLOP/s`);
});
