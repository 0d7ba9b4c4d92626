import assert from "node:assert/strict";
import { test } from "node:test";
import { interleave, sample, warmUp } from "../../../resources/bench/rounds.js";

const policy = { rounds: 3, min_sample_ms: 10, warmup_ms: 30, max_warmup_ms: 500 };

/** A clock that only the contenders move, and contenders of given times. */
function world() {
  let t = 0;
  const log = [];
  const contender = (name, msOf) => {
    let calls = 0;
    return {
      name,
      threads: 1,
      output: async () => new Float32Array(1),
      release() {},
      async call() {
        t += msOf(calls++);
        log.push(name);
        return 0;
      },
    };
  };
  return { now: () => t, log, contender };
}

test("a sample is the mean of its calls", async () => {
  const { now, contender } = world();
  assert.equal(await sample(contender("a", (i) => i), 5, now), 2);
});

test("the warm-up goes on until the times are stable, then fills a sample", async () => {
  const { now, contender } = world();
  const calls = await warmUp(contender("a", (i) => Math.max(2, 40 / (i + 1))), policy, now);
  assert.equal(calls, 5);
  assert.ok(now() >= policy.warmup_ms);
});

test("a warm-up that never gets stable ends", async () => {
  const { now, contender } = world();
  let up = 1;
  await warmUp(contender("a", () => (up *= 1.3)), policy, now);
  assert.ok(now() >= policy.max_warmup_ms);
});

test("contenders take turns, and another begins each round", async () => {
  const { now, log, contender } = world();
  const samples = await interleave([contender("a", () => 10), contender("b", () => 20)], policy, now);
  assert.deepEqual(samples, { a: [10, 10, 10], b: [20, 20, 20] });
  assert.deepEqual(log.slice(-6), ["a", "b", "b", "a", "a", "b"]);
});

test("threads of the contender before come to rest first", async () => {
  const { now, contender } = world();
  const waits = [];
  const real = globalThis.setTimeout;
  globalThis.setTimeout = (resolve, ms = 0) => (waits.push(ms), resolve());
  try {
    await interleave([contender("a", () => 10), contender("b", () => 20)], policy, now);
    assert.equal(Math.max(...waits), 0);
    await interleave([contender("a", () => 10), { ...contender("b", () => 20), threads: 2 }], policy, now);
    await interleave([contender("a", () => 10), { ...contender("b", () => 20), threads: 4 }], policy, now);
  } finally {
    globalThis.setTimeout = real;
  }
  for (const ms of [50, 200]) assert.equal(waits.filter((waited) => waited === ms).length, 2 + 2 * policy.rounds);
});
