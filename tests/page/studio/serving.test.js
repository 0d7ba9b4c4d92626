import assert from "node:assert/strict";
import { test } from "node:test";
import { Serving } from "../../../resources/studio/serving.js";

/** Time that passes only where someone waits, a gate, and a model that takes `ms` of it. */
function stage({ ms = 10, interval_ms = 0, budget = 0.05, core_free = false, wants = () => false } = {}) {
  let t = 0;
  const log = [];
  const gate = {
    open: true,
    busy: false,
    open_ms: 0,
    get waiting() {
      return wants();
    },
    free: () => (gate.open = true),
    shut: () => (gate.open = false),
    slice: async (slice_ms) => {
      log.push(["slice", slice_ms]);
      t += slice_ms;
      gate.open_ms += slice_ms;
    },
  };
  const turn = () => new Promise((r) => setImmediate(r));
  const stages = { ms, fail: false };
  const infer = async () => {
    await turn();
    if (stages.fail) throw new Error("trap");
    t += stages.ms;
  };
  const sleep = async (more) => {
    await turn();
    t += more;
  };
  const serving = new Serving({ infer, gate, interval_ms, budget, core_free }, { now: () => t, sleep });
  const run = async (count) => {
    const all = { latencies_ms: [], generations: [], touched: [] };
    while (all.latencies_ms.length < count) {
      await turn();
      const seen = serving.take();
      if (seen.error) throw new Error(seen.error);
      for (const name of Object.keys(all)) all[name].push(...seen[name]);
    }
    return all;
  };
  return { serving, gate, log, run, stages, now: () => t };
}

test("back to back, each inference is timed from request to answer", async () => {
  const { serving, run, log } = stage();
  await serving.start();
  const { latencies_ms, touched } = await run(50);
  await serving.stop();
  assert.ok(latencies_ms.every((ms) => ms === 10));
  assert.ok(!touched.includes(true));
  assert.deepEqual(log, []);
});

test("an inference that waits for a slice is charged the wait, and few wait", async () => {
  const { serving, run, log } = stage({ wants: () => true });
  await serving.start();
  const { latencies_ms, touched } = await run(1000);
  await serving.stop();
  const slow = latencies_ms.filter((ms) => ms > 10);
  assert.ok(slow.every((ms) => ms === 70));
  assert.ok(slow.length >= 20 && slow.length <= 45, `${slow.length} of 1000`);
  assert.ok(log.length >= slow.length);
  assert.equal(touched.filter(Boolean).length, slow.length);
});

test("a larger budget holds at once: what a slice costs is no longer slow", async () => {
  const { serving, run } = stage({ wants: () => true });
  await serving.start();
  const few = (await run(1000)).touched.filter(Boolean).length;
  serving.keep(7);
  const many = (await run(1000)).touched.filter(Boolean).length;
  await serving.stop();
  assert.ok(many > 3 * few, `${few}, then ${many} of 1000`);
});

test("at a rate, tuning uses the time in which no inference is due", async () => {
  const { serving, run, log } = stage({ interval_ms: 50, wants: () => true });
  await serving.start();
  const { latencies_ms } = await run(200);
  await serving.stop();
  assert.ok(latencies_ms.every((ms) => ms === 10), "nobody waits");
  assert.ok(log.length > 100 && log.every(([, ms]) => ms === 20));
});

test("without a budget the gate stays open", async () => {
  const { serving, gate, run, log } = stage({ budget: null, wants: () => true });
  await serving.start();
  await run(100);
  assert.equal(gate.open, true);
  await serving.stop();
  assert.deepEqual(log, []);
});

test("the gate is shut while it serves and open afterwards", async () => {
  const { serving, gate, run } = stage();
  await serving.start();
  await run(3);
  assert.equal(gate.open, false);
  await serving.stop();
  assert.equal(gate.open, true);
});

test("a held gate stops tuning at once, with a budget or without", async () => {
  for (const budget of [0.05, null]) {
    const { serving, gate, run, log } = stage({ budget, wants: () => true });
    await serving.start();
    await run(100);
    serving.hold(true);
    await run(2); // what was granted before
    const before = log.length;
    await run(300);
    assert.equal(log.length, before);
    assert.equal(gate.open, false);
    serving.hold(false);
    await run(300);
    assert.ok(budget ? log.length > before : gate.open);
    await serving.stop();
  }
});

test("what the host does marks the inferences beside it", async () => {
  const { serving, run } = stage();
  await serving.start();
  await run(5);
  serving.touch(); // and then waits at the gate
  const { touched } = await run(20);
  await serving.stop();
  assert.equal(touched[0], true);
  assert.equal(touched.at(-1), false);
});

test("swaps count up the generation", async () => {
  const { serving, run, stages } = stage();
  await serving.start();
  await run(5);
  serving.swapped();
  stages.ms = 5;
  const { generations } = await run(5);
  await serving.stop();
  assert.equal(generations.at(-1), 1);
});

test("what else needs the engine waits for its turn, and gets it", async () => {
  const { serving, run } = stage();
  await serving.start();
  let ran = false;
  const result = serving.between(async () => ((ran = true), 7));
  await run(5);
  assert.equal(ran, false, "there is no reference yet");
  await run(100);
  assert.equal(await result, 7);
  const refused = assert.rejects(
    serving.between(() => Promise.reject(new Error("no"))),
    /no/,
  );
  await run(100);
  await refused;
  await serving.stop();
});

test("a model that fails stops serving, says so and lets tuning go on", async () => {
  const { serving, gate, run, stages } = stage();
  await serving.start();
  await run(5);
  const guest = serving.between(async () => 3);
  stages.fail = true;
  await assert.rejects(run(1000), /trap/);
  assert.equal(await guest, 3);
  assert.equal(gate.open, true);
  await serving.stop();
});

test("a model that fails at once is not served", async () => {
  const { serving, gate, stages } = stage();
  stages.fail = true;
  await assert.rejects(serving.start(), /trap/);
  assert.equal(gate.open, true);
});
