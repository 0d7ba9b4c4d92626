import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Worker } from "node:worker_threads";
import { Gate, Turnstile } from "../../../resources/studio/gate.js";

const alive = setInterval(() => {}, 1000); // Node does not wait for Atomics.waitAsync
after(() => clearInterval(alive));

const FOREVER_MS = 600_000;
const PATIENCE_MS = 60_000;
const BATCH_MS = 5;

/** A clock that the page and its worker share; it moves only by what they say that they do. */
function sharedClock() {
  const words = new Int32Array(new SharedArrayBuffer(4));
  return { words, now: () => Atomics.load(words, 0), spend: (ms) => void Atomics.add(words, 0, ms) };
}
async function until(holds) {
  while (!holds()) await new Promise((r) => setTimeout(r, 1));
}

/** A worker that passes the gate `requests` times and works off batches of 5 ms. */
function measurer(gate, clock, requests, batches) {
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    import(workerData.url).then(({ Turnstile }) => {
      const { time, words, requests, batches, batch_ms } = workerData;
      const turnstile = new Turnstile(words, () => Atomics.load(time, 0));
      const times = [];
      for (let r = 0; r < requests; r++) {
        turnstile.enter();
        for (let b = 0; b < batches; b++) {
          const start = turnstile.now();
          Atomics.add(time, 0, batch_ms);
          times.push(turnstile.now() - start);
        }
        turnstile.leave();
      }
      parentPort.postMessage(times);
    });`;
  const url = new URL("../../../resources/studio/gate.js", import.meta.url).href;
  const workerData = { url, time: clock.words, words: gate.words, requests, batches, batch_ms: BATCH_MS };
  const worker = new Worker(code, { eval: true, workerData });
  return new Promise((resolve, reject) => worker.on("message", resolve).on("error", reject));
}

/** Opens the gate for slices until the worker is done: how many, the end of the last, times of batches. */
async function serve(gate, clock, done, slice_ms) {
  let slices = 0;
  let times = null;
  let over = Promise.resolve();
  done.then((given) => (times = given));
  for (;;) {
    await until(() => gate.waiting || times);
    if (times) return { slices, over, times };
    clock.spend(20); // an inference
    slices++;
    over = gate.slice(slice_ms, PATIENCE_MS).then(() => assert.ok(!gate.open));
    await Promise.race([over, done]);
  }
}

test("an open gate holds nobody up", () => {
  const clock = sharedClock();
  const gate = new Gate(clock.now);
  const turnstile = new Turnstile(gate.words, clock.now);
  turnstile.enter();
  assert.ok(gate.busy && gate.open && !gate.waiting);
  clock.spend(3);
  assert.equal(turnstile.now(), 3);
  turnstile.leave();
  assert.ok(!gate.busy);
});

test("work is cut into slices, and its clock stands still in between", async () => {
  const clock = sharedClock();
  const gate = new Gate(clock.now, FOREVER_MS);
  gate.shut();
  const { slices, times } = await serve(gate, clock, measurer(gate, clock, 1, 12), 12);
  assert.equal(slices, 5, "three batches end in a slice of 12 ms or with it; in the last one none is left");
  assert.deepEqual(times, Array(12).fill(BATCH_MS), "the time at the gate counts for no batch");
  assert.equal(clock.now(), 12 * BATCH_MS + 5 * 20);
  assert.equal(gate.open_ms, 12 * BATCH_MS);
});

test("a slice serves several requests", async () => {
  const clock = sharedClock();
  const gate = new Gate(clock.now, FOREVER_MS);
  gate.shut();
  const { slices, times } = await serve(gate, clock, measurer(gate, clock, 5, 1), 12);
  assert.deepEqual([slices, times.length], [2, 5], "three requests, then two");
});

test("a slice ends soon after the last request, however long it might be", async () => {
  const clock = sharedClock();
  const gate = new Gate(clock.now);
  gate.shut();
  const { over, times } = await serve(gate, clock, measurer(gate, clock, 1, 3), FOREVER_MS);
  assert.equal(times.length, 3);
  await over;
  assert.ok(clock.now() < FOREVER_MS);
});

test("a worker that is late is not waited for", async () => {
  const now = () => performance.now();
  const gate = new Gate(now);
  gate.shut();
  const start = now();
  await gate.slice(5, 30); // nobody is there to end it
  assert.ok(now() - start >= 25);
  assert.ok(gate.busy && !gate.open);
  const before = gate.open_ms;
  await new Promise((r) => setTimeout(r, 20));
  assert.ok(gate.open_ms > before, "its time goes on: else nothing would ever end a kernel that hangs");
  gate.forget();
  assert.ok(!gate.busy);
  await new Promise((r) => setTimeout(r, 20));
  const after = gate.open_ms;
  await new Promise((r) => setTimeout(r, 20));
  assert.equal(gate.open_ms, after);
});

test("a slice that the worker ends between the page's look and its wait is over", async () => {
  class Watched extends Gate {
    looks = 0;
    get open() {
      const open = super.open;
      if (this.looks++ === 0) this.shut();
      return open;
    }
  }
  const gate = new Watched(sharedClock().now, FOREVER_MS);
  gate.shut();
  const over = gate.slice(5, FOREVER_MS).then(() => "over");
  gate.forget(); // the request is done
  assert.equal(await Promise.race([over, new Promise((r) => setTimeout(r, 10_000, "waits"))]), "over");
  assert.ok(gate.looks > 1);
});

test("a worker that wakes after its slice was shut stands before the gate again", async () => {
  const latch = new Int32Array(new SharedArrayBuffer(4)); // 1 while the worker cannot go on
  const gate = new Gate(() => performance.now());
  gate.shut();
  const code = `
    const { workerData } = require("node:worker_threads");
    import(workerData.url).then(({ Turnstile }) => {
      const { latch, words } = workerData;
      const clock = () => (Atomics.wait(latch, 0, 1), performance.now());
      new Turnstile(words, clock).enter();
    });`;
  const url = new URL("../../../resources/studio/gate.js", import.meta.url).href;
  const worker = new Worker(code, { eval: true, workerData: { url, latch, words: gate.words } });
  try {
    await until(() => gate.waiting && !gate.busy);
    Atomics.store(latch, 0, 1);
    await gate.slice(5, 30);
    assert.ok(gate.busy && !gate.open, "the worker has not come");
    Atomics.store(latch, 0, 0);
    Atomics.notify(latch, 0);
    const start = performance.now();
    await until(() => !gate.busy || performance.now() - start > 10_000);
    assert.ok(gate.waiting && !gate.busy, "else no inference would ever count as quiet");
  } finally {
    await worker.terminate();
  }
});
