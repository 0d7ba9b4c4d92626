/** Tuning in production over many visits: what visitors notice, what is accepted, what is taken back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { OwnClock } from "../clock.js";
import { bundleOf, Device, p95 } from "../visits.js";

const VISITS = 50;
const LIMIT = 1.05;
/** A slow first guess for each workload; wrong kernels are the fastest of all. */
const SHAPES = [
  [{ alone: 4 }, { alone: 3.2 }, { body: "wrong", alone: 0.5 }, { alone: 2 }, { alone: 6 }, { body: "short", alone: 1 }],
  [{ alone: 2.5 }, { body: "trap", alone: 0.4 }, { alone: 1.1 }, { alone: 1.7 }, { body: "long", alone: 0.6 }],
  [{ alone: 1.5 }, { body: "swapped", alone: 0.3 }, { alone: 1.3 }, { alone: 1.0 }],
  [{ alone: 1.2 }, { alone: 1.19 }, { alone: 1.3 }, { alone: 0.5, placed: 2 }],
  [{ alone: 1 }, { alone: 0.5, placed: 0.5, used: 4 }, { alone: 0.9 }],
];
/** What the Studio would choose of them: right, and best for the visitor. */
const best = (/** @type {typeof SHAPES} */ shapes) =>
  shapes.reduce((sum, list) => sum + 3 * Math.min(...list.filter((k) => !k.body).map(({ alone, placed = alone, used = placed }) => used)), 0);

test(`over ${VISITS} visits no visitor is slower, no wrong kernel runs, and the end is what the Studio finds`, async (t) => {
  const device = new Device(t, new OwnClock(0.001), bundleOf(SHAPES), 7);
  const usual = await device.visit({ tuned: false, inferences: 400 });
  const [limit, first] = [LIMIT * p95(usual.latencies), device.truth({ w0: "s0", w1: "s0", w2: "s0", w3: "s0", w4: "s0" })];
  /** @type {import("../../../resources/sdk/tuning/tuner.js").Result[]} */
  const tried = [];
  let [rolledBack, wrong, worst, met] = [0, 0, 0, 0];
  let report;
  for (let i = 0; i < VISITS; i++) {
    const { latencies, wrong: outputs, tuning } = await device.visit();
    report = tuning.report();
    worst = Math.max(worst, p95(latencies) / p95(usual.latencies));
    wrong += outputs;
    met += tuning.tuner.inPlace.met;
    rolledBack += report.rolledBack;
    tried.push(...report.tried);
    assert.ok(p95(latencies) <= limit, `visit ${i}: ${p95(latencies)} of ${limit}`);
  }
  const end = device.truth(report.kernels);
  t.diagnostic(`first ${first.toFixed(1)} ms, end ${end.toFixed(1)} ms, best ${best(SHAPES).toFixed(1)} ms, worst p95 ${worst.toFixed(3)}x, ${rolledBack} rolled back, ${met} inferences met a slice, gain ${JSON.stringify(report.gain)}`);
  assert.equal(wrong, 0);
  assert.ok(end <= 1.05 * best(SHAPES), `${end} of ${best(SHAPES)}`);
  assert.equal(report.visits, VISITS);
  const ended = tried.filter((r) => r.outcome !== "unfinished"); // a visitor may leave in the middle
  const outcome = (workload, settings) => ended.filter((r) => r.workload === workload && r.settings === settings).map((r) => r.outcome);
  for (const [w, list] of SHAPES.entries())
    for (const [k, { body }] of list.entries())
      if (body) assert.match(outcome(`w${w}`, `s${k}`).join(), body === "trap" ? /^failed$/ : /^wrong$/, `${body} ${w} ${k}`);
  assert.deepEqual(outcome("w3", "s3"), ["slower in place"]); // fast alone, slow in the model
  assert.deepEqual(outcome("w4", "s1"), ["rolled back once", "rolled back"]); // fast in turns, slow for visitors
  assert.equal(rolledBack, 2);
  assert.ok(met > 0, "no inference came while the page's thread was used, so this has shown nothing");
  assert.ok(report.gain.low > 1 && report.gain.low <= first / end && report.gain.high >= first / end, JSON.stringify(report.gain));
});

test("the next visit begins with the winners, and nothing is tried twice", async (t) => {
  const device = new Device(t, new OwnClock(0.001), bundleOf([[{ alone: 4 }, { alone: 2 }, { alone: 5 }]]), 3);
  const { tuning } = await device.visit({ inferences: 200 });
  assert.equal(tuning.report().state, "done");
  assert.deepEqual(tuning.report().tried.map((r) => r.outcome), ["won", "slower"]);
  const { latencies, tuning: second } = await device.visit();
  assert.deepEqual([second.report().tried, second.report().kernels], [[], { w0: "s1" }]);
  assert.ok(Math.max(...latencies) < 1.1 * 6, String(Math.max(...latencies)));
});

test("a page may leave at any time, also while a kernel is on trial", async (t) => {
  const bundle = bundleOf([[{ alone: 4 }, { alone: 2 }, { alone: 5 }]]);
  const device = new Device(t, new OwnClock(0.001), bundle, 3);
  const states = [];
  for (let inferences = 1; inferences <= 60; inferences++) {
    device.forget();
    states.push((await device.visit({ inferences })).tuning.report().state);
  }
  assert.equal(states[0], "stopped");
  assert.equal(states.at(-1), "done");
});

test("a budget ends the work of a visit, and a page that leaves does", async (t) => {
  const device = new Device(t, new OwnClock(0.001), bundleOf(SHAPES), 5);
  const { tuning } = await device.visit({ options: { budgetMs: 50 }, inferences: 100 });
  assert.equal(tuning.report().state, "budget used");
  assert.ok(tuning.report().spentMs < 1000, String(tuning.report().spentMs));
  const { tuning: short } = await device.visit({ inferences: 2 });
  assert.equal(short.report().state, "stopped");
  assert.deepEqual(short.report().tried, []);
});
