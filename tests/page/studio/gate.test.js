import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Worker } from "node:worker_threads";
import { Gate, Turnstile } from "../../../resources/studio/gate.js";

const alive = setInterval(() => {}, 1000); // Node does not wait for Atomics.waitAsync
after(() => clearInterval(alive));

const now = () => performance.now();
const pause = (ms) => new Promise((r) => setTimeout(r, ms));
async function until(holds) {
  while (!holds()) await pause(1);
}

/** A worker that passes the gate `requests` times and works off batches of 5 ms by its own clock. */
function measurer(gate, requests, batches) {
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    import(workerData.url).then(({ Turnstile }) => {
      const turnstile = new Turnstile(workerData.words, () => performance.now());
      const real = performance.now();
      const times = [];
      let own = 0;
      for (let r = 0; r < workerData.requests; r++) {
        turnstile.enter();
        for (let b = 0; b < workerData.batches; b++) {
          const start = turnstile.now();
          for (const end = performance.now() + 5; performance.now() < end; );
          times.push(turnstile.now() - start);
        }
        turnstile.leave();
      }
      parentPort.postMessage({ times, real_ms: performance.now() - real });
    });`;
  const url = new URL("../../../resources/studio/gate.js", import.meta.url).href;
  const worker = new Worker(code, { eval: true, workerData: { url, words: gate.words, requests, batches } });
  return new Promise((resolve, reject) => worker.on("message", resolve).on("error", reject));
}

test("an open gate holds nobody up", () => {
  const gate = new Gate(now);
  const turnstile = new Turnstile(gate.words, now);
  turnstile.enter();
  assert.ok(gate.busy && gate.open && !gate.waiting);
  assert.ok(Math.abs(turnstile.now() - now()) < 1);
  turnstile.leave();
  assert.ok(!gate.busy);
});

test("work is cut into slices, and its clock stands still in between", async () => {
  const gate = new Gate(now);
  gate.shut();
  const done = measurer(gate, 1, 12);
  let slices = 0;
  let finished = false;
  done.then(() => (finished = true));
  while (!finished) {
    await until(() => gate.waiting || finished);
    if (finished) break;
    await pause(20); // an inference
    await gate.slice(12, 200);
    assert.ok(!gate.open);
    slices++;
  }
  const { times, real_ms } = await done;
  assert.ok(slices >= 3, `${slices} slices`);
  assert.equal(times.length, 12);
  assert.ok(real_ms >= 60 + 20 * slices);
  const sum = times.reduce((a, b) => a + b);
  assert.ok(sum < real_ms - 20 * (slices - 1), "the time at the gate counts for no batch");
});

test("a slice serves several requests, and ends soon after the last", async () => {
  const gate = new Gate(now);
  gate.shut();
  const done = measurer(gate, 3, 1);
  await until(() => gate.waiting);
  const start = now();
  await gate.slice(5000, 6000);
  const { times } = await done;
  assert.equal(times.length, 3);
  assert.ok(now() - start < 4000);
  assert.ok(gate.open_ms >= 15);
});

test("a worker that is late is not waited for", async () => {
  const gate = new Gate(now);
  gate.shut();
  const start = now();
  await gate.slice(5, 30); // nobody is there to end it
  assert.ok(now() - start >= 25);
  assert.ok(gate.busy && !gate.open);
  gate.forget();
  assert.ok(!gate.busy);
});
