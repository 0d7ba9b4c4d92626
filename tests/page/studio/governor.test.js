import assert from "node:assert/strict";
import { test } from "node:test";
import { quantile } from "../../../resources/engine/quantile.js";
import { ENOUGH, Governor, SHARE, STARVED } from "../../../resources/studio/governor.js";

/** Seeded uniform numbers in [0, 1). */
function random(seed) {
  let state = seed;
  return () => (state = (state * 1664525 + 1013904223) % 2 ** 32) / 2 ** 32;
}

/**
 * Serves `count` inferences and does what the governor grants.
 * @returns latencies, and the ms that tuning was given
 */
function serve(governor, count, { alone, beside = (ms) => ms, generation = () => 0, touch = () => false }) {
  const latencies = [];
  let tuned_ms = 0;
  const ways = new Set();
  for (let i = 0; i < count; i++) {
    const way = governor.grant();
    ways.add(way);
    let ms = alone(i);
    let by = touch(i) ? "touched" : "";
    if (way === "between") {
      ms += governor.slice_ms;
      tuned_ms += governor.slice_ms;
      governor.taken();
      by = way;
    } else if (way === "alongside") {
      ms = beside(ms);
      tuned_ms += ms;
      by = way;
    }
    governor.answered(ms, generation(i), by);
    latencies.push(ms);
  }
  return { latencies, tuned_ms, ways };
}

test("without a free core slices keep p95 within the budget, and tuning gets its time", () => {
  const next = random(1);
  const alone = () => 15 + next();
  const { latencies, tuned_ms, ways } = serve(new Governor(0.05, false), 5000, { alone });
  const reference = quantile(Array.from({ length: 5000 }, alone), 0.95);
  assert.ok(quantile(latencies, 0.95) <= 1.05 * reference);
  assert.ok(tuned_ms > 5000 * SHARE * 60 * 0.8, `${tuned_ms} ms`);
  assert.ok(!ways.has("alongside"));
});

test("no inference waits longer than a slice, or than it takes by itself", () => {
  const short = serve(new Governor(0.05, false), 1000, { alone: () => 5 });
  assert.equal(Math.max(...short.latencies), 5 + 60);
  const long = serve(new Governor(0.05, false), 1000, { alone: () => 300 });
  assert.equal(Math.max(...long.latencies), 600);
  const longest = serve(new Governor(0.05, false), 1000, { alone: () => 3000 });
  assert.equal(Math.max(...longest.latencies), 4000);
});

test("a free core that costs nothing is used most of the time, but for quiet inferences in between", () => {
  const next = random(2);
  const { latencies, tuned_ms } = serve(new Governor(0.05, true), 5000, { alone: () => 15 + next() });
  const total = latencies.reduce((a, b) => a + b);
  assert.ok(tuned_ms > 0.7 * total && tuned_ms < 0.9 * total, `${tuned_ms / total}`);
});

test("a core that is not really free is found out, and the budget still holds", () => {
  const next = random(3);
  const alone = () => 15 + next();
  const { latencies, ways } = serve(new Governor(0.05, true), 5000, { alone, beside: (ms) => 1.3 * ms });
  assert.ok(ways.has("alongside") && ways.has("between"));
  const tail = latencies.slice(500); // the discovery is over
  assert.ok(quantile(tail, 0.95) <= 1.05 * 16);
});

test("slow inferences of other causes use up the budget, too", () => {
  const next = random(4);
  const noisy = () => (next() < 0.03 ? 40 : 15 + next());
  const calm = serve(new Governor(0.05, false), 5000, { alone: () => 15 + next() });
  const { latencies, tuned_ms } = serve(new Governor(0.05, false), 5000, { alone: noisy });
  assert.ok(tuned_ms < 0.6 * calm.tuned_ms);
  assert.ok(quantile(latencies, 0.95) <= 1.05 * 16);
});

test("a noisy machine does not end tuning", () => {
  const next = random(5);
  const wild = () => 10 ** (3 * next());
  const { tuned_ms } = serve(new Governor(0.05, false), 2000, { alone: wild });
  assert.ok(tuned_ms > 0);
  const governor = new Governor(0.05, false);
  serve(governor, ENOUGH, { alone: () => 10 });
  for (let i = 0; i < STARVED; i++) governor.answered(i % 4 ? 100 : 10, 0, i % 4 ? "touched" : "");
  assert.ok(governor.credit < 0);
  assert.equal(governor.grant(), "between");
});

test("the reference follows the kernels after a few inferences", () => {
  const governor = new Governor(0.05, false);
  serve(governor, 100, { alone: (i) => 100 + (i % 10) });
  assert.ok(Math.abs(governor.reference_ms - 109) < 0.5);
  governor.answered(20, 1, "");
  assert.equal(governor.reference_ms, null);
  assert.equal(governor.grant(), "");
  for (let i = 0; i < 5; i++) governor.answered(20, 1, "");
  assert.ok(Math.abs(governor.reference_ms - 20 * 1.04) < 1);
  for (let i = 0; i < ENOUGH; i++) governor.answered(21, 1, "");
  assert.ok(Math.abs(governor.reference_ms - 21) < 0.1);
});

test("nothing is granted before there is a reference, and touched inferences are none", () => {
  const governor = new Governor(0.05, true);
  for (let i = 0; i < 1000; i++) governor.answered(10, 0, "touched");
  assert.equal(governor.reference_ms, null);
  assert.equal(governor.grant(), "");
});

test("percentiles are those of NumPy", () => {
  assert.equal(quantile([3, 1, 2], 0.5), 2);
  assert.equal(quantile([1, 2, 3, 4], 0.5), 2.5);
  assert.ok(Math.abs(quantile([1, 2, 3, 4], 0.95) - 3.85) < 1e-12);
  assert.equal(quantile([7], 0.95), 7);
});

test("what is saved while tuning is held is not spent afterwards", () => {
  const governor = new Governor(0.05, false);
  for (let i = 0; i < ENOUGH; i++) governor.answered(10, 0, "");
  for (let i = 0; i < 5; i++) governor.answered(20, 0, "between"); // in debt
  const owed = governor.credit;
  for (let i = 0; i < 500; i++) governor.answered(10, 0, "", true);
  assert.equal(governor.credit, owed);
  assert.equal(governor.grant(), "");
});
